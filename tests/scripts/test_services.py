"""Services: scripts that answer in place of a server, of HTTP and of TCP."""
import re
import socket
import subprocess
import time

import pytest

from lib.program import Program, connects, wait_until

HELLO = """
core.register_service("hello", "http", function(applet)
    local body = applet:receive()
    local text = applet.method .. " " .. applet.path .. "?" .. applet.qs .. " " .. applet.version .. " " .. applet.headers["host"][0] .. " "
        .. applet.length .. " [" .. body .. "] " .. applet.sf:src() .. " " .. tostring(applet:get_var("txn.known"))
    applet:set_status(201, "Made")
    applet:add_header("content-length", #text)
    applet:add_header("X-Many", "a")
    applet:add_header("x-many", "b")
    applet:start_response()
    applet:send(text)
end)"""
USE = "http-request set-var(txn.known) str(known)\n    http-request use-service lua.{}\n    http-response set-header x-rule 1"


def exchange(port, *parts, shut=False, seconds=5.0):
    """All that a client receives that sends these parts."""
    with socket.create_connection(("127.0.0.1", port), seconds) as client:
        for number, part in enumerate(parts):
            if number:
                time.sleep(0.05)
            client.sendall(part)
        if shut:
            client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65536), b"")).decode("latin-1")


def post(body, *fields, path="/x?y=1"):
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: shop.test", f"Content-Length: {len(body)}", *fields, "", body]).encode()


def test_a_service_reads_a_request_and_answers(world):
    world.serve(HELLO, USE.format("hello"))
    answer = exchange(world.port, post("abc"), post("defg", "Connection: close", path="/z"))
    first, second = answer.split("HTTP/1.1 201 Made\r\n")[1:]
    assert first.endswith("POST /x?y=1 HTTP/1.1 shop.test 3 [abc] 127.0.0.1 known")
    assert second.endswith("POST /z? HTTP/1.1 shop.test 4 [defg] 127.0.0.1 known")
    assert "x-many: a\r\n" in first and "x-many: b\r\n" in first and "x-rule: 1\r\n" in first and "connection: close" in second


def test_a_response_without_length_is_chunked_and_leaves_while_the_script_runs(world):
    if world.haproxy:
        pytest.skip("HAProxy holds the first piece back")
    world.serve("""
core.register_service("pieces", "http", function(applet)
    applet:start_response()
    for number = 1, 3 do applet:send("piece " .. number .. " ") core.msleep(200) end
end)""", USE.format("pieces"))
    began = time.monotonic()
    with world.connect() as client:
        first = client.recv(65536)
        assert b"piece 1" in first and b"piece 2" not in first and time.monotonic() - began < 0.35
        rest = b"".join(iter(lambda: client.recv(65536), b""))
    assert (first + rest).endswith(b"8\r\npiece 1 \r\n8\r\npiece 2 \r\n8\r\npiece 3 \r\n0\r\n\r\n")


def test_small_pieces_leave_together(world):
    world.serve("""
core.register_service("small", "http", function(applet)
    applet:start_response()
    for number = 1, 100 do applet:send("x") end
end)""", USE.format("small"))
    assert world.ask().endswith("\r\n\r\n64\r\n" + "x" * 100 + "\r\n0\r\n\r\n")


def test_a_service_echoes_while_the_body_arrives(world):
    world.serve("""
core.register_service("echo", "http", function(applet)
    applet:start_response()
    while true do
        local line = applet:getline()
        if line == "" then break end
        applet:send("> " .. line)
    end
end)""", USE.format("echo"))
    with socket.create_connection(("127.0.0.1", world.port), 5) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n2\r\na\n\r\n")
        first = b""
        while b"> a\n" not in first:
            first += client.recv(65536)
        client.sendall(b"5\r\nb\nend\r\n0\r\n\r\n")
        rest = b"".join(iter(lambda: client.recv(65536), b""))
    assert b"> b\n" in rest and b"> end" in rest and rest.endswith(b"0\r\n\r\n")


def test_a_body_that_the_service_left_is_not_the_next_request(world):
    world.serve("""
core.register_service("lazy", "http", function(applet)
    applet:add_header("content-length", 2)
    applet:start_response()
    applet:send("ok")
end)""", USE.format("lazy"))
    answer = exchange(world.port, post("GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"), post("", "Connection: close"))
    assert answer.count("HTTP/1.1 200 OK") == 2
    # The rest may arrive later. A body that ends early ends the connection.
    answer = exchange(world.port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nabc", b"def" + post("", "Connection: close"))
    assert answer.count("HTTP/1.1 200 OK") == 2
    answer = exchange(world.port, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nabc", shut=True)
    assert answer.count("HTTP/1.1") == 1


def test_heads_and_statuses_without_a_body(world):
    world.serve("""
core.register_service("none", "http", function(applet)
    if applet.path == "/204" then applet:set_status(204) end
    applet:start_response()
    applet:send("text")
end)""", USE.format("none"))
    assert "\r\n\r\n" == world.ask("/204")[-4:] and "chunked" not in world.ask("/204")
    head = exchange(world.port, b"HEAD / HTTP/1.1\r\nHost: x\r\n\r\nHEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert head.count("HTTP/1.1 200 OK") == 2 and "text" not in head


@pytest.mark.parametrize("script, answer, said", [
    ("error('broken')", "HTTP/1.1 500 ", "runtime error: "),
    ("applet:set_status(200)", "HTTP/1.1 500 ", ""),
    ("applet:add_header('content-length', 'x') applet:start_response()", "HTTP/1.1 500 ", ""),
])
def test_a_service_without_a_response_is_an_error(world, script, answer, said):
    world.serve(f"core.register_service('bad', 'http', function(applet)\n{script} end)", USE.format("bad"))
    found = world.ask()
    assert found.startswith(answer) and "x-rule: 1" in found
    output = world.said()
    assert said in output and (not said or "Lua applet http '<lua.bad>'" in output)


@pytest.mark.parametrize("script", ["applet:start_response() applet:send('half') error('broken')",
                                    "applet:add_header('content-length', 9) applet:start_response() applet:send('half')"])
def test_a_response_that_breaks_off_is_cut(world, script):
    world.serve(f"core.register_service('bad', 'http', function(applet)\n{script} end)", USE.format("bad"))
    found = world.ask()
    assert "half" in found and "0\r\n\r\n" not in found


def test_a_service_cannot_send_more_than_it_announced(world):
    if world.haproxy:
        pytest.skip("HAProxy sends the head only")
    world.serve("""
core.register_service("long", "http", function(applet)
    applet:add_header("content-length", 4)
    applet:start_response()
    applet:send("1234")
    local ok, message = pcall(applet.send, applet, "5678")
    core.Alert(message)
end)""", USE.format("long"))
    assert exchange(world.port, post(""), post("", "Connection: close")).count("\r\n\r\n1234") == 2
    assert "longer than the content-length" in world.said()


def test_a_large_response_waits_for_a_slow_client(world):
    world.serve("""
core.register_service("large", "http", function(applet)
    applet:start_response()
    local piece = string.rep("x", 1000000)
    for _ = 1, 200 do applet:send(piece) end
end)""", USE.format("large"))
    with world.connect() as client:
        time.sleep(0.5)
        before = world.program.resident_kb()
        total = sum(len(piece) for piece in iter(lambda: client.recv(1 << 20), b""))
    assert total > 200_000_000
    if not world.haproxy:
        assert before < 100_000, before


def test_a_client_that_leaves_ends_its_service(world):
    world.serve("""
served, closed = 0, 0
core.register_service("wait", "http", function(applet)
    served = served + 1
    local guard <close> = setmetatable({}, {__close = function() closed = closed + 1 end})
    applet:start_response()
    while true do applet:send("x") core.msleep(20) end
end)
core.register_fetches("state", function() return served .. " " .. closed end)""",
                f'http-request use-service lua.wait if {{ path /wait }}\n    http-request return status 200 content-type text/plain lf-string "%[lua.state]"'
                .replace("{{", "{").replace("}}", "}"))
    if world.haproxy:
        pytest.skip("HAProxy does not close variables")
    with world.connect("/wait") as client:
        client.recv(100)
    assert wait_until(lambda: re.search(r"\r\n\r\n(\d+) \1$", world.ask()))


@pytest.mark.parametrize("sent, shut, answer", [
    ([b"a\nb\nquit\n"], False, "hello\n> a\n> b\nbye\n"),
    ([b"a\nb\nc"], True, "hello\n> a\n> b\n> c\nbye\n"),
    ([b"a", b"b\n", b"quit\n"], False, "hello\n> ab\nbye\n"),
])
def test_a_service_of_tcp_talks_with_its_client(world, sent, shut, answer):
    world.serve("""
core.register_service("talk", "tcp", function(applet)
    applet:send("hello\\n")
    while true do
        local line = applet:getline()
        if line == "" or line == "quit\\n" then break end
        applet:send("> " .. line:gsub("\\n", "") .. "\\n")
    end
    applet:send("bye\\n")
end)""", "tcp-request inspect-delay 5s\n    tcp-request content use-service lua.talk", mode="tcp")
    assert exchange(world.port, *sent, shut=shut) == answer


def test_a_service_of_tcp_reads_sizes_and_times_out(world):
    if world.haproxy:
        pytest.skip("HAProxy does not go on after the timeout")
    world.serve("""
core.register_service("sizes", "tcp", function(applet)
    local one, two = applet:receive(3), applet:receive(2)
    local late = applet:receive(100, 50)
    applet:send(one .. "|" .. two .. "|" .. tostring(late) .. "|" .. applet:receive(4))
end)""", "tcp-request inspect-delay 5s\n    tcp-request content use-service lua.sizes", mode="tcp")
    assert exchange(world.port, b"abcdefghi") == "abc|de|nil|fghi"


def test_try_receive_does_not_wait(world):
    world.serve("""
core.register_service("poll", "tcp", function(applet)
    local got, polls = "", 0
    while #got < 6 do
        local piece = applet:try_receive()
        polls = polls + 1
        if piece then got = got .. piece else core.msleep(5) end
    end
    applet:send(got .. " " .. tostring(applet:try_receive()) .. " " .. tostring(polls > 3))
end)""", "tcp-request inspect-delay 5s\n    tcp-request content use-service lua.poll", mode="tcp")
    assert exchange(world.port, b"abc", b"def") == "abcdef nil true"


def test_response_rules_see_the_status_of_a_service(world):
    world.serve(HELLO, USE.format("hello") + " if { status 201 }\n    http-response set-header x-status %[status]")
    answer = world.ask()
    assert "x-status: 201\r\n" in answer and "x-rule: 1\r\n" in answer


def test_a_service_answers_over_http2(world):
    world.serve(HELLO, USE.format("hello"))
    command = ["curl", "-s", "--http2-prior-knowledge", "-d", "text", f"http://127.0.0.1:{world.port}/p?q", "-w", " %{http_version} %{http_code}"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=10).stdout
    assert answer.endswith("4 [text] 127.0.0.1 known 2 201") and answer.startswith("POST /p?q"), answer


def test_a_service_judges_sub_requests(world):
    if world.haproxy:
        pytest.skip("auth-request is an extension")
    world.serve("""
core.register_service("judge", "http", function(applet)
    if applet:receive() ~= "" then error("a body") end
    local token = applet.headers["x-token"]
    applet:set_status(token and token[0] == "good" and 204 or 403)
    applet:add_header("content-type", "text/plain")
    applet:start_response()
    applet:send("no ")
    core.msleep(5)
    applet:send("entry")
end)""", """http-request auth-request judge
    http-request return status 200 content-type text/plain string welcome
backend judge
    http-request use-service lua.judge""")
    assert world.ask("/", "X-Token: good").endswith("welcome")
    refused = world.ask("/", "X-Token: bad")
    assert refused.startswith("HTTP/1.1 403 ") and refused.endswith("no entry")


@pytest.mark.parametrize("rule, message", [
    ("http-request use-service lua.none", "'lua.none' unknown service name: no script registered it."),
    ("http-request use-service lua.t", "'lua.t' is registered as a service of 'tcp'; 'http-request' expects one of 'http'."),
    ("tcp-request content use-service lua.h", "'lua.h' is registered as a service of 'http'; 'tcp-request content' expects one of 'tcp'."),
])
def test_services_are_looked_up_by_name_and_protocol(world, rule, message):
    if world.haproxy:
        pytest.skip("the messages are ours")
    code, said = world.check("core.register_service('h', 'http', print) core.register_service('t', 'tcp', print)", rule)
    assert code == 1 and message in said, said


def test_the_log_names_the_service(world):
    if world.haproxy:
        pytest.skip("its output to a pipe is lost when it ends")
    world.serve(HELLO, USE.format("hello") + '\n    log-format "%ST %s %ts %Tw/%Tc"', global_lines="log stdout format raw local0\n    log-tag x")
    text = open(f"{world.folder.path}/weir.cfg").read().replace("defaults\n", "defaults\n    log global\n    option dontlognull\n")
    world.program.__exit__()
    world.program = Program(world.binary, "-db", "-f", world.folder.file("weir.cfg", text)).__enter__()
    assert wait_until(lambda: connects(world.port))
    world.ask()
    assert "201 <lua.hello> LR 0/0" in world.said()


@pytest.mark.parametrize("loop", ['applet:send("")', "applet:getline()", "applet:try_receive()", "applet:receive(0)"])
def test_a_service_that_never_waits_lets_others_pass(world, loop):
    if world.haproxy:
        pytest.skip("HAProxy ends the process by its watchdog, or the applet")
    world.serve(f"""
core.register_service("loop", "tcp", function(applet) while true do {loop} end end)""", "tcp-request inspect-delay 5s\n    tcp-request content use-service lua.loop", mode="tcp",
                global_lines="tune.lua.service-timeout 1s")
    with socket.create_connection(("127.0.0.1", world.port), 20) as client:
        client.sendall(b"a\n")
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass
    said = world.said()
    assert "Lua applet tcp '<lua.loop>'" in said and "stuck" not in said, said


def test_bytes_of_a_late_read_are_taken_in_small_pieces(world):
    if world.haproxy:
        pytest.skip("HAProxy does not go on after the timeout")
    world.serve("""
core.register_service("sip", "tcp", function(applet)
    applet:receive(30000000, 1000)
    local count = 0
    while applet:receive(1000) ~= "" do count = count + 1 end
    applet:send(tostring(count))
end)""", "tcp-request inspect-delay 5s\n    tcp-request content use-service lua.sip", mode="tcp", global_lines="tune.lua.service-timeout 20s")
    with socket.create_connection(("127.0.0.1", world.port), 20) as client:
        client.sendall(b"x" * 20_000_000)
        time.sleep(1.2)
        client.shutdown(socket.SHUT_WR)
        assert b"".join(iter(lambda: client.recv(65536), b"")) == b"20000"


def test_an_applet_belongs_to_its_stream(world):
    if world.haproxy:
        pytest.skip("undefined there")
    world.serve("""
core.register_service("keep", "http", function(applet)
    local said = "none"
    if kept then
        local all = {}
        for _, call in ipairs({ "send", "receive", "start_response", "getline", "set_status" }) do
            local ok, message = pcall(kept[call], kept, call == "send" and "other" or 200)
            all[#all + 1] = tostring(ok) .. (tostring(message):match("has ended") or "")
        end
        said = table.concat(all, " ")
    end
    kept = applet
    applet:start_response()
    applet:send(said)
end)""", USE.format("keep"))
    assert wait_until(lambda: ("false" + "has ended") in world.ask())
    answer = world.ask()
    assert "other" not in answer and "true" not in answer


def test_a_service_rests_while_a_filter_holds_its_output_back(world):
    """The script has ended long before its output may leave."""
    script = """core.register_service("s", "http", function(applet)
        applet:set_status(200) applet:start_response() applet:send(string.rep("x", 30000)) end)"""
    world.serve(script, "filter bwlim-out limit default-limit 20k default-period 1s\nhttp-request set-bandwidth-limit limit\nhttp-request use-service lua.s")
    began, used = time.monotonic(), world.program.cpu_seconds()
    assert world.ask().count("x") == 30000
    assert time.monotonic() - began > 0.4
    assert world.haproxy or world.program.cpu_seconds() - used < 0.3
