"""`http-request mirror`: a copy of the request goes to a second backend. The answer is dropped, and nothing waits for it."""
import random
import re
import socket
import subprocess
import threading
import time

import pytest

from lib.origin import Origin, Server, read_head
from lib.program import ask, free_port, request, wait_until

CONFIGURATION = """
global
    stats socket {cli} level admin
    log 127.0.0.1:{log} local0
    {extra}
defaults
    mode http
    option dontlognull
    timeout connect 2s
    timeout client 20s
    timeout server 10s
frontend f
    bind 127.0.0.1:{port}
    bind 127.0.0.1:{port2} proto h2
    log global
    log-format "line %ST %b %HU"
    stick-table type ip size 100 store http_req_cnt
    http-request track-sc0 src
    {before}
    http-request mirror shadow {words}
    default_backend app
backend shadow
    {shadow_lines}
    server m1 {shadow}
backend app
    {app_lines}
    server s1 127.0.0.1:{app}
{sections}
"""


def get(path="/", *fields, method="GET", body=b""):
    """The bytes of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: shop.test", *fields]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def post(body, path="/", *fields):
    """The bytes of a request with a body of known length."""
    return get(path, f"Content-Length: {len(body)}", *fields, method="POST", body=body)


def chunked(body, size, path="/"):
    """The bytes of a request with a body in chunks of this size."""
    pieces = [body[at:at + size] for at in range(0, len(body), size)]
    coded = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nX-Trailer: 1\r\n\r\n"
    return get(path, "Transfer-Encoding: chunked", method="POST", body=coded)


class World:
    """weir between a client, a server of mirrored requests and an origin."""

    def __init__(self, start, folder, origin, shadow, log):
        self.start, self.folder, self.origin, self.shadow, self.log = start, folder, origin, shadow, log
        self.port, self.port2 = free_port(), free_port()
        self.cli = f"{folder.path}/cli"

    def serve(self, words="", **places):
        """Starts weir with these arguments of the rule."""
        values = dict(cli=self.cli, port=self.port, port2=self.port2, words=words, shadow=f"127.0.0.1:{self.shadow.port}", log=self.log.port,
                      app=self.origin.port, extra="", before="", shadow_lines="", app_lines="", sections="")
        values.update(places)
        self.program = self.start(CONFIGURATION.format(**values), self.port)
        return self

    def info(self, name):
        """A line of `show info`."""
        return int(re.search(rf"^{name}: (\d+)", ask(self.cli, "show info"), re.M)[1])

    def stat(self, proxy, server, column):
        """A column of `show stat`."""
        lines = ask(self.cli, "show stat").splitlines()
        names = lines[0].lstrip("# ").split(",")
        row = next(line.split(",") for line in lines if line.startswith(f"{proxy},{server},"))
        return row[names.index(column)]

    def mirrored(self, count):
        """The mirrored requests, once there are this many."""
        assert wait_until(lambda: len(self.shadow.requests) >= count), len(self.shadow.requests)
        assert len(self.shadow.requests) == count
        return self.shadow.requests


@pytest.fixture
def world(start, folder, origin, log):
    with Origin() as shadow:
        yield World(start, folder, origin, shadow, log)


def some(size):
    """Random bytes."""
    return random.Random(size).randbytes(size)


def test_a_request_without_a_body_is_copied(world):
    world.serve()
    assert request(world.port, get("/a?b", "X-A: 1", "Cookie: c=1", "Authorization: Basic x", "Connection: X-Hop", "X-Hop: 1", "TE: trailers")
                   ).startswith(b"HTTP/1.1 200 ")
    received, = world.mirrored(1)
    assert received.head.startswith(b"GET /a?b HTTP/1.1\r\n")
    assert [received.field(name) for name in ("host", "x-a", "cookie", "authorization")] == ["shop.test", "1", "c=1", "Basic x"]
    assert received.field("x-hop") is None and received.field("te") is None
    assert (world.info("Mirrors"), world.info("MirrorsDropped")) == (1, 0)


@pytest.mark.parametrize("size", [0, 1, 1000, 16384, 65535, 65536])
@pytest.mark.parametrize("way", ["length", "chunked", "h2"])
def test_a_body_is_copied_byte_for_byte(world, size, way):
    body = some(size)
    world.serve()
    if way == "h2":
        with open(world.folder.file("body"), "wb") as file:
            file.write(body)
        got = subprocess.run(["curl", "-s", "--http2-prior-knowledge", "--data-binary", f"@{file.name}", "--max-time", "10",
                              f"http://127.0.0.1:{world.port2}/"], capture_output=True, timeout=15).stdout
        assert got == b"ok"
    else:
        assert request(world.port, post(body) if way == "length" else chunked(body, 1000)).startswith(b"HTTP/1.1 200 ")
    received, = world.mirrored(1)
    assert received.method == "POST" and received.body == body
    if size:
        assert received.field("content-length") == str(size) and received.field("transfer-encoding") is None


def test_a_slow_body_is_copied_at_its_end(world):
    world.serve()
    with socket.create_connection(("127.0.0.1", world.port), 10) as client:
        client.sendall(get(method="POST", *["/", "Content-Length: 10"], body=b"01234"))
        assert wait_until(lambda: world.origin.heads == 1)
        assert world.shadow.heads == 0
        client.sendall(b"56789")
        assert read_head(client)[0].startswith(b"HTTP/1.1 200 ")
    received, = world.mirrored(1)
    assert received.body == b"0123456789"


@pytest.mark.parametrize("way", ["length", "chunked"])
def test_a_body_above_the_limit_is_not_mirrored(world, way):
    world.serve("body-limit 1000")
    make = post if way == "length" else lambda body: chunked(body, 100)
    assert request(world.port, make(some(1001))).startswith(b"HTTP/1.1 200 ")
    assert request(world.port, make(some(1000))).startswith(b"HTTP/1.1 200 ")
    received, = world.mirrored(1)
    assert received.body == some(1000)
    assert (world.info("Mirrors"), world.info("MirrorsDropped")) == (1, 1)
    assert [len(one.body) >= 1000 for one in world.origin.requests] == [True, True]


def test_a_request_that_the_client_gave_up_is_not_mirrored(world):
    world.serve()
    with socket.create_connection(("127.0.0.1", world.port), 10) as client:
        client.sendall(get("/", "Content-Length: 10", method="POST", body=b"01234"))
        assert wait_until(lambda: world.origin.heads == 1)
    request(world.port, get("/after"))
    received, = world.mirrored(1)
    assert received.path == "/after"


def test_fields_are_removed_and_replaced(world):
    world.serve("del-hdr Authorization,Cookie hdr X-Shadow %[src] hdr Host shadow.test")
    request(world.port, get("/", "Cookie: c=1", "Authorization: Basic x", "X-Shadow: forged", "X-Keep: 1"))
    received, = world.mirrored(1)
    assert [received.field(name) for name in ("cookie", "authorization", "x-shadow", "host", "x-keep")] == [
        None, None, "127.0.0.1", "shadow.test", "1"]
    assert world.origin.requests[0].field("cookie") == "c=1"


@pytest.mark.alone
@pytest.mark.parametrize("kind", ["dead", "hanging", "full"])
def test_a_mirror_delays_nothing(world, kind):
    with Server(lambda connection: time.sleep(20)) as hanging:
        places = {"dead": dict(shadow=f"127.0.0.1:{free_port()}"), "hanging": dict(shadow=f"127.0.0.1:{hanging.port}"),
                  "full": dict(shadow=f"127.0.0.1:{hanging.port} maxconn 1 maxqueue 1")}[kind]
        world.serve(**places)
        times = []
        with socket.create_connection(("127.0.0.1", world.port), 10) as client:
            for at in range(200):
                began = time.monotonic()
                client.sendall(post(b"x" * 1000) if at % 2 else get())
                head, held = read_head(client)
                while len(held) < 2:
                    held += client.recv(10)
                times.append(time.monotonic() - began)
        # A wait for the mirror would take 2 s (the connection, the queue) or 10 s (the answer).
        assert max(times) < 1.5 and sorted(times)[100] < 0.1, (max(times), sorted(times)[100])
        assert len(world.origin.requests) == 200
        assert world.info("Mirrors") == 200


def test_mirrors_in_progress_are_bounded(world):
    with Server(lambda connection: time.sleep(20)) as hanging:
        world.serve("timeout 20s", shadow=f"127.0.0.1:{hanging.port} maxconn 1", extra="nbthread 1")
        with socket.create_connection(("127.0.0.1", world.port), 10) as client:
            held = b""
            for start in range(0, 1100, 50):
                client.sendall(get() * 50)
                while held.count(b"ok") < start + 50:
                    held += client.recv(65536)
        assert (world.info("Mirrors"), world.info("MirrorsDropped")) == (1024, 76)


def test_the_timeout_ends_a_mirror(world):
    ended = threading.Event()

    def serve(connection):
        read_head(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nx")
        if connection.recv(1) == b"":
            ended.set()
    with Server(serve) as hanging:
        world.serve("timeout 300ms", shadow=f"127.0.0.1:{hanging.port}")
        request(world.port)
        assert ended.wait(3)


def test_connections_are_reused_and_answers_dropped(world):
    world.shadow.answer = b"HTTP/1.1 500 No\r\nContent-Length: 100000\r\nSet-Cookie: a=1\r\n\r\n" + b"x" * 100000
    world.serve(extra="nbthread 1")
    for at in range(20):
        head = request(world.port)
        assert head.startswith(b"HTTP/1.1 200 ") and b"Cookie" not in head
        world.mirrored(at + 1)
        assert wait_until(lambda: world.stat("shadow", "BACKEND", "scur") == "0")
    assert world.shadow.count <= 2, world.shadow.count


def test_only_the_client_counts_and_is_logged(world):
    world.serve()
    for _ in range(5):
        request(world.port)
    world.mirrored(5)
    for proxy, side, column in (("f", "FRONTEND", "hrsp_2xx"), ("shadow", "BACKEND", "hrsp_2xx"), ("shadow", "BACKEND", "req_tot")):
        assert wait_until(lambda: world.stat(proxy, side, column) == "5"), (proxy, column, world.stat(proxy, side, column))
    assert "http_req_cnt=5" in ask(world.cli, "show table f")
    world.log.wait_for("line 200 app /")
    assert wait_until(lambda: len(world.log.lines) >= 5)
    time.sleep(0.1)
    assert len([line for line in world.log.lines if "line" in str(line)]) == 5
    assert not any("shadow" in str(line) for line in world.log.lines)


def test_failures_do_not_fill_the_timeline(world):
    world.serve(shadow=f"127.0.0.1:{free_port()}", shadow_lines="retries 0")
    for _ in range(3):
        request(world.port)
    assert wait_until(lambda: world.stat("shadow", "BACKEND", "econ") == "3")
    assert "SUBREQUEST" not in ask(world.cli, "show timeline")


def test_a_mirror_that_comes_back_ends(world):
    world.serve(shadow=f"127.0.0.1:{world.port}")
    request(world.port)
    assert wait_until(lambda: len(world.origin.requests) == 3)
    assert (world.info("Mirrors"), world.info("MirrorsDropped")) == (2, 1)


def test_a_share_of_the_requests(world):
    world.serve("sample 1/4")
    with socket.create_connection(("127.0.0.1", world.port), 10) as client:
        held = b""
        for start in range(0, 2000, 50):
            client.sendall(get() * 50)
            while held.count(b"\r\n\r\nok") < start + 50:
                held += client.recv(65536)
    assert 380 < world.info("Mirrors") < 620


def test_a_retry_of_the_request_mirrors_once(world):
    tries = []

    def fail_once(received):
        tries.append(received.body)
        return b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n" if len(tries) == 1 else b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    world.origin.answer = fail_once
    world.serve(app_lines="retry-on 503\n    retries 2")
    assert request(world.port, post(b"body")).startswith(b"HTTP/1.1 200 ")
    assert tries == [b"body", b"body"]
    received, = world.mirrored(1)
    assert received.body == b"body"


def test_tunnels_are_not_mirrored(world):
    world.serve()
    request(world.port, get("/chat", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="))
    request(world.port, get("/after", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"))
    received, = world.mirrored(1)
    assert received.path == "/after" and b"upgrade" not in received.head.lower() and b"settings" not in received.head.lower()


def test_a_mirror_goes_on_when_the_client_leaves(world):
    slow = threading.Event()
    world.shadow.answer = lambda received: slow.wait(5) and b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    world.serve()
    request(world.port)
    world.mirrored(1)
    slow.set()
    assert wait_until(lambda: world.stat("shadow", "BACKEND", "hrsp_2xx") == "1")


def test_filters_of_the_second_backend_see_the_body(world):
    world.serve(shadow_lines="filter bwlim-in slow limit 1m key src table t min-size 100\n    http-request set-bandwidth-limit slow",
                sections="backend t\n    stick-table type ip size 10 expire 1m store bytes_in_rate(1s)")
    body = some(50000)
    assert request(world.port, post(body)).startswith(b"HTTP/1.1 200 ")
    received, = world.mirrored(1)
    assert received.body == body


def test_mirrors_to_servers_of_http2(world):
    near = free_port()
    world.serve(shadow=f"127.0.0.1:{near} proto h2", sections=f"listen near\n    bind 127.0.0.1:{near} proto h2\n    server o 127.0.0.1:{world.shadow.port}")
    body = some(50000)
    for _ in range(3):
        assert request(world.port, post(body)).startswith(b"HTTP/1.1 200 ")
    assert [one.body == body for one in world.mirrored(3)] == [True] * 3
