"""The master's command line."""
import os
import re

from masters.support import Master
from program import answering, free_port


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
