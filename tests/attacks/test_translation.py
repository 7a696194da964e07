"""HTTP/2 requests that could change their meaning in HTTP/1: the client's answer, and every byte that reaches an HTTP/1
server.

Where the answer is a stream error, HAProxy 3.2 sends the same one or lets the request pass. It refuses a length and a
host in trailers, which weir drops.
"""
import socket

from lib.http2 import PREFACE, frame
from lib.origin import Server
from lib.program import wait_until

CONFIGURATION = """
global
    nbthread 1
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
    http-reuse never
listen l
    bind 127.0.0.1:{port} proto h2
    server s1 127.0.0.1:{server}
"""
BAD = 400, None
REFUSED = (None, "")


def request(*more, body=None, trailers=None, **pseudo):
    """A request: fields, then a body and its trailers, if it has them. A pseudo-header field is left out where it is None."""
    usual = {"method": "GET" if body is None else "POST", "path": "/", "scheme": "http", "authority": "a"} | pseudo
    fields = [(f":{name}", value) for name, value in usual.items() if value is not None]
    return fields + list(more), body, trailers


def passed(start="GET / HTTP/1.1", host="a", *more, body=""):
    """The request as received by the server, with `|` for line ends."""
    fields = ([f"host: {host}"] if host else []) + list(more)
    return 200, "|".join([start, *fields, "", body])


def posted(*more, body):
    return passed("POST / HTTP/1.1", "a", *more, body=body)


CHUNKED = "transfer-encoding: chunked"
EVIL = b"0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n"
# Requests and their results: the status and the server's view, or a stream error that no server sees.
CASES = {
    "a plain request": (request(), passed()),
    # Ends of lines and similar characters.
    "CRLF in a value": (request(("x", "a\r\nY: b")), REFUSED),
    "LF in a value": (request(("x", "a\nY: b")), REFUSED),
    "CR in a value": (request(("x", "a\rY: b")), REFUSED),
    "NUL in a value": (request(("x", "a\0b")), REFUSED),
    "a space before a value": (request(("x", " a")), passed("GET / HTTP/1.1", "a", "x: a")),
    "a tab after a value": (request(("x", "a\t")), passed("GET / HTTP/1.1", "a", "x: a")),
    "a colon in a name": (request(("x:y", "a")), REFUSED),
    "a space in a name": (request(("x y", "a")), REFUSED),
    "a space after a name": (request(("transfer-encoding ", "chunked")), REFUSED),
    "CRLF in a name": (request(("x\r\ny", "a")), REFUSED),
    "NUL in a name": (request(("x\0", "a")), REFUSED),
    "a byte beyond ASCII in a name": (request((b"x\xff", "a")), REFUSED),
    "an upper-case name": (request(("Host", "a")), REFUSED),
    # Framing.
    "transfer-encoding": (request(("transfer-encoding", "chunked")), REFUSED),
    "transfer-encoding identity": (request(("transfer-encoding", "identity")), REFUSED),
    "a chunked body in a body": (request(("transfer-encoding", "chunked"), body=EVIL), REFUSED),
    "a body longer than its content-length": (request(("content-length", "3"), body=b"abcdef"), REFUSED),
    "a body shorter than its content-length": (request(("content-length", "3"), body=b"ab"), REFUSED),
    "a declared body that is missing": (request(("content-length", "5")), REFUSED),
    "a declared empty body": (request(("content-length", "0")), passed("GET / HTTP/1.1", "a", "content-length: 0")),
    "one length twice": (request(("content-length", "3"), ("content-length", "3"), body=b"abc"), posted("content-length: 3", body="abc")),
    "two lengths": (request(("content-length", "3"), ("content-length", "4"), body=b"abc"), REFUSED),
    "a list of lengths": (request(("content-length", "3, 3"), body=b"abc"), posted("content-length: 3", body="abc")),
    "a list of two lengths": (request(("content-length", "3, 4"), body=b"abc"), REFUSED),
    "a list that ends early": (request(("content-length", "3,"), body=b"abc"), REFUSED),
    "a length with a sign": (request(("content-length", "+3"), body=b"abc"), REFUSED),
    "a negative length": (request(("content-length", "-1"), body=b"abc"), REFUSED),
    "a length beyond 64 bits": (request(("content-length", "18446744073709551619"), body=b"abc"), REFUSED),
    "an empty length": (request(("content-length", ""), body=b"abc"), REFUSED),
    "a body that looks like a request": (request(body=EVIL), posted(CHUNKED, body="1b|0||GET /evil HTTP/1.1|||0||")),
    # The start line.
    "a space in the path": (request(path="/a b"), REFUSED),
    "a request in the path": (request(path="/ HTTP/1.1\r\nHost: e\r\n\r\nGET /evil"), REFUSED),
    "a tab in the path": (request(path="/a\tb"), REFUSED),
    "NUL in the path": (request(path="/\0"), REFUSED),
    "an empty path": (request(path=""), REFUSED),
    "an absolute path": (request(path="http://evil/"), REFUSED),
    "a path without a slash": (request(path="x"), REFUSED),
    "a fragment": (request(path="/a#b"), REFUSED),
    "a path with two slashes": (request(path="//evil/x"), passed("GET //evil/x HTTP/1.1")),
    "a request in the method": (request(method="GET /evil HTTP/1.1\r\nX:"), REFUSED),
    "a space in the method": (request(method="GET x"), BAD),
    "an empty method": (request(method=""), BAD),
    "a scheme with a request": (request(scheme="http://x/ HTTP/1.1\r\n"), REFUSED),
    "a scheme with a host": (request(scheme="http://evil/?"), BAD),
    # The host.
    "a space in the authority": (request(authority="a b"), REFUSED),
    "CRLF in the authority": (request(authority="a\r\nX: y"), REFUSED),
    "a path in the authority": (request(authority="a/b"), REFUSED),
    "a query in the authority": (request(authority="a?b"), REFUSED),
    "a user in the authority": (request(authority="u@a"), REFUSED),
    "host as the authority": (request(("host", "a")), passed()),
    "a host that differs from the authority": (request(("host", "b")), passed()),
    "host alone": (request(("host", "h"), authority=None), passed(host="h")),
    "neither host nor authority": (request(authority=None), passed(host=None)),
    # Pseudo-header fields.
    "a pseudo-header field after a regular field": (([(":method", "GET"), (":path", "/"), ("x", "y"), (":scheme", "http")], None, None), REFUSED),
    "two paths": (request((":path", "/e")), REFUSED),
    "an unknown pseudo-header field": (request((":foo", "x")), REFUSED),
    "the pseudo-header field of a response": (request((":status", "200")), REFUSED),
    "no method": (request(method=None), REFUSED),
    "no path": (request(path=None), REFUSED),
    "no scheme": (request(scheme=None), REFUSED),
    "CONNECT with a path": (request(method="CONNECT"), REFUSED),
    # Fields of one connection.
    "connection": (request(("connection", "close")), REFUSED),
    "keep-alive": (request(("keep-alive", "1")), REFUSED),
    "proxy-connection": (request(("proxy-connection", "x")), REFUSED),
    "upgrade": (request(("upgrade", "h2c")), REFUSED),
    "te": (request(("te", "gzip")), REFUSED),
    "te for trailers": (request(("te", "trailers")), passed("GET / HTTP/1.1", "a", "te: trailers")),
    "te for trailers and gzip": (request(("te", "trailers, gzip")), REFUSED),
    "cookies in pieces": (request(("cookie", "a=1"), ("cookie", "b=2")), passed("GET / HTTP/1.1", "a", "cookie: a=1; b=2")),
    # Trailers.
    "trailers": (request(body=b"abc", trailers=[("x-t", "v")]), posted(CHUNKED, body="3|abc|0|x-t: v||")),
    "a length in trailers": (request(body=b"abc", trailers=[("content-length", "9")]), posted(CHUNKED, body="3|abc|0||")),
    "a host in trailers": (request(body=b"abc", trailers=[("host", "evil")]), posted(CHUNKED, body="3|abc|0||")),
    "transfer-encoding in trailers": (request(body=b"abc", trailers=[("transfer-encoding", "chunked")]), REFUSED),
    "a path in trailers": (request(body=b"abc", trailers=[(":path", "/e")]), REFUSED),
    "CRLF in trailers": (request(body=b"abc", trailers=[("x", "a\r\nb: c")]), REFUSED),
    "trailers of a body with a length": (request(("content-length", "3"), body=b"abc", trailers=[("x", "v")]), posted("content-length: 3", body="abc")),
}


def integer(value, most, first=0):
    """An integer of HPACK behind a prefix."""
    if value < most:
        return bytes([first | value])
    out, value = bytes([first | most]), value - most
    while value >= 128:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def literal(name, value):
    """A literal header field without indexing (RFC 7541, 6.2.2)."""
    raw = [text if isinstance(text, bytes) else text.encode() for text in (name, value)]
    return b"\0" + b"".join(integer(len(text), 127) + text for text in raw)


class Recorder(Server):
    """An HTTP/1 server that records the bytes of each connection, answers one request on it and closes it."""

    def __init__(self):
        self.said = []
        super().__init__()

    def serve(self, connection):
        said = b""
        try:
            while not self.is_whole(said) and (more := connection.recv(65536)):
                said += more
        finally:
            self.said.append(said.decode("latin-1").replace("\r\n", "|"))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    @staticmethod
    def is_whole(said):
        head, end, body = said.lower().partition(b"\r\n\r\n")
        if b"transfer-encoding: chunked" in head:
            return b"\r\n0\r\n" in b"\r\n" + body and said.endswith(b"\r\n\r\n") and not body.endswith(b"/1.1\r\n\r\n")
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
        return bool(end) and len(body) >= length


class Client:
    """An HTTP/2 connection with handwritten frames."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.sendall(PREFACE + frame(4, 0, 0))
        self.held = b""

    def ask(self, stream, fields, body, trailers):
        """Sends a request in one piece. Returns the status, or None if the stream is reset."""
        sent = frame(1, 4 | (body is None), stream, b"".join(literal(*one) for one in fields))
        if body is not None:
            sent += frame(0, trailers is None, stream, body)
        if trailers is not None:
            sent += frame(1, 5, stream, b"".join(literal(*one) for one in trailers))
        self.socket.sendall(sent)
        while True:
            kind, number, payload = self.frame()
            assert kind != 7, f"the connection ended: {payload!r}"
            if number == stream and kind == 3:
                assert int.from_bytes(payload, "big") == 1, payload
                return None
            if number == stream and kind == 1:
                # Entries of the static table.
                return {0x88: 200, 0x8c: 400}.get(payload[0], payload)

    def frame(self):
        while len(self.held) < 9 or len(self.held) < 9 + int.from_bytes(self.held[:3], "big"):
            assert (more := self.socket.recv(65536)), "hung up"
            self.held += more
        end = 9 + int.from_bytes(self.held[:3], "big")
        header, self.held = self.held[:end], self.held[end:]
        return header[3], int.from_bytes(header[5:9], "big") & 0x7fffffff, header[9:]


def test_http2_requests_keep_their_meaning_for_an_http1_server(start, port):
    """Each case has its own connection, followed by a valid request, which would show late bytes of a refused one."""
    recorder = Recorder()
    start(CONFIGURATION.format(port=port, server=recorder.port), port)
    last = request(path="/last")
    for name, (asked, (status, seen)) in CASES.items():
        recorder.said.clear()
        recorder.count = 0
        client = Client(port)
        with client.socket:
            answered = client.ask(1, *asked)
            assert answered == status, f"{name}: answered {answered}"
            assert client.ask(3, *last) == 200, f"{name}: the next one failed"
        # Connections of a refused request may still be open.
        assert wait_until(lambda: len(recorder.said) == recorder.count), f"{name}: {recorder.said} of {recorder.count}"
        expected = ([seen] if seen else []) + [passed("GET /last HTTP/1.1")[1]]
        assert [said.lower() for said in recorder.said] == [one.lower() for one in expected], f"{name}: {recorder.said}"
