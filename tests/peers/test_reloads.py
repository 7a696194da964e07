"""Tables sent by a stopping process to its successor."""
import re
import signal

from lib.program import wait_until
from peers.support import Instance, Ring, assert_same, fill, other_implementation


def test_a_reload_keeps_the_counters_of_shared_tables(binary, folder):
    """A stopping process sends its tables to its successor, also without other peers in the section; tables that are not shared are lost."""
    ring = Ring(folder, "a")
    with Instance(binary, ring, "a") as former:
        fill(former, "first", 2000)
        held = former.settled()
        with Instance(binary, ring, "a", former=former) as following:
            assert wait_until(lambda: following.everything() == held), {name: len(table) for name, table in following.everything().items()}
            assert not following.entries("alone")
            assert former.program.status() == 0
            following.get("first-seen")
            assert following.entries("texts")["first-seen"]["gpc0"] == "4"


def test_a_reload_keeps_an_instance_in_sync_with_its_peers(binary, folder):
    """The next process is taught, and stays in sync with the other instances."""
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


def test_a_reload_with_changed_tables_keeps_the_compatible_entries(binary, folder):
    """A smaller table is filled with former entries, a table with one more counter has it at 0, and a table with another key type starts empty; two
    warnings."""
    ring = Ring(folder, "a")
    other = {"type integer size 100k": "type integer size 100", "type ipv6 size 10k": "type string len 40 size 10k",
             "store gpc0,gpt0,gpc1,": "store gpc0,gpt0,glitch_cnt,gpc1,"}
    with Instance(binary, ring, "a") as former:
        fill(former, "first", 300)
        held = former.settled()
        with Instance(binary, ring, "a", former=former, replaced=other) as following:
            assert former.program.status() == 0
            known = following.everything()
            assert known["texts"] == {key: {**entry, "glitch_cnt": "0"} for key, entry in held["texts"].items()}, known["texts"]
            assert known["p/counts"] == held["p/counts"] and known["wide"] == {}, known
            assert len(known["numbers"]) == 100 and known["numbers"].items() <= held["numbers"].items(), known["numbers"]
            # Counters of kept entries continue.
            following.get("first-seen")
            assert following.entries("texts")["first-seen"]["gpc0"] == "4"
            following.set("wide", "a-key", gpc0=1)
            following.program.send(signal.SIGTERM)
            assert following.program.status() is not None
            warnings = re.findall(r"peers 'p', peer 'a' (.*)", following.program.process.stdout.read())
            assert sorted(warnings) == [
                "declares table 'wide' with keys of another type or length: it is not shared.",
                "has another table 'texts': it does not store what this instance does: 'glitch_cnt'; that is not shared."], warnings


def test_haproxy_teaches_its_tables_to_the_weir_that_replaces_it(binary, folder):
    """weir replaces a running HAProxy 3.2 without losing a counter."""
    ring = Ring(folder, "a")
    with Instance(other_implementation("3.2"), ring, "a") as former:
        fill(former, "first")
        held = former.settled()
        with Instance(binary, ring, "a", former=former) as following:
            assert wait_until(lambda: following.everything() == held, 10), {name: len(table) for name, table in following.everything().items()}
