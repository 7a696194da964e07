"""Checks by programs: their arguments and environment, their results, kills, and the limit on running programs."""
import contextlib
import os
import signal
import time

from checks.support import Scene
from lib.origin import Server
from lib.program import free_port, run, wait_until

WANTED = "external-check\n    insecure-fork-wanted"
RECORD = """#!/bin/sh
out="{folder}/$HAPROXY_SERVER_NAME"
echo "$0 $*" > "$out.new"
/usr/bin/env | /usr/bin/sort >> "$out.new"
for f in 0 2; do /usr/bin/readlink /proc/$$/fd/$f; done >> "$out.new"
/bin/mv "$out.new" "$out"
{end}
"""


def program(folder, name, end="exit 0"):
    """A program that records its arguments and environment, and ends in this way."""
    path = folder.file(name, RECORD.format(folder=folder.path, end=end))
    os.chmod(path, 0o755)
    return path


def told(folder, server):
    """A server's record: the program's command line, and its environment followed by the standard streams."""
    path = os.path.join(folder.path, server)
    assert wait_until(lambda: os.path.exists(path)), f"no check of {server}"
    with open(path) as file:
        lines = file.read().splitlines()
    # The shell adds its own.
    own = ("PWD=", "OLDPWD=", "SHLVL=", "_=")
    return lines[0], [line for line in lines[1:] if not line.startswith(own)]


def test_external_checks_get_the_arguments_and_environment_of_the_manual(binary, folder):
    path = program(folder, "check.sh")
    port = free_port()
    sections = f"""
listen l
    bind 127.0.0.1:{port}
    mode http
    option external-check
    external-check command {path}
    external-check path "/usr/bin:/bin"
    server one 127.0.0.2:9 check inter 500ms maxconn 7 addr 127.0.0.3 port 10
backend b
    option external-check
    external-check command {path}
    server two [2001:db8::1]:99 check inter 500ms
    server three /nowhere.sock check inter 500ms
"""
    with Scene(binary, folder, sections, WANTED, name="l.cfg") as scene:
        line, environment = told(folder, "one")
        assert line == f"{path} 127.0.0.1 {port} 127.0.0.2 9", line
        proxy_id = scene.ask("show servers state l").split("\n")[2].split()[0]
        assert environment == [
            "HAPROXY_PROXY_ADDR=127.0.0.1", f"HAPROXY_PROXY_ID={proxy_id}", "HAPROXY_PROXY_NAME=l",
            f"HAPROXY_PROXY_PORT={port}", "HAPROXY_SERVER_ADDR=127.0.0.2", "HAPROXY_SERVER_CURCONN=0", "HAPROXY_SERVER_ID=1",
            "HAPROXY_SERVER_MAXCONN=7", "HAPROXY_SERVER_NAME=one", "HAPROXY_SERVER_PORT=9", "HAPROXY_SERVER_PROTO=h1",
            "HAPROXY_SERVER_SSL=0", "PATH=/usr/bin:/bin", "/dev/null", "/dev/null"], environment
        line, environment = told(folder, "two")
        assert line == f"{path} NOT_USED NOT_USED 2001:db8::1 99", line
        for expected in ("HAPROXY_PROXY_ADDR=", "HAPROXY_PROXY_PORT=", "HAPROXY_SERVER_PROTO=tcp", "PATH="):
            assert expected in environment, environment
        line, environment = told(folder, "three")
        assert line == f"{path} NOT_USED NOT_USED /nowhere.sock NOT_USED", line
        assert "HAPROXY_SERVER_PORT=" in environment, environment
        scene.expect("l", "one", status="UP", check_status="PROCOK", check_code="0")


def test_external_check_preserve_env_keeps_the_environment(binary, folder):
    path = program(folder, "check.sh")
    sections = f"""
backend b
    option external-check
    external-check command {path}
    server s 127.0.0.1:9 check inter 500ms
"""
    extra = f"{WANTED.replace('check', 'check preserve-env', 1)}\n    setenv ADDED here\n    setenv HAPROXY_SERVER_NAME wrong"
    with Scene(binary, folder, sections, extra):
        _, environment = told(folder, "s")
        assert "ADDED=here" in environment and "HAPROXY_SERVER_NAME=s" in environment, environment
        assert len(environment) == len(set(line.split("=")[0] for line in environment if "=" in line)) + 2, environment


def test_exit_statuses_of_external_checks_become_server_states(binary, folder):
    three = program(folder, "three.sh", "exit 3")
    killed = program(folder, "killed.sh", "kill -9 $$")
    plain = folder.file("plain.sh", "exit 0\n")
    os.chmod(plain, 0o755)
    sections = "defaults\n    mode tcp\n    option external-check\n    timeout connect 2s\n" + "".join(f"""
backend {name}
    external-check command {command}
    external-check path /nonexistent:/usr/bin:/bin
    server s 127.0.0.1:9 check inter 300ms
""" for name, command in [("three", three), ("killed", killed), ("absent", "/nonexistent/x"), ("no-program", "/etc/passwd"),
                          ("found", "true"), ("plain", plain)])
    with Scene(binary, folder, sections, WANTED) as scene:
        scene.expect("three", "s", status="DOWN", check_status="PROCERR", check_code="3", check_desc="External check error")
        scene.expect("killed", "s", status="DOWN", check_status="PROCERR", check_code="4294967295", last_chk="Killed")
        scene.expect("absent", "s", status="DOWN", check_status="PROCERR", check_code="255",
                     last_chk="cannot be executed: No such file or directory")
        scene.expect("no-program", "s", status="DOWN", check_status="PROCERR", check_code="255",
                     last_chk="cannot be executed: Permission denied")
        scene.expect("found", "s", status="UP", check_status="PROCOK", check_desc="External check passed")
        scene.expect("plain", "s", status="UP", check_status="PROCOK")


def test_slow_external_checks_are_killed_with_their_children(binary, folder):
    numbers = os.path.join(folder.path, "numbers")
    path = program(folder, "slow.sh", f"/bin/sleep 20 & echo $$ $! >> {numbers}; wait")
    sections = f"""
backend b
    option external-check
    external-check command {path}
    timeout check 100ms
    server s 127.0.0.1:9 check inter 400ms fall 1
"""
    with Scene(binary, folder, sections, WANTED) as scene:
        scene.expect("b", "s", status="DOWN", check_status="PROCTOUT", check_desc="External check timeout")
        with open(numbers) as file:
            processes = [int(word) for word in file.readline().split()]

        def is_gone(process):
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                return True
            with open(f"/proc/{process}/stat") as file:
                # A zombie that was not reaped yet.
                return file.read().rsplit(") ", 1)[1].startswith("Z")
        for process in processes:
            assert wait_until(lambda: is_gone(process)), f"{process} of {processes} still runs"
        # Ended programs are reaped.
        zombies = [entry for entry in os.listdir("/proc") if entry.isdigit() and parent(entry) == scene.program.pid]
        assert len(zombies) <= 2, zombies


def parent(process):
    """Process ID of a process's parent. None if it does not exist."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return int(file.read().rsplit(") ", 1)[1].split()[1])
    except OSError:
        return None


def children(process):
    """The numbers of a process's children."""
    return [entry for entry in os.listdir("/proc") if entry.isdigit() and parent(entry) == process]


def kill_programs(processes):
    """Kills the programs of checks, each with its group, that were still running when their parent was killed."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(process), signal.SIGKILL)


def test_at_most_64_external_checks_run_at_a_time(binary, folder):
    path = program(folder, "slow.sh", "exec /bin/sleep 20")
    servers = "\n".join(f"    server s{number} 127.0.0.1:9 check inter 60s" for number in range(100))
    sections = f"backend b\n    option external-check\n    external-check command {path}\n{servers}\n"
    with Scene(binary, folder, sections, WANTED + "\n    max-spread-checks 1ms\n    nbthread 2") as scene:
        def running():
            return children(scene.program.pid)
        assert wait_until(lambda: len(running()) == 64), len(running())
        # The others wait; the runtime API responds meanwhile.
        assert not wait_until(lambda: len(running()) > 64, 0.5), len(running())
        assert scene.stat("b", "s99", "status")[0].startswith("UP")
        processes = running()
        scene.program.send(signal.SIGTERM)
        assert scene.program.status() == -signal.SIGTERM, scene.program.status()
    kill_programs(processes)


def test_missing_external_check_settings_are_reported(binary, folder):
    def check(text, *expected):
        status, out, err = run(binary, "-c", "-f", folder.file("c.cfg", text))
        for line in expected:
            assert line in out + err, f"{line!r} is not in {out + err}"
        return status
    proxy = "defaults\n timeout connect 1s\n timeout server 1s\n timeout client 1s\nfrontend f\n bind 127.0.0.1:1\nbackend b\n option external-check\n server s 127.0.0.1:1 check\n"
    assert check(proxy, "Proxy 'b' : 'option external-check' unable to find required 'global.external-check'",
                 "Proxy 'b' : 'option external-check' unable to find required 'external-check command'") == 1
    allowed = "global\n external-check\n insecure-fork-wanted\n"
    assert check(f"{allowed}{proxy} external-check command x\n",
                 "Proxy 'b': 'external-check command' does not have a leading '/' and 'external-check path' is not set") == 1
    assert check(f"{allowed}{proxy} external-check command x\n external-check path /bin\n") == 0
    assert check(f"global\n external-check\n{proxy} external-check command /x\n", "Proxy 'b' : 'insecure-fork-wanted' not enabled in "
                 "the global section, 'option external-check' will likely fail") == 0


def test_external_checks_that_do_not_exit_are_killed_and_leak_nothing(binary, folder):
    """More programs than may run at once ignore signals, print for ever, start others, or stop themselves: they are
    killed in time, nothing piles up, and other checks are not disturbed. They start few children: the process that
    adopts orphans may reap them slowly, and when process numbers run out, a shell ends by itself with its children
    alive."""
    marker = f"31{os.getpid() % 100000:05d}"
    ways = {
        "deaf": "trap '' TERM INT HUP QUIT; while :; do /bin/sleep 0.1; done",
        "loud": "exec /usr/bin/yes",
        "many": f"i=0; while [ $i -lt 3 ]; do /bin/sleep {marker} & i=$((i+1)); done; wait",
        "stopped": "kill -STOP $$",
    }
    proxies = ""
    for way, words in ways.items():
        path = folder.file(f"{way}.sh", f"#!/bin/sh\n{words}\n")
        os.chmod(path, 0o755)
        lines = "\n".join(f"    server s{number} 127.0.0.1:9 check inter 500ms fall 1" for number in range(20))
        proxies += f"backend {way}\n    option external-check\n    external-check command {path}\n    timeout check 300ms\n{lines}\n"
    port = Server().port
    proxies += f"backend plain\n    server s 127.0.0.1:{port} check inter 100ms fall 1\n"
    with Scene(binary, folder, proxies, WANTED) as scene, contextlib.ExitStack() as at_end:
        pid = scene.program.pid
        at_end.callback(lambda: kill_programs(children(pid)))

        def asleep():
            return [entry for entry in os.listdir("/proc") if entry.isdigit() and command(entry) == ["/bin/sleep", marker]]
        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        for way in ways:
            scene.expect(way, "s7", status="DOWN", check_status="PROCTOUT", seconds=20)
        most = [0, 0]
        for _ in range(20):
            begun = time.monotonic()
            scene.ask("show info")
            assert time.monotonic() - begun < 1, "the runtime API was late"
            most = [max(most[0], len(children(pid))), max(most[1], len(os.listdir(f"/proc/{pid}/fd")))]
            time.sleep(0.1)
        # 64 run, and as many may have died without being noticed yet.
        assert most[0] <= 128 and most[1] <= descriptors + 128 + 16, (most, descriptors)
        assert scene.stat("plain", "s", "status", "chkfail") == ("UP", "0")
        for way in ways:
            for number in range(20):
                scene.ask(f"disable health {way}/s{number}")
        assert wait_until(lambda: not asleep(), 5), asleep()
        assert wait_until(lambda: len(children(pid)) <= 64, 5), children(pid)
        assert wait_until(lambda: len(os.listdir(f"/proc/{pid}/fd")) <= descriptors + 16, 5), "descriptors of programs stay open"


def command(process):
    """The command line of a process. None if it does not exist."""
    try:
        with open(f"/proc/{process}/cmdline") as file:
            return file.read().split("\0")[:-1]
    except OSError:
        return None
