"""SPOP 2.0 (HAProxy's doc/SPOE.txt, section 3): a codec for both directions, and a scripted agent.

    with Agent(lambda notify: [set_var("txn", "score", 7)]) as agent: ...agent.port...agent.notifies...
    with Agent(script=close_after_hello) as agent: ...agent.port...

An agent calls `act` for each NOTIFY frame and acknowledges with the actions that it returns. A `script` replaces the whole conversation of a
connection; the functions at the end are scripts, one for each way an agent can fail.
"""
import contextlib
import dataclasses
import ipaddress
import itertools
import socket
import struct
import threading
import time
import typing

from lib.origin import Server, end_with_reset
from lib.program import wait_until

HAPROXY_HELLO, HAPROXY_DISCONNECT, NOTIFY = 1, 2, 3
AGENT_HELLO, AGENT_DISCONNECT, ACK = 101, 102, 103
FIN, ABORT = 1, 2
KINDS = ["null", "bool", "int32", "uint32", "int64", "uint64", "ipv4", "ipv6", "string", "binary"]
SCOPES = ["proc", "sess", "txn", "req", "res"]


class Malformed(Exception):
    """Bytes that are not valid SPOP."""


class Value(typing.NamedTuple):
    """A typed value: its kind, one of `KINDS`, and the value as an object of Python. A number as kind is written alone, without data."""
    kind: str | int
    value: object


# Encoding.

def varint(number):
    """A variable-length integer (3.1). Negative numbers are sent as their 64 bits."""
    number &= (1 << 64) - 1
    if number < 240:
        return bytes([number])
    encoded, number = bytearray([number & 255 | 240]), (number - 240) >> 4
    while number >= 128:
        encoded.append(number & 255 | 128)
        number = (number - 128) >> 7
    encoded.append(number)
    return bytes(encoded)


def string(text):
    """A string without a type: its length and its bytes."""
    data = text.encode() if isinstance(text, str) else text
    return varint(len(data)) + data


def typed(value):
    """Typed data. An object of Python that is not a [`Value`] has the obvious kind; an int is an int64."""
    if not isinstance(value, Value):
        value = Value({type(None): "null", bool: "bool", int: "int64", str: "string", bytes: "binary", ipaddress.IPv4Address: "ipv4",
                       ipaddress.IPv6Address: "ipv6"}[type(value)], value)
    if isinstance(value.kind, int):
        return bytes([value.kind])
    kind = KINDS.index(value.kind)
    if value.kind == "null":
        return bytes([kind])
    if value.kind == "bool":
        return bytes([kind | (16 if value.value else 0)])
    if value.kind in ("ipv4", "ipv6"):
        return bytes([kind]) + value.value.packed
    if value.kind in ("string", "binary"):
        return bytes([kind]) + string(value.value)
    return bytes([kind]) + varint(value.value)


def pairs(items):
    """A KV-LIST, from a dict or a list of pairs."""
    return b"".join(string(name) + typed(value) for name, value in (items.items() if isinstance(items, dict) else items))


def set_var(scope, name, value):
    """The action set-var (3.4). The scope is one of `SCOPES`, or a number."""
    return bytes([1, 3, SCOPES.index(scope) if isinstance(scope, str) else scope]) + string(name) + typed(value)


def unset_var(scope, name):
    """The action unset-var (3.4)."""
    return bytes([2, 2, SCOPES.index(scope) if isinstance(scope, str) else scope]) + string(name)


def message(name, arguments=()):
    """A message of a NOTIFY frame, from its name and a list of pairs."""
    return string(name) + bytes([len(arguments)]) + pairs(arguments)


# Decoding.

class Reader:
    """Reads values from bytes. Raises [`Malformed`] where they end early or are not valid."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def __bool__(self):
        return self.at < len(self.data)

    def take(self, count):
        """The next bytes."""
        if self.at + count > len(self.data):
            raise Malformed(f"{count} bytes expected, {len(self.data) - self.at} left")
        self.at += count
        return self.data[self.at - count:self.at]

    def varint(self):
        """An unsigned number."""
        number = self.take(1)[0]
        if number < 240:
            return number
        for shift in itertools.count(4, 7):
            if shift > 63:
                raise Malformed("a varint of more than 64 bits")
            byte = self.take(1)[0]
            number += byte << shift
            if byte < 128:
                return number

    def string(self):
        """A string without a type, as bytes."""
        return self.take(self.varint())

    def typed(self):
        """A [`Value`]."""
        byte = self.take(1)[0]
        kind, flags = byte & 15, byte >> 4
        if kind >= len(KINDS):
            raise Malformed(f"type {kind}")
        kind = KINDS[kind]
        if kind == "null":
            return Value(kind, None)
        if kind == "bool":
            return Value(kind, bool(flags & 1))
        if kind == "ipv4":
            return Value(kind, ipaddress.IPv4Address(self.take(4)))
        if kind == "ipv6":
            return Value(kind, ipaddress.IPv6Address(self.take(16)))
        if kind == "string":
            return Value(kind, self.string().decode("latin-1"))
        if kind == "binary":
            return Value(kind, self.string())
        number, bits = self.varint(), 32 if kind.endswith("32") else 64
        if not kind.startswith("u"):
            number = (number + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
        return Value(kind, number)

    def pairs(self, count=None):
        """A KV-LIST up to the end, or of a number of pairs: a list of names and values."""
        found = []
        while self if count is None else len(found) < count:
            found.append((self.string().decode("latin-1"), self.typed()))
        return found

    def messages(self):
        """A LIST-OF-MESSAGES: pairs of a name and a list of arguments."""
        found = []
        while self:
            name, count = self.string().decode("latin-1"), self.take(1)[0]
            found.append((name, self.pairs(count)))
        return found

    def actions(self):
        """A LIST-OF-ACTIONS: tuples ("set-var", scope, name, value) and ("unset-var", scope, name)."""
        found = []
        while self:
            kind, count, scope = self.take(3)
            if (kind, count) not in ((1, 3), (2, 2)) or scope >= len(SCOPES):
                raise Malformed(f"action {kind} of {count} arguments in scope {scope}")
            name = self.string().decode("latin-1")
            found.append(("set-var", SCOPES[scope], name, self.typed()) if kind == 1 else ("unset-var", SCOPES[scope], name))
        return found


@dataclasses.dataclass
class Frame:
    """One frame. `at` is the time of its arrival, of time.monotonic(); `session` the number of its connection, from 1."""
    kind: int
    payload: bytes = b""
    stream: int = 0
    frame: int = 0
    flags: int = FIN
    session: int = 0
    at: float = 0.0

    def encode(self):
        """The bytes of the frame, with its length."""
        data = bytes([self.kind]) + struct.pack(">I", self.flags) + varint(self.stream) + varint(self.frame) + self.payload
        return struct.pack(">I", len(data)) + data

    @staticmethod
    def decode(data):
        """The frame of these bytes, without its length."""
        reader = Reader(data)
        kind, [flags], stream, frame = reader.take(1)[0], struct.unpack(">I", reader.take(4)), reader.varint(), reader.varint()
        return Frame(kind, data[reader.at:], stream, frame, flags)

    @property
    def items(self):
        """The KV-LIST of a HELLO or DISCONNECT: names and values of Python."""
        return {name: value.value for name, value in Reader(self.payload).pairs()}

    @property
    def messages(self):
        """The messages of a NOTIFY, each a name and a list of pairs of a name and a [`Value`]."""
        return Reader(self.payload).messages()

    @property
    def names(self):
        """The names of the messages of a NOTIFY."""
        return [name for name, _ in self.messages]

    @property
    def arguments(self):
        """The named arguments of all messages of a NOTIFY, as values of Python."""
        return {name: value.value for _, arguments in self.messages for name, value in arguments}

    @property
    def actions(self):
        """The actions of an ACK."""
        return Reader(self.payload).actions()


class Conversation:
    """One connection from the agent's side. `number` counts from 1. `ending` is "close", "reset" or "disconnect" once the peer ended it."""

    def __init__(self, agent, connection, number):
        self.agent, self.connection, self.number, self.held, self.lock = agent, connection, number, b"", threading.Lock()
        self.hello = None
        self.ending = None

    def exactly(self, count):
        """Exactly this number of bytes. Fewer at the end of the connection."""
        while len(self.held) < count:
            try:
                more = self.connection.recv(65536)
            except ConnectionResetError:
                self.ending = "reset"
                break
            if not more:
                self.ending = "close"
                break
            self.held += more
        taken, self.held = self.held[:count], self.held[count:]
        return taken

    def read(self):
        """The next frame, recorded. None at the end of the connection."""
        length = self.exactly(4)
        if len(length) < 4:
            return None
        data = self.exactly(struct.unpack(">I", length)[0])
        frame = Frame.decode(data)
        frame.session, frame.at = self.number, time.monotonic()
        self.agent.frames.append(frame)
        return frame

    def send(self, data):
        """Sends a frame or bytes."""
        with self.lock:
            self.connection.sendall(data.encode() if isinstance(data, Frame) else data)

    def next_notify(self):
        """The next NOTIFY. A HAPROXY-DISCONNECT is answered. None at the end of the connection."""
        while frame := self.read():
            if frame.kind == NOTIFY:
                return frame
            if frame.kind == HAPROXY_DISCONNECT:
                self.ending = "disconnect"
                with contextlib.suppress(OSError):
                    self.disconnect(0, "bye")
                return None
        return None

    def read_hello(self):
        """The HAPROXY-HELLO. None at the end of the connection."""
        self.hello = self.read()
        return self.hello

    def greet(self):
        """Reads the HAPROXY-HELLO and answers with the agent's. False for a health check and at the end of the connection."""
        if not self.read_hello():
            return False
        self.send(self.agent.hello(self.hello.items))
        return not self.hello.items.get("healthcheck")

    def ack(self, notify, *actions, stream=None, frame=None, flags=FIN):
        """Acknowledges a NOTIFY."""
        self.send(self.ack_frame(notify, *actions, stream=stream, frame=frame, flags=flags))

    def ack_frame(self, notify, *actions, stream=None, frame=None, flags=FIN):
        """The ACK of a NOTIFY, also with other identifiers."""
        return Frame(ACK, b"".join(actions), notify.stream if stream is None else stream, notify.frame if frame is None else frame, flags)

    def disconnect(self, code, text="", **more):
        """Sends AGENT-DISCONNECT."""
        self.send(Frame(AGENT_DISCONNECT, pairs({"status-code": Value("uint32", code), "message": text, **more})))

    def reset(self):
        """Ends the connection with a reset."""
        end_with_reset(self.connection)

    def hang(self):
        """Records frames until the peer ends the connection."""
        while self.read():
            pass

    def serve(self):
        """Answers each NOTIFY with the actions of the agent."""
        if self.greet():
            while notify := self.next_notify():
                self.answer(notify)

    def answer(self, notify):
        """Answers one NOTIFY, after the agent's delay."""
        def after_delay():
            actions = self.agent.act(notify) if self.agent.act else []
            with contextlib.suppress(OSError):
                self.ack(notify, *actions)
        if self.agent.delay:
            timer = threading.Timer(self.agent.delay, after_delay)
            timer.daemon = True
            timer.start()
        else:
            after_delay()


class Agent(Server):
    """A SPOP agent.

    `act` is called for each NOTIFY, a [`Frame`], and returns a list of actions. `script` is called for each connection, a [`Conversation`],
    instead. `items` replaces or adds items of AGENT-HELLO; an item of None is left out. `delay` is in seconds; frames are then answered
    concurrently. `frames` has all received frames, `conversations` the connections."""

    def __init__(self, act=None, script=None, items=None, delay=0, **options):
        self.act, self.script, self.items, self.delay = act, script or Conversation.serve, items or {}, delay
        self.frames, self.conversations = [], []
        super().__init__(**options)

    def hello(self, offered):
        """The AGENT-HELLO for these items of HAPROXY-HELLO."""
        items = {"version": "2.0", "max-frame-size": Value("uint32", offered.get("max-frame-size", 16380)), "capabilities": "pipelining"}
        items.update(self.items)
        return Frame(AGENT_HELLO, pairs({name: value for name, value in items.items() if value is not None}))

    def serve(self, connection):
        conversation = Conversation(self, connection, len(self.conversations) + 1)
        self.conversations.append(conversation)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.script(conversation)

    def of_kind(self, kind):
        """The received frames of this kind."""
        return [frame for frame in list(self.frames) if frame.kind == kind]

    @property
    def notifies(self):
        """The received NOTIFY frames."""
        return self.of_kind(NOTIFY)

    @property
    def hellos(self):
        """The items of each received HAPROXY-HELLO."""
        return [frame.items for frame in self.of_kind(HAPROXY_HELLO)]

    @property
    def disconnects(self):
        """Status code and message of each received HAPROXY-DISCONNECT."""
        return [(frame.items.get("status-code"), frame.items.get("message")) for frame in self.of_kind(HAPROXY_DISCONNECT)]

    @property
    def messages(self):
        """The names of the messages of each NOTIFY, in the order of arrival."""
        return [name for frame in self.notifies for name in frame.names]

    def wait_for(self, count, seconds=5.0):
        """Waits for this number of NOTIFY frames, and returns them."""
        assert wait_until(lambda: len(self.notifies) >= count, seconds), f"{len(self.notifies)} of {count} NOTIFY frames"
        return self.notifies


# Scripts: the ways in which an agent fails.

def close_at_once(talk):
    """Closes without reading."""


def reset_at_once(talk):
    """Resets without reading."""
    talk.reset()


def close_after_hello(talk):
    """Closes after HAPROXY-HELLO, without an answer."""
    talk.read_hello()


def hang_before_hello(talk):
    """Never answers HAPROXY-HELLO."""
    talk.hang()


def half_hello(talk):
    """Sends half of AGENT-HELLO, and hangs."""
    hello = talk.agent.hello(talk.read_hello().items).encode()
    talk.send(hello[:len(hello) // 2])
    talk.hang()


def half_hello_and_close(talk):
    """Sends half of AGENT-HELLO, and closes."""
    hello = talk.agent.hello(talk.read_hello().items).encode()
    talk.send(hello[:len(hello) // 2])


def split_hello(talk):
    """Sends AGENT-HELLO byte by byte, and serves."""
    offered = talk.read_hello()
    if not offered:
        return
    for byte in talk.agent.hello(offered.items).encode():
        talk.send(bytes([byte]))
        time.sleep(0.001)
    while notify := talk.next_notify():
        talk.answer(notify)


def hello_of(items):
    """Answers HAPROXY-HELLO with these items, changed as in [`Agent`]."""
    def script(talk):
        offered = talk.read_hello()
        if not offered:
            return
        sent = {"version": "2.0", "max-frame-size": Value("uint32", offered.items["max-frame-size"]), "capabilities": "pipelining", **items}
        talk.send(Frame(AGENT_HELLO, pairs({name: value for name, value in sent.items() if value is not None})))
        while notify := talk.next_notify():
            talk.answer(notify)
    return script


def hello_with(kind=AGENT_HELLO, stream=0, frame=0, flags=FIN, payload=None):
    """Answers HAPROXY-HELLO with a frame that differs in these parts."""
    def script(talk):
        offered = talk.read_hello()
        if not offered:
            return
        right = talk.agent.hello(offered.items)
        talk.send(Frame(kind, right.payload if payload is None else payload, stream, frame, flags))
        while notify := talk.next_notify():
            talk.answer(notify)
    return script


def disconnect_at_hello(code, text="no"):
    """Answers HAPROXY-HELLO with AGENT-DISCONNECT, and closes."""
    def script(talk):
        if talk.read_hello():
            talk.disconnect(code, text)
    return script


def hello_then(then):
    """Answers HAPROXY-HELLO, and calls a function with the first NOTIFY."""
    def script(talk):
        if talk.greet() and (notify := talk.next_notify()):
            then(talk, notify)
    return script


def notify_then(then):
    """Like [`hello_then`], and serves the rest of the connection."""
    def script(talk):
        if talk.greet() and (notify := talk.next_notify()):
            then(talk, notify)
            while notify := talk.next_notify():
                talk.answer(notify)
    return script


def disconnect_after_notify(code, text="no", close=False):
    """Answers the first NOTIFY with AGENT-DISCONNECT, and closes at once or after the peer."""
    return hello_then(lambda talk, notify: (talk.disconnect(code, text), close or talk.hang()))


def half_ack(talk, notify):
    """Sends the first half of an ACK."""
    ack = talk.ack_frame(notify, set_var("txn", "score", 7)).encode()
    talk.send(ack[:len(ack) // 2])


def split_ack(talk, notify):
    """Sends an ACK byte by byte."""
    for byte in talk.ack_frame(notify, set_var("txn", "score", 7)).encode():
        talk.send(bytes([byte]))
        time.sleep(0.002)


def ack_with(*actions, **changes):
    """Answers each NOTIFY with an ACK of these actions, and with other identifiers or flags."""
    def script(talk):
        if talk.greet():
            while notify := talk.next_notify():
                talk.ack(notify, *actions, **changes)
    return script


def hang_after_notify(talk):
    """Never answers the first NOTIFY."""
    if talk.greet():
        talk.hang()


def ack_twice(talk):
    """Acknowledges each NOTIFY twice."""
    if talk.greet():
        while notify := talk.next_notify():
            talk.send(talk.ack_frame(notify, set_var("txn", "score", 7)).encode() * 2)


def backwards(count):
    """Acknowledges the first NOTIFY, and then groups of this number of frames, the last one first."""
    def script(talk):
        if talk.greet() and (notify := talk.next_notify()):
            talk.answer(notify)
            held = []
            while notify := talk.next_notify():
                held.append(notify)
                if len(held) == count:
                    while held:
                        talk.answer(held.pop())
    return script
