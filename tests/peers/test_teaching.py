"""Full and incremental updates in rings of old and new implementations: a starting instance is taught, changes are
pushed, with any bytes in keys."""
import base64
import contextlib
import itertools
import signal
import threading
import time

from lib.origin import Server
from lib.program import request, wait_until
from peers.support import HEARTBEAT, RESYNC_REQUEST, Instance, Ring, assert_counted, assert_same, fill, other_implementation, request_of


def teach_each_other(binary, other, folder):
    """A starting instance is taught the other's entries; later changes are pushed; a returning instance is taught
    again."""
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
            size = 0
            for turn in range(6):
                (here, there)[turn % 2].get("both")
                size = assert_counted("both", turn + 1, size, here, there)
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


def test_two_weir_instances_teach_each_other(binary, folder):
    """weir beside weir."""
    teach_each_other(binary, binary, folder)


def test_weir_and_haproxy_2_6_teach_each_other(binary, folder):
    """weir beside HAProxy 2.6."""
    teach_each_other(binary, other_implementation("2.6"), folder)


def test_weir_and_haproxy_3_2_teach_each_other(binary, folder):
    """weir beside HAProxy 3.2."""
    teach_each_other(binary, other_implementation("3.2"), folder)


def test_weir_haproxy_2_6_and_haproxy_3_2_share_entries(binary, folder):
    """weir, HAProxy 2.6 and 3.2: each pushes to the two others, and the last to start is taught."""
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


def test_keys_of_any_bytes_reach_all_peers(binary, folder):
    """Fifty tables in one section; keys with zero bytes, shorter, as long as and longer than the type: all instances have the same entries in the
    end."""
    tables = "".join(f"table t{number} type integer size 100 expire 5m store gpc0\n" for number in range(48))
    ring = Ring(folder, "a", "b", "c", "d", words="table raw type binary len 8 size 1k expire 5m store gpc0\n"
                "table long type string len 1000 size 1k expire 5m store gpc0\n" + tables)
    rules = """    http-request track-sc1 req.hdr(x-raw),b64dec table p/raw if {{ req.hdr(x-raw) -m found }}
    http-request track-sc2 req.hdr(x-key) table p/long
    http-request sc-inc-gpc0(1)
    http-request sc-inc-gpc0(2)""".replace("{{", "{").replace("}}", "}")
    raw = [b"\0", b"\0\0a", b"a\0b\0", bytes(8), bytes(range(250, 256)) + b"\0\xff", b"longer than eight"]
    names = ("p/raw", "p/long", *(f"p/t{number}" for number in range(48)))

    def everything(instance):
        return {name: instance.entries(name) for name in names}
    with Instance(binary, ring, "a", more=rules) as one, Instance(binary, ring, "b", more=rules) as two, \
            Instance(other_implementation("2.6"), ring, "c", more=rules) as old, Instance(other_implementation("3.2"), ring, "d", more=rules) as new:
        fleet = (one, two, old, new)
        for position, instance in enumerate(fleet):
            # Each key is counted once: an update from a peer's first lesson does not differ.
            for number, key in enumerate(raw):
                code = base64.b64encode(bytes([position]) + key).decode()
                answer = request(instance.port, request_of(f"k{position}{number}").replace(b"X-Key", f"X-Raw: {code}\r\nX-Key".encode()))
                assert answer.split()[1] == b"200", answer
            for length in (999, 1001):
                instance.get(str(position) * length)
            for number in range(48):
                instance.set(f"p/t{number}", position, gpc0=number + 1)
        assert wait_until(lambda: all(everything(one) == everything(other) for other in fleet), 20), \
            [{name: (everything(one)[name], everything(other)[name]) for name in names
              if everything(one)[name] != everything(other)[name]} for other in fleet]
        known = everything(one)
        # Keys are cut at eight bytes, and filled with zeros.
        expected = {(bytes([position]) + key)[:8].ljust(8, b"\0").hex().upper() for position in range(4) for key in raw}
        assert {key.upper() for key in known["p/raw"]} == expected, (known["p/raw"].keys(), expected)
        assert {len(key) for key in known["p/long"]} == {3, 999, 1000}, known["p/long"].keys()
        assert all(len(known[f"p/t{number}"]) == 4 for number in range(48))


def test_a_shard_receives_only_its_keys(binary, folder):
    """`shards` and `shard`: two instances have each key once, the third one has all of them."""
    ring = Ring(folder, "a", "b", "c", "d", words="    shards 2", shards={"b": 1, "c": 2, "d": 3})
    with Instance(binary, ring, "a") as here:
        fill(here, "early", 100)
        # They know no other peers: they do not forward updates.
        ring.ports, everybody = dict(list(ring.ports.items())[:2]), ring.ports
        with Instance(binary, ring, "b") as first:
            ring.ports = {name: everybody[name] for name in "ac"}
            with Instance(binary, ring, "c") as second:
                ring.ports = {name: everybody[name] for name in "ad"}
                with Instance(binary, ring, "d") as third:
                    fill(here, "late", 100)
                    whole = here.entries("numbers")
                    parts = lambda: [set(instance.entries("numbers")) for instance in (first, second)]
                    assert wait_until(lambda: set.union(*parts()) == set(whole), 15), [len(part) for part in parts()]
                    assert not set.intersection(*parts()) and min(map(len, parts())) > 50, [len(part) for part in parts()]
                    assert wait_until(lambda: third.entries("numbers") == whole), "a shard that is too high does not limit the keys"


def test_max_updates_at_once_still_sends_all_entries(binary, folder):
    """`tune.peers.max-updates-at-once`: an instance that sends three entries in a turn sends all of them in the end."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a", globals="tune.peers.max-updates-at-once 3") as here:
        fill(here, "first")
        with Instance(binary, ring, "b") as there:
            assert_same(here, there)
            fill(here, "second", 20)
            assert_same(here, there)
            assert len(there.entries("numbers")) == 320


class SilentPeer(Server):
    """A peer that only sends heartbeats when a full resync is requested."""

    def __init__(self, port):
        self.asked, self.beats = threading.Event(), 0
        super().__init__(port=port)

    def serve(self, connection):
        """Greets instance `a` and sends heartbeats until the connection is closed."""
        _, _, name = itertools.islice(connection.makefile("rb"), 3)
        if not name.startswith(b"a "):
            return
        connection.sendall(b"200\n")
        connection.settimeout(0.5)
        said = b""
        while True:
            with contextlib.suppress(TimeoutError):
                if not (more := connection.recv(1000)):
                    return
                said += more
                if said.startswith(RESYNC_REQUEST):
                    self.asked.set()
            connection.sendall(HEARTBEAT)
            self.beats += 1


def test_a_peer_that_ignores_a_resync_request_is_replaced_after_five_seconds(binary, folder):
    """A peer that only sends heartbeats has five seconds for a requested resync; then the next peer is tried."""
    ring = Ring(folder, "a", "b", "c")
    with Instance(binary, ring, "c") as knows:
        fill(knows, "first", 20)
        with Instance(binary, ring, "a") as here:
            assert_same(here, knows)
        silent = SilentPeer(ring.ports["b"])
        # The other peer cannot answer until the silent one received the request.
        knows.program.send(signal.SIGSTOP)
        try:
            with Instance(binary, ring, "a") as here:
                assert silent.asked.wait(5), "no peer got a resync request"
                began = time.monotonic()
                knows.program.send(signal.SIGCONT)
                assert not wait_until(lambda: here.entries("numbers"), 3.5), "another peer got a resync request, or the entries were pushed once more"
                assert_same(here, knows)
                assert 4 < time.monotonic() - began < 11 and silent.beats > 5, silent.beats
        finally:
            knows.program.send(signal.SIGCONT)
            silent.close()


def test_fifty_tables_of_one_peers_section_are_shared(binary, folder):
    """In one section, sent in turn on one connection: before the other instance starts, and while both run."""
    ring = Ring(folder, "a", "b")
    lines = "\n".join(f"    table t{number} type string len 20 size 1k expire 5m store gpc0,gpt({number % 100 + 1})" for number in range(50))
    replaced = {"    table counts": f"{lines}\n    table counts"}
    tables = lambda of: {f"t{number}": of.entries(f"p/t{number}") for number in range(50)}
    with Instance(binary, ring, "a", replaced=replaced) as here:
        for number in range(50):
            here.set(f"p/t{number}", f"key-{number}", gpc0=number + 1)
        with Instance(binary, ring, "b", replaced=replaced) as there:
            assert wait_until(lambda: tables(there) == tables(here), 15), tables(there)
            for number in reversed(range(50)):
                there.set(f"p/t{number}", f"late-{number}", gpc0=number + 100)
            assert wait_until(lambda: tables(there) == tables(here), 15), tables(here)
            assert all(len(entries) == 2 for entries in tables(here).values())
            assert tables(here)["t49"]["late-49"]["gpc0"] == "149"
