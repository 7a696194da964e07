"""A scene for HTTP/2 clients that violate the protocol, and their frames."""
import contextlib
import socket
import struct
import time

from attacks.scarcity import FINE
from lib.http2 import (
    CALM, COMPRESSION_ERROR, CONTINUATION, DATA, END_HEADERS, END_STREAM, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, GOAWAY, HEADERS, PING,
    PREFACE, PRIORITY, PROTOCOL_ERROR, RESET, SETTINGS, WINDOW, frame, frames,
)
from lib.origin import Server
from lib.program import Program, free_port, readable

CONFIGURATION = """
global
    nbthread 1
    maxconn 500
defaults
    mode http
    timeout connect 1s
    timeout client {timeout}
    timeout server 5s
    timeout http-request 5s
backend counts
    stick-table type ip size 10 store glitch_cnt
frontend door
    bind 127.0.0.1:{door}
    tcp-request connection track-sc0 src table counts
    http-request return status 200 content-type text/plain lf-string %[sc0_glitch_cnt] if {{ path /count }}
    http-request return status 200 content-type text/plain string "fine" if {{ path /fine }}
    http-request return status 200 content-type text/plain file {large} if {{ path /large }}
    use_backend endless if {{ path /endless }}
    default_backend silent
backend silent
    server s1 127.0.0.1:{silent}
backend endless
    server s1 127.0.0.1:{endless}
"""
# :method GET, :scheme http, and a literal path; no field enters the dynamic table.
REQUEST = b"\x82\x86\x04\x05/fine"
LARGE = b"\x82\x86\x04\x06/large"
SILENT = b"\x82\x86\x04\x07/silent"
ENDLESS = b"\x82\x86\x04\x08/endless"
COUNT = b"\x82\x86\x04\x06/count"


class Scene:
    """weir, with a short answer of its own, a large one, and a silent server."""

    def __init__(self, binary, folder, timeout="5s"):
        self.port, silent = free_port(), socket.create_server(("127.0.0.1", 0), backlog=1000)
        self.silent, self.endless = silent, Server(send_without_end)
        large = folder.file("large", "x" * 100_000)
        text = CONFIGURATION.format(door=self.port, large=large, silent=silent.getsockname()[1], endless=self.endless.port, timeout=timeout)
        self.program = Program(binary, "-db", "-f", folder.file("a.cfg", text))
        self.clients = []

    def __enter__(self):
        self.program.__enter__()
        self.program.ready(self.port)
        for _ in range(20):
            self.is_well()
        self.rest = self.program.resident_kb()
        return self

    def __exit__(self, *arguments):
        for client in self.clients:
            client.close()
        self.silent.close()
        self.endless.close()
        self.program.__exit__(*arguments)

    def client(self, first=b""):
        client = socket.create_connection(("127.0.0.1", self.port), 5)
        client.sendall(PREFACE + frame(SETTINGS) + first)
        self.clients.append(client)
        return client

    def glitches(self):
        """The glitch counter of the stick table for this address."""
        with socket.create_connection(("127.0.0.1", self.port), 5) as client:
            client.sendall(PREFACE + frame(SETTINGS) + frame(HEADERS, END_STREAM | END_HEADERS, 1, COUNT))
            return int(answer(client))

    def grown_kb(self):
        return self.program.resident_kb() - self.rest

    def is_well(self):
        """Checks that the program is alive and answers soon in both HTTP versions."""
        start = time.monotonic()
        with socket.create_connection(("127.0.0.1", self.port), 2) as client:
            client.sendall(FINE)
            assert client.recv(4096).endswith(b"fine")
        with socket.create_connection(("127.0.0.1", self.port), 2) as client:
            client.sendall(PREFACE + frame(SETTINGS) + frame(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST))
            assert any(kind == DATA and payload == b"fine" for kind, _, _, payload in frames(client)), "an answer"
        assert time.monotonic() - start < 2, "a well-behaved client waited"


def read_to_the_end(connection):
    """A silent server."""
    while connection.recv(65_536):
        pass


def send_without_end(connection):
    """A server with endless responses."""
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n")
    while True:
        connection.sendall(bytes(65_536))


def answer(client):
    """The first payload received."""
    return next((payload for kind, _, _, payload in frames(client) if kind == DATA), None)


def goaway(client, held=b""):
    """The code of the GOAWAY that ends the connection. None without one."""
    codes = [struct.unpack(">I", payload[4:8])[0] for kind, _, _, payload in frames(client, held=held) if kind == GOAWAY]
    return codes[-1] if codes else None


def send(client, pieces):
    """Sends all pieces, or until the peer closes. Returns the code of its GOAWAY."""
    client.settimeout(5)
    held = b""
    try:
        for piece in pieces:
            client.sendall(piece)
            # Unread answers would block both sides.
            if readable([client], 0):
                held += client.recv(65_536)
    except OSError:
        pass
    return goaway(client, held)


def opened_and_reset(streams):
    """Rapid reset: opens streams and resets them at once."""
    for first in range(0, streams, 50):
        yield b"".join(
            frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, SILENT) + frame(RESET, 0, 2 * number + 1, b"\0\0\0\x08")
            for number in range(first, first + 50))
# The start of a stream of `opened_and_reset`, with stream number 0.
OPENED = frame(HEADERS, END_STREAM | END_HEADERS, 0, SILENT)[:5]
RAPID = "streams opened and reset"
# The flood, and the error code that ends it.
FLOODS = {
    RAPID: (lambda: opened_and_reset(10_000), CALM),
    "WINDOW_UPDATE of zero, which makes weir reset streams": (lambda: (
        frame(HEADERS, END_HEADERS, 2 * number + 1, SILENT) + frame(WINDOW, 0, 2 * number + 1, bytes(4)) for number in range(5000)), CALM),
    "malformed requests": (lambda: (frame(HEADERS, 5, 2 * number + 1, b"\x82") for number in range(5000)), CALM),
    "fields without a name": (lambda: (frame(HEADERS, 5, 2 * number + 1, REQUEST + b"\0\0\0") for number in range(5000)), CALM),
    "DATA after END_STREAM": (lambda: (
        frame(HEADERS, 5, 2 * number + 1, SILENT) + frame(DATA, 0, 2 * number + 1, b"more") for number in range(5000)), CALM),
    "PRIORITY of streams that depend on themselves": (lambda: [frame(PRIORITY, 0, 1, b"\0\0\0\x01\0") * 500] * 60, CALM),
    "SETTINGS that open and close windows": (lambda: [b"".join(
        frame(SETTINGS, 0, 0, b"\0\x04\0\0" + window) for window in (b"\0\0", b"\xff\xff")) * 250] * 60, CALM),
    "a frame above the accepted size": (lambda: [frame(HEADERS, 5, 1, REQUEST + bytes(20_000))], FRAME_SIZE_ERROR),
    "PUSH_PROMISE of a client": (lambda: [frame(5, 4, 1, b"\0\0\0\x02" + REQUEST)], PROTOCOL_ERROR),
    "an endless header block": (lambda: [frame(HEADERS, 0, 1, REQUEST)] + [frame(CONTINUATION, 0, 1)] * 1000, CALM),
    "a header block of megabytes": (lambda: [frame(HEADERS, 0, 1, b"\x82" * 16_000)] + [frame(CONTINUATION, 0, 1, b"\x82" * 16_000)] * 100, CALM),
    "SETTINGS frames": (lambda: [frame(SETTINGS) * 500] * 60, CALM),
    "PING frames": (lambda: [frame(PING, 0, 0, bytes(8)) * 500] * 30, CALM),
    "PRIORITY frames": (lambda: [frame(PRIORITY, 0, 1, b"\0\0\0\x03\0") * 500] * 60, CALM),
    "unknown frames": (lambda: [frame(77) * 500] * 60, CALM),
    "empty DATA frames": (lambda: [frame(HEADERS, END_HEADERS, 1, SILENT)] + [frame(DATA, 0, 1) * 500] * 60, CALM),
    "a window overflow": (lambda: [frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff")], FLOW_CONTROL_ERROR),
    "an invalid header block": (lambda: [frame(HEADERS, 5, 1, b"\xff\xff\xff\xff\xff\xff")], COMPRESSION_ERROR),
    "an HPACK table above the announced size": (lambda: [frame(HEADERS, 5, 1, b"\x3f\xe1\xff\x03" + REQUEST)], COMPRESSION_ERROR),
    "another protocol": (lambda: [b"GET / HTTP/1.1\r\n\r\n"], None),
}


def flood_on(port, name, streams, is_over):
    """Floods one connection after the other until `is_over` is set, each until the server closes it; counts the streams
    opened and reset."""
    pieces = list(FLOODS[name][0]())
    while not is_over.is_set():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2) as client:
            client.sendall(PREFACE + frame(SETTINGS))
            for piece in pieces:
                if is_over.is_set() or readable([client], 0) and not client.recv(65_536):
                    break
                client.sendall(piece)
                with streams:
                    streams.value += piece.count(OPENED)
            while client.recv(65_536):
                pass
