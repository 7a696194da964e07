"""HTTP/2 frames, and a peer scripted frame by frame, valid or not. Its methods are the commands of the scripts of phases/scenes.py."""
import struct

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
PROTOCOL_ERROR, FLOW_CONTROL_ERROR, FRAME_SIZE_ERROR, COMPRESSION_ERROR, CALM = 1, 3, 6, 9, 11
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags=0, stream=0, payload=b""):
    """One frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def field(name, value):
    """A field of a header block, literal and not indexed."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


class FramePeer:
    """A peer of HTTP/2 on a connection. `stream` is the last one opened by a request, `seen` lists observations in words."""

    stream = 0

    def __init__(self, connection):
        self.connection, self.held, self.seen = connection, b"", []

    def send(self, data):
        """Sends bytes."""
        self.connection.sendall(data)

    def more(self):
        """Receives bytes; fails at the end of the connection."""
        if not (data := self.connection.recv(65536)):
            raise ConnectionError("the connection ended")
        self.held += data

    def exactly(self, count):
        """Receives exactly this number of bytes."""
        while len(self.held) < count:
            self.more()
        taken, self.held = self.held[:count], self.held[count:]
        return taken

    def next_frame(self):
        """The next frame: kind, flags, stream, payload. SETTINGS are acknowledged."""
        header = self.exactly(9)
        payload = self.exactly(int.from_bytes(header[:3], "big"))
        kind, flags = header[3], header[4]
        if kind == SETTINGS and not flags & ACK:
            self.send(frame(SETTINGS, ACK))
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
        self.send(frame(SETTINGS, payload=b"".join(struct.pack(">HI", int(name), int(value)) for name, value in pairs)))

    def req(self):
        """Reads until a request begins. Notes its stream, followed by `.` for a request without a body."""
        while True:
            kind, flags, stream, _ = self.next_frame()
            if kind == HEADERS:
                self.stream = stream
                self.seen.append(f"{stream}{'.' if flags & END_STREAM else ''}")
                return
            if kind in (RESET, GOAWAY):
                self.seen.append("rst" if kind == RESET else "goaway")

    def body(self):
        """Reads until the request of the last stream ends. Notes the size of its body, and whether trailers were received."""
        count, trailers = 0, ""
        while True:
            kind, flags, stream, payload = self.next_frame()
            if stream != self.stream:
                continue
            if kind == DATA:
                count += len(payload)
            if kind == HEADERS:
                trailers = "+trailers"
            if kind == RESET:
                self.seen.append(f"rst{int.from_bytes(payload, 'big')}")
                return
            if flags & END_STREAM:
                self.seen.append(f"{count}{trailers}")
                return

    def status(self, text):
        """Sends a response head: `status=200`, `status=200,end`, `status=200,content-length:5`."""
        status, *more = text.split(",")
        end = END_STREAM if "end" in more else 0
        fields = [one.split(":", 1) for one in more if ":" in one]
        block = field(":status", status) + b"".join(field(name, value) for name, value in fields)
        self.send(frame(HEADERS, END_HEADERS | end, self.stream, block))

    def trailers(self):
        """Sends trailers."""
        self.send(frame(HEADERS, END_HEADERS | END_STREAM, self.stream, field("x-end", "1")))

    def data(self, text):
        """Sends payload: `data=5`, `data=5,end`."""
        count, *more = text.split(",")
        for _ in range(max(1, -(-int(count) // 16384))):
            piece = min(int(count), 16384)
            count = int(count) - piece
            self.send(frame(DATA, END_STREAM if "end" in more and not count else 0, self.stream, b"x" * piece))

    def okay(self):
        """Sends a complete response."""
        self.status("200,content-length:2")
        self.data("2,end")

    def reset(self, code):
        """Resets the last stream."""
        self.send(frame(RESET, 0, self.stream, struct.pack(">I", int(code))))

    def goaway(self, text):
        """Sends GOAWAY: `goaway=LAST,CODE`."""
        last, code = text.split(",")
        self.send(frame(GOAWAY, payload=struct.pack(">II", int(last), int(code))))

    def frame(self, text):
        """Sends a frame: `frame=KIND,FLAGS,STREAM,HEX`, the last stream for `s`."""
        kind, flags, stream, payload = text.split(",")
        stream = self.stream if stream == "s" else int(stream)
        self.send(frame(int(kind), int(flags), stream, bytes.fromhex(payload)))

    def many(self, text):
        """Sends a frame `COUNT` times: `many=COUNT,KIND,FLAGS,STREAM,HEX`."""
        count, kind, flags, stream, payload = text.split(",")
        stream = self.stream if stream == "s" else int(stream)
        self.send(frame(int(kind), int(flags), stream, bytes.fromhex(payload)) * int(count))

    def interims(self, count):
        """Sends this number of interim responses at once."""
        head = field(":status", "103") + field("link", "a")
        self.send(b"".join(frame(HEADERS, END_HEADERS, self.stream, head) for _ in range(int(count))))

    def frames(self):
        """Reads until EOF. Notes resets, pings, and how the connection ended."""
        while True:
            kind, _, stream, payload = self.next_frame()
            if kind == RESET:
                self.seen.append(f"rst{stream}:{int.from_bytes(payload, 'big')}")
            if kind == GOAWAY:
                self.seen.append(f"goaway:{int.from_bytes(payload[4:8], 'big')}")
            if kind == PING:
                self.seen.append("ping")
            if kind == HEADERS:
                self.seen.append(f"late{stream}")


def frames(client, seconds=5, held=b""):
    """The frames in `held` and on the connection, up to EOF or `seconds` of silence."""
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
