"""Fixtures and collectors of all tests.

A test with requirements beyond the packages of packaging/setup's purpose `test` skips itself with `installed`,
`needs_root` or `pytest.skip`. left-out.tsv lists every permitted case with its reason. Any other skipped test fails
`make test`.
"""
import contextlib
import json
import os
import resource

import pytest

from lib import varnishtest
from lib.log import LogServer
from lib.origin import OPEN, Origin
from lib.program import TARGET, Folder, Program, free_port


def pytest_addoption(parser):
    parser.addoption("--bin", default=os.path.join(TARGET, "trial", "weir"), help="the program under test")
    parser.addoption("--haproxy", help="the reference program; tests of tables compare with it only where it is given")
    parser.addoption("--cargo", metavar="ARGUMENTS", help="what cargo builds for tests/units: '--workspace', '-p weir-stream --lib'")
    parser.addoption("--cargo-path", default="", metavar="TEXT", help="only tests of Rust with this text in their path; each program needs one")


def pytest_configure(config):
    config.addinivalue_line("markers", "release: needs builds of its own, so only `make shipped` runs it")
    config.addinivalue_line("markers", "alone: measures time, so a whole run leaves it for the end, when nothing else runs")
    # Many tests of one process hold many descriptors.
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if config.option.xmlpath and not hasattr(config, "workerinput"):
        # What a second try of a failed test needs (run/verdict.py).
        options = [word for word in config.invocation_params.args if word not in config.args]
        environment = {name: os.environ[name] for name in ("RUSTFLAGS", "CARGO_TARGET_DIR") if name in os.environ}
        os.makedirs(os.path.dirname(config.option.xmlpath), exist_ok=True)
        with open(f"{config.option.xmlpath}.run", "w") as file:
            json.dump({"options": options, "environment": environment}, file)


@pytest.fixture(scope="session")
def binary(request):
    """The path of the program under test."""
    path = os.path.abspath(request.config.getoption("bin"))
    assert os.access(path, os.X_OK), f"{path} is not there: make trial"
    return path


@pytest.fixture
def folder():
    """A folder for the test, accessible to any user. Its path is short, because a UNIX socket path is limited to 107 bytes."""
    with Folder() as made:
        yield made


@pytest.fixture
def port():
    """An unused port."""
    return free_port()


@pytest.fixture
def origin():
    """An HTTP/1 server that answers `ok`; a test may set its `answer`."""
    with Origin() as made:
        yield made


@pytest.fixture
def log():
    """A receiver of log lines over UDP: `log 127.0.0.1:{log.port} local0`."""
    with LogServer() as made:
        yield made


@pytest.fixture
def start(binary, folder):
    """Starts weir in the foreground with a configuration, and returns it once it listens on these ports. It is killed
    at the end of the test."""
    with contextlib.ExitStack() as started:
        def with_configuration(text, *ports, name="weir.cfg"):
            program = started.enter_context(Program(binary, "-db", "-f", folder.file(name, text)))
            for port in ports:
                program.ready(port)
            return program
        yield with_configuration


@pytest.fixture(autouse=True)
def own_environment():
    """Restores the environment and ends the servers of a test."""
    before, servers = dict(os.environ), set(OPEN)
    yield
    os.environ.clear()
    os.environ.update(before)
    for server in set(OPEN) - servers:
        server.cut()


def pytest_collect_file(file_path, parent):
    """Collects varnishtest scripts as tests."""
    if file_path.suffix == ".vtc":
        return varnishtest.File.from_parent(parent, path=file_path)
    return None
