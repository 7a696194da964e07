"""A scripted name server: correct, wrong, late, oversized or missing answers."""
import socket
import struct
import threading
import time

from lib.origin import Server
from lib.tls import SecureServer

A, CNAME, AAAA, SRV, OPT = 1, 5, 28, 33, 41
KINDS = {A: "A", AAAA: "AAAA", SRV: "SRV", CNAME: "CNAME"}


def wire(name):
    """A name in wire format."""
    return b"".join(bytes([len(label)]) + label.encode("latin-1") for label in name.split(".") if label) + b"\0"


def read_name(message, at):
    """The uncompressed name at `at`, with its original case, and the offset after it."""
    labels = []
    while message[at]:
        length = message[at]
        labels.append(message[at + 1:at + 1 + length].decode("latin-1"))
        at += 1 + length
    return ".".join(labels), at + 1


def address(text):
    """An address in wire format."""
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


def record(owner, kind, data, ttl=60):
    """A resource record. An owner of None is the name of the query."""
    owner = b"\xc0\x0c" if owner is None else wire(owner)
    return owner + struct.pack(">HHIH", kind, 1, ttl, len(data)) + data


def addresses(*texts):
    """Address records for the name of the query."""
    return [record(None, AAAA if ":" in text else A, address(text)) for text in texts]


def service(target, port, weight=10, priority=1):
    """A record of a service."""
    return record(None, SRV, struct.pack(">HHH", priority, weight, port) + wire(target))


class Query:
    """A parsed query."""

    def __init__(self, message, over, sender):
        self.identifier = message[:2]
        self.written, end = read_name(message, 12)
        self.name = self.written.lower()
        self.kind = struct.unpack(">H", message[end:end + 2])[0]
        self.question = message[12:end + 4]
        self.size = struct.unpack(">H", message[end + 7:end + 9])[0] if len(message) > end + 9 else None
        self.over, self.sender, self.time = over, sender, time.monotonic()

    def answer(self, records=(), code=0, additional=(), flags=0x8180, question=None, identifier=None):
        """The answer with these records."""
        head = (identifier or self.identifier) + struct.pack(">HHHHH", flags | code, 1, len(records), 0, len(additional))
        return head + (question or self.question) + b"".join(records) + b"".join(additional)


class NameServer:
    """Answers from `zone`, which maps (name, kind) to a list of addresses, a response code, or a function of the query
    that returns bytes, a list of several answers, or None for silence. Names outside the zone do not exist. `tcp` is
    the TCP server, a [`SecureServer`] with `certificate` (a file with its key)."""

    def __init__(self, zone=None, port=0, host="127.0.0.1", certificate=None):
        self.zone = dict(zone or {})
        self.queries = []
        options = {"serve": self.serve_connection, "port": port, "host": host}
        while True:
            self.tcp = SecureServer(certificate, **options) if certificate else Server(**options)
            self.port = self.tcp.port
            self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            try:
                self.udp.bind((host, self.port))
                break
            except OSError:
                self.close()
                if port:
                    raise
        threading.Thread(target=self.serve_datagrams, daemon=True).start()

    def asked(self, name=None, kind=None):
        """The queries for a name."""
        return [query for query in list(self.queries) if name in (None, query.name) and kind in (None, query.kind)]

    def reply(self, query):
        """The answers to a query."""
        self.queries.append(query)
        known = self.zone.get((query.name, query.kind))
        if known is None:
            known = [] if any(name == query.name for name, _ in self.zone) else 3
        if callable(known):
            known = known(query)
            return known if isinstance(known, list) else [known]
        if isinstance(known, int):
            return [query.answer(code=known)]
        if known and isinstance(known[0], bytes):
            return [query.answer(known)]
        return [query.answer(addresses(*known))]

    def serve_datagrams(self):
        """One datagram, one query."""
        while True:
            try:
                message, sender = self.udp.recvfrom(65536)
            except OSError:
                return
            threading.Thread(target=self.send, args=(message, sender), daemon=True).start()

    def send(self, message, sender):
        """Answers a datagram."""
        for answer in self.reply(Query(message, "udp", sender)):
            if answer is not None:
                try:
                    self.udp.sendto(answer, sender)
                except OSError:
                    pass

    def serve_connection(self, connection):
        """Serves length-prefixed queries of a connection."""
        with connection.makefile("rb") as stream:
            while len(head := stream.read(2)) == 2:
                message = stream.read(struct.unpack(">H", head)[0])
                for answer in self.reply(Query(message, "tcp", connection.getpeername())):
                    if answer is not None:
                        connection.sendall(struct.pack(">H", len(answer)) + answer)

    def close(self):
        """Closes all sockets of the name server."""
        self.udp.close()
        self.tcp.close()
