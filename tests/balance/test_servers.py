"""Between a stream and its server: queues while servers come and go, their counters and log lines, the cost of
connecting.
"""
import os
import random
import re
import socket
import subprocess
import threading
import time

import pytest

from lib.log import LogServer
from lib.needs import installed
from lib.origin import OK, Origin, Server, end_with_reset
from lib.program import Program, ask, free_port, wait_until

CONFIGURATION = """
global
    log 127.0.0.1:{log} local0
    stats socket {cli} level admin
    nbthread {threads}
defaults
    mode http
    log global
    log-format "line %ST %tsc %rc %s sq=%sq bq=%bq %HU"
    timeout connect 2s
    timeout client 20s
    timeout server 20s
    timeout queue {queue}
listen l
    bind 127.0.0.1:{port}
    balance roundrobin
    {lines}
"""


class Held(Origin):
    """A server that identifies itself in responses. It responds at once, or when the test releases the request."""

    def __init__(self, name, at_once=True):
        self.name = name
        self.go = threading.Event()
        if at_once:
            self.go.set()
        self.inside = self.most = self.served = 0
        self.lock = threading.Lock()
        super().__init__(self.respond)

    def respond(self, request):
        """Closes the connection if the request demands it."""
        with self.lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.served += 1
        self.go.wait(20)
        # Decrement before the proxy can notice the end.
        with self.lock:
            self.inside -= 1
        close = "Connection: close\r\n" if b"close" in request.head else ""
        return f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Server: {self.name}\r\n{close}\r\nok".encode()


class World:
    """A program in front of two servers."""

    def __init__(self, binary, folder, lines, servers, queue="10s", threads=1):
        self.port = free_port()
        self.cli = os.path.join(folder.path, f"cli{self.port}")
        self.log = LogServer()
        for server in servers:
            lines = lines.replace(f"@{server.name}@", f"127.0.0.1:{server.port}")
        text = CONFIGURATION.format(log=self.log.port, cli=self.cli, port=self.port, queue=queue, threads=threads, lines=lines)
        self.program = Program(binary, "-f", folder.file("w.cfg", text))

    @property
    def lines(self):
        """The log lines of streams."""
        return [line.split("line ", 1)[1].strip() for line in list(self.log.lines) if "line " in line]

    def __enter__(self):
        self.program.__enter__()
        if not wait_until(self.listens):
            raise AssertionError(self.program.process.communicate()[0])
        return self

    def listens(self):
        """Whether the runtime API responds."""
        try:
            return "Uptime" in self.ask("show info")
        except OSError:
            return False

    def __exit__(self, *_):
        self.program.__exit__()

    def ask(self, command):
        """The response to a runtime API command."""
        return ask(self.cli, command)

    def counters(self, name):
        """The statistics of a server, the frontend or the backend."""
        names, *rows = self.ask("show stat").splitlines()
        found = next(row.split(",") for row in rows if row.startswith(f"l,{name},"))
        return dict(zip(names.removeprefix("# ").split(","), found))

    def begin(self, cookie="", path="/"):
        """Sends a request on a new connection. Returns the connection."""
        connection = socket.create_connection(("127.0.0.1", self.port), 20)
        line = f"Cookie: S={cookie}\r\n" if cookie else ""
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{line}\r\n".encode())
        return connection

    def queued(self, name, count):
        """Waits until the queue has this length."""
        assert wait_until(lambda: self.counters(name)["qcur"] == str(count)), self.counters(name)

    def logged(self, *patterns):
        """Waits for exactly these lines, in any order."""
        wait_until(lambda: len(self.lines) >= len(patterns))
        left = list(self.lines)
        for pattern in patterns:
            found = next((line for line in left if re.match(pattern, line)), None)
            assert found, (pattern, self.lines)
            left.remove(found)
        assert not left, left


def answer(connection):
    """The status, and the server named in the response."""
    text = b""
    with connection:
        while more := connection.recv(65536):
            text += more
    server = re.search(rb"x-server: (\w+)", text, re.I)
    return text[9:12].decode(), server[1].decode() if server else None, text


STICKY = """cookie S insert indirect
    {options}
    server s1 @s1@ cookie a maxconn 1
    server s2 @s2@ cookie b maxconn 1"""
DOWN = ["disable server l/s1", "set server l/s1 state maint", "set server l/s1 health down"]


def test_a_queued_request_is_redispatched_when_its_server_goes_down(binary, folder):
    """R168, R169: persistence alone does not keep a request waiting for a server that is down while another one is free."""
    for command in DOWN:
        for options in ("", "option redispatch", "option redispatch 1"):
            s1, s2 = Held("s1", at_once=False), Held("s2")
            with World(binary, folder, STICKY.format(options=options), [s1, s2]) as world:
                first = world.begin("a", "/first")
                assert wait_until(lambda: s1.inside == 1)
                second = world.begin("a", "/second")
                world.queued("s1", 1)
                world.ask(command)
                status, server, text = answer(second)
                assert (status, server) == ("200", "s2") and b"set-cookie: S=b" in text.replace(b"Set-Cookie", b"set-cookie"), (command, text)
                s1.go.set()
                assert answer(first)[:2] == ("200", "s1")
                world.logged(r"200 --VN 0 s1 sq=0 bq=0 /first", r"200 --DI \+0 s2 sq=1 bq=0 /second")
                figures = [(world.counters(name)["wredis"], world.counters(name)["wretr"], world.counters(name)["qcur"]) for name in ("s1", "s2", "BACKEND")]
                assert figures == [("1", "0", "0"), ("0", "0", "0"), ("1", "0", "0")], figures


def test_option_persist_and_force_persist_keep_requests_queued_at_a_down_server(binary, folder):
    """`option persist` and `force-persist` (manual, 4.2): the request waits for the server named by its cookie, even
    though it is down."""
    for options in ("option persist", "force-persist if { path_beg / }"):
        s1, s2 = Held("s1", at_once=False), Held("s2")
        with World(binary, folder, STICKY.format(options=options), [s1, s2]) as world:
            first = world.begin("a", "/first")
            assert wait_until(lambda: s1.inside == 1)
            second = world.begin("a", "/second")
            world.queued("s1", 1)
            world.ask("set server l/s1 health down")
            world.queued("s1", 1)
            world.ask("set server l/s1 health up")
            s1.go.set()
            assert answer(first)[:2] == answer(second)[:2] == ("200", "s1")
            world.logged(r"200 --VN 0 s1 sq=0 bq=0 /first", r"200 --VN 0 s1 sq=1 bq=0 /second")


def test_a_request_queued_at_a_server_gets_503_after_timeout_queue(binary, folder):
    """`timeout queue` for a request with persistence: the log names the server, and its counters include the failure."""
    s1, s2 = Held("s1", at_once=False), Held("s2")
    with World(binary, folder, STICKY.format(options=""), [s1, s2], queue="100ms") as world:
        first = world.begin("a", "/first")
        assert wait_until(lambda: s1.inside == 1)
        assert answer(world.begin("a", "/second"))[0] == "503"
        s1.go.set()
        answer(first)
        world.logged(r"200 --VN 0 s1 sq=0 bq=0 /first", r"503 sQVN 0 s1 sq=1 bq=0 /second")
        assert [world.counters(name)["econ"] for name in ("s1", "s2", "BACKEND")] == ["1", "0", "1"]


def test_a_request_beyond_maxqueue_is_redispatched_or_gets_503(binary, folder):
    """`maxqueue`: the next request goes to another server with `option redispatch`, and gets 503 without it."""
    lines = "cookie S insert indirect\n    {}\n    server s1 @s1@ cookie a maxconn 1 maxqueue 1\n    server s2 @s2@ cookie b maxconn 1"
    for options, third, counted in (("", r"503 SQVN 0 s1 sq=0 bq=0 /third", ("1", "0")), ("option redispatch", r"200 --DI \+0 s2 sq=0 bq=0 /third", ("0", "1"))):
        s1, s2 = Held("s1", at_once=False), Held("s2")
        with World(binary, folder, lines.format(options), [s1, s2]) as world:
            first = world.begin("a", "/first")
            assert wait_until(lambda: s1.inside == 1)
            second = world.begin("a", "/second")
            world.queued("s1", 1)
            assert answer(world.begin("a", "/third"))[0] == third[:3]
            s1.go.set()
            assert answer(first)[0] == answer(second)[0] == "200"
            world.logged(r"200 --VN 0 s1 sq=0 bq=0 /first", r"200 --VN 0 s1 sq=1 bq=0 /second", third)
            for name in ("s1", "BACKEND"):
                figures = world.counters(name)
                assert (figures["econ"], figures["wredis"]) == counted, figures


# Lines of the section, the request's cookie, the line's `%rc` and server, and then retries, redispatches, failures and balanced
# streams of the server that refuses.
REFUSED = [
    ("balance roundrobin\n    retries 3\n    option redispatch", "", r"200 --\S\S \+1 s2 ", "0101"),
    ("balance roundrobin\n    retries 2", "", r"503 SC\S\S 2 s1 ", "2011"),
    ("balance roundrobin\n    retries 0\n    option redispatch", "", r"503 SC\S\S 0 s1 ", "0011"),
    ("cookie S insert\n    retries 2\n    option redispatch", "s1", r"200 --DI \+2 s2 ", "1100"),
    ("cookie S insert\n    retries 2\n    option redispatch 1", "s1", r"200 --DI \+1 s2 ", "0100"),
    ("cookie S insert\n    retries 1", "s1", r"503 SCV\S 1 s1 ", "1010"),
    ("cookie S insert\n    retries 1\n    option redispatch\n    force-persist if TRUE", "s1", r"503 SCV\S 1 s1 ", "1010"),
    ("use-server s1 if TRUE\n    retries 2\n    option redispatch", "", r"200 --\S\S \+2 s2 ", "1100"),
]


def test_refused_connections_follow_retries_and_option_redispatch(binary, folder):
    """`retries`, `option redispatch`: the server, the number of attempts, and the counters."""
    for lines, cookie, line, counted in REFUSED:
        s2 = Held("s2")
        servers = f"\n    timeout connect 50ms\n    server s1 127.0.0.1:{free_port()} cookie s1\n    server s2 @s2@ cookie s2"
        with World(binary, folder, lines + servers, [s2]) as world:
            assert answer(world.begin(cookie))[0] == line[:3], lines
            world.logged(line)
            figures = world.counters("s1")
            assert "".join(figures[name] for name in ("wretr", "wredis", "econ", "lbtot")) == counted, (lines, figures)


def test_queued_requests_get_503_when_the_last_server_goes_down(binary, folder):
    """R169: requests waiting for any server get an error at once when the last server goes down, without waiting for
    their timeout."""
    for cookie, line in (("", r"503 SCNN 0 <NOSRV> sq=0 bq=1 /second"), ("a", r"503 SCDN \+0 <NOSRV> sq=1 bq=0 /second")):
        s1, s2 = Held("s1", at_once=False), Held("s2")
        with World(binary, folder, STICKY.format(options="option redispatch") + " disabled", [s1, s2]) as world:
            first = world.begin(cookie, "/first")
            assert wait_until(lambda: s1.inside == 1)
            second = world.begin(cookie, "/second")
            world.queued("s1" if cookie else "BACKEND", 1)
            world.ask("disable server l/s1")
            assert answer(second)[0] == "503"
            s1.go.set()
            answer(first)
            world.logged(r"200 --", line)


def test_no_request_is_stuck_in_a_queue_while_servers_change_state(binary, folder):
    """Many clients, `maxconn 1` on each server, random commands: every request ends well before `timeout queue` and has one log line, no server
    gets two requests at a time, and all counters add up."""
    for threads in (1, 2):
        servers = [Held(f"s{number}") for number in (1, 2, 3)]
        lines = "cookie S insert indirect\n    option redispatch 1\n    retries 2\n" + "".join(
            f"    server {server.name} @{server.name}@ cookie {server.name} maxconn 1\n" for server in servers)
        with World(binary, folder, lines, servers, queue="15s", threads=threads) as world:
            chance, statuses, over = random.Random(7), [], threading.Event()

            def client(number, chance=chance, statuses=statuses, world=world):
                for turn in range(25):
                    cookie = ("", "s1", "s2", "s3", "gone")[(number + turn) % 5]
                    statuses.append(answer(world.begin(cookie, f"/{number}/{turn}"))[0])

            def operator(chance=chance, over=over, world=world):
                # The third server stays up, so that one is always available.
                while not over.is_set():
                    name = chance.choice(("s1", "s2"))
                    world.ask(chance.choice((f"disable server l/{name}", f"enable server l/{name}", f"set server l/{name} health down",
                                             f"set server l/{name} health up", f"set weight l/{name} {chance.choice((0, 1, 9))}",
                                             f"set maxconn server l/{name} 1", f"set server l/{name} state drain", f"set server l/{name} state ready")))

            clients = [threading.Thread(target=client, args=(number,)) for number in range(16)]
            commands = threading.Thread(target=operator)
            began = time.monotonic()
            commands.start()
            for thread in clients:
                thread.start()
            for thread in clients:
                thread.join(30)
            took = time.monotonic() - began
            over.set()
            commands.join(5)
            assert statuses == ["200"] * 400 and took < 14, (len(statuses), set(statuses), took)
            assert wait_until(lambda: len(world.lines) == 400), len(world.lines)
            assert len({line.split()[-1] for line in world.lines}) == 400
            assert all(line.startswith("200 --") for line in world.lines), [line for line in world.lines if not line.startswith("200 --")][:5]
            assert [server.most for server in servers] == [1, 1, 1], [server.most for server in servers]
            assert sum(server.served for server in servers) == 400
            figures = {name: world.counters(name) for name in ("s1", "s2", "s3", "FRONTEND", "BACKEND")}
            for field in ("qcur", "scur"):
                assert {figures[name][field] for name in ("s1", "s2", "s3", "BACKEND")} == {"0"}, (field, figures)
            assert figures["FRONTEND"]["req_tot"] == figures["BACKEND"]["stot"] == "400"
            for field in ("stot", "hrsp_2xx", "wredis"):
                assert sum(int(figures[name][field]) for name in ("s1", "s2", "s3")) == int(figures["BACKEND"][field]), (field, figures)
            moved = sum(line.split()[2].startswith("+") for line in world.lines)
            assert moved <= int(figures["BACKEND"]["wredis"]), (moved, figures["BACKEND"]["wredis"])


class Broken(Server):
    """A server that reads a request and then ends the connection in one of several ways."""

    ANSWERS = (b"", b"H", b"nonsense\r\n\r\n", b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n")

    def __init__(self, name):
        self.name = name
        self.chance = random.Random(3)
        super().__init__()

    def serve(self, connection):
        """Half of the connections end with a reset."""
        connection.recv(65536)
        connection.sendall(self.chance.choice(self.ANSWERS))
        if self.chance.random() < 0.5:
            end_with_reset(connection)


def test_failing_servers_with_maxconn_1_do_not_block_the_queue(binary, folder):
    """R167: `maxconn 1` on each server, two of three servers fail in every way: all requests end, none is redispatched for ever, and the counters
    add up."""
    for threads in (1, 2):
        s2, s3 = Broken("s2"), Held("s3")
        lines = f"""timeout connect 20ms
    retries 3
    option redispatch 1
    retry-on all-retryable-errors
    server s1 127.0.0.1:{free_port()} maxconn 1
    server s2 @s2@ maxconn 1
    server s3 @s3@ maxconn 1"""
        with World(binary, folder, lines, [s2, s3], queue="15s", threads=threads) as world:
            statuses = []

            def client(number, statuses=statuses, world=world):
                for turn in range(10):
                    statuses.append(answer(world.begin(path=f"/{number}/{turn}"))[0])

            clients = [threading.Thread(target=client, args=(number,)) for number in range(12)]
            began = time.monotonic()
            for thread in clients:
                thread.start()
            for thread in clients:
                thread.join(30)
            took = time.monotonic() - began
            assert len(statuses) == 120 and took < 14 and s3.most == 1, (len(statuses), took, s3.most)
            # A server that fails at once is free most often, and therefore tried most often.
            assert statuses.count("200") >= 12, statuses
            seconds = world.program.cpu_seconds()
            assert seconds < 2, seconds
            assert wait_until(lambda: len(world.lines) == 120), len(world.lines)
            figures = {name: world.counters(name) for name in ("s1", "s2", "s3", "BACKEND")}
            assert {figures[name][field] for name in figures for field in ("qcur", "scur")} == {"0"}, figures
            assert figures["BACKEND"]["stot"] == "120" and figures["s3"]["hrsp_2xx"] == str(statuses.count("200"))
            # Each attempt connects again, mostly elsewhere; one for the sake of an answer that failed is a retry besides.
            logged = sum(int(line.split()[2]) for line in world.lines)
            counted = {field: sum(int(figures[name][field]) for name in ("s1", "s2", "s3")) for field in ("wretr", "wredis")}
            assert counted == {field: int(figures["BACKEND"][field]) for field in counted}, (counted, figures["BACKEND"])
            assert 0 < counted["wredis"] <= logged <= counted["wredis"] + counted["wretr"], (logged, counted)


class Leaving(Held):
    """A server that keeps a connection after its first answer, and closes it when a second request is there."""

    def serve(self, connection):
        connection.recv(65536)
        with self.lock:
            self.inside += 1
        self.go.wait(20)
        connection.sendall(OK)
        connection.recv(65536)


AGAIN = "retry-on conn-failure empty-response response-timeout"
# Lines of the section, and how many of the connections of four clients that ask once are new and how many were idle. HAProxy
# 2.6 and 3.2 do the same, but look at `retry-on` alone: with `retries 0` their clients see that an idle connection failed.
FIRST_REQUESTS = [
    ("", "40"),
    (AGAIN, "13"),
    ("retry-on all-retryable-errors", "13"),
    (AGAIN + "\n    http-reuse aggressive", "13"),
    (AGAIN + "\n    http-reuse never", "40"),
    (AGAIN + "\n    retries 0", "40"),
    (AGAIN + "\n    http-request disable-l7-retry", "40"),
    ("retry-on conn-failure empty-response", "40"),
    ("retry-on conn-failure response-timeout junk-response", "40"),
    ("retry-on empty-response response-timeout 503", "40"),
]


def test_a_first_request_uses_an_idle_connection_only_if_retry_on_covers_its_failure(binary, folder):
    """`http-reuse`: the first request of a session gets a new connection, because the client would see the failure of an idle one. Where `retry-on`
    hides such a failure, an idle connection is used."""
    for lines, counted in FIRST_REQUESTS:
        s1 = Held("s1")
        with World(binary, folder, lines + "\n    server s1 @s1@", [s1]) as world:
            for _ in range(4):
                assert answer(world.begin())[0] == "200"
            figures = world.counters("s1")
            assert figures["connect"] + figures["reuse"] == counted, (lines, figures)


def test_a_request_is_retried_when_its_idle_server_connection_closes(binary, folder):
    """Idle server connections close under the first and the second request of a session: each request is retried once, on a new connection."""
    s1 = Leaving("s1", at_once=False)
    with World(binary, folder, AGAIN + "\n    retries 1\n    server s1 @s1@", [s1]) as world:
        before = [world.begin() for _ in range(3)]
        assert wait_until(lambda: s1.inside == 3)
        s1.go.set()
        assert [answer(connection)[0] for connection in before] == ["200"] * 3
        with socket.create_connection(("127.0.0.1", world.port), 20) as client:
            for method in ("GET", "POST"):
                client.sendall(f"{method} / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())
                assert client.recv(65536).startswith(b"HTTP/1.1 200"), method
        figures = world.counters("s1")
        # A request that is sent again for want of an answer is one retry and connects in another; on a connection that its client
        # would see fail, connecting again is the only one.
        assert (figures["connect"], figures["reuse"], figures["wretr"], s1.inside) == ("5", "2", "3", 5), figures


def test_connecting_to_a_server_causes_no_bulk_run_of_the_scheduler(binary, folder):
    """R38: the first connect of a request waits for its event; it does not give up its turn."""
    s1 = Held("s1")
    with World(binary, folder, "http-reuse never\n    option http-server-close\n    server s1 @s1@", [s1]) as world:
        def figures():
            return {name: int(value.split()[0]) for name, value in (line.split(": ", 1) for line in world.ask("show activity").splitlines() if line.startswith("run_"))}
        with socket.create_connection(("127.0.0.1", world.port)) as client:
            def turn():
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                text = b""
                while not text.endswith(b"ok"):
                    text += client.recv(65536)
            turn()
            before = figures()
            for _ in range(200):
                turn()
            after = figures()
        assert s1.served == 201 and world.counters("s1")["connect"] == "201"
        normal, bulk = after["run_normal"] - before["run_normal"], after["run_bulk"] - before["run_bulk"]
        # Reading the counters takes some runs, too.
        assert normal >= 200 and bulk <= 20, (normal, bulk)


class SocksProxy(Server):
    """A SOCKS4 proxy: it records requests, and connects to `server` whatever their address."""
    YES, NO = b"\0\x5a" + bytes(6), b"\0\x5b" + bytes(6)

    def __init__(self, answers, server):
        self.answers, self.server, self.asked = answers, server, []
        super().__init__()

    def serve(self, connection):
        """Closes the connection after a reply other than YES. With None, does not reply."""
        self.asked.append(connection.recv(65536))
        answer = self.answers.pop(0)
        if answer is None:
            connection.recv(1)
            return
        connection.sendall(answer)
        if answer == self.YES:
            with socket.create_connection(("127.0.0.1", self.server.port)) as upstream:
                back = threading.Thread(target=self.copy, args=(upstream, connection), daemon=True)
                back.start()
                self.copy(connection, upstream)
                back.join()

    def copy(self, source, sink):
        """Copies one direction."""
        try:
            while more := source.recv(65536):
                sink.sendall(more)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


SOCKS_LOG = 'log-format "line %ST %ts %rc err=%[bc_err] %[bc_err_str] dst=%[bc_dst]:%[bc_dst_port]"'


def test_servers_are_reached_through_a_socks4_proxy(binary, folder):
    """`socks4`: one request to the proxy per connection, for the server's address."""
    s1 = Held("s1")
    proxy = SocksProxy([SocksProxy.YES], s1)
    lines = f"{SOCKS_LOG}\n    http-reuse always\n    server s1 192.0.2.1:8080 socks4 127.0.0.1:{proxy.port}"
    with World(binary, folder, lines, [s1]) as world:
        with socket.create_connection(("127.0.0.1", world.port), 20) as client:
            for _ in range(3):
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                text = b""
                while not text.endswith(b"ok"):
                    text += client.recv(65536)
        assert proxy.asked == [b"\x04\x01\x1f\x90\xc0\x00\x02\x01HAProxy\0"], proxy.asked
        assert wait_until(lambda: len(world.lines) == 3), world.lines
        assert set(world.lines) == {"200 -- 0 err=0 Success dst=192.0.2.1:8080"}, world.lines
        figures = world.counters("s1")
        # Bytes for the proxy are not counted as traffic.
        assert (figures["connect"], figures["reuse"], figures["bout"]) == ("1", "2", world.counters("FRONTEND")["bout"]), figures


def test_a_request_gets_503_when_the_socks4_proxy_refuses(binary, folder):
    """503, `SC`, and the manual's error text (`fc_err_str`); silence lasts as long as `timeout connect`."""
    s1 = Held("s1")
    proxy = SocksProxy([SocksProxy.NO, b"", SocksProxy.YES[:7], None], s1)
    lines = f"{SOCKS_LOG}\n    retries 0\n    timeout connect 200ms\n    server s1 192.0.2.1:8080 socks4 127.0.0.1:{proxy.port}"
    with World(binary, folder, lines, [s1]) as world:
        for _ in range(4):
            assert answer(world.begin())[0] == "503"
        assert wait_until(lambda: len(world.lines) == 4), world.lines
        found = [line.split(" dst")[0] for line in world.lines]
        aborted = "503 SC 0 err=40 SOCKS4 Proxy read error during handshake"
        assert found == ["503 SC 0 err=41 SOCKS4 Proxy deny the request", aborted, aborted, "503 sC 0 err=- -"], found
        assert world.counters("s1")["econ"] == "4"
    assert s1.served == 0


def test_an_ipv6_server_behind_a_socks4_proxy_is_not_contacted(binary, folder):
    """An IPv6 server fails without a query to the proxy, because the protocol cannot express it, and requests do not
    bypass the proxy."""
    s1 = Held("s1")
    proxy = SocksProxy([], s1)
    with World(binary, folder, f"retries 0\n    server s1 [::1]:8080 socks4 127.0.0.1:{proxy.port}", [s1]) as world:
        assert answer(world.begin())[0] == "503"
    assert not proxy.asked and s1.served == 0


def test_tcp_frontends_do_not_count_requests(binary, folder):
    """`req_tot` is zero in TCP mode, and no other protocol's requests are counted either."""
    s1 = Held("s1")
    with World(binary, folder, "mode tcp\n    server s1 @s1@", [s1]) as world:
        assert answer(world.begin())[0] == "200"
        wait_until(lambda: world.counters("FRONTEND")["scur"] == "0")
        figures = world.counters("FRONTEND")
        assert (figures["stot"], figures["req_tot"], figures["req_other"]) == ("1", "0", "0"), figures
        assert (world.counters("BACKEND")["req_tot"], world.counters("s1")["req_tot"]) == ("", "")


class Multipath(Server):
    """A server that answers one request on each connection and records the method and the protocol."""

    def __init__(self):
        self.seen = []
        super().__init__()

    def bind(self):
        """An MPTCP listener."""
        try:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
        except OSError:
            pytest.skip("kernel without MPTCP")
        listener.bind((self.host, self.port))
        listener.listen()
        return listener

    def serve(self, connection):
        head = connection.recv(65536)
        try:
            # SOL_MPTCP, MPTCP_INFO: an error for connections of TCP.
            connection.getsockopt(284, 1, 64)
            spoken = "mptcp"
        except OSError:
            spoken = "tcp"
        self.seen.append((head.split(b" ")[0].decode(), spoken))
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")


def test_mptcp_addresses_make_mptcp_connections(binary, folder):
    """2.9.3: `mptcp@` of `bind` and of `server`, checks included, beside servers without it."""
    with_it, without, probed = Multipath(), Multipath(), Multipath()
    port = free_port()
    lines = (f"bind mptcp4@127.0.0.1:{port} tfo tcp-ut 5s\n    option httpchk HEAD /\n    default-server inter 100ms tcp-ut 5s\n    server s1 mptcp@127.0.0.1:{with_it.port} check\n"
             f"    server s2 127.0.0.1:{without.port} check\n    server s3 127.0.0.1:{without.port} check port {probed.port} addr mptcp@127.0.0.1 weight 0")
    with World(binary, folder, lines, []):
        for _ in range(4):
            client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
            with client:
                client.connect(("127.0.0.1", port))
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                client.getsockopt(284, 1, 64)
                assert client.recv(65536).startswith(b"HTTP/1.1 200")
        wanted = {"HEAD", "GET"}
        assert wait_until(lambda: wanted <= {method for method, _ in with_it.seen} and wanted <= {method for method, _ in without.seen} and probed.seen)
        spoken = [{protocol for _, protocol in server.seen} for server in (with_it, without, probed)]
        assert spoken == [{"mptcp"}, {"tcp"}, {"mptcp"}], (with_it.seen, without.seen, probed.seen)


def test_logs_have_the_server_address_of_the_connection_after_the_server_moved(binary, folder):
    """`%si`, `%sp`, `bc_dst`, `bc_dst_port`: a change of the server's address does not affect requests in progress; the next connection goes to the
    new address."""
    s1, s2 = Held("s1", at_once=False), Held("s2")
    lines = ('log-format "line %si:%sp %[bc_dst]:%[bc_dst_port]"\n    http-after-response set-header to %[bc_dst_port]\n    server s @s1@')
    with World(binary, folder, lines, [s1]) as world:
        waiting = world.begin()
        assert wait_until(lambda: s1.inside == 1)
        ask(world.cli, f"set server l/s addr 127.0.0.1 port {s2.port}")
        s1.go.set()
        found = answer(waiting)
        assert found[0] == "200", found
        assert answer(world.begin())[0] == "200"
        assert wait_until(lambda: len(world.lines) == 2), world.lines
        ports = [f"127.0.0.1:{port} 127.0.0.1:{port}" for port in (s1.port, s2.port)]
        assert world.lines == ports, (world.lines, ports)


CLF = {
    # Text is quoted; dates, numbers and termination codes are not: a log analyser takes brackets for a date.
    "option httplog clf\n    capture request header X-A len 20":
        r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] "GET / HTTP/1\.1" 200 \d+ "" "" \d+ \d{3} "l" "l" "s1" '
        r'(\d+ ){5}---- (\d+ ){4}0 0 0 "" "" "" ?$',
    "mode tcp\n    option tcplog clf":
        r'127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] "TCP " 000 \d+ "" "" \d+ \d{3} "l" "l" "s1" '
        r'(\d+ ){5}---- (\d+ ){4}0 0 0 "" "" ?$',
}


def clf_line(binary, folder, lines):
    """The line that is logged of one request."""
    with World(binary, folder, lines + "\n    server s1 @s1@", [Held("s1")]) as world:
        assert answer(world.begin())[0] == "200"
        assert wait_until(lambda: world.log.lines), "no line"
        return world.log.lines[0]


def test_option_httplog_clf_and_tcplog_clf_write_common_log_format(binary, folder):
    """`option httplog clf`, `option tcplog clf`."""
    for lines, pattern in CLF.items():
        line = clf_line(binary, folder, lines)
        assert re.match(pattern, line), line


def test_goaccess_parses_httplog_clf_lines(binary, folder):
    """`option httplog clf` as GoAccess parses it, with and without captured headers."""
    program = installed("goaccess")
    for lines in (lines for lines in CLF if "http" in lines):
        report = subprocess.run([program, "-", "--log-format", '%h %^ %^ [%d:%t %^] "%r" %s %b %^', "--date-format", "%d/%b/%Y", "--time-format", "%T",
                                 "-o", "json"], input=clf_line(binary, folder, lines) + "\n", capture_output=True, text=True, timeout=20).stdout
        assert '"valid_requests": 1' in report and '"failed_requests": 0' in report, report[:500]
