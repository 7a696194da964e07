"""Servers: of HTTP and FastCGI in one backend, health checks over FastCGI, and the words of servers and backends."""
import threading
import time

import pytest

from lib.fastcgi import OK, OVERLOADED, Application
from lib.fcgi_world import dechunk
from lib.origin import OK as HTTP_OK
from lib.origin import Origin
from lib.program import wait_until

TYPE = b"Content-Type: a/b\r\n\r\n"


@pytest.fixture
def mixed(build, origin):
    """Starts a backend with a FastCGI server, and an HTTP server for /http."""
    def start(**places):
        return build().serve(servers=f"server s {{address}} proto fcgi\n    server h 127.0.0.1:{origin.port}\n"
                                     "    use-server h if { path_beg /http }\n    use-server s unless { path_beg /http }", **places)
    return start


def test_an_http_server_gets_all_headers(mixed, origin):
    world = mixed(app="set-param FOO bar")
    headers = ["Authorization: Basic dTpw", "Proxy: p", "X_Under: 1", "X-Ok: 1"]
    assert world.ask("/http", *headers).status == 200
    got = {name: origin.requests[-1].field(name) for name in ("authorization", "proxy", "x-ok")}
    assert got == world.want({"authorization": "Basic dTpw", "proxy": "p", "x-ok": "1"}, {"authorization": None, "proxy": None, "x-ok": "1"},
                             "hidden headers")
    # No trace of the application.
    assert b"bar" not in origin.requests[-1].head and origin.requests[-1].head.startswith(b"GET /http HTTP/1.1\r\n")
    assert "HTTP_AUTHORIZATION" not in world.params("/fcgi", *headers)


@pytest.mark.parametrize("size", [5, 5000, 100_000])
def test_an_http_server_gets_bodies_of_unknown_length(mixed, origin, size):
    world = mixed()
    body = b"".join(b"%x\r\n%s\r\n" % (5, b"hello") for _ in range(size // 5)) + b"0\r\n\r\n"
    answer = world.ask("/http", "Transfer-Encoding: chunked", method="POST", body=body)
    request = origin.requests[-1]
    body = dechunk(request.body)[0] if request.field("transfer-encoding") else request.body
    arrived = body.count(b"hello")
    assert (answer.status, arrived) == world.want((200, size // 5), (200, 0), "body to HTTP")


def test_an_http_server_gets_bodies_of_known_length(mixed, origin):
    world = mixed()
    assert world.ask("/http", "Content-Length: 100000", method="POST", body=b"b" * 100_000).status == 200
    assert origin.requests[-1].body == b"b" * 100_000


def test_a_path_that_only_fastcgi_refuses(mixed, origin):
    """The expression of the application does not concern an HTTP server."""
    world = mixed(app=r"path-info ^(/.+\.php)(/.*)?$")
    assert world.ask("/http/%00").status == 200 and origin.requests[-1].path == "/http/%00"
    assert world.ask("/fcgi/%00").status in (400, 500)


def test_a_dead_server_beside_a_full_one_is_retried(build):
    """A redispatch that chooses the same server is a retry. The server counts as balanced once for each request."""
    gate = threading.Event()

    def answer(talk, request):
        gate.wait(5)
        return OK
    world = build(Application(answer, concurrent=True))
    world.serve(backend="balance roundrobin\n    option redispatch 1\n    retries 3",
                servers="server s {address} proto fcgi maxconn 1\n    server dead 127.0.0.1:1 proto fcgi")
    first = threading.Thread(target=world.ask)
    first.start()
    world.application.wait_for(1)
    assert world.ask("/x").status == 503
    gate.set()
    first.join()
    assert [(line.server, line.status, line.retries) for line in (world.logged(1), world.logged(2))] == [("b/dead", 503, "3"), ("b/s", 200, "0")]
    counted = {name: [world.stat("b", name, column) for column in ("wretr", "wredis", "econ", "lbtot")] for name in ("s", "dead", "BACKEND")}
    assert counted == {"s": ["0", "0", "0", "1"], "dead": ["3", "0", "1", "1"], "BACKEND": ["3", "0", "1", "2"]}


class Gated:
    """Servers of both kinds that answer once `gate` is set."""

    def __init__(self, build):
        self.gate = threading.Event()
        self.world = build(Application(lambda talk, request: self.gate.wait(5) and OK, concurrent=True))
        self.origin = Origin(lambda request: self.gate.wait(5) and HTTP_OK)

    def serve(self, kind, lines):
        """A dead application beside a live server of this kind with maxconn 1, which has a request."""
        live, proto = {"fcgi": ("{address}", "proto fcgi"), "http": (f"127.0.0.1:{self.origin.port}", "")}[kind]
        self.world.serve(backend=lines + "\n    option redispatch 1\n    retries 3\n    use-server s if { path /held }",
                         servers=f"server s {live} maxconn 1 {proto}\n    server dead 127.0.0.1:1 proto fcgi")
        self.ask("/held")
        assert wait_until(lambda: self.world.stat("b", "s", "scur") == "1")

    def ask(self, path):
        """Begins a request."""
        threading.Thread(target=self.world.ask, args=(path,), daemon=True).start()

    def results(self, count):
        """Server, status and retries of these requests, without the held one."""
        self.world.logged(count)
        return [(line.server, line.status, line.retries) for line in self.world.requests_logged() if "/held" not in line.request]


@pytest.mark.parametrize("kind", ["fcgi", "http"])
@pytest.mark.parametrize("balance", ["roundrobin", "static-rr", "leastconn", "first"])
def test_a_dead_server_is_used_again_while_the_others_are_full(build, kind, balance):
    gated = Gated(build)
    gated.serve(kind, f"balance {balance}")
    gated.ask("/x")
    assert gated.results(1) == [("b/dead", 503, "3")]
    gated.gate.set()


@pytest.mark.parametrize("kind", ["fcgi", "http"])
@pytest.mark.parametrize("balance", ["random", "random(1)", "random(5)"])
def test_with_random_draws_a_failed_request_waits_for_the_other_servers(build, kind, balance):
    """HAProxy queues some requests before they reach the dead server."""
    gated = Gated(build)
    gated.serve(kind, f"balance {balance}")
    for number in range(8):
        gated.ask(f"/{number}")
    assert wait_until(lambda: gated.world.stat("b", "BACKEND", "qcur") == "8")
    gated.gate.set()
    assert set(gated.results(9)) <= {("b/s", 200, "0"), ("b/s", 200, "+1")}


@pytest.mark.parametrize("kind", ["fcgi", "http"])
@pytest.mark.parametrize("balance", ["source", "hdr(Host)"])
def test_with_a_consistent_hash_a_failed_request_waits_for_the_next_server(build, kind, balance):
    gated = Gated(build)
    gated.serve(kind, f"balance {balance}\n    hash-type consistent")
    gated.ask("/x")
    assert wait_until(lambda: gated.world.stat("b", "s", "qcur") == "1")
    gated.gate.set()
    assert set(gated.results(2)) <= {("b/s", 200, "0"), ("b/s", 200, "+1")}


def test_redispatch_from_fastcgi_to_http(build, origin):
    world = build()
    world.application.close()
    world.serve(servers=f"server s {{address}} proto fcgi\n    server h 127.0.0.1:{origin.port}", backend="balance first\n    option redispatch 1")
    assert world.ask("/x", "Content-Length: 5", method="POST", body=b"hello").body == b"ok"
    assert origin.requests[-1].body == b"hello" and b"POST /x HTTP/1.1" in origin.requests[-1].head


def test_redispatch_from_http_to_fastcgi(build):
    with Origin() as gone:
        pass
    world = build().serve(servers=f"server h 127.0.0.1:{gone.port}\n    server s {{address}} proto fcgi",
                          backend="balance first\n    option redispatch 1")
    assert world.params("/x", "Authorization: Basic dTpw", "Content-Length: 5", method="POST", body=b"hello")["REMOTE_USER"] == "u"
    assert world.application.last.body == b"hello" and "HTTP_AUTHORIZATION" not in world.application.last.params


def test_two_backends_with_one_application_section(build):
    other = Application(TYPE + b"other")
    world = build().serve(frontend="use_backend c if { path /c }", sections=f"backend c\n    use-fcgi-app app\n    server s {other.address} proto fcgi")
    assert [world.ask(path).body for path in ("/b", "/c")] == [b"ok", b"other"]
    assert other.last.params["DOCUMENT_ROOT"] == "/srv/www"
    other.cut()


def test_a_listen_section_and_default_server(build):
    world = build()
    text = f"""
global
    stats socket {world.cli} level admin
defaults
    mode http
    timeout connect 2s
    timeout client 5s
    timeout server 5s
listen l
    bind 127.0.0.1:{world.port}
    use-fcgi-app later
    default-server proto fcgi
    server s {world.application.address}
fcgi-app later
    docroot /srv/later
"""
    world.serve(text=text)
    assert world.params("/x")["DOCUMENT_ROOT"] == "/srv/later"


def test_runtime_commands(build):
    world = build().serve()
    assert world.ask("/x").status == 200
    world.command("disable server b/s")
    assert world.ask("/x").status == 503
    world.command("enable server b/s")
    assert world.ask("/x").status == 200
    other = Application(TYPE + b"moved")
    world.command(f"set server b/s addr 127.0.0.1 port {other.port}")
    assert world.ask("/x").body == b"moved"
    other.cut()


def test_maxconn_queues(build):
    world = build(Application(lambda talk, request: time.sleep(0.3) or TYPE)).serve(server="maxconn 1", backend="timeout queue 100ms\n    retries 0")
    first = world.connect()
    first.sendall(b"GET /1 HTTP/1.1\r\nHost: x\r\n\r\n")
    world.application.wait_for(1)
    assert world.ask("/2").status == 503 and world.logged().flags.startswith("sQ")
    first.close()


def test_statistics_count_requests_and_bytes(build):
    world = build(Application(TYPE + b"b" * 1000)).serve()
    for _ in range(3):
        world.ask("/x")
    assert world.stat("b", "s", "stot") == "3" and world.stat("b", "s", "hrsp_2xx") == "3"
    assert int(world.stat("b", "s", "bout")) >= 3000


# Checks.

def checked(build, answer, lines="option httpchk GET /ping", words="check inter 100ms fall 1 rise 1", app="", **places):
    """A world with a check, once its first result is there."""
    world = build(Application(answer)).serve(backend=lines, server=words, app=app, **places)
    assert wait_until(lambda: world.stat("b", "s", "check_status") not in ("", "INI", "* INI"))
    return world


def test_a_check_is_a_request(build):
    world = checked(build, TYPE + b"pong")
    assert (world.stat("b", "s", "check_status"), world.stat("b", "s", "check_code"), world.stat("b", "s", "status")) == ("L7OK", "200", "UP")
    params = world.application.requests[0].params
    want = {"REQUEST_METHOD": "GET", "SCRIPT_NAME": "/ping", "REQUEST_URI": "/ping", "SCRIPT_FILENAME": "/srv/www/ping", "DOCUMENT_ROOT": "/srv/www",
            "CONTENT_LENGTH": "0", "GATEWAY_INTERFACE": "CGI/1.1", "SERVER_PORT": str(world.application.port), "SERVER_NAME": "127.0.0.1"}
    assert {name: params.get(name) for name in want} == want
    # A check is sent without a client.
    assert "REMOTE_ADDR" not in params


def test_a_check_with_send_and_expect(build):
    world = checked(build, TYPE + b"pong", "option httpchk\n    http-check send meth POST uri /ping?full ver HTTP/1.1 hdr Host h hdr X-A b body abc\n"
                    "    http-check expect string pong")
    assert world.stat("b", "s", "check_status") == "L7OK"
    request = world.application.requests[0]
    want = {"REQUEST_METHOD": "POST", "QUERY_STRING": "full", "HTTP_HOST": "h", "SERVER_NAME": "h", "HTTP_X_A": "b", "CONTENT_LENGTH": "3",
            "REQUEST_URI": "/ping?full", "SERVER_PROTOCOL": "HTTP/1.1"}
    assert {name: request.params.get(name) for name in want} == want and request.body == b"abc"


@pytest.mark.parametrize("answer, statuses", [
    pytest.param(b"Status: 500\r\n\r\n", {"L7STS"}, id="status_500"), pytest.param(b"Status: 404\r\n\r\n", {"L7STS"}, id="status_404"),
    pytest.param(lambda talk, request: talk.close(), {"SOCKERR", "L7RSP"}, id="close"),
    pytest.param(lambda talk, request: talk.reset(), {"SOCKERR", "L7RSP"}, id="reset"),
    pytest.param(lambda talk, request: talk.end(request, 0, OVERLOADED), {"SOCKERR", "L7RSP"}, id="overloaded"),
    pytest.param(lambda talk, request: talk.hang(), {"L7TOUT"}, id="hang"), pytest.param(b"junk\r\n\r\n", {"SOCKERR", "L7RSP"}, id="junk")])
def test_a_failed_check(build, answer, statuses):
    world = checked(build, answer, "option httpchk GET /ping\n    timeout check 300ms", "check inter 400ms fall 1 rise 1")
    assert wait_until(lambda: world.stat("b", "s", "status").startswith("DOWN")) and world.stat("b", "s", "check_status") in statuses


def test_a_check_of_a_dead_server(build):
    application = Application()
    application.close()
    world = build(application).serve(backend="option httpchk GET /ping", server="check inter 100ms fall 1")
    assert wait_until(lambda: world.stat("b", "s", "check_status") == "L4CON")


def test_a_check_recovers(build):
    world = checked(build, b"Status: 503\r\n\r\n")
    assert wait_until(lambda: world.stat("b", "s", "status") == "DOWN")
    assert world.ask("/x").status == 503
    world.application.answer = TYPE + b"ok"
    assert wait_until(lambda: world.stat("b", "s", "status") == "UP")
    assert world.ask("/x").body == b"ok"


def test_connections_of_checks_are_closed(build):
    """A check must not leave a worker of the application occupied."""
    world = checked(build, TYPE + b"pong")
    assert wait_until(lambda: len(world.application.conversations) > 3)
    assert wait_until(lambda: all(talk.ending for talk in world.application.conversations[:3]))


def test_a_check_without_httpchk_only_connects(build):
    world = checked(build, TYPE, "")
    assert world.stat("b", "s", "check_status") == "L4OK" and not world.application.requests


def test_a_check_with_a_proto_of_its_own(build):
    world = checked(build, TYPE + b"pong", "option httpchk\n    http-check connect proto fcgi\n    http-check send meth GET uri /ping")
    assert world.stat("b", "s", "check_status") == "L7OK" and world.application.requests[0].params["SCRIPT_NAME"] == "/ping"


def test_a_check_over_http_on_another_port(build, origin):
    """check-proto is that of the check alone."""
    world = checked(build, TYPE, "option httpchk GET /health", f"check inter 100ms port {origin.port} check-proto h1")
    assert world.stat("b", "s", "check_status") == "L7OK" and origin.requests[0].path == "/health"
