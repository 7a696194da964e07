"""Log backends: servers that stall, are down, move or are in maintenance, and configuration errors."""
import os
import re
import signal
import socket
import threading
import time

from lib.origin import Server
from lib.program import TERM, Program, ask, free_port, run, wait_until

CONFIG = """
global
    nbthread 2
    stats socket {folder}/cli level admin
    {log}
defaults
    mode http
    timeout connect 1s
    timeout client 10s
    timeout server 5s
frontend f
    bind 127.0.0.1:{port}
    log global
    log-format "%HU"
    option dontlognull
    http-request return status 200
backend logs
    mode log
{servers}
"""


def configured(folder, port, servers, log="log backend@logs format raw local0"):
    lines = "".join(f"    {line}\n" for line in servers)
    return folder.file("logs.cfg", CONFIG.format(folder=folder.path, port=port, log=log, servers=lines))


def has_none(binary):
    """The packaged program is older than log backends."""
    return "haproxy" in os.path.basename(binary)


def datagrams(address=("127.0.0.1", 0)):
    heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    heard.bind(address)
    heard.settimeout(10)
    return heard


def get(port, path, count=1):
    """Requests on one connection."""
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(10)
        for number in range(count):
            client.sendall(b"GET %s%d HTTP/1.1\r\nhost: x\r\n\r\n" % (path, number))
            answer = b""
            while b"\r\n\r\n" not in answer:
                answer += client.recv(4096)
            assert b" 200 " in answer, answer


class LogServer(Server):
    """A server that records the bytes received. `ended` is set once a client has closed its connection."""

    def __init__(self, **options):
        self.received, self.ended = b"", threading.Event()
        super().__init__(**options)

    def serve(self, connection):
        while more := connection.recv(65536):
            self.received += more
        self.ended.set()


def cli(folder, command):
    return ask(os.path.join(folder.path, "cli"), command)


def counter(folder, server, name):
    """A counter of a server or of the backend."""
    text = cli(folder, "show stat logs 6 -1")
    rows = [line.split(",") for line in text.splitlines() if line]
    names = [field.lstrip("# ") for field in rows[0]]
    return next(row[names.index(name)] for row in rows[1:] if row[1] == server)


def dropped(folder):
    return int(re.search(r"^DroppedLogs: (\d+)$", cli(folder, "show info"), re.M)[1])


def test_stalled_or_absent_log_servers_lose_lines_without_delaying_requests(binary, folder, port):
    """A server that accepts connections and reads nothing, one that is not running, and a socket without a reader."""
    if has_none(binary):
        return
    dead = free_port()
    full = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    full.bind(os.path.join(folder.path, "full"))
    heard = datagrams()
    with socket.create_server(("127.0.0.1", 0)) as sleeping:
        servers = ["balance roundrobin", f"server sleeping 127.0.0.1:{sleeping.getsockname()[1]} log-bufsize 4k",
                   f"server dead 127.0.0.1:{dead} log-bufsize 4k", f"server full uxdg@{folder.path}/full",
                   f"server nobody udp@127.0.0.1:{dead}", f"server well udp@127.0.0.1:{heard.getsockname()[1]}"]
        with Program(binary, "-db", "-f", configured(folder, port, servers)) as program:
            program.ready(port)
            began = time.monotonic()
            get(port, b"/" + b"x" * 500 + b"/", 5000)
            assert time.monotonic() - began < 8, "traffic waited for a log server"
            assert len([heard.recv(1000) for _ in range(100)]) == 100, "the server that is well gets its part"
            lost = dropped(folder)
            assert lost > 900, lost
            assert int(counter(folder, "dead", "econ")) > 900, "its ring is full"
            assert int(counter(folder, "full", "econ")) > 500
            assert int(counter(folder, "BACKEND", "stot")) == 5000
            assert int(counter(folder, "BACKEND", "econ")) == lost
            program.send(TERM)
            assert program.status(10) is not None, "it leaves all the same"


def test_log_lines_wait_in_a_ring_for_a_server_that_is_down(binary, folder, port):
    """R97: lines written before the server starts, or while it is down, arrive; its ring has the configured size."""
    if has_none(binary):
        return
    at = free_port()
    servers = [f"server late 127.0.0.1:{at} log-proto octet-count log-bufsize 1m"]
    with Program(binary, "-db", "-f", configured(folder, port, servers)) as program:
        program.ready(port)
        get(port, b"/" + b"x" * 400 + b"/", 1000)
        assert dropped(folder) == 0
        with LogServer(port=at) as server:
            assert wait_until(lambda: server.received.endswith(b"/999"), 10), server.received[-100:]
        received = server.received
        assert received.startswith(b"403 /xxxx"), received[:20]
        for number in range(1000):
            length, rest = received.split(b" ", 1)
            message, received = rest[:int(length)], rest[int(length):]
            assert message.endswith(b"/%d" % number), (number, message)


def test_set_server_addr_moves_log_servers(binary, folder):
    """`set server ... addr` sends log lines to another address, as datagrams and over connections; a server without an address waits for one."""
    if has_none(binary):
        return
    port, first, second = free_port(), datagrams(), datagrams()
    servers = ["balance roundrobin", f"server u udp@127.0.0.1:{first.getsockname()[1]}",
               "server t no.such.name.invalid:514 init-addr none", f"server s 127.0.0.1:{free_port()} disabled"]
    with LogServer() as before, LogServer() as after, Program(binary, "-db", "-f", configured(folder, port, servers)) as program:
        program.ready(port)
        get(port, b"/only-u", 2)
        heard = [first.recv(100) for _ in range(2)]
        assert heard == [b"/only-u0\n", b"/only-u1\n"], heard
        cli(folder, f"set server logs/u addr 127.0.0.1 port {second.getsockname()[1]}")
        get(port, b"/moved")
        assert second.recv(100) == b"/moved0\n"
        cli(folder, f"set server logs/t addr 127.0.0.1 port {before.port}")
        cli(folder, "set server logs/t state ready")
        cli(folder, "disable server logs/u")
        get(port, b"/t", 2)
        assert wait_until(lambda: before.received == b"/t0\n/t1\n", 10), before.received
        cli(folder, f"set server logs/t addr 127.0.0.1 port {after.port}")
        get(port, b"/t-moved", 2)
        assert wait_until(lambda: after.received == b"/t-moved0\n/t-moved1\n", 10), after.received
        assert before.ended.wait(10), "the former connection is open"
        cli(folder, "disable server logs/t")
        get(port, b"/nobody")
        assert dropped(folder) >= 1, "every client is gone"


def test_a_process_paused_by_sigttou_receives_no_log_datagrams(binary, folder, port):
    """A paused process leaves datagrams to another process at the same address; afterwards it receives them again."""
    heard = datagrams()
    text = (f"global\n    stats socket {folder.path}/cli\nlog-forward f\n    dgram-bind 127.0.0.1:{port}\n    bind 127.0.0.1:{port}\n"
            f"    timeout client 5s\n    log 127.0.0.1:{heard.getsockname()[1]} format raw local0\n")
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def said(text):
        """Whether the text arrives. Skips other messages before it."""
        heard.settimeout(1)
        sender.sendto(b"<134>" + text, ("127.0.0.1", port))
        try:
            while True:
                message = heard.recv(1000).rstrip(b"\n")
                if message == text:
                    return True
        except TimeoutError:
            return False

    with Program(binary, "-db", "-f", folder.file("paused.cfg", text)) as program:
        program.ready(port)
        assert wait_until(lambda: said(b"before"))
        program.send(signal.SIGTTOU)
        assert wait_until(lambda: not said(b"meanwhile"))
        assert not said(b"still"), "it is paused"
        program.send(signal.SIGTTIN)
        assert wait_until(lambda: said(b"afterwards"))


def test_log_backend_errors_are_reported_with_file_and_line(binary, folder, port):
    if has_none(binary):
        return

    def check(text, *expected):
        status, _, err = run(binary, "-c", "-f", folder.file("bad.cfg", text))
        assert status == 1 and all(part in err for part in expected), err

    check("global\n log backend@lgos local0\nbackend logs\n mode log\n", "bad.cfg:2]", "unknown backend 'lgos'", "'logs'")
    check("backend logs\n mode log\n balance stiky\n", "bad.cfg:3]", "balance only supports")
    check("backend logs\n mode log\n server s udp@nosuch.invalid:514\n", "bad.cfg:3]", "could not resolve address 'nosuch.invalid'")
    check("ring r\n server s nosuch.invalid:514\n", "could not resolve address 'nosuch.invalid'")
    status, _, err = run(binary, "-c", "-f", folder.file("good.cfg", "ring r\n server s nosuch.invalid:514 init-addr none\n server t "
                                                         "nosuch.invalid:514 init-addr libc,127.0.0.1\n"))
    # Nothing listens, so it would not start; nothing else is wrong.
    assert status == 2 and "ALERT" not in err, (status, err)
    path = configured(folder, port, ["server s udp@127.0.0.1:514 source 192.0.2.1"])
    with Program(binary, "-db", "-f", path) as program:
        assert program.status(10) == 1, "no datagram can come from there"
        said = program.process.communicate()[0]
        assert "logs.cfg:19]" in said and "datagrams cannot come from there" in said, said
