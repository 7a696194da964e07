"""Filters of scripts: their calls, the payload that they see and change, and what becomes of it in trouble."""
import re
import socket
import subprocess
import threading
import time

import pytest

from lib.log import LogServer
from lib.origin import Origin, Server, read_all, read_body, read_head
from lib.program import free_port, wait_until

# A filter with functions by their names; `note` appends to the answer of the service at /notes.
SUPPORT = """
notes = {}
local function note(...) notes[#notes + 1] = table.concat({...}, " ") end
core.register_service("notes", "http", function(applet)
    local text = table.concat(notes, "\\n")
    applet:set_status(200)
    applet:add_header("content-length", tostring(#text))
    applet:start_response()
    applet:send(text)
end)
local function define(name, functions, new)
    local F = {flags = filter.FLT_CFG_FL_HTX}
    F.__index = F
    function F:new() return setmetatable({args = self.args}, F) end
    function F:start_analyze(txn, chn) filter.register_data_filter(self, chn) end
    for key, value in pairs(functions) do F[key] = value end
    core.register_filter(name, F, function(flt, args) F.args = args return new or F end)
end
"""
NOTED = """
local function noting(key) return function(self, txn, subject) note(self.args[1], key, subject:is_resp() and "res" or "req")
    if key == "start_analyze" then filter.register_data_filter(self, subject) end end end
local F = {flags = filter.FLT_CFG_FL_HTX}
function F:new() return setmetatable({args = self.args}, {__index = self}) end
for _, key in ipairs{"start_analyze", "http_headers", "http_payload", "tcp_payload", "http_end", "end_analyze"} do F[key] = noting(key) end
core.register_filter("noted", F, function(flt, args) flt.args = args return flt end)
"""
UPPER = """
define("upper", {
    http_payload = function(self, txn, message) local body = message:body() if body then message:set(body:upper()) end end,
    tcp_payload = function(self, txn, channel) local data = channel:data() if type(data) == "string" then channel:set(data:upper()) end end})
"""


def backend(origin, lines="", notes=True):
    """Rules of the frontend, and a backend with the origin."""
    service = "http-request use-service lua.notes if { path /notes }\n" if notes else ""
    return f"{service}default_backend b\nbackend b\n{lines}\nserver s 127.0.0.1:{origin.port}\n"


def unchunked(body):
    """The payload of a chunked body."""
    payload = b""
    while body:
        size, _, body = body.partition(b"\r\n")
        count = int(size.split(b";")[0], 16)
        if not count:
            break
        payload, body = payload + body[:count], body[count + 2:]
    return payload


def curl(world, *options, path="/"):
    """The answer to a request of curl: its status, and its body."""
    done = subprocess.run(["curl", "-s", "-S", "-m", "10", "-w", "\n%{http_code}", *options, f"http://127.0.0.1:{world.port}{path}"], capture_output=True, check=False)
    body, _, status = done.stdout.rpartition(b"\n")
    return int(status), body


def echo(request):
    """An origin that answers with the body that it got."""
    body = unchunked(request.body) if request.field("transfer-encoding") else request.body
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)


def notes_of(world):
    return curl(world, path="/notes")[1].decode().splitlines()


def test_the_calls_of_filters_are_in_order(world):
    with Origin() as origin:
        rules = f"filter lua.noted front\n{backend(origin, 'filter lua.noted back')}"
        world.serve(SUPPORT + NOTED, rules, global_lines="nbthread 1")
        assert curl(world, "--data", "hello", path="/x") == (200, b"ok")
        wanted = ["front start_analyze req", "back start_analyze req"]
        wanted += [f"{side} {key} req" for key in ("http_headers", "http_payload", "http_end") for side in ("front", "back")]
        wanted += [f"{side} {key} res" for key in ("start_analyze", "http_headers", "http_payload", "http_end") for side in ("front", "back")]
        wanted += [f"{side} end_analyze {way}" for way in ("req", "res") for side in ("front", "back")]
        # A filter may see the end of the payload by itself, and HAProxy calls some functions more often than once. The response may begin
        # before the request has ended.
        shown = list(dict.fromkeys(notes_of(world)))
        for way in ("req", "res"):
            of_way = [line for line in shown if line.endswith(way)]
            assert of_way[:len(wanted) // 2] == [line for line in wanted if line.endswith(way)]


def test_a_denied_request_begins_and_ends(world):
    with Origin() as origin:
        rules = f"filter lua.noted front\nhttp-request deny if {{ path /no }}\n{backend(origin)}"
        world.serve(SUPPORT + NOTED, rules, global_lines="nbthread 1")
        assert curl(world, path="/no")[0] == 403
        assert notes_of(world)[:2] == ["front start_analyze req", "front end_analyze req"]


@pytest.mark.parametrize("options", [(), ("-H", "Transfer-Encoding: chunked"), ("--http2-prior-knowledge",)], ids=["length", "chunked", "h2"])
def test_large_bodies_are_changed_both_ways(world, options, tmp_path):
    body = bytes(97 + i % 26 for i in range(1_000_003))
    (tmp_path / "body").write_bytes(body)
    with Origin(echo) as origin:
        world.serve(SUPPORT + UPPER + """
            define("mark", {http_payload = function(self, txn, message)
                if message:is_resp() then local body = message:body() if body then message:set((body:gsub("A", "-"))) end end end})""",
                    f"filter lua.upper\nfilter lua.mark\n{backend(origin)}")
        status, answer = curl(world, "--data-binary", f"@{tmp_path}/body", *options)
        assert status == 200
        assert [unchunked(request.body) if request.field("transfer-encoding") else request.body for request in origin.requests] == [body.upper()]
        assert answer == body.upper().replace(b"A", b"-")


def test_a_body_grows_if_its_length_is_announced(world):
    script = SUPPORT + """
        define("grow", {http_headers = function(self, txn, message) if not message:is_resp() then message:set_body_len("chunked") end end,
            http_payload = function(self, txn, message) if not message:is_resp() and message:eom() and not self.done then self.done = true message:append("<end>") end end})
        define("cut", {http_headers = function(self, txn, message) if not message:is_resp() then message:set_body_len(3) end end,
            http_payload = function(self, txn, message) local body = not message:is_resp() and message:body()
                if body and #body > 3 then message:remove(3) end end})"""
    with Origin(echo) as origin:
        world.serve(script, f"use_backend grows if {{ path /grow }}\n{backend(origin, 'filter lua.cut')}backend grows\nfilter lua.grow\nserver s 127.0.0.1:{origin.port}\n")
        assert curl(world, "--data", "hello", path="/grow") == (200, b"hello<end>")
        assert origin.requests[0].field("content-length") is None
        assert curl(world, "--data", "hello", path="/cut") == (200, b"hel")
        assert origin.requests[1].field("content-length") == "3"


def test_a_new_length_is_in_the_head_at_once(world):
    """`set_body_len` changes the fields for the lines behind it, and for the next filter, which gets that many bytes."""
    script = SUPPORT + """
        local function shown(name, txn, message)
            local fields = message:get_headers()
            local function of(name) return tostring((fields[name] or {})[0]) end
            note(name, of("content-length"), of("transfer-encoding"), txn.sf:res_fhdr("content-length"))
        end
        define("first", {http_headers = function(self, txn, message)
                if not message:is_resp() then return end
                local length = txn:get_var("txn.length")
                length = tonumber(length) or length
                note(tostring(message:set_body_len(length)))
                shown("first", txn, message)
            end,
            http_payload = function(self, txn, message) local body = message:is_resp() and message:body()
                if body and txn:get_var("txn.length") == "3" and #body > 3 then message:remove(3) end end})
        define("second", {http_headers = function(self, txn, message) if message:is_resp() then shown("second", txn, message) end end})"""
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") as origin:
        filters = "http-request set-var(txn.length) url_param(length)\nfilter lua.first\nfilter lua.second"
        world.serve(script, backend(origin, filters), global_lines="nbthread 1")
        assert curl(world, path="/?length=3") == (200, b"hel")
        assert curl(world, path="/?length=chunked") == (200, b"hello")
        assert notes_of(world) == ["true", "first 3 nil 3", "second 3 nil 3", "true", "first nil chunked ", "second nil chunked "]


def test_two_filters_see_the_end_with_the_last_bytes(world):
    """The second one does not get a call for the end alone."""
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello") as origin:
        world.serve(SUPPORT + NOTED, f"filter lua.noted front\nfilter lua.noted back\n{backend(origin)}", global_lines="nbthread 1")
        with socket.create_connection(("127.0.0.1", world.port), 8) as client:
            client.sendall(b"POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello")
            assert read_all(client).endswith(b"hello")
        calls = [line for line in notes_of(world) if "http_payload" in line]
        # HAProxy calls them for the request of the notes, too.
        assert calls[:4] == [f"{name} http_payload {way}" for way in ("req", "res") for name in ("front", "back")]


def test_a_body_that_breaks_its_announced_length_ends_the_message(world):
    script = SUPPORT + 'define("grow", {http_payload = function(self, txn, message) if not message:is_resp() then message:append("more") end end})'
    with Origin(echo) as origin:
        world.serve(script, f"filter lua.grow\n{backend(origin)}")
        status, _ = curl(world, "--data", "hello", "-m", "6")
        assert status != 200
        assert not any(b"hello" in request.body for request in origin.requests)


def test_a_filter_keeps_a_body_until_its_end(world):
    """A web application firewall: it reads the whole body, and then lets it pass or refuses it."""
    script = SUPPORT + """
        define("waf", {http_payload = function(self, txn, message)
            if message:is_resp() then return end
            if not message:eom() then return filter.WAIT end
            local body = message:body()
            if not body then return end
            note("whole", #body)
            if body:find("evil") then error("an attack") end
        end})"""
    with Origin(echo) as origin:
        world.serve(script, f"filter lua.waf\n{backend(origin)}", global_lines="nbthread 1")
        for body, status in (("good", 200), ("evil", 400)):
            client = socket.create_connection(("127.0.0.1", world.port), 8)
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
            for letter in body:
                client.sendall(b"1\r\n%s\r\n" % letter.encode())
                time.sleep(0.02)
            assert not any(request.body for request in origin.requests[1:])
            client.sendall(b"0\r\n\r\n")
            assert read_all(client).startswith(b"HTTP/1.1 %d " % status)
        assert [unchunked(request.body) for request in origin.requests] == [b"good"]
        assert notes_of(world) == ["whole 4", "whole 4"]


def test_a_filter_that_waits_in_vain_refuses_the_message(world):
    """HAProxy calls it again and again, until its watchdog ends the process."""
    if world.haproxy:
        return
    script = SUPPORT + 'define("keep", {http_payload = function(self, txn, message) if not message:is_resp() then return filter.WAIT end end})'
    with Origin(echo) as origin, LogServer() as logs:
        world.serve(script, f"filter lua.keep\n{backend(origin, f'log 127.0.0.1:{logs.port} local0')}")
        assert curl(world, "--data", "hello")[0] == 400
        assert curl(world, "--data", "x" * 40_000)[0] == 400
        assert not origin.requests
        want = "Lua filter 'keep': 'http_payload' keeps bytes, but no more can arrive, and it set no wake time."
        assert wait_until(lambda: sum(want in line for line in logs.lines) == 2), logs.lines


def test_a_filter_slows_a_body_down(world):
    """A byte at a time, with a wake time between them."""
    if world.haproxy:
        return  # It spins until its watchdog ends it.
    script = SUPPORT + """
        define("slow", {http_payload = function(self, txn, message)
            if not message:is_resp() then return end
            if self.waited then self.waited = false return 1 end
            self.waited = true
            filter.wake_time(20)
            return filter.WAIT
        end})"""
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789") as origin:
        world.serve(script, f"filter lua.slow\n{backend(origin)}")
        began = time.monotonic()
        assert curl(world) == (200, b"0123456789")
        assert 0.18 <= time.monotonic() - began < 5


@pytest.mark.parametrize("slow", ["client", "server"])
def test_a_filter_that_goes_on_rests_while_its_output_waits(world, slow):
    """A filter that lets a part pass is called again for the rest, but not while a peer does not take the part."""
    script = SUPPORT + """
        define("piece", {http_payload = function(self, txn, message) return math.min(message:input(), 4000) end})"""
    size, reads = 20_000_000, threading.Event()

    def serve(connection):
        head, held = read_head(connection)
        if slow == "server":
            assert reads.wait(8)
            assert len(read_body(connection, head, held)[0]) == size
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size)

    with Server(serve) as server:
        world.serve(script, f"filter lua.piece\n{backend(server, notes=False)}")
        with socket.create_connection(("127.0.0.1", world.port), 8) as client:
            request = b"POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            count = size if slow == "server" else 0
            sender = threading.Thread(target=client.sendall, args=(request % count + b"x" * count,))
            sender.start()
            time.sleep(0.5)
            used = world.program.cpu_seconds()
            time.sleep(0.5)
            assert world.program.cpu_seconds() - used < 0.1
            reads.set()
            head, _, body = read_all(client).partition(b"\r\n\r\n")
            sender.join(8)
        assert b"200 OK" in head and len(body) == size


def test_the_order_of_filters_holds_for_heads_and_bodies(world):
    """A filter behind `compression` sees compressed bytes, and one in front plain ones."""
    script = SUPPORT + """
        local function see(name) return {
            http_headers = function(self, txn, message) if message:is_resp() then note(name, message:get_headers()["content-encoding"] and "gzip" or "plain") end end,
            http_payload = function(self, txn, message) if message:is_resp() and message:body() then note(name, message:body():sub(1, 3) == "abc" and "text" or "bytes") end end} end
        define("front", see("front")) define("back", see("back"))"""
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3000\r\n\r\n" + b"abc" * 1000) as origin:
        lines = "filter lua.front\nfilter compression\nfilter lua.back\ncompression algo gzip"
        world.serve(script, f"{lines}\n{backend(origin)}", global_lines="nbthread 1")
        assert curl(world, "--compressed", path="/x") == (200, b"abc" * 1000)
        seen = set(notes_of(world))
        assert {"front plain", "front text", "back gzip", "back bytes"} <= seen and "back text" not in seen


def test_a_retry_does_not_show_the_body_again(world):
    """The first server closes without an answer; the second one gets the output of the filter."""
    script = SUPPORT + """
        define("count", {http_payload = function(self, txn, message)
            if not message:is_resp() and message:body() then
                self.calls = (self.calls or 0) + 1
                note("call", self.calls, message:body())
                message:set(message:body():upper())
            end end})"""
    with Server(lambda connection: connection.recv(1000)) as first, Origin(echo) as origin:
        rules = f"filter lua.count\n{backend(origin)}".replace("server s", f"retry-on all-retryable-errors\noption redispatch 1\nbalance first\nserver a 127.0.0.1:{first.port}\nserver s")
        world.serve(script, rules, global_lines="nbthread 1")
        assert curl(world, "--data", "hello") == (200, b"HELLO")
        assert first.count >= 1 and notes_of(world) == ["call 1 hello"]


def test_filters_of_tcp(world):
    with Server(lambda connection: connection.sendall(b"got " + connection.recv(1000))) as peer:
        world.serve(SUPPORT + UPPER, f"filter lua.upper\ndefault_backend b\nbackend b\nserver s 127.0.0.1:{peer.port}", mode="tcp")
        client = socket.create_connection(("127.0.0.1", world.port), 8)
        client.sendall(b"hello")
        assert read_all(client) == b"GOT HELLO"


def test_a_filter_sets_variables_and_reads_fetches(world):
    script = SUPPORT + """
        define("facts", {
            http_headers = function(self, txn, message)
                if not message:is_resp() then txn:set_var("txn.path", txn.sf:path() .. " " .. txn.f:method()) end end,
            http_payload = function(self, txn, message)
                if message:is_resp() and message:body() then txn:set_var("txn.size", #message:body()) end end})"""
    with Origin() as origin, LogServer() as logs:
        rules = f"log 127.0.0.1:{logs.port} local0\nlog-format \"%[var(txn.path)] %[var(txn.size)] %B\"\nfilter lua.facts\nhttp-response set-header x-path %[var(txn.path)]\n{backend(origin)}"
        world.serve(script, rules)
        assert "x-path: /some GET" in world.ask("/some").lower().replace("get", "GET")
        assert wait_until(lambda: any("/some GET 2" in line for line in logs.lines)), logs.lines


def test_clients_that_leave_free_what_filters_hold(world):
    script = SUPPORT + """
        alive = setmetatable({}, {__mode = "k"})
        local F = {flags = filter.FLT_CFG_FL_HTX}
        function F:new() local flt = setmetatable({}, {__index = F}) alive[flt] = true return flt end
        function F:start_analyze(txn, chn) filter.register_data_filter(self, chn) end
        function F:http_payload(txn, message) if not message:eom() then return filter.WAIT end end
        core.register_filter("hold", F, function(flt) return F end)
        core.register_service("alive", "http", function(applet)
            collectgarbage() collectgarbage()
            local count = 0
            for _ in pairs(alive) do count = count + 1 end
            applet:set_status(200) applet:start_response() applet:send(tostring(count))
        end)"""
    with Origin(echo) as origin:
        world.serve(script, f"http-request use-service lua.alive if {{ path /alive }}\ndefault_backend b\nbackend b\nfilter lua.hold\nserver s 127.0.0.1:{origin.port}\n", global_lines="nbthread 1")
        clients = []
        for _ in range(50):
            client = socket.create_connection(("127.0.0.1", world.port), 8)
            client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\npart")
            clients.append(client)
        assert wait_until(lambda: curl(world, path="/alive")[1] == b"50")
        for client in clients:
            client.close()
        assert wait_until(lambda: curl(world, path="/alive")[1] == b"0")


def test_a_message_is_not_usable_after_its_call(world):
    script = SUPPORT + """
        define("keeper", {http_headers = function(self, txn, message)
            if kept then note(tostring(select(2, pcall(kept.get_stline, kept))):gsub("^.-%d: ", "")) end
            if not message:is_resp() then kept = message end end})"""
    with Origin() as origin:
        world.serve(script, f"filter lua.keeper\n{backend(origin)}", global_lines="nbthread 1")
        for path in ("/a", "/b"):
            assert curl(world, path=path)[0] == 200
        if not world.haproxy:
            assert any("a stream that has ended" in line for line in notes_of(world))


@pytest.mark.parametrize("script, line, code, said", [
    ("core.register_filter('f', {}, function(flt) return flt end)", "filter lua.f", 0, "has no function 'new'"),
    ("core.register_filter('f', {new = function(f) return f end}, function() end)", "filter lua.f", 0, "returned nil"),
    ("core.register_filter('f', {new = function(f) return f end}, function() return 5 end)", "filter lua.f", 0, "returned a number"),
    ("core.register_filter('f', {new = function(f) return f end}, function(flt) return flt end)", "filter lua.f", 0, "FLT_CFG_FL_HTX"),
    ("core.register_filter('f', {}, function() error('broken') end)", "filter lua.f", 1, "script.lua:1: broken"),
    ("", "filter lua.none", 1, "no script registered the filter 'lua.none'"),
], ids=["no new", "nil", "a number", "no flag", "an error", "unknown"])
def test_lines_that_cannot_work_are_reported(world, script, line, code, said):
    found, out = world.check(script, line)
    assert found == code or world.haproxy
    assert said in out or world.haproxy, out


def test_a_filter_takes_part_in_filter_sequence(world):
    if world.haproxy:
        return
    script = SUPPORT + """
        local function add(letter) return {http_headers = function(self, txn, message) if message:is_resp() then note(letter) end end} end
        define("a", add("a")) define("b", add("b"))"""
    with Origin() as origin:
        world.serve(script, f"filter lua.a\nfilter lua.b\nfilter-sequence response lua.b,lua.a\n{backend(origin)}", global_lines="nbthread 1")
        assert curl(world)[0] == 200
        assert notes_of(world) == ["b", "a"]


@pytest.mark.parametrize("world", ["lua-load"], indirect=True)
def test_other_threads_do_not_wait_for_a_slow_filter(world):
    """A filter in the shared state that computes holds up other users of the state, not the thread's other streams."""
    if world.haproxy:
        return
    script = SUPPORT + """
        define("slow", {http_headers = function(self, txn, message)
            local stop = os.clock() + 0.3 while os.clock() < stop do end end})"""
    with Origin() as origin:
        rules = f"use_backend slow if {{ path /slow }}\n{backend(origin, notes=False)}backend slow\nfilter lua.slow\nserver s 127.0.0.1:{origin.port}\n"
        world.serve(script, rules)
        slow = [world.connect("/slow") for _ in range(4)]
        times = []
        for _ in range(20):
            began = time.monotonic()
            assert "200 OK" in world.ask("/fast")
            times.append(time.monotonic() - began)
        assert sorted(times)[10] < 0.25
        for client in slow:
            with client:
                assert b"200 OK" in read_all(client)


def test_a_filter_moves_the_end_of_a_message(world):
    """A filter moves the end of a message: it holds it back, or sets it."""
    if world.haproxy:
        return
    script = SUPPORT + """
        define("late", {http_headers = function(self, txn, message) if message:is_resp() then message:set_body_len("chunked") end end,
            http_payload = function(self, txn, message)
                if not message:is_resp() then return end
                self.size = (self.size or 0) + message:input()
                if self.size < 100000 then return end
                if not self.late then self.late = true message:unset_eom() filter.wake_time(30) return end
                message:append("!")
                message:set_eom()
            end})
        define("early", {http_headers = function(self, txn, message) if message:is_resp() then message:set_body_len("chunked") end end,
            http_payload = function(self, txn, message)
                if message:is_resp() and message:body() then message:set("cut") message:set_eom() end end})"""
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000) as origin:
        world.serve(script, f"use_backend late if {{ path /late }}\n{backend(origin, 'filter lua.early')}backend late\nfilter lua.late\nserver s 127.0.0.1:{origin.port}\n")
        assert curl(world, path="/early") == (200, b"cut")
        status, body = curl(world, path="/late")
        assert status == 200 and body == b"x" * 100_000 + b"!"
