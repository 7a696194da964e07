"""Checks while the machine is against them: it stops, it has no descriptors left, everything changes at once."""
import contextlib
import signal
import time

from health.support import *  # noqa: F403


def a_machine_that_stops_for_a_while_blames_no_server(binary, folder):
    """A virtual machine that is moved stands still for seconds, in the middle of checks. Thereafter all their deadlines are over,
    and what the servers said is there, but was not heard."""
    def answer(connection):
        with connection, contextlib.suppress(OSError):
            connection.recv(1000)
            time.sleep(0.15)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
    server, count = Listening(answer), 20
    servers = "\n".join(f"    server s{number} 127.0.0.1:{server.port} check inter 200ms fall 1" for number in range(count))
    sections = f"backend b\n    option httpchk\n    timeout check 600ms\n{servers}\n"
    with Scene(binary, folder, sections) as scene:
        assert wait_until(lambda: server.count >= 2 * count)
        for _ in range(3):
            heard = server.count
            scene.program.send(signal.SIGSTOP)
            time.sleep(1.5)
            scene.program.send(signal.SIGCONT)
            assert wait_until(lambda: server.count >= heard + 3 * count), (server.count, heard)
        figures = [scene.stat("b", f"s{number}", "status", "chkfail", "chkdown") for number in range(count)]
    assert figures == [("UP", "0", "0")] * count, figures


def a_server_that_is_gone_is_found_out_however_late(binary, folder):
    """The second look decides: who does not answer then is down."""
    server = Listening(lambda connection: time.sleep(30))
    sections = f"backend b\n    option httpchk\n    timeout check 2s\n    server s 127.0.0.1:{server.port} check inter 100ms fall 1\n"
    with Scene(binary, folder, sections) as scene:
        assert wait_until(lambda: server.count == 1)
        scene.program.send(signal.SIGSTOP)
        time.sleep(3)
        scene.program.send(signal.SIGCONT)
        scene.expect("b", "s", status="DOWN", check_status="L7TOUT", chkfail="1")
        assert server.count >= 2, server.count


def requests(port, count):
    """How long each of some requests took over one connection, in milliseconds, sorted."""
    spent = []
    with socket.create_connection(("127.0.0.1", port), 10) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            begun = time.perf_counter()
            client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert client.recv(1000).startswith(b"HTTP/1.1 200"), "no answer"
            spent.append((time.perf_counter() - begun) * 1000)
            time.sleep(0.002)
    return sorted(spent)


def a_storm_of_changes_keeps_no_request_waiting(binary, folder):
    """5,000 servers go down and come up each second, and the requests that are balanced among them take no 5 ms longer for it. The quarter
    that took longest is left out: it is the machine's."""
    def serve(connection):
        with connection, contextlib.suppress(OSError):
            while connection.recv(1000):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    server, checked, port = Listening(serve), Listening(), free_port()
    servers = "\n".join(f"    server s{number} 127.0.0.1:{server.port} check port {checked.port} inter 1s fall 1 rise 1" for number in range(5000))
    sections = f"""
frontend f
    mode http
    bind 127.0.0.1:{port}
    default_backend b
backend b
    mode http
    server always 127.0.0.1:{server.port}
{servers}
"""
    with Scene(binary, folder, sections, "nbthread 1\n    maxconn 1000\n    spread-checks 0") as scene:
        time.sleep(1)
        calm = requests(port, 300)
        stormy = []
        for turn in range(4):
            checked.open() if turn % 2 else checked.close()
            stormy += requests(port, 300)
        downs = sum(int(line.split(",")[21] or 0) for line in scene.ask("show stat").splitlines() if line.startswith("b,s"))
    assert downs >= 5000, downs
    stormy.sort()
    assert stormy[len(stormy) * 3 // 4] < calm[len(calm) * 3 // 4] + 5, (calm[::30], stormy[::120])
