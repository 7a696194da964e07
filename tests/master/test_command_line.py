"""The master's command line."""
import contextlib
import os
import re
import signal
import socket
import time

from lib.origin import read_all
from lib.program import answering, free_port, wait_until
from master.support import Master, alive, field, finished, slow_client, tcp, unix


def test_the_master_cli_answers_commands_and_forwards_them_to_workers(binary, folder):
    with Master(binary, folder, answering(folder, free_port())) as master:
        worker = master.served().current()
        assert "reload" in master.ask("help") and "show stat" not in master.ask("help")
        # Commands between the processes are not listed.
        assert "_loadstatus" not in master.ask("help") and "_send_status" not in master.ask("help")
        for prefix in ("", "@1 "):
            shown = master.ask(f"{prefix}show env").splitlines()
            assert "HAPROXY_MWORKER=1" in shown and f"HAPROXY_MASTER_CLI=unix@{master.socket}" in shown, shown
            assert not any(line.startswith(("WEIR_", "HAPROXY_PROCESSES", "HAPROXY_MWORKER_REEXEC")) for line in shown), shown
        assert master.ask("show env HAPROXY_MWORKER") == "HAPROXY_MWORKER=1\n\n"
        assert master.ask("show version; show version").count("3.5") == 2
        assert master.ask("@1; show info; @; show version").count(f"Pid: {worker}\n") == 1
        assert f"Pid: {worker}\n" in master.ask(f"@!{worker} show info")
        assert master.ask(f"@!{master.pid} show version") == master.ask("show version")
        assert "Can't find the target PID matching the prefix '@!1'" in master.ask("@!1 show info")
        assert "Can't find the target" in master.ask("@7 show info")
        assert master.ask("prompt p\n@1\n@\nquit") == f"master> {worker}> master> "
        assert f"Pid: {worker}\n" in master.ask("@@1 show info")
        both = master.ask("@@1\nprompt i\nshow version\nshow version\nquit")
        assert both.count("3.5") == 2, both
        assert master.ask("echo a b") == "a b\n\n"
        assert "Unknown command" in master.ask("nonsense")
        assert master.ask("_send_status READY 1") == "Permission denied\n\n"
        assert "ipc_fd" in master.ask("show proc debug")


def test_the_master_cli_answers_each_line_of_a_connection(binary, folder):
    """Without a prompt as well, as on the socket of HAProxy's master, in one piece or line by line. An empty line gets an empty answer."""
    with Master(binary, folder, answering(folder, free_port())) as master:
        master.served()
        for target in ("", "@1\n"):
            for setting in ("expert-mode on", "user", "set severity-output none", ""):
                expected = ("" if setting else "\n") + ("user" if setting == "user" else "admin") + "\n\n"
                assert master.ask(f"{target}{setting}\nshow cli level") == expected, (target, setting)
        assert master.ask("show cli level\nnonsense\n@1 show cli level").endswith("\n\nadmin\n\n")
        with unix(master.socket)() as client:
            for line in ("show cli level", "@1 show cli level", "@1;show cli level;@"):
                client.sendall(f"{line}\n".encode())
                assert client.recv(100) == b"admin\n\n", line
            client.sendall(b"quit\n")
            assert client.recv(100) == b""


def test_master_cli_session_settings_apply_to_forwarded_commands(binary, folder):
    """Severities, as the library of the Data Plane API sets them, and timeouts. The master only answers mistakes in such commands."""
    config = answering(folder, free_port())
    with Master(binary, folder, config) as master:
        worker = master.served()
        unknown = "[3]: No such server.\n\n"
        for target in ("@1", f"@!{worker.current()}"):
            assert master.ask(f"set severity-output number;{target} set server f/zz weight 50;quit") == unknown.replace("server", "backend")
        assert master.ask("set severity-output string;@1 show cli level") == "[info]: admin\n\n"
        assert master.ask("set severity-output string;user;@1 show cli level") == "[info]: user\n\n"
        assert master.ask("set severity-output number;set severity-output none;@1 get weight b/s") == "No such backend.\n\n"
        assert master.ask("@1;set severity-output number;get weight b/s") == "[3]: No such backend.\n\n"
        # Each command for a worker is a separate session on the worker.
        assert master.ask("@1 set severity-output number;@1 get weight b/s") == "\nNo such backend.\n\n"
        assert master.ask("set severity-output number;@1 add map x <<\na b\n") == "[3]: Unknown map identifier. Please use #<id> or <file>.\n\n"
        assert master.ask("set severity-output number;@@1 get weight b/s") == "[3]: No such backend.\n\n"
        assert master.ask("set severity-output number;nonsense").startswith("[6]: Unknown command: 'nonsense'")
        needed = "one of 'none', 'number', 'string' is a required argument\n\n"
        assert master.ask("set severity-output;set severity-output x") == 2 * needed
        assert master.ask("set timeout cli 5;set timeout cli;set timeout") == "Expects an integer value.\n\n'set timeout' only supports 'cli'.\n\n"
        for silent in ("expert-mode on", "experimental-mode on", "mcli-debug-mode on", "user", "operator", "prompt n", "set timeout cli 5"):
            assert master.ask(f"{silent};quit") == "", silent
        assert master.ask("expert-mode on;expert-mode") == "expert-mode is ON\n\n"
        began = time.monotonic()
        assert master.ask("set timeout cli 1;prompt i", end=False) == "" and 0.9 < time.monotonic() - began < 5


def test_payloads_reach_the_worker_complete(binary, folder):
    names = folder.file("names.map", "a 1\n")
    config = answering(folder, free_port(), frontend=f"http-request set-header x %[path,map({names})]")
    with Master(binary, folder, config) as master:
        master.served()
        assert master.ask(f"@1 add map {names} <<\nb 2\nc 3\n") == "\n"
        shown = master.ask(f"@1 show map {names}")
        assert re.findall(r"(\w) (\d)\n", shown) == [("a", "1"), ("b", "2"), ("c", "3")], shown
        many = "".join(f"k{number} {number}\n" for number in range(5000))
        assert master.ask(f"@1 add map {names} <<END\n{many}END") == "\n"
        assert len(master.ask(f"@1 show map {names}").splitlines()) == 5004


def test_lines_of_a_refused_payload_are_not_run_as_commands(binary, folder):
    own, by_port = os.path.join(folder.path, "cli"), free_port()
    config = answering(folder, free_port(), extra=f"stats socket {own} level admin\n    stats socket 127.0.0.1:{by_port} level admin")
    # Each command would print an answer if any process ran it.
    lines = "show version\n" * 30_000
    words = "w " * 65
    with Master(binary, folder, config) as master:
        master.served()
        places = [(master.socket, "@1 "), (master.socket, ""), (master.socket, "@!1 "), (own, "")]
        for path, whom in places:
            for text, refusal in ((f"add map x <<\n{lines}", "The payload is too long."),
                                  (f"add map x <<END\n{'y' * 20_000}\n{lines}", "The line is too long."),
                                  (f"add map x {words}<<\n{lines}", "Too many words, the limit is 64.")):
                answer = refused(unix(path), f"prompt i\n{whom}{text}\nshow version\n")
                # A worker answers `prompt i`, with nothing.
                assert answer.removeprefix("\n" if path == own else "") == f"{refusal}\n\n", (path, whom, answer[:200])
        # The error arrives even if the client keeps sending.
        for text in (f"add map x <<\n{lines}", "x" * 400_000):
            assert "too long" in refused(tcp(by_port), text)
        # A payload within the limit is not executed as commands either, even if its command fails.
        for whom, answer in (("@!1 ", "Can't find the target PID matching the prefix '@!1'\n\n"), ("@1 ", "Unknown command"),
                             ("", "Unknown command")):
            said = master.ask(f"prompt i\n{whom}nonsense <<\nreload\nshow version\n\necho end")
            assert said.startswith(answer) and said.endswith("end\n\n") and "3.5" not in said, said
        # Only the last command of a line has a payload.
        assert "3.5" in master.ask("@1 add map x <<; @1 show version")
        assert len(master.workers()) == 1


def refused(connect, text):
    """The answer to a client that keeps sending its whole text."""
    with connect() as client:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.sendall(text.encode())
        return read_all(client).decode()


def test_master_cli_levels_apply_to_the_master_and_its_workers(binary, folder):
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


def test_in_mcli_debug_mode_worker_commands_describe_the_master(binary, folder):
    with Master(binary, folder, answering(folder, free_port())) as master:
        worker = master.served().current()
        assert "Unknown command" in master.ask("show info")
        assert master.ask("mcli-debug-mode") == "mcli-debug-mode is OFF\n\n"
        opened = master.ask("mcli-debug-mode on; mcli-debug-mode; help")
        assert opened.startswith("mcli-debug-mode is ON\n\n"), opened
        assert "  show info" in opened and "  reload " in opened and "set maxconn global" not in opened, opened
        assert "debug dev" not in opened and "Unknown" in master.ask("mcli-debug-mode on; mcli-debug-mode off; show info")

        def ask(text):
            return master.ask(f"mcli-debug-mode on; {text}")

        info = dict(line.split(": ", 1) for line in ask("show info").splitlines() if ": " in line)
        expected = {"Pid": str(master.pid), "Nbthread": "1", "CurrConns": "0", "Listeners": "1", "Stopping": "0"}
        assert {name: info[name] for name in expected} == expected, info
        # Connections before any query are counted too: at least one worker, and the four clients above and this one.
        assert int(info["CumConns"]) == 6 and int(info["TotalBytesOut"]) > len(opened), info
        assert int(info["Uptime_sec"]) < 60 and int(info["Jobs"]) == 2 and int(info["Tasks"]) > 3, info
        assert ask("show threads").startswith("* Thread 1 : act=1"), ask("show threads")
        assert "curr_task=master cli session@" in ask("show threads")
        assert ask("show activity").startswith("thread_id: 1 (1..1)\n")
        # The worker's objects are absent, and commands cannot change them.
        assert len(ask("show stat").splitlines()) == 2 and ask("show backend") == "# name\n\n"
        assert ask("show sess") == "\n" and ask("disable frontend f") == "No such frontend.\n\n"
        assert ask("set server b/s state maint") == "No such backend.\n\n"
        for command in ("set maxconn global 7", "set rate-limit connections global 7", "_getsocks",
                        "expert-mode on; debug dev loop 9999999"):
            assert "is for processes that serve: this one is the master.\n" in ask(command), command
        assert ask("debug dev panic") == "This command is restricted to expert mode only.\n\n"
        assert f"Pid: {worker}\n" in ask("@1 show info") and f"Pid: {master.pid}\n" in ask(f"@!{master.pid} show info")
        # Session settings of a command persist, payloads belong to their command, and letters in the prompt show the
        # modes.
        assert ask("set severity-output number; disable frontend f") == "[3]: No such frontend.\n\n"
        assert ask("prompt i; add map #0 <<\nquit\n\necho a").endswith("identifier. Please use #<id> or <file>.\n\na\n\n")
        assert master.ask("prompt p\nmcli-debug-mode on\nexpert-mode on\nshow backend\nuser\nquit") == \
            "master> master(d)> master(ed)> # name\n\nmaster(ed)> master> "
        assert "stopping" not in master.said() and alive(worker)


def test_mcli_debug_mode_requires_level_admin(binary, folder):
    with Master(binary, folder, answering(folder, free_port())) as master:
        master.served()
        for level in ("user", "operator"):
            answer = master.ask(f"{level}; mcli-debug-mode on; show info")
            assert answer.startswith("Permission denied\n\nUnknown command"), answer
            # A session that drops its own rights loses access.
            assert "Unknown command" in master.ask(f"mcli-debug-mode on; {level}; show info")


def test_watch_commands_in_mcli_debug_mode_end_with_their_client(binary, folder):
    def clients():
        jobs = re.search(r"\nJobs: (\d+)\n.*\nListeners: (\d+)\n", master.ask("mcli-debug-mode on; show info"), re.S)
        return int(jobs[1]) - int(jobs[2])

    with Master(binary, folder, answering(folder, free_port())) as master:
        master.served()
        assert master.ask("mcli-debug-mode on; wait 100").endswith("\n\n")
        for command in ("wait 1h", "show events buf0 -w", "trace applet sink buf0; trace applet start now; show events buf0 -w"):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(master.socket)
                client.sendall(f"mcli-debug-mode on; {command}\n".encode())
                # The master keeps responding meanwhile, on the same session, too.
                for _ in range(3):
                    assert wait_until(lambda: clients() == 2), command
            assert wait_until(lambda: clients() == 1), command
        # It logs its own events.
        assert f"<CLI> on unix@{master.socket}" in master.ask("mcli-debug-mode on; show events buf0")
        # A memory profile needs symbol names, which the master resolves without a second thread.
        assert "master cli session" in master.ask(
            "mcli-debug-mode on; set profiling memory on; show info; show profiling memory; set profiling memory off")
        assert field(master.pid, "Threads") == ["1"]


def test_a_stopping_master_reports_stopping_and_ends_watch_commands(binary, folder, port):
    with Master(binary, folder, answering(folder, port)) as master, slow_client(master, port) as (slow, _):
        assert "\nStopping: 0\n" in master.ask("mcli-debug-mode on; show info")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(master.socket)
            client.sendall(b"prompt i; mcli-debug-mode on; show backend; show events buf0 -w\n")
            assert wait_until(lambda: b"# name" in client.recv(65536, socket.MSG_PEEK))
            os.kill(master.pid, signal.SIGUSR1)
            assert wait_until(lambda: "\nStopping: 1\n" in master.ask("mcli-debug-mode on; show info"))
            while client.recv(65536):
                pass
        assert finished(slow).startswith(b"HTTP/1.1 200") and master.process.wait(10) == 0


def test_a_reload_ends_mcli_debug_mode(binary, folder):
    with Master(binary, folder, answering(folder, free_port())) as master:
        first = master.served().current()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(10)
            client.connect(master.socket)
            client.sendall(b"prompt i; mcli-debug-mode on; show backend; wait 1h\n")
            assert wait_until(lambda: b"# name" in client.recv(65536, socket.MSG_PEEK))
            master.reload()
            while client.recv(65536):
                pass
        master.served(2)
        assert wait_until(lambda: not alive(first)) and master.current() != first
        assert master.ask("mcli-debug-mode") == "mcli-debug-mode is OFF\n\n" and "Unknown" in master.ask("show info")
        info = master.ask("mcli-debug-mode on; show info; reload")
        assert f"Pid: {master.pid}\n" in info and "Success=1\n" in info, info
        master.served(3)


def test_repeated_mcli_debug_mode_takes_no_more_memory_or_descriptors(binary, folder):
    with Master(binary, folder, answering(folder, free_port())) as master:
        master.served()
        for _ in range(50):
            master.ask("mcli-debug-mode on; show info; show activity; show stat; show profiling; show events")
        memory, before = int(field(master.pid, "RssAnon")[0]), master.descriptors()
        for _ in range(200):
            master.ask("mcli-debug-mode on; show info; show activity; show stat; show profiling; show events")
        grown = int(field(master.pid, "RssAnon")[0]) - memory
        assert grown < 1000 and wait_until(lambda: master.descriptors() <= before), f"{grown} kB"
