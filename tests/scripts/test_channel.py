"""The class Channel: scripts that read, change, forward and send the bytes of connections in TCP mode."""
import re
import socket
import ssl
import struct
import time

import pytest

from lib.log import LogServer
from lib.program import free_port, wait_until
from lib.tls import Authority
from lua.world import Peer

# A protocol of lines: the script changes the first line of each direction.
REWRITE = """
core.register_action("ask", {"tcp-req"}, function(txn)
    local line = txn.req:line(0, -1)
    if line then txn.req:set(line:upper(), 0, #line) end
end)
core.register_action("answer", {"tcp-res"}, function(txn)
    local line = txn.res:line(0, -1)
    if line then txn.res:set("> " .. line, 0, #line) end
end)"""


def request_rules(peer, lines="", action="lua.a", delay="5s", options=""):
    """Rules of the frontend, and a backend with the peer."""
    return f"""{options}
    tcp-request inspect-delay {delay}
    tcp-request content {action}
    {lines}
    default_backend b
backend b
    server s 127.0.0.1:{peer.port}"""


def response_rules(peer, action, delay="5s"):
    """Rules of a backend with the peer."""
    return f"""default_backend b
backend b
    tcp-response inspect-delay {delay}
    tcp-response content {action}
    server s 127.0.0.1:{peer.port}"""


def action(code, place="tcp-req"):
    return f'core.register_action("a", {{"{place}"}}, function(txn) {code} end)'


def connect(port, size=None):
    """A client, perhaps with a small receive buffer."""
    client = socket.socket()
    if size:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
    client.settimeout(8)
    client.connect(("127.0.0.1", port))
    return client


def rest(client):
    return b"".join(iter(lambda: client.recv(65536), b""))


def receive(client, count):
    data = b""
    while len(data) < count and (more := client.recv(count - len(data))):
        data += more
    return data


def reset(client):
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def talk(client, peer, much=300_000):
    """Two lines in pieces, and then much in both directions."""
    for piece in (b"he", b"llo\nsecond\n"):
        client.sendall(piece)
        time.sleep(0.1)
    answer = b"> reply\nmore\n"
    assert receive(client, len(answer)) == answer
    client.sendall(b"x" * much)
    assert receive(client, much) == b"y" * much
    assert wait_until(lambda: b"".join(peer.heard) == b"HELLO\nsecond\n" + b"x" * much)


TALK = (("read", 13), b"rep", ("sleep", 0.1), b"ly\nmore\n", ("read", 300_000), b"y" * 300_000, ("sleep", 0.2))
BOTH = """{options}
    tcp-request inspect-delay 5s
    tcp-request content lua.ask
    default_backend b
backend b
    tcp-response inspect-delay 5s
    tcp-response content lua.answer
    server s 127.0.0.1:{peer}"""


@pytest.mark.parametrize("options", ["", "option splice-auto"])
def test_a_script_rewrites_a_line_in_both_directions(world, options):
    peer = Peer()
    world.serve(REWRITE, BOTH.format(options=options, peer=peer.port), mode="tcp")
    peer.expect(TALK)
    with connect(world.port) as client:
        talk(client, peer)


def test_a_script_rewrites_lines_within_tls(world):
    peer, port = Peer(), free_port()
    authority = Authority(world.folder)
    options = f"bind 127.0.0.1:{port} ssl crt {authority.issue('a.test')}"
    world.serve(REWRITE, BOTH.format(options=options, peer=peer.port), mode="tcp")
    peer.expect(TALK)
    context = ssl.create_default_context(cafile=authority.certificate)
    with context.wrap_socket(connect(port), server_hostname="a.test") as client:
        talk(client, peer)


def test_a_client_is_greeted_before_there_is_a_server(world):
    peer = Peer()
    world.serve(action('txn.res:send("220 ready\\n") txn.req:line(0, -1)'), request_rules(peer), mode="tcp")
    peer.expect((("read", 5), b"250 ok\n", "shut"))
    with connect(world.port) as client:
        assert receive(client, 10) == b"220 ready\n"
        time.sleep(0.1)
        client.sendall(b"EHLO\n")
        assert rest(client) == b"250 ok\n"
    assert b"".join(peer.heard) == b"EHLO\n"


def test_the_greeting_of_a_client_with_tls(world):
    peer, port = Peer(), free_port()
    authority = Authority(world.folder)
    script = action('txn.res:send(string.rep("x", 300000)) txn.req:line(0, -1)')
    world.serve(script, request_rules(peer, options=f"bind 127.0.0.1:{port} ssl crt {authority.issue('a.test')}"), mode="tcp")
    if world.haproxy:
        pytest.skip("HAProxy sends a part")
    peer.expect((("read", 5), b"250 ok\n", "shut"))
    context = ssl.create_default_context(cafile=authority.certificate)
    with context.wrap_socket(connect(port), server_hostname="a.test") as client:
        assert receive(client, 300_000) == b"x" * 300_000
        client.sendall(b"EHLO\n")
        assert rest(client) == b"250 ok\n"


def test_a_slow_server_is_awaited_while_the_request_flows(world):
    peer = Peer()
    world.serve(action("txn.res:append(' ' .. #txn.res:data(0, 6) .. '\\n')", "tcp-res"), response_rules(peer, "lua.a"), mode="tcp")
    peer.expect((b"abc", ("read", 200_000), b"def", "shut"))
    with connect(world.port) as client:
        client.sendall(b"x" * 100_000)
        time.sleep(0.2)
        client.sendall(b"x" * 100_000)
        answer = rest(client)
    # HAProxy 3.2 inserts in front.
    assert answer == (b" 6\nabcdef" if world.haproxy else b"abcdef 6\n")
    assert sum(map(len, peer.heard)) == 200_000


def test_the_request_flows_while_a_script_sleeps(world):
    peer = Peer()
    world.serve(action("txn.res:data(0, 1) txn.res:send('early ') core.msleep(500)", "tcp-res"), response_rules(peer, "lua.a"), mode="tcp")
    peer.expect((b"a", ("read", 100_000), b"b", "shut"))
    began = time.monotonic()
    with connect(world.port) as client:
        client.sendall(b"x" * 100_000)
        assert receive(client, 6) == b"early "
        assert wait_until(lambda: sum(map(len, peer.heard)) == 100_000, 0.3) and time.monotonic() - began < 0.45
        assert rest(client) == b"ab"


def test_a_forwarded_part_leaves_while_the_script_waits(world):
    peer = Peer()
    world.serve(action("txn.res:forward(3) txn.res:data(0, 3) txn.res:remove(0, 1)", "tcp-res"), response_rules(peer, "lua.a"), mode="tcp")
    peer.expect((b"abc", "line", b"def", "shut"))
    with connect(world.port) as client:
        assert receive(client, 3) == b"abc"
        client.sendall(b"go\n")
        assert rest(client) == b"ef"


def test_forwarding_more_than_a_buffer_follows_the_client(world):
    peer = Peer()
    if world.haproxy:
        pytest.skip("HAProxy 3.2 may stop after a buffer")
    world.serve(action("local count = txn.res:forward(1000000) txn.res:send(count .. '\\n')", "tcp-res"), response_rules(peer, "lua.a"), mode="tcp")
    peer.expect((b"x" * 1_000_000, b"rest", "shut"))
    with connect(world.port, 4096) as client:
        time.sleep(0.3)
        assert rest(client) == b"x" * 1_000_000 + b"1000000\nrest"


def test_forwarded_bytes_that_the_client_left_precede_the_rest(world):
    if world.haproxy:
        pytest.skip("the bounds are ours")
    peer = Peer()
    # The script ends once the client does not take more.
    script = action("""
    local left = 2000
    while left > 0 and txn.res:output() == 0 do
        txn.res:data(0, 10000)
        txn.res:forward(txn.res:input())
        left = left - 1
    end
    core.Alert("output " .. (txn.res:output() > 0 and "some" or "none"))""", "tcp-res")
    world.serve(script, response_rules(peer, "lua.a"), mode="tcp")
    data = b"".join(b"%07d\n" % number for number in range(2_000_000))
    peer.expect((data, "shut"))
    with connect(world.port, 4096) as client:
        time.sleep(0.5)
        assert rest(client) == data
    assert "output some" in world.said()


@pytest.mark.parametrize("size", [1_000_000, 20_000_000])
def test_a_megabyte_waits_for_the_client(world, size):
    if world.haproxy:
        pytest.skip("HAProxy sends as much as the buffers take")
    peer, log = Peer(), LogServer()
    script = action(f'local sent = txn.res:send(string.rep("x", {size})) txn.res:send(" " .. sent .. "\\n")')
    rules = request_rules(peer, options='log global\n    log-format "%ts %B"')
    world.serve(script, rules, mode="tcp", global_lines=f"log 127.0.0.1:{log.port} local0")
    peer.expect((b"answer", "shut"))
    with connect(world.port, 4096) as client:
        client.sendall(b"x")
        time.sleep(0.2)
        before, seconds = world.program.resident_kb(), world.program.cpu_seconds()
        time.sleep(0.5)
        assert world.program.cpu_seconds() - seconds < 0.1
        data = rest(client)
    end = f" {size}\nanswer".encode()
    assert data == b"x" * size + end and before < 60_000 + 4 * size // 1024
    log.wait_for(rf"\]: -- {size + len(end)}$")
    log.close()


@pytest.mark.parametrize("code", ["txn.req:line(0, -1)", "txn.req:forward(100)", 'txn.res:send(string.rep("x", 20000000))', "core.msleep(4000)"])
def test_a_client_that_resets_ends_the_wait(world, code):
    if world.haproxy:
        pytest.skip("HAProxy ends the script later")
    peer, log = Peer(), LogServer()
    world.serve(action(code), request_rules(peer, options='log global\n    log-format "%ts %cp"'), mode="tcp",
                global_lines=f"log 127.0.0.1:{log.port} local0")
    client = connect(world.port, 4096)
    client.sendall(b"x")
    time.sleep(0.3)
    port = client.getsockname()[1]
    reset(client)
    log.wait_for(rf"\]: C. {port}$", 2)
    log.close()


def test_a_server_that_resets_ends_the_wait(world):
    if world.haproxy:
        pytest.skip("HAProxy ends the script later")
    peer, log = Peer(), LogServer()
    rules = 'log global\n    log-format "%ts %cp"\n    ' + response_rules(peer, "lua.a")
    world.serve(action("txn.res:data(0, 100)", "tcp-res"), rules, mode="tcp", global_lines=f"log 127.0.0.1:{log.port} local0")
    peer.expect((b"abc", ("sleep", 0.2), "reset"))
    with connect(world.port) as client:
        client.sendall(b"x")
        log.wait_for(rf"\]: S. {client.getsockname()[1]}$", 2)
    log.close()


def test_the_client_timeout_ends_a_send(world):
    if world.haproxy:
        pytest.skip("HAProxy sends as much as the buffers take")
    peer, log = Peer(), LogServer()
    options = 'log global\n    log-format "%ts %cp"\n    timeout client 500ms'
    world.serve(action('txn.res:send(string.rep("x", 20000000))'), request_rules(peer, options=options), mode="tcp",
                global_lines=f"log 127.0.0.1:{log.port} local0")
    with connect(world.port, 4096) as client:
        log.wait_for(rf"\]: c. {client.getsockname()[1]}$", 3)
    log.close()


@pytest.mark.parametrize("code, answer", [("txn.req:data(0, 5)", "nil"), ("txn.req:getline()", ""), ("txn.req:forward(5)", "0")])
def test_the_inspection_delay_ends_a_read(world, code, answer):
    peer = Peer()
    world.serve(action(f"local found = {code} txn.res:send(tostring(found) .. '\\n')"), request_rules(peer, delay="300ms"), mode="tcp")
    peer.expect((b"answer\n", "shut"))
    began = time.monotonic()
    with connect(world.port) as client:
        assert receive(client, len(answer) + 1).decode() == f"{answer}\n"
        assert 0.25 < time.monotonic() - began < 2
        assert rest(client) == b"answer\n"


def test_rules_see_the_incoming_bytes_only(world):
    peer = Peer()
    rules = request_rules(peer, "tcp-request content reject unless { req.len 3 }\n    tcp-request content reject unless { req.payload(0,3) -m str def }")
    world.serve(action("txn.req:data(0, 6) txn.req:forward(2) txn.req:remove(0, 1)"), rules, mode="tcp")
    peer.expect((("read", 5), b"answer", "shut"))
    with connect(world.port) as client:
        client.sendall(b"abcdef")
        assert rest(client) == b"answer"
    assert b"".join(peer.heard) == b"abdef"


def test_bytes_that_arrive_meanwhile_follow(world):
    if world.haproxy:
        pytest.skip("HAProxy 3.2 closes the connection where a script sleeps after a forward")
    peer = Peer()
    code = 'if txn.req:data(0, 3) then txn.req:send("1") txn.req:forward(1) core.msleep(200) txn.req:insert("2", 1) txn.req:send("3") end'
    world.serve(action(code), request_rules(peer), mode="tcp")
    peer.expect((("read", 9), b"answer", "shut"))
    with connect(world.port) as client:
        client.sendall(b"abc")
        time.sleep(0.1)
        client.sendall(b"def")
        assert rest(client) == b"answer"
    assert b"".join(peer.heard) == b"1a3b2cdef"


def test_a_client_that_has_closed_waits_in_the_queue_with_its_forwarded_bytes(world):
    if world.haproxy:
        pytest.skip("HAProxy 3.2 closes the connection")
    peer = Peer()
    world.serve(action("txn.req:forward(3)"), request_rules(peer) + " maxconn 1", mode="tcp")
    peer.expect(("eof", b"answer", "shut"))
    with connect(world.port) as first, connect(world.port) as second:
        first.sendall(b"abc")
        assert wait_until(lambda: peer.heard)
        second.sendall(b"def")
        second.shutdown(socket.SHUT_WR)
        time.sleep(0.3)
        first.shutdown(socket.SHUT_WR)
        assert rest(first) == b"answer" and rest(second) == b"answer"
    assert b"".join(peer.heard) == b"abcdef"


def test_a_service_reads_the_forwarded_bytes(world):
    if world.haproxy:
        pytest.skip("HAProxy 3.2 loses the inserted text")
    world.serve("""
core.register_action("a", {"tcp-req"}, function(txn)
    txn.req:data(0, 6)
    txn.req:forward(2)
    txn.req:remove(0, 1)
    txn.res:append("early ")
end)
core.register_service("echo", "tcp", function(applet) applet:send("[" .. applet:receive(5) .. "]") end)
""", "tcp-request inspect-delay 5s\n    tcp-request content lua.a\n    tcp-request content use-service lua.echo", mode="tcp")
    with connect(world.port) as client:
        client.sendall(b"abcdef")
        assert rest(client) == b"early [abdef]"


def test_a_switch_to_http_keeps_the_forwarded_bytes(world):
    if world.haproxy:
        pytest.skip("HAProxy 3.2 closes the connection")
    world.serve(action('txn.req:data(0, 20) txn.req:forward(4) txn.req:set("/new", 0, 4)'), """tcp-request inspect-delay 5s
    tcp-request content lua.a
    tcp-request content switch-mode http
    default_backend b
backend b
    mode http
    http-request return status 200 content-type text/plain lf-string "%[path]" """, mode="tcp")
    with connect(world.port) as client:
        client.sendall(b"GET /old HTTP/1.0\r\n\r\n")
        assert rest(client).endswith(b"\r\n\r\n/new")


def test_channels_of_ended_streams_are_errors(world):
    if world.haproxy:
        pytest.skip("HAProxy reads freed memory")
    script = """
core.register_action("a", {"tcp-req"}, function(txn)
    if kept then
        local ok, message = pcall(kept.input, kept)
        txn.res:send(tostring(message))
    end
    kept = kept or txn.req
end)"""
    world.serve(script, "tcp-request content lua.a\n    tcp-request content reject", mode="tcp")

    def answer():
        with connect(world.port) as client:
            return rest(client).decode()
    assert wait_until(lambda: re.search("the object belongs to a stream that has ended", answer()))


def test_a_fetch_does_not_wait(world):
    peer = Peer()
    script = 'core.register_fetches("f", function(txn) local found = txn.req:data(0, 100) return #(found or "") .. " " .. txn.req:append("!") end)'
    rules = """tcp-request inspect-delay 5s
    tcp-request content accept if !{ req.len 3 }
    tcp-request content set-var(sess.found) lua.f
    tcp-request content reject unless { var(sess.found) -m str '3 1' }
    default_backend b
backend b
    server s 127.0.0.1:%d""" % peer.port
    world.serve(script, rules, mode="tcp")
    peer.expect((("read", 4), b"answer", "shut"))
    with connect(world.port) as client:
        client.sendall(b"abc")
        assert rest(client) == b"answer"
    assert b"".join(peer.heard) in (b"abc!", b"!abc")
