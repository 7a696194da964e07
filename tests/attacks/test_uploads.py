"""Memory cost of an HTTP/2 connection that uploads on all its streams to a server that accepts connections without reading.

Two kinds: the kernel on the server's side takes all the data, so nothing waits; or the kernel takes little, and weir
holds as much as the windows admit. The cost of each further connection is measured as in test_held.py, with HAProxy for
comparison.
"""
import socket
import struct
import threading
import time

from lib.http2 import DATA, HEADERS, PREFACE, SETTINGS, WINDOW, frame
from lib.needs import installed
from lib.origin import Server
from lib.program import Program, free_port

CONFIGURATION = """
global
    nbthread 1
    maxconn 4000
    {extra}
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
    retries 0
listen door
    bind 127.0.0.1:{door} proto h2
    server s1 127.0.0.1:{origin}
"""
STREAMS = 100
FEW, MANY = 2, 8
INITIAL_WINDOW = 4
# The most bytes sent on a stream of each kind, a line of `global`, and weir's bound in bytes per stream. HAProxy 2.6
# took 8,600 and 21,100, HAProxy 3.2 took 12,500 and 51,700. A waiting upload holds 16 kB per stream: `tune.h2.fe.rxbuf`
# is 1.6 MB.
KINDS = {
    "uploads taken by the kernel": (16_384, "", 8_600),
    "uploads held by weir": (1 << 20, "tune.sndbuf.server 8192", 34_000),
}


# The bound of the growth of all windows of a worker, and their initial size.
LENT, INITIAL = 64 << 20, 65_535


class Uploads:
    """A client that sends on all its streams in turn, as much as their windows admit, without announcing lengths."""

    def __init__(self, port, most, streams=STREAMS, acknowledges=True):
        self.acknowledges = acknowledges
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        streams = range(1, 2 * streams, 2)
        self.windows = dict.fromkeys([0, *streams], 65_535)
        self.left = dict.fromkeys(streams, most)
        self.initial, self.held = 65_535, b""
        # :method POST, :scheme http, :path /
        heads = b"".join(frame(HEADERS, 4, stream, b"\x83\x86\x04\x01/") for stream in streams)
        self.socket.sendall(PREFACE + frame(SETTINGS) + heads)
        self.socket.setblocking(False)
        self.output = b""

    def receive(self):
        try:
            while read := self.socket.recv(65_536):
                self.held += read
        except BlockingIOError:
            pass
        while len(self.held) >= 9 and len(self.held) >= 9 + (length := int.from_bytes(self.held[:3], "big")):
            kind, flags, stream = self.held[3], self.held[4], int.from_bytes(self.held[5:9], "big")
            payload, self.held = self.held[9:9 + length], self.held[9 + length:]
            if kind == WINDOW:
                self.windows[stream] += int.from_bytes(payload, "big")
            elif kind == SETTINGS and not flags & 1:
                self.output += frame(SETTINGS, 1) if self.acknowledges else b""
                for name, value in struct.iter_unpack(">HI", payload):
                    if name == INITIAL_WINDOW:
                        for one in self.left:
                            self.windows[one] += value - self.initial
                        self.initial = value
            else:
                assert kind not in (3, 7), f"it was refused: {payload}"

    def send(self):
        """Sends as much as the windows allow. Returns the size of the payload."""
        self.receive()
        moved = 0
        for stream in self.left:
            if self.output:
                try:
                    self.output = self.output[self.socket.send(self.output):]
                except BlockingIOError:
                    return moved
            count = min(16_384, self.windows[stream], self.windows[0], self.left[stream])
            if count <= 0 or self.output:
                continue
            for window in (0, stream):
                self.windows[window] -= count
            self.left[stream] -= count
            moved += count
            self.output = frame(DATA, 0, stream, b"x" * count)
        return moved


class Unread(Server):
    """A server that accepts connections without reading from them."""

    def __init__(self):
        self.over = threading.Event()
        super().__init__(backlog=2000)
        # Connections inherit it.
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)

    def serve(self, connection):
        self.over.wait()

    def close(self):
        super().close()
        self.over.set()


def bytes_each(path, folder, kind):
    """Memory in bytes of each further stream."""
    most, extra, _ = KINDS[kind]
    origin, door, clients = Unread(), free_port(), []

    def settled(program):
        """Its resident memory once nothing is sent any more and it neither grows nor shrinks."""
        end, quiet, before = time.monotonic() + 20, time.monotonic(), None
        while time.monotonic() < end:
            if sum(client.send() for client in clients):
                quiet, before = time.monotonic(), None
            # Long enough for tasks that run once a second.
            elif time.monotonic() - quiet > 2.5:
                now = program.resident_kb()
                if before is not None and abs(now - before) < 40:
                    return now
                quiet, before = time.monotonic() - 2, now
            time.sleep(0.01)
        return program.resident_kb()

    try:
        text = CONFIGURATION.format(extra=extra, door=door, origin=origin.port)
        with Program(path, "-db", "-f", folder.file("uploads.cfg", text)) as program:
            program.ready(door)
            clients += [Uploads(door, most) for _ in range(FEW)]
            few = settled(program)
            clients += [Uploads(door, most) for _ in range(MANY - FEW)]
            many = settled(program)
            for client in clients:
                sent = sum(most - left for left in client.left.values())
                assert sent >= 16_384 * STREAMS, f"a connection sent {sent} bytes"
            return (many - few) * 1024 / (MANY - FEW) / STREAMS
    finally:
        origin.close()
        for client in clients:
            client.socket.close()


def test_an_unread_http2_upload_takes_less_memory_than_with_haproxy(binary, folder):
    """100 uploads on a connection to a server that reads nothing: each costs less memory than HAProxy was seen to take for it."""
    peers = {"weir": binary, "HAProxy": installed("haproxy")}
    dear = []
    for kind, (_, _, bound) in KINDS.items():
        each = {name: bytes_each(path, folder, kind) for name, path in peers.items()}
        print(f"  {kind:28}" + "".join(f"  {name} {count:6.0f}" for name, count in each.items()) + f"  bound {bound}", flush=True)
        if each["weir"] >= bound:
            dear.append(f"{kind}: {each['weir']:.0f} bytes a stream, {bound} are allowed")
    assert not dear, "; ".join(dear)


def test_unread_http2_uploads_share_a_bound_on_window_growth(binary, folder):
    """A client that never acknowledges SETTINGS may have a long round trip, so its upload gets a wide window. 300 such uploads together stay within
    the bound, and each gets a part."""
    count = 300
    origin, door, clients = Unread(), free_port(), []
    try:
        text = CONFIGURATION.format(extra="tune.sndbuf.server 8192", door=door, origin=origin.port)
        with Program(binary, "-db", "-f", folder.file("wide.cfg", text)) as program:
            program.ready(door)
            before = program.resident_kb()
            for _ in range(count):
                clients.append(Uploads(door, 1 << 22, streams=1, acknowledges=False))
                clients[-1].send()
            quiet = time.monotonic()
            while time.monotonic() - quiet < 2:
                if sum(client.send() for client in clients):
                    quiet = time.monotonic()
                time.sleep(0.01)
            sent = [(1 << 22) - left for client in clients for left in client.left.values()]
            grown = (program.resident_kb() - before) << 10
            print(f"       {count} uploads: {min(sent)} to {max(sent)} bytes, {sum(sent) >> 20} MB in all, {grown >> 20} MB resident")
            # The kernel took 60 kB of each for the server.
            assert min(sent) >= INITIAL and max(sent) > 1 << 20, "the first ones have wide windows"
            assert sum(sent) < LENT + count * (INITIAL + 60_000), "the windows are wider than their bound"
            # The allocator keeps freed blocks of buffers that grew: 104 to 132 MB in most runs, more in two of forty.
            assert grown < 2 * (LENT + count * INITIAL), "more is held than the windows admit"
    finally:
        origin.close()
        for client in clients:
            client.socket.close()
