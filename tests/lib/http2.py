"""Frames of HTTP/2, and a peer that plays a script frame by frame, right or wrong. The script's words are methods, as in
`Peer` in phases/scenes.py."""
import struct

NAMES = {0: "data", 1: "head", 3: "rst", 4: "settings", 5: "push", 6: "ping", 7: "goaway", 8: "window", 9: "continuation"}
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
PROTOCOL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, COMPRESSION_ERROR, CALM = 1, 3, 6, 9, 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    """A field of a header block, literal and not indexed."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class FramePeer:
    """The HTTP/2 part of a peer. `stream` is the last one opened by a request."""

    stream = 0

    def exactly(self, count):
        """So many bytes."""
        while len(self.held) < count:
            self.more()
        taken, self.held = self.held[:count], self.held[count:]
        return taken

    def next_frame(self):
        """The next frame: kind, flags, stream, payload. SETTINGS are acknowledged."""
        header = self.exactly(9)
        payload = self.exactly(int.from_bytes(header[:3], "big"))
        kind, flags = header[3], header[4]
        if kind == 4 and not flags & 1:
            self.send(frame(4, 1, 0))
        return kind, flags, int.from_bytes(header[5:9], "big") & 0x7fffffff, payload

    def preface(self):
        """Reads the preface of a client."""
        start = self.exactly(len(PREFACE))
        if start != PREFACE:
            self.seen.append(f"no-preface:{start[:8]!r}")

    def h2(self, settings=""):
        """Reads the preface and sends SETTINGS: `h2=3:1,4:0` sets identifiers to values."""
        self.preface()
        self.settings(settings)

    def settings(self, settings=""):
        """Sends SETTINGS."""
        pairs = [pair.split(":") for pair in settings.split(",") if pair]
        self.send(frame(4, 0, 0, b"".join(struct.pack(">HI", int(name), int(value)) for name, value in pairs)))

    def req(self):
        """Reads until a request begins; notes its stream, with `.` for a request without a body."""
        while True:
            kind, flags, stream, _ = self.next_frame()
            if kind == 1:
                self.stream = stream
                self.seen.append(f"{stream}{'.' if flags & 1 else ''}")
                return
            if kind in (3, 7):
                self.seen.append(NAMES[kind])

    def body(self):
        """Reads until the request of the last stream ends; notes how many bytes it had, and whether trailers came."""
        count, trailers = 0, ""
        while True:
            kind, flags, stream, payload = self.next_frame()
            if stream != self.stream:
                continue
            if kind == 0:
                count += len(payload)
            if kind == 1:
                trailers = "+trailers"
            if kind == 3:
                self.seen.append(f"rst{int.from_bytes(payload, 'big')}")
                return
            if flags & 1:
                self.seen.append(f"{count}{trailers}")
                return

    def status(self, text):
        """Sends a response's head: `status=200`, `status=200,end`, `status=200,content-length:5`."""
        status, *more = text.split(",")
        end = "end" in more
        fields = [one.split(":", 1) for one in more if ":" in one]
        block = field(":status", status) + b"".join(field(name, value) for name, value in fields)
        self.send(frame(1, 4 | end, self.stream, block))

    def trailers(self):
        """Sends trailers."""
        self.send(frame(1, 5, self.stream, field("x-end", "1")))

    def data(self, text):
        """Sends payload: `data=5`, `data=5,end`."""
        count, *more = text.split(",")
        for _ in range(max(1, -(-int(count) // 16384))):
            piece = min(int(count), 16384)
            count = int(count) - piece
            self.send(frame(0, "end" in more and not count, self.stream, b"x" * piece))

    def okay(self):
        """Sends a whole response."""
        self.status("200,content-length:2")
        self.data("2,end")

    def reset(self, code):
        """Resets the last stream."""
        self.send(frame(3, 0, self.stream, struct.pack(">I", int(code))))

    def goaway(self, text):
        """Leaves: `goaway=LAST,CODE`."""
        last, code = text.split(",")
        self.send(frame(7, 0, 0, struct.pack(">II", int(last), int(code))))

    def frame(self, text):
        """Sends a frame: `frame=KIND,FLAGS,STREAM,HEX`, the last stream for `s`."""
        kind, flags, stream, payload = text.split(",")
        stream = self.stream if stream == "s" else int(stream)
        self.send(frame(int(kind), int(flags), stream, bytes.fromhex(payload)))

    def many(self, text):
        """Sends a frame so many times: `many=COUNT,KIND,FLAGS,STREAM,HEX`."""
        count, kind, flags, stream, payload = text.split(",")
        stream = self.stream if stream == "s" else int(stream)
        self.send(frame(int(kind), int(flags), stream, bytes.fromhex(payload)) * int(count))

    def interims(self, count):
        """Sends so many interim responses at once."""
        head = field(":status", "103") + field("link", "a")
        self.send(b"".join(frame(1, 4, self.stream, head) for _ in range(int(count))))

    def frames(self):
        """Reads until the other side ends; notes its resets and pings, and the way it ended."""
        while True:
            kind, _, stream, payload = self.next_frame()
            if kind == 3:
                self.seen.append(f"rst{stream}:{int.from_bytes(payload, 'big')}")
            if kind == 7:
                self.seen.append(f"goaway:{int.from_bytes(payload[4:8], 'big')}")
            if kind == 6:
                self.seen.append("ping")
            if kind == 1:
                self.seen.append(f"late{stream}")


def frames(client, seconds=5, held=b""):
    """The frames in `held` and on the connection, until it ends or is silent for `seconds`."""
    client.settimeout(seconds)
    while True:
        while len(held) >= 9:
            length = int.from_bytes(held[:3], "big")
            if len(held) < 9 + length:
                break
            yield held[3], held[4], int.from_bytes(held[5:9], "big") & 0x7FFF_FFFF, held[9:9 + length]
            held = held[9 + length:]
        try:
            more = client.recv(65_536)
        except (TimeoutError, ConnectionError):
            return
        if not more:
            return
        held += more
