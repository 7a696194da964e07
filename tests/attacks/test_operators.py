"""Hostile operators: a client of the runtime API must not stop traffic, fill memory or crash the process by reading
slowly, by sending endless input, or by racing commands.
"""
import random
import socket
import threading
import time

from lib.program import Program, free_port

SERVERS = 1000
CONFIGURATION = """
global
    nbthread 2
    stats socket {socket} level admin
    stats maxconn 2000
    stats timeout 30s
    maxconn 3000
ring watched
    size 65536
    format raw
defaults
    mode http
    timeout connect 1s
    timeout client 5s
    timeout server 5s
frontend front
    bind 127.0.0.1:{front}
    log ring@watched local0
    option httplog
    use_backend %[path,map_beg({paths},raced)] if { path -m beg /mapped }
    http-request return status 200 content-type text/plain string ok
backend raced
    balance roundrobin
    server s1 127.0.0.1:9
backend large
""" + "".join(f"    server s{number} 127.0.0.1:9\n" for number in range(SERVERS))


class Scene:
    """weir with many servers, which answers requests without them."""

    def __init__(self, binary, folder):
        self.port, self.socket = free_port(), folder.path + "/cli.sock"
        self.paths = folder.file("paths.map", "".join(f"/mapped{number} raced\n" for number in range(1000)))
        text = CONFIGURATION.replace("{socket}", self.socket).replace("{front}", str(self.port)).replace("{paths}", self.paths)
        self.program = Program(binary, "-db", "-f", folder.file("a.cfg", text))
        self.operators = []

    def __enter__(self):
        self.program.__enter__()
        self.program.ready(self.port)
        # One answer of every kind, so that their memory is part of the baseline.
        for text in ("show stat", "show stat json", "show servers state", "show info"):
            assert self.ask(text)
        self.is_well()
        self.rest = self.program.resident_kb()
        return self

    def __exit__(self, *arguments):
        for operator in self.operators:
            operator.close()
        self.program.__exit__(*arguments)

    def connect(self, first=b""):
        operator = socket.socket(socket.AF_UNIX)
        operator.settimeout(5)
        operator.connect(self.socket)
        operator.setblocking(False)
        self.operators.append(operator)
        if first:
            operator.send(first)
        return operator

    def ask(self, text):
        with socket.socket(socket.AF_UNIX) as operator:
            operator.settimeout(10)
            operator.connect(self.socket)
            operator.sendall(text.encode() + b"\n")
            return whole(operator).decode("latin-1")

    def each(self):
        """Bytes of resident memory beyond the state at rest, for each operator."""
        return max(0, self.program.resident_kb() - self.rest) * 1024 / max(1, len(self.operators))

    def is_well(self):
        """Checks that the program is alive and answers at once."""
        assert self.program.status(0) is None, "it ended"
        for _ in range(5):
            start = time.monotonic()
            with socket.create_connection(("127.0.0.1", self.port), 2) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert client.recv(4096).startswith(b"HTTP/1.1 200 "), "no answer"
            assert time.monotonic() - start < 1, "a client waited for a second"


def whole(operator):
    """All bytes up to EOF."""
    pieces = []
    while piece := operator.recv(65536):
        pieces.append(piece)
    return b"".join(pieces)


def test_runtime_api_clients_that_do_not_read_hold_little_memory(binary, folder):
    """Answers of megabytes are generated while the operator reads: 300 operators who do not read hold one piece each,
    and get the whole answer when they read later."""
    with Scene(binary, folder) as scene:
        texts = [b"show stat", b"show stat typed", b"show stat json", b"show servers state", b"show servers conn", b"show map " + scene.paths.encode(), b"show sess", b"show info typed"]
        for number in range(300):
            scene.connect(texts[number % len(texts)] + b";" + texts[0] + b"\n")
        scene.is_well()
        time.sleep(0.3)
        held = scene.each()
        assert held < 64 * 1024, f"{held:.0f} bytes for each"
        last = scene.operators[0]
        last.settimeout(10)
        answer = whole(last)
        assert answer.count(b"\nlarge,s") == 2 * SERVERS and answer.endswith(b"\n\n"), answer[-200:]
        scene.is_well()


def test_runtime_api_connections_beyond_stats_maxconn_wait(binary, folder):
    """3,000 connections, only `stats maxconn` of them served: each costs little, and once they are closed the next one
    is answered."""
    with Scene(binary, folder) as scene:
        for number in range(3000):
            try:
                scene.connect(b"prompt\n" if number % 2 else b"")
            except OSError:
                break  # the backlog is full
        scene.is_well()
        assert scene.each() < 24 * 1024, f"{scene.each():.0f} bytes for each"
        while scene.operators:
            scene.operators.pop().close()
        assert "Name: " in scene.ask("show info")
        scene.is_well()


def test_memory_for_runtime_api_input_is_bounded(binary, folder):
    """Endless lines, payloads, words and commands, zero bytes and bytes of any value, from 50 clients of each kind at a time."""
    kinds = [
        b"x" * 300_000, b"show info;" * 30_000, b"a " * 100_000, b"\0" * 200_000, bytes(range(256)) * 800, b"\n" * 100_000,
        b"prompt\n" + b";" * 16_000 + b"\n", b"prompt i\n" + b"show cli level\n" * 20_000,
        b"add map " + b"@1 " * 5_000 + b"\n", b"set server " + b"/" * 10_000 + b" weight\n", b"\\" * 100_000,
        b"add map #0 <<\n" + b"a b\n" * 60_000, b"add map #0 <<EOF\n" + b"\n" * 200_000, b"add map #0 <<\n" + b"k" * 300_000,
    ]
    with Scene(binary, folder) as scene:
        for kind in kinds:
            for _ in range(50):
                operator = scene.connect()
                try:
                    operator.send(kind)
                except OSError:
                    pass  # hung up on meanwhile
            scene.is_well()
            while scene.operators:
                scene.operators.pop().close()
        # Each unfinished payload is held, up to the permitted size.
        assert scene.program.resident_kb() - scene.rest < 40_000, f"it grew by {scene.program.resident_kb() - scene.rest} kB"
        assert "Name: " in scene.ask("show info")
        assert scene.ask("show map #99").startswith("Unknown map identifier")


def test_ring_watchers_beyond_the_reader_limit_are_refused(binary, folder):
    """400 watchers of a ring that do not read: the last ones are refused as too many, logging continues, and once they
    leave the next watcher is served."""
    with Scene(binary, folder) as scene:
        watchers = [scene.connect(b"show events watched -w\n") for _ in range(400)]
        for _ in range(10):
            scene.is_well()
        time.sleep(0.2)
        refused = 0
        for watcher in watchers:
            try:
                refused += b"readers" in watcher.recv(200)
            except BlockingIOError:
                pass
        assert refused == 400 - 254, refused
        assert scene.each() < 64 * 1024, f"{scene.each():.0f} bytes for each"
        while scene.operators:
            scene.operators.pop().close()
        for _ in range(100):
            if "readers" not in scene.ask("show events watched"):
                break
        else:
            raise AssertionError("they are still there")
        scene.is_well()


def test_racing_runtime_api_commands_get_complete_answers(binary, folder):
    """Commands that add, delete, clear and list the same objects at the same time, on both workers, while requests use
    them."""
    commands = [
        "add server raced/r{n} 127.0.0.1:9", "enable server raced/r{n}", "disable server raced/r{n}", "del server raced/r{n}",
        "set server raced/r{n} addr 127.0.0.{n} port 9", "set weight raced/s1 {n}", "set maxconn server raced/s1 {n}",
        "show servers state raced", "show stat raced 7 -1 typed", "show servers conn raced", "show sess", "shutdown sessions server raced/s1",
        "add map {m} /mapped{n} raced", "del map {m} /mapped{n}", "set map {m} /mapped{n} large", "prepare map {m}", "commit map @{n} {m}", "clear map {m}",
        "show map {m}", "get map {m} /mapped{n}", "show map @{n} {m}", "clear counters all", "show timeline last {n} json", "show events watched",
        "trace h1 sink watched; trace h1 start now", "trace 0", "disable frontend front; enable frontend front", "wait {n}us srv-removable raced/r{n}",
    ]
    with Scene(binary, folder) as scene:
        faults, seeds, until = [], range(6), time.monotonic() + 2

        def operate(seed):
            dice = random.Random(seed)
            try:
                while time.monotonic() < until:
                    text = dice.choice(commands).format(n=dice.randrange(1, 9), m=scene.paths)
                    assert scene.ask(text).endswith("\n"), f"no whole answer to {text}"
            except (OSError, AssertionError) as fault:
                faults.append(fault)

        threads = [threading.Thread(target=operate, args=(seed,)) for seed in seeds]
        for thread in threads:
            thread.start()
        while time.monotonic() < until:
            with socket.socket() as client:
                client.settimeout(2)
                try:
                    client.connect(("127.0.0.1", scene.port))
                    client.sendall(b"GET /mapped3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                    client.recv(4096)
                except (ConnectionError, TimeoutError):
                    pass  # the frontend was disabled in that moment
        for thread in threads:
            thread.join()
        assert not faults, faults[0]
        scene.ask("enable frontend front")
        scene.is_well()
        assert scene.program.resident_kb() - scene.rest < 24_000, f"it grew by {scene.program.resident_kb() - scene.rest} kB"
