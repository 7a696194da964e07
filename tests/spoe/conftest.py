"""The world of the tests of SPOE. `--haproxy` runs them with the reference program, but for rows with a reason: a deliberate difference."""
import contextlib

import pytest

from lib.spoe import World


@pytest.fixture
def build(request, binary):
    """Creates a [`World`] that ends with the test: `build(agent=…, origin=…, differs=…)`."""
    haproxy = request.config.getoption("haproxy")
    with contextlib.ExitStack() as worlds:
        def create(agent=None, origin=None, differs=None):
            if haproxy and differs:
                pytest.skip(differs)
            return worlds.enter_context(World(haproxy or binary, agent, origin))
        yield create
