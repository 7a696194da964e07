"""The world of the tests of FastCGI. `--haproxy` runs them with the reference program; where both differ on purpose, a test states both
verdicts, and differences.py the reason."""
import contextlib
import os

import pytest

from lib.fcgi_world import World


@pytest.fixture
def build(request):
    """Creates a [`World`] that ends with the test: `build(application)`."""
    haproxy = request.config.getoption("haproxy")
    binary = haproxy or request.getfixturevalue("binary")
    with contextlib.ExitStack() as worlds:
        def create(application=None):
            return worlds.enter_context(World(os.path.abspath(binary), bool(haproxy), application))
        yield create
