"""A failed start changes nothing: neither the running process's files and sockets nor its manager's view of it."""
import contextlib
import os
import re
import signal
import socket
import subprocess

from lib import ring
from lib.needs import needs_root
from lib.origin import Server
from lib.program import TERM, Program, answering, ask, connects, free_port, request, run, wait_until
from master.support import IS_ROOT, Master, Service, many_patterns, talk

RUNNING = """
    log ring@r local0
    option httplog
    bind unix@{folder}/front.sock
"""
RING = """
ring r
    size 32k
    backing-file {folder}/ring
"""


def running(folder, port, extra="", name="a.cfg", more=""):
    """A configuration with everything that a start could take from another process."""
    path = answering(folder, port, "running", name=name, frontend=RUNNING.format(folder=folder.path),
                     extra=f"stats socket {folder.path}/admin.sock level admin\n    pidfile {folder.path}/pid\n    {extra}")
    with open(path, "a") as file:
        file.write(RING.format(folder=folder.path) + more)
    return path


def state(folder):
    """The files and their contents, apart from those that are rewritten all the time."""
    found = {}
    for name in sorted(os.listdir(folder.path)):
        path = os.path.join(folder.path, name)
        if name in ("log", "notify", "b.cfg"):
            continue
        status = os.lstat(path)
        small = os.path.isfile(path) and status.st_size < 4096
        found[name] = (status.st_ino, status.st_mode, open(path, "rb").read() if small else None)
    return found


def changed(before, after):
    return {name: (before.get(name), after.get(name)) for name in {*before, *after} if before.get(name) != after.get(name)}


def failures(folder, taken):
    """Additions to the second process's configuration, and the error message that each causes."""
    port = free_port()
    yield "a word", running(folder, port, "nonsense", "b.cfg"), "nonsense"
    yield "a port", running(folder, port, "", "b.cfg", f"\nfrontend g\n    bind 127.0.0.1:{taken}\n"), str(taken)
    yield "a folder", running(folder, port, "", "b.cfg", "\nfrontend g\n    bind unix@/nonexistent/x\n"), "/nonexistent/x"
    yield "a ring", running(folder, port, "", "b.cfg", "\nring q\n    backing-file /nonexistent/q\n"), "/nonexistent/q"
    if IS_ROOT:
        yield "a user", running(folder, port, "user nobody-at-all", "b.cfg"), "nobody-at-all"
        yield "a root", running(folder, port, "chroot /nonexistent", "b.cfg"), "Cannot chroot(/nonexistent)"
        yield "a privilege", running(folder, port, "uid 65534", "b.cfg", "\nfrontend g\n    http-request set-mark 1\n"), \
            "requires full privileges"


def test_a_failed_start_leaves_files_and_sockets_of_a_running_master_unchanged(binary, folder, port):
    with Server() as other, Master(binary, folder, running(folder, port)) as master:
        master.served()
        before = state(folder)
        for what, config, words in failures(folder, other.port):
            for options in (["-db"], ["-W", "-S", master.socket], ["-D"], ["-W", "-D", "-S", master.socket]):
                status, _, said = run(binary, *options, "-f", config)
                assert status == 1 and words in said, (what, options, status, said)
                assert state(folder) == before, (what, options, changed(before, state(folder)))
            command = [binary, "-Ws", "-S", master.socket, "-f", config]
            with Service(command, folder) as service:
                assert service.process.wait(10) == 1, what
                told = service.heard()
                assert "READY" not in told and told["STATUS"] == "Start failed!", (what, told)
                service.pid_file = "/nonexistent"
            assert state(folder) == before, (what, changed(before, state(folder)))
        assert "master          0 [failed: 0]" in talk(master.socket, "show proc")
        assert f"Pid: {master.current()}\n" in ask(f"{folder.path}/admin.sock", "show info")
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"{folder.path}/front.sock")
            client.sendall(b"GET /kept HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert client.recv(4096).startswith(b"HTTP/1.1 200")
        assert wait_until(lambda: any(b"GET /kept" in text for text in ring.messages(f"{folder.path}/ring")))
        # A successful start has taken everything.
        status, _, said = run(binary, "-W", "-D", "-S", master.socket, "-f", running(folder, free_port(), name="b.cfg"))
        assert status == 0, said
        after = state(folder)
        pid = int(after["pid"][2])
        try:
            assert pid != master.pid and f" {pid} ".strip() in talk(master.socket, "show proc")
            assert all(after[name][0] != before[name][0] for name in ("admin.sock", "front.sock", "master.sock", "ring")), after
            assert after["ring.bak"][0] == before["ring"][0]
        finally:
            os.kill(pid, TERM)


def test_a_failed_reload_leaves_files_and_sockets_of_the_worker_unchanged(binary, folder, port):
    """The files and sockets of the worker that serves stay its own, whatever is wrong with the next one."""
    with Server() as other, Master(binary, folder, running(folder, port)) as master:
        worker = master.served().current()
        before = state(folder)
        for what, config, words in failures(folder, other.port):
            os.replace(config, master.config)
            after = {name: found for name, found in before.items() if name != "a.cfg"}
            answer = master.ask("reload")
            assert answer.startswith("Success=0\n--\n") and words in answer, (what, answer)
            left = {name: found for name, found in state(folder).items() if name != "a.cfg"}
            assert left == after, (what, changed(after, left))
            assert wait_until(lambda: master.workers() == [worker]), what
            assert f"Pid: {worker}\n" in ask(f"{folder.path}/admin.sock", "show info"), what
            assert request(port).startswith(b"HTTP/1.1 200"), what
        running(folder, port)
        master.reload()
        assert wait_until(lambda: master.workers() not in ([], [worker]) and len(master.workers()) == 1)
        assert f"Pid: {master.current()}\n" in ask(f"{folder.path}/admin.sock", "show info")


def test_a_start_that_cannot_change_its_user_leaves_all_files_unchanged(binary, folder, port):
    """The user IDs are not mapped in this user namespace, so only the system call fails."""
    needs_root()
    with Program(binary, "-db", "-f", running(folder, port)) as program:
        program.ready(port)
        assert wait_until(lambda: {"admin.sock", "front.sock", "ring", "pid"} <= {*os.listdir(folder.path)})
        assert wait_until(lambda: not [name for name in os.listdir(folder.path) if name.endswith(".tmp")])
        before = state(folder)
        for words in ("uid 65534", "gid 65534"):
            config = running(folder, free_port(), words, "b.cfg")
            apart = subprocess.run(["unshare", "-U", "-r", binary, "-db", "-f", config], capture_output=True, text=True, timeout=10)
            assert apart.returncode == 1, apart.stderr
            assert re.search(r"\[ALERT\].*Cannot (set [ug]id 65534|drop supplementary groups|set)", apart.stderr), apart.stderr
            assert state(folder) == before, words


def test_a_failed_first_start_leaves_no_file(binary, folder):
    config = folder.file("b.cfg", "nonsense\n")
    for options in (["-db"], ["-W", "-S", f"{folder.path}/m.sock"], ["-W", "-D", "-S", f"{folder.path}/m.sock"]):
        assert run(binary, *options, "-p", f"{folder.path}/pid", "-f", config)[0] == 1
        assert os.listdir(folder.path) == ["b.cfg"], (options, os.listdir(folder.path))


def test_a_pid_file_on_a_full_disk_makes_the_start_fail(binary, folder, port):
    for options in (["-db"], ["-D"], ["-W"], ["-W", "-D"]):
        status, _, said = run(binary, *options, "-p", "/dev/full", "-f", answering(folder, port))
        assert status == 1 and "Cannot create pidfile /dev/full: No space left on device" in said, (options, said)
        assert not connects(port), options


def test_a_former_process_listens_again_after_its_successor_failed(binary, folder, port):
    """The addresses are free once the former process releases them; the pid file cannot be written: the former process
    continues. Many addresses, because it listens again while the new process closes them."""
    addresses = [f"127.0.0.{number}" for number in range(1, 201)]
    config = answering(folder, port, extra="noreuseport", bind=",".join(f"{address}:{port}" for address in addresses))
    with Program(binary, "-db", "-f", config) as former:
        former.ready(port)
        status, _, said = run(binary, "-db", "-p", "/dev/full", "-f", config, "-sf", str(former.pid))
        assert status == 1 and "/dev/full" in said, said
        assert wait_until(lambda: connects(port)) and former.status(0.2) is None
        for address in (addresses[0], addresses[-1]):
            assert request(port, host=address).startswith(b"HTTP/1.1 200")


def test_a_master_killed_in_any_phase_leaves_no_worker_behind(binary, folder, port):
    """`kill -9` while its worker reads, and while that one serves: no process stays, and the next start has the addresses."""
    waits = answering(folder, port, name="b.cfg", frontend=f"acl a path_reg -f {many_patterns(folder)}")
    serves = answering(folder, port)
    with contextlib.ExitStack() as stack:
        for config, ready in ((waits, lambda master: master.workers()), (serves, lambda master: connects(port))):
            master = stack.enter_context(Master(binary, folder, config))
            assert wait_until(lambda: ready(master)), master.said()
            worker = master.current()
            os.kill(master.pid, signal.SIGKILL)
            assert wait_until(lambda: not os.path.exists(f"/proc/{worker}"), 20), (config, master.said())
        last = stack.enter_context(Master(binary, folder, serves))
        last.served()
        assert request(port).startswith(b"HTTP/1.1 200") and len(last.workers()) == 1


def test_two_masters_started_at_once_with_one_cli_path_both_serve(binary, folder):
    """With the same path for `-S`: it belongs to one of them, and both serve."""
    ports = [free_port(), free_port()]
    configs = [answering(folder, port, name=f"{port}.cfg") for port in ports]
    with Master(binary, folder, configs[0]) as first, Master(binary, folder, configs[1]) as second:
        assert wait_until(lambda: all(connects(port) for port in ports), 10)
        assert wait_until(lambda: first.said().count("Loading success.") == 2, 10)
        assert str(first.pid) in first.ask("show proc") or str(second.pid) in first.ask("show proc")
        assert not [name for name in os.listdir(folder.path) if name.endswith(".tmp")], os.listdir(folder.path)


def test_a_start_without_enough_threads_fails_and_leaves_no_file(binary, folder, port):
    needs_root()
    os.chmod(folder.path, 0o777)
    config = answering(folder, port, extra=f"nbthread 16\n    pidfile {folder.path}/pid\n    stats socket {folder.path}/admin.sock")
    words = f"ulimit -u 6; exec '{binary}' -db -f '{config}'"
    done = subprocess.run(["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", "bash", "-c", words],
                          capture_output=True, text=True, timeout=10)
    assert done.returncode == 1 and "Cannot start the workers" in done.stderr, done.stderr
    assert not os.path.exists(f"{folder.path}/pid") and not os.path.exists(f"{folder.path}/admin.sock")
