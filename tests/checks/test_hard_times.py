"""Checks under adverse conditions: the machine stops, descriptors run out, everything changes at once."""
import os
import resource
import signal
import socket
import threading
import time

from checks.support import Scene
from lib.latency import requests, threads
from lib.origin import Server
from lib.program import free_port, wait_until


def test_servers_stay_up_after_the_machine_was_suspended(binary, folder):
    """A migrated virtual machine stops for seconds, in the middle of checks. Afterwards all their deadlines have
    passed, and the servers' answers are received but unread."""
    def answer(connection):
        connection.recv(1000)
        time.sleep(0.15)
        connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
    server, count = Server(answer), 20
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


def test_a_dead_server_goes_down_after_the_machine_was_suspended(binary, folder):
    """A check that expired during the suspension is repeated. A server that does not answer the second attempt is down."""
    server = Server(lambda connection: time.sleep(30))
    sections = f"backend b\n    option httpchk\n    timeout check 2s\n    server s 127.0.0.1:{server.port} check inter 100ms fall 1\n"
    with Scene(binary, folder, sections) as scene:
        assert wait_until(lambda: server.count == 1)
        scene.program.send(signal.SIGSTOP)
        time.sleep(3)
        scene.program.send(signal.SIGCONT)
        scene.expect("b", "s", status="DOWN", check_status="L7TOUT", chkfail="1")
        assert server.count >= 2, server.count


def answering(tasks):
    """A server that lists its threads in `tasks`: a request's time includes its server's wait for a processor."""
    def serve(connection):
        tasks.append(f"self/task/{threading.get_native_id()}")
        while connection.recv(1000):
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    return Server(serve)


def test_thousands_of_server_state_changes_do_not_delay_requests(binary, folder):
    """5,000 servers go down and come up each second, without adding 5 ms to a request that is balanced among them:
    plain servers, and servers with slow start, backup, limits and outlier ejection. Each round counts with its longest
    time, and the best of up to eight rounds has to pass: noise of the machine hits some rounds, the cost of changes
    hits all. Time spent waiting for a processor is subtracted, for program, client and server. data/backend counts the
    servers examined per change. Needs an optimized build: any other is busy with the checks alone."""
    storm(binary, folder, "plain", "", "")
    storm(binary, folder, "all", "option allbackups\n    outlier-ejection errors 5", "slowstart 2s maxconn 2 backup")


def storm(binary, folder, name, lines, words):
    """The storm in a backend with these lines, and with these words on each server."""
    tasks = []
    # A check that only connects is over before its connection is accepted.
    server, checked, port = answering(tasks), Server(), free_port()
    servers = "\n".join(f"    server s{number} 127.0.0.1:{server.port} check port {checked.port} inter 1s fall 1 rise 1 {words}" for number in range(5000))
    sections = f"""
listen l
    mode http
    bind 127.0.0.1:{port}
    {lines}
    server always 127.0.0.1:{server.port} {words.replace("maxconn 2", "")}
{servers}
"""
    with Scene(binary, folder, sections, "nbthread 1\n    maxconn 1000\n    spread-checks 0", name=f"{name}.cfg") as scene:
        time.sleep(1)
        tasks += threads(scene.program.pid)
        calm = min(requests(port, 100, tasks)[-1] for _ in range(3))
        stormy = []
        while not stormy or min(stormy) > calm + 5 and len(stormy) < 8:
            for change in (checked.close, checked.listen):
                change()
                begun = time.monotonic()
                stormy.append(requests(port, 450, tasks)[-1])
                # A fast machine is done before every server was checked.
                time.sleep(max(0, begun + 1.2 - time.monotonic()))
        downs = sum(int(line.split(",")[22] or 0) for line in scene.ask("show stat l 4 -1").splitlines()[1:] if line)
    checked.close()
    assert downs >= 5000, downs
    assert min(stormy) < calm + 5, (name, calm, stormy)


def test_state_changes_of_a_server_tracked_by_thousands_do_not_delay_requests(binary, folder):
    """5,000 servers track one that an operator keeps stopping and starting: they are updated in portions, with requests
    served in between. Updating all of them takes tens of milliseconds. Each round counts with its longest time, and the
    best of up to eight rounds has to pass; time spent waiting for a processor is subtracted. In the end, all of them
    have the state of the tracked server. Needs an optimized build, as the storm does."""
    tasks = []
    server, port = answering(tasks), free_port()
    servers = "\n".join(f"    server s{number} 127.0.0.1:{server.port} track leads/l" for number in range(5000))
    sections = f"""
backend leads
    server l 127.0.0.1:{server.port} check inter 1s
backend follow
{servers}
listen l
    mode http
    bind 127.0.0.1:{port}
    server always 127.0.0.1:{server.port}
"""
    with Scene(binary, folder, sections, "nbthread 1\n    maxconn 1000") as scene:
        tasks += threads(scene.program.pid)
        calm = min(requests(port, 100, tasks)[-1] for _ in range(3))

        def change(is_over):
            while not is_over.wait(0.1):
                scene.ask("set server leads/l state maint")
                is_over.wait(0.1)
                scene.ask("set server leads/l state ready")
        stormy = []
        while not stormy or min(stormy) > calm + 5 and len(stormy) < 8:
            is_over = threading.Event()
            operator = threading.Thread(target=change, args=(is_over,))
            operator.start()
            stormy.append(requests(port, 300, tasks)[-1])
            is_over.set()
            operator.join()

        def states():
            return {line.split(",")[17] for line in scene.ask("show stat follow 4 -1").splitlines()[1:] if line}
        for state, said in (("maint", "MAINT (via leads/l)"), ("ready", "UP")):
            scene.ask(f"set server leads/l state {state}")
            assert wait_until(lambda said=said: states() == {said}), (said, states())
    assert min(stormy) < calm + 5, (calm, stormy)


def test_servers_keep_their_state_when_checks_lack_descriptors(binary, folder):
    """Without a free descriptor, checks that open connections, agent checks and programs do not start: servers keep
    their state, and the check's message gives the reason. They resume once descriptors are free."""
    port, agent_port = Server().port, Server(lambda connection: connection.sendall(b"up\n")).port
    program = folder.file("ends.sh", "#!/bin/sh\nexit 0\n")
    os.chmod(program, 0o755)
    sections = f"""
backend apart
    server s 127.0.0.1:{port} source 127.0.0.1 check inter 200ms fall 1 rise 1
backend talks
    option httpchk
    server s 127.0.0.1:{port} source 127.0.0.1 check inter 200ms fall 1 rise 1
backend agents
    server s 127.0.0.1:{port} source 127.0.0.1 agent-check agent-port {agent_port} agent-inter 200ms fall 1 rise 1
backend programs
    option external-check
    external-check command {program}
    server s 127.0.0.1:{port} check inter 200ms fall 1 rise 1
"""
    with Scene(binary, folder, sections, "external-check\n    insecure-fork-wanted\n    nbthread 1") as scene:
        # The checks of `talks` get no response: it is down before, and stays down.
        for backend, status in (("apart", "UP"), ("talks", "DOWN"), ("programs", "UP")):
            scene.expect(backend, "s", status=status)
        scene.expect("agents", "s", agent_status="L7OK")
        before = {backend: scene.stat(backend, "s", "status") for backend in ("apart", "talks", "agents", "programs")}
        failed = {backend: scene.stat(backend, "s", "chkfail", "chkdown") for backend in ("apart", "programs")}
        pid = scene.program.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        # The operator's connection holds a descriptor; running checks release theirs first.
        with socket.socket(socket.AF_UNIX) as operator:
            operator.connect(scene.cli)
            operator.sendall(b"prompt\n")
            assert operator.recv(100)
            time.sleep(0.1)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
            time.sleep(1.5)

            def asked(command):
                operator.sendall(command.encode() + b"\n")
                text = b""
                while not text.endswith(b"\n> "):
                    text += operator.recv(65536)
                return text.decode()
            lines = asked("show stat").splitlines()
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)
        names = lines[0].lstrip("# ").split(",")
        rows = {row["pxname"]: row for line in lines[1:] if (row := dict(zip(names, line.split(",")))).get("svname") == "s"}
        for backend, row in rows.items():
            kind = ("agent_status", "last_agt") if backend == "agents" else ("check_status", "last_chk")
            assert row["status"] == before[backend][0], (backend, row["status"], row[kind[0]], row[kind[1]])
            assert row[kind[0]].removeprefix("* ") == "SOCKERR" and row[kind[1]], (backend, row[kind[0]], row[kind[1]])
        for backend, figures in failed.items():
            assert scene.stat(backend, "s", "chkfail", "chkdown") == figures, backend
        scene.expect("apart", "s", check_status="L4OK")
        scene.expect("agents", "s", agent_status="L7OK")
        scene.expect("programs", "s", check_status="PROCOK")
