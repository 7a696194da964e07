"""`http-request auth-request`: a server of another backend decides about each request. The tests look at the bytes that the
authorization server, the origin and the client received."""
import http.client
import re
import socket
import subprocess
import threading
import time

import pytest

from lib.origin import Origin, Server, end_with_reset, read_head, switching
from lib.program import ask, free_port, request, wait_until

CONFIGURATION = """
global
    stats socket {cli} level admin
    {extra}
defaults
    mode http
    timeout connect 2s
    timeout client 20s
    timeout server 10s
frontend f
    bind 127.0.0.1:{port}
    bind 127.0.0.1:{port2} proto h2
    {before}
    http-request auth-request {name} {words}
    {after}
    default_backend app
backend auth
    {auth_lines}
    server a1 {auth}
backend app
    server s1 127.0.0.1:{app}
{sections}
"""

ALLOW = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


def answer(status, *fields, body=b""):
    """An answer with these fields."""
    lines = [f"HTTP/1.1 {status} Reason", f"Content-Length: {len(body)}", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def get(path="/", *fields, method="GET", body=b""):
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: shop.test", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class World:
    """weir between a client, an authorization server and an origin."""

    def __init__(self, start, folder, origin, auth):
        self.start, self.folder, self.origin, self.auth = start, folder, origin, auth
        self.port, self.port2 = free_port(), free_port()
        self.cli = f"{folder.path}/cli"

    def serve(self, words="", **places):
        """Starts weir with these arguments of the rule."""
        values = dict(cli=self.cli, port=self.port, port2=self.port2, words=words, auth=f"127.0.0.1:{self.auth.port}",
                      app=self.origin.port, extra="", before="", after="", auth_lines="", sections="", name="auth")
        values.update(places)
        self.program = self.start(CONFIGURATION.format(**values), self.port)
        return self

    def ask(self, *arguments, **options):
        """The head of the answer to one request."""
        return request(self.port, get(*arguments, **options), seconds=15)

    def fetch(self, path="/", method="GET", body=None, headers={}):
        """Status, fields and body of an answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=15)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def info(self, name):
        """A line of `show info`."""
        return int(re.search(rf"^{name}: (\d+)", ask(self.cli, "show info"), re.M)[1])

    def stat(self, proxy, server, column):
        """A column of `show stat`."""
        lines = ask(self.cli, "show stat").splitlines()
        names = lines[0].lstrip("# ").split(",")
        row = next(line.split(",") for line in lines if line.startswith(f"{proxy},{server},"))
        return row[names.index(column)]


@pytest.fixture
def world(start, folder, origin):
    with Origin(ALLOW) as auth:
        yield World(start, folder, origin, auth)


# What both servers see.

def test_fields_named_by_connection_reach_neither_server(world):
    """Otherwise a client could hide a field from the server that decides about it."""
    world.serve()
    assert b" 200 " in world.ask("/", "Connection: X-Tenant, keep-alive", "X-Tenant: victim")
    assert [server.requests[-1].field("x-tenant") for server in (world.auth, world.origin)] == [None, None]
    assert b" 200 " in world.ask("/", "X-Tenant: own")
    assert [server.requests[-1].field("x-tenant") for server in (world.auth, world.origin)] == ["own", "own"]


def test_connection_cannot_remove_a_copied_field(world):
    world.auth.answer = answer(200, "Remote-User: joe")
    world.serve("copy-hdr Remote-User")
    world.ask("/", "Connection: Remote-User", "Remote-User: admin")
    received = world.origin.requests[-1]
    assert (received.field("remote-user"), received.field("connection")) == ("joe", None)


def test_variables_of_an_earlier_rule_do_not_survive_a_later_one(world):
    world.auth.answer = lambda request: answer(200, "X-Role: admin") if request.path == "/first" else answer(401)
    world.serve("path /first keep-hdr X-Role", after="""http-request auth-request auth path /second keep-hdr X-Role continue
    http-request set-header X-Seen "%[var(txn.auth_response_code)] %[var(req.auth_response_header.x_role)]"
""")
    world.ask()
    assert world.origin.requests[-1].field("x-seen").strip() == "401"


# Verdicts.

def test_2xx_continues_with_the_named_fields(world):
    world.auth.answer = answer(204, "Remote-User: joe", "Remote-Groups: a", "Remote-Groups: b", "X-Other: no").replace(
        b"Content-Length: 0\r\n", b"")
    world.serve("path /verify copy-hdr Remote-User,Remote-Groups")
    assert world.ask("/a?b=c").startswith(b"HTTP/1.1 200 ")
    head = world.origin.requests[0].head
    assert head.startswith(b"GET /a?b=c HTTP/1.1\r\n")
    assert re.findall(rb"Remote-[^\r]*", head) == [b"Remote-User: joe", b"Remote-Groups: a", b"Remote-Groups: b"]
    assert b"X-Other" not in head


def test_fields_of_the_client_are_never_taken_for_those_of_the_server(world):
    world.serve("copy-hdr Remote-User,Remote-Email")
    world.ask("/", "Remote-User: root", "remote_user: root", "REMOTE-EMAIL: a@b", "X-Keep: 1")
    for received in (world.auth.requests[0], world.origin.requests[0]):
        assert not re.search(rb"remote.", received.head, re.I), received.head
        assert received.field("x-keep") == "1"


def test_spoofed_fields_are_removed_when_errors_are_allowed(world):
    world.auth.answer = answer(500)
    world.serve("copy-hdr Remote-User on-error allow")
    assert world.ask("/", "Remote-User: root").startswith(b"HTTP/1.1 200 ")
    assert world.origin.requests[0].field("remote-user") is None


@pytest.mark.parametrize("status", [401, 403])
def test_refusals_go_to_the_client(world, status):
    world.auth.answer = answer(status, 'WWW-Authenticate: Bearer realm="x"', "Set-Cookie: a=1", "Set-Cookie: b=2",
                               "Content-Type: text/x", "X-Secret: 1", "Server: auth", body=b"please sign in")
    world.serve()
    got, fields, body = world.fetch()
    assert (got, body, fields["content-type"]) == (status, b"please sign in", "text/x")
    assert fields["www-authenticate"] == 'Bearer realm="x"' and fields.get_all("set-cookie") == ["a=1", "b=2"]
    assert fields["cache-control"] == "no-cache"
    assert "x-secret" not in fields and "server" not in fields
    assert not world.origin.requests
    assert wait_until(lambda: world.stat("f", "FRONTEND", "dreq") == "1")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirections_go_to_the_client(world, status):
    world.auth.answer = answer(status, "Location: https://login.test/?rd=x", "Set-Cookie: s=1", "Cache-Control: no-store")
    world.serve()
    got, fields, body = world.fetch()
    assert (got, fields["location"], fields["set-cookie"], body) == (status, "https://login.test/?rd=x", "s=1", b"")
    assert fields["cache-control"] == "no-store"
    assert not world.origin.requests


def test_a_client_of_head_gets_a_refusal_without_a_body_and_keeps_its_connection(world):
    world.auth.answer = answer(403, body=b"no")
    world.serve()
    with socket.create_connection(("127.0.0.1", world.port)) as client:
        for _ in range(2):
            client.sendall(get(method="HEAD"))
            head, held = read_head(client)
            assert head.startswith(b"HTTP/1.1 403 ") and not held


@pytest.mark.parametrize("size, body", [(16384, b"x" * 16384), (16385, b"")])
def test_a_body_above_the_limit_is_not_given_to_the_client(world, size, body):
    world.auth.answer = answer(401, "Content-Type: text/plain", body=b"x" * size)
    world.serve()
    got, fields, received = world.fetch()
    assert (got, received) == (401, body)
    assert ("content-type" in fields) == bool(body)


def test_a_body_in_chunks_goes_to_the_client(world):
    world.auth.answer = b"HTTP/1.1 403 No\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nT: 1\r\n\r\n"
    world.serve(extra="nbthread 1")
    for _ in range(2):
        assert world.fetch()[::2] == (403, b"abcde")
    assert world.auth.count == 1


def test_cookies_of_a_2xx_reach_the_client(world):
    world.auth.answer = answer(200, "Set-Cookie: a=1; Path=/", "Set-Cookie: b=2")
    world.origin.answer = answer(200, "Set-Cookie: own=3")
    world.serve(after="http-request return status 200 if { path /local }")
    assert world.fetch()[1].get_all("set-cookie") == ["own=3", "a=1; Path=/", "b=2"]
    assert world.fetch("/local")[1].get_all("set-cookie") == ["a=1; Path=/", "b=2"]


def test_cookies_of_one_verdict_do_not_reach_another_request(world):
    world.auth.answer = lambda received: answer(200, *(["Set-Cookie: a=1"] if received.field("x-original-uri") == "/a" else []))
    world.serve()
    with socket.create_connection(("127.0.0.1", world.port)) as client:
        held = b""
        for path, cookies in (("/a", 1), ("/b", 0)):
            client.sendall(get(path))
            head, held = read_head(client, held)
            while len(held) < 2:
                held += client.recv(100)
            held = held[2:]
            assert head.lower().count(b"set-cookie") == cookies


# The request of the authorization server.

def test_the_request_of_the_server(world):
    world.serve("path /auth/%[path,base64] hdr X-Key %[str(secret)]")
    world.ask("/x?y", "Cookie: a=b", "Authorization: Bearer t", "User-Agent: me", "Connection: X-Hop, keep-alive", "X-Hop: 1",
              "TE: trailers", "Expect: 100-continue", "Upgrade: h2c", "Content-Length: 4", "Content-Type: a/b",
              "Content-Encoding: gzip", "If-None-Match: x", "Range: bytes=0-1", "Keep-Alive: 5", "X-Key: forged",
              "X-Forwarded-For: 6.6.6.6", "X-Forwarded-User: root", "X-Original-URI: /public", "X-Real-IP: 6.6.6.6",
              "Forwarded: for=6.6.6.6", method="POST", body=b"body")
    head = world.auth.requests[0].head
    assert head.split(b"\r\n", 1)[0] == b"GET /auth/L3g= HTTP/1.1"
    fields = sorted(line.decode().lower() for line in head.split(b"\r\n")[1:])
    assert fields == sorted([
        "host: shop.test", "cookie: a=b", "authorization: bearer t", "user-agent: me", "x-key: secret",
        "x-original-method: post", "x-original-uri: /x?y", "x-original-url: http://shop.test/x?y", "x-forwarded-method: post",
        "x-forwarded-proto: http", "x-forwarded-host: shop.test", "x-forwarded-uri: /x?y", "x-forwarded-for: 127.0.0.1",
        "x-real-ip: 127.0.0.1", "cdn-loop: weir"]), fields
    assert world.auth.requests[0].body == b""
    # The first head is that of a 100.
    assert wait_until(lambda: world.origin.requests)
    assert world.origin.requests[0].body == b"body"


def test_fields_that_rules_set_replace_the_defaults(world):
    world.serve("hdr X-Forwarded-Proto https", before="http-request set-src hdr(cf-ip)\n    http-request set-header X-Forwarded-Host other.test\n"
                "    http-request set-header X-Original-URI /%[method]")
    world.ask("/x", "CF-IP: 9.8.7.6", "X-Forwarded-Proto: ftp")
    received = world.auth.requests[0]
    names = ["x-forwarded-proto", "x-forwarded-host", "x-original-uri", "x-forwarded-for"]
    assert [received.field(name) for name in names] == ["https", "other.test", "/GET", "9.8.7.6"]
    for name in names:
        assert received.head.lower().count(name.encode()) == 1


def test_the_path_of_the_request_and_other_methods(world):
    world.serve("method HEAD")
    world.ask("/a/b?c=d", method="DELETE")
    received = world.auth.requests[0]
    assert received.head.startswith(b"HEAD /a/b?c=d HTTP/1.1") and received.field("x-original-method") == "DELETE"


def test_a_format_cannot_add_lines(world):
    world.serve("hdr X-A %[url_param(a),url_dec]")
    world.ask("/?a=b%0d%0aX-Evil:%201")
    assert world.auth.requests[0].field("x-a") == "b%0D%0AX-Evil: 1"
    assert world.auth.requests[0].field("x-evil") is None


def test_a_path_that_would_split_the_request_line_fails_closed(world):
    world.serve("path /%[url_param(a),url_dec]")
    assert world.ask("/?a=b%20HTTP/1.1%0d%0aX-Evil:%201").startswith(b"HTTP/1.1 503 ")
    assert not world.auth.requests and not world.origin.requests


def test_rules_of_the_backend_apply(world):
    world.serve(auth_lines="http-request set-header Host auth.test\n    http-request deny deny_status 403 if { path_beg /no }\n"
                "    http-response set-header Remote-User %[res.hdr(x-name),lower]",
                words="copy-hdr Remote-User")
    world.auth.answer = answer(200, "X-Name: JOE")
    assert world.ask("/").startswith(b"HTTP/1.1 200 ")
    assert world.auth.requests[0].field("host") == "auth.test"
    assert world.auth.requests[0].field("x-forwarded-host") == "shop.test"
    assert world.origin.requests[0].field("remote-user") == "joe"
    assert world.ask("/no").startswith(b"HTTP/1.1 403 ")
    assert len(world.auth.requests) == 1


def test_variables_of_the_script_of_haproxy(world):
    world.auth.answer = lambda received: {
        "/ok": answer(200, "X-Mail: a@b", "Remote-User: joe"), "/bad": answer(500),
        "/go": answer(302, "Location: /login")}[received.field("x-original-uri")]
    shown = "%[var(txn.auth_response_successful)],%[var(txn.auth_response_code)],%[var(txn.auth_response_location)]," \
            "%[var(req.auth_response_header.x_mail)],%[var(txn.user)]"
    world.serve("copy-hdr Remote-User keep-hdr X-Mail on-error allow",
                after="http-request set-var(txn.user) var(req.auth_response_header.remote_user)\n"
                f'    http-request set-header X-Shown "{shown}"\n'
                '    http-after-response set-header X-Location "%[var(txn.auth_response_location)]"')
    world.ask("/ok")
    world.ask("/bad")
    assert [one.field("x-shown") for one in world.origin.requests] == ["1,200,,a@b,joe", "0,500,,,"]
    assert world.origin.requests[0].field("x-mail") is None
    assert b"\r\nx-location: /login\r\n" in world.ask("/go").lower()


def test_later_rules_may_decide_about_a_refusal(world):
    world.auth.answer = lambda received: answer(*{"/ok": [200], "/401": [401], "/302": [302, "Location: /x"], "/500": [500]}[received.field("x-original-uri")])
    world.serve("continue", after="http-request redirect location /login unless { var(txn.auth_response_successful) -m bool }")
    assert [world.ask(path).split()[1] for path in ("/ok", "/401", "/302", "/500")] == [b"200", b"302", b"302", b"502"]
    assert b"\r\nlocation: /login\r\n" in world.ask("/401").lower()
    assert len(world.origin.requests) == 1


# Failures.

@pytest.mark.parametrize("made", [answer(404), answer(500), answer(304), answer(302), answer(407), answer(101),
                                  b"HTTP/9 nonsense\r\n\r\n", b"", answer(200)[:20]])
def test_an_answer_without_a_verdict_fails_closed(world, made):
    if made == b"":
        world.auth.answer = None
    elif made.endswith(b"\r\n\r\n"):
        world.auth.answer = made
    else:
        world.auth.answer = made + b"\r\nConnection: close\r\n"
    world.serve()
    assert world.ask().startswith(b"HTTP/1.1 502 ")
    assert not world.origin.requests
    assert world.info("AuthRequestsFailed") == 1


def test_a_dead_server_fails_closed(world):
    world.serve(auth=f"127.0.0.1:{free_port()}", auth_lines="retries 0")
    assert world.ask().startswith(b"HTTP/1.1 503 ")
    assert not world.origin.requests
    assert (world.info("AuthRequests"), world.info("AuthRequestsFailed")) == (1, 1)
    records = lambda: ask(world.cli, "show timeline")
    assert wait_until(lambda: "<SUBREQUEST>" in records() and "an 'auth-request' rule got no verdict" in records()), records()


@pytest.mark.parametrize("words, status", [("on-error deny", b"503"), ("on-error status 403", b"403"), ("on-error allow", b"200")])
def test_the_rule_chooses_the_result_of_an_error(world, words, status):
    world.serve(words, auth=f"127.0.0.1:{free_port()}", auth_lines="retries 0")
    assert world.ask().startswith(b"HTTP/1.1 " + status)


def test_the_timeout_of_the_rule(world):
    began = time.monotonic()
    with Server(lambda connection: time.sleep(10)) as silent:
        world.serve("timeout 300ms", auth=f"127.0.0.1:{silent.port}")
        began = time.monotonic()
        assert world.ask().startswith(b"HTTP/1.1 504 ")
        assert 0.25 < time.monotonic() - began < 3
    assert not world.origin.requests


def test_the_timeout_covers_an_answer_that_drips(world):
    def drip(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 401 No\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(100):
            connection.sendall(b"x")
            time.sleep(0.1)
    with Server(drip) as slow:
        world.serve("timeout 500ms", auth=f"127.0.0.1:{slow.port}")
        began = time.monotonic()
        assert world.ask().startswith(b"HTTP/1.1 504 ")
        assert time.monotonic() - began < 4


def test_a_verdict_does_not_wait_for_its_body(world):
    def slow(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
        time.sleep(5)
    with Server(slow) as server:
        world.serve(auth=f"127.0.0.1:{server.port}")
        began = time.monotonic()
        assert world.ask().startswith(b"HTTP/1.1 200 ")
        assert time.monotonic() - began < 3


def test_interim_answers_are_dropped(world):
    world.auth.answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answer(200, "Remote-User: joe")
    world.serve("copy-hdr Remote-User")
    head = world.ask()
    assert head.startswith(b"HTTP/1.1 200 ") and b"Link" not in head
    assert world.origin.requests[0].field("remote-user") == "joe"


def test_retries_of_the_backend(world):
    tries = []

    def fail_once(received):
        tries.append(received)
        return answer(503) if len(tries) == 1 else ALLOW
    world.auth.answer = fail_once
    world.serve(auth_lines="retry-on 503\n    retries 2")
    assert world.ask().startswith(b"HTTP/1.1 200 ")
    assert len(tries) == 2 and world.stat("auth", "BACKEND", "wretr") != "0"


def test_redispatch_to_a_living_server(world):
    world.serve(auth=f"127.0.0.1:{free_port()}", auth_lines=f"option redispatch 1\n    retries 2\n    server a2 127.0.0.1:{world.auth.port}")
    for _ in range(4):
        assert world.ask().startswith(b"HTTP/1.1 200 ")


# Loops.

def test_a_backend_that_asks_itself_through_a_frontend_ends(world):
    world.serve(auth=f"127.0.0.1:{world.port}")
    assert world.ask().startswith(b"HTTP/1.1 502 ")
    assert (world.info("AuthRequests"), world.info("AuthRequestsFailed")) == (3, 3)
    assert not world.origin.requests


def test_nested_requests_end(world):
    sections = "\n".join(f"""backend auth{at}
    http-request del-header CDN-Loop
    http-request auth-request auth{at + 1}
    server a 127.0.0.1:{world.auth.port}""" for at in range(1, 5))
    world.serve(sections=sections + f"\nbackend auth5\n    server a 127.0.0.1:{world.auth.port}", name="auth1")
    # The third one is refused, so the second one is too, and the first.
    assert world.ask().startswith(b"HTTP/1.1 50")
    assert not world.origin.requests and not world.auth.requests


def test_two_levels_are_allowed(world):
    sections = f"backend outer\n    http-request auth-request auth\n    server a 127.0.0.1:{world.auth.port}"
    world.serve(sections=sections, name="outer")
    assert world.ask().startswith(b"HTTP/1.1 200 ")
    assert len(world.auth.requests) == 2


# Aborts.

@pytest.mark.parametrize("body", [b"", b"x" * 1000])
@pytest.mark.parametrize("reset", [False, True])
def test_the_abort_of_the_client_ends_the_request(world, reset, body):
    closed = threading.Event()
    asked = threading.Event()

    def wait_for_close(connection):
        read_head(connection)
        asked.set()
        if connection.recv(1) == b"":
            closed.set()
    with Server(wait_for_close) as server:
        world.serve(auth=f"127.0.0.1:{server.port}")
        client = socket.create_connection(("127.0.0.1", world.port))
        client.sendall(get("/", f"Content-Length: {len(body)}", method="POST", body=body))
        assert asked.wait(5)
        if reset:
            end_with_reset(client)
        client.close()
        assert closed.wait(3), "the authorization server still waits"
    assert not world.origin.requests
    assert wait_until(lambda: world.stat("auth", "BACKEND", "cli_abrt") == "1")
    assert wait_until(lambda: world.stat("auth", "BACKEND", "scur") == "0")


def test_a_reset_of_http2_ends_the_request(world):
    closed, asked = threading.Event(), threading.Event()

    def wait_for_close(connection):
        read_head(connection)
        asked.set()
        if connection.recv(1) == b"":
            closed.set()
    with Server(wait_for_close) as server:
        world.serve(auth=f"127.0.0.1:{server.port}")
        client = subprocess.Popen(["curl", "-s", "--http2-prior-knowledge", f"http://127.0.0.1:{world.port2}/"])
        assert asked.wait(5)
        client.kill()
        client.wait()
        assert closed.wait(3)


# Connections.

def test_connections_to_the_server_are_reused(world):
    world.serve(extra="nbthread 1")
    for _ in range(100):
        assert world.ask().startswith(b"HTTP/1.1 200 ")
    assert len(world.auth.requests) == 100
    assert world.auth.count == 1
    assert wait_until(lambda: int(world.stat("auth", "BACKEND", "reuse")) == 99)


def test_refusals_keep_the_connection(world):
    world.auth.answer = answer(401, body=b"x" * 5000)
    world.serve(extra="nbthread 1")
    for _ in range(20):
        assert world.fetch()[0] == 401
    assert world.auth.count == 1


def test_an_idle_connection_that_the_server_closed_is_retried(world):
    def once(connection):
        read_head(connection)
        connection.sendall(ALLOW)
        read_head(connection)
    with Server(once) as server:
        world.serve(auth=f"127.0.0.1:{server.port}")
        for _ in range(10):
            assert world.ask().startswith(b"HTTP/1.1 200 ")


def test_counters_of_the_backend_only(world):
    world.serve()
    for _ in range(5):
        world.ask()
    for proxy, side, column in (("auth", "BACKEND", "stot"), ("auth", "BACKEND", "hrsp_2xx"), ("auth", "a1", "stot"), ("auth", "a1", "hrsp_2xx"),
                                ("f", "FRONTEND", "hrsp_2xx")):
        assert wait_until(lambda: world.stat(proxy, side, column) == "5"), (proxy, side, column)
    assert int(world.stat("auth", "a1", "bin")) > 500 and int(world.stat("auth", "BACKEND", "bout")) > 100
    assert "<SUBREQUEST>" not in ask(world.cli, "show stat")


def test_the_queue_of_a_server_with_maxconn(world):
    inside, most, lock = [0], [0], threading.Lock()

    def slowly(received):
        with lock:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0.02)
        with lock:
            inside[0] -= 1
        return ALLOW
    world.auth.answer = slowly
    world.serve(auth=f"127.0.0.1:{world.auth.port} maxconn 3")
    results = []
    threads = [threading.Thread(target=lambda: results.append(world.ask()[:12])) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [b"HTTP/1.1 200"] * 30 and most[0] <= 3


def test_two_hundred_at_once(world):
    gate = threading.Event()
    world.auth.answer = lambda received: gate.wait(15) and answer(200, f"Remote-User: {received.field('x-original-uri')}")
    world.serve("copy-hdr Remote-User")
    clients = [socket.create_connection(("127.0.0.1", world.port)) for _ in range(200)]
    for at, client in enumerate(clients):
        client.sendall(get(f"/{at}"))
    assert wait_until(lambda: world.auth.heads == 200, 15), world.auth.heads
    gate.set()
    for client in clients:
        client.settimeout(15)
        assert read_head(client)[0].startswith(b"HTTP/1.1 200 ")
        client.close()
    assert sorted(one.field("remote-user") for one in world.origin.requests) == sorted(f"/{at}" for at in range(200))
    assert all(one.field("remote-user") == one.path for one in world.origin.requests)


# Protocols.

def test_clients_of_http2(world):
    world.auth.answer = lambda received: answer(401, "WWW-Authenticate: Basic", body=b"no") if "no" in received.path else answer(200, "Remote-User: joe", "Set-Cookie: a=1")
    world.serve("copy-hdr Remote-User")
    curl = ["curl", "-si", "--http2-prior-knowledge", "--max-time", "10", "-H", "Remote-User: root", "-d", "body"]
    got = subprocess.run([*curl, f"http://127.0.0.1:{world.port2}/yes"], capture_output=True, timeout=15).stdout
    assert got.startswith(b"HTTP/2 200") and b"set-cookie: a=1" in got and got.endswith(b"ok"), got
    assert (world.origin.requests[0].field("remote-user"), world.origin.requests[0].body) == ("joe", b"body")
    received = world.auth.requests[0]
    assert received.field("host") == f"127.0.0.1:{world.port2}" and received.field("x-forwarded-uri") == "/yes"
    assert received.head.startswith(b"GET /yes HTTP/1.1")
    got = subprocess.run([*curl, f"http://127.0.0.1:{world.port2}/no"], capture_output=True, timeout=15).stdout
    assert got.startswith(b"HTTP/2 401") and got.endswith(b"no"), got


def test_servers_of_http2_carry_many_requests(world):
    near = free_port()
    world.auth.answer = answer(200, "Remote-User: joe")
    world.serve("copy-hdr Remote-User", auth=f"127.0.0.1:{near} proto h2",
                sections=f"listen near\n    bind 127.0.0.1:{near} proto h2\n    server o 127.0.0.1:{world.auth.port}")
    for _ in range(20):
        assert world.ask("/", "Remote-User: root").startswith(b"HTTP/1.1 200 ")
    assert {one.field("remote-user") for one in world.origin.requests} == {"joe"}
    assert int(world.stat("near", "FRONTEND", "stot")) <= 3
    assert world.stat("near", "FRONTEND", "h2req") in ("20", "0") and len(world.auth.requests) == 20


def test_servers_on_unix_sockets(world):
    path = f"{world.folder.path}/auth.sock"
    world.serve(auth=f"unix@{path}", sections=f"listen near\n    bind unix@{path} mode 666\n    server o 127.0.0.1:{world.auth.port}")
    assert world.ask().startswith(b"HTTP/1.1 200 ")
    assert len(world.auth.requests) == 1


def test_a_websocket_opens_after_2xx(world):
    world.origin.answer = lambda received: switching(received)
    world.serve()
    with socket.create_connection(("127.0.0.1", world.port), 10) as client:
        client.sendall(get("/chat", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                           "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
        assert read_head(client)[0].startswith(b"HTTP/1.1 101 ")
    head = world.auth.requests[0].head.lower()
    assert head.startswith(b"get /chat http/1.1") and b"upgrade" not in head and b"websocket" not in head


def test_a_websocket_is_refused(world):
    world.auth.answer = answer(401)
    world.serve()
    assert world.ask("/chat", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                     "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==").startswith(b"HTTP/1.1 401 ")
    assert not world.origin.requests


def test_a_connect_is_decided_by_a_plain_request(world):
    world.serve("path /verify")
    request(world.port, b"CONNECT far.test:443 HTTP/1.1\r\nHost: far.test:443\r\n\r\n")
    received = world.auth.requests[0]
    assert received.head.startswith(b"GET /verify HTTP/1.1") and received.field("x-original-method") == "CONNECT"


# Faults of the configuration.

@pytest.mark.parametrize("line, message", [
    ("auth-request aut", "unable to find the backend 'aut' of 'auth-request'"),
    ("auth-request f", "'auth-request' expects a backend, but 'f' is a frontend"),
    ("auth-request raw", "'auth-request' expects a backend in mode http, which 'raw'"),
    ("auth-request", "expects the name of a backend."),
    ("auth-request auth pth /a", "expects 'path', 'method', 'hdr', 'copy-hdr'"),
    ("auth-request auth method CONNECT", "'CONNECT' is not a method of a request without a body"),
    ("auth-request auth copy-hdr Content-Length", "'Content-Length' belongs to one connection"),
    ("auth-request auth hdr Transfer-Encoding chunked", "'Transfer-Encoding' belongs to one connection"),
    ("auth-request auth copy-hdr a,,b", "'' is not a valid header name"),
    ("auth-request auth timeout 0", "'timeout' expects a time above 0"),
    ("auth-request auth on-error maybe", "'on-error' expects 'deny', 'allow' or 'status <code>'"),
    ("auth-request auth on-error status 200", "'status' expects the code of an error"),
    ("auth-request auth body-limit 2m", "'body-limit' expects a size of at most 1m"),
    ("mirror shadw", "unable to find the backend 'shadw' of 'mirror'"),
    ("mirror auth sample 0%", "'sample' expects a percentage such as '10%'"),
    ("mirror auth body-limit 17m", "'body-limit' expects a size of at most 16m"),
    ("mirror auth del-hdr connection", "'connection' belongs to one connection"),
])
def test_faults_are_reported_with_their_place(binary, folder, line, message):
    text = (f"defaults\n    mode http\n    timeout connect 1s\n    timeout client 1s\n    timeout server 1s\nfrontend f\n    bind :1\n    http-request {line}\n"
            "    default_backend auth\nbackend auth\n    server a 127.0.0.1:1\nbackend raw\n    mode tcp\n    server a 127.0.0.1:1\n")
    done = subprocess.run([binary, "-c", "-f", folder.file("a.cfg", text)], capture_output=True, text=True, timeout=10)
    shown = done.stdout + done.stderr
    assert done.returncode == 1 and message in shown and "a.cfg:8" in shown, shown
    if "unable to find" in message and "aut'" in message:
        assert "'auth'" in shown.split(message)[1], shown


def test_a_section_cannot_ask_itself(binary, folder):
    text = ("listen l\n    mode http\n    bind :1\n    timeout connect 1s\n    timeout client 1s\n    timeout server 1s\n"
            "    http-request auth-request l\n    server a 127.0.0.1:1\n")
    done = subprocess.run([binary, "-c", "-f", folder.file("a.cfg", text)], capture_output=True, text=True, timeout=10)
    assert done.returncode == 1 and "'auth-request' of 'l' sends requests to its own section" in done.stdout + done.stderr


def test_a_listen_section_with_servers_is_a_backend(world):
    other = free_port()
    world.serve(name="both", sections=f"listen both\n    bind 127.0.0.1:{other}\n    server a 127.0.0.1:{world.auth.port}")
    assert world.ask().startswith(b"HTTP/1.1 200 ")
    assert world.stat("both", "FRONTEND", "req_tot") == "0" and world.stat("both", "BACKEND", "req_tot") == "1"


def test_explain_and_a_rule_of_defaults(binary, world):
    done = subprocess.run([binary, "explain", "http-request auth-request"], capture_output=True, text=True, timeout=10)
    assert done.returncode == 0 and "copy-hdr" in done.stdout, done.stdout + done.stderr
    world.auth.answer = answer(401)
    text = CONFIGURATION.format(cli=world.cli, port=world.port, port2=world.port2, words="", auth=f"127.0.0.1:{world.auth.port}", extra="", name="auth",
                                app=world.origin.port, before="", after="", auth_lines="", sections="")
    text = text.replace("    http-request auth-request auth \n", "").replace("defaults\n", "defaults d\n").replace(
        "    timeout server 10s\n", "    timeout server 10s\n    http-request auth-request auth if { path /in }\n", 1)
    text = text.replace("frontend f\n", "frontend f from d\n").replace("backend auth\n", "defaults e\n    mode http\n    timeout server 5s\n    timeout connect 1s\nbackend auth from e\n").replace("\nbackend app\n", "\nbackend app from e\n")
    world.start(text, world.port)
    assert world.ask("/in").startswith(b"HTTP/1.1 401 ") and world.ask("/out").startswith(b"HTTP/1.1 200 ")
