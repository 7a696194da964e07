"""Agents that send nothing, too much, garbage, or stop in the middle: an invalid answer changes nothing."""
import contextlib
import itertools
import os
import socket
import time

import pytest

from checks.support import Scene
from lib.origin import Server, end_with_reset, read_head
from lib.program import wait_until


def saying(text):
    """An agent that sends this text and closes."""
    return lambda connection: connection.sendall(text)


def resets(before):
    """An agent that sends this and resets the connection."""
    def serve(connection):
        connection.sendall(before)
        time.sleep(0.05)
        end_with_reset(connection)
    return serve


def drips(connection):
    """An agent that sends single bytes for ever, without a newline."""
    while True:
        connection.sendall(b"d")
        time.sleep(0.05)


INCOMPLETE = ("L7TOUT", "Ignoring incomplete line from agent")
# An agent's behaviour, the status of its check and its message; the same in HAProxy 3.2 unless a row has a note.
UNHEARD = {
    "megabyte": (saying(b"x" * 1_000_000), *INCOMPLETE),
    "long-line": (saying(b"down " + b"x" * 1_000_000 + b"\n"), *INCOMPLETE),
    "half-a-word": (saying(b"down"), *INCOMPLETE),
    "half-a-number": (saying(b"10%"), *INCOMPLETE),
    "zeros": (saying(b"\0" * 50 + b"\n"), *INCOMPLETE),
    "zero-within": (saying(b"down\0\n"), *INCOMPLETE),
    "drips": (drips, "L7TOUT", ""),
    "silent": (lambda connection: time.sleep(20), "L7TOUT", ""),
    "ends": (lambda connection: None, "L7RSP", "TCPCHK got an empty response at step 2"),
    # HAProxy: "Ignoring incomplete line from agent", or the error's name before its text.
    "resets": (resets(b"do"), "SOCKERR", "Connection reset by peer"),
    "ends-of-lines": (saying(b"\r\n\r\ndown\n"), "CHECKED", ""),
    "spaces": (saying(b"   \n"), "CHECKED", ""),
    "garbage": (saying(bytes(range(14, 28)) + b"\n"), "CHECKED", "agent reports an error : " + bytes(range(14, 28)).decode()),
    "no-word": (saying(b"down#why\n"), "CHECKED", "agent reports an error : down#why"),
    "signed": (saying(b"+5%\n"), "CHECKED", "agent reports an error : +5%"),
    "fraction": (saying(b"1.5%\n"), "CHECKED", "agent warns : Trailing garbage in weight string"),
    # HAProxy takes 276447231 from it.
    "limit": (saying(b"maxconn:99999999999999\n"), "CHECKED", "agent warns : Invalid maxconn value."),
}


def servers(agents):
    """Lines of servers with these agents."""
    return "\n".join(f"    server {name} 127.0.0.1:9 weight 100 agent-check agent-port {Server(serve).port} agent-inter 200ms rise 1 fall 1"
                     for name, serve in agents.items())


def test_invalid_agent_answers_leave_the_server_unchanged(binary, folder):
    sections = f"backend b\n    timeout check 400ms\n{servers({name: row[0] for name, row in UNHEARD.items()})}\n"
    with Scene(binary, folder, sections, "nbthread 1") as scene:
        descriptors = len(os.listdir(f"/proc/{scene.program.pid}/fd"))
        for name, (_, status, told) in UNHEARD.items():
            def found(name=name):
                values = scene.stat("b", name, "status", "weight", "slim", "agent_status", "last_agt")
                return (*values[:3], values[3].removeprefix("* "), values[4])
            assert wait_until(lambda: found() == ("no check", "100", "", status, told)), (name, found())
        time.sleep(2)
        now = len(os.listdir(f"/proc/{scene.program.pid}/fd"))
        assert now <= descriptors + len(UNHEARD) + 4, (descriptors, now)


def test_long_agent_answers_are_truncated_in_statistics(binary, folder):
    """A description fills a buffer, and statistics show its beginning. Upper-case words are accepted, and a weight beyond the limit is lowered to
    it."""
    agents = {"long": saying(b"stopped # " + b"y" * 10_000 + b"\n"), "huge": saying(b"99999999999999999999%\n"), "LOUD": saying(b"DOWN\n")}
    with Scene(binary, folder, f"backend b\n{servers(agents)}\n") as scene:
        scene.expect("b", "long", status="DOWN (agent)", agent_status="L7STS")
        assert 200 < len(scene.stat("b", "long", "last_agt")[0]) <= 256
        scene.expect("b", "huge", weight="256", agent_status="CHECKED", last_agt="")
        scene.expect("b", "LOUD", status="DOWN (agent)", last_agt="via agent : DOWN")


@pytest.mark.parametrize("kind", ["agent", "http"])
def test_a_state_is_visible_when_its_check_closes_the_connection(binary, folder, kind):
    """An agent that waits for the end of its connection can rely on the new state; so can a server."""
    seen, scenes, is_up = [], [], itertools.cycle([True, False])

    def serve(connection):
        goes_up, count = next(is_up), server.count
        with socket.socket(socket.AF_UNIX) as question:
            question.connect(scenes[0].cli)
            if kind == "agent":
                connection.sendall(b"up\n" if goes_up else b"down\n")
            else:
                read_head(connection)
                connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n" if goes_up else b"HTTP/1.1 500 No\r\n\r\n")
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(100):
                    pass
            question.sendall(b"show servers state b\n")
            line = b"".join(iter(lambda: question.recv(65536), b"")).decode().splitlines()[2]
        # On a busy machine the next check may have begun.
        if server.count == count:
            seen.append((goes_up, line.split()[5]))

    checks = "agent-check agent-port {port} agent-inter 20ms" if kind == "agent" else "check port {port} inter 20ms"
    option = "" if kind == "agent" else "    option httpchk\n"
    with Server(serve) as server:
        section = f"backend b\n{option}    server s 127.0.0.1:9 {checks.format(port=server.port)} rise 1 fall 1\n"
        scene = Scene(binary, folder, section)
        scenes.append(scene)
        with scene:
            assert wait_until(lambda: len(seen) >= 100, 30)
    assert all(state == ("2" if goes_up else "0") for goes_up, state in seen), seen
