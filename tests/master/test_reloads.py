"""Reloads: notifications and their order, and connections that survive."""
import contextlib
import os
import re
import signal
import socket
import time

from lib.program import TERM, Program, answering, connects, free_port, request, wait_until
from master.support import USR2, Clients, Master, alive, asked, finished, link, quiet_client, slow_client, tcp, unix


def test_r119_r133_signals_reload_a_master_without_a_cli_socket(binary, folder, port):
    config = answering(folder, port, "one")
    with Program(binary, "-W", "-f", config) as program, contextlib.ExitStack() as stack:
        program.ready(port)
        clients = stack.enter_context(Clients(tcp(port)))
        answering(folder, port, "two")
        program.send(USR2)
        assert wait_until(lambda: clients.answers.get("two", 0) > 10, 10), clients.answers
        assert not clients.failures, clients.failures[:3]
        with open(f"/proc/{program.pid}/task/{program.pid}/children") as children:
            assert wait_until(lambda: len(children.read().split()) <= 1)
        program.send(signal.SIGHUP)
        before = sum(clients.answers.values())
        assert wait_until(lambda: sum(clients.answers.values()) > before + 50)
        assert not clients.failures, clients.failures[:3]


def test_r118_r128_each_reload_executes_the_program_once(binary, folder):
    count = os.path.join(folder.path, "count")
    wrapper = folder.file("wrapper", f'#!/bin/bash\necho "$@" >> {count}\nexec -a "$0" {binary} "$@"\n')
    os.chmod(wrapper, 0o755)

    def executions():
        with open(count) as file:
            return len(file.readlines())

    config = answering(folder, free_port())
    with Master(wrapper, folder, config) as master:
        master.served()
        assert executions() == 1
        master.reload()
        assert executions() == 2
        folder.file("a.cfg", "nonsense\n")
        assert master.ask("reload").startswith("Success=0\n")
        assert not wait_until(lambda: executions() != 3, 0.3)
        os.kill(master.pid, USR2)
        assert wait_until(lambda: executions() == 4)
        with open(count) as file:
            assert len(set(file.readlines())) == 1, "always the same words"


def test_r121_a_worker_older_than_mworker_max_reloads_is_ended(binary, folder, port):
    config = answering(folder, port, extra="mworker-max-reloads 1", frontend="option http-keep-alive")
    with Master(binary, folder, config) as master, quiet_client(master, port) as (_, first):
        master.reload()
        assert alive(first), "it waits for its client"
        master.reload()
        assert wait_until(lambda: not alive(first))
        assert wait_until(lambda: f"Former worker ({first}) exited with code 143 (Terminated)" in master.said())


def test_r122_r123_old_workers_are_listed_until_they_end(binary, folder, port):
    config = answering(folder, port)
    with Master(binary, folder, config) as master, slow_client(master, port) as (slow, first):
        master.reload()
        shown = master.ask("show proc")
        second = master.current()
        assert re.search(rf"# workers\n{second} +worker +0 .*\n# old workers\n{first} +worker +1 ", shown), shown
        assert f"Pid: {first}\n" in master.ask(f"@!{first} show info")
        answer = finished(slow)
        assert answer.startswith(b"HTTP/1.1 200") and b"connection: close" in answer.lower(), answer
        assert wait_until(lambda: str(first) not in master.ask("show proc"))
        assert f"Former worker ({first}) exited with code 0 (Exit)" in master.said()


def test_r120_r134_show_proc_separates_starting_workers_from_serving_ones(binary, folder, port):
    config = answering(folder, port)
    with Master(binary, folder, config) as master:
        master.served()
        first = master.current()
        with open(config, "a") as file:
            for number in range(30000):
                file.write(f"backend b{number}\n    server s{number} 127.0.0.1:9\n")
        os.kill(master.pid, USR2)
        assert wait_until(lambda: "# starting workers" in master.ask("show proc")), master.said()
        second = master.current()
        # R119: the former one serves until the new one reports readiness.
        assert f"Pid: {first}\n" in master.ask("@1 show info") and request(port).startswith(b"HTTP/1.1 200")
        assert "soft" not in master.said() and "stopped" not in master.said()
        os.kill(second, signal.SIGKILL)
        assert wait_until(lambda: f"Failed to load worker ({second}) exited with code 137 (Killed)" in master.said())
        assert "[failed: 1]" in master.ask("show proc") and request(port).startswith(b"HTTP/1.1 200")


def test_r124_r136_r147_a_failed_reload_keeps_the_former_worker_and_is_reported(binary, folder, port):
    config = answering(folder, port)
    with Master(binary, folder, config) as master, contextlib.ExitStack() as stack:
        master.served()
        clients = stack.enter_context(Clients(tcp(port)))
        first = master.current()
        folder.file("a.cfg", "frontend f\n    nonsense\n")
        answer = master.ask("reload")
        assert answer.startswith("Success=0\n--\n[NOTICE] ") and "Initializing new worker" in answer, answer
        assert "unknown keyword 'nonsense'" in answer and "Failed to load worker" in answer, answer
        assert master.ask("_loadstatus") == answer
        assert master.ask("show startup-logs") == answer.split("--\n", 1)[1]
        shown = master.ask("show proc")
        assert "1 [failed: 1]" in shown and re.search(rf"# old workers\n{first} +worker +1 ", shown), shown
        assert master.ask("prompt p;show version").startswith("master[ReloadFailed]> 3.5")
        assert master.workers() == [first] and f"Pid: {first}\n" in master.ask("@1 show info")
        answering(folder, port)
        master.reload()
        assert "2 [failed: 0]" in master.ask("show proc")
        assert wait_until(lambda: not alive(first))
        assert not clients.failures, clients.failures[:3]


def test_r125_r129_r146_r163_reloads_leave_no_descriptors_or_memory_in_the_master(binary, folder, port):
    config = answering(folder, port)

    def turn():
        answering(folder, port)
        master.reload()
        folder.file("a.cfg", "nonsense\n")
        assert master.ask("reload").startswith("Success=0")
        wait_until(lambda: len(master.workers()) == 1)

    def logs(pid):
        return sum("startup-logs" in link(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))

    with Master(binary, folder, config) as master:
        master.served()
        for _ in range(5):
            turn()
        before, memory = master.descriptors(), master.resident_kb()
        for _ in range(25):
            turn()
        assert wait_until(lambda: master.descriptors() <= before), (before, master.descriptors())
        assert master.resident_kb() < memory + 1000, (memory, master.resident_kb())
        assert logs(master.pid) == 1 and logs(master.current()) == 0
        assert "Pid:" in master.ask("@1 show info")


def test_r126_the_service_manager_is_notified_of_every_load(binary, folder, port):
    path = os.path.join(folder.path, "notify")
    config = answering(folder, port)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(10)
        heard = lambda: dict(line.split("=", 1) for line in systemd.recv(4096).decode().splitlines())
        with Program(binary, "-Ws", "-f", config, env={**os.environ, "NOTIFY_SOCKET": path}) as program:
            ready = {"READY": "1", "MAINPID": str(program.pid), "STATUS": "Ready."}
            assert heard() == ready
            assert connects(port), "it serves when it reports it"
            program.send(USR2)
            before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            reloading = heard()
            assert reloading["RELOADING"] == "1" and abs(int(reloading["MONOTONIC_USEC"]) - before) < 5_000_000
            assert heard() == ready
            folder.file("a.cfg", "nonsense\n")
            program.send(USR2)
            assert heard()["RELOADING"] == "1"
            failed = heard()
            assert failed["READY"] == "1" and failed["STATUS"] == "Reload failed!", failed
            program.send(TERM)
            assert heard()["STOPPING"] == "1"
            assert program.status() == 0


def test_r131_master_and_worker_each_hold_only_their_own_end_of_the_socketpair(binary, folder):
    with Master(binary, folder, answering(folder, free_port())) as master:
        master.served().reload()
        worker = master.current()
        sockets = lambda pid: {link(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        both = lambda: {name for name in sockets(master.pid) & sockets(worker) if name.startswith("socket:")}
        assert wait_until(lambda: not both()), both()


def test_r130_r140_the_master_reaches_a_worker_without_a_stats_socket(binary, folder):
    with Master(binary, folder, answering(folder, free_port(), extra="nbthread 2")) as master:
        master.served()
        for _ in range(8):
            assert f"Pid: {master.current()}\n" in master.ask("@1 show info")
        assert re.match(r"# socket lvl processes\nsockpair@\d+ admin all\n", master.ask("@1 show cli sockets"))
        assert master.ask("show cli sockets") == f"# socket lvl processes\nunix@{master.socket} admin all\n\n"
        # The worker's own copy of the startup logs, until its start is complete.
        assert "Initializing new worker" in master.ask("@1 show startup-logs")


def test_r137_a_crash_of_the_new_worker_ends_the_master(binary, folder, port):
    config = answering(folder, port)
    with Master(binary, folder, config) as master, slow_client(master, port):
        master.reload()
        os.kill(master.current(), signal.SIGSEGV)
        assert master.status() == 139, master.said()


def test_r137_with_no_exit_on_failure_the_old_worker_finishes_its_requests(binary, folder, port):
    config = answering(folder, port, extra="master-worker no-exit-on-failure")
    with Master(binary, folder, config) as master, slow_client(master, port) as (slow, _):
        master.reload()
        os.kill(master.current(), signal.SIGSEGV)
        assert wait_until(lambda: "exited with code 139" in master.said())
        # A reload brings service back.
        master.reload()
        assert request(port).startswith(b"HTTP/1.1 200")
        assert finished(slow).startswith(b"HTTP/1.1 200")


def test_r138_a_crash_of_an_old_worker_does_not_disturb_the_service(binary, folder, port):
    config = answering(folder, port)
    with Master(binary, folder, config) as master, quiet_client(master, port) as (_, first):
        master.reload()
        second = master.current()
        os.kill(first, signal.SIGSEGV)
        assert wait_until(lambda: f"Former worker ({first}) exited with code 139" in master.said())
        assert master.process.poll() is None and alive(second) and request(port).startswith(b"HTTP/1.1 200")


def test_many_reload_signals_are_merged_without_failed_requests(binary, folder, port):
    with Master(binary, folder, answering(folder, port)) as master:
        master.served()
        with Clients(tcp(port)) as clients:
            for _ in range(500):
                os.kill(master.pid, USR2)
                time.sleep(0.001)
            assert wait_until(lambda: len(master.workers()) == 1 and "# starting" not in master.ask("show proc"), 10)
        reloads = int(re.search(r"master +(\d+) \[failed: 0\]", master.ask("show proc")).group(1))
        assert 1 <= reloads < 400 and master.process.poll() is None, reloads
        assert not clients.failures, clients.failures[:3]


def test_a_hard_reload_ends_the_former_worker_at_once(binary, folder, port):
    config = answering(folder, port)
    with Master(binary, folder, config) as master, slow_client(master, port) as (slow, first):
        assert master.ask("hard-reload").startswith("Success=1\n")
        assert wait_until(lambda: f"Former worker ({first}) exited with code 143" in master.said())


def test_an_idle_client_keeps_its_connection_over_a_reload(binary, folder, port):
    config = answering(folder, port, "one")
    with Master(binary, folder, config) as master, quiet_client(master, port) as (quiet, _):
        answering(folder, port, "two")
        for _ in range(3):
            master.reload()
        assert request(port).startswith(b"HTTP/1.1 200")
        answer = asked(quiet)
        assert answer.endswith(b"one") and b"connection: close" in answer.lower(), answer
        assert quiet.recv(1) == b""
        assert wait_until(lambda: len(master.workers()) == 1)


def test_close_spread_time_ends_idle_connections_after_a_reload(binary, folder, port):
    config = answering(folder, port, extra="close-spread-time 300ms")
    with Master(binary, folder, config) as master, contextlib.ExitStack() as stack:
        quiet = [stack.enter_context(quiet_client(master, port)) for _ in range(8)]
        master.reload()
        for client, _ in quiet:
            assert client.recv(1) == b""
        assert wait_until(lambda: len(master.workers()) == 1)


def test_connections_over_tcp_unix_and_abstract_sockets_survive_reloads(binary, folder, port):
    name = os.path.join(folder.path, "front.sock")
    abstract = f"weir-test-{os.getpid()}-{port}"
    config = answering(folder, port, bind=f"127.0.0.1:{port}\n    bind {name} mode 666\n    bind abns@{abstract}")
    with Master(binary, folder, config) as master:
        master.served()
        assert os.path.exists(name)
        kinds = [Clients(tcp(port), 2), Clients(unix(name), 2), Clients(unix("\0" + abstract.ljust(107, "\0")), 2)]
        with contextlib.ExitStack() as stack:
            for kind in kinds:
                stack.enter_context(kind)
            for _ in range(15):
                master.reload()
        for kind in kinds:
            assert not kind.failures and sum(kind.answers.values()) > 10, (kind.failures[:3], kind.answers)
