"""Early data (TLS 1.3, 0-RTT): acceptance, fetches and logs, protection against replay."""
import http.client
import os
import shutil
import socket
import subprocess
import threading

from lib.http2 import END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame
from lib.origin import Relay, Server, read_head
from lib.program import Program, free_port, readable, run
from lib.tls import Authority, World, openssl

APPLICATION_DATA = 23


class Holding(Relay):
    """A relay that holds the client's bytes after its early data until it is released. `flight` has the bytes before."""

    def __init__(self, to):
        self.released, self.flight = threading.Event(), b""
        super().__init__(to)

    def forth(self, client, server):
        file, is_early = client.makefile("rb"), True
        while head := file.read(5):
            record = head + file.read(int.from_bytes(head[3:]))
            if is_early:
                self.flight += record
                is_early = head[0] != APPLICATION_DATA
            else:
                self.released.wait(10)
            server.sendall(record)
        server.shutdown(socket.SHUT_WR)


class Origin(Server):
    """A server that records each request head, and responds before the body."""

    def __init__(self, answer=b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"):
        self.heads, self.answer, self.asked = [], answer, threading.Event()
        super().__init__()

    def serve(self, connection):
        if found := read_head(connection):
            self.heads.append(found[0].lower() + b"\r\n")
            self.asked.set()
            connection.sendall(self.answer)


class Client:
    """openssl's client, which keeps a session and comes back with early data."""

    def __init__(self, folder, port, name="one.example", more=()):
        self.folder, self.session = folder, os.path.join(folder.path, "session")
        self.words = ["s_client", "-quiet", "-tls1_3", "-servername", name, *more]
        self.connect(port, "-sess_out", self.session, stdin=REQUEST % b"first")

    def connect(self, port, *more, stdin=b""):
        return openssl(*self.words, "-connect", f"127.0.0.1:{port}", *more, stdin=stdin)

    def most_early(self):
        said = openssl("sess_id", "-noout", "-text", "-in", self.session)
        return int(said.split("Max Early Data:")[1].split()[0])

    def early(self, port, said):
        file = self.folder.file("early", "")
        with open(file, "wb") as out:
            out.write(said)
        return self.connect(port, "-sess_in", self.session, "-early_data", file)


REQUEST = b"GET /%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
EARLY = REQUEST % b"early"
FRONTEND = """
frontend f
    timeout client-hs 400ms
    bind 127.0.0.1:@port@ ssl crt {site} {words}
    {rule}
    default_backend b
backend b
    server s 127.0.0.1:{origin}
"""


def in_background(ask_):
    """Runs `ask` in a thread. Returns a function that waits for the response."""
    answer = []
    thread = threading.Thread(target=lambda: answer.append(ask_()), daemon=True)
    thread.start()

    def wait():
        thread.join(15)
        return answer[0]
    return wait


def test_early_data_requests_are_served_before_the_handshake_ends_and_marked(binary, folder):
    """A request in early data reaches the server, and is answered, before the handshake ends; it has `Early-Data: 1`."""
    site, origin = Authority(folder).issue("one.example"), Origin()
    rule = "http-request set-header x-early %[ssl_fc_has_early],%[ssl_fc_early_rcvd],%[ssl_fc_is_resumed]"
    with World(binary, folder, FRONTEND.format(site=site, words="allow-0rtt", rule=rule, origin=origin.port)) as world:
        client = Client(folder, world.port)
        assert client.most_early() == 16384 - 1024, client.most_early()
        assert b"x-early: 0,0,0\r\n" in origin.heads[0] and b"early-data" not in origin.heads[0], origin.heads
        origin.asked.clear()
        held = Holding(world.port)
        answer = in_background(lambda: client.early(held.port, EARLY))
        assert origin.asked.wait(5), "the handshake is not over, and will not be as long as nobody answers"
        assert b"\r\nearly-data: 1\r\n" in origin.heads[1] and b"x-early: 1,1,1\r\n" in origin.heads[1], origin.heads
        held.released.set()
        assert answer().rstrip().endswith("ok")
        assert world.log.line() and world.log.line().startswith("line 200")


def test_replayed_early_data_are_not_served(binary, folder):
    """Replayed early data are not served."""
    site, origin = Authority(folder).issue("one.example"), Origin()
    with World(binary, folder, FRONTEND.format(site=site, words="allow-0rtt", rule="", origin=origin.port)) as world:
        client = Client(folder, world.port)
        held = Holding(world.port)
        held.released.set()
        assert client.early(held.port, EARLY).rstrip().endswith("ok")
        assert len(origin.heads) == 2 and b"get /early " in origin.heads[1], origin.heads
        for _ in range(3):
            with socket.create_connection(("127.0.0.1", world.port), 5) as replay:
                replay.sendall(held.flight)
                # An unfinishable handshake, until it times out.
                while replay.recv(65536):
                    pass
        assert len(origin.heads) == 2, origin.heads
        # The client itself, with a used ticket: its early data are refused, so that it sends everything again after the
        # handshake.
        said = client.connect(world.port, "-sess_in", client.session, "-early_data", os.path.join(folder.path, "early"), stdin=EARLY)
        assert said.rstrip().endswith("ok") and len(origin.heads) == 3 and b"early-data" not in origin.heads[2], (said, origin.heads)


def test_wait_for_handshake_holds_early_requests(binary, folder):
    """R174: `wait-for-handshake` holds a request until the handshake ends; without that, the request is not served."""
    site, origin = Authority(folder).issue("one.example"), Origin()
    rule = ("http-request wait-for-handshake if { path /early }\n    timeout http-request 500ms\n"
            "    http-request set-header x-early %[ssl_fc_has_early],%[ssl_fc_early_rcvd]")
    with World(binary, folder, FRONTEND.format(site=site, words="allow-0rtt", rule=rule, origin=origin.port)) as world:
        client = Client(folder, world.port)
        origin.asked.clear()
        held = Holding(world.port)
        answer = in_background(lambda: client.early(held.port, EARLY))
        assert not origin.asked.wait(0.25), origin.heads
        held.released.set()
        assert answer().rstrip().endswith("ok")
        assert b"x-early: 0,1\r\n" in origin.heads[1] and b"early-data" not in origin.heads[1], origin.heads
        # A body with an early part.
        client = Client(folder, world.port)
        head = b"POST /early HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 9000\r\n\r\n"
        assert client.early(world.port, head + b"x" * 9000).rstrip().endswith("ok")
        # This handshake stays unfinished.
        client = Client(folder, world.port)
        before = len(origin.heads)
        held = Holding(world.port)
        answer = in_background(lambda: client.early(held.port, EARLY))
        lines = [world.log.line() for _ in range(6)]
        assert lines[-1].startswith("line 408 cR--"), lines
        held.released.set()
        answer()
        assert len(origin.heads) == before, origin.heads


def test_rules_answer_425_to_early_data(binary, folder):
    """A rule answers 425 to a request in early data, and the client may retry."""
    site, origin = Authority(folder).issue("one.example"), Origin()
    rule = "http-request return status 425 if { ssl_fc_has_early }"
    with World(binary, folder, FRONTEND.format(site=site, words="allow-0rtt", rule=rule, origin=origin.port)) as world:
        client = Client(folder, world.port)
        held = Holding(world.port)
        answer = in_background(lambda: client.early(held.port, EARLY))
        world.log.line()
        assert world.log.line().startswith("line 425")
        held.released.set()
        assert "HTTP/1.1 425" in answer() and len(origin.heads) == 1
        # Each early session has a new ticket.
        assert client.connect(world.port, stdin=EARLY).rstrip().endswith("ok")


def test_retry_on_425_repeats_early_requests(binary, folder):
    """`retry-on 425`: the request is sent again."""
    site = Authority(folder).issue("one.example")
    origin = Origin(b"HTTP/1.1 425 Too Early\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
    sections = FRONTEND.format(site=site, words="allow-0rtt", rule="", origin=origin.port) + "    retry-on 425\n    retries 2\n"
    with World(binary, folder, sections) as world:
        client = Client(folder, world.port)
        origin.heads.clear()
        assert "425" in client.early(world.port, EARLY) and len(origin.heads) == 3, origin.heads


def test_allow_0rtt_applies_to_its_bind_or_crt_list_line(binary, folder):
    """`allow-0rtt` of a line in a list applies to its certificate; without it clients are not offered early data."""
    authority = Authority(folder)
    one, two = authority.issue("one.example"), authority.issue("two.example")
    listed = folder.file("list", f"{one} [allow-0rtt] one.example\n{two} two.example\n")
    origin = Origin()
    sections = FRONTEND.format(site=two, words=f"crt-list {listed}", rule="", origin=origin.port)
    with World(binary, folder, sections) as world:
        assert Client(folder, world.port).most_early() > 0
        assert Client(folder, world.port, name="two.example").most_early() == 0
    with World(binary, folder, FRONTEND.format(site=two, words="", rule="", origin=origin.port)) as world:
        assert Client(folder, world.port).most_early() == 0
    # Without a session cache, replays cannot be detected, so early data are refused.
    sections = FRONTEND.format(site=one, words="allow-0rtt", rule="", origin=origin.port)
    with World(binary, folder, sections, extra="tune.ssl.cachesize 0") as world:
        assert not os.path.exists(folder.path + "/none") and "ok" in Client(folder, world.port).connect(world.port, stdin=EARLY)


def test_http2_streams_in_early_data_begin_after_the_handshake(binary, folder):
    """R172: all streams of an HTTP/2 connection begin when the handshake is over, so none of them is early."""
    site = Authority(folder).issue("one.example")
    rule = "http-request return status 200 content-type text/plain lf-string early=%[ssl_fc_has_early],%[ssl_fc_early_rcvd]"
    head = b"\x82\x84\x87\x41\x01x"
    said = PREFACE + frame(SETTINGS) + b"".join(frame(HEADERS, END_HEADERS | END_STREAM, stream, head) for stream in (1, 3, 5))
    with World(binary, folder, FRONTEND.format(site=site, words="allow-0rtt", rule=rule, origin=1)) as world:
        client = Client(folder, world.port, more=("-alpn", "h2"))
        file = folder.file("early", "")
        with open(file, "wb") as out:
            out.write(said)
        words = ["openssl", *client.words, "-connect", f"127.0.0.1:{world.port}", "-sess_in", client.session, "-early_data", file]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
            heard = b""
            while heard.count(b"early=") < 3:
                assert readable([program.stdout], 5), heard
                more = os.read(program.stdout.fileno(), 65536)
                assert more, heard
                heard += more
            program.kill()
        assert heard.count(b"early=0,1") == 3, heard


BOTH = """
frontend clear
    bind 127.0.0.1:@port@
    default_backend b
frontend secure
    bind 127.0.0.1:{secure} ssl crt {site} allow-0rtt
    default_backend b
backend b
    {retries}
    http-request set-header x-unsafe 1 if METH_POST
    server s 127.0.0.1:{server} ssl verify none sni str(one.example) pool-max-conn 0 {words}
"""
SERVER = """
frontend server
    bind 127.0.0.1:@port@ ssl crt {site} allow-0rtt
    http-request return status 425 if {{ ssl_fc_early_rcvd }} {{ path /too-early }}
    http-request return status 200 content-type text/plain lf-string "early=%[ssl_fc_early_rcvd] resumed=%[ssl_fc_is_resumed] marked=%[req.hdr(early-data)]"
"""


def said_to(port, method="GET", path="/", body=""):
    """The status of a plaintext request, with the body of a 200."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    client.request(method, path, body=body or None)
    answer = client.getresponse()
    text = answer.read().decode()
    client.close()
    return answer.status, text if answer.status == 200 else ""


NEVER, ONCE = "early=0 resumed=1 marked=", "early=1 resumed=1 marked="


def early_while_shaking(client, port, text, log, line=None):
    """The answer to early data on a connection that finishes its handshake only after a log line."""
    held = Holding(port)
    answer = in_background(lambda: client.early(held.port, text))
    said = log.line()
    held.released.set()
    assert line in (None, said), said
    return answer()


def test_only_retryable_requests_are_sent_to_servers_as_early_data(binary, folder):
    """`allow-0rtt` of a server, with `retry-on 0rtt-rejected`: only safe requests without a body are sent early."""
    site = Authority(folder).issue("one.example")
    with World(binary, folder, SERVER.format(site=site)) as server:
        sections = lambda words, retries: BOTH.format(site=site, secure=free_port(), server=server.port, words=words, retries=retries)
        for words, retries, expected in (("allow-0rtt", "retry-on 0rtt-rejected", ONCE), ("allow-0rtt", "retry-on all-retryable-errors", ONCE),
                                         ("allow-0rtt", "", NEVER), ("", "retry-on 0rtt-rejected", NEVER),
                                         ("allow-0rtt", "retry-on 0rtt-rejected\n    retries 0", NEVER),
                                         ("allow-0rtt no-ssl-reuse", "retry-on 0rtt-rejected", "early=0 resumed=0 marked=")):
            with World(binary, folder, sections(words, retries)) as world:
                assert said_to(world.port) == (200, "early=0 resumed=0 marked=")
                assert said_to(world.port) == (200, expected), (words, retries)
                assert said_to(world.port, "POST", body="x") == (200, expected.replace("early=1", "early=0"))
                assert said_to(world.port, "POST") == (200, expected.replace("early=1", "early=0"))
                assert said_to(world.port, "HEAD") == (200, "")
                assert said_to(world.port) == (200, expected), (words, retries)


def test_early_requests_are_sent_again_after_a_425_of_the_server(binary, folder):
    """A 425 for a request that weir sent early does not reach the client (RFC 8470, 5.2): the request is sent
    again, after the handshake."""
    site = Authority(folder).issue("one.example")
    with World(binary, folder, SERVER.format(site=site)) as server:
        sections = BOTH.format(site=site, secure=free_port(), server=server.port, words="allow-0rtt", retries="retry-on 0rtt-rejected")
        with World(binary, folder, sections) as world:
            said_to(world.port)
            world.log.line(), server.log.line()
            assert said_to(world.port, path="/too-early") == (200, NEVER)
            # Two answers: the second one to a request that was not early.
            assert [server.log.line().split()[1] for _ in range(2)] == ["425", "200"]


def test_early_data_refused_by_a_server_are_sent_again_after_the_handshake(binary, folder):
    """Early data that are refused are sent again in the same session, behind the handshake: no attempt is lost."""
    site = Authority(folder).issue("one.example")
    with World(binary, folder, SERVER.format(site=site)) as server:
        file = shutil.copy(server.file, server.file + ".again")
        sections = BOTH.format(site=site, secure=free_port(), server=server.port, words="allow-0rtt", retries="retry-on 0rtt-rejected")
        with World(binary, folder, sections, defaults="log-format %ST/%rc") as world:
            said_to(world.port)
            server.program.__exit__(None, None, None)
            with Program(binary, "-f", file) as again:
                again.ready(server.port)
                assert said_to(world.port) == (200, "early=0 resumed=0 marked=")
                assert said_to(world.port) == (200, ONCE)
            assert [world.log.line() for _ in range(3)] == ["200/0"] * 3


def test_early_requests_of_clients_are_forwarded_as_early_data(binary, folder):
    """Without any `retry-on`: a client that sent early data takes the risk, and gets the server's 425."""
    site = Authority(folder).issue("one.example")
    secure = free_port()
    with World(binary, folder, SERVER.format(site=site)) as server:
        sections = BOTH.format(site=site, secure=secure, server=server.port, words="allow-0rtt", retries="")
        with World(binary, folder, sections) as world:
            for text, told in ((EARLY, "early=1 resumed=1 marked=1"), (EARLY.replace(b"/early", b"/too-early"), "HTTP/1.1 425")):
                client = Client(folder, secure)
                world.log.line(), server.log.line()
                said = early_while_shaking(client, secure, text, server.log)
                assert told in said, said
            assert said_to(world.port) == (200, NEVER)


class Refusing(Relay):
    """A relay that refuses the next handshake with early data once `refuses` is set."""

    def __init__(self, to):
        self.refuses, self.refused = False, 0
        super().__init__(to)

    def serve(self, client):
        if not self.refuses:
            return super().serve(client)
        # Read all early data first: closing with unread data would cause a reset.
        while b"\x17\x03\x03" not in client.recv(65536):
            pass
        self.refused += 1
        self.refuses = False
        client.sendall(b"\x15\x03\x03\0\x02\x02\x28")


def test_retry_on_0rtt_rejected_retries_failed_handshakes_with_early_data(binary, folder):
    """`retry-on 0rtt-rejected`; otherwise an error, because the server may have seen the request."""
    site = Authority(folder).issue("one.example")
    with World(binary, folder, SERVER.format(site=site)) as server:
        between = Refusing(server.port)
        sections = lambda retries: BOTH.format(site=site, secure=free_port(), server=between.port, words="allow-0rtt", retries=retries)
        with World(binary, folder, sections("retry-on 0rtt-rejected"), defaults="log-format %ST/%tsc/%rc") as world:
            said_to(world.port)
            world.log.line()
            between.refuses = True
            assert said_to(world.port) == (200, NEVER) and between.refused == 1, between.refused
            assert world.log.line() == "200/----/1"
        # A client's early request does not cause a retry.
        secure = free_port()
        sections = BOTH.format(site=site, secure=secure, server=between.port, words="allow-0rtt", retries="")
        with World(binary, folder, sections, defaults="log-format %ST/%tsc/%rc") as world:
            client = Client(folder, secure)
            world.log.line()
            between.refuses = True
            said = early_while_shaking(client, secure, EARLY, world.log, "503/SC--/0")
            assert "HTTP/1.1 503" in said and between.refused == 2, said


def test_refused_early_data_of_clients_are_skipped(binary, folder):
    """RFC 8446, 4.2.10: a server that refuses early data skips all of them, however they are cut, and the session
    continues."""
    authority = Authority(folder)
    site, own = authority.issue("one.example"), authority.issue("client")
    verify = f"verify required ca-file {authority.certificate}"
    for words, words_later, more in (("allow-0rtt", "allow-0rtt", []), ("allow-0rtt", "", []), ("allow-0rtt", "allow-0rtt curves P-384", ["-groups", "X25519:P-384"]),
                                     (f"allow-0rtt {verify}", f"allow-0rtt {verify}", ["-cert", own, "-key", own])):
        for cut in ([], ["-max_send_frag", "512"]):
            origin = Origin()
            # A handshake takes long on a machine that is busy.
            sections = FRONTEND.format(site=site, words=words, rule="", origin=origin.port).replace("400ms", "10s")
            with World(binary, folder, sections, extra="ssl-default-bind-curves X25519:P-256:P-384") as world:
                client = Client(folder, world.port, more=[*more, *cut])
                most, port = client.most_early(), world.port
            text = open(world.file).read().replace(f"crt {site} {words}", f"crt {site} {words_later}")
            with Program(binary, "-f", folder.file("later.cfg", text)) as program:
                program.ready(port)
                early = b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 99999\r\n\r\n".ljust(most, b"x")
                file = folder.file("early", early.decode())
                said = client.connect(port, "-sess_in", client.session, "-early_data", file, stdin=REQUEST % b"late")
            assert "HTTP/1.1 200" in said, (words_later, cut, said)
            assert [head.split()[1] for head in origin.heads] == [b"/first", b"/late"], (words_later, origin.heads)
    # A resumed session all the same: another protocol is negotiated.
    origin = Origin()
    sections = FRONTEND.format(site=site, words="allow-0rtt alpn http/1.0,http/1.1", rule="", origin=origin.port).replace("400ms", "10s")
    with World(binary, folder, sections, defaults="log-format %[ssl_fc_is_resumed],%[ssl_fc_has_early]") as world:
        client = Client(folder, world.port, more=["-alpn", "http/1.1"])
        early = REQUEST % b"early" + b"x" * (client.most_early() - len(EARLY))
        client.words[-1] = "http/1.0,http/1.1"
        file = folder.file("early", early.decode())
        said = client.connect(world.port, "-sess_in", client.session, "-early_data", file, stdin=REQUEST % b"late")
        assert "HTTP/1.1 200" in said and [head.split()[1] for head in origin.heads] == [b"/first", b"/late"], said
        assert [world.log.line() for _ in range(2)] == ["0,0", "1,0"]


def test_tls_ticket_keys_beside_allow_0rtt_is_a_warning(binary, folder):
    """A warning reports that `tls-ticket-keys` is ignored beside `allow-0rtt`."""
    site = Authority(folder).issue("one.example")
    keys = folder.file("keys", "".join(openssl("rand", "-base64", "48") for _ in range(3)))
    text = FRONTEND.format(site=site, words=f"allow-0rtt tls-ticket-keys {keys}", rule="", origin=1).replace("@port@", "1")
    status, _, printed = run(binary, "-c", "-f", folder.file("c.cfg", "defaults\n    mode http\n    timeout client 1s\n    timeout connect 1s\n    timeout server 1s\n" + text))
    assert status == 0 and printed.count("has no effect beside 'allow-0rtt'") == 1, printed
