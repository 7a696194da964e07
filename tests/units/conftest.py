"""Builds the tests of Rust before they are collected: once, not in each worker."""
import os
import shlex
import tempfile

import pytest

from units import cargo


def pytest_configure(config):
    arguments = config.getoption("cargo")
    if arguments is None or cargo.BUILT in os.environ:
        return
    # The soak builds once for many runs.
    file = os.environ.get("TESTS_BUILD_INTO")
    if file is None:
        folder = tempfile.TemporaryDirectory(prefix="weir.units.")
        config.add_cleanup(folder.cleanup)
        file = os.path.join(folder.name, "programs.json")
    if not os.path.exists(file) and not cargo.build(shlex.split(arguments), config.getoption("cargo_path"), file):
        pytest.exit("cargo does not build the tests without an error or a warning", returncode=1)
    os.environ[cargo.BUILT] = file


def pytest_ignore_collect(config):
    # Without `--cargo` there is nothing to collect here.
    return cargo.BUILT not in os.environ or None
