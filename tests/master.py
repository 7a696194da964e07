#!/usr/bin/env python3
"""Master and workers as real processes: start, reload, hand-over, ends, the master's command line.

  master.py --bin target/release/weir [--only REGEX]

Each check is a function whose name begins with the requirements that it proves. What needs root, or the packaged haproxy,
is left out where they are not there, and says so.
"""
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

from program import TERM, USR1, LeftOut, Program, answering, connects, free_port, main, request, run, wait_until

USR2 = signal.SIGUSR2
HAPROXY = shutil.which("haproxy")
ROOT = os.geteuid() == 0


class Master(Program):
    """A master with its command line in a folder."""

    def __init__(self, binary, folder, config, *arguments, **options):
        self.folder, self.config, self.binary = folder, config, binary
        self.socket = os.path.join(folder.path, "master.sock")
        self.log = os.path.join(folder.path, "log")
        super().__init__(binary, "-W", "-S", self.socket, "-f", config, *arguments, **options)

    def __enter__(self):
        self.before = self.said().count("Loading success.") if os.path.exists(self.log) else 0
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.options)
        self.pid = self.process.pid
        return self

    def __exit__(self, *_):
        for pid in self.workers() if self.process.poll() is None else []:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def said(self):
        """What all its processes printed."""
        with open(self.log) as log:
            return log.read()

    def served(self, count=1):
        """Waits until so many loads succeeded since it was started."""
        wanted = self.before + count
        if not wait_until(lambda: self.said().count("Loading success.") >= wanted or self.process.poll() is not None, 10):
            raise AssertionError(f"not served: {self.said()}")
        assert self.process.poll() is None, self.said()
        return self

    def ask(self, text, end=True):
        """What the command line answers."""
        return talk(self.socket, text, end)

    def reload(self):
        answer = self.ask("reload")
        assert answer.startswith("Success=1\n--\n"), answer
        return answer

    def workers(self, kind="worker"):
        """The numbers of its children."""
        with open(f"/proc/{self.pid}/task/{self.pid}/children") as children:
            return [int(pid) for pid in children.read().split()]

    def current(self):
        """The newest of them."""
        return max(self.workers())

    def descriptors(self, pid=None):
        return len(os.listdir(f"/proc/{pid or self.pid}/fd"))


def talk(path, text, end=True, seconds=10):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(seconds)
        client.connect(path)
        client.sendall(text.encode() + b"\n")
        if end:
            client.shutdown(socket.SHUT_WR)
        answer = b""
        while True:
            more = client.recv(65536)
            if not more:
                return answer.decode(errors="replace")
            answer += more


def field(pid, name):
    with open(f"/proc/{pid}/status") as file:
        return next(line.split(":", 1)[1].split() for line in file if line.startswith(name + ":"))


def link(path):
    """Where it points; nowhere when it is gone by now."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def alive(pid):
    """Whether a process runs: one that nobody reaped does not."""
    try:
        return field(pid, "State")[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Clients:
    """Clients with a connection for each request, as fast as they can, until the block ends; failures are counted."""

    def __init__(self, connect, count=4):
        self.connect, self.failures, self.answers, self.over = connect, [], {}, False
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(count)]

    def ask(self):
        while not self.over:
            try:
                with self.connect() as connection:
                    connection.settimeout(5)
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    answer = b""
                    while more := connection.recv(65536):
                        answer += more
                status = answer.split(b" ", 2)[1:2]
                if status != [b"200"]:
                    self.failures.append(answer[:80])
                body = answer.rsplit(b"\r\n\r\n", 1)[-1].decode()
                self.answers[body] = self.answers.get(body, 0) + 1
            except (OSError, IndexError) as error:
                self.failures.append(repr(error))

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        for thread in self.threads:
            thread.join(10)


def tcp(port):
    return lambda: socket.create_connection(("127.0.0.1", port), 5)


def unix(address):
    def connect():
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(5)
        client.connect(address)
        return client
    return connect


# --- starting

def r117_r142_the_master_has_one_thread_and_its_memory_does_not_know_the_configuration(binary, folder):
    sizes = []
    for count in (1, 4000):
        port = free_port()
        config = answering(folder, port, name=f"{count}.cfg")
        with open(config, "a") as file:
            file.write(f"# {'x' * 100}\n" * (10 * count))
            for number in range(count):
                file.write(f"backend b{number}\n    server s{number} 127.0.0.1:9 weight 10\n")
        with Master(binary, folder, config) as master:
            master.served()
            assert os.listdir(f"/proc/{master.pid}/task") == [str(master.pid)]
            # What held the text goes back to the system soon after the start.
            bound = sizes[0][0] + 1500 if sizes else sys.maxsize
            wait_until(lambda: master.resident_kb() < bound, 3)
            wait_until(lambda: not sizes or master.descriptors() == sizes[0][1])
            sizes.append((master.resident_kb(), master.descriptors()))
    (small, few), (large, many) = sizes
    assert few == many and large - small < 1500, sizes


def r156_r157_in_the_background_the_pid_file_has_the_master(binary, folder):
    port, pid_file = free_port(), os.path.join(folder.path, "pid")
    config = answering(folder, port)
    status, _, err = run(binary, "-W", "-D", "-p", pid_file, "-f", config)
    assert status == 0, err
    with open(pid_file) as file:
        master = int(file.read())
    try:
        assert connects(port)
        assert field(master, "PPid") == ["1"] or int(field(master, "PPid")[0]) != os.getpid()
        with open(f"/proc/{master}/task/{master}/children") as children:
            worker = int(children.read())
        assert field(worker, "PPid") == [str(master)]
    finally:
        os.kill(master, TERM)
    assert wait_until(lambda: not alive(master))


def r127_r135_a_first_start_that_fails_leaves_nothing(binary, folder):
    bad = folder.file("bad.cfg", "frontend f\n    nonsense\n")
    for words in (["-W"], ["-W", "-D"], ["-Ws"]):
        status, _, err = run(binary, *words, "-f", bad)
        assert status == 1 and "bad.cfg:2]" in err and "nonsense" in err, (words, status, err)
        assert "Failed to load worker" in err, err


def r135_a_worker_that_crashes_takes_the_master_along(binary, folder):
    for number, status in ((signal.SIGSEGV, 139), (signal.SIGKILL, 137)):
        port = free_port()
        with Master(binary, folder, answering(folder, port)) as master:
            master.served()
            os.kill(master.current(), number)
            assert master.status() == status, master.said()
            assert f"exited with code {status}" in master.said()
            assert "exit-on-failure: killing every processes with SIGTERM" in master.said()


def r141_a_master_s_socket_without_a_master_is_a_warning(binary, folder):
    port = free_port()
    config = answering(folder, port)
    with Program(binary, "-db", "-S", os.path.join(folder.path, "m"), "-f", config) as program:
        program.ready(port)
        program.send(TERM)
        program.status()
        assert "a master CLI socket was defined, but master-worker mode (-W) is not enabled" in program.process.stdout.read()
    assert run(binary, "-dW", "-db", "-S", os.path.join(folder.path, "m"), "-f", config)[0] == 1


def r143_nothing_of_the_old_ways_is_in_the_environment(binary, folder):
    config = answering(folder, free_port(), extra=f"setenv COLOUR blue\n    presetenv PATH none\n    stats socket {folder.path}/cli")
    with Master(binary, folder, config) as master:
        master.served().reload()
        shown = master.ask("show env")
        assert "COLOUR=blue\n" in shown and "PATH=none" not in shown, shown
        assert "WAIT_ONLY" not in shown and "HAPROXY_PROCESSES" not in shown, shown
        assert master.ask("show env COLOUR") == "COLOUR=blue\n\n"
        assert "HAPROXY_MWORKER=1\n" in master.ask("@1 show env")
        assert re.fullmatch(r"HAPROXY_CLI=unix@\S+;sockpair@\d+\n\n", master.ask("@1 show env HAPROXY_CLI"))
        assert "HAPROXY_PROCESSES" not in master.ask("@1 show env")


def r145_r193_the_command_line_is_there_with_the_pid_file(binary, folder):
    port, pid_file = free_port(), os.path.join(folder.path, "pid")
    config = answering(folder, port)
    with Master(binary, folder, config, "-p", pid_file) as master:
        assert wait_until(lambda: os.path.exists(pid_file), 10)
        assert talk(master.socket, "show version").startswith("3.5"), "no window at all"
        assert "Pid:" in talk(master.socket, "@1 show info")
        # A reload before the first load is over waits for its end.
        assert master.ask("reload").startswith("Success=1\n")
        assert connects(port)


def r150_what_a_file_says_is_said_once(binary, folder):
    config = answering(folder, free_port(), extra='.notice "said by the file"')
    with Master(binary, folder, config) as master:
        logs = master.served().ask("show startup-logs")
        assert logs.count("said by the file") == 1, logs
        assert master.reload().count("said by the file") == 1


def r151_r152_garbage_is_the_worker_s_to_refuse(binary, folder):
    for text, place in (("global\n    daemons\n", "a.cfg:2]"), ("peer x\n    y\n", "a.cfg:1]"),
                        ("global\n    pidfile\n", "a.cfg:2]")):
        status, _, err = run(binary, "-W", "-f", folder.file("a.cfg", text))
        worker = re.search(r"Failed to load worker \((\d+)\)", err)
        assert status == 1 and worker and place in err, err
        assert re.search(rf"\[ALERT\] +\({worker.group(1)}\) : config : .*{re.escape(place)}", err), err
        assert err.count(place) == 1, err


def r153_a_marked_word_given_twice_is_no_new_fault(binary, folder):
    pid_file = os.path.join(folder.path, "p")
    config = answering(folder, free_port(), extra=f"pidfile {pid_file}\n    pidfile /other")
    with Master(binary, folder, config) as master:
        master.served()
        assert master.said().count("'pidfile' already specified") == 1
        with open(pid_file) as file:
            assert int(file.read()) == master.pid


def r155_words_about_threads_belong_first(binary, folder):
    port = free_port()
    with Master(binary, folder, answering(folder, port, extra="nbthread 2")) as master:
        master.served()
        assert "Nbthread: 2\n" in master.ask("@1 show info")
    late = answering(folder, port) + ""
    with open(late, "a") as file:
        file.write("global\n    nbthread 2\n")
    status, _, err = run(binary, "-W", "-f", late)
    assert status == 1 and "'nbthread' not allowed if a non-global section was previously defined" in err, err


def program_sections_say_what_to_use(binary, folder):
    status, _, err = run(binary, "-W", "-f", folder.file("a.cfg", "program x\n    command sleep 1\n"))
    assert status == 1 and "'program' is not supported any more; let the service manager start other programs" in err, err


# --- identity

def r158_r161_only_the_worker_becomes_somebody_else(binary, folder):
    needs_root()
    jail = os.path.join(folder.path, "jail")
    os.mkdir(jail)
    port = free_port()
    config = answering(folder, port, extra=f"uid 65534\n    gid 65534\n    chroot {jail}\n    nbthread 2")
    with Master(binary, folder, config) as master:
        master.served()
        worker = master.current()
        assert field(master.pid, "Uid") == ["0"] * 4 and os.readlink(f"/proc/{master.pid}/root") == "/"
        for task in os.listdir(f"/proc/{worker}/task"):
            assert field(f"{worker}/task/{task}", "Uid") == ["65534"] * 4
            assert field(f"{worker}/task/{task}", "Gid") == ["65534"] * 4
            assert field(f"{worker}/task/{task}", "Groups") == []
            assert field(f"{worker}/task/{task}", "CapEff") == ["0" * 16]
        assert os.readlink(f"/proc/{worker}/root") == jail
        # A reload does not lack what the worker gave up.
        master.reload()
        assert request(port).startswith(b"HTTP/1.1 200")


def r160_capabilities_are_kept_by_all_workers_and_only_there(binary, folder):
    needs_root()
    config = answering(folder, free_port(), frontend="log stdout format raw daemon",
                       extra="uid 65534\n    nbthread 2\n    setcap cap_net_admin,cap_net_bind_service")
    with Master(binary, folder, config) as master:
        master.served()
        worker = master.current()
        held = {open(f"/proc/{worker}/task/{task}/comm").read().strip(): field(f"{worker}/task/{task}", "CapEff")[0]
                for task in os.listdir(f"/proc/{worker}/task")}
        assert {int(bits, 16) for name, bits in held.items() if name.startswith("worker")} == {0x1400}, held
        assert all(int(bits, 16) in (0, 0x1400) for bits in held.values()), held
        assert field(worker, "CapPrm") == ["0000000000001400"]
        assert int(field(master.pid, "CapEff")[0], 16) > 0x1400


def r159_what_needs_rights_is_checked_after_the_identity_changed(binary, folder):
    needs_root()
    text = "backend b\n    source 0.0.0.0 usesrc client\n    server s 127.0.0.1:9\n"
    for cap, serves in (("", False), ("setcap cap_net_raw", True)):
        port = free_port()
        config = answering(folder, port, extra=f"uid 65534\n    {cap}", name="t.cfg")
        with open(config, "a") as file:
            file.write(text)
        with Program(binary, "-db", "-f", config) as program:
            if serves:
                program.ready(port)
            else:
                assert program.status() == 1
                assert "needs full privileges" in program.process.stdout.read()


# --- reloads

def r119_r133_a_signal_reloads_even_without_a_command_line(binary, folder):
    port = free_port()
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


def r118_r128_each_reload_executes_the_program_once(binary, folder):
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


def r121_a_worker_that_outlives_too_many_reloads_ends(binary, folder):
    port = free_port()
    config = answering(folder, port, extra="mworker-max-reloads 1", frontend="option http-keep-alive")
    with Master(binary, folder, config) as master, contextlib.ExitStack() as stack:
        master.served()
        quiet = stack.enter_context(tcp(port)())
        master.served()
        first = master.current()
        quiet.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert quiet.recv(65536).startswith(b"HTTP/1.1 200")
        master.reload()
        assert alive(first), "it waits for its client"
        master.reload()
        assert wait_until(lambda: not alive(first))
        assert wait_until(lambda: f"Former worker ({first}) exited with code 143 (Terminated)" in master.said())


def r122_r123_old_workers_are_listed_until_they_end(binary, folder):
    port = free_port()
    with Master(binary, folder, answering(folder, port)) as master, contextlib.ExitStack() as stack:
        master.served()
        slow = stack.enter_context(tcp(port)())
        first = master.current()
        slow.sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: "CurrConns: 1\n" in master.ask("@1 show info"))
        master.reload()
        shown = master.ask("show proc")
        second = master.current()
        assert re.search(rf"# workers\n{second} +worker +0 .*\n# old workers\n{first} +worker +1 ", shown), shown
        assert f"Pid: {first}\n" in master.ask(f"@!{first} show info")
        slow.sendall(b"Host: x\r\n\r\n")
        answer = slow.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200") and b"connection: close" in answer.lower(), answer
        assert wait_until(lambda: str(first) not in master.ask("show proc"))
        assert f"Former worker ({first}) exited with code 0 (Exit)" in master.said()


def r120_r134_a_worker_that_starts_is_told_from_one_that_serves(binary, folder):
    port = free_port()
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
        # R119: the former one serves until the new one says that it does.
        assert f"Pid: {first}\n" in master.ask("@1 show info") and request(port).startswith(b"HTTP/1.1 200")
        assert "soft" not in master.said() and "stopped" not in master.said()
        os.kill(second, signal.SIGKILL)
        assert wait_until(lambda: f"Failed to load worker ({second}) exited with code 137 (Killed)" in master.said())
        assert "[failed: 1]" in master.ask("show proc") and request(port).startswith(b"HTTP/1.1 200")


def r124_r136_r147_a_reload_that_fails_changes_nothing(binary, folder):
    port = free_port()
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
        assert master.ask("prompt p;show version").startswith("\nmaster[ReloadFailed]> 3.5")
        assert master.workers() == [first] and f"Pid: {first}\n" in master.ask("@1 show info")
        answering(folder, port)
        master.reload()
        assert "2 [failed: 0]" in master.ask("show proc")
        assert wait_until(lambda: not alive(first))
        assert not clients.failures, clients.failures[:3]


def r125_r129_r146_r163_reloads_leave_nothing_in_the_master(binary, folder):
    port = free_port()
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


def r126_the_service_manager_hears_of_every_load(binary, folder):
    path = os.path.join(folder.path, "notify")
    port = free_port()
    config = answering(folder, port)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(path)
        systemd.settimeout(10)
        heard = lambda: dict(line.split("=", 1) for line in systemd.recv(4096).decode().splitlines())
        with Program(binary, "-Ws", "-f", config, env={**os.environ, "NOTIFY_SOCKET": path}) as program:
            ready = {"READY": "1", "MAINPID": str(program.pid), "STATUS": "Ready."}
            assert heard() == ready
            assert connects(port), "it serves when it says so"
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


def r131_each_process_has_its_own_end_only(binary, folder):
    with Master(binary, folder, answering(folder, free_port())) as master:
        master.served().reload()
        worker = master.current()
        sockets = lambda pid: {link(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
        both = lambda: {name for name in sockets(master.pid) & sockets(worker) if name.startswith("socket:")}
        assert wait_until(lambda: not both()), both()


def r130_r140_a_worker_is_reached_without_any_socket_of_its_own(binary, folder):
    with Master(binary, folder, answering(folder, free_port(), extra="nbthread 2")) as master:
        master.served()
        for _ in range(8):
            assert f"Pid: {master.current()}\n" in master.ask("@1 show info")
        assert re.match(r"# socket lvl processes\nsockpair@\d+ admin all\n", master.ask("@1 show cli sockets"))
        assert master.ask("show cli sockets") == f"# socket lvl processes\nunix@{master.socket} admin all\n\n"
        # Its own copy, up to the end of its start.
        assert "Initializing new worker" in master.ask("@1 show startup-logs")


def r137_a_new_worker_that_crashes_is_seen(binary, folder):
    port = free_port()
    with Master(binary, folder, answering(folder, port)) as master, contextlib.ExitStack() as stack:
        master.served()
        slow = stack.enter_context(tcp(port)())
        master.served()
        slow.sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: "CurrConns: 1\n" in master.ask("@1 show info"))
        master.reload()
        os.kill(master.current(), signal.SIGSEGV)
        assert master.status() == 139, master.said()


def r137_without_exit_on_failure_the_old_one_finishes(binary, folder):
    port = free_port()
    config = answering(folder, port, extra="master-worker no-exit-on-failure")
    with Master(binary, folder, config) as master, contextlib.ExitStack() as stack:
        master.served()
        slow = stack.enter_context(tcp(port)())
        master.served()
        slow.sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: "CurrConns: 1\n" in master.ask("@1 show info"))
        master.reload()
        os.kill(master.current(), signal.SIGSEGV)
        assert wait_until(lambda: "exited with code 139" in master.said())
        # A reload brings service back.
        master.reload()
        assert request(port).startswith(b"HTTP/1.1 200")
        slow.sendall(b"Host: x\r\n\r\n")
        assert slow.recv(65536).startswith(b"HTTP/1.1 200")


def r138_an_old_worker_that_crashes_harms_nobody(binary, folder):
    port = free_port()
    with Master(binary, folder, answering(folder, port)) as master, contextlib.ExitStack() as stack:
        master.served()
        quiet = stack.enter_context(tcp(port)())
        master.served()
        first = master.current()
        quiet.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        quiet.recv(65536)
        master.reload()
        second = master.current()
        os.kill(first, signal.SIGSEGV)
        assert wait_until(lambda: f"Former worker ({first}) exited with code 139" in master.said())
        assert master.process.poll() is None and alive(second) and request(port).startswith(b"HTTP/1.1 200")


def a_storm_of_signals_is_a_few_reloads(binary, folder):
    port = free_port()
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


def a_hard_reload_ends_the_former_worker_at_once(binary, folder):
    port = free_port()
    with Master(binary, folder, answering(folder, port)) as master, contextlib.ExitStack() as stack:
        master.served()
        slow = stack.enter_context(tcp(port)())
        first = master.current()
        slow.sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: "CurrConns: 1\n" in master.ask("@1 show info"))
        assert master.ask("hard-reload").startswith("Success=1\n")
        assert wait_until(lambda: f"Former worker ({first}) exited with code 143" in master.said())


def a_quiet_client_keeps_its_connection_over_a_reload(binary, folder):
    port = free_port()
    with Master(binary, folder, answering(folder, port, "one")) as master, contextlib.ExitStack() as stack:
        master.served()
        quiet = stack.enter_context(tcp(port)())
        quiet.settimeout(5)
        ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
        quiet.sendall(ask)
        assert quiet.recv(65536).endswith(b"one")
        answering(folder, port, "two")
        for _ in range(3):
            master.reload()
        assert request(port).startswith(b"HTTP/1.1 200")
        quiet.sendall(ask)
        answer = quiet.recv(65536)
        assert answer.endswith(b"one") and b"connection: close" in answer.lower(), answer
        assert quiet.recv(1) == b""
        assert wait_until(lambda: len(master.workers()) == 1)


def close_spread_time_ends_quiet_connections_after_a_reload(binary, folder):
    port = free_port()
    config = answering(folder, port, extra="close-spread-time 300ms")
    with Master(binary, folder, config) as master, contextlib.ExitStack() as stack:
        master.served()
        quiet = [stack.enter_context(tcp(port)()) for _ in range(8)]
        for client in quiet:
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
        master.reload()
        for client in quiet:
            client.settimeout(5)
            assert client.recv(1) == b""
        assert wait_until(lambda: len(master.workers()) == 1)


def connections_of_all_kinds_survive_reloads(binary, folder):
    port, name = free_port(), os.path.join(folder.path, "front.sock")
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


# --- ends

def signals_end_the_workers_and_then_the_master(binary, folder):
    for number, status in ((TERM, 0), (USR1, 0), (signal.SIGINT, 130)):
        port = free_port()
        with Master(binary, folder, answering(folder, port)) as master:
            master.served()
            worker = master.current()
            master.send(number)
            assert master.status() == status and not alive(worker), master.said()
            assert "Exiting Master process..." in master.said()
            assert f"All workers exited. Exiting... ({status})" in master.said()


def workers_leave_when_their_master_is_gone(binary, folder):
    port = free_port()
    with Master(binary, folder, answering(folder, port)) as master, contextlib.ExitStack() as stack:
        master.served()
        slow = stack.enter_context(tcp(port)())
        master.served()
        worker = master.current()
        slow.sendall(b"GET / HTTP/1.1\r\n")
        wait_until(lambda: "CurrConns: 1\n" in master.ask("@1 show info"))
        master.process.kill()
        assert wait_until(lambda: not connects(port)), "it takes nothing new"
        slow.sendall(b"Host: x\r\n\r\n")
        assert slow.recv(65536).startswith(b"HTTP/1.1 200"), "it finishes what it has"
        assert wait_until(lambda: not alive(worker))
        assert "The master is gone" in master.said()


# --- bad cases

def a_configuration_that_cannot_be_read_again_keeps_the_service(binary, folder):
    port = free_port()
    config = answering(folder, port)

    def directory():
        os.mkdir(config)

    def pipe():
        os.mkfifo(config)

    def unreadable():
        folder.file("a.cfg", "frontend f\n")
        os.chmod(config, 0)
        if ROOT:
            os.remove(config)
            os.symlink(config, config)

    with Master(binary, folder, config) as master:
        master.served()
        first = master.current()
        for make, words in ((lambda: None, "No such file or directory"), (directory, "listener"),
                            (pipe, "can be read once only"), (unreadable, "Cannot open configuration file")):
            with contextlib.suppress(FileNotFoundError):
                os.remove(config)
            make()
            answer = master.ask("reload")
            assert answer.startswith("Success=0\n") and words in answer, (words, answer)
            assert master.workers() == [first] and request(port).startswith(b"HTTP/1.1 200")
            with contextlib.suppress(OSError):
                os.rmdir(config)
        with contextlib.suppress(FileNotFoundError):
            os.remove(config)
        answering(folder, port)
        master.reload()


def a_port_that_is_taken_keeps_the_former_worker(binary, folder):
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as other:
        config = answering(folder, port)
        with Master(binary, folder, config) as master:
            master.served()
            taken = other.getsockname()[1]
            answering(folder, port, bind=f"127.0.0.1:{port}\n    bind 127.0.0.1:{taken}")
            answer = master.ask("reload")
            assert answer.startswith("Success=0\n") and "Address already in use" in answer and str(taken) in answer, answer
            assert request(port).startswith(b"HTTP/1.1 200") and len(master.workers()) == 1


def a_pid_file_that_cannot_be_written_is_said(binary, folder):
    config = answering(folder, free_port())
    for path, why in (("/nonexistent/pid", "No such file or directory"), ("/dev/full", "No space left on device")):
        status, _, err = run(binary, "-W", "-p", path, "-f", config)
        assert status == 1 and f"Cannot create pidfile {path}: {why}" in err, err


def a_full_process_table_keeps_the_former_worker(binary, folder):
    needs_root()
    port = free_port()
    config = answering(folder, port, extra="nbthread 1")
    os.chmod(folder.path, 0o777)
    master = Master(binary, folder, config)
    with open(master.log, "a"):
        os.chmod(master.log, 0o666)
    words = " ".join(f"'{word}'" for word in master.command)
    # As somebody who has no other process, with room for one start and not one more.
    for most in range(3, 12):
        master.command = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "bash", "-c",
                          f"ulimit -u {most}; exec {words}"]
        master.__enter__()
        wait_until(lambda: connects(port) or master.process.poll() is not None, 10)
        if wait_until(lambda: "Loading success." in master.said(), 0.5):
            break
        master.__exit__()
    try:
        first = master.served().current()
        answer = master.ask("reload")
        assert answer.startswith("Success=0\n") and "Cannot fork" in answer, answer
        assert request(port).startswith(b"HTTP/1.1 200") and master.workers() == [first]
        assert "[failed: 1]" in master.ask("show proc")
    finally:
        master.__exit__()


def a_program_that_is_gone_keeps_the_service(binary, folder):
    own, port = os.path.join(folder.path, "weir"), free_port()
    shutil.copy(binary, own)
    with Master(own, folder, answering(folder, port)) as master:
        master.served()
        os.rename(own, own + ".away")
        answer = master.ask("reload")
        assert "Failed to reexecute the master process" in answer or answer == "", answer
        assert "Failed to reexecute the master process" in master.said()
        assert request(port).startswith(b"HTTP/1.1 200") and "Pid:" in master.ask("@1 show info")
        os.rename(own + ".away", own)
        master.reload()
        assert request(port).startswith(b"HTTP/1.1 200")


# --- the command line

def the_command_line_speaks_for_the_master_and_passes_on(binary, folder):
    with Master(binary, folder, answering(folder, free_port())) as master:
        worker = master.served().current()
        assert "reload" in master.ask("help") and "show stat" not in master.ask("help")
        assert master.ask("show version; show version").count("3.5") == 2
        assert master.ask(f"@1; show info; @; show version").count(f"Pid: {worker}\n") == 1
        assert f"Pid: {worker}\n" in master.ask(f"@!{worker} show info")
        assert master.ask(f"@!{master.pid} show version") == master.ask("show version")
        assert "Can't find the target PID matching the prefix '@!1'" in master.ask("@!1 show info")
        assert "Can't find the target" in master.ask("@7 show info")
        assert master.ask("prompt p\n@1\n@\nquit") == f"\nmaster> {worker}> master> "
        assert f"Pid: {worker}\n" in master.ask("@@1 show info")
        both = master.ask("@@1\nprompt i\nshow version\nshow version\nquit")
        assert both.count("3.5") == 2, both
        assert master.ask("echo a b") == "a b\n\n"
        assert "Unknown command" in master.ask("nonsense")
        assert master.ask("_send_status READY 1") == "Permission denied\n\n"
        assert "ipc_fd" in master.ask("show proc debug")
        # The client that says no end hears the end all the same.
        assert master.ask("show version", end=False).startswith("3.5")


def payloads_reach_the_worker_whole(binary, folder):
    names = folder.file("names.map", "a 1\n")
    config = answering(folder, free_port(), frontend=f"http-request set-header x %[path,map({names})]")
    with Master(binary, folder, config) as master:
        master.served()
        assert master.ask(f"@1 add map {names} <<\nb 2\nc 3\n\n") == "\n"
        shown = master.ask(f"@1 show map {names}")
        assert re.findall(r"(\w) (\d)\n", shown) == [("a", "1"), ("b", "2"), ("c", "3")], shown
        many = "".join(f"k{number} {number}\n" for number in range(5000))
        assert master.ask(f"@1 add map {names} <<END\n{many}END\n") == "\n"
        assert len(master.ask(f"@1 show map {names}").splitlines()) == 5004


def levels_hold_on_both_sides(binary, folder):
    for level, reloads in (("user", False), ("operator", True), ("admin", True)):
        config = answering(folder, free_port())
        with Master(binary, folder, config) as master:
            pass
        master.socket = os.path.join(folder.path, level)
        master.command = [binary, "-W", "-S", f"{master.socket},level,{level},mode,600", "-f", config]
        with master:
            master.served()
            assert os.stat(master.socket).st_mode & 0o777 == 0o600
            assert master.ask("show cli level") == f"{level}\n\n"
            assert master.ask("@1 show cli level") == f"{level}\n\n"
            assert (master.ask("reload") == "Permission denied\n\n") == (not reloads)
            denied = master.ask("@1 disable frontend f") == "Permission denied\n\n"
            assert denied == (level != "admin")
            assert master.ask("operator; @1 disable frontend f").endswith("Permission denied\n\n")


# --- hand-over between processes

def sockets_are_handed_over_with_x(binary, folder):
    take_over([binary], [binary], folder)


def sockets_are_taken_from_the_packaged_haproxy(binary, folder):
    needs_haproxy()
    take_over([HAPROXY], [binary], folder)


def sockets_are_given_to_the_packaged_haproxy(binary, folder):
    needs_haproxy()
    take_over([binary], [HAPROXY], folder)


def take_over(former, latter, folder):
    port, many = free_port(), free_port()
    name, abstract = os.path.join(folder.path, "front.sock"), f"weir-take-{os.getpid()}-{port}"
    stats = os.path.join(folder.path, "stats.sock")
    bind = f"127.0.0.1:{port}\n    bind {name}\n    bind abns@{abstract}\n    bind 127.0.0.2:{many}-{many + 299} interface lo"
    extra = f"stats socket {stats} level admin expose-fd listeners"
    one = answering(folder, port, "one", extra, bind=bind)
    two = answering(folder, port, "two", extra, bind=bind, name="b.cfg")
    with Program(*former, "-db", "-f", one) as first:
        first.ready(port)
        assert wait_until(lambda: os.path.exists(name) and os.path.exists(stats))
        kinds = [Clients(tcp(port), 2), Clients(unix(name), 2), Clients(unix("\0" + abstract.ljust(107, "\0")), 2)]
        with contextlib.ExitStack() as stack:
            for kind in kinds:
                stack.enter_context(kind)
            assert wait_until(lambda: all(sum(kind.answers.values()) > 20 for kind in kinds))
            with Program(*latter, "-db", "-f", two, "-x", stats, "-sf", str(first.pid)) as second:
                assert wait_until(lambda: all(kind.answers.get("two", 0) > 20 for kind in kinds), 10), \
                    [(kind.answers, kind.failures[:2]) for kind in kinds]
                assert first.status(10) == 0
                assert wait_until(lambda: request(many + 7, host="127.0.0.2").startswith(b"HTTP/1.1 200"))
                before = [dict(kind.answers) for kind in kinds]
                assert wait_until(lambda: all(sum(kind.answers.values()) > sum(old.values()) + 20
                                              for kind, old in zip(kinds, before)))
                for kind in kinds:
                    kind.over = True
                for kind in kinds:
                    kind.__exit__()
                assert second.process.poll() is None
        for kind in kinds:
            assert not kind.failures, kind.failures[:3]


def a_running_haproxy_master_is_reloaded_into_weir(binary, folder):
    """Somebody puts weir in the place of the program and reloads: the same process goes on, and nobody notices."""
    needs_haproxy()
    port, program = free_port(), os.path.join(folder.path, "lb")
    config = answering(folder, port, "one")
    shutil.copy(HAPROXY, program)
    with Master(program, folder, config) as master:
        master.served()
        with Clients(tcp(port)) as clients:
            assert wait_until(lambda: clients.answers.get("one", 0) > 50)
            os.remove(program)
            shutil.copy(binary, program)
            answering(folder, port, "two")
            master.send(USR2)
            assert wait_until(lambda: clients.answers.get("two", 0) > 50, 10), (clients.answers, clients.failures[:3])
            assert re.search(rf"{master.pid} +master +1 \[failed: 0\] .*weir", master.ask("show proc"))
            master.reload()
            assert wait_until(lambda: len(master.workers()) == 1)
        assert not clients.failures, clients.failures[:3]


def a_socket_without_the_word_gives_nothing(binary, folder):
    port, stats = free_port(), os.path.join(folder.path, "stats.sock")
    with Program(binary, "-db", "-f", answering(folder, port, extra=f"stats socket {stats} level admin")) as program:
        program.ready(port)
        assert wait_until(lambda: os.path.exists(stats))
        assert talk(stats, "_getsocks") == "Permission denied\n\n"


def sockets_of_the_service_manager_are_used(binary, folder):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = answering(folder, port)
        # As systemd does: from descriptor 3 on, and the number of the process.
        script = folder.file("start", f"""#!/bin/bash
exec 3<&{listener.fileno()}
export LISTEN_FDS=1 LISTEN_PID=$$
exec {binary} -W -f {config} -S {folder.path}/master.sock
""")
        os.chmod(script, 0o755)
        with Program(script, pass_fds=[listener.fileno()]) as program:
            # Not bound to share its address: only this very socket can be listened on.
            assert wait_until(lambda: request(port).startswith(b"HTTP/1.1 200"), 10)
            assert talk(f"{folder.path}/master.sock", "reload").startswith("Success=1")
            listener.close()
            assert request(port).startswith(b"HTTP/1.1 200")
            program.send(TERM)
            program.status()


def connections_pass_over_a_pair_of_sockets(binary, folder):
    port = free_port()
    ours, theirs = socket.socketpair()
    config = folder.file("a.cfg", f"""
defaults
    mode http
    timeout connect 2s
    timeout client 5s
    timeout server 5s
listen a
    bind 127.0.0.1:{port}
    server s sockpair@{ours.fileno()}
frontend b
    bind sockpair@{theirs.fileno()}
    http-request return status 200 content-type text/plain string "passed"
""")
    with Master(binary, folder, config, pass_fds=[ours.fileno(), theirs.fileno()]) as master:
        master.served()
        with Clients(tcp(port)) as clients:
            for _ in range(5):
                master.reload()
        assert not clients.failures and clients.answers.get("passed", 0) > 20, (clients.failures[:3], clients.answers)


def needs_root():
    if not ROOT:
        raise LeftOut("needs root")


def needs_haproxy():
    if HAPROXY is None:
        raise LeftOut("needs the packaged haproxy")


if __name__ == "__main__":
    sys.exit(main("master", [sys.modules[__name__]]))
