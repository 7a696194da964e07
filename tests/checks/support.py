"""Shared parts of the health tests: a configuration, queries of the runtime API."""
import contextlib
import os

from lib.program import TERM, Program, ask, free_port, wait_until

CONFIGURATION = """
global
    stats socket {cli} level admin
    {extra}
defaults
    mode tcp
    timeout connect 2s
    timeout client 10s
    timeout server 10s
listen alive
    bind 127.0.0.1:{port}
    server none 127.0.0.1:1
{sections}
"""


class Scene:
    """The program with some sections. It listens on an unused port, to show that it is ready."""

    def __init__(self, binary, folder, sections, extra="", arguments=(), name="checks.cfg", **options):
        self.port = free_port()
        self.cli = os.path.join(folder.path, f"{name}.sock")
        text = CONFIGURATION.format(cli=self.cli, port=self.port, sections=sections, extra=extra)
        self.program = Program(binary, "-db", "-f", folder.file(name, text), *arguments, **options)

    def __enter__(self):
        self.program.__enter__()
        self.program.ready(self.port)
        # HAProxy may listen on the port first.
        assert wait_until(lambda: os.path.exists(self.cli)), "no runtime API"
        return self

    def __exit__(self, *reason):
        self.program.__exit__(*reason)

    def ask(self, command):
        """The answer of the runtime API."""
        return ask(self.cli, command)

    def stat(self, backend, server, *columns):
        """Some columns of `show stat` about a server, by name."""
        lines = self.ask("show stat").splitlines()
        names = lines[0].lstrip("# ").split(",")
        for line in lines[1:]:
            values = dict(zip(names, line.split(",")))
            if (values.get("pxname"), values.get("svname")) == (backend, server):
                return tuple(values[column] for column in columns)
        raise AssertionError(f"no {backend}/{server} in {lines}")

    def expect(self, backend, server, seconds=8.0, **expected):
        """Waits until `show stat` shows these values for a server."""
        def found():
            return self.stat(backend, server, *expected)
        held = wait_until(lambda: found() == tuple(expected.values()), seconds)
        assert held, f"{backend}/{server}: {dict(zip(expected, found()))}, not {expected}"


@contextlib.contextmanager
def serving(port, *command, **options):
    """A server while the block runs, from when it listens on."""
    with Program(*command, **options) as program:
        program.ready(port)
        yield program
        program.send(TERM)
        program.status(20)
