"""The world of the rows: one program runs all rows of a group. `--haproxy` runs them with the reference program, 3.2 or 2.6."""
import contextlib
import os
import re

import pytest

from lib.program import run
from lua.ready import is_ready
from lua.rows import rows
from lua.world import World


def version_of(binary, is_reference):
    """"3.2" or "2.6" for HAProxy. "weir" for the program under test; it skips a build without Lua."""
    out = run(binary, "-vv")[1]
    if is_reference:
        return re.match(r"HAProxy version (\d+\.\d+)", out)[1]
    if re.search(r"(?m)^Feature list :.* -LUA\b", out):
        pytest.skip("weir without Lua")
    return "weir"


@pytest.fixture(scope="session")
def program(request):
    """The path of the program, and its version."""
    reference = request.config.getoption("haproxy")
    path = os.path.abspath(reference or request.getfixturevalue("binary"))
    return path, version_of(path, bool(reference))


@pytest.fixture(scope="module")
def observed(program):
    """The observation of a row: `observed(row, conversion)`. The rows of a group share one process, which starts with the first of them."""
    path, version = program
    with contextlib.ExitStack() as worlds:
        started = {}

        def observe(one, conversion):
            key = (*one.group, conversion)
            if key not in started:
                chosen = [other for other in rows() if other.group == one.group and (other.both or conversion == "normal")]
                try:
                    started[key] = worlds.enter_context(World(path, version, chosen, conversion))
                except AssertionError as fault:
                    started[key] = fault
            if isinstance(started[key], AssertionError):
                raise started[key]
            return started[key].run(one)
        yield observe


def pytest_ignore_collect(collection_path, config):
    """The checks of the rows themselves need the reference program, until weir has the members that most of them need."""
    if collection_path.name == "test_check.py" and not config.getoption("haproxy"):
        return True
    return None


def pytest_collection_modifyitems(config, items):
    """With weir, the rows run that need no part of Lua that it lacks."""
    if config.getoption("haproxy"):
        return
    waiting = [item for item in items if item.name.startswith("test_row[") and not is_ready(item.callspec.params["one"])]
    config.hook.pytest_deselected(items=waiting)
    items[:] = [item for item in items if item not in waiting]
