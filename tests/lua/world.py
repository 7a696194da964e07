"""A program that runs all rows: one configuration, one Lua file for each area, an origin, scripted peers and a receiver of log lines."""
import contextlib
import os
import re
import socket
import ssl
import subprocess
import threading

from lib.log import LogServer
from lib.origin import OPEN, Origin, Server, end_with_reset
from lib.program import Folder, connects, free_port, wait_until
from lib.tls import Authority

HERE = os.path.dirname(os.path.abspath(__file__))

# Where the code of a row runs, and the listener that its client connects to.
PLACES = {
    "body": "http", "init": "http", "task": "http", "http-req": "http", "http-res": "http", "http-after-res": "http", "tcp-req-http": "http",
    "arguments": "http", "fetch": "http", "converter": "http", "http-service": "http", "tcp-req": "tcp", "tcp-res": "tcp", "tcp-service": "tcp",
    # The row's rules call it; its code does not run.
    "rules": "http", "cli": "cli",
    **{f"filter-{name}-{side}": "filtered" for name in ("start", "headers", "payload", "finish", "end") for side in ("req", "res")},
    "filter-tcp-payload-req": "filtered_tcp", "filter-tcp-payload-res": "filtered_tcp",
}

CONFIGURATION = """
global
    log 127.0.0.1:{log} local0 debug
    stats socket {cli} level admin
    nbthread 1
    ssl-server-verify none
    hard-stop-after 5s
    maxconn 200
    httpclient.ssl.verify none
    {conversion}
    {client}
    {many_rules}
    set-var proc.number int(7)
    lua-load {folder}/harness.lua
    {load}

defaults
    mode http
    log global
    option dontlognull
    timeout connect 1s
    timeout client 3s
    timeout server 3s
    timeout http-request 3s

frontend control
    bind 127.0.0.1:{control}
    no log
    http-request set-var(proc.place) url_param(place) if {{ path /begin }}
    http-request set-var(proc.row) url_param(row) if {{ path /begin }}
    http-request lua.control
    http-request return status 200 content-type text/plain lf-string "%[var(txn.answer)]"

frontend f
    bind 127.0.0.1:{http} name plain
    id 51
    log-format "stream %ST"
    declare capture request len 20
    tcp-request inspect-delay 1s
    {tcp_req_http}
    http-request set-var(txn.known) str(known)
    {http_req}
    {task}
    {arguments}
    {fetch}
    {converter}
    {returned}
    http-request set-header x-frontend 1
    {frontend}
    {http_service}
    http-response set-header x-frontend-response 1
    http-after-response set-header x-frontend-after 1
    default_backend b

backend b
    id 52
    http-request set-header x-backend 1
    {backend}
    {http_res}
    http-response set-header x-backend-response 1
    {http_after_res}
    http-after-response set-header x-backend-after 1
    server s 127.0.0.1:{origin} id 53 weight 7

frontend t
    mode tcp
    bind 127.0.0.1:{tcp}
    no log
    tcp-request inspect-delay 500ms
    {tcp_req}
    {tcp_service}
    default_backend tb

backend tb
    mode tcp
    tcp-response inspect-delay 500ms
    {tcp_res}
    server s 127.0.0.1:{peer}

backend spare
    balance roundrobin
    stick-table type ip size 1k expire 1m store gpc0,gpt0,conn_rate(10s)
    server s1 127.0.0.1:{dead} weight 10 maxconn 20
    server s2 127.0.0.2:{dead} backup
    server s3 127.0.0.3:{dead} track s4 
    server s4 127.0.0.4:{dead} check inter 1h
    server s5 127.0.0.5:{dead} disabled
    server s6 127.0.0.6:{dead}

backend strings
    stick-table type string len 20 size 100 store gpc0,gpc1,server_id

backend integers
    stick-table type integer size 100 nopurge store http_req_cnt

frontend lists
    bind 127.0.0.1:{lists}
    http-request deny if {{ src -f {folder}/addresses.acl }}
    http-request deny if {{ path -f {folder}/paths.acl }}
    http-request set-header x %[path,map({folder}/words.map)]
    http-request set-header y %[src,map_ip({folder}/networks.map)]
    http-request set-header z %[path,map({virtual})]
"""

FILES = {
    "addresses.acl": "192.0.2.1\n192.0.2.0/28\n", "paths.acl": "/a\n/b\n",
    "words.map": "one 1\ntwo 2\nempty \nthree words of text\n", "networks.map": "10.0.0.0/8 ten\n10.1.0.0/16 ten-one\n2001:db8::/32 six\n",
    "numbers.map": "1:5 low\n6: high\n", "suffixes.map": ".com commercial\n.org other\n", "expressions.map": "^a(.)c$ \\\\1\n^b b\n",
}


# The rules that run the code of rows, by their place. A world only has those of its rows, so that a program without a part of Lua runs the others.
RULES = {
    "http-req": "http-request lua.row_http_req", "task": "http-request lua.row_task", "arguments": "http-request lua.row_arguments one %[path]",
    "fetch": "http-request set-var(txn.returned) lua.row_fetch(a,b)", "converter": "http-request set-var(txn.returned) str(input),lua.row_converter(a,b)",
    "http-res": "http-response lua.row_http_res", "http-after-res": "http-after-response lua.row_http_after_res", "http-service": "http-request use-service lua.row_http",
    "tcp-req-http": "tcp-request content lua.row_tcp_req", "tcp-req": "tcp-request content lua.row_tcp_req", "tcp-res": "tcp-response content lua.row_tcp_res",
    "tcp-service": "tcp-request content use-service lua.row_tcp",
}
FILTERS = """
frontend filtered
    log-format "stream %ST"
    bind 127.0.0.1:{filtered}
    filter lua.row first second
    default_backend b

frontend filtered-tcp
    mode tcp
    no log
    bind 127.0.0.1:{filtered_tcp}
    filter lua.row
    default_backend tb
"""


class Peer(Server):
    """A TCP server that follows `steps` on each connection: bytes are sent; ("read", count), "line" and "eof" receive; ("sleep", seconds),
    "reset" and "hang" do as they say. `heard` is what it received."""

    def __init__(self, path=None, context=None):
        self.path, self.context = path, context
        self.expect(())
        super().__init__()

    def expect(self, steps):
        """Follows these steps from now on. What earlier connections still receive is lost."""
        self.steps, self.heard, self.over = steps, [], threading.Event()

    def bind(self):
        if self.path:
            listener = socket.socket(socket.AF_UNIX)
            listener.bind(self.path)
            listener.listen()
            return listener
        return super().bind()

    def listen(self):
        if not self.path:
            return super().listen()
        self.listener = self.bind()
        threading.Thread(target=self.accept, args=(self.listener,), daemon=True).start()

    def serve(self, connection):
        steps, heard, over = self.steps, self.heard, self.over
        connection.settimeout(5)
        if self.context:
            connection = self.context.wrap_socket(connection, server_side=True)
        try:
            for step in steps:
                self.follow(connection, step, heard)
        finally:
            if self.context:
                connection.close()
            over.set()

    def follow(self, connection, step, heard):
        """One step."""
        name, *values = step if isinstance(step, tuple) else (step,)
        if isinstance(step, bytes):
            connection.sendall(step)
        elif name == "sleep":
            threading.Event().wait(values[0])
        elif name == "reset":
            end_with_reset(connection)
        elif name == "shut":
            connection.shutdown(socket.SHUT_WR)
        elif name == "hang":
            threading.Event().wait(3)
        else:
            wanted = values[0] if values else 1 << 30
            while wanted > 0 and (more := connection.recv(1 if name == "line" else min(wanted, 65536))):
                heard.append(more)
                wanted -= len(more)
                if name == "line" and more == b"\n":
                    break


END = b"\r\n\r\n"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nServer-Says: hello\r\nX-List: a, b\r\nX-List: c\r\n\r\nhello"


class World:
    """A program with all rows, and its surroundings."""

    def __init__(self, binary, version, rows, conversion="normal"):
        self.binary, self.version, self.rows, self.conversion = binary, version, rows, conversion

    def __enter__(self):
        self.folder = Folder().__enter__()
        self.log = LogServer()
        self.origin, self.peer, self.process = Origin(ANSWER), Peer(), None
        self.unix = Peer(path=f"{self.folder.path}/peer")
        self.ports = {name: free_port() for name in ("control", "http", "tcp", "lists", "dead", "filtered", "filtered_tcp")}
        self.cli = f"{self.folder.path}/cli"
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(Authority(self.folder).issue("peer.test"))
        self.tls, self.marks = Peer(context=context), 0
        # They outlive the test that starts the world.
        for server in (self.origin, self.peer, self.tls):
            OPEN.discard(server)
        try:
            self.start()
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process:
            self.process.kill()
            self.process.wait()
        for server in (self.origin, self.peer, self.tls, self.unix):
            server.cut()
        self.log.close()
        self.folder.__exit__()

    def start(self):
        """Writes all files and starts the program."""
        arguments = ["-db", "-f", self.files()]
        self.output = open(f"{self.folder.path}/output", "w+")
        # The records are of a program with this home.
        self.process = subprocess.Popen([self.binary, *arguments], stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output,
                                        env=os.environ | {"HOME": "/root"})
        if not wait_until(lambda: connects(self.ports["control"]) or self.process.poll() is not None, 10) or self.process.poll() is not None:
            self.process.kill()
            raise AssertionError(f"does not start: {self.said()}")

    def said(self):
        """The program's output."""
        with open(f"{self.folder.path}/output", errors="replace") as file:
            return file.read()

    def runs(self, one):
        """Whether a row can be declared with this version."""
        return not (self.version == "2.6" and (one.place == "http-after-res" or one.since and (one.registration or one.frontend or one.backend)))

    def files(self):
        """Writes the configuration, the maps and the Lua files. Returns the path of the configuration."""
        folder = self.folder.path
        for name, text in FILES.items():
            self.folder.file(name, text)
        with open(f"{HERE}/harness.lua") as file:
            self.folder.file("harness.lua", file.read())
        addresses = dict(self.ports, peer=self.peer.port, tls=self.tls.port, origin=self.origin.port, folder=folder, unix=self.unix.path)
        settings = "\n".join(f"settings.{name} = {value if isinstance(value, int) else repr(value)}" for name, value in addresses.items())
        areas = {}
        for one in self.rows:
            if self.runs(one):
                areas.setdefault(one.area, []).append(declaration(one))
        self.folder.file("settings.lua", f"settings = {{}}\n{settings}\n")
        for area, lines in areas.items():
            self.folder.file(f"{area}.lua", "\n".join(lines))
        load = "\n    ".join(f"lua-load {folder}/{name}.lua" for name in ["settings", *areas])
        values = dict(addresses, log=self.log.port, cli=self.cli, load=load,
                      conversion="" if self.version == "2.6" else f"tune.lua.bool-sample-conversion {self.conversion}",
                      # HAProxy 3.2 spins where an action slept and more rules than this follow (50 by default).
                      many_rules="tune.max-rules-at-once 10000" if self.version == "3.2" else "",
                      client="" if self.version == "2.6" else "httpclient.retries 0\n    httpclient.timeout.connect 500ms",
                      virtual=f"{folder}/words.map" if self.version == "2.6" else "virt@virtual.map",
                      frontend=self.rules("frontend"), backend=self.rules("backend"))
        values.update(self.places())
        filters = FILTERS if any(one.place.startswith("filter") for one in self.rows) else ""
        return self.folder.file("lua.cfg", (CONFIGURATION + filters).format(**values))

    def places(self):
        """The rules for the places of the rows."""
        used = {one.place for one in self.rows if self.runs(one)}
        rules = {place.replace("-", "_"): f"{rule} if {{ var(proc.place) -m str {place} }}" if place in used else "" for place, rule in RULES.items()}
        return dict(rules, returned="http-request lua.row_returned" if used & {"fetch", "converter"} else "")

    def rules(self, section):
        """The rules of rows for a section."""
        lines = []
        for one in self.rows:
            if self.runs(one) and getattr(one, section):
                lines += getattr(one, section).replace("{if}", f"if {{ var(proc.row) -m str {one.number} }}").replace("-m str N }", f"-m str {one.number} }}").replace("{folder}", self.folder.path).splitlines()
        return "\n    ".join(lines)

    def control(self, path):
        """The body of a request to the control service."""
        with socket.create_connection(("127.0.0.1", self.ports["control"]), 5) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            answer = read_to_end(connection, 5)
        assert answer.startswith(b"HTTP/1.1 200"), (path, answer, self.said()[-2000:])
        return answer.partition(b"\r\n\r\n")[2].decode("latin-1")

    def run(self, one):
        """The observation of a row: its lines. A program that ends or hangs is started again."""
        try:
            return self.observe(one)
        except (OSError, AssertionError):
            ended = wait_until(lambda: self.process.poll() is not None, 1)
            self.process.kill()
            self.process.wait()
            self.start()
            return ["the program ends" if ended else "the program hangs"]

    def observe(self, one):
        """The observation of a row by this process."""
        if not self.runs(one):
            return ["not available"]
        self.origin.answer = one.answer or ANSWER
        self.origin.requests.clear()
        for peer in (self.peer, self.tls, self.unix):
            peer.expect(one.peer)
        self.control(f"/begin?row={one.number}&place={one.place}")
        if "log" in one.see or "stream" in one.see:
            self.drain()
        answers = [self.send(one, sent) for sent in (one.sent if isinstance(one.sent, list) else [one.sent])]
        lines = self.values(one)
        if "client" in one.see:
            lines += [f"client: {answer}" for answer in answers]
        if "got" in one.see:
            # The fields that a row's rules add.
            lines += [f"got: {field}" for request in self.origin.requests for field in re.findall(r"(?im)^((?:got|made|is-bool):.*?)\r?$", request.head.decode("latin-1"))]
        if "server" in one.see:
            lines += [f"server: {shown(request.head + END + request.body)}" for request in self.origin.requests] or ["server: nothing"]
        if "peer" in one.see:
            wait_until(lambda: any(peer.over.is_set() for peer in (self.peer, self.tls, self.unix)), 2)
            lines += [f"peer: {shown(b''.join(peer.heard))}" for peer in (self.peer, self.tls, self.unix) if peer.heard]
        if "log" in one.see:
            lines += [f"log: {line}" for line in self.drain()]
        if "stream" in one.see:
            lines.append(f"stream: {leveled(self.log.wait_for('stream -?[0-9]+$'))}")
        return [self.masked(line) for line in lines]

    def values(self, one):
        """The values of a row, as soon as there is one."""
        found = []

        def ended():
            found[:] = [self.control("/end")]
            return one.raw or found[0]
        wait_until(ended, 1.5)
        return found[0].split("<line>") if found[0] else []

    def send(self, one, sent):
        """The bytes that a client receives."""
        kind = PLACES[one.place]
        try:
            if kind == "cli":
                with socket.socket(socket.AF_UNIX) as connection:
                    connection.settimeout(4)
                    connection.connect(self.cli)
                    connection.sendall(sent)
                    return shown(read_to_end(connection, 3))
            with socket.create_connection(("127.0.0.1", self.ports[kind]), 3) as connection:
                connection.sendall(sent)
                if kind in ("tcp", "filtered_tcp"):
                    with contextlib.suppress(OSError):
                        if one.shut:
                            connection.shutdown(socket.SHUT_WR)
                    # A close is a reset where the program did not read everything: a matter of time.
                    return shown(read_to_end(connection, 3)).removesuffix("(reset)")
                return shown(read_to_end(connection, 3))
        except ConnectionResetError:
            return "reset" if kind in ("http", "filtered") else ""

    def drain(self):
        """The log lines up to now, with their level. The program has one thread, so a mark is the last of them."""
        self.marks += 1
        mark = f"mark{self.marks}"
        self.control(f"/log?{mark}")
        if not wait_until(lambda: any(mark in line for line in self.log.raw), 2):
            self.log.raw.append("core.log of the mark is missing")
        lines, self.log.raw[:] = list(self.log.raw), []
        return [leveled(line) for line in lines if not re.search(r"mark\d+$|stream -?\d+$|<HTTPCLIENT>|Server spare/s\d", line)]

    def masked(self, line):
        """A line without what differs from run to run."""
        line = line.replace(self.folder.path, "FOLDER")
        ports = dict(self.ports, peer=self.peer.port, tls=self.tls.port, origin=self.origin.port)
        for name, port in ports.items():
            line = re.sub(rf"(?<!\d){port}(?!\d)", name.upper(), line)
        if self.version == "weir" and line.startswith("server: "):
            # Its httpclient has a name of its own, and ends the connection.
            line = line.replace("\\nconnection: close", "").replace("\\nuser-agent: weir", "\\nuser-agent: HAProxy")
        return re.sub(r"0x[0-9a-f]{6,}", "0x?", line)


def declaration(one):
    """The row in Lua."""
    registration = f", [=====[{one.registration}]=====]" if one.registration else ""
    return f"row({one.number}, '{one.place}', {str(one.raw).lower()}, [=====[{one.code}]=====]{registration})"


LEVELS = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")


def leveled(line):
    """A log line as its level and its text."""
    found = re.match(r"^<(\d+)>.*?\]: (.*)", line, re.S)
    return f"{LEVELS[int(found[1]) % 8]} {found[2]}" if found else line


def shown(data):
    """Bytes as one line of text, without the fields that differ from run to run, and with fields in the order of their names."""
    text = re.sub(r"(?im)^(date|x-forwarded-for): [^\r\n]*\r\n", "", data.decode("latin-1"))
    head, _, body = text.partition("\r\n\r\n")
    if " HTTP/1." in head[:2000] or head.startswith("HTTP/1."):
        # Lua's tables lack an order, so fields of different names may have any. HAProxy writes names in lower case, weir keeps them.
        first, *fields = head.split("\r\n")
        fields = [name.lower() + colon + value for name, colon, value in (field.partition(":") for field in fields)]
        text = "\r\n".join([first, *sorted(fields, key=lambda field: field.partition(":")[0])]) + "\r\n\r\n" + body
    text = "".join(char if " " <= char <= "~" else {"\r": "", "\n": "\\n"}.get(char, f"\\x{ord(char):02x}") for char in text)
    if len(text) > 1500:
        text = f"{text[:300]}...{len(text)} characters"
    return text


def read_to_end(connection, seconds):
    """All bytes up to EOF. Ends with `(open)` where the connection stays open."""
    connection.settimeout(seconds)
    data = b""
    try:
        while more := connection.recv(65536):
            data += more
    except TimeoutError:
        return data + b"(open)"
    except ConnectionResetError:
        return data + b"(reset)"
    return data
