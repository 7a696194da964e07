"""Name resolution at run time: name servers that answer correctly, falsely, late or not at all, and the servers that
depend on them.

"""
import itertools
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time

from lib.name_server import A, AAAA, CNAME, SRV, NameServer, address, addresses, record, service
from lib.needs import installed
from lib.origin import Server
from lib.program import free_port, wait_until
from lib.tls import Authority
from resolvers.world import World

SERVER = "server s a.test:80 resolvers r init-addr none"


def test_a_server_follows_the_dns_answers_for_its_name(binary, folder):
    """From no address to one, to another one, to none and back; the log lines are those of HAProxy."""
    ns = NameServer({("a.test", A): ["192.0.2.1"]})
    with World(binary, folder, [ns], SERVER) as world:
        assert world.is_at("192.0.2.1"), world.state()
        assert world.status() == "no check"
        for line in ("l/s: IP changed from '(none)' to '192.0.2.1' by 'r/ns1'.", "Server l/s ('a.test') is UP/READY (resolves again).",
                     "Server l/s administratively READY thanks to valid DNS answer."):
            assert world.has_said(line), world.said
        ns.zone[("a.test", A)] = ["192.0.2.2"]
        assert world.is_at("192.0.2.2")
        assert world.has_said("l/s: IP changed from '192.0.2.1' to '192.0.2.2' by 'r/ns1'."), world.said
        del ns.zone[("a.test", A)]
        assert world.is_at("-")
        assert world.status() == "MAINT (resolution)"
        assert world.state()["srv_admin_state"] == "32" and world.state()["srv_port"] == "80", world.state()
        left = "0 active and 0 backup servers left. 0 sessions active, 0 requeued, 0 remaining in queue."
        assert world.has_said(f"Server l/s is going DOWN for maintenance (DNS NX status). {left}"), world.said
        ns.zone[("a.test", AAAA)] = ["2001:db8::1"]
        assert world.is_at("2001:db8::1")


def test_each_dns_failure_has_its_hold_time_and_log_message(binary, folder):
    """REFUSED, SERVFAIL, an empty answer, and no answer."""
    for failure, words in ((5, "DNS refused status"), (2, "unspecified DNS error"), ([], "unspecified DNS error"),
                           (lambda _: None, "DNS timeout status")):
        ns = NameServer({("a.test", A): ["192.0.2.1"], ("a.test", AAAA): []})
        with World(binary, folder, [ns], SERVER) as world:
            assert world.is_at("192.0.2.1")
            begin = time.monotonic()
            ns.zone[("a.test", A)] = ns.zone[("a.test", AAAA)] = failure
            assert world.is_at("-"), words
            assert time.monotonic() - begin > 0.4, "the hold time was not kept"
            assert wait_until(lambda: any(f"maintenance ({words})." in line for line in world.said)), (words, world.said)
            ns.zone[("a.test", A)] = ["192.0.2.3"]
            ns.zone[("a.test", AAAA)] = []
            assert world.is_at("192.0.2.3"), words


def test_forged_and_malformed_dns_answers_are_rejected(binary, folder):
    """Answers to another question, with another identifier or other letter case, and garbage are ignored; the valid answer after them is used."""
    def lie(query):
        other = query.answer(addresses("192.0.2.66"), question=b"\x05other\x04test\0" + query.question[-4:])
        wrong = bytes([query.identifier[0] ^ 1, query.identifier[1]])
        lies = [query.answer(addresses("192.0.2.66"), identifier=wrong), other, b"", b"\0" * 20, b"\xff" * 500,
                query.answer(addresses("192.0.2.66"), flags=0x0180), query.answer(addresses("192.0.2.66"))[:-1]]
        return lies + [query.answer(addresses("192.0.2.1"))]

    ns = NameServer({("a.test", A): lie, ("a.test", AAAA): []})
    with World(binary, folder, [ns], SERVER) as world:
        assert world.is_at("192.0.2.1"), world.count()
        assert world.count()["invalid"] >= 7, world.count()
        assert not any("192.0.2.66" in line for line in world.said), world.said
        assert wait_until(lambda: len(ns.queries) > 8), ns.queries
    assert len({query.identifier for query in ns.queries}) > 3 and len({query.sender for query in ns.queries}) > 3
    assert len({query.written for query in ns.queries}) > 3, "the letters are always the same"


def test_dns_answers_from_other_addresses_are_ignored(binary, folder):
    """Forged answers that are right except for their sender: from another port of the name server, from the same port
    of another address, and before the name server's own. They are ignored."""
    def from_strangers(query):
        forged = query.answer(addresses("192.0.2.66"))
        for stranger in strangers:
            stranger.sendto(forged, query.sender)
        time.sleep(0.02)
        return query.answer(addresses("192.0.2.1"))

    ns = NameServer({("a.test", A): from_strangers, ("a.test", AAAA): []})
    strangers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    strangers[0].bind(("127.0.0.1", 0))
    strangers[1].bind(("127.0.0.2", ns.port))
    with World(binary, folder, [ns], SERVER) as world:
        assert world.is_at("192.0.2.1"), world.count()
        assert wait_until(lambda: len(ns.queries) > 20), len(ns.queries)
        assert not any("192.0.2.66" in line for line in world.said), world.said
        assert world.state()["srv_addr"] == "192.0.2.1"


def test_looping_and_truncated_names_in_dns_answers_are_rejected(binary, folder):
    """Names that point at themselves, at each other, forward, beyond the end; names of names in a circle; counts of missing records. The answer to
    the next query is used."""
    here, pointer = 12, lambda at: struct.pack(">H", 0xc000 | at)

    def broken(query):
        end = here + len(query.question)

        def answer(owner, kind=A, data=address("192.0.2.66"), count=1):
            head = query.identifier + struct.pack(">HHHHH", 0x8180, 1, count, 0, 0)
            return head + query.question + owner + struct.pack(">HHIH", kind, 1, 60, len(data)) + data
        itself, each_other = pointer(end), pointer(end + 2) + pointer(end)
        many = b"".join(pointer(end + 2 * at + 2) for at in range(200)) + pointer(here)
        circle = [record("a.test", CNAME, b"\x01b\x04test\0"), record("b.test", CNAME, b"\x01a\x04test\0")]
        return [answer(owner) for owner in (itself, each_other, pointer(end + 4), pointer(16000), many, b"\x3f" * 70, b"\x80\x01", b"\x41\0")] + [
            answer(pointer(here), CNAME, pointer(end + 12)), answer(pointer(here), count=65535), answer(pointer(here), data=b"\1\2\3"),
            answer(pointer(here), data=b"\1" * 16), query.answer(circle)]

    turn = [0]

    def one_after_the_other(query):
        turn[0] += 1
        answers = broken(query)
        return answers[turn[0]] if turn[0] < len(answers) else query.answer(addresses("192.0.2.1"))

    # Each is the only answer to a question; then all are answers to each, before the true one.
    for zone in (one_after_the_other, lambda query: broken(query)[:-1] + [query.answer(addresses("192.0.2.1"))]):
        ns = NameServer({("a.test", A): zone, ("a.test", AAAA): []})
        with World(binary, folder, [ns], SERVER + " resolve-prefer ipv4") as world:
            assert world.is_at("192.0.2.1", seconds=15), (turn, world.count())
            assert world.count()["invalid"] >= 8, world.count()
            assert not any("192.0.2.66" in line for line in world.said), world.said


def test_after_a_malformed_answer_over_tcp_the_next_name_server_is_queried(binary, folder):
    """Over TCP: lengths of zero, lengths beyond the data, one byte a while, 64 kB of garbage, an end in the middle. The
    next name server's answer counts, and no connection is left behind."""
    ways = [b"\0\0" * 1000, b"\xff\xff" + b"x" * 100, b"\xff\xff" + b"\xff" * 65535, b"\0\x0c" + b"\0" * 12, b"\0", b"", None]
    turns = itertools.cycle(ways)

    def lie(connection):
        way = next(turns)
        connection.recv(1000)
        if way is None:
            while True:
                connection.sendall(b"\0")
                time.sleep(0.02)
        connection.sendall(way)
        if way.startswith(b"\xff"):
            connection.recv(1000)

    liar = Server(lie)
    true = NameServer({("a.test", A): lambda query: time.sleep(0.05) or query.answer(addresses("192.0.2.1")), ("a.test", AAAA): []})
    written = f"nameserver ns1 tcp@127.0.0.1:{liar.port}\n    nameserver ns2 127.0.0.1:{true.port}"
    with World(binary, folder, [], SERVER, written=written) as world:
        descriptors = len(os.listdir(f"/proc/{world.program.pid}/fd"))
        assert world.is_at("192.0.2.1"), world.count()
        assert wait_until(lambda: liar.count > 3 * len(ways), 30), liar.count
        assert world.state()["srv_addr"] == "192.0.2.1"
        assert len(os.listdir(f"/proc/{world.program.pid}/fd")) <= descriptors + 8
        assert world.count("ns1")["valid"] == 0, world.count("ns1")


def test_dns_answers_in_lower_case_are_accepted(binary, folder):
    """A name server that answers in lower case."""
    def small(query):
        return query.answer(addresses("192.0.2.1"), question=query.question[:-4].lower() + query.question[-4:])

    ns = NameServer({("a.test", A): small, ("a.test", AAAA): lambda query: query.answer(question=query.question[:-4].lower() + query.question[-4:])})
    with World(binary, folder, [ns], SERVER) as world:
        assert world.is_at("192.0.2.1"), world.count()
        assert world.count()["invalid"] >= 1, world.count()


def test_the_first_valid_dns_answer_is_used(binary, folder):
    """One name server refuses, one is silent, one answers correctly."""
    refuses = NameServer({("a.test", A): 5, ("a.test", AAAA): 5})
    silent = NameServer({("a.test", A): lambda _: None, ("a.test", AAAA): lambda _: None})
    true = NameServer({("a.test", A): ["192.0.2.1"], ("a.test", AAAA): []})
    with World(binary, folder, [refuses, silent, true], SERVER + " resolve-prefer ipv4") as world:
        assert world.is_at("192.0.2.1")
        time.sleep(1)
        assert world.is_at("192.0.2.1") and world.status() == "no check"
        assert world.has_said("l/s: IP changed from '(none)' to '192.0.2.1' by 'r/ns3'."), world.said
        assert world.count("ns1")["refused"] > 0 and world.count("ns2")["timeout"] > 0 and world.count("ns3")["valid"] > 0


def test_late_dns_answers_do_not_answer_the_next_query(binary, folder):
    """An answer that comes after its time does not answer the next question."""
    def late(query):
        time.sleep(0.4)
        return query.answer(addresses("192.0.2.66"))

    ns = NameServer({("a.test", A): late, ("a.test", AAAA): late})
    with World(binary, folder, [ns], SERVER) as world:
        time.sleep(1.5)
        assert world.state()["srv_addr"] == "-" and world.count()["timeout"] > 2, world.count()
        ns.zone[("a.test", A)] = ["192.0.2.1"]
        ns.zone[("a.test", AAAA)] = []
        assert world.is_at("192.0.2.1")


def test_truncated_dns_answers_are_queried_again_over_tcp(binary, folder):
    """A truncated answer, and one of 64 kB over a connection; larger datagrams than were announced are refused."""
    many = [f"10.0.{at >> 8}.{at & 255}" for at in range(4000)]

    def truncated(query):
        return query.answer(addresses(*many)) if query.over == "tcp" else query.answer(flags=0x8380)

    ns = NameServer({("a.test", A): truncated, ("a.test", AAAA): []})
    with World(binary, folder, [ns], SERVER) as world:
        assert world.is_at("10.0.0.0"), world.count()
        assert world.count()["truncated"] > 0
    too_big = NameServer({("a.test", A): many[:60], ("a.test", AAAA): []})
    with World(binary, folder, [too_big], SERVER) as world:
        assert wait_until(lambda: world.count()["too_big"] > 0) and world.state()["srv_addr"] == "-", world.count()
    with World(binary, folder, [too_big], SERVER, "accepted_payload_size 8192") as world:
        assert world.is_at("10.0.0.0"), world.count()
    assert too_big.queries[-1].size == 8192


def test_tcp_name_servers_receive_no_datagrams(binary, folder):
    """`tcp@`: nothing is sent as a datagram."""
    ns = NameServer({("a.test", A): ["192.0.2.1"]})
    with World(binary, folder, [], SERVER, written=f"nameserver ns1 tcp@127.0.0.1:{ns.port}") as world:
        assert world.is_at("192.0.2.1"), world.count()
    assert {query.over for query in ns.queries} == {"tcp"}


class Rude:
    """Answers a handshake with a sentence."""

    def wrap_socket(self, connection, server_side):
        connection.sendall(b"There is no TLS here.\r\n")
        raise OSError("rude")


def test_name_servers_over_tls_are_verified(binary, folder):
    """`ssl` on the line of a name server (RFC 7858): the SNI, the verification of the certificate, and no query in plaintext."""
    authority, stranger = Authority(folder), Authority(folder, "stranger")
    own = authority.issue("dns.test")
    ns = NameServer({("a.test", A): ["192.0.2.1"]}, certificate=own)
    line = f"nameserver ns1 tcp@127.0.0.1:{ns.port} ssl"
    with World(binary, folder, [], SERVER, written=f"{line} ca-file {authority.certificate} sni str(dns.test)") as world:
        assert world.is_at("192.0.2.1"), (world.count(), ns.tcp.refused)
        assert world.count()["valid"] > 0
    assert {query.over for query in ns.queries} == {"tcp"} and set(ns.tcp.names) == {"dns.test"}, ns.tcp.names
    # A name server without a valid certificate for its name receives no queries.
    for words in (f"ca-file {stranger.certificate}", f"ca-file {authority.certificate} sni str(other.test)",
                  f"ca-file {authority.certificate} verifyhost other.test"):
        lying = NameServer({("a.test", A): ["192.0.2.1"]}, certificate=own)
        with World(binary, folder, [], SERVER, written=f"nameserver ns1 tcp@127.0.0.1:{lying.port} ssl {words}") as world:
            assert wait_until(lambda: lying.tcp.refused and world.count()["send_error"] > 1), (words, world.count())
            assert world.state()["srv_addr"] == "-" and not lying.queries, (words, lying.queries)
    # Name servers without TLS, talking or silent, are failures like others; once they speak TLS, their answers count.
    rude = NameServer({("a.test", A): ["192.0.2.3"]}, certificate=own)
    polite, rude.tcp.context = rude.tcp.context, Rude()
    with World(binary, folder, [], SERVER, written=f"nameserver ns1 tcp@127.0.0.1:{rude.port} ssl verify none") as world:
        assert wait_until(lambda: world.count()["send_error"] > 1), world.count()
        rude.tcp.context = polite
        assert world.is_at("192.0.2.3"), (world.count(), rude.tcp.refused)
    silent = socket.create_server(("127.0.0.1", 0))
    written = f"nameserver ns1 tcp@127.0.0.1:{silent.getsockname()[1]} ssl verify none"
    with World(binary, folder, [], SERVER, written=written) as world:
        assert wait_until(lambda: world.count()["send_error"] > 1), world.count()
    silent.close()


def test_maxconn_limits_connections_to_a_name_server(binary, folder):
    """`maxconn`: queries wait for a free connection; without it, all are sent at once."""
    def most_at_once(words):
        here, most, lock = [0], [0], threading.Lock()

        def slow(query):
            with lock:
                here[0] += 1
                most[0] = max(most[0], here[0])
            time.sleep(0.02)
            with lock:
                here[0] -= 1
            return query.answer(addresses("192.0.2.1"))

        names = [f"n{index}.test" for index in range(5)]
        ns = NameServer({(name, kind): slow for name in names for kind in (A, AAAA)})
        lines = "\n    ".join(f"server {name} {name}:80 resolvers r init-addr none resolve-prefer ipv4" for name in names)
        with World(binary, folder, [], lines, written=f"nameserver ns1 tcp@127.0.0.1:{ns.port}{words}") as world:
            assert wait_until(lambda: all(world.state(name)["srv_addr"] == "192.0.2.1" for name in names)), world.count()
        return most[0]

    assert most_at_once(" maxconn 2") <= 2
    assert most_at_once("") > 2


def test_an_absent_name_server_is_retried_slowly(binary, folder, port):
    """A closed port: it is retried a few times a second, and its answers count once it is open."""
    with World(binary, folder, [], SERVER, written=f"nameserver ns1 127.0.0.1:{port}") as world:
        time.sleep(1.5)
        assert 3 < world.count()["sent"] < 40, world.count()
        NameServer({("a.test", A): ["192.0.2.1"]}, port=port)
        assert world.is_at("192.0.2.1"), world.count()


def test_servers_of_one_name_share_dns_queries(binary, folder):
    """One question for all servers of a name, and no address twice in a backend unless allowed."""
    ns = NameServer({("a.test", A): ["192.0.2.1", "192.0.2.2"]})
    lines = "server-template s 3 a.test:80 resolvers r init-addr none resolve-prefer ipv4\n    " \
            "server d a.test:81 resolvers r init-addr none resolve-prefer ipv4 resolve-opts allow-dup-ip"
    with World(binary, folder, [ns], lines, threads=2) as world:
        assert world.is_at("192.0.2.1", "s1") and world.is_at("192.0.2.2", "s2"), world.said
        assert world.is_at("192.0.2.1", "d")
        assert world.state("s3")["srv_addr"] == "-" and world.status("s3") == "MAINT (resolution)"
        before = len(ns.queries)
        time.sleep(1)
        assert len(ns.queries) - before < 12, "each server sends its own queries"


def test_servers_follow_changes_of_srv_records(binary, folder):
    """SRV records: hosts, ports, weights and additional addresses; hosts that are removed and added."""
    ns = NameServer({("_h._tcp.test", SRV): [service("a.test", 81, 10), service("b.test", 82, 65535)],
                     ("a.test", A): ["192.0.2.1"], ("b.test", A): ["192.0.2.2"]})
    lines = "server-template s 3 _h._tcp.test resolvers r init-addr none resolve-prefer ipv4"
    with World(binary, folder, [ns], lines, "accepted_payload_size 8192") as world:
        assert world.is_at("192.0.2.1", "s1") and world.is_at("192.0.2.2", "s2"), world.said
        row = world.state("s2")
        columns = ("srv_admin_state", "srv_uweight", "srv_fqdn", "srv_port", "srvrecord")
        assert [row[name] for name in columns] == ["64", "256", "b.test", "82", "_h._tcp.test"], row
        assert world.has_said("l/s1 changed its FQDN from (null) to a.test by 'SRV record'"), world.said
        assert world.state("s3")["srv_addr"] == "-"
        ns.zone[("_h._tcp.test", SRV)] = lambda query: query.answer(
            [service("b.test", 82, 256), service("c.test", 83, 10)], additional=[record("c.test", A, address("192.0.2.3"))])
        assert world.is_at("192.0.2.3", "s3") and world.is_at("-", "s1"), world.said
        gone = "Server l/s1 is going DOWN for maintenance (entry removed from SRV record)."
        assert wait_until(lambda: any(gone in line for line in world.said)), world.said
        assert world.state("s2")["srv_uweight"] == "1"
        assert not ns.asked("c.test"), "the address came along"


def test_set_server_fqdn_changes_the_resolved_name_r164(binary, folder):
    """`set server fqdn`: the server follows the new name and is up; an invalid name is refused."""
    ns = NameServer({("a.test", A): ["192.0.2.1"], ("b.test", A): ["192.0.2.2"]})
    lines = SERVER + "\n    server t 192.0.2.9:81 resolvers r\n    server u 192.0.2.10:82"
    with World(binary, folder, [ns], lines, threads=2) as world:
        assert world.is_at("192.0.2.1")
        said = world.ask("set server l/s fqdn b.test")
        assert said == "l/s changed its FQDN from a.test to b.test by 'stats socket command'\n\n", said
        assert world.is_at("192.0.2.2") and world.status() == "no check"
        assert (world.state()["srv_admin_state"], world.state()["srv_fqdn"]) == ("64", "b.test")
        # No server uses that name at the moment; it is queried again all the same.
        world.ask("set server l/t fqdn a.test")
        assert world.is_at("192.0.2.1", "t") and world.state("t")["srv_port"] == "81"
        assert world.ask("set server l/s fqdn a..b") == "could not update l/s FQDN by 'stats socket command'\n\n"
        assert world.ask("set server l/u fqdn a.test") == "set server <b>/<s> fqdn failed because no resolution is configured.\n\n"


def test_dns_accept_family_ipv4_queries_only_a_records(binary, folder):
    """`dns-accept-family ipv4`."""
    ns = NameServer({("a.test", A): ["192.0.2.1"], ("a.test", AAAA): ["2001:db8::1"]})
    with World(binary, folder, [ns], SERVER, globals="dns-accept-family ipv4") as world:
        assert world.is_at("192.0.2.1")
    assert {query.kind for query in ns.queries} == {A}


def test_show_resolvers_has_the_format_of_haproxy(binary, folder):
    """`show resolvers` in the form of the reference."""
    ns = NameServer({("a.test", A): ["192.0.2.1"]})
    with World(binary, folder, [ns], SERVER) as world:
        assert world.is_at("192.0.2.1")
        lines = world.ask("show resolvers r").splitlines()
        assert lines[:2] == ["Resolvers section r", " nameserver ns1:"], lines
        names = "sent snd_error valid update cname cname_error any_err nx timeout refused other invalid too_big truncated outdated"
        assert [line.split(":")[0].strip() for line in lines[2:17]] == names.split(), lines
        assert re.match(r"  sent:        \d+$", lines[2]) and re.match(r"  cname_error: 0$", lines[7]), lines
        assert world.ask("show resolvers none") == "Can't find that resolvers section\n\n"
        typed = world.ask("show stat domain resolvers typed").splitlines()
        assert typed[0] == "N.0.id:CGPV:str:ns1" and typed[1] == "N.1.pid:CGPV:str:r" and typed[2].startswith("N.2.sent:MGPV:u64:"), typed
        described = world.ask("show stat domain resolvers typed desc").splitlines()
        assert described[0] == 'N.0.id:CGPV:str:ns1:"ID"' and described[7].endswith(':0:"CNAME error"'), described
        every = json.loads(world.ask("show stat domain resolvers json"))
        # The system's own name servers are there, too.
        items = next(items for items in every if items[1]["value"]["value"] == "r")
        metric = {"origin": "Metric", "nature": "Gauge", "scope": "Process"}
        assert items[1] == {"field": {"pos": 1, "name": "pid"}, "tags": {**metric, "origin": "Config"}, "value": {"type": "str", "value": "r"}}, items
        assert items[16] == {"field": {"pos": 16, "name": "outdated"}, "tags": metric, "value": {"type": "u64", "value": 0}} and len(items) == 17, items


def test_do_resolve_sets_the_destination_of_a_request(binary, folder, origin):
    """`do-resolve` with `set-dst`: the client waits, answers are used again, and without an address nothing is set."""
    def slow(query):
        time.sleep(0.1)
        return query.answer(addresses("127.0.0.1"))

    ns = NameServer({("a.test", A): slow, ("six.test", AAAA): ["::1"], ("none.test", A): 3})
    lines = f"""http-request do-resolve(txn.ip,r,ipv4) hdr(host),host_only
    http-request return status 200 content-type text/plain lf-string %[var(txn.ip)] if {{ path /ip }}
    http-request deny status 404 unless {{ var(txn.ip) -m found }}
    http-request set-dst var(txn.ip)
    http-request set-dst-port int({origin.port})
    server s 0.0.0.0:0"""

    def get(world, host, path="/"):
        with socket.create_connection(("127.0.0.1", world.port), 5) as connection:
            connection.settimeout(10)
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            with connection.makefile("rb") as stream:
                return stream.read()

    for threads in (1, 2):
        ns.queries.clear()
        with World(binary, folder, [ns], lines, "hold valid 1s", threads=threads) as world:
            assert get(world, "a.test:80", "/ip").endswith(b"\r\n127.0.0.1"), get(world, "a.test", "/ip")
            assert get(world, "a.test").startswith(b"HTTP/1.1 200"), (get(world, "a.test"), world.said)
            assert len(ns.asked("a.test")) == 1, "the answer is not used again"
            assert get(world, "six.test", "/ip").endswith(b"\r\n::1")
            for host in ("none.test", "a..b", "x" * 300, "127.0.0.1"):
                assert get(world, host).startswith(b"HTTP/1.1 404"), host
            time.sleep(1.1)
            assert get(world, "a.test").startswith(b"HTTP/1.1 200") and len(ns.asked("a.test")) == 2
            found = []
            several = [threading.Thread(target=lambda: found.append(get(world, "a.test", "/ip"))) for _ in range(20)]
            time.sleep(1.1)
            for thread in several:
                thread.start()
            for thread in several:
                thread.join()
            assert all(text.endswith(b"127.0.0.1") for text in found) and len(found) == 20
            assert len(ns.asked("a.test")) == 3, "who waits for the same name does not share it"


def test_a_name_set_by_set_server_fqdn_survives_a_reload_r165(binary, folder):
    """The state file restores the name that an operator gave a server, and the host that a service gave one, with the
    mark in their administrative state; until name servers answer otherwise, they keep their addresses."""
    ns = NameServer({("a.test", A): ["192.0.2.1"], ("b.test", A): ["192.0.2.2"],
                     ("_h._tcp.test", SRV): [service("h.test", 81)], ("h.test", A): ["192.0.2.3"]})
    lines = "load-server-state-from-file global\n    " \
            "server s a.test:80 resolvers r init-addr last,none resolve-prefer ipv4\n    " \
            "server-template t 1 _h._tcp.test resolvers r init-addr last,none resolve-prefer ipv4"
    path = os.path.join(folder.path, "states")
    globals_ = f"server-state-file {path}"
    with World(binary, folder, [ns], lines, globals=globals_) as world:
        assert world.is_at("192.0.2.1") and world.is_at("192.0.2.3", "t1")
        world.ask("set server l/s fqdn b.test")
        assert world.is_at("192.0.2.2")
        with open(path, "w", encoding="utf-8") as file:
            file.write(world.ask("show servers state").rstrip("\n") + "\n")
    columns = ("srv_addr", "srv_port", "srv_fqdn", "srvrecord", "srv_admin_state")
    given = [("192.0.2.2", "80", "b.test", "-", "64"), ("192.0.2.3", "81", "h.test", "_h._tcp.test", "64")]
    # Without answers, both keep their addresses for the hold time.
    silent = NameServer({(name, kind): lambda query: None for name in ("a.test", "b.test", "h.test", "_h._tcp.test") for kind in (A, AAAA, SRV)})
    with World(binary, folder, [silent], lines, "hold timeout 2s", globals=globals_) as world:
        found = [tuple(world.state(server)[column] for column in columns) for server in ("s", "t1")]
        assert found == given and world.status() == "no check", (found, world.status())
        assert wait_until(lambda: silent.asked("b.test") and silent.asked("_h._tcp.test")) and not silent.asked("a.test")
        assert world.is_at("-") and world.is_at("-", "t1"), "hold timeout is over"
        assert world.status() == "MAINT (resolution)", world.status()
    # Answers replace the addresses, and servers of vanished hosts are not kept.
    ns.zone[("b.test", A)] = ["192.0.2.9"]
    ns.zone[("_h._tcp.test", SRV)] = [service("i.test", 82)]
    ns.zone[("i.test", A)] = ["192.0.2.8"]
    with World(binary, folder, [ns], lines, globals=globals_) as world:
        assert world.is_at("192.0.2.9") and world.is_at("192.0.2.8", "t1") and world.state("t1")["srv_port"] == "82"
    # For another service, the addresses are not kept.
    with World(binary, folder, [silent], lines.replace("_h._tcp", "_g._tcp"), globals=globals_) as world:
        found = [world.state("t1")[column] for column in columns]
        assert found == ["-", "0", "-", "_g._tcp.test", "32"], found


def test_dns_answers_of_unbound_are_used(binary, folder, port):
    """`unbound`, where it is installed."""
    program = installed("unbound")
    secure = free_port()
    authority = Authority(folder)
    own = authority.issue("dns.test")
    text = f"""server:
    interface: 127.0.0.1@{port}
    interface: 127.0.0.1@{secure}
    port: {port}
    tls-port: {secure}
    tls-service-key: "{own}"
    tls-service-pem: "{own}"
    username: ""
    chroot: ""
    directory: "{folder.path}"
    pidfile: "{folder.path}/unbound.pid"
    do-daemonize: no
    local-zone: "test." static
    local-data: "a.test. A 192.0.2.1"
    local-data: "b.test. A 192.0.2.2"
    local-data: "_h._tcp.test. SRV 1 10 81 b.test."
"""
    process = subprocess.Popen([program, "-d", "-c", folder.file("unbound.conf", text)], stderr=subprocess.DEVNULL)
    try:
        lines = SERVER + "\n    server-template t 2 _h._tcp.test resolvers r init-addr none"
        with World(binary, folder, [], lines, written=f"nameserver ns1 127.0.0.1:{port}") as world:
            assert world.is_at("192.0.2.1") and world.is_at("192.0.2.2", "t1"), world.count()
        over_tls = f"nameserver ns1 tcp@127.0.0.1:{secure} ssl ca-file {authority.certificate} sni str(dns.test) alpn dot"
        with World(binary, folder, [], lines, written=over_tls) as world:
            assert world.is_at("192.0.2.1") and world.is_at("192.0.2.2", "t1"), world.count()
    finally:
        process.kill()
        process.wait()


def test_dns_answers_of_bind_are_used(binary, folder, port):
    """`named`, where it is installed: two addresses of one name, a service, and a zone that is emptied while weir
    queries it."""
    program = installed("named")
    beginning = "$TTL 1\n@ SOA ns.test. a.test. {serial} 60 60 60 1\n  NS ns.test.\nns A 127.0.0.1\n"
    full = "a A 192.0.2.1\nb AAAA 2001:db8::2\nb A 192.0.2.2\n_h._tcp SRV 1 10 81 b.test.\n"
    zone = folder.file("zone", beginning.format(serial=1) + full)
    text = f"""options {{ directory "{folder.path}"; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};
    pid-file none; session-keyfile none; recursion no; dnssec-validation no; }};
controls {{ }};
zone "test" {{ type primary; file "{zone}"; }};
"""
    command = [program, "-f", "-c", folder.file("named.conf", text)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        lines = SERVER + "\n    server-template t 2 _h._tcp.test resolvers r resolve-prefer ipv4 init-addr none"
        words = "hold valid 100ms\n    hold nx 200ms\n    timeout resolve 100ms\n    timeout retry 200ms"
        with World(binary, folder, [], lines, words=words, written=f"nameserver ns1 127.0.0.1:{port}") as world:
            assert world.is_at("192.0.2.1") and world.is_at("192.0.2.2", "t1"), world.count()
            folder.file("zone", beginning.format(serial=2))
            process.send_signal(signal.SIGHUP)
            assert wait_until(lambda: "MAINT" in world.status() and "MAINT" in world.status("t1")), (world.status(), world.status("t1"))
            folder.file("zone", beginning.format(serial=3) + full.replace("192.0.2.1\n", "192.0.2.9\n"))
            process.send_signal(signal.SIGHUP)
            assert world.is_at("192.0.2.9") and world.is_at("192.0.2.2", "t1"), world.count()
            assert wait_until(lambda: "UP" in world.status() or "no check" in world.status()), world.status()
    finally:
        process.kill()
        process.wait()
