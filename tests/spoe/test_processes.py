"""Engines and the processes of weir: reloads under load, starts as distributions do them, memory under a hostile agent."""
import os
import re
import subprocess
import time

import pytest

from lib.needs import needs_root
from lib.origin import Origin, read_all
from lib.program import Folder, Program, free_port, request, wait_until
from lib.spop import ACK, Agent, Frame, pairs, set_var
from master.support import USR2, Master

BENCH = os.path.join(os.path.dirname(__file__), "..", "..", "bench")
# A request without a verdict is refused, with the code of the failure.
CONFIGURATION = """
global
    stats socket {folder}/cli level admin
    {global_lines}
defaults
    mode http
    timeout connect 2s
    timeout client 5s
    timeout server 5s
frontend f
    bind 127.0.0.1:{port}
    filter spoe engine e config {folder}/engine.cfg
    http-request return status 500 hdr x "error %[var(txn.v.error)]" unless {{ var(txn.v.s) -m found }}
    http-request return status 200 hdr x generation{generation}
backend agents
    mode spop
    server a 127.0.0.1:{agent}
"""
ENGINE = """[e]
spoe-agent ag
    messages check
    option var-prefix v
    option set-on-error error
    timeout processing {timeout}
    use-backend agents
spoe-message check
    args path=path ip=src
    event on-frontend-http-request
"""


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """The folder of two programs in C: an agent that answers at once, and clients that send at fixed times."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("spop_agent", "paced"):
        subprocess.run(["cc", "-O2", "-pthread", "-o", folder / name, f"{BENCH}/{name}.c"], check=True)
    return folder


def write(folder, agent, port, generation=1, timeout="2s", global_lines=""):
    """Writes both files. Returns the path of the configuration."""
    folder.file("engine.cfg", ENGINE.format(timeout=timeout))
    text = CONFIGURATION.format(folder=folder.path, port=port, agent=agent, generation=generation, global_lines=global_lines)
    return folder.file("weir.cfg", text)


def test_reloads_under_load_lose_no_exchange(binary, programs, port):
    place = free_port()

    def configuration(folder, generation):
        """Without a verdict the connection is closed, which the clients count as a failure."""
        path = write(folder, place, port, generation)
        with open(path) as file:
            text = file.read()
        return folder.file("weir.cfg", re.sub(r"return status 500 .* unless", "reject unless", text))
    agent = subprocess.Popen([programs / "spop_agent", str(place), "txn.s=1"])
    try:
        with Folder() as folder, Master(binary, folder, configuration(folder, 1)) as master:
            master.served()
            load = subprocess.Popen([programs / "paced", str(port), "40", "10"], stdout=subprocess.PIPE, text=True)
            for generation in (2, 3):
                time.sleep(0.8)
                configuration(folder, generation)
                os.kill(master.pid, USR2)
                assert wait_until(lambda generation=generation: f"generation{generation}".encode() in request(port), 10)
            load.terminate()
            done, failed, torn = map(int, load.communicate(timeout=20)[0].split("\n")[0].split())
        assert done > 1000 and failed == 0 and torn == 0
    finally:
        agent.terminate()
        agent.wait()


def test_a_worker_has_connections_before_its_first_request(binary, port):
    agent = Agent(lambda notify: [set_var("txn", "s", 1)])
    with agent, Folder() as folder, Program(binary, "-db", "-f", write(folder, agent.port, port, global_lines="nbthread 1")) as program:
        program.ready(port)
        assert wait_until(lambda: agent.hellos)
        assert b"generation1" in request(port)
        assert len(agent.hellos) == 1 and {frame.session for frame in agent.notifies} == {1}


def test_an_engine_works_confined_and_as_a_daemon(binary, port):
    needs_root()
    agent = Agent(lambda notify: [set_var("txn", "s", 1)])
    with agent, Folder() as folder:
        os.chmod(folder.path, 0o755)
        pid_file = f"{folder.path}/pid"
        lines = f"chroot /var/empty\n    user nobody\n    group nogroup\n    pidfile {pid_file}\n    daemon"
        os.makedirs("/var/empty", exist_ok=True)
        config = write(folder, agent.port, port, global_lines=lines)
        subprocess.run([binary, "-D", "-f", config], check=True, timeout=20, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            assert wait_until(lambda: os.path.exists(pid_file) and b"generation1" in request(port))
        finally:
            with open(pid_file) as file:
                for pid in file.read().split():
                    os.kill(int(pid), 15)


def flood(frame):
    """A script that answers no NOTIFY, but sends `frame` for ever."""
    def script(talk):
        if talk.greet():
            data = frame.encode()
            talk.connection.settimeout(None)
            while True:
                talk.send(data * 50)
    return script


@pytest.mark.parametrize("frame", [
    Frame(ACK, b"", 1, 1), Frame(ACK, set_var("txn", "s", "x" * 16000), 1, 1), Frame(200, b"x" * 16000), Frame(101, pairs({"version": "2.0"})),
    Frame(3, b"y" * 16000, 1, 1),
], ids=["acks", "large_acks", "unknown_frames", "hellos", "notifies"])
def test_memory_is_bounded_under_a_flood_of_frames(binary, port, frame):
    agent = Agent(script=flood(frame))
    with agent, Folder() as folder:
        config = write(folder, agent.port, port, timeout="50ms", global_lines="nbthread 1")
        with Program(binary, "-db", "-f", config) as program:
            program.ready(port)
            before = program.resident_kb()
            until = time.monotonic() + 1
            answers = set()
            while time.monotonic() < until:
                answers.add(re.search(rb"x: (.*)\r\n", request(port))[1])
            # An answer that the flood contains by chance is one. Others fail in time.
            assert answers and all(b"error" in answer or b"generation" in answer for answer in answers)
            assert program.resident_kb() < before + (8 << 10)


def test_names_of_an_agent_are_refused_without_growth(binary, port):
    number = [0]

    def act(_):
        number[0] += 1
        return [set_var("txn", f"n{number[0]}.{index}", 1) for index in range(400)] + [set_var("txn", "s", 1)]
    agent = Agent(act)
    with agent, Folder() as folder:
        config = write(folder, agent.port, port, global_lines="nbthread 1")
        for trusted in (False, True):
            if trusted:
                folder.file("engine.cfg", ENGINE.format(timeout="2s").replace("    use-backend", "    option force-set-var\n    use-backend"))
            with Program(binary, "-db", "-f", config) as program:
                program.ready(port)
                assert b"generation" in request(port)
                before = program.resident_kb()
                for _ in range(100):
                    assert b"generation" in request(port)
                assert program.resident_kb() < before + (4 << 10)


def test_an_engine_does_not_switch_off_splicing(build):
    body = b"z" * (4 << 20)
    world = build(Agent(lambda notify: []), origin=Origin(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body))
    world.serve(frontend="option splice-response")
    with world.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert read_all(client).endswith(body)
    spliced = int(re.search(r"^TotalSplicedBytesOut: (\d+)", world.command("show info"), re.M)[1])
    assert spliced > len(body) // 2
