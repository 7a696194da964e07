"""Shared parts of the peer tests: a ring, its instances, handwritten clients, and the expected content of tables."""
import os
import re
import socket
import time

from lib.archive import newer_haproxy
from lib.needs import installed
from lib.program import Program, ask, free_port, request, wait_until

CONFIGURATION = """
global
    localpeer {name}
    stats socket {cli} level admin
    hard-stop-after 20s
    {globals}
defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
peers p
{peers}
    table counts type ip size 10k expire 5m store gpc0,gpc0_rate(1m)
frontend f
    bind 127.0.0.1:{port}
    http-request track-sc0 req.hdr(x-key) table texts
    http-request sc-inc-gpc0(0)
    http-request sc-set-gpt0(0) 7
{more}
    http-request deny deny_status 429 if {{ sc_get_gpc0(0) gt {limit} }}
    http-request return status 200
backend texts
    stick-table type string len 32 size 100k expire 5m store gpc0,gpt0,gpc1,http_req_cnt,http_req_rate(5m),bytes_in_cnt peers p {together}
backend numbers
    stick-table type integer size 100k expire 5m store gpc0,gpt0 peers p
backend wide
    stick-table type ipv6 size 10k expire 5m store gpc0,conn_cnt peers p
backend alone
    stick-table type string len 32 size 10k expire 5m store gpc0
"""
RESYNC_REQUEST, HEARTBEAT = b"\0\0", b"\0\4"
TABLES = ("texts", "numbers", "wide", "p/counts")


class Ring:
    """The instances that share tables, by name and address."""

    def __init__(self, folder, *names, words="", shards=None):
        self.folder = folder
        self.words, self.shards = words, shards or {}
        self.ports = {name: free_port() for name in names}

    def lines(self, name):
        """The lines of the section, for an instance of that name."""
        if not self.words and not self.shards:
            return "\n".join(f"    peer {peer} 127.0.0.1:{port}" for peer, port in self.ports.items())
        parts = {peer: f" shard {shard}" for peer, shard in self.shards.items()}
        peers = [f"    server {peer} 127.0.0.1:{port}{parts.get(peer, '')}" if peer != name else f"    server {peer}"
                 for peer, port in self.ports.items()]
        bind = [f"    bind 127.0.0.1:{self.ports[name]}"]
        return "\n".join([*self.words.splitlines(), *bind, *peers])


class Instance:
    """One instance of a ring."""

    def __init__(self, binary, ring, name, limit=1000000, former=None, globals="", together="", more="", replaced=None):
        number = free_port()
        self.cli = os.path.join(ring.folder.path, f"cli{number}")
        self.port = former.port if former else number
        text = CONFIGURATION.format(name=name, cli=self.cli, peers=ring.lines(name), port=self.port, limit=limit,
                                    globals=globals, together=together, more=more)
        for words, others in (replaced or {}).items():
            assert words in text, words
            text = text.replace(words, others)
        after = ["-sf", str(former.program.pid)] if former else []
        self.program = Program(binary, "-db", "-f", ring.folder.file(f"{name}{number}.cfg", text), *after)

    def __enter__(self):
        self.program.__enter__()
        assert wait_until(lambda: os.path.exists(self.cli) or self.program.process.poll() is not None)
        self.program.ready(self.port)
        return self

    def __exit__(self, *_):
        self.program.__exit__()

    def ask(self, command):
        """The response to a runtime API command."""
        return ask(self.cli, command)

    def set(self, table, key, **data):
        """Sets the data of an entry."""
        words = " ".join(f"data.{name} {value}" for name, value in data.items())
        said = self.ask(f"set table {table} key {key} {words}").strip()
        assert not said, said

    def get(self, key, expected=b"200"):
        """Sends a request that is counted."""
        answer = request(self.port, request_of(key))
        assert answer.split()[1] == expected, answer

    def entries(self, table):
        """A table's entries: by key, by data type. Rates are named without their period."""
        found = {}
        for line in self.ask(f"show table {table}").splitlines():
            if line.startswith("0x"):
                words = dict(word.split("=", 1) for word in line.split(": ", 1)[1].split())
                found[words.pop("key")] = {re.sub(r"\(.*", "", name): value for name, value in words.items()
                                           if name not in ("use", "exp", "shard")}
        return found

    def everything(self):
        """The entries of all shared tables."""
        return {table: self.entries(table) for table in TABLES}

    def settled(self):
        """All entries, once the last request is counted completely. Its client receives the response before."""
        known = []

        def is_steady():
            time.sleep(0.2)
            known.append(self.everything())
            return known[-2:-1] == known[-1:]
        assert wait_until(is_steady, 10), known[-2:]
        return known[-1]


def greet(ring, words="HAProxyS 2.1\na\nb 1 1\n"):
    """Connects to instance `a` with this greeting. Returns the connection and the status."""
    connection = socket.create_connection(("127.0.0.1", ring.ports["a"]), 5)
    connection.sendall(words.encode() if isinstance(words, str) else words)
    try:
        return connection, connection.recv(4)
    except OSError:
        return connection, b""


def last_words(connection, seconds=8):
    """All bytes received until the connection is closed, without heartbeats; None if it stays open."""
    connection.settimeout(seconds)
    end, said = time.monotonic() + seconds, b""
    try:
        while time.monotonic() < end:
            more = connection.recv(65536)
            if not more:
                return said.replace(HEARTBEAT, b"")
            said += more
    except TimeoutError:
        return None
    except ConnectionResetError:
        return said.replace(HEARTBEAT, b"")
    return None


def fill(instance, mark, count=300):
    """Adds entries of every type to this instance only."""
    at = sum(mark.encode())
    for number in range(count):
        instance.set("numbers", at * 1000 + number, gpc0=number + 1, gpt0=number * 70000)
    instance.set("wide", f"2001:db8::{at:x}", gpc0=3, conn_cnt=4)
    instance.set("p/counts", f"192.0.2.{at % 250}", gpc0=5)
    instance.set("alone", mark, gpc0=1)
    for _ in range(3):
        instance.get(f"{mark}-seen")
    instance.get(f"{mark}-once")


def request_of(key):
    """Sends a request counted for a key."""
    return f"GET / HTTP/1.1\r\nHost: x\r\nX-Key: {key}\r\nConnection: close\r\n\r\n".encode()


def assert_counted(key, times, before, *instances):
    """All instances learn of so many requests, including their ends: more bytes than before. Returns the bytes.

    An update contains the whole entry: a request that is counted before the last one's end was shared would lose its
    own count."""
    found = []

    def agree():
        found[:] = [instance.entries("texts").get(key, {}) for instance in instances]
        return all(entry == found[0] for entry in found) and found[0].get("gpc0") == str(times) and int(found[0]["bytes_in_cnt"]) > before

    assert wait_until(agree), (times, before, found)
    time.sleep(0.05)
    return int(found[0]["bytes_in_cnt"])


def assert_same(one, other, seconds=15):
    """Waits until both instances have the same entries."""
    if not wait_until(lambda: one.everything() == other.everything(), seconds):
        first, second = one.everything(), other.everything()
        for table in TABLES:
            a, b = first[table], second[table]
            differing = [(key, a.get(key), b.get(key)) for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]
            assert not differing, (table, len(a), len(b), differing[:3])


def other_implementation(name):
    """The path of HAProxy 2.6 or 3.2. The older one speaks an older form of the protocol."""
    return installed("haproxy") if name == "2.6" else newer_haproxy()


def block(text, peer):
    """The block of one peer in `show peers`."""
    return next(("id=" + part for part in re.split(r"\n  0x[0-9a-f]+: id=", text) if part.startswith(f"{peer}(")), "")
