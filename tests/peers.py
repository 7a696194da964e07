#!/usr/bin/env python3
"""Stick-tables that several instances share: weir, alone and beside other implementations of the protocol, by processes.

  peers.py --bin target/release/weir [--only REGEX]
"""
import sys

from program import *  # noqa: F403

# The reference's programs, of two ages: (name, path). The older one speaks an older form of the protocol.
OTHERS = {"2.6": "/usr/sbin/haproxy", "3.2": os.environ.get("WEIR_REFERENCE", "/root/.cache/weir-reference/haproxy")}

CONFIGURATION = """
global
    localpeer {name}
    stats socket {cli} level admin
    hard-stop-after 20s
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
    http-request deny deny_status 429 if {{ sc_get_gpc0(0) gt {limit} }}
    http-request return status 200
backend texts
    stick-table type string len 32 size 100k expire 5m store gpc0,gpt0,gpc1,http_req_cnt,http_req_rate(5m),bytes_in_cnt peers p
backend numbers
    stick-table type integer size 100k expire 5m store gpc0,gpt0 peers p
backend wide
    stick-table type ipv6 size 10k expire 5m store gpc0,conn_cnt peers p
backend alone
    stick-table type string len 32 size 10k expire 5m store gpc0
"""
TABLES = ("texts", "numbers", "wide", "p/counts")


class Ring:
    """Who shares tables: names and where each listens."""

    def __init__(self, folder, *names):
        self.folder = folder
        self.ports = {name: free_port() for name in names}

    def lines(self):
        """The lines of the section."""
        return "\n".join(f"    peer {name} 127.0.0.1:{port}" for name, port in self.ports.items())


class Instance:
    """One instance of a ring."""

    def __init__(self, binary, ring, name, limit=1000000, former=None):
        number = free_port()
        self.cli = os.path.join(ring.folder.path, f"cli{number}")
        self.port = former.port if former else number
        text = CONFIGURATION.format(name=name, cli=self.cli, peers=ring.lines(), port=self.port, limit=limit)
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
        """What the program answers an operator."""
        return ask(self.cli, command)

    def set(self, table, key, **data):
        """Writes into an entry."""
        words = " ".join(f"data.{name} {value}" for name, value in data.items())
        said = self.ask(f"set table {table} key {key} {words}").strip()
        assert not said, said

    def get(self, key, expected=b"200"):
        """A request that is counted."""
        answer = request(self.port, f"GET / HTTP/1.1\r\nHost: x\r\nX-Key: {key}\r\nConnection: close\r\n\r\n".encode())
        assert answer.split()[1] == expected, answer

    def entries(self, table):
        """What a table holds: by key, by what is stored. Rates are named without their period."""
        found = {}
        for line in self.ask(f"show table {table}").splitlines():
            if line.startswith("0x"):
                words = dict(word.split("=", 1) for word in line.split(": ", 1)[1].split())
                found[words.pop("key")] = {re.sub(r"\(.*", "", name): value for name, value in words.items()
                                           if name not in ("use", "exp", "shard")}
        return found

    def everything(self):
        """What all shared tables hold."""
        return {table: self.entries(table) for table in TABLES}


def fill(instance, mark, count=300):
    """Entries of every type that only this one has."""
    at = sum(mark.encode())
    for number in range(count):
        instance.set("numbers", at * 1000 + number, gpc0=number + 1, gpt0=number * 70000)
    instance.set("wide", f"2001:db8::{at:x}", gpc0=3, conn_cnt=4)
    instance.set("p/counts", f"192.0.2.{at % 250}", gpc0=5)
    instance.set("alone", mark, gpc0=1)
    for _ in range(3):
        instance.get(f"{mark}-seen")
    instance.get(f"{mark}-once")


def assert_same(one, other, seconds=15):
    """Both come to hold the same."""
    if not wait_until(lambda: one.everything() == other.everything(), seconds):
        first, second = one.everything(), other.everything()
        for table in TABLES:
            a, b = first[table], second[table]
            differing = [(key, a.get(key), b.get(key)) for key in sorted(a.keys() | b.keys()) if a.get(key) != b.get(key)]
            assert not differing, (table, len(a), len(b), differing[:3])


def other_implementation(name):
    """The path of another implementation."""
    if not os.path.exists(OTHERS[name]):
        raise LeftOut(f"{OTHERS[name]} is not there")
    return OTHERS[name]


def teach_each_other(binary, other, folder):
    """Who starts is taught what the other one has; what changes afterwards is pushed; who comes back is taught again."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a") as here:
        with Instance(other, ring, "b") as there:
            fill(there, "first")
            assert_same(here, there)
            fill(here, "second")
            assert_same(here, there)
            assert here.entries("texts")["first-seen"]["gpc0"] == "3", here.entries("texts")
            assert there.entries("texts")["second-seen"] == here.entries("texts")["second-seen"]
            assert len(here.entries("numbers")) == 600
            # One entry that both count in, one after the other.
            for turn in range(6):
                (here, there)[turn % 2].get("both")
                wait_until(lambda: all(who.entries("texts").get("both", {}).get("gpc0") == str(turn + 1) for who in (here, there)))
            assert here.entries("texts")["both"]["gpc0"] == there.entries("texts")["both"]["gpc0"] == "6"
        held = here.everything()
        with Instance(other, ring, "b") as there:
            assert_same(here, there)
            assert there.everything() == held, "who came back was taught something else"
            assert not there.entries("alone")
            fill(there, "third", 10)
            assert_same(here, there)
            here.program.process.kill()
            here.program.process.wait()
            with Instance(binary, ring, "a") as again:
                assert_same(again, there)
                assert len(again.entries("numbers")) == 610 and not again.entries("alone")


def two_of_ours_teach_each_other(binary, folder):
    """weir beside weir."""
    teach_each_other(binary, binary, folder)


def beside_an_old_release_of_the_reference(binary, folder):
    """weir beside HAProxy 2.6."""
    teach_each_other(binary, other_implementation("2.6"), folder)


def beside_a_new_release_of_the_reference(binary, folder):
    """weir beside HAProxy 3.2."""
    teach_each_other(binary, other_implementation("3.2"), folder)


def three_implementations_in_one_ring(binary, folder):
    """weir, HAProxy 2.6 and 3.2: each pushes to the two others, and who comes last is taught."""
    old, new = other_implementation("2.6"), other_implementation("3.2")
    ring = Ring(folder, "a", "b", "c")
    with Instance(old, ring, "b") as b, Instance(new, ring, "c") as c:
        fill(b, "b", 100)
        fill(c, "c", 100)
        with Instance(binary, ring, "a") as a:
            assert_same(a, b)
            fill(a, "a", 100)
            assert_same(a, b)
            assert_same(a, c)
            assert len(a.entries("numbers")) == 300


def a_reload_keeps_what_was_counted(binary, folder):
    """The process that leaves teaches the next one, alone in its section; what is not shared is lost."""
    ring = Ring(folder, "a")
    with Instance(binary, ring, "a") as former:
        fill(former, "first", 2000)
        held = former.everything()
        with Instance(binary, ring, "a", former=former) as following:
            assert wait_until(lambda: following.everything() == held), {name: len(table) for name, table in following.everything().items()}
            assert not following.entries("alone")
            assert former.program.status() == 0
            following.get("first-seen")
            assert following.entries("texts")["first-seen"]["gpc0"] == "4"


def a_reload_in_a_ring_keeps_the_ring(binary, folder):
    """The next process is taught, and goes on with the other instances."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "b") as there, Instance(binary, ring, "a") as former:
        fill(former, "first")
        assert_same(former, there)
        with Instance(binary, ring, "a", former=former) as following:
            assert_same(following, there)
            assert former.program.status() == 0
            fill(following, "second", 20)
            fill(there, "third", 20)
            assert_same(following, there)
            assert len(there.entries("numbers")) == 340


def the_reference_teaches_what_replaces_it(binary, folder):
    """HAProxy 3.2 runs, weir takes its place: nothing that was counted is lost."""
    ring = Ring(folder, "a")
    with Instance(other_implementation("3.2"), ring, "a") as former:
        fill(former, "first")
        held = former.everything()
        with Instance(binary, ring, "a", former=former) as following:
            assert wait_until(lambda: following.everything() == held, 10), {name: len(table) for name, table in following.everything().items()}


def a_limit_counts_over_two(binary, folder):
    """Ten requests of a client are served, whoever of both serves them."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a", limit=10) as a, Instance(binary, ring, "b", limit=10) as b:
        assert wait_until(lambda: b.get("warm") or "warm" in a.entries("texts")), "they do not talk"
        for turn in range(10):
            (a, b)[turn % 2].get("client")
            same = wait_until(lambda: all(who.entries("texts").get("client", {}).get("gpc0") == str(turn + 1) for who in (a, b)))
            assert same, (a.entries("texts"), b.entries("texts"))
        a.get("client", b"429")
        assert wait_until(lambda: b.entries("texts")["client"]["gpc0"] == "11")
        b.get("client", b"429")


if __name__ == "__main__":
    sys.exit(main("peers", [sys.modules[__name__]]))
