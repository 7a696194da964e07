"""Peers from the view of operators: `show peers`, traces, log lines."""
import re
import socket

from lib.log import LogServer
from lib.program import wait_until
from peers.support import Instance, Ring, assert_same, block, greet, last_words, other_implementation


def words_of(text):
    """The field names in each line of a listing, without the values and the numbers of objects."""
    lines = [re.sub(r"^\s*0x[0-9a-f]+:? ?|\[.*?\] ", "", line) for line in text.splitlines()]
    return [re.findall(r"([a-z_]+)[=:]", line) for line in lines if line.strip() and "->" not in line]


def test_show_peers_matches_haproxy(binary, folder):
    """`show peers` has the lines and field names of HAProxy 3.2: connected peers, exchanged messages."""
    ring, shown = Ring(folder, "a", "b", "c"), {}
    with Instance(binary, ring, "a") as here, Instance(other_implementation("3.2"), ring, "b") as there:
        for instance, table, key in ((here, "texts", "k"), (there, "texts", "l")):
            instance.get(key)
            instance.set(table, key, gpc1=3)
        assert_same(here, there)
        assert wait_until(lambda: "tx_hbt=0" not in block(here.ask("show peers"), "b"), 10)
        for instance, other in ((here, "b"), (there, "a")):
            shown[other] = [block(instance.ask("show peers p"), name) for name in (other, "c", "b" if other == "a" else "a")]
        for ours, theirs in zip(shown["b"], shown["a"]):
            for word in words_of(theirs)[0]:
                assert word in words_of(ours)[0], (word, ours)
            assert [line[:12] for line in ours.splitlines() if "shared tables" in line] == \
                [line[:12] for line in theirs.splitlines() if "shared tables" in line], (ours, theirs)
            assert ours.count("local_id") >= 4 and ours.count("Dictionary cache not dumped") == 4, ours
        for both in ("app_state=RUNNING", "last_status=ESTA", "(remote,active)", "state=EST", "remote_data=0x"):
            assert both in shown["b"][0] and both in shown["a"][0], (both, shown)
        assert "last_status=CONN" in shown["b"][1] and "(local,inactive)" in shown["b"][2], shown
        told = r"last_acked=[1-9]\d* last_pushed=[1-9]\d* last_get=[1-9]\d* [^\n]*\n *table:0x\w+ id=texts"
        assert wait_until(lambda: re.search(told, block(here.ask("show peers"), "b")), 10), here.ask("show peers")
        # weir defines a table when it sends its first update; the reference defines all tables at once.
        assert set(remote_data(shown["b"][0])) >= set(remote_data(shown["a"][0])) != set(), shown
        for words, answer in (("show peers none", "No such peers"), ("show peers dict none", "No such peers"),
                              ("show peers - none", "No such peers"), ("show peers", "id=p ")):
            assert answer in here.ask(words) and answer in (there.ask(words) if "-" not in words else answer), words
        assert "TX dictionary cache" in here.ask("show peers dict p")
        info = here.ask("show info")
        assert "ConnectedPeers: 1\n" in info and re.search(r"ActivePeers: [12]\n", info), info
        assert "ConnectedPeers: 1\n" in there.ask("show info")


def remote_data(text):
    """The types of data of each table that the other one has."""
    return re.findall(r"remote_data=(0x[0-9a-f]*[1-9a-f][0-9a-f]*)", text)


def test_trace_peers_shows_sessions_and_messages(binary, folder):
    """`trace peers` shows messages, sessions and malformed messages."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a") as here:
        for words in ("sink buf0", "level proto", "start now"):
            here.ask(f"trace peers {words}")
        with Instance(other_implementation("3.2"), ring, "b") as there:
            there.get("k")
            here.get("l")
            assert_same(here, there)
        connection, status = greet(ring)
        assert status == b"200\n"
        connection.sendall(b"\x0a\x80\x02\0\0")
        last_words(connection)
        connection.close()
        wanted = ("p/b : update", "p/b : table 1 up to update", "p/b : table", "resync request", "session released",
                  "p/b : Malformed in what came")
        assert wait_until(lambda: all(words in here.ask("show events buf0") for words in wanted)), here.ask("show events buf0")


def test_the_peers_listener_logs_accepted_and_refused_sessions(binary, folder):
    """`log`: accepted and refused sessions, with addresses of PROXY headers; nothing else is logged there."""
    heard = LogServer()
    ring = Ring(folder, "a", "b", words=f"log 127.0.0.1:{heard.port} local3\ndefault-bind accept-proxy\n")
    date = r"\[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d\.\d{3}\]"
    with Instance(binary, ring, "a"):
        header = "PROXY TCP4 192.0.2.7 192.0.2.8 700 800\r\n"
        session, status = greet(ring, f"{header}HAProxyS 2.1\na\nb 1 1\n")
        assert status == b"200\n", status
        # local3.info
        heard.wait_for(rf"^<158>.* 192.0.2.7:700 {date} p/1: peer 'b' connected$")
        session.close()
        heard.wait_for(rf"^<158>.* 192.0.2.7:700 {date} p/1: peer 'b' disconnected$")
        _, status = greet(ring, f"{header}HAProxyS 2.1\na\nstranger 1 1\n")
        assert status == b"504\n", status
        # local3.err
        heard.wait_for(rf"^<155>.* 192.0.2.7:700 {date} p/1: greeting refused with status 504$")
        connection, status = greet(ring)
        assert status == b"", status
        own = re.escape("%s:%d" % connection.getsockname())
        heard.wait_for(rf"^<155>.* {own} {date} p/1: Received something which does not look like a PROXY protocol header$")
        connection = socket.create_connection(("127.0.0.1", ring.ports["a"]), 5)
        connection.sendall(header.encode())
        connection.shutdown(socket.SHUT_WR)
        heard.wait_for(rf"^<155>.* 192.0.2.7:700 {date} p/1: connection closed while waiting for the greeting$")
        # No answer to an unknown connection of the header: the connection's own address.
        connection, status = greet(ring, "PROXY UNKNOWN\r\nHAProxyS 2.1\nz\nb 1 1\n")
        assert status == b"503\n", status
        own = re.escape("%s:%d" % connection.getsockname())
        heard.wait_for(rf"^<155>.* {own} {date} p/1: greeting refused with status 503$")
        assert len(heard.raw) == 6, heard.raw
