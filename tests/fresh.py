#!/usr/bin/env python3
"""`make fresh`: the README's two commands on a Debian 12 that has nothing of ours, as a user who may use sudo.

  fresh.py [--keep] [--commands run,test] [--only STEPS]

debootstrap makes the system below the target folder, with the README's prerequisites: Rust (this machine's toolchain,
read-only), make, git and sudo. The checkout is a clone of this one's last commit. Needs root and the package
debootstrap. To be run whenever packaging/setup changes: after a success fresh.sha256 has its digest, and a test of
tests/run compares that.
"""
import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import time

import steps

SUITE, MIRROR = "bookworm", "http://deb.debian.org/debian"
PACKAGES = "sudo,make,git,ca-certificates"
USER = "somebody"
SETUP, SEEN = os.path.join(steps.ROOT, "packaging", "setup"), os.path.join(steps.ROOT, "tests", "fresh.sha256")


# Runs as root in a namespace of mounts and processes of its own. $1 is the system, $2 the toolchain, $3 the registry's folder.
INSIDE = f"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mkdir -p opt/rust opt/cargo
mount --bind "$2" opt/rust && mount -o remount,bind,ro opt/rust
mount --bind "$3" opt/cargo && mount -o remount,bind,ro opt/cargo
cp -L /etc/resolv.conf etc/resolv.conf
echo "127.0.0.1 localhost $(hostname)" > etc/hosts
# This shell is the first process of the system: it reaps orphans while it waits.
chroot . su - {USER} -c "$4" &
wait $!
"""


def digest():
    """The digest of packaging/setup."""
    with open(SETUP, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def made(system):
    """Creates the system and a user with sudo."""
    # In a namespace of its own, so that no mount is left behind when it is ended.
    subprocess.run(["unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, system, MIRROR], check=True)
    # The registries may be reached through an authority that only this machine knows.
    shutil.copy("/etc/ssl/certs/ca-certificates.crt", system + "/etc/ssl/certs/ca-certificates.crt")
    subprocess.run(["chroot", system, "useradd", "--create-home", "--shell", "/bin/bash", USER], check=True)
    with open(os.path.join(system, "etc/sudoers.d/user"), "w") as file:
        file.write(f"{USER} ALL=(ALL) NOPASSWD: ALL\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="store_true", help="leave the system in its folder")
    parser.add_argument("--commands", default="run,test")
    parser.add_argument("--only", default="", help="these steps of the tests, separated by commas")
    options = parser.parse_args()
    if os.geteuid() != 0 or not shutil.which("debootstrap"):
        sys.exit("fresh: needs root and debootstrap")
    system = os.path.join(steps.TARGET, "fresh")
    shutil.rmtree(system, ignore_errors=True)
    made(system)
    clone = os.path.join(system, "home", USER, "weir")
    subprocess.run(["git", "clone", "--quiet", steps.ROOT, clone], check=True)
    subprocess.run(["chroot", system, "chown", "-R", f"{USER}:{USER}", f"/home/{USER}"], check=True)
    toolchain = os.path.dirname(os.path.dirname(subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()))
    programs = os.path.dirname(shutil.which("cargo"))
    commands = {"run": 'make run ARGS="-v"', "test": "make test" + (f" ONLY={options.only}" if options.only else "")}
    failed = False
    for name in options.commands.split(","):
        began = time.monotonic()
        inside = f"cd weir && export RUSTUP_HOME=/opt/rust PATH=/opt/cargo:$PATH && {commands[name]}"
        done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", INSIDE, "sh", system, toolchain, programs, inside])
        failed |= done.returncode != 0
        print(f"fresh: `make {name}` {'failed' if done.returncode else 'succeeded'} after {time.monotonic() - began:.0f} s", flush=True)
    if not failed and not options.only and options.commands == parser.get_default("commands"):
        with open(SEEN, "w") as file:
            file.write(digest() + "\n")
    if not options.keep:
        shutil.rmtree(system, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
