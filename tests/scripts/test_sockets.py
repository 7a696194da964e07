"""Sockets of scripts: `core.tcp`."""
import os
import re
import signal
import socket
import threading
import time

import pytest

from lib.origin import Server, end_with_reset, read_all
from lib.program import Program, free_port, wait_until
from lib.tls import Authority, SecureServer, backwards

RULES = 'http-request lua.act\n    http-request return status 200 content-type text/plain lf-string "%[var(txn.out)]"'
SHOWN = """
local function shown(...)
    local values = table.pack(...)
    for i = 1, values.n do values[i] = tostring(values[i]) end
    return table.concat(values, "|")
end
"""


def act(code):
    """A script with an action that shows the results of `code`, a function body with `txn`."""
    return SHOWN + f"""
core.register_action("act", {{"http-req"}}, function(txn)
    txn:set_var("txn.out", shown((function() {code} end)()))
end)"""


def result(world, code, seconds=8.0, **options):
    """The text that an action with this code makes of its results."""
    return body(world.serve(act(code), RULES, **options).ask(seconds=seconds))


def body(answer):
    return answer.partition("\r\n\r\n")[2]


def echo(connection):
    """Sends everything back."""
    while data := connection.recv(65536):
        connection.sendall(data)


def says(*pieces, pause=0.0, after=lambda connection: None):
    """A server that sends pieces, and ends."""
    def serve(connection):
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause)
        after(connection)
    return serve


def descriptors(world):
    """The number of sockets of the program."""
    folder = f"/proc/{world.program.pid}/fd"
    links = []
    for name in os.listdir(folder):
        try:
            links.append(os.readlink(f"{folder}/{name}"))
        except OSError:
            continue
    return sum(link.startswith("socket:") for link in links)


def hears(seconds):
    """A server that notes how its connections end: `ends` lists "end" or "reset". The event says when there is a connection."""
    ends, arrived = [], threading.Event()

    def serve(connection):
        arrived.set()
        connection.settimeout(seconds)
        try:
            read_all(connection)
            ends.append("end")
        except ConnectionResetError:
            ends.append("reset")
    return Server(serve), ends, arrived


def test_a_socket_sends_and_receives(world):
    with Server(echo) as server:
        assert result(world, f"""
            local s = core.tcp()
            local connected = s:connect("127.0.0.1", {server.port})
            local sent = s:send("one\\r\\ntwo\\nthree four")
            local line, next, four = s:receive(), s:receive("*l"), s:receive(5)
            local part = s:send("0123456789", 3, 5)
            local rest = s:receive(8)
            s:close()
            return connected, sent, line, next, four, part, rest""") == "1|19|one|two|three|3| four234"


def test_sockets_connect_to_all_kinds_of_addresses(world):
    path = f"{world.folder.path}/peer"
    with Server(echo) as server, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        threading.Thread(target=lambda: [says(b"unix\n")(listener.accept()[0]) for _ in range(2)], daemon=True).start()
        port = server.port
        assert result(world, f"""
            local found = {{}}
            for _, to in ipairs {{ {{"127.0.0.1:{port}"}}, {{"ipv4@127.0.0.1", {port}}}, {{"tcp4@127.0.0.1:{port}"}} }} do
                local s = core.tcp()
                s:connect(table.unpack(to))
                s:send("x\\n")
                found[#found + 1] = s:receive() .. s:getpeername():gsub("%d+$", "P")
                s:close()
            end
            for _, to in ipairs {{ "{path}", "unix@{path}" }} do
                local s = core.tcp()
                s:connect(to)
                found[#found + 1] = s:receive() .. s:getpeername()
            end
            return table.concat(found, " ")""") == "x127.0.0.1:P x127.0.0.1:P x127.0.0.1:P unixunix unixunix"


def test_a_slow_peer_is_waited_for(world):
    with Server(says(b"sl", b"ow\nre", b"st", pause=0.1)) as server:
        assert result(world, f"""
            local s = core.tcp()
            s:connect("127.0.0.1", {server.port})
            local line = s:receive()
            return line, s:receive("*a", ">")""") == "slow|>rest"


def test_a_half_closed_peer_still_takes_bytes(world):
    heard = []

    def serve(connection):
        connection.sendall(b"bye")
        connection.shutdown(socket.SHUT_WR)
        heard.append(read_all(connection))
    with Server(serve) as server:
        assert result(world, f"""
            local s = core.tcp()
            s:connect("127.0.0.1", {server.port})
            local all = s:receive("*a")
            local sent = s:send("still")
            s:close()
            return all, sent""") == "bye|5"
        # HAProxy closes with its peer.
        assert wait_until(lambda: heard) and (world.haproxy or heard == [b"still"])


def test_a_reset_and_an_end_close_the_socket(world):
    with Server(end_with_reset) as reset, Server(says(b"last")) as ended:
        assert result(world, f"""
            local found = {{}}
            for _, port in ipairs {{ {reset.port}, {ended.port} }} do
                local s = core.tcp()
                s:settimeout(2)
                s:connect("127.0.0.1", port)
                found[#found + 1] = shown(s:receive(10))
                found[#found + 1] = shown(s:receive("*a"))
            end
            return table.concat(found, " ")""") == "nil|connection closed. nil|connection closed. last nil|connection closed."


def test_binary_data_of_10_megabytes_goes_both_ways(world):
    with Server(backwards) as server:
        def serve(connection):
            data = b""
            while len(data) < 10_000_000:
                data += connection.recv(1 << 20)
            connection.sendall(data[::-1])
        server.serve = serve
        assert result(world, f"""
            local s = core.tcp()
            s:connect("127.0.0.1", {server.port})
            local data = string.rep("\\0\\255\\n\\r", 2500000)
            local sent = s:send(data)
            local back = s:receive("*a")
            return sent, #back, back == data:reverse()""", seconds=20) == "10000000|10000000|true"


@pytest.mark.parametrize("code, expected", [
    ('s:receive()', "nil|connection closed."), ('s:receive(5)', "nil|connection closed."), ('s:receive("*a")', "nil|connection closed."),
    ('s:send(string.rep("x", 30000000))', "-1")])
def test_a_silent_peer_times_out(world, code, expected):
    ended = threading.Event()
    with Server(lambda connection: ended.wait(10)) as server:
        world.serve(act(f"""
            local s = core.tcp()
            s:settimeout(0.3)
            s:connect("127.0.0.1", {server.port})
            local before = core.now()
            local shown = shown({code})
            local after = core.now()
            local passed = (after.sec - before.sec) * 1000 + (after.usec - before.usec) / 1000
            return shown, passed >= 295 and passed < 3000 or passed"""), RULES)
        assert body(world.ask()) == f"{expected}|true"
        ended.set()


def test_a_timeout_is_measured_from_the_last_byte(world):
    if world.haproxy:
        pytest.skip("it may not wake the script")
    with Server(says(*[b"x"] * 10, b"\n", pause=0.1)) as server:
        assert result(world, f"""
            local s = core.tcp()
            s:settimeout(0.5)
            s:connect("127.0.0.1", {server.port})
            return s:receive()""") == "x" * 10


def test_a_connection_that_cannot_be_made_is_reported(world):
    assert result(world, f"""
        local s = core.tcp()
        local refused = shown(s:connect("127.0.0.1", {free_port()}))
        return refused, s:receive(), s:send("x"), s:getpeername(), core.tcp():connect("/no/such/path")""",
        ) == "nil|Can't connect|nil|-1|nil|nil|Can't connect"


def test_wrong_arguments_are_errors_of_the_script(world):
    errors = body(world.serve(act(f"""
        local found = {{}}
        for _, try in ipairs {{
            function(s) s:connect() end, function(s) s:connect("localhost", 1) end, function(s) s:connect("127.0.0.1") end, function(s) s:connect("fd@3") end,
            function(s) s:receive(-1) end, function(s) s:receive("*n") end, function(s) s:settimeout(-1) end, function(s) s:send() end, function(s) s:close(1) end,
        }} do
            local ok, message = pcall(try, core.tcp())
            found[#found + 1] = message:match(":%d+: (.*)") or message
        end
        return table.concat(found, "; ")"""), RULES).ask())
    assert errors == ("connect: need at least 2 arguments; connect: cannot parse destination address 'localhost:'; connect: port missing; "
                      "connect: cannot parse destination address 'fd@3'; Unsupported size.; Unsupported pattern.; settimeout: cannot set negatives values; "
                      "'send' needs between 2 and 4 arguments; 'close' needs 1 arguments")


def test_tls_without_verification(world):
    context = Authority(world.folder).issue("peer.test")
    with SecureServer(context, serve=echo) as server:
        assert result(world, f"""
            local s = core.tcp()
            local connected = s:connect_ssl("127.0.0.1", {server.port})
            local data = string.rep("0123456789", 100000) .. "\\n"
            local sent = s:send(data)
            return connected, sent, s:receive(1000001) == data""", seconds=20) == "1|1000001|true"
    # Without a name of the host, it sends none.
    assert server.names == [None]


def test_connect_ssl_fails_with_a_peer_without_tls(world):
    with Server(says(b"hello\n")) as server:
        assert result(world, f'return core.tcp():connect_ssl("127.0.0.1", {server.port})') == "nil|Can't connect"


def test_core_tcp_returns_nothing_while_the_configuration_is_read(world):
    world.serve(SHOWN + """
local body, init = shown(core.tcp()), "?"
core.register_init(function() init = shown(core.tcp()) end)
core.register_action("act", {"http-req"}, function(txn) txn:set_var("txn.out", "[" .. body .. "][" .. init .. "]" .. tostring(core.tcp())) end)""", RULES)
    assert body(world.ask()) == "[][]HAProxy class Socket"


def test_a_socket_lasts_longer_than_the_run_that_made_it(world):
    with Server(says(b"one\ntwo\nthree\n", after=read_all)) as server:
        world.serve(act(f"""
            if not kept then kept = core.tcp() kept:connect("127.0.0.1", {server.port}) end
            collectgarbage()
            return kept:receive()"""), RULES, global_lines="nbthread 1")
        # The collection after a run does not close it.
        assert body(world.ask()) == "one"
        time.sleep(1.3)
        assert [body(world.ask()) for _ in range(2)] == ["two", "three"]


def test_two_runs_use_one_socket_at_once(world):
    """One waits for bytes, the other one sends those that make the peer answer."""
    with Server(echo) as server:
        assert result(world, f"""
            local s, heard = core.tcp(), nil
            s:connect("127.0.0.1", {server.port})
            core.register_task(function() heard = s:receive() end)
            core.msleep(100)
            local sent = s:send("ping\\n")
            for _ = 1, 300 do
                if heard then break end
                core.msleep(10)
            end
            return sent, heard""") == "5|ping"


def test_a_socket_that_is_closed_ends_the_wait_of_another_run(world):
    with Server(lambda connection: connection.recv(1)) as server:
        assert result(world, f"""
            local s, heard = core.tcp(), nil
            s:connect("127.0.0.1", {server.port})
            core.register_task(function() heard = shown(s:receive()) end)
            core.msleep(100)
            s:close()
            for _ = 1, 300 do
                if heard then break end
                core.msleep(10)
            end
            return heard""") == "nil|connection closed."


def test_a_socket_of_another_thread_is_an_error(world):
    """With `lua-load-per-thread`, each thread has its own socket."""
    ports = [free_port(), free_port()]
    binds = "".join(f"bind 127.0.0.1:{port} thread {number}\n    " for number, port in enumerate(ports, 1))
    with Server(says(b"x\n" * 10, after=read_all)) as server:
        world.serve(act(f"""
            if not kept then
                kept = core.tcp()
                kept:connect("127.0.0.1", {server.port})
            end
            return pcall(kept.receive, kept)"""), binds + RULES)
        answers = []
        for world.port in [*ports, *ports]:
            answers.append(body(world.ask()))
    # HAProxy names another function.
    other = f"false|{'connect' if world.haproxy else 'receive'}: cannot use socket on other thread"
    assert answers == ["true|x", other if world.load == "lua-load" else "true|x"] * 2


def test_hundreds_of_runs_wait_at_once(world):
    def serve(connection):
        line = connection.recv(100)
        time.sleep(0.3)
        connection.sendall(line)
    with Server(serve) as server:
        world.serve(act(f"""
            local s = core.tcp()
            s:connect("127.0.0.1", {server.port})
            s:send(txn.sf:path() .. "\\n")
            local line = s:receive()
            s:close()
            return line"""), RULES, global_lines="maxconn 1000")
        open_before = descriptors(world)
        clients = [world.connect(f"/{number}", seconds=20) for number in range(300)]
        answers = [read_all(client).decode() for client in clients]
        assert [body(answer) for answer in answers] == [f"/{number}" for number in range(300)]
        for client in clients:
            client.close()
        # Threads may open listeners later.
        assert wait_until(lambda: descriptors(world) <= open_before + 5), (descriptors(world), open_before)


@pytest.mark.parametrize("wait", ['s:receive("*a")', 's:send(string.rep("x", 50000000))'])
def test_a_client_that_leaves_ends_the_wait_and_closes_the_socket(world, wait):
    server, ends, arrived = hears(20)
    release = threading.Event()
    if "send" in wait:
        # A peer that takes nothing keeps the script waiting.
        taking = server.serve
        server.serve = lambda connection: (arrived.set(), release.wait(10), taking(connection))
    with server:
        world.serve(act(f"""
            local s = core.tcp()
            s:connect("127.0.0.1", {server.port})
            {wait}
            went_on = true"""), RULES)
        client = world.connect()
        assert arrived.wait(5)
        time.sleep(0.2)
        end_with_reset(client)
        client.close()
        if world.haproxy:
            return
        time.sleep(0.2)
        release.set()
        assert wait_until(lambda: ends), "the script's end closes what nothing refers to"


def test_sockets_that_are_left_open_are_closed(world):
    with Server(read_all) as server:
        world.serve(act(f"""
            local s = core.tcp()
            return s:connect("127.0.0.1", {server.port})"""), RULES)
        open_before = descriptors(world)
        for _ in range(200):
            assert body(world.ask()) == "1"
        assert wait_until(lambda: descriptors(world) <= open_before + (50 if world.haproxy else 5)), descriptors(world)


def test_the_number_of_sockets_is_bounded(world):
    if world.haproxy:
        pytest.skip("bounded by its connections")
    world.serve(act("""
        local kept = {}
        local ok, message = pcall(function() for i = 1, 5000 do kept[i] = core.tcp() end end)
        local count = #kept
        kept = nil
        -- Those that nothing refers to make room.
        local again = pcall(core.tcp)
        return count, message:match(":%d+: (.*)") or message, again"""), RULES)
    for _ in range(3):
        assert body(world.ask()) == "4096|core.tcp: the thread has 4096 sockets already|true"


def test_the_bytes_of_one_receive_are_bounded(world):
    if world.haproxy:
        pytest.skip("its bound is that of the memory of Lua")

    def serve(connection):
        while True:
            connection.sendall(b"x" * 65536)
    with Server(serve) as server:
        world.serve(act(f"""
            local s = core.tcp()
            s:connect("127.0.0.1", {server.port})
            local ok, message = pcall(s.receive, s, "*a")
            s:close()
            return ok, message"""), RULES, global_lines="tune.lua.maxmem 20")
        assert body(world.ask()) == f"false|receive: more than {20 << 20} bytes"


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_the_program_stops_with_open_sockets(world, number):
    server, ends, arrived = hears(20)
    with server:
        world.serve(SHOWN + f"""
core.register_task(function()
    kept = core.tcp()
    kept:connect("127.0.0.1", {server.port})
    kept:receive()
end)
core.register_task(function()
    left = core.tcp()
    left:connect("127.0.0.1", {server.port})
end)""", 'http-request return status 200')
        expected = 2 if world.load == "lua-load" else 4
        assert wait_until(lambda: server.count == expected)
        if world.haproxy and number == signal.SIGUSR1:
            return
        world.program.send(number)
        assert world.program.status(8) is not None
        assert wait_until(lambda: len(ends) == expected)


def test_a_new_process_replaces_one_with_open_sockets(world):
    if world.haproxy:
        pytest.skip("it waits for the sockets")
    server, ends, arrived = hears(20)
    with server:
        world.serve(SHOWN + f"""
core.register_action("act", {{"http-req"}}, function(txn)
    kept = kept or core.tcp()
    kept:connect("127.0.0.1", {server.port})
end)""", 'http-request lua.act\n    http-request return status 200')
        assert world.ask().startswith("HTTP/1.1 200") and arrived.wait(5)
        with Program(world.binary, "-db", "-f", f"{world.folder.path}/weir.cfg", "-sf", str(world.program.pid)) as other:
            assert world.program.status(8) is not None
            assert wait_until(lambda: ends) and other.process.poll() is None
            assert world.ask().startswith("HTTP/1.1 200") and wait_until(lambda: server.count == 2)


def test_a_socket_that_was_closed_is_never_another_one(world):
    with Server(says(b"x\n", after=read_all)) as server:
        assert result(world, f"""
            local old = core.tcp()
            old:connect("127.0.0.1", {server.port})
            old:close()
            local new = core.tcp()
            new:connect("127.0.0.1", {server.port})
            old:close()
            return shown(old:receive()), old:send("y"), old:getpeername(), new:receive(), pcall(old.settimeout, old, 1)""",
            ).startswith("nil|connection closed.|-1|nil|x|false|")


def test_errors_name_the_place_in_the_script(world):
    world.serve(act('core.tcp():connect()'), RULES)
    world.ask()
    assert re.search(r"runtime error: \S+/script.lua:\d+: connect: need at least 2 arguments", world.said())
