#!/usr/bin/env python3
"""`make soak ONLY=name`: tests many times, on a quiet machine and on a busy one; a test that fails once is not ready.

  soak.py --only REGEX [--times 50]

Runs checks of the programs of tests/, scripts of tests/vtc, and Rust's tests with matching names. Busy means twice as
many loops as there are processors, at the same priority.
"""
import argparse
import contextlib
import os
import re
import subprocess
import sys
import tempfile

import results
import steps
from runner import machine, rust

# Scripts with named checks.
SCRIPTS = ("process", "master", "attacks", "servers", "prometheus", "ecosystem", "top", "browser", "health", "resolving", "tls", "certificates",
           "ocsp_updates", "peers", "grpc_calls", "examples", "package")
MOST = 40


@contextlib.contextmanager
def busy(loops):
    """Keeps processors busy while the block runs."""
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def checks(only, env):
    """The checks of scripts that match: name, and the command that makes each once."""
    for name in SCRIPTS:
        command = [sys.executable, os.path.join(steps.ROOT, "tests", name + ".py"), "--bin", steps.WEIR]
        listed = subprocess.run([*command, "--list"], env=env, capture_output=True, text=True, check=True).stdout
        for check in filter(lambda check: re.search(only, check), listed.split()):
            yield f"{name}: {check}", [*command, "--exact", check], None


def vtc(only):
    """The scripts of varnishtest that match."""
    root = os.path.join(steps.ROOT, "tests", "vtc")
    for folder, _, files in sorted(os.walk(root)):
        for path in (os.path.relpath(os.path.join(folder, file), os.path.dirname(root)) for file in sorted(files) if file.endswith(".vtc")):
            if re.search(only, path):
                yield path, [sys.executable, os.path.join(steps.ROOT, "tests", "vtc.py"), "--bin", steps.WEIR, "--only", f"^{re.escape(path)}$"], None


def units(only, env):
    """Rust's tests that match, in the crates that have such a function."""
    crates = set()
    for file in subprocess.run(["git", "ls-files", "*.rs"], cwd=steps.ROOT, capture_output=True, text=True, check=True).stdout.split():
        with open(os.path.join(steps.ROOT, file)) as text:
            if any(re.search(only, name) for name in re.findall(r"#\[test\](?:\s+(?:#\[.*|//.*))*\s+fn (\w+)", text.read())):
                crates.add(next(folder for folder in parents(file) if os.path.exists(os.path.join(steps.ROOT, folder, "Cargo.toml"))))
    for crate in sorted(crates):
        programs, ok = rust.build(["--manifest-path", os.path.join(crate, "Cargo.toml")], steps.ROOT, env)
        assert ok, f"{crate} does not build"
        for program in programs:
            listed = subprocess.run([program.path, "--list"], cwd=program.folder, env=env, capture_output=True, text=True).stdout
            for test in re.findall(r"^(\S+): test$", listed, re.M):
                if re.search(only, test):
                    yield f"{program.name}: {test}", [program.path, test, "--exact"], program.folder


def parents(path):
    """The folders above a file, from the nearest."""
    while path := os.path.dirname(path):
        yield path


def failures(command, folder, times, env):
    """The output of each try that did not pass."""
    found = []
    for _ in range(times):
        try:
            done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace", timeout=600)
            # A test that was left out has shown nothing.
            found += [done.stdout] * (done.returncode != 0 or "left out " in done.stdout)
        except subprocess.TimeoutExpired as late:
            found.append(f"{rust.said(late)}\nstill ran after ten minutes")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", required=True)
    parser.add_argument("--times", type=int, default=50)
    options = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        env = machine.environment(folder, (*steps.PURPOSES, "optional")) | {results.FILE: os.path.join(folder, "results")}
        tests = [*checks(options.only, env), *vtc(options.only), *units(options.only, env)]
        if not 0 < len(tests) <= MOST:
            sys.exit(f"{len(tests)} tests match {options.only!r}; between 1 and {MOST} may")
        for name, command, place in tests:
            seen = {}
            for kind, loops in (("quiet", 0), ("busy", 2 * (os.cpu_count() or 1))):
                with busy(loops):
                    seen[kind] = failures(command, place, options.times, env)
            failed |= any(seen.values())
            print(f"{name}: " + ", ".join(f"{kind} {options.times - len(found)} of {options.times}" for kind, found in seen.items()), flush=True)
            for kind, found in seen.items():
                if found:
                    print(f"  {kind}, first failure:\n{found[0][-3000:]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
