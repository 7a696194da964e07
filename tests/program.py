"""One running load balancer under test, for the checks that varnishtest cannot write: signals, files, idle memory, raw bytes."""
import argparse
import collections
import itertools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import results
from folders import fresh_folder


# Below the ports that the kernel gives to outgoing connections: none of them can take one of ours before it is bound. Checks that run at the
# same time in other processes have other ports (tests/runner/lanes.py).
FIRST, LAST = map(int, os.environ.get("TESTS_PORTS", "10000-31999").split("-"))
PORTS = range(FIRST, LAST + 1)
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
    """Polls until the condition holds or the time is over; returns whether it held."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return bool(condition())


def connects(port):
    """Whether a listener accepts."""
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False


def heard(connection, seconds):
    """The bytes received within the time; empty without any."""
    connection.settimeout(seconds)
    try:
        return connection.recv(100)
    except TimeoutError:
        return b""


class Folder:
    """A folder for one check, removed at its end, or when the next one is made if this process is killed."""

    def __enter__(self):
        self.path = fresh_folder("weir.")
        os.chmod(self.path, 0o755)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)

    def file(self, name, text=""):
        """The path of a file in it, written with the text."""
        path = os.path.join(self.path, name)
        with open(path, "w") as file:
            file.write(text)
        return path


class Program:
    """A started program; ends with the block that it was started for."""

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
        """Waits until it listens; fails with its output otherwise."""
        if not wait_until(lambda: connects(port) or self.process.poll() is not None) or self.process.poll() is not None:
            self.process.kill()
            raise AssertionError(f"does not listen: {self.process.communicate()[0]}")

    def send(self, number):
        """Sends it a signal."""
        self.process.send_signal(number)

    def status(self, seconds=5.0):
        """Its exit status, negative for the signal that ended it; None when it is still there after the time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def resident_kb(self):
        """Its resident memory."""
        with open(f"/proc/{self.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def run(binary, *arguments, seconds=10):
    """Runs it to its end; returns the exit status, standard output and standard error."""
    done = subprocess.run([binary, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=seconds)
    return done.returncode, done.stdout, done.stderr


def ask(path, command):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(command.encode() + b"\n")
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def request(port, text=b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", seconds=5.0, host="127.0.0.1"):
    """Sends bytes on a fresh connection; everything that comes back until the answer's header section ends or it closes."""
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
    """The path of a configuration that answers all requests by itself."""
    bind = bind or f"127.0.0.1:{port}"
    return folder.file(name, ANSWERING.format(bind=bind, text=text, extra=extra, frontend=frontend))


def log_socket(path):
    """A socket for log lines at a path, which any user may send to."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.bind(path)
    os.chmod(path, 0o666)
    listening.settimeout(10)
    return listening


class LeftOut(Exception):
    """A check that cannot be made here, and why; `program NAME` where a program is missing."""


def installed(name):
    """The path of a program that is on the PATH; the check is left out when it is not."""
    path = shutil.which(name)
    if path is None:
        raise LeftOut(f"program {name}")
    return path


def needs_root():
    """Leaves the check out unless it runs as root."""
    if os.geteuid() != 0:
        raise LeftOut("root")


def alone(check):
    """Marks a check that measures time: in a whole run it waits until nothing else runs."""
    check.alone = True
    return check


def checks_of(module):
    """The checks that a module defines: its functions of a binary and a folder, in their order."""
    return [value for value in vars(module).values() if getattr(value, "__module__", "") == module.__name__
            and hasattr(value, "__code__") and value.__code__.co_varnames[:value.__code__.co_argcount] == ("binary", "folder")]


def outcome_of(check, binary):
    """Makes a check in a folder of its own: `ok`, `failed` or `left out`, and why."""
    began = time.monotonic()
    try:
        with Folder() as folder:
            check(binary, folder)
    except LeftOut as why:
        return "left out", str(why)
    except Exception as error:  # noqa: BLE001  # whatever it is, the check failed and the next one runs
        line = sys.exc_info()[2].tb_next.tb_lineno
        return "failed", f"line {line}, {time.monotonic() - began:.1f} s: {type(error).__name__} {str(error)[:1500]}"
    return "ok", ""


def main(title, modules, hold="hold"):
    """Runs the checks of modules, those that match `--only` or are named by `--exact`, `--times` times; returns the
    exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--exact", help="the name of one check")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    binary = os.path.abspath(options.bin)
    counts = collections.Counter()
    every = [check for module in modules for check in checks_of(module)]
    chosen = [check for check in every if (check.__name__ == options.exact if options.exact else re.search(options.only, check.__name__))]
    if options.list:
        print("\n".join(check.__name__ for check in chosen))
        return 0
    for check in chosen * options.times:
        began = time.monotonic()
        waits = getattr(check, "alone", False) and os.environ.get("TESTS_ALONE") == "later"
        outcome, why = ("later", "") if waits else outcome_of(check, binary)
        counts[outcome] += 1
        again = (sys.executable, os.path.abspath(sys.argv[0]), "--bin", binary, "--exact", check.__name__)
        results.record(check.__name__, outcome, time.monotonic() - began, why, again)
        if outcome in ("failed", "left out"):
            print(f"{outcome.replace('failed', 'FAILED')} {check.__name__.replace('_', ' ')}: {why}", flush=True)
    print(f"{title}: {counts['ok']} of {counts.total()} {hold}" + (f", {counts['later']} wait for a quiet machine" if counts["later"] else ""))
    if not counts.total():
        print(f"{title}: FAILED, no check has such a name")
    return 1 if counts["failed"] or not counts.total() else 0


TERM, INT, USR1, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP
