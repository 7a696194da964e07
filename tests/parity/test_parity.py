"""HAProxy's own scripts that weir passes. The list only grows: `make parity` adds to it."""
import os

import pytest

from lib import varnishtest
from parity import suite

LISTED = suite.read_list("passing.txt")


@pytest.fixture(scope="session")
def tree():
    """The path of the suite."""
    suite.fetch()
    return suite.TREE


@pytest.mark.parametrize("script", LISTED)
def test_script(binary, tree, script):
    assert os.path.exists(os.path.join(tree, script)), "on the list but not in the suite"
    result = suite.runner(binary).run(script)
    assert result.outcome == "pass", f"{result.why}\n{result.log}"


def test_scripts_of_type_broken_are_not_on_the_list(tree):
    assert set(LISTED) <= set(varnishtest.scripts(tree, "reg-tests"))
