"""Access to Debian's archive independent of this machine's packages: package lists and downloads in a separate folder, without root."""
import fcntl
import functools
import glob
import os
import shutil
import stat
import subprocess

import pytest

from lib.program import TARGET

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Archive:
    """Sources of packages, as lines of sources.list in which `{key}` stands for the archive's keyring."""

    def __init__(self, folder, sources):
        self.folder = folder
        for name in ("lists/partial", "apt/archives/partial"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        self.write("sources.list", sources.format(key=KEYRING))
        # No package counts as installed, so a download brings everything that a program needs.
        self.write("status", "")

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def run(self, program, *arguments):
        """Runs apt-get or apt-cache with these sources; the machine's own lists are neither read nor changed."""
        options = {
            "Dir::Etc::sourcelist": os.path.join(self.folder, "sources.list"),
            "Dir::Etc::sourceparts": "-",
            "Dir::State::lists": os.path.join(self.folder, "lists"),
            "Dir::State::status": os.path.join(self.folder, "status"),
            "Dir::Cache": os.path.join(self.folder, "apt"),
            "APT::Sandbox::User": "",
            "APT::Install-Recommends": "false",
            "Debug::NoLocking": "true",
            # A mirror may lag behind; its lists are signed in any case.
            "Acquire::Check-Valid-Until": "false",
        }
        command = [program, "-q"] + [word for name, value in options.items() for word in ("-o", f"{name}={value}")] + list(arguments)
        return subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)


# The program of another version that tests speak to, and where Debian has it.
NEWER, SUITE = "3.2", "sid"


@functools.cache
def newer_haproxy():
    """The path of HAProxy 3.2, of Debian's newest suite, unpacked once with the libraries that it needs; leaves the check out where
    the archive does not have that version."""
    folder = os.path.join(TARGET, "haproxy-" + NEWER)
    program = os.path.join(folder, "haproxy")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(program):
            unpack(folder, program)
    said = subprocess.run([program, "-v"], capture_output=True, text=True).stdout
    if f"version {NEWER}." not in said:
        pytest.skip(f"haproxy {NEWER}: Debian's archive has another one")
    return program


def unpack(folder, program):
    """Downloads the packages and unpacks them into the folder, with a script that starts the program by their own loader."""
    archive, root = Archive(folder, f"deb [signed-by={{key}}] http://deb.debian.org/debian {SUITE} main\n"), os.path.join(folder, "root")
    shutil.rmtree(root, ignore_errors=True)
    for command in (("update",), ("install", "-y", "--download-only", "haproxy")):
        done = archive.run("apt-get", *command)
        assert done.returncode == 0, f"Debian's archive: {done.stderr}"
    for package in glob.glob(os.path.join(folder, "apt", "archives", "*.deb")):
        subprocess.run(["dpkg", "-x", package, root], check=True)
    [loader] = glob.glob(os.path.join(root, "usr", "lib*", "ld-linux-*.so.*")) or glob.glob(os.path.join(root, "usr", "lib", "*", "ld-linux-*.so.*"))
    libraries = ":".join(glob.glob(os.path.join(root, "usr", "lib", "*-linux-gnu")) + glob.glob(os.path.join(root, "lib", "*-linux-gnu")))
    with open(program + ".new", "w") as file:
        file.write(f'#!/bin/sh\nexec {loader} --library-path {libraries} {root}/usr/sbin/haproxy "$@"\n')
        os.chmod(file.name, stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    os.rename(program + ".new", program)
