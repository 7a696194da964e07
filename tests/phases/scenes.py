"""One stream per case, with an event in each phase: the bytes exchanged, the side that closes, the timeout that
expires, the log line.

A case is a row: lines of a `listen` section, the server's script, the client's script, and the results. Client and
server are scripts of words, methods of `Peer` and texts of `TEXTS`.
"""
import concurrent.futures
import os
import re
import socket
import threading
import time

from lib.http2 import FramePeer
from lib.origin import end_with_reset
from lib.program import Program, free_port, wait_until

DEFAULTS = """
global
    nbthread {threads}
    log 127.0.0.1:{log} local0
    stats socket {folder}/cli level admin
defaults
    mode http
    log global
    log-format "{name} %ST %tsc %rc %s %B"
    timeout connect 5s
    timeout client 5s
    timeout server 5s
    timeout queue 5s
    timeout http-request 5s
    timeout http-keep-alive 1s
    retries 1
"""

# The texts of scripts. `:text` sends a text of its own.
TEXTS = {
    "get": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "delete": "DELETE / HTTP/1.1\r\nHost: x\r\n\r\n",
    "post": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n",
    "postchunked": "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
    "postlong": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 8000000\r\n\r\n",
    "ok": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "okclose": "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
    "oklong": "HTTP/1.1 200 OK\r\nContent-Length: 8000000\r\n\r\n",
    "okten": "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
    "okend": "HTTP/1.1 200 OK\r\n\r\nabc",
    "okchunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    "cut": "HTTP/1.1 200 OK\r\nConte",
    "first": "H",
    "junk": "this is no answer\r\n\r\n",
    "continue": "HTTP/1.1 100 Continue\r\n\r\n",
    "switch": "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "upgrade": "GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    "three": "abc",
    "ten": "0123456789",
    "long": "x" * 8_000_000,
}
PATIENCE = 8.0


class Peer(FramePeer):
    """A client or a server that plays a script. `seen` lists its observations, in words."""

    def __init__(self, connection, news):
        self.connection = connection
        self.news = news
        self.connection.settimeout(PATIENCE)
        self.held = b""
        self.seen = []

    def play(self, script):
        """Runs the script's words, until one fails."""
        try:
            for word in script:
                name, _, argument = word.partition("=")
                if name.startswith(":"):
                    self.send(word[1:].encode().decode("unicode_escape").encode("latin-1"))
                elif name in TEXTS:
                    self.send(TEXTS[name].encode("latin-1"))
                else:
                    getattr(self, name)(*filter(None, [argument]))
        except Ended as how:
            self.seen.append(str(how))
        except OSError as error:
            self.seen.append(type(error).__name__)
        finally:
            self.connection.close()
        return " ".join(self.seen)

    def send(self, data):
        """Sends as much as the peer accepts."""
        try:
            self.connection.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            raise Ended("sent-in-vain") from None

    def more(self):
        """Receives bytes. Ends the script at EOF or reset."""
        try:
            data = self.connection.recv(1 << 18)
        except ConnectionResetError:
            raise Ended("RST") from None
        except TimeoutError:
            raise Ended("nothing") from None
        if not data:
            raise Ended("FIN")
        self.held += data

    def head(self):
        """Reads a head. Notes the status or the method of its first line."""
        while b"\r\n\r\n" not in self.held:
            self.more()
        head, self.held = self.held.split(b"\r\n\r\n", 1)
        words = head.decode("latin-1").split()
        self.seen.append(words[1] if words[0].startswith("HTTP/") else words[0])

    def bytes(self, count):
        """Reads up to this number of bytes. Notes the number received."""
        try:
            while len(self.held) < int(count):
                self.more()
        finally:
            self.seen.append(str(min(len(self.held), int(count))))
        self.held = self.held[int(count):]

    def answer(self):
        """Reads a final response head, and its body by its length or up to EOF."""
        while True:
            while b"\r\n\r\n" not in self.held:
                self.more()
            head, self.held = self.held.split(b"\r\n\r\n", 1)
            status = head.decode("latin-1").split()[1]
            self.seen.append(status)
            if not status.startswith("1") or status == "101":
                break
        length = re.search(rb"content-length: *(\d+)", head, re.I)
        if length:
            # Skip the text of an error page.
            if status[0] in "45":
                while len(self.held) < int(length[1]):
                    self.more()
                self.held = self.held[int(length[1]):]
            else:
                self.bytes(length[1])

    def rest(self):
        """Reads up to EOF or reset. Notes the number of bytes, if any, and the kind of close."""
        count = len(self.held)
        try:
            while True:
                self.held = b""
                self.more()
                count += len(self.held)
        except Ended as how:
            self.seen += [str(count)] * (count > 0) + [str(how)]
        self.held = b""

    def fin(self):
        """Half-closes."""
        try:
            self.connection.shutdown(socket.SHUT_WR)
        except OSError:
            raise Ended("closed") from None

    def close(self):
        """Closes."""
        self.connection.close()
        raise Ended("")

    def rst(self):
        """Resets the connection."""
        end_with_reset(self.connection)
        self.connection.close()
        raise Ended("")

    def tell(self):
        """Signals the peer on the other side of the proxy."""
        self.news.release()

    def told(self):
        """Waits for a signal of the peer on the other side of the proxy."""
        self.news.acquire(timeout=PATIENCE)

    def slow(self, argument):
        """Sends this number of bytes, one every 100 ms."""
        for _ in range(int(argument)):
            time.sleep(0.1)
            self.send(b"x")

    def pause(self, argument):
        """Pauses for this number of milliseconds."""
        time.sleep(int(argument) / 1000)

    def small(self):
        """Takes little at a time."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)


class Ended(Exception):
    """The connection was closed by the peer. Contains the kind of close."""


class Server:
    """Plays one script per connection, in order. Later connections repeat the last one."""

    def __init__(self, scripts):
        self.scripts = scripts
        self.news = threading.Semaphore(0)
        self.listener = socket.socket()
        if "small" in scripts[0]:
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(16)
        self.port = self.listener.getsockname()[1]
        self.players = []
        self.accepted = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        """Accepts connections, each in a separate thread."""
        while True:
            connection, _ = self.listener.accept()
            script = self.scripts[min(self.accepted, len(self.scripts) - 1)]
            peer = Peer(connection, self.news)
            thread = threading.Thread(target=peer.play, args=(script,), daemon=True)
            self.accepted += 1
            self.players.append((peer, thread))
            thread.start()

    def seen(self):
        """The observations of each connection, once all are closed."""
        for _, thread in list(self.players):
            wait_until(lambda: thread.ident)
            thread.join(PATIENCE)
        return " | ".join(" ".join(filter(None, peer.seen)) for peer, _ in self.players)


class Log:
    """Log lines received, by case name."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.lines = {}
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        """Receives log lines."""
        while True:
            text = self.socket.recv(65536).decode("latin-1")
            words = re.sub(r"^<\d+>.*?\]: ", "", text).split()
            self.lines.setdefault(words[0], []).append(" ".join(words[1:]))


class World:
    """A program that serves all cases, one section each."""

    def __init__(self, binary, cases, folder, name):
        self.log = Log()
        self.servers, self.ports = {}, {}
        configuration = DEFAULTS.format(log=self.log.port, folder=folder.path, threads=1, name="%f")
        for case in cases:
            self.servers[case.name] = Server(case.server)
            self.ports[case.name] = free_port()
            lines = case.lines.replace("@server@", f"127.0.0.1:{self.servers[case.name].port}").replace("@closed@", f"127.0.0.1:{free_port()}")
            server = "" if "server " in lines.replace("timeout server ", "") else f"\n    server s 127.0.0.1:{self.servers[case.name].port}"
            configuration += f"listen {case.name}\n    bind 127.0.0.1:{self.ports[case.name]}\n    {lines}{server}\n".replace("; ", "\n    ")
        self.program = Program(binary, "-f", folder.file(name, configuration))

    def play(self, case):
        """Plays a case. Returns the observations of the client, of the server and in the log, and the duration."""
        with socket.socket() as client:
            if "small" in case.client:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            began = time.monotonic()
            client.connect(("127.0.0.1", self.ports[case.name]))
            peer = Peer(client, self.servers[case.name].news)
            seen = " ".join(filter(None, peer.play(case.client).split()))
            took = time.monotonic() - began
        server = self.servers[case.name].seen()
        logged = self.log.lines.setdefault(case.name, [])
        end = time.monotonic() + 3
        while len(logged) < case.logged.count("/") + (case.logged != "") and time.monotonic() < end:
            time.sleep(0.01)
        return seen, server, " / ".join(logged), took


def play_all(binary, cases, folder, name):
    """The outcomes of all cases by their names."""
    world = World(binary, cases, folder, name)
    with world.program as program:
        if not wait_until(lambda: os.path.exists(f"{folder.path}/cli") or program.process.poll() is not None) or program.status(0) is not None:
            raise AssertionError(program.process.communicate()[0])
        with concurrent.futures.ThreadPoolExecutor(32) as pool:
            return dict(zip((case.name for case in cases), pool.map(world.play, cases)))


def is_wrong(case, outcome):
    """Whether the outcome of a case is not the expected one."""
    expected = [case.client_sees, case.server_sees, case.logged]
    # The number of bytes in socket buffers before the close is noticed varies.
    differs = any(want not in (got, "*") for want, got in zip(expected, outcome))
    return differs or outcome[3] < case.least - 0.02
