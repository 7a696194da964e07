"""Shared parts of the master tests: a master, its command line, clients that count failures."""
import contextlib
import os
import signal
import socket
import subprocess
import threading

from lib.origin import read_all
from lib.program import Program, wait_until

USR2 = signal.SIGUSR2
IS_ROOT = os.geteuid() == 0


class Master(Program):
    """A master with its command line in a folder."""

    def __init__(self, binary, folder, config, *arguments, **options):
        self.folder, self.config, self.binary = folder, config, binary
        self.socket = os.path.join(folder.path, "master.sock")
        self.log = os.path.join(folder.path, "log")
        super().__init__(binary, "-W", "-S", self.socket, "-f", config, *arguments, **options)

    def __enter__(self):
        self.before = self.said().count("Loading success.") if os.path.exists(self.log) else 0
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, **self.options)
        self.pid = self.process.pid
        return self

    def __exit__(self, *_):
        for pid in self.workers() if self.process.poll() is None else []:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def said(self):
        """The output of all processes of the master."""
        with open(self.log) as log:
            return log.read()

    def served(self, count=1, seconds=10):
        """Waits until `count` loads have succeeded since the start."""
        wanted = self.before + count
        if not wait_until(lambda: self.said().count("Loading success.") >= wanted or self.process.poll() is not None, seconds):
            raise AssertionError(f"not served: {self.said()}")
        assert self.process.poll() is None, self.said()
        return self

    def ask(self, text, end=True):
        """The response of the master's runtime API."""
        return talk(self.socket, text, end)

    def reload(self):
        answer = self.ask("reload")
        assert answer.startswith("Success=1\n--\n"), answer
        return answer

    def workers(self, kind="worker"):
        """Process IDs of the master's children."""
        with open(f"/proc/{self.pid}/task/{self.pid}/children") as children:
            return [int(pid) for pid in children.read().split()]

    def current(self):
        """Process ID of the newest worker."""
        return max(self.workers())

    def descriptors(self, pid=None):
        return len(os.listdir(f"/proc/{pid or self.pid}/fd"))


def talk(path, text, end=True, seconds=10):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(seconds)
        client.connect(path)
        client.sendall(text.encode() + b"\n")
        if end:
            client.shutdown(socket.SHUT_WR)
        return read_all(client).decode(errors="replace")


def field(pid, name):
    with open(f"/proc/{pid}/status") as file:
        return next(line.split(":", 1)[1].split() for line in file if line.startswith(name + ":"))


def link(path):
    """The target of a symbolic link. Empty if it does not exist."""
    try:
        return os.readlink(path)
    except OSError:
        return ""


def alive(pid):
    """Whether a process runs; zombies do not count."""
    try:
        return field(pid, "State")[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Clients:
    """Clients that send requests as fast as possible, each on a new connection, until the end of the block. Counts failures."""

    def __init__(self, connect, count=4):
        self.connect, self.failures, self.answers, self.over = connect, [], {}, False
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(count)]

    def ask(self):
        while not self.over:
            try:
                with self.connect() as connection:
                    connection.settimeout(5)
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    answer = read_all(connection)
                status = answer.split(b" ", 2)[1:2]
                if status != [b"200"]:
                    self.failures.append(answer[:80])
                body = answer.rsplit(b"\r\n\r\n", 1)[-1].decode()
                self.answers[body] = self.answers.get(body, 0) + 1
            except (OSError, IndexError) as error:
                self.failures.append(repr(error))

    def served(self):
        """Number of responses received."""
        return sum(self.answers.values())

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over = True
        for thread in self.threads:
            thread.join(10)


@contextlib.contextmanager
def slow_client(master, port):
    """A client with an unfinished request. Returns the client and the worker that waits for it."""
    worker = master.served().current()
    with tcp(port)() as client:
        client.sendall(b"GET / HTTP/1.1\r\n")
        assert wait_until(lambda: "CurrConns: 1\n" in master.ask("@1 show info"))
        yield client, worker


def finished(client):
    """Finishes the request of a slow client. Returns the response."""
    client.sendall(b"Host: x\r\n\r\n")
    return client.recv(65536)


@contextlib.contextmanager
def quiet_client(master, port):
    """A client that keeps its connection after a response. Returns the client and its worker."""
    worker = master.served().current()
    with tcp(port)() as client:
        client.settimeout(5)
        assert asked(client).startswith(b"HTTP/1.1 200")
        yield client, worker


def asked(client):
    """The response to a complete request."""
    client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return client.recv(65536)


def tcp(port):
    return lambda: socket.create_connection(("127.0.0.1", port), 5)


def unix(address):
    def connect():
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(5)
        client.connect(address)
        return client
    return connect


def many_patterns(folder):
    """The path of a file of regular expressions that a worker reads for some tenths of a second."""
    return folder.file("patterns", "".join(f"^/{number}/(b|c)+[0-9]{{1,9}}$\n" for number in range(60_000)))



class Service:
    """A process started as a service. Its current process ID is in its pid file."""

    def __init__(self, command, folder, **options):
        self.command, self.folder, self.options = command, folder, options
        self.pid_file, self.log = (os.path.join(folder.path, name) for name in ("pid", "log"))

    def __enter__(self):
        path = os.path.join(self.folder.path, "notify")
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)
        self.manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.manager.bind(path)
        os.chmod(path, 0o666)
        self.manager.settimeout(10)
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, "NOTIFY_SOCKET": path}, **self.options)
        return self

    def __exit__(self, *_):
        self.manager.close()
        for pid in [*self.workers(), self.pid()]:
            if pid and alive(pid):
                os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def heard(self):
        """The next notification to the service manager."""
        return dict(line.split("=", 1) for line in self.manager.recv(4096).decode().splitlines())

    def pid(self):
        with contextlib.suppress(OSError, ValueError):
            with open(self.pid_file) as file:
                return int(file.read())
        return None

    def workers(self):
        pid = self.pid()
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/task/{pid}/children") as children:
                return [int(child) for child in children.read().split()]
        return []

    def said(self):
        with open(self.log) as log:
            return log.read()
