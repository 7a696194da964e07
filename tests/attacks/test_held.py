"""Memory cost of a held stream: clients that keep a stream open for as long as they like, one kind for each way to hold
it.

Each kind runs in its own process: resident memory with many such clients minus that with a few, divided by the number
of clients added. HAProxy, if installed, is measured and printed in the same way. The assertion is weir's bound, which
is below the memory that HAProxy 3.5 took.
"""
import socket
import time

from lib.needs import installed
from lib.origin import Server
from lib.program import Program, free_port

CONFIGURATION = """
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    timeout queue 60s
    timeout tarpit 60s
    timeout http-request 60s
    retries 0
frontend heads
    bind 127.0.0.1:{heads}
    default_backend b
frontend tarpit
    bind 127.0.0.1:{tarpit}
    http-request tarpit
    default_backend b
listen queue
    bind 127.0.0.1:{queue}
    server s1 127.0.0.1:{origin} maxconn 1
backend b
    server s1 127.0.0.1:{origin}
listen tcp
    mode tcp
    bind 127.0.0.1:{tcp}
    server s1 127.0.0.1:{origin}
"""
FRONTENDS = ("heads", "tarpit", "queue", "tcp")
FEW, MANY = 100, 600
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LONG = b"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + b"a" * 14_000
POST = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nsome bytes of it"
# The ways to hold a stream: frontend, bytes sent, behaviour of the origin, and weir's bound in bytes, which is HAProxy
# 3.5's figure.
KINDS = {
    "slow heads": ("heads", GET[:-10], "silent", 6_200),
    "tarpit": ("tarpit", GET, "silent", 3_700),
    "queue": ("queue", GET, "silent", 8_200),
    "unfinished heads of 14 kB": ("heads", LONG, "silent", 18_300),
    "slow readers": ("heads", GET, "endless", 22_000),
    "unread TCP": ("tcp", GET, "endless", 20_000),
    "slow bodies": ("heads", POST, "silent", 7_500),
}


class Unending(Server):
    """A server that never ends a response. It is silent, or sends as long as its client reads. `steps` grows with each read and write."""

    def __init__(self, manner):
        self.manner, self.steps = manner, 0
        super().__init__(backlog=2000)

    def serve(self, connection):
        while connection.recv(65536):
            self.steps += 1
            if self.manner == "endless":
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
                while True:
                    self.steps += connection.send(b"x" * 16_384)


def settled(program, origin):
    """Its resident memory once it neither grows nor shrinks any more, and nothing moves between it and the origin."""
    before = None
    end = time.monotonic() + 10
    while time.monotonic() < end:
        time.sleep(0.5)
        now = program.resident_kb(), origin.steps
        if before and abs(now[0] - before[0]) < 40 and now[1] == before[1]:
            break
        before = now
    return now[0]


def bytes_each(path, folder, kind):
    """Memory in bytes of each further client of a kind."""
    name, first, manner, _ = KINDS[kind]
    ports = {frontend: free_port() for frontend in FRONTENDS}
    clients = []

    def come(count):
        while len(clients) < count:
            client = socket.socket()
            clients.append(client)
            # A smaller buffer: so many connections would exhaust the kernel's memory for TCP, and the test would
            # measure that shortage.
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32_768)
            client.settimeout(10)
            client.connect(("127.0.0.1", ports[name]))
            client.sendall(first)

    try:
        with Unending(manner) as origin, Program(path, "-db", "-f", folder.file("held.cfg", CONFIGURATION.format(origin=origin.port, **ports))) as program:
            program.ready(ports[name])
            come(FEW)
            few = settled(program, origin)
            come(MANY)
            return (settled(program, origin) - few) * 1024 / (MANY - FEW)
    finally:
        for client in clients:
            client.close()


def test_a_held_stream_takes_less_memory_than_with_haproxy(binary, folder):
    """Seven ways to hold a stream: each costs less memory than HAProxy 3.5 was seen to take for it."""
    peers = {"weir": binary, "HAProxy": installed("haproxy")}
    dear = []
    for kind, (_, _, _, bound) in KINDS.items():
        each = {name: bytes_each(path, folder, kind) for name, path in peers.items()}
        print(f"  {kind:26}" + "".join(f"  {name} {count:6.0f}" for name, count in each.items()) + f"  bound {bound}", flush=True)
        if each["weir"] >= bound:
            dear.append(f"{kind}: {each['weir']:.0f} bytes, {bound} are allowed")
    assert not dear, "; ".join(dear)
