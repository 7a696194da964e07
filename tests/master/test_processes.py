"""Processes of a service, their users, and the remains of processes that ended."""
import contextlib
import os
import signal
import subprocess
import threading
import time

from lib.needs import needs_root
from lib.program import TERM, Program, answering, connects, free_port, request, run, wait_until
from master.support import Master, alive, field, link, quiet_client, tcp


def marked(mark):
    """The processes with a mark in their initial environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark in file.read() and alive(pid):
                    found.append(int(pid))
        except OSError:
            pass
    return found


def test_r127_a_failed_first_start_leaves_no_process(binary, folder):
    """Neither the master nor the worker nor the intermediate processes of a daemon; and the exit status comes at once."""
    bad = folder.file("bad.cfg", "frontend f\n    nonsense\n")
    for words in (["-W"], ["-W", "-D"], ["-Ws"]):
        mark = f"WEIR_TEST_MARK={os.getpid()}.{time.monotonic_ns()}"
        name, value = mark.split("=")
        began = time.monotonic()
        done = subprocess.run([binary, *words, "-f", bad], env=dict(os.environ, **{name: value}), stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=10)
        assert done.returncode == 1, (words, done)
        assert time.monotonic() - began < 5
        assert wait_until(lambda: not marked(mark.encode())), (words, marked(mark.encode()))


def test_r129_killed_workers_leave_no_descriptors_or_wakeups_in_the_master(binary, folder, port):
    """The master continues, without a further descriptor and without wakeups for a closed one."""
    config = answering(folder, port, frontend="option http-keep-alive")
    with Master(binary, folder, config) as master:
        master.served()
        before = master.descriptors()
        for _ in range(6):
            with quiet_client(master, port) as (_, first):
                master.reload()
                assert alive(first)
                os.kill(first, signal.SIGKILL)
                assert wait_until(lambda: f"Former worker ({first}) exited with code 137" in master.said()), master.said()
            assert wait_until(lambda: master.descriptors() <= before), (before, master.descriptors())
        assert f"Pid: {master.current()}\n" in master.ask("@1 show info")

        def ticks():
            with open(f"/proc/{master.pid}/stat") as file:
                return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13]))

        first = ticks()
        time.sleep(0.3)
        assert ticks() - first <= 5, "it is awake all the time"


def test_r140_master_commands_reach_every_thread_of_a_worker(binary, folder, port):
    """One thread has the channel to the master; commands about other threads reach them through it."""
    with Master(binary, folder, answering(folder, port, extra="nbthread 3")) as master:
        master.served()
        threads = master.ask("@1 show threads")
        assert [f" Thread {number} :" in threads for number in (1, 2, 3, 4)] == [True, True, True, False], threads

        def spawned():
            line = next(line for line in master.ask("@1 show activity").splitlines() if line.startswith("tasks_spawned:"))
            return [int(count) for count in line.split("[", 1)[1].split()[:3]]

        before = spawned()
        # `show sess` queries each thread for its own streams: clients are spread over all of them.
        with contextlib.ExitStack() as clients:
            begun = [clients.enter_context(tcp(port)()) for _ in range(30)]
            for client in begun:
                client.sendall(b"GET / HTTP/1.1\r\n")
            ports = {f":{client.getsockname()[1]} " for client in begun}
            assert wait_until(lambda: all(name in master.ask("@1 show sess") for name in ports)), master.ask("@1 show sess")
            after = spawned()
            assert all(late > early for early, late in zip(before, after)) and sum(after) >= sum(before) + 30, (before, after)


def test_r149_a_configuration_is_read_once_and_parsed_twice(binary, folder, port):
    """It comes through a pipe that is written once: the master looks through it, and the worker parses it."""
    pipe = os.path.join(folder.path, "pipe")
    with open(answering(folder, port, extra="nbthread 2")) as file:
        text = file.read()
    os.mkfifo(pipe)

    def write_once():
        with open(pipe, "w") as file:
            file.write(text)

    writer = threading.Thread(target=write_once, daemon=True)
    writer.start()
    with Master(binary, folder, pipe) as master:
        master.served()
        assert request(port).startswith(b"HTTP/1.1 200")
        with open(f"/proc/{master.pid}/task/{master.pid}/children") as children:
            assert len(children.read().split()) == 1
    writer.join(5)
    assert not writer.is_alive()


def test_r156_master_and_worker_of_option_D_run_in_the_background(binary, folder, port):
    """With -D and -W both are in the background, in a session of their own, and the worker is the master's child."""
    pid_file = os.path.join(folder.path, "pid")
    started = subprocess.Popen([binary, "-W", "-D", "-p", pid_file, "-f", answering(folder, port)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert started.wait(10) == 0, started.stdout.read()
    with open(pid_file) as file:
        master = int(file.read())
    try:
        assert master != started.pid and field(master, "PPid")[0] not in (str(started.pid), str(os.getpid()))
        with open(f"/proc/{master}/task/{master}/children") as children:
            worker = int(children.read())
        assert field(worker, "PPid") == [str(master)] and connects(port)
        assert os.getsid(master) == os.getsid(worker) != os.getsid(0)
        for pid in (master, worker):
            assert {link(f"/proc/{pid}/fd/{number}") for number in range(3)} == {"/dev/null"}, pid
    finally:
        os.kill(master, TERM)
    assert wait_until(lambda: not alive(master) and not alive(worker))


def test_r156_option_Ws_stays_in_the_foreground_without_option_D(binary, folder, port):
    """`-Ws` outweighs the word `daemon` of the configurations of distributions; `-D` outweighs `-Ws`."""
    pid_file = os.path.join(folder.path, "pid")
    config = answering(folder, port, extra="daemon")
    with Program(binary, "-Ws", "-p", pid_file, "-f", config) as program:
        assert wait_until(lambda: connects(port)) and program.process.poll() is None
        # The master writes the file once its worker serves.
        assert wait_until(lambda: os.path.exists(pid_file) and open(pid_file).read() == f"{program.process.pid}\n")
    assert run(binary, "-Ws", "-D", "-p", pid_file, "-f", config)[0] == 0
    with open(pid_file) as file:
        master = int(file.read())
    try:
        assert wait_until(lambda: connects(port)) and os.getsid(master) != os.getsid(0)
    finally:
        os.kill(master, TERM)
    assert wait_until(lambda: not alive(master))


def test_r158_r160_a_process_without_a_master_changes_user_and_keeps_capabilities(binary, folder):
    """In the foreground and in the background without a master: one change of identity, with the capabilities that are kept."""
    needs_root()
    for words in (["-db"], ["-D"]):
        port, pid_file = free_port(), os.path.join(folder.path, "pid")
        config = answering(folder, port, extra="uid 65534\n    gid 65534\n    nbthread 2\n    setcap cap_net_admin,cap_net_bind_service")
        # Started with supplementary groups, which a process must drop when it changes its user.
        with Program(binary, *words, "-p", pid_file, "-f", config, extra_groups=[4, 24]) as program:
            assert wait_until(lambda: connects(port)), program.process.poll()
            # The file is written after the first listener is ready.
            assert wait_until(lambda: os.path.exists(pid_file) and os.path.getsize(pid_file) > 0)
            with open(pid_file) as file:
                pid = int(file.read())
            try:
                names = {}

                def both_workers(names=names, pid=pid):
                    """A thread has its name a moment after it begins."""
                    names.clear()
                    for thread in (f"{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task")):
                        with open(f"/proc/{thread}/comm") as file:
                            names[thread] = file.read().strip()
                    return sum(name.startswith("worker") for name in names.values()) == 2

                assert wait_until(both_workers), names
                for thread in names:
                    assert field(thread, "Uid") == ["65534"] * 4 and field(thread, "Gid") == ["65534"] * 4, (words, names[thread])
                    assert field(thread, "Groups") == [], (words, names[thread])
                    if names[thread].startswith("worker"):
                        assert int(field(thread, "CapEff")[0], 16) == 0x1400, (words, field(thread, "CapEff"))
            finally:
                os.kill(pid, TERM)
            assert wait_until(lambda: not alive(pid))
