"""fcgiwrap, which runs CGI programs, started by spawn-fcgi; and cgi-fcgi, a client of FastCGI, as a witness of the answers of a script."""
import os
import signal
import subprocess

import pytest

from lib.fcgi_world import World
from lib.needs import installed
from lib.program import Folder, wait_until

SCRIPTS = {
    "env": "printf 'Content-Type: text/plain\\r\\n\\r\\n'\nenv | sort",
    "cat": "printf 'Content-Type: application/octet-stream\\r\\n\\r\\n'\nexec cat",
    "status": "printf 'Status: 418 Short and stout\\r\\nX-Kind: pot\\r\\n\\r\\nbody'",
    "lf": "printf 'Status: 404\\nX-Kind: lf\\n\\nbody'",
    "redirect": "printf 'Location: http://other.test/x\\r\\n\\r\\n'",
    "crash": "kill -SEGV $$",
    "crash-late": "printf 'Content-Type: text/plain\\r\\n\\r\\npart'\nkill -SEGV $$",
    "exit": "printf 'Content-Type: text/plain\\r\\n\\r\\nbody'\nexit 3",
    "errors": "echo 'said on stderr' >&2\nprintf 'Content-Type: text/plain\\r\\n\\r\\nbody'",
    "silent": "exit 0",
    "junk": "echo not a head",
    "count": "printf 'Content-Type: text/plain\\r\\n\\r\\n'\nexec wc -c",
    "large": "printf 'Content-Type: application/octet-stream\\r\\n\\r\\n'\nhead -c 20000000 /dev/zero",
}


class Wrapped:
    """fcgiwrap on a socket in a folder, by spawn-fcgi, with the scripts in its document root."""

    def __init__(self, folder):
        self.root, self.path = f"{folder.path}/cgi", f"{folder.path}/wrap.sock"
        os.makedirs(self.root)
        for name, text in SCRIPTS.items():
            with open(f"{self.root}/{name}", "w") as file:
                file.write(f"#!/bin/sh\n{text}\n")
            os.chmod(f"{self.root}/{name}", 0o755)
        self.address = f"unix@{self.path}"
        # A group of its own, as fcgiwrap leaves its children.
        command = [installed("spawn-fcgi"), "-n", "-s", self.path, "-M", "0666", "--", installed("fcgiwrap"), "-f", "-c", "4"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        assert wait_until(lambda: os.path.exists(self.path))

    def cut(self):
        """The whole group of processes ends with its parent."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture(scope="module")
def wrapped():
    with Folder() as folder:
        made = Wrapped(folder)
        yield made
        made.cut()


@pytest.fixture
def site(request, wrapped):
    """Starts the program in front of fcgiwrap. Returns the world."""
    haproxy = request.config.getoption("haproxy")
    binary = os.path.abspath(haproxy or request.getfixturevalue("binary"))
    shared = type("Shared", (), {"address": wrapped.address, "cut": lambda self: None})()
    with World(binary, bool(haproxy), shared) as world:
        yield lambda **places: world.serve(docroot=wrapped.root, server="maxconn 4", **{"app": "no option keep-conn", **places})


def test_the_environment_of_a_script(site, wrapped):
    answer = site().ask("/env?a=b", "X-Y: z", "Proxy: http://evil/")
    lines = answer.body.decode().splitlines()
    for line in ("QUERY_STRING=a=b", "REQUEST_METHOD=GET", "SCRIPT_NAME=/env", f"SCRIPT_FILENAME={wrapped.root}/env", "HTTP_X_Y=z",
                 "SERVER_PROTOCOL=HTTP/1.1", "GATEWAY_INTERFACE=CGI/1.1", "HTTP_HOST=shop.test", "REMOTE_ADDR=127.0.0.1"):
        assert line in lines
    assert not any(line.lower().startswith("http_proxy=") for line in lines)


def test_a_line_end_in_a_path_makes_no_variable(site, wrapped):
    body = site().ask("/env%0aEVIL=1").body
    assert b"\nEVIL=1" not in body


@pytest.mark.parametrize("size", [0, 1, 1000, 50_000])
def test_a_body_through_a_script(site, size):
    body = os.urandom(size)
    answer = site().ask("/cat", f"Content-Length: {size}", method="POST", body=body)
    assert (answer.status, answer.body, answer.complete) == (200, body, True)


def test_a_large_body(site):
    """More than the pipes between fcgiwrap and a script hold."""
    assert site().ask("/count", "Content-Length: 5000000", method="POST", body=b"b" * 5_000_000).body.strip() == b"5000000"


def test_keep_conn(site):
    world = site(app="option keep-conn", backend="http-reuse always")
    assert [world.ask("/status").status for _ in range(20)] == [418] * 20


@pytest.mark.parametrize("name, status, kind", [("status", 418, "pot"), ("lf", 404, "lf")])
def test_statuses_of_scripts(site, name, status, kind):
    answer = site().ask(f"/{name}")
    assert (answer.status, answer.field("x-kind"), answer.body) == (status, kind, b"body")


def test_a_redirect(site):
    answer = site().ask("/redirect")
    assert (answer.status, answer.field("location")) == (302, "http://other.test/x")


def test_a_large_response(site):
    world = site()
    before = world.program.resident_kb()
    assert world.ask("/large", connection=None).body.count(b"\0") == 20_000_000
    assert world.program.resident_kb() - before < 8000


@pytest.mark.parametrize("name, statuses", [("crash", {502}), ("silent", {502}), ("junk", {502, 504}), ("nope", {403, 404, 502})])
def test_scripts_that_fail(site, name, statuses):
    world = site(server_timeout="1s")
    assert world.ask(f"/{name}").status in statuses
    assert world.ask("/status").status == 418


def test_a_script_that_crashes_after_its_head(site):
    answer = site().ask("/crash-late")
    assert (answer.status, answer.body) == (200, b"part")


def test_an_exit_code(site):
    answer = site().ask("/exit")
    assert (answer.status, answer.body, answer.complete) == (200, b"body", True)


def test_stderr_of_a_script(site, log):
    world = site(app=f"no option keep-conn\n    log-stderr 127.0.0.1:{log.port} local1")
    assert world.ask("/errors").body == b"body"
    log.wait_for("said on stderr")


@pytest.mark.parametrize("name", ["status", "lf", "exit"])
def test_the_same_body_as_cgi_fcgi_gets(site, wrapped, name):
    """The client of the FastCGI developers' kit sees the same output."""
    environment = {"REQUEST_METHOD": "GET", "SCRIPT_FILENAME": f"{wrapped.root}/{name}", "PATH": os.environ["PATH"]}
    told = subprocess.run([installed("cgi-fcgi"), "-bind", "-connect", wrapped.path], env=environment, capture_output=True, timeout=10).stdout
    assert told.endswith(site().ask(f"/{name}").body) and b"body" in told
