#!/usr/bin/env python3
"""`make parity`: HAProxy 2.6's own regression suite, as Debian packages it, run against weir.

  parity.py --bin target/release/weir [--update] [--only REGEX] [-j N] [--keep DIR] [--reference]

The suite comes from Debian's source package; only its `reg-tests/` folder is ever unpacked, into `.cache/`, and nothing of
it is committed. `passing.txt` holds the scripts that weir passes and only grows: a listed script that fails is an
error, a new one that passes is reported, and `--update` adds it. `reference.txt` holds those that the packaged program
itself passes; `--reference` measures that list again.
"""
import argparse
import glob
import os
import re
import shutil
import sys
import tarfile

import regtests

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import results as results_of_run  # noqa: E402
from archive import Archive  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
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
    """Brings the suite into the cache, unless it is there."""
    if os.path.isdir(os.path.join(TREE, "reg-tests")):
        return
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
    sys.exit("parity: the source package could not be fetched\n" + "\n".join(tried))


def unpack(archive):
    """Unpacks the suite's folder and nothing else: the program's source text stays unread."""
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


def measure_reference(options, names):
    """Writes `reference.txt` from the scripts that the packaged program passes, in at least one of two tries."""
    runner = regtests.Runner("haproxy", TREE, timeout=options.timeout)
    results = runner.run_all(names, options.j)
    passed = {n for n in names if results[n].outcome == "pass" or runner.run(n).outcome == "pass"}
    write_list("reference.txt", passed)
    print(f"parity: the packaged haproxy passes {len(passed)} of {len(names)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--reference", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true", help="also show why each script fails that is not on the list")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--timeout", type=int, default=10)
    parser.add_argument("--keep", default="", help="folder for the logs of what failed")
    options = parser.parse_args()
    fetch()
    names = regtests.scripts(TREE, "reg-tests", options.only)
    if options.reference:
        return measure_reference(options, names)
    if not options.bin:
        parser.error("--bin is missing")

    reference, listed = set(read_list("reference.txt")), set(read_list("passing.txt"))
    runner = regtests.Runner(options.bin, TREE, timeout=options.timeout, logs=options.keep, said=SAID)
    # Those on the list have the machine for themselves. The others mostly wait for a program that has refused its
    # configuration, so many of them wait together; one that passes is run again before it enters the list.
    results = runner.run_all([n for n in names if n in listed], options.j)
    results.update(runner.run_all([n for n in names if n not in listed], 6 * options.j))
    passed = {n for n in names if results[n].outcome == "pass"}
    lost = []
    for name in sorted(listed & set(names)):
        regtests.record(name, results[name], options.bin)
        if name not in passed:
            lost.append(name)
            print(f"LOST   {name}  {results[name].why}")
    if options.show:
        for name in sorted(set(names) - passed - set(lost)):
            print(f"{results[name].outcome:5s}  {name}  {results[name].why}")
    new = passed - listed
    for name in sorted(new):
        print(f"new    {name}")
    if new and options.update:
        # Once more: a script that passes by luck does not belong on a list that must hold.
        steady = {n for n in new if runner.run(n).outcome == "pass"}
        write_list("passing.txt", listed | steady)
        print(f"parity: {len(steady)} added to passing.txt")
    gone = sorted(n for n in listed if not options.only and n not in names)
    for name in gone:
        results_of_run.record(name, "failed", why="on the list but not in the suite")
        print(f"GONE   {name}  is on the list but not in the suite")
    print(f"parity: {len(passed & reference)} of the {len(reference & set(names))} that the packaged haproxy passes"
          f" ({len(passed - reference)} beyond it); {len(listed)} on the list, {len(lost)} lost")
    return 1 if lost or gone or not names else 0


if __name__ == "__main__":
    sys.exit(main())
