"""Servers behind weir: a TCP server that calls a function for each connection, and an HTTP/1 origin.

    with Server(lambda connection: connection.sendall(b"hello")) as server: ...server.port...
    with Origin(answer=b"HTTP/1.1 204 No Content\\r\\n\\r\\n") as origin: ...origin.requests...

Both listen from their creation to the end of the block or the process.
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
    """A TCP server. `serve` is called for each connection in a separate thread. The connection is closed when it
    returns or raises an OSError. `count` is the number of connections so far."""

    def __init__(self, serve=None, port=0, host="127.0.0.1", backlog=1000):
        self.serve = serve or self.serve
        self.host, self.backlog, self.count, self.listener, self.connections = host, backlog, 0, None, set()
        self.port = port
        self.listen()

    def serve(self, connection):
        """Closes the connection at once."""

    def listen(self):
        """Starts to listen, on the previous port if there is one."""
        OPEN.add(self)
        self.listener = self.bind()
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def bind(self):
        """A listening socket."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        return socket.create_server((self.host, self.port), family=family, backlog=self.backlog)

    def accept(self, listener):
        """Accepts connections until the listener is closed."""
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
        """Stops listening. Keeps existing connections."""
        try:
            # Wakes the thread that accepts.
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()

    def cut(self):
        """Stops listening and closes all connections."""
        self.close()
        for connection in list(self.connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Relay(Server):
    """A TCP relay to a port."""

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
        """Relays from the client to the server."""
        self.pass_on(client, server)

    def pass_on(self, source, sink):
        """Relays one direction until EOF or an error."""
        with contextlib.suppress(OSError):
            while more := source.recv(65536):
                sink.sendall(more)
            sink.shutdown(socket.SHUT_WR)


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def end_with_reset(connection):
    """Makes closing the connection send a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@dataclasses.dataclass
class Request:
    """A received request: its head without the empty line, its undecoded body, and the number of its connection, from 1."""
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
        """The value of the first header field with this name. None without one."""
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
    """The head of the next message without the empty line, and the bytes received after it. None at EOF."""
    while b"\r\n\r\n" not in held:
        if not (more := connection.recv(65536)):
            return None
        held += more
    return held.split(b"\r\n\r\n", 1)


def read_all(connection):
    """All bytes up to EOF."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def read_body(connection, head, held):
    """The undecoded body of a request, and the bytes received after it. None if the connection ends before."""
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
