"""A running load balancer under test, for checks beyond varnishtest: signals, files, idle memory, raw bytes."""
import itertools
import os
import random
import selectors
import shutil
import signal
import socket
import subprocess
import time

from lib.folders import fresh_folder

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TARGET = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")))


def own_ports(first=10000, last=31999):
    """The ports reserved for this process. They are below the kernel's ephemeral ports, so outgoing connections never
    use them. Concurrent test processes have disjoint ranges."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    count = (last + 1 - first) // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return range(first + worker * count, first + (worker + 1) * count)


PORTS = own_ports()
_next_port = itertools.count(random.randrange(len(PORTS)))


def free_port():
    """An unused TCP port, a different one each time."""
    while True:
        port = PORTS[next(_next_port) % len(PORTS)]
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            continue


def wait_until(condition, seconds=5.0):
    """Polls until the condition holds. False on timeout."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def connects(port):
    """Whether a connection to the port is accepted."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def readable(sockets, seconds):
    """The readable sockets or files, as soon as there is one. Empty on timeout. Supports more than 1,024."""
    with selectors.DefaultSelector() as selector:
        for one in sockets:
            selector.register(one, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(seconds)]


def heard(connection, seconds):
    """The bytes of one receive. Empty on timeout or EOF."""
    connection.settimeout(seconds)
    try:
        return connection.recv(100)
    except TimeoutError:
        return b""


class Folder:
    """A folder for one check, removed at the end of its block. If this process is killed, the next folder's creation removes it."""

    def __enter__(self):
        self.path = fresh_folder("weir.")
        os.chmod(self.path, 0o755)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name, text=""):
        """Writes a file in the folder. Returns its path."""
        path = os.path.join(self.path, name)
        with open(path, "w") as file:
            file.write(text)
        return path


class Program:
    """A running program, killed at the end of its block."""

    def __init__(self, binary, *arguments, **options):
        self.command = [binary, *arguments]
        self.options = options

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, text=True, errors="replace", **self.options)
        self.pid = self.process.pid
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        if not self.process.stdout.closed:
            self.process.communicate()

    def ready(self, port):
        """Waits until the program listens on the port. Fails with the program's output if it exits or does not listen in time."""
        if not wait_until(lambda: connects(port) or self.process.poll() is not None) or self.process.poll() is not None:
            self.process.kill()
            raise AssertionError(f"does not listen: {self.process.communicate()[0]}")

    def send(self, number):
        """Sends a signal to the program."""
        self.process.send_signal(number)

    def status(self, seconds=5.0):
        """Waits for the exit status, negative for a signal. None on timeout."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def resident_kb(self):
        """The resident memory of the program in kB."""
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))

    def cpu_seconds(self):
        """The CPU time of the program so far."""
        with open(f"/proc/{self.pid}/stat") as file:
            user, system = file.read().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def run(binary, *arguments, seconds=10):
    """Runs a program to its end. Returns the exit status, standard output and standard error."""
    done = subprocess.run([binary, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=seconds)
    return done.returncode, done.stdout, done.stderr


def ask(path, command):
    """The response of the runtime API on the UNIX socket at this path."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(command.encode() + b"\n")
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def request(port, text=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", seconds=5.0, host="127.0.0.1"):
    """Sends bytes on a new connection. Returns the bytes received up to the end of a response head or EOF."""
    with socket.create_connection((host, port), seconds) as connection:
        connection.sendall(text)
        answer = b""
        while b"\r\n\r\n" not in answer:
            more = connection.recv(65536)
            if not more:
                break
            answer += more
        return answer


ANSWERING = """
global
    hard-stop-after 20s
    {extra}
defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
frontend f
    bind {bind}
    {frontend}
    http-request return status 200 content-type text/plain string "{text}"
"""


def answering(folder, port, text="hello", extra="maxconn 100", frontend="", name="a.cfg", bind=None):
    """The path of a configuration that answers all requests without a server."""
    bind = bind or f"127.0.0.1:{port}"
    return folder.file(name, ANSWERING.format(bind=bind, text=text, extra=extra, frontend=frontend))


def log_socket(path):
    """A socket for log lines at a path, which any user may send to."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(path)
    os.chmod(path, 0o666)
    listening.settimeout(10)
    return listening


TERM, INT, USR1, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP
