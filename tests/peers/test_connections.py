"""Connections of peers: TLS, PROXY headers, unknown peers, and malformed messages."""
import os
import re
import time

from lib.program import wait_until
from lib.tls import Authority
from peers.support import HEARTBEAT, Instance, Ring, assert_same, fill, greet, last_words, other_implementation


def test_peers_share_entries_over_tls(binary, folder):
    """`default-bind ssl` and `default-server ssl`: weir and HAProxy 3.2 teach each other over TLS, and a reload goes on over it."""
    authority = Authority(folder)
    words = f"    default-bind ssl crt {authority.issue('peer.test')}\n    default-server ssl verify required ca-file {authority.certificate} verifyhost peer.test"
    ring = Ring(folder, "a", "b", words=words)
    with Instance(binary, ring, "a") as here:
        fill(here, "first", 50)
        with Instance(other_implementation("3.2"), ring, "b") as there:
            assert_same(here, there)
            fill(there, "second", 50)
            assert_same(here, there)
            assert here.ask("show peers").count("app_state=RUNNING") == 1
            with Instance(binary, ring, "a", former=here) as next_one:
                assert here.program.status() == 0
                assert_same(next_one, there)
                assert len(next_one.entries("numbers")) == 100
    # A plaintext client is refused.
    with Instance(binary, ring, "a") as here:
        connection, status = greet(ring)
        assert not status.startswith(b"2"), status
        connection.close()
        assert "app_state=RUNNING" not in here.ask("show peers")


def test_a_peer_with_an_untrusted_certificate_is_refused(binary, folder):
    """`verify required`: an instance with a certificate of another authority receives no entries."""
    mine, other = Authority(folder, "mine"), Authority(folder, "other")
    lines = "    default-bind ssl crt {}\n    default-server ssl verify required ca-file {} verifyhost peer.test"
    ring = Ring(folder, "a", "b", words=lines.format(mine.issue("peer.test", "mine-peer.pem"), mine.certificate))
    with Instance(binary, ring, "a") as here:
        ring.words = lines.format(other.issue("peer.test", "other-peer.pem"), other.certificate)
        with Instance(binary, ring, "b") as there:
            fill(here, "first", 5)
            tried = r"id=b\(remote.*\n.* new_conn=[2-9]"
            assert wait_until(lambda: re.search(tried, here.ask("show peers")), 15), here.ask("show peers")
            assert there.entries("texts") == {} and "app_state=RUNNING" not in here.ask("show peers")


def test_peers_share_entries_with_accept_proxy_and_send_proxy(binary, folder):
    """`accept-proxy` at one end, `send-proxy` at the other: all entries are shared, also across a reload, as its local
    connection needs a header, too."""
    ring = Ring(folder, "a", "b", words="default-bind accept-proxy\ndefault-server send-proxy\n")
    with Instance(binary, ring, "a") as here, Instance(binary, ring, "b") as there:
        fill(here, "first", 20)
        assert_same(here, there)
    # The local peer's own line does not mention a header.
    alone = Ring(folder, "a", words="default-bind accept-proxy\n")
    with Instance(binary, alone, "a") as here:
        fill(here, "second", 20)
        before = here.everything()
        with Instance(binary, alone, "a", former=here) as there:
            assert wait_until(lambda: there.everything() == before), (before, there.everything())


def test_invalid_peer_greetings_get_the_same_status_as_from_haproxy(binary, folder):
    """Unknown names, other versions and other protocols get the same status from weir and HAProxy 3.2."""
    said = {}
    for program in (other_implementation("3.2"), binary):
        ring = Ring(folder, "a", "b")
        with Instance(program, ring, "a"):
            for words in ("HAProxyS 2.1\na\nb 1 1\n", "HAProxyS 2.0\na\nb 1 1\n", "HAProxyS 2.1\nx\nb 1 1\n", "HAProxyS 2.1\na\nx 1 1\n",
                          "HAProxyS 2.1\na\na 1 1\n", "HAProxyS 2.1\na\nb\n",
                          "HAProxyS 3.0\na\nb 1 1\n", "HAProxyS 1.0\na\nb 1 1\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HAProxyS 2.1\r\na\r\nb 1 1\r\n"):
                connection, status = greet(ring, words)
                connection.close()
                said.setdefault(words, []).append(status)
    differing = {words: both for words, both in said.items() if both[0] != both[1]}
    assert not differing, differing
    assert said["HAProxyS 2.1\na\nb 1 1\n"][0] == b"200\n" and len({status for status, _ in said.values()}) > 3, said


def test_malformed_peer_messages_end_only_their_session(binary, folder):
    """Garbage, an entry of 16 MB and an unfinished message end the session; the tables and the other peers are not affected."""
    ring = Ring(folder, "a", "b", "c")
    with Instance(binary, ring, "a") as here, Instance(binary, ring, "c") as there:
        fill(here, "first", 20)
        assert_same(here, there)
        before = here.program.resident_kb()
        garbage = os.urandom(4096)
        for name, words in {"malformed": b"\x0a\x80\x02\0\0", "16 MB": b"\x0a\x80\xf0\xf1\xfe\xfe\x3e" + bytes(100000),
                            "length without end": b"\x0a\x80" + b"\xff" * 200}.items():
            connection, status = greet(ring)
            assert status == b"200\n", (name, status)
            connection.sendall(words)
            said = last_words(connection)
            assert said is not None and b"\1" in said[-2:], (name, said)
            connection.close()
        for _ in range(20):
            connection, _ = greet(ring)
            try:
                connection.sendall(garbage)
            except OSError:
                pass
            connection.close()
        # Stop in the middle of a message, for the maximum permitted silence.
        connection, _ = greet(ring)
        connection.sendall(b"\x0a\x80\x20abc")
        began = time.monotonic()
        assert last_words(connection) is not None and 3 < time.monotonic() - began < 7
        fill(here, "second", 20)
        assert_same(here, there)
        assert here.program.resident_kb() - before < 20000


def test_a_second_connection_of_a_peer_replaces_the_first_one(binary, folder):
    """The latest connection is kept, the former one is closed."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a"):
        first, status = greet(ring)
        assert status == b"200\n"
        second, status = greet(ring)
        assert status == b"200\n" and last_words(first, 2) is not None
        second.settimeout(0.2)
        second.sendall(HEARTBEAT)
        try:
            assert second.recv(100)
        except TimeoutError:
            pass
        for connection in (first, second):
            connection.close()


def test_an_impostor_does_not_keep_the_real_peer_out(binary, folder):
    """Impostors that claim to be a peer, or the instance itself, and send garbage, or nothing: the real peers
    reconnect, and all have the same entries."""
    ring = Ring(folder, "a", "b", "c")
    with Instance(binary, ring, "a") as here, Instance(binary, ring, "c") as there:
        fill(here, "first", 20)
        assert_same(here, there)
        liars = []
        for _ in range(10):
            for name in "cab":
                connection, _ = greet(ring, f"HAProxyS 2.1\na\n{name} 1 1\n")
                liars.append(connection)
                try:
                    connection.sendall(b"\x0a\x80\x02\0\0" if len(liars) % 2 else b"\x0a\x80\x20abc")
                except OSError:
                    pass
        fill(here, "second", 20)
        fill(there, "third", 20)
        # Silent ones are disconnected after five seconds.
        assert_same(here, there, 25)
        for connection in liars:
            assert last_words(connection) is not None
            connection.close()


def number_of(value):
    """Encodes a number below about 2^14 for the peers protocol."""
    if value < 240:
        return bytes([value])
    out, value = [value & 15 | 240], value - 240 >> 4
    while value >= 128:
        out.append(value & 127 | 128)
        value = value - 128 >> 7
    return bytes(out + [value])


def message(kind, body):
    """A message about tables."""
    return bytes([10, kind]) + number_of(len(body)) + body


def test_repeated_peer_updates_are_counted_once(binary, folder):
    """The same updates again, on the same connection and on another one, leave the same values; local counts since then
    are kept."""
    ring = Ring(folder, "a", "b")
    # `counts`, of addresses, with gpc0 and its rate.
    lesson = message(0x82, number_of(9) + b"\7/counts" + bytes([4, 4, 12]) + number_of(300_000) + number_of(3) + number_of(60_000))
    for update, count in enumerate((5, 6, 7), 1):
        lesson += message(0x80, update.to_bytes(4, "big") + bytes([192, 0, 2, 1]) + number_of(count) + number_of(0) + number_of(count) + number_of(0))
    with Instance(binary, ring, "a") as here:
        entry = lambda: {name: int(value) for name, value in here.entries("p/counts").get("192.0.2.1", {}).items() if name != "key"}
        for turn in range(3):
            connection, status = greet(ring)
            assert status == b"200\n"
            connection.sendall(lesson * (turn + 1))
            heard = b""
            while not heard.endswith(b"\x0a\x84\x05\x09\0\0\0\3"):
                more = connection.recv(65536)
                assert more, heard
                heard += more
            assert wait_until(lambda: entry() == {"gpc0": 7, "gpc0_rate": 7}), entry()
            connection.close()
        assert list(here.entries("p/counts")) == ["192.0.2.1"]
        here.set("p/counts", "192.0.2.1", gpc0=8)
        assert entry()["gpc0"] == 8
