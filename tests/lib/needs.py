"""Requirements of a test. It is skipped if a program or a privilege is missing. left-out.tsv lists the permitted cases."""
import glob
import os
import shutil

import pytest

# The variable with the PATH that has optional programs, too.
WIDE_PATH = "TESTS_WIDE_PATH"


def installed(name):
    """The path of a program. Skips the test if it is not installed. Programs that packaging/setup installs for tests
    are on the PATH. Those of its purpose `optional` are on WIDE_PATH, which this test sees from here on
    (conftest.py)."""
    path = shutil.which(name)
    if path is None and (path := shutil.which(name, path=os.environ.get(WIDE_PATH, ""))):
        os.environ["PATH"] = os.environ[WIDE_PATH]
    if path is None:
        pytest.skip(f"program {name}")
    return path


def installed_as(pattern, name):
    """The path of a program with a version in its file name, by a pattern. Skips the test if it is not installed."""
    found = sorted(glob.glob(pattern))
    if not found:
        pytest.skip(f"program {name}")
    return found[-1]


def needs_root():
    """Skips the test unless it runs as root."""
    if os.geteuid() != 0:
        pytest.skip("root")
