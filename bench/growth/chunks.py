#!/usr/bin/env python3
"""How the cost of bodies in chunks grows with their number, beside HAProxy: `bench/growth/chunks.py [row...]`.

Rows are chosen by the beginning of their names. `ROUNDS` and `BINARY` are read from the environment. The size is the number of chunks of a
body; all chunks leave in one send. Numbers are us of CPU a request. `buffered` and `awaited` rows are bodies that are held as a whole before
the request goes on. `h2c` rows have a client of HTTP/2 (nghttp of nghttp2-client).
"""
import os
import shutil
import socket
import subprocess
import sys
import threading

import measure
from measure import Proxy

CONFIGURATION = measure.HEAD + """frontend all
    bind 127.0.0.1:{port}{word}
    {line}
    default_backend origin
backend origin
    server s 127.0.0.1:@origin@
"""
REQUESTS = 40


def chunked(chunk, count):
    piece = f"{chunk:x}\r\n".encode() + b"x" * chunk + b"\r\n"
    return b"Transfer-Encoding: chunked\r\n\r\n" + piece * count + b"0\r\n\r\n"


class Origin(threading.Thread):
    """Answers each request with a body; reads bodies in chunks to their end."""

    def __init__(self, body):
        super().__init__(daemon=True)
        self.answer = b"HTTP/1.1 200 OK\r\n" + body
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.start()

    def run(self):
        while True:
            connection = self.listener.accept()[0]
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        came = b""
        while part := connection.recv(1 << 20):
            came += part
            ends = b"\n0\r\n\r\n" if b"chunked" in came.lower() else b"\r\n\r\n"
            if came.endswith(ends):
                came = b""
                connection.sendall(self.answer)


def begin_with(answer, word="", line=""):
    origin = Origin(answer)
    text = CONFIGURATION.replace("{word}", word).replace("{line}", line).replace("@origin@", str(origin.port))
    return lambda binary: Proxy(binary, text)


def exchange(connection, request, length):
    connection.sendall(request)
    came = b""
    while not came.endswith(b"\r\n\r\n" if length is None else b"\n0\r\n\r\n"):
        came += connection.recv(1 << 20)


def over_http1(proxy, request, length):
    connection = socket.create_connection(("127.0.0.1", proxy.port))
    connection.settimeout(60)
    exchange(connection, request, length)

    def work():
        for _ in range(REQUESTS):
            exchange(connection, request, length)

    return proxy, lambda: proxy.cost_us(work) / REQUESTS


def down(chunk):
    def begin(binary, count):
        proxy = begin_with(chunked(chunk, count))(binary)
        return over_http1(proxy, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", count)

    return begin


def up(chunk, line=""):
    def begin(binary, count):
        proxy = begin_with(b"Content-Length: 0\r\n\r\n", line=line)(binary)
        return over_http1(proxy, b"POST / HTTP/1.1\r\nHost: x\r\n" + chunked(chunk, count), None)

    return begin


def down_h2c(chunk):
    def begin(binary, count):
        proxy = begin_with(chunked(chunk, count), " proto h2")(binary)
        command = ["nghttp", "-n", "-m", str(REQUESTS), f"http://127.0.0.1:{proxy.port}/"]

        def work():
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

        work()
        return proxy, lambda: proxy.cost_us(work) / REQUESTS

    return begin


ROWS = [
    ("down 1 B", (2_000, 20_000), down(1)),
    ("down 16 B", (500, 5_000), down(16)),
    ("down 256 B", (100, 1_000), down(256)),
    ("up 1 B", (1_000, 10_000), up(1)),
    ("up 16 B", (500, 5_000), up(16)),
    ("up 256 B", (100, 1_000), up(256)),
    ("buffered 1 B", (200, 2_000), up(1, "option http-buffer-request")),
    ("awaited 1 B", (200, 2_000), up(1, "http-request wait-for-body time 5s")),
    ("h2c down 1 B", (200, 2_000), down_h2c(1)),
    ("h2c down 16 B", (200, 2_000), down_h2c(16)),
    ("h2c down 256 B", (100, 1_000), down_h2c(256)),
]


def main():
    programs = {"weir": os.environ.get("BINARY", measure.OWN), "haproxy 3.2": measure.REFERENCE}
    chosen = [row for row in ROWS if not sys.argv[1:] or row[0].startswith(tuple(sys.argv[1:]))]
    if not shutil.which("nghttp"):
        chosen = [row for row in chosen if not row[0].startswith("h2c")]
    measure.table(chosen, programs, int(os.environ.get("ROUNDS", "5")))


if __name__ == "__main__":
    main()
