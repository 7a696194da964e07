"""Bodies of requests: of known and of unknown length, streamed and buffered, over HTTP/1 and HTTP/2."""
import contextlib
import os
import subprocess
import threading
import time

import pytest

from lib.fastcgi import BEGIN, OK, PARAMS, STDIN, STDOUT, Application, record
from lib.fcgi_world import read_answer
from lib.http2 import ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RESET, SETTINGS, WINDOW, field, frame, frames
from lib.needs import installed
from lib.program import free_port, wait_until

HEAD = b"POST /up HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"


def chunked(body, size=1000, last=b"0\r\n\r\n"):
    """A body in chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(body[at:at + size]), body[at:at + size]) for at in range(0, len(body), size)) + last


def kinds(world):
    """The kinds of all received records, of repeated ones the first."""
    found = [record.kind for record in world.application.records]
    return [kind for at, kind in enumerate(found) if at == 0 or kind != found[at - 1]]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT"])
@pytest.mark.parametrize("size", [0, 1, 5, 16000, 16384, 65535, 65536, 100_000])
def test_bodies_of_known_length(build, method, size):
    world, body = build().serve(), os.urandom(size)
    assert world.ask("/up", f"Content-Length: {size}", method=method, body=body).status == 200
    request = world.application.wait_for(1)[0]
    assert request.body == body and request.complete and request.params["CONTENT_LENGTH"] == str(size)
    # An empty record ends each stream, also that of an empty body.
    assert kinds(world) == [BEGIN, PARAMS, STDIN] and not world.application.records[-1].content


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_requests_without_a_body_end_stdin(build, method):
    world = build().serve()
    world.params("/x", method=method)
    assert world.application.last.complete and world.application.last.params["CONTENT_LENGTH"] == "0"


def test_a_body_of_a_megabyte(build):
    world, body = build().serve(), os.urandom(1_000_000)
    assert world.ask("/up", "Content-Length: 1000000", method="POST", body=body).status == 200
    assert world.application.last.body == body


def test_a_body_that_arrives_byte_by_byte(build):
    world = build().serve()
    with world.connect() as client:
        for byte in HEAD + b"Content-Length: 20\r\n\r\n" + b"b" * 20:
            client.sendall(bytes([byte]))
            time.sleep(0.001)
        assert read_answer(client).status == 200
    assert world.application.last.body == b"b" * 20


def test_a_body_larger_than_the_buffer_is_streamed(build):
    """The application sees the first part before the last is sent."""
    world, body = build().serve(), os.urandom(40_000)
    with world.connect() as client:
        client.sendall(HEAD + b"Content-Length: 40000\r\n\r\n" + body[:20_000])
        assert wait_until(lambda: any(len(request.body) > 10_000 for request in world.application.requests))
        client.sendall(body[20_000:])
        assert read_answer(client).status == 200
    assert world.application.last.body == body


@pytest.mark.parametrize("waits", ["option http-buffer-request", ""])
def test_a_slow_body_of_known_length_does_not_occupy_the_application(build, waits):
    world = build().serve(backend=waits)
    with world.connect() as client:
        client.sendall(HEAD + b"Content-Length: 10\r\n\r\nhello")
        time.sleep(0.2)
        assert not world.application.conversations
        client.sendall(b"world")
        assert read_answer(client).status == 200
    assert world.application.last.params["CONTENT_LENGTH"] == "10" and world.application.last.body == b"helloworld"


@pytest.mark.parametrize("app", ["option keep-conn", "no option keep-conn"])
@pytest.mark.parametrize("first", [20_000, 200_000])
def test_an_answer_before_the_body_is_complete(build, app, first):
    """The rest of the body is read and dropped, and the client's connection stays."""
    world = build(Application(early=True)).serve(app=app)
    with world.connect() as client:
        client.sendall(b"POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: 400000\r\n\r\n" + b"b" * first)
        answer = read_answer(client)
        assert (answer.status, answer.body) == (200, b"ok")
        client.sendall(b"b" * (400_000 - first))
        client.sendall(b"GET /next HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert read_answer(client).status == 200
    assert [(world.logged(count).status, world.logged(count).flags) for count in (1, 2)] == [(200, "----")] * 2
    assert (world.stat("b", "s", "eresp"), world.stat("b", "s", "srv_abrt")) == ("0", "0")


LARGE = 30_000_000


def upload_without_a_reader(world):
    """Uploads a large body in the background while the answer is read, then a request on the same connection. Returns the two statuses."""
    with world.connect() as client:
        sender = client.dup()
        sender.settimeout(10)

        def upload():
            with contextlib.suppress(OSError):
                sender.sendall(b"POST /up HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % LARGE + bytes(LARGE))
                sender.sendall(b"GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
        thread = threading.Thread(target=upload)
        thread.start()
        statuses = [read_answer(client).status, read_answer(client).status]
        thread.join()
        sender.close()
    return statuses


def answers_late(*steps):
    """An answer to an upload that the application does not read, after the upload filled the socket."""
    def answer(talk, request):
        if request.params["REQUEST_URI"] != "/up":
            return OK
        # The upload fills the socket meanwhile.
        time.sleep(0.5)
        for step in steps:
            step(talk, request)
        talk.close()
    return answer


def output(talk, request):
    """All output, and its end."""
    talk.stdout(request, OK)
    talk.send(record(STDOUT, request.number))


def exact(talk, request):
    """All output. Its length says that it is complete."""
    talk.stdout(request, b"Content-Length: 2\r\n\r\nok")


def resets(talk, request):
    """Resets the connection."""
    talk.reset()


def pause(talk, request):
    """Lets the program see each step by itself."""
    time.sleep(0.2)


def ends(talk, request):
    """END_REQUEST."""
    talk.end(request)


def unread(talk, request):
    """Keeps the connection open, and reads nothing from it."""
    time.sleep(2)


def established(port):
    """How many connections to a local port have an open sender."""
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table][1:]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


@pytest.mark.parametrize("app", ["option keep-conn", "option mpxs-conns\n    option max-reqs 10"])
@pytest.mark.parametrize("steps", [
    pytest.param((output, ends, unread), id="end_request"), pytest.param((output, pause, ends, unread), id="a_late_end_request"),
    pytest.param((output, ends), id="end_request_and_a_close")])
def test_an_answer_to_an_upload_that_filled_the_socket(build, app, steps):
    """Nothing waits for the application to read on."""
    world = build(Application(answers_late(*steps), early=True)).serve(app=app, server_timeout="3s")
    if world.differs("upload not read"):
        return
    assert upload_without_a_reader(world) == [200, 200]
    assert [(world.logged(count).status, world.logged(count).flags) for count in (1, 2)] == [(200, "----")] * 2
    assert [world.stat("b", "s", column) for column in ("eresp", "srv_abrt", "cli_abrt")] == ["0"] * 3
    # The connection of the upload carries no other request, and is closed. That of the next one may be kept.
    assert [request.connection for request in world.application.requests] == [1, 2]
    assert wait_until(lambda: established(world.application.port) < 2, 1)


@pytest.mark.parametrize("app", ["option keep-conn", "option mpxs-conns\n    option max-reqs 10"])
@pytest.mark.parametrize("steps", [
    pytest.param((output,), id="the_end_of_output"), pytest.param((output, pause), id="the_end_of_output_and_a_late_close"),
    pytest.param((exact,), id="the_length"), pytest.param((exact, pause), id="the_length_and_a_late_close"),
    pytest.param((exact, pause, resets), id="the_length_and_a_reset")])
def test_an_application_answers_an_upload_and_closes_without_end_request(build, app, steps):
    """The response is complete, and the client's connection goes on after the rest of its upload."""
    world = build(Application(answers_late(*steps), early=True)).serve(app=app, server_timeout="3s")
    if world.differs("upload not read"):
        # It has the same result most of the time.
        return
    assert upload_without_a_reader(world) == [200, 200]
    assert [world.logged(count).flags for count in (1, 2)] == ["SL--", "----"]
    assert (world.stat("b", "s", "eresp"), world.stat("b", "s", "srv_abrt")) == ("1", "1")
    assert [request.connection for request in world.application.requests] == [1, 2]


# Unknown lengths.

@pytest.mark.parametrize("size", [0, 1, 1000, 14000])
def test_bodies_of_unknown_length_are_buffered_for_their_length(build, size):
    world, body = build().serve(), os.urandom(size)
    assert world.ask("/up", "Transfer-Encoding: chunked", method="POST", body=chunked(body)).status == 200
    request = world.application.last
    assert (request.params["CONTENT_LENGTH"], request.body) == (str(size), body)
    assert "HTTP_TRANSFER_ENCODING" not in request.params


def test_a_slow_body_of_unknown_length_does_not_occupy_the_application(build):
    world = build().serve()
    with world.connect() as client:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")
        time.sleep(0.2)
        assert not world.application.conversations
        client.sendall(b"5\r\nworld\r\n0\r\n\r\n")
        assert read_answer(client).status == 200
    assert world.application.last.params["CONTENT_LENGTH"] == "10" and world.application.last.body == b"helloworld"


@pytest.mark.parametrize("framing", [b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", b"Content-Length: 100\r\n\r\nhello"])
def test_many_slow_bodies_leave_the_application_free(build, framing):
    world = build().serve(global_lines="maxconn 2000")
    clients = [world.connect() for _ in range(300)]
    for client in clients:
        client.sendall(HEAD + framing)
    assert world.params("/x")["REQUEST_URI"] == "/x"
    assert len(world.application.conversations) == 1
    for client in clients:
        client.close()


@pytest.mark.parametrize("size", [17000, 20000, 100_000])
def test_bodies_of_unknown_length_above_the_bound_are_refused(build, size):
    world = build().serve()
    with world.connect() as client:
        client.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"b" * size)[:18000])
        answer = read_answer(client)
    # HAProxy sometimes closes before its answer is out.
    assert answer.status in world.want({411}, {400, 0}, "length required")
    assert world.logged().status == world.want(411, 400, "length required")
    # Nothing reaches the application, not even a request that it would have to give up.
    assert not any(request.items for request in world.application.requests)
    assert world.params("/next")["REQUEST_URI"] == "/next"


def test_the_bound_is_the_size_of_a_buffer(build):
    world = build().serve(global_lines="tune.bufsize 65536")
    assert world.ask("/up", "Transfer-Encoding: chunked", method="POST", body=chunked(b"b" * 50000, 5000)).status == 200
    assert world.application.last.params["CONTENT_LENGTH"] == "50000"


def test_trailers_of_a_request_are_dropped(build):
    world = build().serve()
    body = chunked(b"hello", last=b"0\r\nX-Trailer: t\r\n\r\n")
    assert world.ask("/up", "Transfer-Encoding: chunked", method="POST", body=body).status == 200
    assert world.application.last.body == b"hello" and "HTTP_X_TRAILER" not in world.application.last.params


def test_an_invalid_chunk_reaches_no_application(build):
    world = build().serve()
    assert world.ask("/up", "Transfer-Encoding: chunked", method="POST", body=b"5\r\nhello\r\nzz\r\n").status == 400
    assert not any(request.complete for request in world.application.requests)


# Expect.

def test_expect_100_continue(build):
    world = build().serve()
    with world.connect() as client:
        client.sendall(HEAD + b"Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")
        client.settimeout(5)
        assert client.recv(1000).startswith(b"HTTP/1.1 100 ")
        client.sendall(b"hello")
        assert read_answer(client).status == 200
    assert world.application.last.body == b"hello" and "HTTP_EXPECT" not in world.application.last.params


def moments(world):
    """The milliseconds of the last stream of `show timeline`, by their text."""
    lines = world.command("show timeline").strip().splitlines()
    found = [line.split(None, 1) for line in lines if line.startswith("  ") and line.split()[0].startswith("+")]
    return {text: int(at[1:]) for at, text in found}


def test_show_timeline_has_the_wait_for_a_body(build):
    world = build(Application(b"Status: 500\r\n\r\n")).serve()
    if world.haproxy:
        return
    with world.connect() as client:
        client.sendall(HEAD + b"Content-Length: 5\r\n\r\nhe")
        time.sleep(0.3)
        client.sendall(b"llo")
        assert read_answer(client).status == 500
    assert wait_until(lambda: moments(world))
    seen = moments(world)
    awaited, complete = (next(at for text, at in seen.items() if text.startswith(f"request {begin}")) for begin in ("head complete, its", "complete: "))
    assert awaited < 200 and 250 <= complete - awaited < 2000 and seen["assigned to server s by random"] >= complete, seen


def test_show_timeline_has_the_wait_for_a_body_that_does_not_come(build):
    world = build().serve(frontend="timeout http-request 300ms")
    if world.haproxy:
        return
    with world.connect() as client:
        client.sendall(HEAD + b"Content-Length: 5\r\n\r\nhe")
        assert read_answer(client).status == 408
    assert wait_until(lambda: moments(world))
    seen = moments(world)
    assert seen["request head complete, its body is awaited"] < 200 and not any(text.startswith("request complete") for text in seen)
    assert any(text.startswith("end: the client sent no complete request body in time") for text in seen), seen


# HTTP/2.

def curl(world, port, *arguments, data=b""):
    """The status of a request of curl over HTTP/2 without TLS."""
    command = [installed("curl"), "-s", "-m", "10", "--http2-prior-knowledge", "-w", "%{http_code} %{http_version}", "-o", "/dev/null", *arguments,
               f"http://127.0.0.1:{port}/up"]
    return subprocess.run(command, input=data, capture_output=True, timeout=20).stdout.decode()


def serve_http2(build):
    """A world, and the port of its listener for HTTP/2."""
    world, port = build(), free_port()
    world.serve(frontend=f"bind 127.0.0.1:{port} proto h2")
    return world, port


@pytest.mark.parametrize("size", [0, 5, 100_000])
def test_http2_with_a_length(build, size):
    world, port = serve_http2(build)
    path = world.folder.file("body", "b" * size)
    assert curl(world, port, "-X", "POST", "--data-binary", f"@{path}") == "200 2"
    request = world.application.last
    assert request.body == b"b" * size and request.params["CONTENT_LENGTH"] == str(size) and request.complete
    assert request.params["SERVER_PROTOCOL"] == "HTTP/2.0" and request.params["SERVER_NAME"] == f"127.0.0.1:{port}"


@pytest.mark.parametrize("size", [0, 5, 10_000])
def test_http2_without_a_length(build, size):
    world, port = serve_http2(build)
    assert curl(world, port, "-T", "-", data=b"b" * size) == "200 2"
    assert world.application.last.body == b"b" * size and world.application.last.params["CONTENT_LENGTH"] == str(size)


def test_http2_without_a_length_above_the_bound(build):
    """The answer comes before the stream is reset. curl 7.88 looks at the reset first, so the client is our own."""
    world, port = serve_http2(build)
    with world.connect(port=port) as client:
        block = b"".join(field(name, value) for name, value in ((":method", "POST"), (":scheme", "http"), (":path", "/up"), (":authority", "x")))
        client.sendall(PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, block) + frame(DATA, 0, 1, b"b" * 16000) + frame(DATA, 0, 1, b"b" * 16000))
        seen = []
        for kind, _, stream, _ in frames(client, 2):
            if stream == 1 and kind in (HEADERS, DATA, RESET):
                seen.append(kind)
            if kind == RESET or kind == GOAWAY:
                break
    assert world.logged().status == world.want(411, 400, "length required")
    assert seen[0] == HEADERS
    assert not any(request.items for request in world.application.requests)


def test_http2_without_a_body(build):
    world, port = serve_http2(build)
    assert curl(world, port) == "200 2" and curl(world, port, "-X", "POST") == "200 2"
    assert [request.complete for request in world.application.requests] == [True, True]
    assert world.application.requests[0].params["HTTP_HOST"] == f"127.0.0.1:{port}"


def test_http2_streams_at_the_same_time(build):
    def answer(talk, request):
        time.sleep(0.1)
        return b"\r\n" + request.params["QUERY_STRING"].encode()
    world, port = build(Application(answer, concurrent=True)), free_port()
    world.serve(frontend=f"bind 127.0.0.1:{port} proto h2", backend="http-reuse always", app="option mpxs-conns\n    option max-reqs 5")
    with world.connect(port=port) as client:
        client.sendall(PREFACE + frame(SETTINGS))
        for stream in range(1, 60, 2):
            block = b"".join(field(name, value) for name, value in ((":method", "GET"), (":scheme", "http"), (":path", f"/x?{stream}"),
                                                                     (":authority", "x")))
            client.sendall(frame(HEADERS, END_STREAM | END_HEADERS, stream, block))
        bodies, ended = {}, set()
        for kind, flags, stream, payload in frames(client):
            if kind == DATA:
                bodies[stream] = bodies.get(stream, b"") + payload
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                ended.add(stream)
            if len(ended) == 30:
                break
    assert bodies == {stream: str(stream).encode() for stream in range(1, 60, 2)}
    assert len(world.application.conversations) < 30


def test_an_application_answers_an_http2_upload_and_closes_without_end_request(build):
    """The stream ends with its response, then a reset says that the rest is not needed (RFC 9113, 8.1). Other streams go on."""
    world, port = build(Application(answers_late(exact, pause), early=True)), free_port()
    world.serve(frontend=f"bind 127.0.0.1:{port} proto h2", server_timeout="3s")
    with world.connect(port=port) as client:
        seen = Http2Upload(client, LARGE).run()
    assert seen[:3] == [(HEADERS, 1, False), (DATA, 1, True), (RESET, 1, 0)] and seen[-1] == (DATA, 3, True)
    assert world.logged(1).flags == "SL--" and world.logged(2).flags == "----"
    assert (world.stat("b", "s", "eresp"), world.stat("b", "s", "srv_abrt")) == ("1", "1")


class Http2Upload:
    """A client that uploads on stream 1 while its windows last, and sends a request on stream 3 once stream 1 is over."""

    def __init__(self, client, size):
        self.client, self.left, self.windows, self.seen, self.over = client, size, {0: 65535, 1: 65535}, [], False

    def run(self):
        """The frames that arrive up to the end of stream 3: kind, stream, and whether it ends the stream or the error code."""
        self.client.sendall(PREFACE + frame(SETTINGS) + frame(HEADERS, END_HEADERS, 1, self.head("POST", "/up")))
        for kind, flags, stream, payload in frames(self.client, 10):
            self.see(kind, flags, stream, payload)
            if self.seen and self.seen[-1] == (DATA, 3, True):
                break
            self.upload()
        return self.seen

    def head(self, method, path):
        fields = [(":method", method), (":scheme", "http"), (":path", path), (":authority", "x")]
        fields += [("content-length", str(self.left))] if method == "POST" else []
        return b"".join(field(name, value) for name, value in fields)

    def see(self, kind, flags, stream, payload):
        number = int.from_bytes(payload[:4], "big")
        if kind == WINDOW:
            self.windows[stream] = self.windows.get(stream, 0) + number
        elif kind == SETTINGS and not flags & ACK:
            sizes = [payload[at:at + 6] for at in range(0, len(payload), 6)]
            self.windows[1] += sum(int.from_bytes(size[2:], "big") - 65535 for size in sizes if size[:2] == b"\0\4")
        elif kind in (HEADERS, DATA):
            self.seen.append((kind, stream, bool(flags & END_STREAM)))
        elif kind == RESET and not self.over:
            self.over = True
            self.seen.append((kind, stream, number))
            self.client.sendall(frame(HEADERS, END_STREAM | END_HEADERS, 3, self.head("GET", "/next")))

    def upload(self):
        while not self.over and (size := min(16384, self.left, *self.windows.values())) > 0:
            self.left -= size
            self.windows = {stream: window - size for stream, window in self.windows.items()}
            self.client.sendall(frame(DATA, 0 if self.left else END_STREAM, 1, bytes(size)))


# Applications that do not read.

def test_an_application_that_never_reads_a_body_but_answers(build):
    def script(talk):
        talk.reply(talk.next_request(head=True), OK)
        time.sleep(2)
    world = build(Application(script=script)).serve()
    with world.connect() as client:
        client.sendall(HEAD + b"Content-Length: 20000000\r\n\r\n")

        def upload():
            # The program may close once it has answered.
            with contextlib.suppress(OSError):
                client.sendall(b"b" * 20_000_000)
        sender = threading.Thread(target=upload)
        sender.start()
        assert read_answer(client).status == 200
    sender.join(10)


def test_an_application_that_never_reads_times_out(build):
    def script(talk):
        talk.next_request(head=True)
        time.sleep(5)
    world = build(Application(script=script)).serve(server_timeout="300ms")
    with world.connect() as client:
        client.sendall(HEAD + b"Content-Length: 100000\r\n\r\n" + b"b" * 100_000)
        assert read_answer(client).status in (502, 504)


def test_the_memory_of_a_stalled_upload_is_bounded(build):
    def script(talk):
        talk.next_request(head=True)
        time.sleep(5)
    world = build(Application(script=script)).serve(server_timeout="10s")
    before = world.program.resident_kb()
    with world.connect() as client:
        client.sendall(HEAD + b"Content-Length: 100000000\r\n\r\n")
        client.settimeout(1)
        sent = 0
        try:
            while sent < 50_000_000:
                sent += client.send(b"b" * 65536)
        except TimeoutError:
            pass
        assert sent < 50_000_000 and world.program.resident_kb() - before < 8000
