"""What checks say and hear over their connections, and in which time."""
import contextlib

from health.support import *  # noqa: F403


def who_speaks_first_is_heard_at_once(binary, folder):
    """A server or an agent that speaks first learns at once that the connection stands: the handshake's last packet does not wait for
    anything that the check would say. Where it waited, a check took 200 ms."""
    def greet(connection):
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"220 up\r\n")
            connection.recv(100)
    server = Listening(greet)
    sections = f"""
backend greeting
    option tcp-check
    tcp-check expect string 220
    server s 127.0.0.1:{server.port} check inter 200ms
backend agent
    server s 127.0.0.1:{server.port} agent-check agent-port {server.port} agent-inter 200ms
"""
    with Scene(binary, folder, sections) as scene:
        for backend, column in (("greeting", "check_duration"), ("agent", "agent_duration")):
            # Once would do: the machine may be busy.
            in_time = wait_until(lambda: scene.stat(backend, "s", column)[0] not in ("", *map(str, range(100, 400))), 5)
            assert in_time, (backend, scene.stat(backend, "s", column))


def connections_that_follow_each_other_share_a_socket(binary, folder):
    """An HTTP check sends, hears and resets; the next one does so from the same socket, and each is a connection of its own."""
    seen = []

    def answer(connection):
        with connection, contextlib.suppress(OSError):
            request = connection.recv(1000)
            seen.append((connection.getpeername()[1], request))
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            connection.settimeout(2)
            # The check is done with it, and says so by a reset.
            with contextlib.suppress(ConnectionResetError):
                assert connection.recv(100) == b""
    server = Listening(answer)
    sections = f"backend b\n    option httpchk GET /up\n    server s 127.0.0.1:{server.port} check inter 100ms\n"
    with Scene(binary, folder, sections) as scene:
        assert wait_until(lambda: len(seen) >= 20, 10), seen
        scene.expect("b", "s", status="UP", check_status="L7OK", check_code="200")
    assert all(request == b"GET /up HTTP/1.0\r\n\r\n" for _, request in seen), seen
    assert len({port for port, _ in seen}) > 10, seen
