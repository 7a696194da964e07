"""Shared by the measurements of growth: the programs side by side, their CPU time, and the table of rows and exponents.

Each row has a size. Its figure is CPU time of the proxy for one unit of work. Rounds of all programs are interleaved, and the table shows
medians. The exponent compares the two largest sizes: 0 means that the figure does not grow with the size, 1 that it grows as much as the size.
"""
import atexit
import glob
import math
import os
import resource
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = tempfile.mkdtemp(prefix="growth.")
atexit.register(shutil.rmtree, WORK, ignore_errors=True)
REFERENCE = os.path.join(ROOT, "target/haproxy-3.2/haproxy")
OWN = os.path.join(ROOT, "target/release/weir")
# The beginning of each configuration.
HEAD = """
global
    nbthread 1
    stats socket {socket} mode 600 level admin
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
"""


class Proxy:
    """A running proxy with a socket for commands."""

    count = 0

    def __init__(self, binary, configuration, output=subprocess.DEVNULL):
        Proxy.count += 1
        self.socket = os.path.join(WORK, f"{Proxy.count}.sock")
        self.port = free_port()
        path = os.path.join(WORK, f"{Proxy.count}.cfg")
        with open(path, "w") as file:
            file.write(configuration.format(socket=self.socket, port=self.port))
        if os.path.isdir(binary):
            binary = glob.glob(os.path.join(binary, "**/haproxy"), recursive=True)[0]
        self.program = subprocess.Popen([binary, "-db", "-f", path], stdout=output, stderr=subprocess.DEVNULL)
        atexit.register(self.stop)
        deadline = time.monotonic() + 120
        while not self.answers():
            assert time.monotonic() < deadline and self.program.poll() is None, f"{binary} did not start"
            time.sleep(0.05)

    def answers(self):
        try:
            return "Name:" in self.command("show info")
        except OSError:
            return False

    def stop(self):
        self.program.kill()
        self.program.wait()

    def command(self, line):
        """The answer to a line of commands."""
        return read_all(self.socket, line.encode() + b"\n").decode()

    def get(self, path):
        """The size of the answer to a request."""
        return len(read_all(("127.0.0.1", self.port), f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()))

    def cpu_us(self):
        """The CPU time of all threads so far."""
        tasks = glob.glob(f"/proc/{self.program.pid}/task/*/schedstat")
        return sum(int(open(task).read().split()[0]) for task in tasks) / 1e3

    def cost_us(self, work):
        """The CPU time of some work."""
        before = self.cpu_us()
        work()
        return self.cpu_us() - before


def read_all(address, request):
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as connection:
        connection.settimeout(120)
        connection.connect(address)
        connection.sendall(request)
        parts = []
        while part := connection.recv(1 << 20):
            parts.append(part)
        return b"".join(parts)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def allow_descriptors(count):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(count, hard), hard))


def table(rows, programs, rounds):
    """Measures and prints. A row: name, sizes, a function from binary and size to (proxy, round), where round() gives a figure in us."""
    print("| row | size | " + " | ".join(programs) + " | exponents |")
    print("|---|---|" + "---|" * (len(programs) + 1))
    for name, sizes, begin in rows:
        medians = {}
        for size in sizes:
            sides = {label: begin(binary, size) for label, binary in programs.items()}
            found = {label: [] for label in programs}
            for _ in range(rounds):
                for label, (_, measured) in sides.items():
                    found[label].append(measured())
            for label, (proxy, _) in sides.items():
                proxy.stop()
                medians[label, size] = statistics.median(found[label])
            shown = " | ".join(f"{medians[label, size]:.1f}" for label in programs)
            last = size == sizes[-1] and len(sizes) > 1
            exponents = [exponent(medians, label, sizes) for label in programs] if last else []
            print(f"| {name} | {size:,} | {shown} | {' / '.join(exponents)} |", flush=True)


def exponent(medians, label, sizes):
    below, above = sizes[-2:]
    ratio = max(medians[label, above], 1e-3) / max(medians[label, below], 1e-3)
    return f"{math.log(ratio) / math.log(above / below):.2f}"
