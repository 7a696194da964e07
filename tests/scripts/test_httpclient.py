"""HTTP requests of scripts: `core.httpclient`."""
import contextlib
import re
import socket
import threading
import time

import pytest

from lib.name_server import A, NameServer
from lib.origin import Origin, Server, end_with_reset, read_all, read_head
from lib.program import free_port, wait_until
from lib.tls import Authority, SecureServer

from scripts.test_sockets import RULES, act, body, descriptors

# The table of a response as text: `status reason {name=value,value ...} body`.
SHOW = """
local function show(r)
    local names, fields = {}, {}
    for name in pairs(r.headers) do names[#names + 1] = name end
    table.sort(names)
    for _, name in ipairs(names) do
        local values = {}
        local index = 0
        while r.headers[name][index] do
            values[#values + 1] = r.headers[name][index]
            index = index + 1
        end
        fields[#fields + 1] = name .. "=" .. table.concat(values, ",")
    end
    return r.status .. " " .. r.reason .. " {" .. table.concat(fields, " ") .. "} " .. (#r.body > 100 and #r.body or r.body)
end
"""


def fetched(world, parameters, method="get", rules=RULES, **options):
    """The text of the response to a request with these parameters, a table in Lua."""
    world.serve(SHOW + act(f"return show(core.httpclient():{method}{parameters})"), rules, **options)
    return body(world.ask(seconds=20))


def at(server, path="/"):
    return f'url = "http://127.0.0.1:{server.port}{path}"'


def test_all_methods_send_their_fields_and_bodies(world):
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX: 1\r\nX: 2\r\n\r\nok") as origin:
        world.serve(SHOW + act(f"""
            local shown = {{}}
            for _, method in ipairs {{"get", "head", "put", "post", "delete"}} do
                local client = core.httpclient()
                local with_body = method == "put" or method == "post"
                shown[#shown + 1] = show(client[method](client, {{{at(origin, "/p?q")}, headers = {{["X-Many"] = {{"a", "b"}}, ["user-agent"] = {{"own"}}}},
                    body = with_body and "text" or nil}}))
            end
            return table.concat(shown, " / ")"""), RULES)
        shown = body(world.ask()).split(" / ")
    assert shown == [f"200 OK {{content-length=2 x=1,2}} {text}" for text in ("ok", "", "ok", "ok", "ok")]
    assert [request.head.split()[0].decode() for request in origin.requests] == ["GET", "HEAD", "PUT", "POST", "DELETE"]
    for request in origin.requests:
        assert request.path == "/p?q" and request.field("user-agent") == "own" and request.field("host") == f"127.0.0.1:{origin.port}"
        assert re.findall(r"x-many: (\w)", request.head.decode()) == ["a", "b"]
        with_body = request.head.startswith(b"P")
        assert (b"text" in request.body) == with_body and (request.field("content-length") == "4") == (with_body and not world.haproxy)


ANSWERS = [
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone", "404 Not Found {content-length=4} gone"),
    (b"HTTP/1.1 204 No Content\r\n\r\n", "204 No Content {} "),
    (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "304 Not Modified {content-length=5} "),
    (b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", "302 Found {content-length=0 location=/other} "),
    (b"HTTP/1.1 103 Early\r\nA: b\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 OK {content-length=2} ok"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nT: u\r\n\r\n", "200 OK {transfer-encoding=chunked} hello world"),
    (b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nto the end", "200 OK {} to the end"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\ncut", "200 OK {content-length=10} cut"),
    (b"rubbish\r\n\r\n", "502 Bad Gateway"), (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\nConnection: close\r\n\r\n", "502 Bad Gateway"), (None, "502 Bad Gateway"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n" + b"x" * 10_000_000, "200 OK {content-length=10000000} 10000000"),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"10000\r\n" + b"x" * 65536 + b"\r\n0\r\n\r\n", "200 OK {transfer-encoding=chunked} 65536"),
]


@pytest.mark.parametrize("answer, expected", ANSWERS, ids=range(len(ANSWERS)))
def test_answers_of_all_kinds(world, answer, expected):
    with Origin(answer) as origin:
        assert fetched(world, f"{{{at(origin)}}}").startswith(expected)


def test_a_head_request_gets_the_head_only(world):
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n") as origin:
        assert fetched(world, f"{{{at(origin)}}}", method="head") == "200 OK {content-length=1000} "


def test_a_silent_server_times_out(world):
    ended = threading.Event()
    with Server(lambda connection: ended.wait(10)) as server:
        began = time.monotonic()
        assert fetched(world, f"{{{at(server)}, timeout = 300}}").startswith("504 Gateway Time-out {cache-control=no-cache")
        assert 0.3 <= time.monotonic() - began < 5
        ended.set()


def test_a_slow_answer_is_not_late_as_long_as_bytes_arrive(world):
    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        for _ in range(10):
            time.sleep(0.1)
            connection.sendall(b"x")
    with Server(serve) as server:
        assert fetched(world, f"{{{at(server)}, timeout = 500}}").endswith(" xxxxxxxxxx")


def test_a_server_that_cannot_be_reached_is_tried_again(world):
    port = free_port()
    late = []
    threading.Timer(0.6, lambda: late.append(Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate", port=port))).start()
    assert fetched(world, f'{{url = "http://127.0.0.1:{port}/"}}', global_lines="httpclient.retries 5").endswith(" late")
    late[0].cut()


def test_without_retries_a_refused_connection_is_a_503(world):
    assert fetched(world, f'{{url = "http://127.0.0.1:{free_port()}/"}}', global_lines="httpclient.retries 0").startswith("503 Service Unavailable {cache-control")


def test_dst_is_the_address_of_the_connection(world):
    path = f"{world.folder.path}/origin"
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntcp") as origin, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve():
            with listener.accept()[0] as connection:
                heads.append(read_head(connection)[0])
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nunix")
        heads = []
        threading.Thread(target=serve, daemon=True).start()
        world.serve(act(f"""
            return core.httpclient():get{{url = "http://shop.test/a", dst = "127.0.0.1:{origin.port}"}}.body,
                core.httpclient():get{{url = "http://shop.test/b", dst = "unix@{path}"}}.body,
                pcall(function() core.httpclient():get{{url = "http://shop.test/", dst = "shop.test:80"}} end)"""), RULES)
        assert re.match(r"tcp\|unix\|false\|\S+ Can't use the 'dst' argument", body(world.ask()))
    assert origin.requests[0].field("host") == "shop.test" and b"host: shop.test" in heads[0].lower()


def test_names_are_resolved_by_the_settings(world):
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as origin, contextlib.closing(NameServer({("shop.test", A): ["127.0.0.1"]})) as names:
        world.serve(SHOW + act(f"""
            return core.httpclient():get{{url = "http://shop.test:{origin.port}/"}}.status, show(core.httpclient():get{{url = "http://none.test:{origin.port}/"}})"""),
            RULES + f"\nresolvers own\n    nameserver one 127.0.0.1:{names.port}\n    timeout resolve 200ms\n    timeout retry 200ms\n    resolve_retries 1\n    hold nx 1s",
            global_lines="httpclient.resolvers.id own\n    httpclient.resolvers.prefer ipv4\n    httpclient.retries 0")
        assert body(world.ask(seconds=20)) == "200|503 Service Unavailable {content-length=0} "


@pytest.mark.parametrize("settings, status", [("ca", 200), ("", 503), ("httpclient.ssl.verify none", 200)])
def test_certificates_are_verified_by_the_settings(world, settings, status):
    authority = Authority(world.folder)
    certificate = authority.issue("shop.test")
    with SecureServer(certificate, answer=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as server:
        settings = settings.replace("ca", f"httpclient.ssl.ca-file {authority.certificate}") if settings == "ca" else settings
        # HAProxy takes the name from the header Host.
        shown = fetched(world, f'{{url = "https://shop.test:{server.port}/", dst = "127.0.0.1:{server.port}"}}', global_lines=f"{settings}\n    httpclient.retries 0")
        assert shown.startswith(str(status))
        assert server.names[:1] == ["shop.test"]


def test_a_certificate_of_another_host_is_refused(world):
    authority = Authority(world.folder)
    with SecureServer(authority.issue("other.test"), answer=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as server:
        shown = fetched(world, f'{{url = "https://shop.test:{server.port}/", dst = "127.0.0.1:{server.port}"}}',
                        global_lines=f"httpclient.ssl.ca-file {authority.certificate}\n    httpclient.retries 0")
        assert shown.startswith("503") and not server.requests


def test_a_large_request_is_sent(world):
    with Origin(lambda request: f"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{request.body.count(b'x'):08}".encode()) as origin:
        world.serve(act(f"""return core.httpclient():post{{{at(origin)}, body = string.rep("x", 10000000)}}.body"""), RULES)
        assert body(world.ask(seconds=20)) == "10000000"


def test_an_answer_to_a_request_that_is_not_read_is_heard(world):
    if world.haproxy:
        pytest.skip("it may wait until the whole request is sent")
    ended = threading.Event()

    def refuse(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 413 Payload Too Large\r\nContent-Length: 3\r\n\r\nbig")
        ended.wait(15)
    with Server(refuse) as server:
        world.serve(act(f"""return core.httpclient():post{{{at(server)}, body = string.rep("x", 10000000)}}.status"""), RULES)
        assert body(world.ask(seconds=10)) == "413"
        ended.set()


def test_a_response_larger_than_the_memory_of_lua_is_an_error(world):
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 30000000\r\n\r\n" + b"x" * 30_000_000) as origin:
        world.serve(act(f"""
            local ok, message = pcall(function() return #core.httpclient():get{{{at(origin)}}}.body end)
            return ok, message"""), RULES, global_lines="tune.lua.maxmem 20")
        expected = "false|not enough memory" if world.haproxy else rf"false\|\S+ httpclient: the response is larger than {20 << 20} bytes"
        assert re.match(expected, body(world.ask(seconds=20))) or world.haproxy


@pytest.mark.parametrize("parameters", [
    'headers = {x = {"a\\r\\ny: z"}}', 'headers = {x = {"a\\nGET / HTTP/1.1"}}', 'headers = {x = {"a\\0b"}}', 'headers = {["a b"] = {"c"}}', 'headers = {["a:\\r\\nb"] = {"c"}}',
    'headers = {[""] = {"c"}}', 'headers = {host = {"a\\r\\nx: y"}}', 'url = "http://127.0.0.1:1/a b HTTP/1.1"', 'url = "http://127.0.0.1:1/\\r\\nx: y"'])
def test_nothing_smuggles_a_request(world, parameters):
    if world.haproxy:
        pytest.skip("it sends them")
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as origin:
        url = parameters.replace("127.0.0.1:1/", f"127.0.0.1:{origin.port}/") if parameters.startswith("url") else f"{at(origin)}, {parameters}"
        world.serve(act(f"return pcall(function() return core.httpclient():get{{{url}}} end)"), RULES)
        assert body(world.ask()).startswith("false|")
        assert not origin.heads


def test_own_framing_is_not_sent(world):
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as origin:
        shown = fetched(world, f'{{{at(origin)}, body = "text", headers = {{["content-length"] = {{"2"}}, ["Transfer-Encoding"] = {{"chunked"}}, host = {{"a"}}, Host = {{"a"}}}}}}',
                        method="post")
        assert shown.endswith("ok") and b"text" in origin.requests[0].body
        head = origin.requests[0].head.decode().lower()
        if not world.haproxy:
            assert head.count("content-length: 4") == 1 and "transfer-encoding" not in head and head.count("host:") == 1


def test_an_object_sends_one_request(world):
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as origin:
        world.serve(act(f"""
            local client = core.httpclient()
            local bad = pcall(client.get, client, {{}})
            local first = client:get{{{at(origin)}}}.status
            local ok, message = pcall(client.get, client, {{{at(origin)}}})
            return bad, first, ok, message"""), RULES)
        assert body(world.ask()) == "false|200|false|httpclient instance cannot be reused. It must process at most one request"
        assert len(origin.requests) == 1


def test_a_client_that_leaves_ends_the_request(world):
    ends, arrived = [], threading.Event()

    def serve(connection):
        read_head(connection)
        arrived.set()
        connection.settimeout(10)
        ends.append(connection.recv(1))
    with Server(serve) as server:
        world.serve(act(f"core.httpclient():get{{{at(server)}}} went_on = true"), RULES)
        client = world.connect()
        assert arrived.wait(5)
        time.sleep(0.1)
        end_with_reset(client)
        client.close()
        assert world.haproxy or wait_until(lambda: ends, 1)


def test_a_response_waits_in_a_task_too(world):
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") as origin:
        world.serve(f"""
core.register_task(function() answer = core.httpclient():get{{{at(origin)}}}.body end)
core.register_fetches("answer", function() return tostring(answer) end)""", 'http-request return status 200 content-type text/plain lf-string "%[lua.answer]"')
        assert wait_until(lambda: body(world.ask()) == "ok")


def test_hundreds_of_requests_at_once(world):
    def answer(request):
        time.sleep(0.3)
        return f"HTTP/1.1 200 OK\r\nContent-Length: {len(request.path)}\r\n\r\n{request.path}".encode()
    with Origin(answer) as origin:
        world.serve(act(f'return core.httpclient():get{{url = "http://127.0.0.1:{origin.port}" .. txn.sf:path()}}.body'), RULES, global_lines="maxconn 1000")
        open_before = descriptors(world)
        clients = [world.connect(f"/{number}", seconds=20) for number in range(300)]
        answers = [read_all(client).decode() for client in clients]
        assert [body(answer) for answer in answers] == [f"/{number}" for number in range(300)]
        for client in clients:
            client.close()
        # HAProxy keeps its connections.
        assert world.haproxy or wait_until(lambda: descriptors(world) <= open_before + 5), descriptors(world)


def test_the_program_asks_itself(world):
    world.serve(act(f"""
        if txn.sf:path() == "/inner" then return "inner" end
        return core.httpclient():get{{url = "http://127.0.0.1:{world.port}/inner"}}.body"""), RULES)
    assert body(world.ask()) == "inner"


def test_core_httpclient_returns_nothing_while_the_configuration_is_read(world):
    world.serve("""
local body = select("#", core.httpclient())
core.register_action("act", {"http-req"}, function(txn) txn:set_var("txn.out", body .. tostring(core.httpclient())) end)""", RULES)
    assert body(world.ask()) == "0HAProxy class HTTPClient"
