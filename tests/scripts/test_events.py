"""Events that scripts subscribe to."""
import re
import socket
import subprocess
import time

import pytest

from lib.origin import Origin
from lib.program import wait_until

LOG = """
log = {}
local function note(event, data) log[#log + 1] = event .. " " .. data.name .. (data.reference and "" or " gone") end
"""
READ = """
core.register_fetches("log", function() return table.concat(log, ",") end)
core.register_fetches("count", function() return tostring(#log) end)"""
RULES = """http-request return status 200 content-type text/plain lf-string "%[lua.log]" if { path /log }
    http-request return status 200 content-type text/plain lf-string "%[lua.count]" if { path /count }
    http-request set-map(virt@m) %[path] x if { path /set }
    http-request set-header x %[path,map(virt@m)]
    http-request return status 200
backend be
    balance roundrobin
    server s1 127.0.0.1:1 weight 10
    server s2 127.0.0.1:1"""


class Watched:
    """A world with a socket of the runtime API."""

    def __init__(self, world, script, rules=RULES, threads=1):
        self.world, self.path = world, f"{world.folder.path}/cli"
        world.serve(LOG + script + READ, rules, global_lines=f"stats socket {self.path} level admin\n    nbthread {threads}")

    def say(self, line):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(8)
            client.connect(self.path)
            client.sendall(line.encode() + b"\n")
            return b"".join(iter(lambda: client.recv(65536), b"")).decode().strip()

    def log(self):
        return self.world.ask("/log").partition("\r\n\r\n")[2]

    def reaches(self, expected):
        assert wait_until(lambda: self.log() == expected), self.log()


def test_changes_of_servers_reach_their_handler_in_order(world):
    watched = Watched(world, 'core.event_sub({"SERVER"}, note)')
    watched.say("set server be/s1 state maint; set server be/s1 state ready; set server be/s2 addr 127.0.0.9")
    watched.reaches("SERVER_ADMIN s1,SERVER_DOWN s1,SERVER_STATE s1,SERVER_ADMIN s1,SERVER_UP s1,SERVER_STATE s1,SERVER_INETADDR s2")


def test_added_and_deleted_servers(world):
    watched = Watched(world, 'core.event_sub({"SERVER_ADD", "SERVER_DEL"}, note)')
    watched.say("add server be/n 127.0.0.1:9")
    watched.reaches("SERVER_ADD n")
    assert "deleted" in watched.say("del server be/n")
    watched.reaches("SERVER_ADD n,SERVER_DEL n gone")


def test_the_subscription_of_a_deleted_server_ends(world):
    watched = Watched(world, """
core.event_sub({"SERVER_ADD"}, function(event, data) data.reference:event_sub({"SERVER_ADMIN", "SERVER_DEL"}, note) end)""")
    for _ in range(2):
        before = watched.log()
        watched.say("add server be/n 127.0.0.1:9")
        # The subscription follows a moment later.
        assert wait_until(lambda: (watched.say("enable server be/n; disable server be/n"), "SERVER_ADMIN" in watched.log()[len(before):])[1])
        assert "deleted" in watched.say("del server be/n")
        assert wait_until(lambda: watched.log()[len(before):].endswith("SERVER_DEL n gone"))


def test_the_data_of_checks(world):
    origin = Origin(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
    rules = RULES + f"\n    option httpchk\n    server c 127.0.0.1:{origin.port} check inter 50ms rise 2 fall 2"
    watched = Watched(world, """
core.event_sub({"SERVER_CHECK", "SERVER_STATE"}, function(event, data)
    local check = data.check or data.state.check
    if data.name ~= "c" then return end
    log[#log + 1] = table.concat({event, check.result, tostring(check.agent), math.type(check.duration), check.reason.short, check.reason.desc,
        tostring(check.reason.code), check.health.cur, check.health.rise, check.health.fall}, ";") .. (data.state and ";" .. data.state.new_state or "")
end)""", rules)
    report = "FAILED;false;integer;L7STS;Layer7 wrong status;404;0;2;2"
    watched.reaches(f"SERVER_CHECK;{report},SERVER_STATE;{report};STOPPED")


def test_changes_of_patterns_by_operators_rules_and_scripts(world):
    watched = Watched(world, """
core.register_init(function()
    core.get_patref("virt@m"):event_sub({"PAT_REF"}, function(event, sub, when) log[#log + 1] = event .. " " .. type(sub) .. " " .. math.type(when) end)
end)""")
    watched.say("add map virt@m a 1; set map virt@m a 2; del map virt@m a; clear map virt@m")
    world.ask("/set")
    world.ask("/set")
    names = ("ADD", "SET", "DEL", "CLEAR", "ADD", "SET")
    watched.reaches(",".join(f"PAT_REF_{name} table integer" for name in names))


def test_handlers_wait_and_run_one_after_the_other(world):
    watched = Watched(world, """
local running = 0
core.event_sub({"SERVER_ADMIN"}, function(event, data)
    running = running + 1
    core.msleep(30)
    log[#log + 1] = tostring(running)
    running = running - 1
end)""")
    watched.say("disable server be/s1; enable server be/s1; disable server be/s2; enable server be/s2")
    watched.reaches("1,1,1,1")


def test_a_handler_unsubscribes_itself(world):
    watched = Watched(world, """
core.event_sub({"SERVER_ADMIN"}, function(event, data, sub) note(event, data) sub:unsub() sub:unsub() core.msleep(1) note("after", data) end)
core.event_sub({"SERVER_UP"}, note)""")
    watched.say("disable server be/s1; enable server be/s1")
    assert wait_until(lambda: len(watched.log().split(",")) == 3)
    watched.say("disable server be/s1; enable server be/s1")
    assert wait_until(lambda: len(watched.log().split(",")) == 4)
    assert sorted(watched.log().split(",")) == ["SERVER_ADMIN s1", "SERVER_UP s1", "SERVER_UP s1", "after s1"]


def test_a_handler_that_fails_gets_the_next_event(world):
    watched = Watched(world, 'core.event_sub({"SERVER_ADMIN"}, function(event, data) note(event, data) error("broken") end)')
    watched.say("disable server be/s1; enable server be/s1")
    watched.reaches("SERVER_ADMIN s1,SERVER_ADMIN s1")
    assert len(re.findall(r"Lua event_hdl: \[state-id \d\] runtime error: \S+/script.lua:\d+: broken from ", world.said())) == 2


def test_events_beyond_the_bound_are_dropped_and_counted(world):
    if world.haproxy:
        pytest.skip("HAProxy pauses the subscription")
    watched = Watched(world, """
core.register_init(function() core.get_patref("virt@m"):event_sub({"PAT_REF_ADD"}, function() core.msleep(1) log[#log + 1] = "x" end) end)
core.register_cli({"storm"}, "storm", function(applet)
    local map = core.get_patref("virt@m")
    for number = 1, 10000 do map:add("k" .. number, "v") end
end)""")
    watched.say("storm")

    def count():
        return int(world.ask("/count").partition("\r\n\r\n")[2])

    def is_idle():
        before = count()
        time.sleep(0.2)
        return before == count() >= 1_000
    assert wait_until(is_idle, 30)
    # The handler goes on behind the loss.
    handled = count()
    watched.say("add map virt@m last v")
    assert wait_until(lambda: count() == handled + 1)
    handled, said = handled + 1, world.said()
    dropped = int(re.search(r"Lua event_hdl: \[state-id \d\] (\d+) events were dropped", said)[1])
    assert handled + dropped == 10_001


def test_a_process_with_subscriptions_ends(world):
    watched = Watched(world, 'core.event_sub({"SERVER"}, note)', threads=2)
    watched.say("disable server be/s1")
    world.program.process.terminate()
    try:
        assert world.program.process.wait(timeout=5) is not None
    except subprocess.TimeoutExpired:
        pytest.fail("the process waits for its subscriptions")
