"""HAProxy 2.6's own regression suite, as Debian packages it, run against weir.

  PYTHONPATH=tests python3 -m parity.suite --bin target/trial/weir [-j N] [--reference]     `make parity`

The suite comes from Debian's source package; only its `reg-tests/` folder is ever unpacked, into `.cache/`, and nothing of
it is committed. `passing.txt` holds the scripts that weir passes and only grows: test_parity.py fails for a listed script
that fails. This program runs the others and adds those that pass. `reference.txt` holds those that the packaged program
itself passes; `--reference` measures that list again.
"""
import argparse
import fcntl
import glob
import os
import re
import shutil
import tarfile

from lib import varnishtest
from lib.archive import Archive
from lib.program import ROOT

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(ROOT, ".cache", "parity")
TREE = os.path.join(CACHE, "tree")
# The version with the suite that the lists were made with. A security update may take its place in the archive; every
# one of them carries the same upstream suite.
VERSION = "2.6.12-1+deb12u3"
SERIES = "2.6.12-"
SOURCES = """\
deb-src [signed-by={key}] http://deb.debian.org/debian bookworm main
deb-src [signed-by={key}] http://deb.debian.org/debian-security bookworm-security main
"""


def fetch():
    """Downloads the suite into the cache, unless it exists."""
    os.makedirs(CACHE, exist_ok=True)
    with open(os.path.join(CACHE, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.isdir(os.path.join(TREE, "reg-tests")):
            download()


def download():
    """Downloads the suite from Debian's archive into the cache."""
    archive = Archive(CACHE, SOURCES)
    update = archive.run("apt-get", "update")
    shown = archive.run("apt-cache", "showsrc", "haproxy").stdout
    found = sorted(set(re.findall(r"^Version: (\S+)$", shown, re.M)))
    versions = [VERSION] + [v for v in reversed(found) if v.startswith(SERIES) and v != VERSION]
    tried = [update.stderr.strip()]
    for version in versions:
        done = archive.run("apt-get", "source", "--download-only", "-y", f"haproxy={version}")
        archives = glob.glob(os.path.join(CACHE, "haproxy_*.orig.tar.*"))
        if done.returncode == 0 and archives:
            print(f"parity: the suite of haproxy {version}")
            return unpack(archives[0])
        tried.append(f"{version}: {done.stderr.strip()}")
    raise FileNotFoundError("the source package of haproxy could not be fetched\n" + "\n".join(tried))


def unpack(archive):
    """Unpacks only the suite's folder, and never the program's source code."""
    fresh = TREE + ".new"
    shutil.rmtree(fresh, ignore_errors=True)
    with tarfile.open(archive) as tar:
        for member in tar:
            top, _, path = member.name.partition("/")
            if path.startswith("reg-tests/") and (member.isfile() or member.isdir() or member.issym()) and ".." not in path:
                member.name = path
                tar.extract(member, fresh)
    os.rename(fresh, TREE)


# Since 3.3 a backend that names no algorithm draws its server (manual, "balance"): which of two comes first is chance.
SAID = [
    ("reg-tests/sample_fetches/srv_name.vtc", "    backend be\n", "        balance roundrobin\n"),
    ("reg-tests/server/cli_delete_dynamic_server.vtc", "\tbackend test\n", "\t\tbalance roundrobin\n"),
]


def read_list(name):
    """The scripts of one of the lists beside this file."""
    with open(os.path.join(HERE, name)) as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


def write_list(name, scripts):
    """Writes a list again under the comment lines that it opens with."""
    path = os.path.join(HERE, name)
    with open(path) as file:
        head = [line for line in file if line.startswith("#")]
    with open(path, "w") as file:
        file.writelines(head + [script + "\n" for script in sorted(scripts)])


def runner(program, timeout=10):
    """A runner of the suite's scripts for a program."""
    return varnishtest.Runner(program, TREE, timeout=timeout, said=SAID)


def passing(one, names, jobs):
    """The scripts that pass twice, to keep flaky scripts off the list."""
    results = one.run_all(names, jobs)
    return {name for name in names if results[name].outcome == "pass" and one.run(name).outcome == "pass"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("-j", type=int, default=6 * (os.cpu_count() or 2), help="the others mostly wait for a program that refused its configuration")
    options = parser.parse_args()
    fetch()
    names, listed = varnishtest.scripts(TREE, "reg-tests"), set(read_list("passing.txt"))
    if options.reference:
        passed = passing(varnishtest.Runner("haproxy", TREE), names, options.j)
        write_list("reference.txt", passed)
        print(f"the packaged haproxy passes {len(passed)} of {len(names)}")
        return
    new = passing(runner(options.bin), [name for name in names if name not in listed], options.j)
    write_list("passing.txt", listed | new)
    print(f"{len(new)} added to passing.txt: {' '.join(sorted(new))}")
    beyond = (listed | new) - set(read_list("reference.txt"))
    print(f"{len(listed | new)} of {len(names)} pass, {len(beyond)} of them do not with the packaged haproxy")


if __name__ == "__main__":
    main()
