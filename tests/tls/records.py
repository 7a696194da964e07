"""A TLS client that writes its records by hand."""
import socket
import ssl


class Client:
    """OpenSSL's side of a session over a raw socket: its bytes can be cut, changed and held back."""

    def __init__(self, port, version=None, own=None, protocols=("http/1.1",), name="one.example"):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        if version:
            context.minimum_version = context.maximum_version = version
        if own:
            context.load_cert_chain(own)
        context.set_alpn_protocols(protocols)
        self.came, self.leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.session = context.wrap_bio(self.came, self.leaving, server_hostname=name)
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def step(self):
        """One step of the handshake. True when it is complete."""
        try:
            self.session.do_handshake()
            return True
        except ssl.SSLWantReadError:
            return False

    def flight(self):
        """The bytes of the next flight."""
        return self.leaving.read()

    def receive(self):
        self.came.write(self.socket.recv(65536))

    def shake(self, send=None):
        """Completes the handshake. `send` may replace the way of sending."""
        send = send or self.socket.sendall
        while True:
            over = self.step()
            send(self.flight())
            if over:
                return self
            self.receive()

    def hello(self):
        assert not self.step()
        return self.flight()

    def get(self, send=None):
        """A request; its status line."""
        self.session.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        (send or self.socket.sendall)(self.flight())
        while True:
            try:
                return self.session.read().split(b"\r\n")[0]
            except ssl.SSLWantReadError:
                self.receive()


def raw(port, said):
    """The same methods for bytes without a TLS session."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(said)
        return last_alert(connection)


def record(kind, content, version=b"\x03\x01"):
    return bytes([kind]) + version + len(content).to_bytes(2, "big") + content


def message(kind, body):
    return record(22, bytes([kind]) + len(body).to_bytes(3, "big") + body)


def vector(content, size=2):
    return len(content).to_bytes(size, "big") + content


class Hello:
    """A client's hello with parts that can be changed."""

    def __init__(self, whole):
        body = whole[9:]
        self.fixed, rest = body[:34], body[34:]
        self.session, rest = rest[1:1 + rest[0]], rest[1 + rest[0]:]
        length = int.from_bytes(rest[:2], "big")
        self.ciphers, rest = rest[2:2 + length], rest[2 + length:]
        self.compressions, rest = rest[1:1 + rest[0]], rest[1 + rest[0]:]
        rest, self.extensions = rest[2:], []
        while rest:
            length = int.from_bytes(rest[2:4], "big")
            self.extensions.append((int.from_bytes(rest[:2], "big"), rest[4:4 + length]))
            rest = rest[4 + length:]

    def without(self, *kinds):
        self.extensions = [each for each in self.extensions if each[0] not in kinds]
        return self

    def having(self, kind, content):
        self.without(kind).extensions.append((kind, content))
        return self

    def bytes(self):
        extensions = b"".join(kind.to_bytes(2, "big") + vector(content) for kind, content in self.extensions)
        body = self.fixed + vector(self.session, 1) + vector(self.ciphers) + vector(self.compressions, 1) + vector(extensions)
        return message(1, body)


def still_serves(world):
    with Client(world.port) as client:
        assert client.shake().get() == b"HTTP/1.1 200 OK"



def last_alert(connection, seconds=5):
    """Reads up to EOF. Returns the code of a final plaintext alert, None without one, or "open" if the connection stays open."""
    connection.settimeout(seconds)
    said = b""
    try:
        while more := connection.recv(65536):
            said += more
    except TimeoutError:
        return "open"
    except ConnectionResetError:
        pass
    # One byte of an encrypted record is like an alert's now and then.
    return said[-1] if said[-7:-5] == b"\x15\x03" and said[-4:-2] == b"\0\2" else None
