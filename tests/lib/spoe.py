"""A load balancer with one SPOE engine, between a client, an origin and a scripted agent."""
import re
import socket

from lib.log import LogServer
from lib.origin import Origin
from lib.program import Folder, Program, ask, free_port, request, wait_until
from lib.spop import Agent

CONFIGURATION = """
global
    stats socket {cli} level admin
    nbthread 1
    {global_lines}
defaults
    mode {mode}
    timeout connect 2s
    timeout client 5s
    timeout server 5s
    {defaults}
frontend f
    bind 127.0.0.1:{port}
    bind 127.0.0.1:{port2} {bind2}
    filter spoe engine e config {engine_file}
    {frontend}
    default_backend b
backend b
    {backend}
    server s 127.0.0.1:{origin} {server}
backend agents
    {agents_mode}
    {agents}
    server a {agent} {agent_words}
{sections}
"""

ENGINE = """[e]
spoe-agent ag
    {messages}
    option var-prefix v
    option set-on-error error
    timeout processing {timeout}
    {log}
    use-backend agents
    {agent_lines}
{engine}
"""

# The sections with the filter: the text between the listeners and the backend of agents.
FILTER = "    filter spoe engine e config {engine_file}\n"
PLACES = {
    "frontend": CONFIGURATION,
    "backend": CONFIGURATION.replace(FILTER, "").replace("\nbackend b\n", "\nbackend b\n" + FILTER),
    "both": CONFIGURATION.replace("\nbackend b\n", "\nbackend b\n" + FILTER),
    "listen": CONFIGURATION.replace("frontend f\n", "listen f\n").replace("    default_backend b\nbackend b\n", ""),
}

# One message at the event of a HTTP request.
CHECK = """spoe-message check
    args path=path
    event on-frontend-http-request"""


def message(name, event, args="", condition=""):
    """The section of one message."""
    lines = [f"spoe-message {name}"] + ([f"    args {args}"] if args else []) + ([f"    event {event} {condition}"] if event else [])
    return "\n".join(lines)


class World:
    """The parties of a test, in a folder of their own. `serve` starts the program; its keywords are the places of both files."""

    def __init__(self, binary, agent=None, origin=None):
        self.binary, self.agent, self.origin = binary, agent or Agent(), origin or Origin()
        self.folder, self.log, self.program = Folder(), LogServer(), None
        self.port, self.port2 = free_port(), free_port()

    def __enter__(self):
        self.folder.__enter__()
        self.cli = f"{self.folder.path}/cli"
        return self

    def __exit__(self, *_):
        if self.program:
            self.program.__exit__()
        self.agent.cut()
        self.origin.cut()
        self.log.close()
        self.folder.__exit__()

    def files(self, engine=CHECK, **places):
        """Writes both files. Returns the path of the configuration."""
        names = re.findall(r"^spoe-message (\S+)", engine, re.M)
        grouped = re.findall(r"^spoe-group \S+\n\s+messages (.*)", engine, re.M)
        free = [name for name in names if name not in " ".join(grouped).split()]
        values = dict(cli=self.cli, port=self.port, port2=self.port2, origin=self.origin.port, agent=f"127.0.0.1:{self.agent.port}", mode="http",
                      global_lines="", defaults="", frontend="", backend="", server="", agents_mode="mode spop", agents="", agent_words="", sections="",
                      bind2="", messages=f"messages {' '.join(free)}" if free else "", timeout="1s", agent_lines="", engine=engine,
                      log=f"log 127.0.0.1:{self.log.port} local0")
        values.update(places)
        values["text"] = values.get("text") or PLACES[values.pop("place", "frontend")]
        values["engine_file"] = self.folder.file("engine.cfg", values.pop("engine_text", ENGINE).format(**values))
        return self.folder.file("weir.cfg", values.pop("text").format(**values))

    def serve(self, engine=CHECK, **places):
        """Starts the program."""
        self.program = Program(self.binary, "-db", "-f", self.files(engine, **places)).__enter__()
        # Not a connection to a port: the engine would see it.
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

    def ask(self, path="/", *fields, method="GET", body=b""):
        """The head of the answer to one request on a new connection."""
        lines = [f"{method} {path} HTTP/1.1", "Host: shop.test", "Connection: close", *fields]
        return request(self.port, "\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def connect(self):
        """A connection of a client."""
        return socket.create_connection(("127.0.0.1", self.port), 5)

    def command(self, line):
        """The answer of the runtime API."""
        return ask(self.cli, line)

    def stat(self, proxy, server, column):
        """A column of `show stat`."""
        lines = self.command("show stat").splitlines()
        names = lines[0].lstrip("# ").split(",")
        row = next(line.split(",") for line in lines if line.startswith(f"{proxy},{server},"))
        return row[names.index(column)]


def field(head, name):
    """The value of a field of an answer. None without one."""
    found = re.search(rb"^" + name.encode() + rb":[ \t]*(.*?)\r?$", head, re.M | re.I)
    return found[1].decode("latin-1") if found else None


def ask_again(connection, path="/", *fields, method="GET", body=b""):
    """The head of the answer to one request on this connection; answers have a body of two bytes at most."""
    lines = [f"{method} {path} HTTP/1.1", "Host: shop.test", *fields]
    connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
    answer = b""
    while b"\r\n\r\n" not in answer:
        if not (more := connection.recv(65536)):
            return answer
        answer += more
    head, _, rest = answer.partition(b"\r\n\r\n")
    length = int(field(head, "content-length") or 0)
    while len(rest) < length:
        rest += connection.recv(65536)
    return head
