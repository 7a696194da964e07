"""Request times without scheduling noise. Time in which threads were runnable but not running is subtracted."""
import contextlib
import os
import socket
import threading
import time


def threads(pid):
    """The threads of a process, for the functions here."""
    return [f"{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")]


def waits_ms(tasks):
    """Time in ms that each thread was runnable but not running. Skips threads that ended."""
    waits = {}
    for task in tasks:
        with contextlib.suppress(OSError), open(f"/proc/{task}/schedstat") as file:
            waits[task] = int(file.read().split()[1]) / 1e6
    return waits


def requests(port, count, tasks=(), path="/"):
    """Durations of some requests over one connection, in milliseconds, sorted, without the time that these threads or
    the client waited for a CPU. More threads may be added meanwhile."""
    spent, client = [], f"self/task/{threading.get_native_id()}"
    question = f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), 10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            before, begun = waits_ms([*tasks, client]), time.perf_counter()
            connection.sendall(question)
            assert connection.recv(1000).startswith(b"HTTP/1.1 200"), "no answer"
            took = (time.perf_counter() - begun) * 1000
            spent.append(took - sum(wait - before.get(task, wait) for task, wait in waits_ms([*tasks, client]).items()))
            time.sleep(0.002)
    return sorted(spent)
