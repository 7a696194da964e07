#!/usr/bin/env python3
"""Resident memory of an idle keep-alive HTTP/1 connection that has done one request.

  idle.py weir=target/release/weir haproxy=/usr/sbin/haproxy nginx=/usr/sbin/nginx
"""
import resource
import socket
import sys
import time

import sides

WARM, COUNT = 100, 7000
REQUEST = b"GET /64 HTTP/1.1\r\nHost: x\r\n\r\n"


def connect(port):
    """One connection that has had one answer."""
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(REQUEST)
    answer = b""
    while not answer.endswith(b"x" * 64):
        more = connection.recv(4096)
        if not more:
            sys.exit(f"the connection was closed: {answer!r}")
        answer += more
    return connection


def bytes_each(side, count=COUNT):
    """How much each further idle connection adds, and how much the program holds with all of them."""
    held = [connect(side.ports["http"]) for _ in range(WARM)]
    time.sleep(0.5)
    before = side.resident_kb()
    held += [connect(side.ports["http"]) for _ in range(count - WARM)]
    time.sleep(1)
    after = side.resident_kb()
    for connection in held:
        connection.close()
    return (after - before) * 1024 / (count - WARM), after


def report(programs):
    """One line a program."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    origin = sides.Origin()
    print(f"\nidle: resident memory of each of {COUNT} idle keep-alive connections (asked of weir: 510 bytes)")
    for name, program in programs.items():
        side = sides.Side(name, program, origin)
        each, total = bytes_each(side)
        print(f"  {name:13s} {each:7.0f} bytes each, {total} kB in all", flush=True)
        side.stop()
    origin.stop()


if __name__ == "__main__":
    report(dict(word.split("=", 1) for word in sys.argv[1:]))
