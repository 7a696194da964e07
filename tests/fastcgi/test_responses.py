"""Responses: `Status`, fields, bodies, and bytes that are not a CGI response (RFC 3875, 6)."""
import time

import pytest

from lib.fastcgi import STDOUT, Application, end, record
from lib.fcgi_world import read_answer

TYPE = b"Content-Type: a/b\r\n"


def respond(build, stdout, method="GET", **places):
    """The world and the [`Answer`] for an application with this STDOUT."""
    world = build(Application(stdout)).serve(**places)
    return world, world.ask("/x", method=method)


def accepted(world, answer, status, body=None):
    """The response was valid."""
    assert (answer.status, answer.complete) == (status, True), answer.raw
    assert body is None or answer.body == body
    logged = world.logged()
    assert (logged.server, logged.status, logged.flags) == ("b/s", status, "----")


def refused(world, answer):
    """The response was invalid: the server is to blame."""
    assert (answer.status, answer.complete) == (502, True), answer.raw
    logged = world.logged()
    assert (logged.server, logged.status, logged.flags) == ("b/s", 502, "PH--")
    assert int(world.stat("b", "s", "eresp")) >= 1


# Status.

@pytest.mark.parametrize("status", [200, 201, 202, 203, 205, 206, 299, 300, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410, 416, 418, 421, 429,
                                    451, 499, 500, 501, 502, 503, 504, 511, 599, 600, 999])
def test_status(build, status):
    world, answer = respond(build, b"Status: %d Some Reason\r\n%s\r\nbody" % (status, TYPE))
    accepted(world, answer, status, b"body")
    assert answer.raw.startswith(b"HTTP/1.1 %d Some Reason\r\n" % status)
    assert answer.field("status") is None and answer.field("content-type") == "a/b"


@pytest.mark.parametrize("value, line", [(b"404", b"404 Not Found"), (b"404 ", b"404 Not Found"), (b"  404  Not  Here ", b"404 Not  Here"),
                                         (b"200 OK", b"200 OK"), (b"499", b"499 ")])
def test_status_with_and_without_a_reason(build, value, line):
    world, answer = respond(build, b"Status: %s\r\n\r\nbody" % value)
    accepted(world, answer, int(line[:3]), b"body")
    assert answer.raw.startswith(b"HTTP/1.1 " + line)


@pytest.mark.parametrize("name", [b"Status", b"status", b"STATUS"])
def test_status_in_any_case(build, name):
    accepted(*respond(build, name + b": 404\r\n\r\n"), 404)


def test_status_after_other_fields(build):
    accepted(*respond(build, b"X: y\r\nStatus: 404\r\n\r\n"), 404)


def test_without_status(build):
    accepted(*respond(build, TYPE + b"\r\nbody"), 200, b"body")


def test_without_fields(build):
    accepted(*respond(build, b"\r\nbody"), 200, b"body")


@pytest.mark.parametrize("value", [b"http://a.test/", b"/local"])
def test_location_without_status_redirects(build, value):
    world, answer = respond(build, b"Location: " + value + b"\r\n\r\n")
    accepted(world, answer, 302)
    assert answer.field("location") == value.decode()


def test_location_with_status(build):
    accepted(*respond(build, b"Status: 201\r\nLocation: /l\r\n\r\n"), 201)


@pytest.mark.parametrize("value, haproxy", [(b"99", b"99 Other"), (b"2000", b"2000 Other"), (b"abc", b"abc"), (b"-1", b"-1 Other"), (b"2 0", b"2 0"),
                                            (b"0", b"200 OK"), (b"", b"200 OK"), (b"20", b"20 Other")])
def test_invalid_status(build, value, haproxy):
    world = build(Application(b"Status: " + value + b"\r\n\r\nbody")).serve()
    with world.connect() as client:
        client.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        client.settimeout(5)
        raw = client.recv(65536)
    assert raw.startswith(b"HTTP/1.1 " + world.want(b"502 ", haproxy, "status"))


@pytest.mark.parametrize("status", [100, 101, 102, 103, 199])
def test_interim_status_is_refused(build, status):
    refused(*respond(build, b"Status: %d\r\nLink: a\r\n\r\nStatus: 200\r\n\r\nbody" % status))


@pytest.mark.parametrize("stdout", [b"HTTP/1.1 404 Gone away\r\nContent-Length: 2\r\n\r\nab", b"HTTP/1.0 200 OK\r\nX: y\r\n\r\nab",
                                    b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nX: y\r\n\r\nab"])
def test_a_status_line_is_refused(build, stdout):
    """Applications of FastCGI are not non-parsed-header scripts."""
    refused(*respond(build, stdout))


# Heads.

@pytest.mark.parametrize("stdout", [b"Status: 404\nX: y\n\nbody", b"Status: 404\r\nX: y\n\r\nbody", b"Status: 404\nX: y\r\n\nbody"])
def test_line_feeds_alone_end_lines(build, stdout):
    world, answer = respond(build, stdout)
    accepted(world, answer, 404, b"body")
    assert answer.field("x") == "y"


@pytest.mark.parametrize("stdout", [b"garbage\r\n\r\nbody", b": b\r\n\r\nbody", b"X: a\rb\r\n\r\nbody", b"X y\r\n\r\nbody",
                                    b"\0\r\n\r\n", b"<html>\n\n"])
def test_invalid_heads_are_refused(build, stdout):
    refused(*respond(build, stdout))


@pytest.mark.parametrize("line", [b"X(y: a", b"X : a", b" X: a"])
def test_fields_with_invalid_names_are_not_forwarded(build, line):
    _, answer = respond(build, line + b"\r\nZ: z\r\n\r\nbody")
    assert answer.status == 502 or not any(name.strip().startswith("x") for name, _ in answer.fields)


def test_a_nul_in_a_field_is_refused(build):
    world, answer = respond(build, b"X: a\0b\r\n\r\nbody")
    assert answer.status == world.want(502, 200, "control characters")


@pytest.mark.parametrize("head", [b"Status: 404 No\r\nX: y\r\n", b"Status: 404 No\nX: y\n"])
def test_a_head_cut_at_each_byte(build, head):
    stdout = head + b"\r\nbody"

    def answer(talk, request):
        cut = int(request.params["REQUEST_URI"].strip("/"))
        talk.stdout(request, stdout[:cut])
        time.sleep(0.003)
        return stdout[cut:]
    world = build(Application(answer)).serve()
    for cut in range(1, len(stdout)):
        answer = world.ask(f"/{cut}")
        assert (answer.status, answer.field("x"), answer.body) == (404, "y", b"body"), cut


@pytest.mark.parametrize("stdout", [TYPE, b"garbage", b"Status: 200\r", b"S"])
def test_a_head_without_an_end_is_refused(build, stdout):
    world = build(Application(stdout)).serve(server_timeout="500ms")
    answer = world.ask("/x")
    assert answer.status == world.want(502, 504, "unfinished head")
    assert world.logged().flags in world.want({"SH--", "PH--"}, {"sH--"}, "unfinished head")


def test_a_response_without_stdout_is_refused(build):
    world, answer = respond(build, b"")
    assert answer.status == 502 and world.logged().flags == "SH--"


@pytest.mark.parametrize("size, status", [(100, 200), (10_000, 200), (15_000, 200), (20_000, 502), (100_000, 502)])
def test_heads_of_many_bytes(build, size, status):
    world, answer = respond(build, b"X: " + b"a" * size + b"\r\n\r\nbody")
    if status == 502:
        refused(world, answer)
    else:
        accepted(world, answer, 200, b"body")
        assert answer.field("x") == "a" * size


@pytest.mark.parametrize("count, status", [(90, 200), (150, 502)])
def test_heads_of_many_fields(build, count, status):
    world, answer = respond(build, b"".join(b"X%d: y\r\n" % number for number in range(count)) + b"\r\nbody")
    (refused if status == 502 else lambda *parties: accepted(*parties, 200))(world, answer)


def test_fields_are_passed_in_order(build):
    _, answer = respond(build, b"Set-Cookie: a=1\r\nX-Sendfile: /etc/passwd\r\nSet-Cookie: b=2\r\nX-Accel-Redirect: /a\r\nX_y: z\r\nx-empty:\r\n\r\nbody")
    assert [pair for pair in answer.fields if pair[0] not in ("date", "content-length", "connection", "transfer-encoding")] == [
        ("set-cookie", "a=1"), ("x-sendfile", "/etc/passwd"), ("set-cookie", "b=2"), ("x-accel-redirect", "/a"), ("x_y", "z"), ("x-empty", "")]


def test_the_connection_is_not_the_applications_matter(build):
    world, answer = respond(build, b"Connection: keep-alive\r\nUpgrade: h2c\r\nX-Y: z\r\n\r\nbody")
    accepted(world, answer, 200, b"body")
    assert answer.all("connection") == ["close"] and answer.field("upgrade") is None and answer.field("x-y") == "z"


@pytest.mark.parametrize("given", [b"", b"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n"])
def test_a_date_is_added_to_a_response_without_one(build, given):
    _, answer = respond(build, given + b"\r\nbody")
    assert len(answer.all("date")) == 1 and (not given or answer.field("date") == "Sun, 06 Nov 1994 08:49:37 GMT")


def test_rules_of_responses_apply(build):
    _, answer = respond(build, b"Status: 404\r\nX: y\r\n\r\nbody", backend='http-response set-header x-seen "%[status] %[res.hdr(x)]"\n'
                        "    http-response del-header x\n    http-response set-status 410 if { status 404 }")
    assert (answer.status, answer.field("x-seen"), answer.field("x")) == (410, "404 y", None)


# Bodies.

def test_content_length(build):
    world, answer = respond(build, b"Content-Length: 4\r\n\r\nbody")
    accepted(world, answer, 200, b"body")
    assert answer.all("content-length") == ["4"] and answer.field("transfer-encoding") is None


@pytest.mark.parametrize("size", [0, 1, 100_000, 1_000_000])
def test_bodies_without_a_length(build, size):
    world, answer = respond(build, TYPE + b"\r\n" + b"b" * size)
    accepted(world, answer, 200, b"b" * size)
    assert answer.field("content-length") == str(size) or answer.field("transfer-encoding") == "chunked"


def test_bodies_without_a_length_for_http_1_0(build):
    world = build(Application(TYPE + b"\r\n" + b"b" * 100_000)).serve()
    answer = world.exchange(b"GET / HTTP/1.0\r\n\r\n")
    assert answer.status == 200 and answer.body == b"b" * 100_000 and answer.field("transfer-encoding") is None


def test_the_clients_connection_stays_open(build):
    def answer(talk, request):
        return TYPE + b"\r\n" + b"b" * int(request.params["QUERY_STRING"])
    world = build(Application(answer)).serve()
    with world.connect() as client:
        for size in (0, 10, 100_000, 5):
            client.sendall(f"GET /x?{size} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            assert len(read_answer(client).body) == size


@pytest.mark.parametrize("more", [b"dy and more", b"dy" + b"x" * 100_000])
def test_a_body_longer_than_its_length(build, more):
    """The excess must not become a response."""
    world = build(Application(b"Content-Length: 4\r\n\r\nbo" + more)).serve()
    answer = world.ask("/x")
    assert answer.status == 502 or (not world.differs("excess") and answer.body == b"body" and answer.complete)
    with world.connect() as client:
        client.sendall(b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(client).raw.count(b"more") == 0


def test_excess_that_arrives_late(build):
    def answer(talk, request):
        talk.stdout(request, b"Content-Length: 4\r\n\r\nbody")
        time.sleep(0.1)
        return b"HTTP/1.1 200 OK\r\n\r\nevil"
    world = build(Application(answer)).serve()
    answer = world.ask("/x")
    assert (answer.status, answer.body) == (200, b"body") and b"evil" not in answer.raw


def test_a_body_shorter_than_its_length_is_truncated(build):
    world, answer = respond(build, b"Content-Length: 9\r\n\r\nbody")
    assert (answer.status, answer.body, answer.complete) == (200, b"body", False)
    logged = world.logged()
    assert (logged.status, logged.flags) == (200, "SD--")


def test_a_length_of_zero(build):
    accepted(*respond(build, b"Content-Length: 0\r\n\r\n"), 200, b"")


@pytest.mark.parametrize("fields", [b"Content-Length: 4x\r\n", b"Content-Length: 4\r\nContent-Length: 5\r\n", b"Content-Length: -1\r\n", b"Content-Length:\r\n",
                                    b"Content-Length: 99999999999999999999999\r\n", b"Transfer-Encoding: gzip\r\n"])
def test_invalid_framing_is_refused(build, fields):
    refused(*respond(build, fields + b"\r\nbody"))


def test_equal_lengths_become_one(build):
    world, answer = respond(build, b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nbody")
    accepted(world, answer, 200, b"body")
    assert answer.all("content-length") == ["4"]


@pytest.mark.parametrize("more", [b"", b"Content-Length: 3\r\n"])
def test_an_application_may_send_chunks(build, more):
    """Some do, though CGI knows no transfer coding. A length beside it does not count."""
    world, answer = respond(build, b"Transfer-Encoding: chunked\r\n" + more + b"\r\n4\r\nbody\r\n3\r\n123\r\n0\r\n\r\n")
    accepted(world, answer, 200, b"body123")
    assert answer.field("transfer-encoding") != "chunked" or answer.field("content-length") is None


def test_chunks_without_an_end_are_truncated(build):
    world, answer = respond(build, b"Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n")
    assert (answer.status, answer.body, answer.complete) == (200, b"body", False) and world.logged().flags == "SD--"


def test_invalid_chunks_are_refused(build):
    refused(*respond(build, b"Transfer-Encoding: chunked\r\n\r\nzz\r\nbody\r\n"))


# Responses without a body.

@pytest.mark.parametrize("stdout", [TYPE + b"\r\n", TYPE + b"Content-Length: 1000\r\n\r\n", b"Status: 404\r\n\r\n"])
def test_head_without_a_body(build, stdout):
    world, answer = respond(build, stdout, method="HEAD")
    accepted(world, answer, 404 if b"404" in stdout else 200)
    assert world.application.last.params["REQUEST_METHOD"] == "HEAD"
    if b"1000" in stdout:
        assert answer.field("content-length") == "1000"


@pytest.mark.parametrize("status", [204, 304])
def test_204_and_304_without_a_body(build, status):
    world, answer = respond(build, b"Status: %d\r\nX: y\r\n\r\n" % status)
    accepted(world, answer, status)
    assert answer.field("transfer-encoding") is None and answer.field("x") == "y"


def test_304_with_a_length(build):
    accepted(*respond(build, b"Status: 304\r\nContent-Length: 4\r\n\r\n"), 304)


@pytest.mark.parametrize("method, stdout", [("HEAD", TYPE + b"\r\nbody"), ("HEAD", TYPE + b"Content-Length: 4\r\n\r\nbody"),
                                            ("HEAD", TYPE + b"\r\n" + b"b" * 100_000), ("GET", b"Status: 204\r\n\r\nbody"),
                                            ("GET", b"Status: 304\r\n\r\nbody"), ("GET", b"Status: 204\r\nContent-Length: 4\r\n\r\nbody")])
def test_a_body_where_none_is_allowed(build, method, stdout):
    """The most frequent case: a script that does not look at its method."""
    world, answer = respond(build, stdout, method=method)
    status = int(stdout[8:11]) if stdout.startswith(b"Status") else 200
    assert answer.status == world.want(status, 502, "body not allowed")
    if not world.haproxy:
        assert answer.complete and world.logged().flags == "----"


def test_parts_arrive_when_the_application_sends_them(build):
    """Each part is sent once the client has the one before."""
    seen, parts = [], [b"part%d" % number for number in range(5)]

    def answer(talk, request):
        talk.stdout(request, TYPE + b"\r\n")
        for number, part in enumerate(parts):
            talk.stdout(request, part)
            end = time.monotonic() + 5
            while len(seen) <= number and time.monotonic() < end:
                time.sleep(0.005)
            if len(seen) <= number:
                talk.close()
        talk.send(record(STDOUT, request.number))
        talk.end(request)
    world = build(Application(answer)).serve()
    with world.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        client.settimeout(10)
        raw = b""
        while more := client.recv(65536):
            raw += more
            while len(seen) < len(parts) and parts[len(seen)] in raw:
                seen.append(time.monotonic())
    assert len(seen) == len(parts) and raw.endswith(b"0\r\n\r\n")


def test_output_behind_its_end_belongs_to_no_response(build):
    def answer(talk, request):
        talk.open.pop(request.number)
        talk.send(record(STDOUT, request.number, b"Content-Length: 8\r\n\r\nhalf") + record(STDOUT, request.number)
                  + record(STDOUT, request.number, b"LATE") + end(request.number))
    world = build(Application(answer)).serve()
    answer = world.ask("/x")
    assert (answer.body, answer.complete) == (b"half", False) and world.logged().flags == "SD--"


def test_a_tunnel_is_refused(build):
    world = build().serve()
    answer = world.exchange(b"CONNECT a.test:80 HTTP/1.1\r\nHost: a.test:80\r\n\r\n")
    assert answer.status == 502
    assert not any(request.items for request in world.application.requests)


def test_compression_of_responses(build):
    world = build(Application(b"Content-Type: text/plain\r\n\r\n" + b"b" * 10_000)).serve(backend="filter compression\n    compression algo gzip")
    answer = world.ask("/x", "Accept-Encoding: gzip")
    assert answer.field("content-encoding") == "gzip" and len(answer.body) < 5000


def test_a_cookie_of_the_backend(build):
    """Persistence works as for HTTP servers."""
    world = build().serve(backend="cookie SRV insert indirect nocache", server="cookie one")
    assert world.ask("/x").field("set-cookie").startswith("SRV=one")
    assert "SRV" not in world.params("/x", "Cookie: SRV=one; a=b").get("HTTP_COOKIE", "")
