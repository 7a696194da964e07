"""Scheduling classes, and work that does not wait for a worker: the scheduler from the view of operators and clients."""
import os
import re
import socket
import threading
import time

import pytest

from lib.program import ANSWERING, TERM, USR1, ask, connects, request, wait_until
from process.activity import figure


@pytest.fixture
def served(start, folder, port):
    """Starts weir with an admin socket on the first worker. Returns the program and the path of the socket."""
    def with_words(words, more=""):
        path = os.path.join(folder.path, "cli")
        extra = f"stats socket {path} level admin thread 1\n    {words}"
        return start(ANSWERING.format(bind=f"127.0.0.1:{port}", text="hello", extra=extra, frontend="") + more, port), path
    return with_words


def tasks(path):
    """The number of tasks: the minimum of several readings, because closing connections are tasks, too."""
    return min(int(re.search(r"^Tasks: (\d+)", ask(path, "show info"), re.M)[1]) for _ in range(20))


def test_accepting_connections_and_status_queries_are_urgent_work(served, port):
    """R30: accepting connections and answering status queries come before requests already in service."""
    program, path = served("nbthread 1")
    first = figure(path, "run_urgent")
    asking = figure(path, "run_urgent") - first
    # At least one run of the acceptor and one of the session.
    assert asking >= 2, asking
    for _ in range(30):
        assert b"200" in request(port)
    accepting = figure(path, "run_urgent") - first - 2 * asking
    # Two may be accepted at once.
    assert accepting >= 20, (accepting, asking)
    assert program.process.poll() is None


def test_long_runtime_api_answers_are_heavy_work(served, port):
    """R31, R43, R44: an operator's long answer is generated in pieces, one per turn in the presence of other dumps;
    short answers are not heavy work."""
    backends = "".join(f"backend b{number}\n    server s 127.0.0.1:1\n" for number in range(100))
    _, path = served("nbthread 1", backends)
    ask(path, "show info")
    assert figure(path, "run_heavy") == 0, "short answers need one piece"
    size = len(ask(path, "show stat typed"))
    heavy = figure(path, "run_heavy")
    assert size > 500_000 and size // 50_000 <= heavy <= size // 8_000, (size, heavy)


def test_a_soft_stop_does_not_wait_for_a_busy_worker(served, port):
    """R54, R58: the soft stop is shared work. `grace` ends on time although the worker that began it is busy."""
    program, path = served("nbthread 2\n    grace 300ms\n    warn-blocked-traffic-after 1s")
    # An operator on the worker that receives signals.
    operator = socket.socket(socket.AF_UNIX)
    operator.settimeout(10)
    operator.connect(path)
    operator.sendall(b"prompt\nexpert-mode on\nshow threads\n")
    heard = b""
    while b"Thread 2" not in heard or not heard.endswith(b"\n> "):
        heard += operator.recv(65536)
    assert re.search(rb"\* Thread 1 :", heard), heard
    said = []
    threading.Thread(target=lambda: said.extend(iter(program.process.stdout.readline, "")), daemon=True).start()
    program.send(USR1)
    # Send the signal first, because a busy worker does not notice it.
    time.sleep(0.1)
    operator.sendall(b"debug dev loop 900\n")
    answered = threading.Event()
    threading.Thread(target=lambda: (operator.recv(100), answered.set()), daemon=True).start()
    # The other worker is woken by clients, and finds the expired deadline.
    assert wait_until(lambda: (connects(port), any("Proxy f stopped" in line for line in said))[1]), said
    assert not answered.is_set(), "it stopped only when the busy worker was back"
    assert answered.wait(10)
    operator.close()
    assert program.status(10) == 0


def test_show_info_counts_the_tasks_of_all_threads(served, port):
    """R6: each waiting client is a task, on any thread; it is counted while it is connected, and not afterwards."""
    _, path = served("nbthread 3")
    before, rounds = None, 0
    for _ in range(100):
        clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
        assert wait_until(lambda: "\nCurrConns: 60\n" in ask(path, "show info"))
        if before is not None:
            assert wait_until(lambda: tasks(path) == before + 60), (before, tasks(path))
        for client in clients:
            client.close()
        assert wait_until(lambda: "\nCurrConns: 0\n" in ask(path, "show info"))
        threads = re.findall(r"^tasks_spawned: .*\[(.*)\]", ask(path, "show activity"), re.M)[0].split()
        if before is not None:
            assert wait_until(lambda: tasks(path) == before), (before, tasks(path))
            rounds += 1
        elif all(int(spawned) > 10 for spawned in threads):
            # A thread that started late has its own tasks by now.
            before = min(tasks(path) for _ in range(20))
        if rounds == 3:
            break
    assert rounds == 3, threads


def test_sigterm_ends_a_soft_stop_that_waits_for_its_deadline(served, port):
    """R59, R67: shared work that waits for a deadline ends with the workers, and its deadline with it."""
    program, path = served("nbthread 2\n    grace 60s")
    before = tasks(path)
    program.send(USR1)
    assert wait_until(lambda: tasks(path) > before), "it begins"
    program.send(TERM)
    assert program.status(5) == -TERM, program.status(0)
