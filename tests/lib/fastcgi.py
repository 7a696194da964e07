"""FastCGI 1.0 (the specification of Open Market, sections 3 to 5): a codec for both directions, and a scripted application.

    with Application(b"Status: 200\\r\\n\\r\\nhello") as application: ...application.address...application.requests...
    with Application(lambda talk, request: talk.reset()) as application: ...

An application calls `answer` for each request whose STDIN has ended; bytes are sent as STDOUT. A `script` replaces the whole
conversation of a connection. The functions at the end are scripts and answers, one for each way an application can misbehave.
"""
import dataclasses
import os
import socket
import struct
import threading
import time

from lib.origin import Server, end_with_reset
from lib.program import wait_until

BEGIN, ABORT, END, PARAMS, STDIN, STDOUT, STDERR, DATA, GET_VALUES, GET_VALUES_RESULT, UNKNOWN_TYPE = range(1, 12)
RESPONDER, AUTHORIZER, FILTER = 1, 2, 3
KEEP_CONN = 1
COMPLETE, CANT_MPX_CONN, OVERLOADED, UNKNOWN_ROLE = range(4)


class Malformed(Exception):
    """Bytes that are not valid FastCGI."""


class Closed(OSError):
    """The script ended the connection."""


# Encoding.

def record(kind, request=0, content=b"", padding=0, version=1, reserved=0):
    """The bytes of one record (3.3)."""
    return struct.pack(">BBHHBB", version, kind, request, len(content), padding, reserved) + content + bytes(padding)


def records(kind, request, data, size=65535, padding=0):
    """The bytes of a stream in records of at most `size` bytes, without the empty record that ends it."""
    return b"".join(record(kind, request, data[at:at + size], padding) for at in range(0, len(data), size))


def length(number):
    """The length of a name or value (3.4)."""
    return bytes([number]) if number < 128 else struct.pack(">I", number | 1 << 31)


def pairs(items):
    """Name-value pairs, from a dict or a list of pairs of text."""
    encoded = b""
    for name, value in items.items() if isinstance(items, dict) else items:
        name, value = name.encode("latin-1"), value.encode("latin-1")
        encoded += length(len(name)) + length(len(value)) + name + value
    return encoded


def end(request, status=0, protocol=COMPLETE, padding=0):
    """END_REQUEST (5.5): the exit status of the application, and its protocol status."""
    return record(END, request, struct.pack(">IBxxx", status & 0xffffffff, protocol), padding)


# Decoding.

def decode_pairs(data):
    """The name-value pairs of a complete stream, as a list."""
    found, at = [], 0

    def number():
        nonlocal at
        if at >= len(data) or data[at] >> 7 and at + 4 > len(data):
            raise Malformed(f"a length is cut at {at} of {len(data)}")
        if not data[at] >> 7:
            at += 1
            return data[at - 1]
        at += 4
        return struct.unpack(">I", data[at - 4:at])[0] & 0x7fffffff

    while at < len(data):
        name, value = number(), number()
        if at + name + value > len(data):
            raise Malformed(f"a pair is cut at {at} of {len(data)}")
        found.append((data[at:at + name].decode("latin-1"), data[at + name:at + name + value].decode("latin-1")))
        at += name + value
    return found


@dataclasses.dataclass
class Record:
    """One received record. `at` is the time of its arrival, of time.monotonic(); `connection` the number of its connection, from 1."""
    kind: int
    request: int
    content: bytes
    padding: int
    version: int = 1
    connection: int = 0
    at: float = 0.0


@dataclasses.dataclass
class Request:
    """A request. `items` are its parameters in the order of arrival, `sizes` the sizes of the records of PARAMS. `aborted` is set by
    ABORT_REQUEST; `complete` once STDIN has ended."""
    number: int
    role: int
    flags: int
    connection: int
    encoded: bytes = b""
    items: list = dataclasses.field(default_factory=list)
    sizes: list = dataclasses.field(default_factory=list)
    body: bytes = b""
    started: bool = False
    complete: bool = False
    aborted: bool = False

    @property
    def params(self):
        """The parameters by name; of duplicates the last."""
        return dict(self.items)

    @property
    def keeps(self):
        """Whether the connection stays open after the response."""
        return bool(self.flags & KEEP_CONN)

    def named(self, name):
        """All values of a parameter."""
        return [value for key, value in self.items if key == name]


class Conversation:
    """One connection from the application's side. `number` counts from 1. `ending` is "close" or "reset" once the peer ended it;
    `unasked` lists received records that belong to no request."""

    def __init__(self, application, connection, number):
        self.application, self.connection, self.number = application, connection, number
        self.held, self.open, self.ending, self.asked, self.unasked, self.lock = b"", {}, None, [], [], threading.Lock()

    def exactly(self, count):
        """Exactly this number of bytes. Fewer at the end of the connection."""
        while len(self.held) < count:
            try:
                more = self.connection.recv(1 << 18)
            except ConnectionResetError:
                self.ending = "reset"
                break
            if not more:
                self.ending = self.ending or "close"
                break
            self.held += more
        taken, self.held = self.held[:count], self.held[count:]
        return taken

    def read(self):
        """The next record, recorded and applied to its request. None at the end of the connection."""
        header = self.exactly(8)
        if len(header) < 8:
            return None
        version, kind, request, size, padding, _ = struct.unpack(">BBHHBB", header)
        content = self.exactly(size + padding)
        if len(content) < size + padding:
            return None
        found = Record(kind, request, content[:size], padding, version, self.number, time.monotonic())
        self.application.records.append(found)
        self.apply(found)
        return found

    def apply(self, found):
        """Changes the state of the record's request."""
        if found.kind == BEGIN:
            role, flags = struct.unpack(">HB5x", found.content)
            self.open[found.request] = Request(found.request, role, flags, self.number)
            self.application.requests.append(self.open[found.request])
        elif found.kind == GET_VALUES:
            self.asked.append([name for name, _ in decode_pairs(found.content)])
            self.give_values()
        elif found.request not in self.open:
            self.unasked.append(found)
        else:
            request = self.open[found.request]
            if found.kind == PARAMS and found.content:
                request.sizes.append(len(found.content))
                request.encoded += found.content
            elif found.kind == PARAMS:
                request.items, request.started = decode_pairs(request.encoded), True
            elif found.kind == STDIN:
                request.body += found.content
                request.complete = request.complete or not found.content
            elif found.kind == ABORT:
                request.aborted = True
            else:
                self.unasked.append(found)

    def give_values(self):
        """Answers GET_VALUES as the application says: a dict, bytes, a function of the conversation, or None for silence."""
        values = self.application.values
        if callable(values):
            values(self)
        elif values is not None:
            self.send(values if isinstance(values, bytes) else record(GET_VALUES_RESULT, 0, pairs(values)))

    def next_request(self, head=False):
        """The next request with a STDIN that has ended, or only its PARAMS. None at the end of the connection."""
        while found := self.read():
            request = self.open.get(found.request)
            if request and found.kind in (PARAMS, STDIN) and not found.content and (request.started if head else request.complete):
                return request
        return None

    def send(self, data):
        """Sends bytes."""
        with self.lock:
            self.connection.sendall(data)

    def trickle(self, data, step=1, seconds=0.0005):
        """Sends bytes in pieces of this size."""
        for at in range(0, len(data), step):
            self.send(data[at:at + step])
            time.sleep(seconds)

    def stdout(self, request, data, size=65535, padding=0):
        """Sends STDOUT."""
        self.send(records(STDOUT, request.number, data, size, padding))

    def stderr(self, request, data, size=65535, padding=0):
        """Sends STDERR."""
        self.send(records(STDERR, request.number, data, size, padding))

    def end(self, request, status=0, protocol=COMPLETE, padding=0):
        """Sends END_REQUEST."""
        self.open.pop(request.number, None)
        self.send(end(request.number, status, protocol, padding))

    def reply(self, request, data, status=0):
        """Sends a whole response."""
        self.open.pop(request.number, None)
        self.send(records(STDOUT, request.number, data) + record(STDOUT, request.number) + end(request.number, status))

    def close(self):
        """Ends the connection."""
        raise Closed

    def reset(self):
        """Ends the connection with a reset."""
        end_with_reset(self.connection)
        raise Closed

    def hang(self):
        """Records the bytes that arrive until the peer ends the connection."""
        while self.read():
            pass

    def serve(self):
        """Answers each request, one after the other or at the same time."""
        while request := self.next_request(head=self.application.early):
            if self.application.concurrent:
                threading.Thread(target=self.answer_aside, args=(request,), daemon=True).start()
            else:
                self.answer(request)
                if not request.keeps:
                    return

    def answer_aside(self, request):
        """Answers one request while others are read."""
        try:
            self.answer(request)
            if request.keeps:
                return
        except OSError:
            pass
        try:
            # Wakes the reading thread, which closes.
            self.connection.shutdown(socket.SHUT_RD)
        except OSError:
            pass

    def answer(self, request):
        """Answers one request."""
        answer = self.application.answer
        if callable(answer):
            answer = answer(self, request)
        if answer is not None:
            self.reply(request, answer)


OK = b"Content-Type: text/plain\r\n\r\nok"


class Application(Server):
    """A FastCGI application on a TCP port, or on a UNIX socket at a `path`.

    `answer` is the STDOUT of each response: bytes, or a function of the [`Conversation`] and the [`Request`] that returns bytes, or None
    when it has answered. `script` is called for each connection, a [`Conversation`], instead. `early` answers before STDIN has ended,
    `concurrent` answers requests of a connection at the same time. `values` is the answer to GET_VALUES ([`Conversation.give_values`]).
    `requests` and `records` list what arrived, `conversations` the connections."""

    def __init__(self, answer=OK, script=None, values=None, early=False, concurrent=False, path=None, **options):
        self.answer, self.script, self.values, self.early, self.concurrent = answer, script or Conversation.serve, values, early, concurrent
        self.path, self.requests, self.records, self.conversations = path, [], [], []
        super().__init__(**options)

    def bind(self):
        if not self.path:
            return super().bind()
        if os.path.exists(self.path):
            os.unlink(self.path)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        os.chmod(self.path, 0o666)
        listener.listen(self.backlog)
        return listener

    def listen(self):
        super().listen()
        self.port = self.port if not self.path else 0

    @property
    def address(self):
        """The address as written in a server line."""
        return f"unix@{self.path}" if self.path else f"127.0.0.1:{self.port}"

    def serve(self, connection):
        conversation = Conversation(self, connection, len(self.conversations) + 1)
        self.conversations.append(conversation)
        if not self.path:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.script(conversation)

    def wait_for(self, count, seconds=5.0):
        """Waits for this number of requests, and returns them."""
        assert wait_until(lambda: len(self.requests) >= count, seconds), f"{len(self.requests)} of {count} requests"
        return self.requests

    @property
    def last(self):
        """The request that came last."""
        return self.requests[-1]


# Scripts and answers: the ways in which an application fails.

def close_at_once(talk):
    """Closes without reading."""
    talk.close()


def reset_at_once(talk):
    """Resets without reading."""
    talk.reset()


def sends(data, then="serve"):
    """A script that sends bytes, made by a function of the first request, instead of its response. Then it closes, resets, hangs, or serves."""
    def script(talk):
        if request := talk.next_request():
            talk.send(data(request.number))
            talk.open.pop(request.number, None)
            getattr(talk, then)()
    return script


def trickles(data, step=1):
    """A script that answers each request with these records, in pieces of some bytes."""
    def answer(talk, request):
        talk.open.pop(request.number, None)
        talk.trickle(data(request.number), step)
    return answer


def ends_with(protocol, status=0, before=b""):
    """An answer that is an END_REQUEST of this protocol status, after some STDOUT."""
    def answer(talk, request):
        if before:
            talk.stdout(request, before)
        talk.end(request, status, protocol)
    return answer


def whole(number, data, size=65535, padding=0, status=0):
    """The records of a whole response."""
    return records(STDOUT, number, data, size, padding) + record(STDOUT, number, b"", padding) + end(number, status, padding=padding)
