"""Consequences of health checks: sessions that end, states that survive a reload, changes of checks by operators,
workers that run checks."""
import os
import re
import socket
import time

from checks.support import Scene
from lib.origin import Server
from lib.program import free_port, wait_until


def greet(connection):
    """A server that sends its name, and then nothing."""
    connection.sendall(b"hello")
    # Until the peer closes the connection.
    while connection.recv(100):
        pass


def session(port):
    """A session through the program, once the server has answered."""
    connection = socket.create_connection(("127.0.0.1", port), 5)
    assert connection.recv(5) == b"hello"
    return connection


def has_ended(connection, seconds=5.0):
    """Whether a session ends within the time."""
    connection.settimeout(seconds)
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_on_marked_down_shutdown_sessions_ends_sessions(binary, folder):
    server, checked = Server(greet), Server()
    port, other = free_port(), free_port()
    sections = "".join(f"""
listen {name}
    bind 127.0.0.1:{at}
    server s 127.0.0.1:{server.port} check port {checked.port} inter 200ms fall 1 rise 1 {option}
""" for name, at, option in [("ends", port, "on-marked-down shutdown-sessions"), ("stays", other, "")])
    with Scene(binary, folder, sections) as scene:
        with session(port) as ends, session(other) as stays:
            checked.close()
            assert has_ended(ends)
            scene.expect("stays", "s", status="DOWN")
            assert not has_ended(stays, 0.3)


def test_on_marked_up_shutdown_backup_sessions_ends_sessions(binary, folder):
    backup, server, checked = Server(greet), Server(greet), Server()
    checked.close()
    port = free_port()
    sections = f"""
listen l
    bind 127.0.0.1:{port}
    server s 127.0.0.1:{server.port} check port {checked.port} inter 200ms fall 1 rise 1 on-marked-up shutdown-backup-sessions
    server spare 127.0.0.1:{backup.port} backup
"""
    with Scene(binary, folder, sections) as scene:
        scene.expect("l", "s", status="DOWN")
        with session(port) as connection:
            assert (backup.count, server.count) == (1, 0)
            checked.listen()
            assert has_ended(connection)
        with session(port):
            assert (backup.count, server.count) == (1, 1)


def test_the_state_file_preserves_server_state_and_check_health(binary, folder):
    states = os.path.join(folder.path, "states")
    sections = """
backend b
    load-server-state-from-file global
    server dead 127.0.0.1:1 check inter 200ms fall 1 rise 2
    server tired 127.0.0.1:1 check inter 60s rise 2 fall 3 init-state fully-up
    server drained 127.0.0.1:1
"""
    extra = f"server-state-file {states}"
    with Scene(binary, folder, sections, extra) as scene:
        scene.expect("b", "dead", status="DOWN")
        scene.expect("b", "tired", status="UP 2/3")
        scene.ask("set server b/drained state drain")
        text = scene.ask("show servers state")
    with open(states, "w") as file:
        file.write(text)
    # Without a failure since the reload, it keeps its state.
    quiet = sections.replace("200ms", "60s")
    with Scene(binary, folder, quiet, extra + "\n    max-spread-checks 60s\n    spread-checks 0", name="second.cfg") as scene:
        assert scene.stat("b", "dead", "status") == ("DOWN",)
        assert scene.stat("b", "drained", "status") == ("DRAIN",)
        (level,) = re.findall(r"^\d+ b 2 tired (?:\S+ ){8}(\S+)", scene.ask("show servers state"), re.M)
        assert level in ("3", "2"), level


# A server: its words, the commands about it, and its row in `show servers state`: admin state, status, result, health
# and state of the check. From HAProxy 3.2.
STATES = {
    "plain": ("", (), "0 1 0 2 0"),
    "off": ("disabled", (), "5 1 0 0 8"),
    "maint": ("", ("maint",), "1 1 0 0 0"),
    "checked": ("check", (), "0 6 3 4 6"),
    "checkedoff": ("check disabled", (), "5 1 0 0 14"),
    "checkedoffready": ("check disabled", ("ready",), "4 6 3 4 6"),
    "checkedmaint": ("check", ("maint",), "1 6 3 0 14"),
    "checkedagain": ("check", ("maint", "ready"), "0 6 3 4 6"),
    "drained": ("check", ("drain",), "8 6 3 4 6"),
    "follows": ("track checkedmaint", (), "2 1 0 0 0"),
}


def test_show_servers_state_has_the_check_states_of_haproxy(binary, folder):
    """In maintenance a check is paused and its health is 0; after `state ready` the server is checked as before."""
    server = Server()
    lines = "".join(f"    server {name} 127.0.0.1:{server.port} {words} {'inter 200ms rise 2 fall 3' if 'check ' in words + ' ' else ''}\n"
                    for name, (words, *_) in STATES.items())
    with Scene(binary, folder, f"backend b\n{lines}") as scene:
        scene.expect("b", "checked", check_status="L4OK")
        scene.expect("b", "checkedagain", check_status="L4OK")
        scene.expect("b", "checkedmaint", check_status="L4OK")
        for name, (_, commands, _) in STATES.items():
            for state in commands:
                assert scene.ask(f"set server b/{name} state {state}") == "\n"
        assert "registered" in scene.ask(f"add server b/added 127.0.0.1:{server.port} check inter 200ms")
        expected = {name: told for name, (*_, told) in STATES.items()} | {"added": "1 1 0 0 2"}

        def told():
            rows = [line.split(" ") for line in scene.ask("show servers state b").splitlines() if " b " in line]
            return {row[3]: " ".join([row[6], *row[10:14]]) for row in rows}
        # A running check has a different state.
        assert wait_until(lambda: told() == expected, 5), told()


def say(connection):
    """Sends the byte that the check below expects."""
    connection.sendall(b"x")


def test_set_server_changes_the_address_and_port_of_checks(binary, folder):
    first, second = Server(say), Server(say)
    talks = Server(lambda connection: connection.sendall(b"drain\n"))
    sections = f"""
backend b
    option tcp-check
    tcp-check expect string x
    timeout check 3s
    server s 127.0.0.1:1 check port {first.port} inter 200ms fall 1 rise 1 agent-check agent-port 1 agent-inter 200ms
"""
    with Scene(binary, folder, sections) as scene:
        scene.expect("b", "s", status="UP", check_status="L7OK")
        scene.ask(f"set server b/s check-port {second.port}")
        assert wait_until(lambda: second.count > 1)
        scene.ask(f"set server b/s check-addr 127.0.0.2 port {second.port}")
        # That port is closed.
        scene.expect("b", "s", status="DOWN", check_status="L4CON")
        scene.ask(f"set server b/s check-addr 127.0.0.1 port {second.port}")
        scene.expect("b", "s", status="UP")
        scene.ask(f"set server b/s agent-port {talks.port}")
        scene.expect("b", "s", status="DRAIN (agent)")


def test_checks_move_to_less_loaded_workers(binary, folder):
    def slow(connection):
        # A check takes nearly its whole interval.
        connection.recv(100)
    server = Server(slow)
    servers = "\n".join(f"    server s{number} 127.0.0.1:{server.port} check inter 300ms fall 100" for number in range(4))
    sections = f"backend b\n    option tcp-check\n    tcp-check expect string never\n    timeout check 250ms\n{servers}\n"
    with Scene(binary, folder, sections, "nbthread 4\n    max-spread-checks 1ms") as scene:
        def figures(name):
            line = next(line for line in scene.ask("show activity").splitlines() if line.startswith(name))
            return [int(word) for word in re.findall(r"\d+", line.split("[", 1)[-1])]

        def is_even():
            return figures("check_active") == [1, 1, 1, 1] or max(figures("check_active")) <= 1
        assert wait_until(lambda: sum(figures("check_started")) > 40, 10), figures("check_started")
        # R90: after some intervals the checks are evenly spread.
        assert all(is_even() for _ in range(20)), figures("check_active")
        started = figures("check_started")
        assert all(count > 0 for count in started), started


def test_first_checks_are_spread_over_their_interval(binary, folder):
    """Each of 50 servers is checked once in the first interval, and not all at once."""
    moments = []

    def note(connection):
        moments.append(time.monotonic())
        connection.sendall(b"x")
    server = Server(note)
    servers = "\n".join(f"    server s{number} 127.0.0.1:{server.port} check inter 2s" for number in range(50))
    sections = f"backend b\n    option tcp-check\n    tcp-check expect string x\n{servers}\n"
    with Scene(binary, folder, sections):
        assert wait_until(lambda: len(moments) >= 50, 8), len(moments)
    first = sorted(moments)[:50]
    in_tenths = [sum(1 for moment in first if tenth <= (moment - first[0]) / 0.2 < tenth + 1) for tenth in range(10)]
    assert max(in_tenths) <= 20 and first[-1] - first[0] > 1, in_tenths
