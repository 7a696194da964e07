"""A program with a `resolvers` section, its logs and its runtime API."""
import csv
import os

from lib.log import LogServer
from lib.program import Program, ask, free_port, wait_until

CONFIGURATION = """
global
    log 127.0.0.1:{log} local0
    stats socket {cli} level admin
    nbthread {threads}
    {globals}
resolvers r
    {servers}
    timeout resolve 150ms
    timeout retry 150ms
    resolve_retries 2
    hold nx 600ms
    hold refused 600ms
    hold timeout 600ms
    hold other 600ms
    hold obsolete 300ms
    {words}
defaults
    mode http
    log global
    timeout connect 2s
    timeout client 20s
    timeout server 20s
listen l
    bind 127.0.0.1:{port}
    {lines}
"""


class World:
    """A program that queries name servers."""

    def __init__(self, binary, folder, name_servers, lines, words="", threads=1, globals="", written=None):
        self.port = free_port()
        self.cli = os.path.join(folder.path, f"cli{self.port}")
        self.log = LogServer()
        self.said = self.log.lines
        servers = written or "\n    ".join(f"nameserver ns{at} 127.0.0.1:{server.port}" for at, server in enumerate(name_servers, 1))
        text = CONFIGURATION.format(log=self.log.port, cli=self.cli, port=self.port, threads=threads, servers=servers,
                                    lines=lines, words=words, globals=globals)
        self.program = Program(binary, "-f", folder.file(f"w{self.port}.cfg", text))

    def __enter__(self):
        self.program.__enter__()
        self.program.ready(self.port)
        return self

    def __exit__(self, *_):
        self.program.__exit__()
        self.log.close()

    def ask(self, command):
        """The answer to a command of the runtime API."""
        return ask(self.cli, command)

    def state(self, server="s"):
        """The columns of `show servers state` of a server."""
        lines = self.ask("show servers state l").splitlines()
        names = lines[1][2:].split()
        return next(row for line in lines[2:] if line and (row := dict(zip(names, line.split())))["srv_name"] == server)

    def is_at(self, expected, server="s", seconds=5):
        """Waits until a server has an address (`-` for none). False on timeout."""
        return wait_until(lambda: self.state(server)["srv_addr"] == expected, seconds)

    def status(self, server="s"):
        """The status of a server in the statistics."""
        rows = csv.DictReader(self.ask("show stat").lstrip("# ").splitlines())
        return next(row["status"] for row in rows if row["svname"] == server)

    def count(self, server="ns1"):
        """The counters of a name server."""
        rows = csv.DictReader(self.ask("show stat domain resolvers").lstrip("# ").splitlines())
        return next({name: int(value) for name, value in row.items() if name not in ("id", "pid", "")}
                    for row in rows if row["id"] == server)

    def has_said(self, text):
        """Waits until the logs contain a line. False on timeout."""
        return wait_until(lambda: text in self.said)
