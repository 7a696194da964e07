"""A load balancer in front of a FastCGI application: between a client and a scripted application, with the log lines of both."""
import dataclasses
import re
import socket

from lib.fastcgi import Application
from lib.log import LogServer
from lib.program import Folder, Program, ask, free_port, wait_until

CONFIGURATION = """
global
    stats socket {cli} level admin
    nbthread 1
    {global_lines}
defaults
    mode http
    log 127.0.0.1:{log} local0
    option httplog
    timeout connect 2s
    timeout client 5s
    timeout server {server_timeout}
    {defaults}
frontend f
    bind 127.0.0.1:{port}
    {frontend}
    default_backend b
backend b
    use-fcgi-app app
    {backend}
    {servers}
fcgi-app app
    docroot {docroot}
    {app}
{sections}
"""

LINE = re.compile(r"f~? (?P<server>\S+) (?P<times>\S+) (?P<status>-?\d+) \d+ - - (?P<flags>\S{4}) \S+/(?P<retries>\+?\d+) \S+ (?P<request>.*)$")


@dataclasses.dataclass
class Answer:
    """A response. `fields` is a list of lower-case names and values; `body` is without the chunked coding; `complete` whether the
    framing says that the body has ended; `raw` all bytes."""
    status: int
    fields: list
    body: bytes
    complete: bool
    raw: bytes

    def field(self, name):
        """The value of the first field with this name. None without one."""
        return next((value for key, value in self.fields if key == name), None)

    def all(self, name):
        """The values of a field."""
        return [value for key, value in self.fields if key == name]


def parse(raw, method="GET"):
    """The [`Answer`] of the bytes of a connection that has ended. Interim responses are skipped."""
    rest = raw
    while True:
        head, mark, rest = rest.partition(b"\r\n\r\n")
        if not mark:
            return Answer(0, [], b"", False, raw)
        start, *lines = head.decode("latin-1").split("\r\n")
        status = int(start.split()[1])
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        if not 100 <= status < 200 or status == 101:
            break
    answer = Answer(status, fields, rest, True, raw)
    if method == "HEAD" or status in (204, 304):
        answer.complete = not rest
    elif answer.field("transfer-encoding") == "chunked":
        answer.body, answer.complete = dechunk(rest)
    elif answer.field("content-length") is not None:
        answer.complete = len(rest) == int(answer.field("content-length"))
    return answer


def dechunk(data):
    """The decoded body, and whether its end was there."""
    body = b""
    while match := re.match(rb"([0-9a-fA-F]+)[^\r\n]*\r\n", data):
        size = int(match[1], 16)
        data = data[match.end():]
        if size == 0:
            return body, data == b"\r\n"
        body += data[:size]
        data = data[size + 2:]
    return body, False


def read_answer(connection, method="GET", seconds=5.0):
    """The next [`Answer`] on a connection that goes on."""
    connection.settimeout(seconds)
    raw = b""
    while True:
        if b"\r\n\r\n" in raw:
            answer = parse(raw, method)
            bounded = answer.field("transfer-encoding") or answer.field("content-length")
            if answer.status and answer.complete and (bounded or method == "HEAD" or answer.status in (204, 304)):
                return answer
        more = connection.recv(65536)
        if not more:
            return parse(raw, method)
        raw += more


@dataclasses.dataclass
class Logged:
    """A line of the format httplog."""
    server: str
    status: int
    flags: str
    retries: str
    times: str
    request: str


class World:
    """The parties of a test, in a folder of their own. `serve` starts the program; its keywords are the places of the configuration."""

    def __init__(self, binary, haproxy, application=None):
        self.binary, self.haproxy, self.application = binary, haproxy, application or Application()
        self.folder, self.log, self.program, self.port = Folder(), LogServer(), None, free_port()

    def __enter__(self):
        self.folder.__enter__()
        self.cli = f"{self.folder.path}/cli"
        return self

    def __exit__(self, *_):
        if self.program:
            self.program.__exit__()
        self.application.cut()
        self.log.close()
        self.folder.__exit__()

    def want(self, value, haproxy, why):
        """What to expect of the program under test, where weir differs from HAProxy for a reason of differences.py."""
        from fastcgi.differences import DIFFERENCES
        assert why in DIFFERENCES, why
        return haproxy if self.haproxy else value

    def differs(self, why):
        """Whether the program under test is HAProxy, which differs for a reason of differences.py."""
        return self.want(False, True, why)

    def file(self, **places):
        """Writes the configuration. Returns its path."""
        values = dict(cli=self.cli, port=self.port, log=self.log.port, global_lines="", defaults="", frontend="", backend="", app="", sections="",
                      docroot="/srv/www", server="", server_timeout="5s", servers="server s {address} proto fcgi {server}",
                      address=self.application.address, folder=self.folder.path)
        values.update(places)
        text = values.pop("text", CONFIGURATION)
        # Places may be in places; other braces are those of the language.
        for _ in range(3):
            text = re.sub(r"(?<!%)\{(\w+)\}", lambda match: str(values.get(match[1], match[0])), text)
        return self.folder.file("weir.cfg", text)

    def serve(self, **places):
        """Starts the program."""
        self.program = Program(self.binary, "-db", "-f", self.file(**places)).__enter__()
        if not wait_until(lambda: self.answers() or self.program.process.poll() is not None) or not self.answers():
            self.program.process.kill()
            raise AssertionError(f"does not start: {self.program.process.communicate()[0]}")
        return self

    def answers(self):
        """Whether the runtime API answers."""
        try:
            return bool(self.command("show info"))
        except OSError:
            return False

    def connect(self, host="127.0.0.1", port=None):
        """A connection of a client."""
        return socket.create_connection((host, port or self.port), 5)

    def exchange(self, data, method="GET", seconds=8.0, connection=None):
        """Sends bytes on a new connection. Returns the [`Answer`] at its end."""
        with connection or self.connect() as client:
            client.settimeout(seconds)
            client.sendall(data)
            raw = b""
            try:
                while more := client.recv(65536):
                    raw += more
            except ConnectionResetError:
                pass
        return parse(raw, method)

    def ask(self, path="/", *fields, method="GET", body=b"", host="shop.test", connection=None):
        """The [`Answer`] to one request on a connection of its own."""
        lines = [f"{method} {path} HTTP/1.1", *([f"Host: {host}"] if host is not None else []), "Connection: close", *fields]
        return self.exchange("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body, method, connection=connection)

    def params(self, path="/", *fields, **options):
        """The parameters of one request, as the application received them."""
        count = len(self.application.requests)
        answer = self.ask(path, *fields, **options)
        assert answer.status == 200, answer.raw
        # Not one that the program gave up before its parameters, which may be noticed late.
        return [request for request in self.application.requests[count:] if request.items][-1].params

    def command(self, line):
        """The answer of the runtime API."""
        return ask(self.cli, line)

    def stat(self, proxy, server, column):
        """A column of `show stat`."""
        lines = self.command("show stat").splitlines()
        names = lines[0].lstrip("# ").split(",")
        row = next(line.split(",") for line in lines if line.startswith(f"{proxy},{server},"))
        return row[names.index(column)]

    def requests_logged(self):
        """The lines of requests so far, each a [`Logged`]."""
        found = [LINE.search(line) for line in list(self.log.lines)]
        return [Logged(**(match.groupdict() | {"status": int(match["status"])})) for match in found if match]

    def logged(self, count=1):
        """The line of the request with this number."""
        assert wait_until(lambda: len(self.requests_logged()) >= count), self.log.raw
        return self.requests_logged()[count - 1]
