"""The servers behind weir: one that hands each connection to a function, and an HTTP/1 origin.

    with Server(lambda connection: connection.sendall(b"hello")) as server: ...server.port...
    with Origin(answer=b"HTTP/1.1 204 No Content\\r\\n\\r\\n") as origin: ...origin.requests...

Both listen as soon as they are made, and stop at the end of the block, or with the process.
"""
import base64
import contextlib
import dataclasses
import hashlib
import itertools
import re
import socket
import struct
import threading
import weakref


# The servers of this process, so that those of a test end with it (conftest.py).
OPEN = weakref.WeakSet()


class Server:
    """A TCP server. `serve` gets each connection in a thread of its own, and the connection closes when it returns or fails with an
    OSError. `count` is the number of connections so far."""

    def __init__(self, serve=None, port=0, host="127.0.0.1", backlog=1000):
        self.serve = serve or self.serve
        self.host, self.backlog, self.count, self.listener, self.connections = host, backlog, 0, None, set()
        self.port = port
        self.listen()

    def serve(self, connection):
        """Closes it at once."""

    def listen(self):
        """Begins to listen, on the former port if there was one."""
        OPEN.add(self)
        self.listener = self.bind()
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def bind(self):
        """A listening socket."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        return socket.create_server((self.host, self.port), family=family, backlog=self.backlog)

    def accept(self, listener):
        """Accepts until the listener closes."""
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            self.count += 1
            threading.Thread(target=self.one, args=(connection,), daemon=True).start()

    def one(self, connection):
        """One connection."""
        self.connections.add(connection)
        with connection:
            try:
                self.serve(connection)
            except OSError:
                pass
        self.connections.discard(connection)

    def close(self):
        """Stops to listen. Connections live on."""
        try:
            # Wakes the thread that accepts.
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()

    def cut(self):
        """Stops to listen, and ends all connections."""
        self.close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Relay(Server):
    """Passes the bytes of each connection on to a port, in both directions."""

    def __init__(self, to):
        self.to = to
        super().__init__()

    def serve(self, client):
        with socket.create_connection(("127.0.0.1", self.to)) as server:
            back = threading.Thread(target=self.pass_on, args=(server, client), daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                self.forth(client, server)
            # The last bytes of a server that closed.
            back.join()

    def forth(self, client, server):
        """The direction of the client's bytes."""
        self.pass_on(client, server)

    def pass_on(self, source, sink):
        """One direction, until its end or a failure."""
        with contextlib.suppress(OSError):
            while more := source.recv(65536):
                sink.sendall(more)
            sink.shutdown(socket.SHUT_WR)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def end_with_reset(connection):
    """The connection ends with a reset when it closes."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@dataclasses.dataclass
class Request:
    """A request as it arrived: its head without the empty line, its body undecoded, and which connection brought it, from 1 on."""
    head: bytes
    body: bytes
    connection: int

    @property
    def method(self):
        return self.head.split(b" ", 1)[0].decode("latin-1")

    @property
    def path(self):
        return self.head.split(b" ", 2)[1].decode("latin-1")

    def field(self, name):
        """The value of the first field of this name; None without one."""
        found = re.search(rb"^" + re.escape(name.encode()) + rb":[ \t]*(.*?)[ \t]*\r?$", self.head, re.M | re.I)
        return found[1].decode("latin-1") if found else None


class Origin(Server):
    """An HTTP/1 server that keeps its connections. `answer` is the response to each request: bytes, or a function of a [`Request`].
    None, or an answer with `Connection: close`, ends the connection. `requests` lists the requests, and `heads` counts the heads: also
    those of requests with an unfinished body."""

    def __init__(self, answer=OK, **options):
        self.answer, self.requests, self.heads, self.numbers = answer, [], 0, itertools.count(1)
        super().__init__(**options)

    def serve(self, connection):
        number, held = next(self.numbers), b""
        while found := read_head(connection, held):
            self.heads += 1
            head, held = found
            if not (found := read_body(connection, head, held)):
                return
            body, held = found
            request = Request(head, body, number)
            self.requests.append(request)
            answer = self.answer(request) if callable(self.answer) else self.answer
            if answer:
                connection.sendall(answer)
            if not answer or re.search(rb"^connection:[ \t]*close", answer.partition(b"\r\n\r\n")[0], re.M | re.I):
                return


def switching(request, more=""):
    """The answer that accepts a WebSocket (RFC 6455, 4.2.2)."""
    proof = hashlib.sha1((request.field("sec-websocket-key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
    return ("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"{more}Sec-WebSocket-Accept: {base64.b64encode(proof).decode()}\r\n\r\n").encode()


def read_head(connection, held=b""):
    """The head of the next message without its empty line, and the bytes behind it; None at the end of the connection."""
    while b"\r\n\r\n" not in held:
        if not (more := connection.recv(65536)):
            return None
        held += more
    return held.split(b"\r\n\r\n", 1)


def read_all(connection):
    """All bytes until the end of the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def read_body(connection, head, held):
    """The body behind a request's head, undecoded, and the bytes behind it; None if the connection ends before."""
    if re.search(rb"^expect: *100-continue", head, re.M | re.I):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if re.search(rb"^transfer-encoding:[ \t]*chunked", head, re.M | re.I):
        # The last chunk, and the trailers up to their empty line.
        ends = lambda: re.search(rb"(?:^|\r\n)0+(?:;[^\r\n]*)?\r\n(?:[^\r\n]+\r\n)*\r\n", held)
        while not (end := ends()):
            if not (more := connection.recv(65536)):
                return None
            held += more
        return held[:end.end()], held[end.end():]
    length = re.search(rb"^content-length: *(\d+)", head, re.M | re.I)
    size = int(length[1]) if length else 0
    while len(held) < size:
        if not (more := connection.recv(65536)):
            return None
        held += more
    return held[:size], held[size:]
