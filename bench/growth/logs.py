#!/usr/bin/env python3
"""The cost of log lines, beside HAProxy: `bench/growth/logs.py [row...]`.

Rows are chosen by the beginning of their names. `ROUNDS` and `BINARY` are read from the environment. The size is the number of clients that
send a request at the same moment. Each figure includes the request: subtract the first row.
"""
import os
import socket
import sys

import measure
from measure import HEAD, Proxy

FRONT = """frontend all
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string ok
"""
REQUESTS = 4_000


def logged(lines, output="/dev/null"):
    """The cost of a request with these lines in the frontend, and with this file as standard output."""

    def begin(binary, size):
        with open(output, "w") as file:
            proxy = Proxy(binary, HEAD + FRONT + "".join(f"    {line}\n" for line in lines), file)
        clients = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(size)]

        def work():
            for _ in range(REQUESTS // size):
                for client in clients:
                    client.sendall(b"GET /some/path?with=arguments HTTP/1.1\r\nHost: www.example.com\r\n\r\n")
                for client in clients:
                    assert client.recv(1000).startswith(b"HTTP/1.1 200"), "a request failed"

        def measured():
            work()
            return proxy.cost_us(work) / (REQUESTS // size * size)

        return proxy, measured

    return begin


SIZES = (1, 10, 100)
TO_FILE = "log stdout format raw local0"
FILE = os.path.join(measure.WORK, "log")
ROWS = [
    ("no log", SIZES, logged([])),
    ("a line into a file", SIZES, logged(["option httplog", TO_FILE], FILE)),
    ("dontlog-normal", SIZES, logged(["option httplog", "option dontlog-normal", TO_FILE], FILE)),
    ("one line of a thousand", SIZES, logged(["option httplog", "log stdout format raw sample 1:1000 local0"], FILE)),
    ("a line over UDP", SIZES, logged(["option httplog", "log 127.0.0.1:514 local0"])),
]


def main():
    chosen = [row for row in ROWS if not sys.argv[1:] or row[0].startswith(tuple(sys.argv[1:]))]
    programs = {"weir": os.environ.get("BINARY", measure.OWN), "HAProxy 3.2": measure.REFERENCE}
    measure.table(chosen, programs, int(os.environ.get("ROUNDS", "5")))


if __name__ == "__main__":
    main()
