"""The world of the tests of scripts. `--haproxy` runs them with the reference program; where both differ on purpose, a test states both
verdicts."""
import contextlib
import os
import socket

import pytest

from lib.program import Folder, Program, connects, free_port, run, wait_until


class World:
    """A program with one script, in the shared state or in one for each thread."""

    def __init__(self, binary, haproxy, load):
        self.binary, self.haproxy, self.load = binary, haproxy, load
        self.folder, self.port, self.program = Folder(), free_port(), None

    def __enter__(self):
        self.folder.__enter__()
        return self

    def __exit__(self, *_):
        if self.program:
            self.program.__exit__()
        self.folder.__exit__()

    def file(self, script, rules="", global_lines="", conversion="normal", mode="http"):
        """Writes the script and the configuration. Returns the configuration's path."""
        path = self.folder.file("script.lua", script)
        text = f"""
global
    nbthread 2
    tune.lua.bool-sample-conversion {conversion}
    {global_lines}
    {self.load} {path} first second
defaults
    mode {mode}
    timeout connect 5s
    timeout client 5s
    timeout server 5s
frontend f
    bind 127.0.0.1:{self.port}
    {rules}
"""
        return self.folder.file("weir.cfg", text)

    def serve(self, script, rules="", **options):
        """Starts the program."""
        self.program = Program(self.binary, "-db", "-f", self.file(script, rules, **options)).__enter__()
        assert wait_until(lambda: self.program.process.poll() is not None or self.answers())
        assert self.program.process.poll() is None, self.said()
        return self

    def answers(self):
        """Whether the listener accepts connections."""
        return connects(self.port)

    def ask(self, path="/", *headers, seconds=8.0):
        """The answer to a request, as text."""
        with self.connect(path, *headers, seconds=seconds) as client:
            return b"".join(iter(lambda: client.recv(65536), b"")).decode("latin-1")

    def connect(self, path="/", *headers, seconds=8.0):
        """A client that has sent a request."""
        lines = [f"GET {path} HTTP/1.1", "Host: shop.test", "Connection: close", *headers]
        client = socket.create_connection(("127.0.0.1", self.port), seconds)
        client.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        return client

    def said(self):
        """The output of the program, which ends."""
        self.program.process.terminate()
        return self.program.process.communicate(timeout=10)[0]

    def check(self, script, rules="", **options):
        """The status and the output of `-c`."""
        code, out, errors = run(self.binary, "-c", "-f", self.file(script, rules, **options))
        return code, out + errors


@pytest.fixture(params=["lua-load", "lua-load-per-thread"])
def world(request):
    """A [`World`] that ends with the test, one for each way to load a script."""
    haproxy = request.config.getoption("haproxy")
    binary = os.path.abspath(haproxy or request.getfixturevalue("binary"))
    with contextlib.ExitStack() as worlds:
        yield worlds.enter_context(World(binary, bool(haproxy), request.param))
