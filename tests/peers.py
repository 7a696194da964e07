#!/usr/bin/env python3
"""Stick-tables that several instances share: weir, alone and beside other implementations of the protocol, by processes.

  peers.py --bin target/release/weir [--only REGEX]
"""
import base64
import sys
import threading

from tls import *  # noqa: F403

# The reference's programs, of two ages: (name, path). The older one speaks an older form of the protocol.
OTHERS = {"2.6": "/usr/sbin/haproxy", "3.2": os.environ.get("WEIR_REFERENCE", "/root/.cache/weir-reference/haproxy")}

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
    """Who shares tables: names and where each listens."""

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

    def __init__(self, binary, ring, name, limit=1000000, former=None, globals="", together="", more=""):
        number = free_port()
        self.cli = os.path.join(ring.folder.path, f"cli{number}")
        self.port = former.port if former else number
        text = CONFIGURATION.format(name=name, cli=self.cli, peers=ring.lines(name), port=self.port, limit=limit,
                                    globals=globals, together=together, more=more)
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
        answer = request(self.port, request_of(key))
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


class SilentPeer:
    """A peer that is asked for everything and only says that it is there."""

    def __init__(self, port):
        self.socket = socket.create_server(("127.0.0.1", port))
        self.asked, self.beats = threading.Event(), 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        """Greets whoever comes and beats until it is gone."""
        connection, greeting = self.socket.accept()[0], b""
        with connection:
            while greeting.count(b"\n") < 3:
                greeting += connection.recv(1000)
            connection.sendall(b"200\n")
            connection.settimeout(0.5)
            said = b""
            while True:
                try:
                    more = connection.recv(1000)
                    said += more
                    if not more:
                        return
                    if said.startswith(RESYNC_REQUEST):
                        self.asked.set()
                    connection.sendall(HEARTBEAT)
                    self.beats += 1
                except TimeoutError:
                    connection.sendall(HEARTBEAT)
                    self.beats += 1
                except OSError:
                    return


def greet(ring, words="HAProxyS 2.1\na\nb 1 1\n"):
    """A connection to instance `a` of somebody who says that; the connection, and the status."""
    connection = socket.create_connection(("127.0.0.1", ring.ports["a"]), 5)
    connection.sendall(words.encode() if isinstance(words, str) else words)
    try:
        return connection, connection.recv(4)
    except OSError:
        return connection, b""


def last_words(connection, seconds=8):
    """All that somebody says until the connection is closed; None when it is not. Signs of life are left out."""
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


def request_of(key):
    """A request that is counted for a key."""
    return f"GET / HTTP/1.1\r\nHost: x\r\nX-Key: {key}\r\nConnection: close\r\n\r\n".encode()


def assert_counted(key, times, before, *instances):
    """All of them come to know of so many requests, from their beginnings to their ends: more bytes than before; how many.

    An entry is told as a whole: who counts before the end of the last request was told would have its own count overwritten."""
    found = []

    def agree():
        found[:] = [instance.entries("texts").get(key, {}) for instance in instances]
        return all(entry == found[0] for entry in found) and found[0].get("gpc0") == str(times) and int(found[0]["bytes_in_cnt"]) > before

    assert wait_until(agree), (times, before, found)
    time.sleep(0.05)
    return int(found[0]["bytes_in_cnt"])


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


def words_of(text):
    """What each line of a listing tells, without the values and the numbers of objects."""
    lines = [re.sub(r"^\s*0x[0-9a-f]+:? ?|\[.*?\] ", "", line) for line in text.splitlines()]
    return [re.findall(r"([a-z_]+)[=:]", line) for line in lines if line.strip() and "->" not in line]


def operators_see_what_the_reference_shows(binary, folder):
    """`show peers` has the lines and the words of HAProxy 3.2's, about the same: who is there, what was exchanged."""
    ring, shown = Ring(folder, "a", "b", "c"), {}
    with Instance(binary, ring, "a") as here, Instance(OTHERS["3.2"], ring, "b") as there:
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
        # weir defines a table once it has something to tell of it; the reference defines all.
        assert set(remote_data(shown["b"][0])) >= set(remote_data(shown["a"][0])) != set(), shown
        for words, answer in (("show peers none", "No such peers"), ("show peers dict none", "No such peers"),
                              ("show peers - none", "No such peers"), ("show peers", "id=p ")):
            assert answer in here.ask(words) and answer in (there.ask(words) if "-" not in words else answer), words
        assert "TX dictionary cache" in here.ask("show peers dict p")
        info = here.ask("show info")
        assert "ConnectedPeers: 1\n" in info and re.search(r"ActivePeers: [12]\n", info), info
        assert "ConnectedPeers: 1\n" in there.ask("show info")


def block(text, peer):
    """What `show peers` says of one of them."""
    return next(("id=" + part for part in re.split(r"\n  0x[0-9a-f]+: id=", text) if part.startswith(f"{peer}(")), "")


def remote_data(text):
    """The types of data of each table that the other one has."""
    return re.findall(r"remote_data=(0x[0-9a-f]*[1-9a-f][0-9a-f]*)", text)


def what_peers_say_is_traced(binary, folder):
    """`trace peers` tells of messages, sessions and what is no message."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a") as here:
        for words in ("sink buf0", "level proto", "start now"):
            here.ask(f"trace peers {words}")
        with Instance(OTHERS["3.2"], ring, "b") as there:
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


def peers_may_speak_tls(binary, folder):
    """`default-bind ssl` and `default-server ssl`: weir and HAProxy 3.2 teach each other over TLS, and a reload goes on over it."""
    authority = Authority(folder)
    words = f"    default-bind ssl crt {authority.issue('peer.test')}\n    default-server ssl verify required ca-file {authority.certificate} verifyhost peer.test"
    ring = Ring(folder, "a", "b", words=words)
    with Instance(binary, ring, "a") as here:
        fill(here, "first", 50)
        with Instance(OTHERS["3.2"], ring, "b") as there:
            assert_same(here, there)
            fill(there, "second", 50)
            assert_same(here, there)
            assert here.ask("show peers").count("app_state=RUNNING") == 1
            with Instance(binary, ring, "a", former=here) as next_one:
                assert here.program.status() == 0
                assert_same(next_one, there)
                assert len(next_one.entries("numbers")) == 100
    # Somebody in clear is not understood.
    with Instance(binary, ring, "a") as here:
        connection, status = greet(ring)
        assert not status.startswith(b"2"), status
        connection.close()
        assert "app_state=RUNNING" not in here.ask("show peers")


def a_certificate_that_is_not_trusted_is_refused(binary, folder):
    """`verify required`: an instance that shows another certificate is told nothing."""
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


class Heard:
    """A log server: the lines that came."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port, self.lines = self.socket.getsockname()[1], []
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        """Keeps whatever comes."""
        while True:
            self.lines.append(self.socket.recv(65536).decode())

    def says(self, pattern):
        """Waits for a line."""
        assert wait_until(lambda: any(re.search(pattern, line) for line in list(self.lines))), (pattern, self.lines)


def the_listener_logs_who_connects(binary, folder):
    """`log`: who had a session and who was refused, with addresses of PROXY headers; nothing else is logged there."""
    heard = Heard()
    ring = Ring(folder, "a", "b", words=f"log 127.0.0.1:{heard.port} local3\ndefault-bind accept-proxy\n")
    date = r"\[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d\.\d{3}\]"
    with Instance(binary, ring, "a"):
        header = "PROXY TCP4 192.0.2.7 192.0.2.8 700 800\r\n"
        session, status = greet(ring, f"{header}HAProxyS 2.1\na\nb 1 1\n")
        assert status == b"200\n", status
        # local3.info
        heard.says(rf"^<158>.* 192.0.2.7:700 {date} p/1: peer 'b' connected$")
        session.close()
        heard.says(rf"^<158>.* 192.0.2.7:700 {date} p/1: peer 'b' disconnected$")
        _, status = greet(ring, f"{header}HAProxyS 2.1\na\nstranger 1 1\n")
        assert status == b"504\n", status
        # local3.err
        heard.says(rf"^<155>.* 192.0.2.7:700 {date} p/1: greeting refused with status 504$")
        connection, status = greet(ring)
        assert status == b"", status
        own = re.escape("%s:%d" % connection.getsockname())
        heard.says(rf"^<155>.* {own} {date} p/1: Received something which does not look like a PROXY protocol header$")
        connection = socket.create_connection(("127.0.0.1", ring.ports["a"]), 5)
        connection.sendall(header.encode())
        connection.shutdown(socket.SHUT_WR)
        heard.says(rf"^<155>.* 192.0.2.7:700 {date} p/1: connection closed while waiting for the greeting$")
        # No answer to an unknown connection of the header: the connection's own address.
        connection, status = greet(ring, "PROXY UNKNOWN\r\nHAProxyS 2.1\nz\nb 1 1\n")
        assert status == b"503\n", status
        own = re.escape("%s:%d" % connection.getsockname())
        heard.says(rf"^<155>.* {own} {date} p/1: greeting refused with status 503$")
        assert len(heard.lines) == 6, heard.lines


def peers_may_expect_proxy_headers(binary, folder):
    """`accept-proxy` at one end, `send-proxy` at the other: all have all, also after a reload, whose own connection needs a header."""
    ring = Ring(folder, "a", "b", words="default-bind accept-proxy\ndefault-server send-proxy\n")
    with Instance(binary, ring, "a") as here, Instance(binary, ring, "b") as there:
        fill(here, "first", 20)
        assert_same(here, there)
    # This one's own line says nothing of a header.
    alone = Ring(folder, "a", words="default-bind accept-proxy\n")
    with Instance(binary, alone, "a") as here:
        fill(here, "second", 20)
        before = here.everything()
        with Instance(binary, alone, "a", former=here) as there:
            assert wait_until(lambda: there.everything() == before), (before, there.everything())


def keys_of_any_bytes_reach_everybody(binary, folder):
    """Fifty tables in one section; keys with bytes of zero, shorter, as long as and longer than the type: all have the same in the end."""
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
            Instance(OTHERS["2.6"], ring, "c", more=rules) as old, Instance(OTHERS["3.2"], ring, "d", more=rules) as new:
        fleet = (one, two, old, new)
        for position, instance in enumerate(fleet):
            # Each key is counted once: what a peer still teaches of the beginning is not another value.
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


def a_shard_is_told_of_its_part(binary, folder):
    """`shards` and `shard`: two instances have each key once, the third one has all of them."""
    ring = Ring(folder, "a", "b", "c", "d", words="    shards 2", shards={"b": 1, "c": 2, "d": 3})
    with Instance(binary, ring, "a") as here:
        fill(here, "early", 100)
        # They know of nobody else: what they are told is not told to others.
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
                    assert wait_until(lambda: third.entries("numbers") == whole), "a shard that is too high is none"


def few_updates_at_once_are_as_good(binary, folder):
    """`tune.peers.max-updates-at-once`: an instance that tells three entries in a turn tells all of them."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a", globals="tune.peers.max-updates-at-once 3") as here:
        fill(here, "first")
        with Instance(binary, ring, "b") as there:
            assert_same(here, there)
            fill(here, "second", 20)
            assert_same(here, there)
            assert len(there.entries("numbers")) == 320


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
        size = 0
        for turn in range(10):
            (a, b)[turn % 2].get("client")
            size = assert_counted("client", turn + 1, size, a, b)
        a.get("client", b"429")
        assert_counted("client", 11, size, a, b)
        b.get("client", b"429")


def counted(instance, key):
    """The requests of a key, as an instance knows: the count, what a rule counts, the rate, and the bytes."""
    entry = instance.entries("texts").get(key, {})
    return tuple(int(entry.get(name, 0)) for name in ("http_req_cnt", "gpc0", "http_req_rate", "bytes_in_cnt"))


def news_does_not_wait_for_acknowledgements(binary, folder):
    """What is told right after something was acknowledged, whichever of the two connected, does not wait for TCP's 40 ms."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a") as a, Instance(binary, ring, "b") as b:
        a.get("warm")
        assert wait_until(lambda: "warm" in b.entries("texts"), 10), "they do not talk"
        for one, other in ((a, b), (b, a)):
            times = []
            for turn in range(30):
                one.get(f"{one.port}-{turn}")
                assert wait_until(lambda: f"{one.port}-{turn}" in other.entries("texts")), turn
                other.set("texts", "back", gpc0=turn)
                began = time.monotonic()
                assert wait_until(lambda: one.entries("texts").get("back", {}).get("gpc0") == str(turn)), turn
                times.append(time.monotonic() - began)
            assert sorted(times)[15] < 0.02, times


def three_count_together(binary, folder):
    """`aggregate`: what three serve at the same time is one sum, also after one of them was away, was started again or was reloaded."""
    ring = Ring(folder, "a", "b", "c")
    here = lambda name, **more: Instance(binary, ring, name, together="aggregate", **more)
    with here("a") as a, here("b") as b:
        with here("c") as c:
            def all_have(number, *instances):
                known = (number, number, number, number * len(request_of("k")))
                assert wait_until(lambda: all(counted(one, "k") == known for one in instances), 15), \
                    [counted(one, "k") for one in instances]

            for one in (a, b, c) * 10:
                one.get("k")
            all_have(30, a, b, c)
            # Nobody hears of these at once.
            c.program.send(signal.SIGSTOP)
            for one in (a, b) * 5:
                one.get("k")
            all_have(40, a, b)
            c.program.send(signal.SIGCONT)
            c.get("k")
            all_have(41, a, b, c)
            # The end of the request is told, too, with the tag that its rule had set.
            time.sleep(0.2)
            b.set("texts", "k", gpc0=7, gpt0=5)
            for what, value in (("gpc0", "7"), ("gpt0", "5")):
                assert wait_until(lambda: all(one.entries("texts")["k"][what] == value for one in (a, b, c))), \
                    (what, [one.entries("texts")["k"] for one in (a, b, c)])
            b.set("texts", "k", gpc0=41)
            all_have(41, a, b, c)
            c.program.process.kill()
            c.program.process.wait()
        with here("c") as c:
            all_have(41, a, b, c)
            c.get("k")
            all_have(42, a, b, c)
            with here("a", former=a) as next_a:
                all_have(42, next_a, b, c)
                next_a.get("k")
                all_have(43, next_a, b, c)


def a_limit_over_two_that_count_together(binary, folder):
    """Of what clients ask of both at once, as much is served as the limit says, and what was on its way."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a", limit=60, together="aggregate") as a, Instance(binary, ring, "b", limit=60, together="aggregate") as b:
        a.get("warm")
        assert wait_until(lambda: "warm" in b.entries("texts"), 10), "they do not talk"
        served = []

        def ask_often(one):
            for _ in range(100):
                served.append(request(one.port, request_of("k")).split()[1])
                time.sleep(0.005)

        clients = [threading.Thread(target=ask_often, args=(one,)) for one in (a, b)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert len(served) == 200 and 60 <= served.count(b"200") <= 66, served.count(b"200")


def who_counts_together_counts_with_the_reference_too(binary, folder):
    """Beside HAProxy 2.6 and 3.2 the last word counts, as it does among those."""
    old, new = other_implementation("2.6"), other_implementation("3.2")
    ring = Ring(folder, "a", "b", "c")
    with Instance(binary, ring, "a", together="aggregate") as a, Instance(old, ring, "b") as b, Instance(new, ring, "c") as c:
        # Until all of them talk: what is counted before is told by whoever counted last.
        a.get("warm")
        assert wait_until(lambda: "warm" in b.entries("texts") and "warm" in c.entries("texts"), 15), "they do not talk"
        size = 0
        for turn in range(6):
            (a, b, c)[turn % 3].get("k")
            size = assert_counted("k", turn + 1, size, a, b, c)


def a_teacher_that_tells_nothing_is_not_awaited_for_ever(binary, folder):
    """Who was asked for everything and sends signs of life alone has five seconds; another one is asked then."""
    ring = Ring(folder, "a", "b", "c")
    with Instance(binary, ring, "c") as knows:
        fill(knows, "first", 20)
        with Instance(binary, ring, "a") as here:
            assert_same(here, knows)
        silent = SilentPeer(ring.ports["b"])
        # Nobody else answers until the silent one was asked.
        knows.program.send(signal.SIGSTOP)
        try:
            with Instance(binary, ring, "a") as here:
                assert silent.asked.wait(5), "nobody was asked"
                began = time.monotonic()
                knows.program.send(signal.SIGCONT)
                assert not wait_until(lambda: here.entries("numbers"), 3.5), "another one was asked, or the entries were pushed once more"
                assert_same(here, knows)
                assert 4 < time.monotonic() - began < 11 and silent.beats > 5, silent.beats
        finally:
            knows.program.send(signal.SIGCONT)
            silent.socket.close()


def strangers_are_refused_as_the_reference_refuses(binary, folder):
    """Other names, other versions and other protocols have the same status from both."""
    said = {}
    for program in (other_implementation("3.2"), binary):
        ring = Ring(folder, "a", "b")
        with Instance(program, ring, "a"):
            for words in ("HAProxyS 2.1\na\nb 1 1\n", "HAProxyS 2.0\na\nb 1 1\n", "HAProxyS 2.1\nx\nb 1 1\n", "HAProxyS 2.1\na\nx 1 1\n",
                          "HAProxyS 3.0\na\nb 1 1\n", "HAProxyS 1.0\na\nb 1 1\n", "GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HAProxyS 2.1\r\na\r\nb 1 1\r\n"):
                connection, status = greet(ring, words)
                connection.close()
                said.setdefault(words, []).append(status)
    differing = {words: both for words, both in said.items() if both[0] != both[1]}
    assert not differing, differing
    assert said["HAProxyS 2.1\na\nb 1 1\n"][0] == b"200\n" and len({status for status, _ in said.values()}) > 3, said


def nonsense_ends_a_session_and_nothing_else(binary, folder):
    """Garbage, an entry of 16 MB, a message that never ends: the session is over, the tables and the other peers are as before."""
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
        # In the middle of a message, then nothing: for as long as anybody may be silent.
        connection, _ = greet(ring)
        connection.sendall(b"\x0a\x80\x20abc")
        began = time.monotonic()
        assert last_words(connection) is not None and 3 < time.monotonic() - began < 7
        fill(here, "second", 20)
        assert_same(here, there)
        assert here.program.resident_kb() - before < 20000


def who_connects_twice_has_one_session(binary, folder):
    """The connection that came last counts."""
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


if __name__ == "__main__":
    sys.exit(main("peers", [sys.modules[__name__]]))
