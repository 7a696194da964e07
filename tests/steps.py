#!/usr/bin/env python3
"""`make test`: every check in turn, each timed, a table at the end, and one exit status.

  steps.py [--only NAME,NAME...] [--list]

A step that fails does not stop the others (only what cannot run without the built program is left out), so one run
shows everything that is wrong. Nothing here reaches a host other than the package registries.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
WEIR = os.path.join(TARGET, "release", "weir")


def run(command, **env):
    """One command from the project's root; true when it succeeded."""
    return subprocess.run(command, cwd=ROOT, env=dict(os.environ, **env)).returncode == 0


def formatted():
    return run(["cargo", "fmt", "--all", "--check"])


def clippy():
    return run(["cargo", "clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"])


def units():
    """Units, properties, replayed fuzz corpora, tidy (with the licence check), the README's generated part."""
    return run(["cargo", "test", "--workspace", "--locked", "--quiet"])


def optimized():
    """What threads share and what schedules them once more, at the highest level and without debug assertions: a bug that
    only one of the two shows (R13, R27, R71) shows."""
    return run(["cargo", "test", "--release", "--locked", "--quiet", "-p", "weir-sync", "-p", "weir-containers", "-p", "weir-sched"],
               CARGO_TARGET_DIR=os.path.join(TARGET, "optimized"), CARGO_PROFILE_RELEASE_LTO="off",
               CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16", CARGO_PROFILE_RELEASE_DEBUG="false")


def loom_crates():
    """The crates that name loom among their dependencies, with their loom integration tests."""
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"],
                              cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for package in json.loads(metadata)["packages"]:
        if any(d["name"] == "loom" for d in package["dependencies"]):
            tests = [t["name"] for t in package["targets"] if "test" in t["kind"] and t["name"].startswith("loom")]
            yield package["name"], tests


def loom():
    """Tests whose path has `loom` in it, in the crates that use loom, built with `--cfg loom` in a folder of their own."""
    ok, count = True, 0
    flags = (os.environ.get("RUSTFLAGS", "") + " --cfg loom").strip()
    for name, tests in loom_crates():
        count += 1
        command = ["cargo", "test", "--release", "--locked", "--quiet", "-p", name, "--lib"]
        for test in tests:
            command += ["--test", test]
        # The exploration is what takes time: optimized, but without the release profile's slow linking.
        ok &= run(command + ["loom"], RUSTFLAGS=flags, CARGO_TARGET_DIR=os.path.join(TARGET, "loom"),
                  CARGO_PROFILE_RELEASE_LTO="off", CARGO_PROFILE_RELEASE_CODEGEN_UNITS="16",
                  CARGO_PROFILE_RELEASE_DEBUG="false")
    print(f"loom: {count} crates")
    return ok


def deny():
    """deny.toml by cargo-deny itself where it is installed. Everywhere else tidy (in `units`) holds its licence, ban and
    source rules: building cargo-deny takes longer than all the rest, and its advisories live on a host that is no
    package registry."""
    if shutil.which("cargo-deny") is None:
        print("cargo-deny is not installed; tidy checked licences, bans and sources")
        return True
    return run(["cargo", "deny", "--offline", "check", "licenses", "bans", "sources"])


def bench():
    """The scheduler's benchmark has dependencies of its own, so it is a workspace of its own; here it only has to build."""
    return run(["cargo", "check", "--locked", "--quiet", "--manifest-path", "bench/sched/Cargo.toml"],
               CARGO_TARGET_DIR=os.path.join(TARGET, "bench-sched"))


def build():
    return run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "weir"])


def vtc():
    return run([sys.executable, "tests/vtc.py", "--bin", WEIR])


def parity():
    return run([sys.executable, "tests/parity/parity.py", "--bin", WEIR])


def process():
    return run([sys.executable, "tests/process.py", "--bin", WEIR])


def master():
    return run([sys.executable, "tests/master.py", "--bin", WEIR])


def attacks():
    return run([sys.executable, "tests/attacks.py", "--bin", WEIR])


def differential():
    return run([sys.executable, "tests/differential.py", "--bin", WEIR])


def explore():
    """Random expressions of one seed; longer runs, other kinds and other seeds are made by hand (`make explore`)."""
    return run([sys.executable, "tests/explore.py", "--bin", WEIR, "--kind", "values", "--count", "12", "--seconds", "120", "--patience", "0"])


# name, function, whether it needs the built program
STEPS = [
    ("format", formatted, False),
    ("clippy", clippy, False),
    ("units", units, False),
    ("optimized", optimized, False),
    ("loom", loom, False),
    ("deny", deny, False),
    ("bench", bench, False),
    ("build", build, False),
    ("process", process, True),
    ("master", master, True),
    ("vtc", vtc, True),
    ("attacks", attacks, True),
    ("differential", differential, True),
    ("explore", explore, True),
    ("parity", parity, True),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(name for name, _, _ in STEPS))
        return 0
    only = [name for name in options.only.split(",") if name]
    unknown = set(only) - {name for name, _, _ in STEPS}
    if unknown:
        sys.exit(f"no such step: {', '.join(sorted(unknown))}")
    rows, failed = [], []
    for name, step, needs_program in STEPS:
        if only and name not in only:
            continue
        if needs_program and "build" in failed:
            rows.append((name, 0.0, "not run: there is no program"))
            failed.append(name)
            continue
        print(f"=== {name}", flush=True)
        start = time.monotonic()
        ok = step()
        rows.append((name, time.monotonic() - start, "ok" if ok else "FAILED"))
        if not ok:
            failed.append(name)
    print("\nstep          seconds  result")
    for name, seconds, result in rows:
        print(f"{name:12s} {seconds:8.1f}  {result}")
    print(f"{'total':12s} {sum(r[1] for r in rows):8.1f}  {'FAILED: ' + ', '.join(failed) if failed else 'ok'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
