"""Commands of scripts in the runtime API."""
import re
import socket
import time

import pytest

from lib.program import Program, wait_until

RETURN = "http-request return status 200"
BUSY = "core.register_cli({'busy'}, 'busy', function(applet) applet:send('begun\\n') while true do end end)"


class Operator:
    """A world with sockets of the runtime API for administrators and for users."""

    def __init__(self, world, script, *lines, settings=""):
        self.world = world
        self.sockets = {level: f"{world.folder.path}/{level}" for level in ("admin", "user")}
        stats = "\n    ".join(f"stats socket {path} level {level}" for level, path in self.sockets.items())
        world.serve(script, RETURN, global_lines="\n    ".join([stats, f"stats timeout 10s {settings}", *lines]))

    def connect(self, level="admin", seconds=8.0):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(seconds)
        client.connect(self.sockets[level])
        return client

    def say(self, *parts, level="admin", shut=True, seconds=8.0):
        """All that a client receives that sends these parts."""
        with self.connect(level, seconds) as client:
            for number, part in enumerate(parts):
                if number:
                    time.sleep(0.05)
                client.sendall(part.encode())
            if shut:
                client.shutdown(socket.SHUT_WR)
            return read_all(client).decode("latin-1")


def read_all(client):
    return b"".join(iter(lambda: client.recv(65536), b""))


def test_a_command_answers_with_its_words_at_each_level(world):
    operator = Operator(world, """
core.register_cli({"show", "mine"}, "show mine [words]  what is mine", function(applet, ...)
    applet:send(table.concat({...}, "|") .. " " .. math.type(core.thread) .. "\\n")
end)""")
    for level in ("admin", "user"):
        assert operator.say("show mine all of\\ it\n", level=level) == "show|mine|all|of it integer\n\n"
    assert operator.say("prompt\nshow mine\nshow mine a; show mine b\n") == \
        "\n> show|mine integer\n\n> show|mine|a integer\n\nshow|mine|b integer\n\n> "
    assert "\n  show mine [words]  what is mine\n" in operator.say("help show mine\n")


def test_a_command_reads_the_lines_behind_it(world):
    operator = Operator(world, """
core.register_cli({"sum"}, "sum", function(applet)
    local sum = 0
    while true do
        local line = applet:getline()
        if line == "" or line == "end\\n" then break end
        sum = sum + tonumber(line)
    end
    applet:send(sum .. "\\n")
end)
core.register_cli({"all"}, "all", function(applet) applet:send(#applet:receive() .. "\\n") end)
core.register_cli({"five"}, "five", function(applet)
    local late = applet:receive(5, 20)
    applet:send(tostring(late) .. " " .. applet:receive(5))
end)""")
    assert operator.say("sum\n1\n2\n3") == "6\n\n"
    assert operator.say("prompt i\nsum\n1\n", "2\nen", "d\nsum\n4\nend\n") == "\n3\n\n4\n\n"
    assert operator.say("all\n" + "x" * 300_000) == "300000\n\n"
    if world.haproxy:
        return
    # Bytes of a call that timed out belong to the next one. HAProxy loses them.
    with operator.connect() as client:
        client.sendall(b"five\nab")
        time.sleep(0.2)
        client.sendall(b"cde")
        assert read_all(client) == b"nil abcde\n"


def test_a_silent_client_has_ended_its_input(world):
    operator = Operator(world, """
core.register_cli({"line"}, "line", function(applet) applet:send("[" .. applet:getline() .. "]") end)""", "stats timeout 300ms")
    assert operator.say("line\n", shut=False) == "[]\n"


def test_an_answer_waits_for_its_client(world):
    operator = Operator(world, """
core.register_cli({"big"}, "big", function(applet)
    for number = 1, 300 do applet:send(string.rep(string.char(96 + number % 26), 100000)) sent = number end
end)
core.register_cli({"whole"}, "whole", function(applet) applet:send(string.rep("x", 30000000)) end)
core.register_cli({"sent"}, "sent", function(applet) applet:send(tostring(sent)) end)""")
    with operator.connect(seconds=20) as client:
        client.sendall(b"big\n")
        time.sleep(0.5)
        # Buffers of sockets hold some hundred kilobytes.
        if world.load == "lua-load":
            assert int(operator.say("sent\n")) < 60
        answer = read_all(client)
    assert len(answer) == 30_000_001 and all(answer[at] == 96 + (at // 100_000 + 1) % 26 for at in range(0, 30_000_000, 50_000))
    assert len(operator.say("whole\n", seconds=20)) == 30_000_001
    if not world.haproxy:
        # Clients that leave do not keep their texts.
        sizes = []
        for _ in range(2):
            for _ in range(20):
                with operator.connect() as client:
                    client.sendall(b"whole\n")
                    client.recv(1000)
            sizes.append(world.program.resident_kb())
        assert sizes[1] < sizes[0] + 150_000, sizes


def test_a_command_that_waits_lets_others_run(world):
    operator = Operator(world, """
core.register_cli({"slow"}, "slow", function(applet) applet:send("a\\n") core.msleep(300) applet:send("b\\n") end)
core.register_cli({"quick"}, "quick", function(applet) applet:send("now") end)""")
    with operator.connect() as slow:
        slow.sendall(b"slow\n")
        assert slow.recv(100) == b"a\n"
        began = time.monotonic()
        assert operator.say("quick\n") == "now\n"
        assert time.monotonic() - began < 0.25
        assert read_all(slow) == b"b\n\n"


@pytest.mark.parametrize("code, report", [
    ("error('broken')", r"\[state-id \d\] runtime error: \S+/script.lua:1: broken from \[C\]: in global 'error', \S+/script.lua:1: in function line 1\."),
    ("error({})", r"\[state-id \d\] unknown runtime error from \[C\]: in global 'error', \S+/script.lua:1: in function line 1\."),
    ("applet:start_response()", r"\[state-id \d\] runtime error: \S+/script.lua:1: attempt to call a nil value \(method 'start_response'\)"),
])
def test_a_command_that_fails_ends_its_answer_and_is_reported(world, code, report):
    operator = Operator(world, f"core.register_cli({{'show', 'mine'}}, 'mine', function(applet) applet:send('before\\n') {code} end)")
    assert operator.say("show mine; show cli level\n") == "before\n\nadmin\n\n"
    assert re.search(r"Lua cli '<lua\.cli\.show\.mine>': " + report, world.said())


def test_a_command_that_computes_ends_at_its_limit(world):
    operator = Operator(world, BUSY, "tune.lua.service-timeout 300ms")
    began = time.monotonic()
    assert operator.say("busy; show cli level\n", seconds=20) == "begun\n\nadmin\n\n"
    assert world.haproxy or time.monotonic() - began < 5
    assert re.search(r"Lua cli '<lua\.cli\.busy>': .*execution timeout", world.said())


def test_the_command_of_the_runtime_api_stays(world):
    if world.haproxy:
        pytest.skip("HAProxy ends with a segmentation fault")
    for words, name in (('"show", "info"', "show info"), ('"reload"', "reload")):
        code, said = world.check(f"core.register_cli({{{words}}}, 'mine', function() end)", RETURN)
        assert code == 1 and f"register_cli: '{name}' is a command of the runtime API already" in said
    code, said = world.check('core.register_cli({"mine"}, "a", function() end)\ncore.register_cli({"mine"}, "b", function() end)', RETURN)
    assert code == 0 and "the cli 'lua.cli.mine' is registered more than once; the last one counts" in said


def test_the_master_forwards_commands_of_scripts(world):
    script = 'core.register_cli({"mine"}, "mine", function(applet, ...) applet:send(table.concat({...}, "|") .. "\\n") end)'
    path, configuration = f"{world.folder.path}/master", world.file(script, RETURN)
    world.program = Program(world.binary, "-W", "-db", "-S", path, "-f", configuration).__enter__()
    assert wait_until(world.answers)
    operator = Operator.__new__(Operator)
    operator.sockets = {"admin": path}
    assert wait_until(lambda: operator.say("@1 mine a b\n").strip("\n") == "mine|a|b")
    assert "Unknown command: 'mine'" in operator.say("mine\n")
