#!/usr/bin/env python3
"""`make test`: every check, side by side where they wait, and one exit status.

  steps.py [--only NAME,NAME...] [--list]

Tests see an empty home and the commands of the packages that packaging/setup names (tests/run/machine.py). A test that
fails runs once more, alone: if it passes then, it is reported as flaky and the run goes on. Skipped tests are listed,
and have to be in tests/left-out.tsv. The output of each step and its results (JUnit's format) are in target/test.
Nothing here reaches a host other than the package registries.

The programs under test are built with the profile `trial` (Cargo.toml), which takes a third of the release's time. `make shipped` tests the
release.
"""
import argparse
import functools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

from run import lanes, machine, verdict
from run.lanes import BUILD, TEST

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")))
FOLDER = os.path.join(TARGET, "test")
PURPOSES = ("build", "test")
# Tests that wait: more of them at once than there are processors.
AT_ONCE = 2 * (os.cpu_count() or 1)


def pytest(name, *arguments, at_once=AT_ONCE):
    """A run of pytest with results under this name."""
    return ["python3", "-m", "pytest", "-q", "-n", str(at_once), "--dist", "loadgroup", *verdict.files(FOLDER, name), *arguments]


def rust(name, cargo, *arguments, at_once=os.cpu_count() or 1, env=()):
    """The tests of Rust that cargo builds with these arguments."""
    return ["env", *env, *pytest(name, "tests/units", f"--cargo={cargo}", *arguments, at_once=at_once)]


def both(*commands):
    """Several commands, until one of them fails."""
    return ["sh", "-c", " && ".join(map(shlex.join, commands))]


TRIAL = "cargo build --profile trial --locked -p weir"
# `make run` builds only weir: no crate is built once more for it.
BUILD_ONCE = f'{TRIAL} -p weir-ring -p weir-top && said=$({TRIAL} 2>&1) && ! printf %s "$said" | grep Compiling'
# deny.toml by cargo-deny itself where it is installed. Everywhere else tidy holds its licence, ban and source rules: building cargo-deny takes
# longer than all the rest, and its advisories live on a host other than the package registries.
DENY = "command -v cargo-deny || { echo left out: cargo-deny is not installed; exit 0; }; cargo deny --offline check licenses bans sources"
# The crates with shared state and the scheduler again, optimized and without debug assertions, to show bugs that only one of the two builds has
# (R13, R27, R71). Warnings of this level alone are errors (R28). Then workers over the simulated network, and misbehaving name servers, with ten
# times as many seeds as `units` runs of them and more. Each together with weir, so that all share one selection of features.
OPTIMIZED = "--profile trial -p weir"


@functools.cache
def packages():
    """The crates of the workspace, as cargo describes them."""
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"],
                              cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {package["name"]: package for package in json.loads(metadata)["packages"]}


def integration_tests(name):
    """The integration tests of a crate."""
    return [target["name"] for target in packages()[name]["targets"] if "test" in target["kind"]]


def loom():
    """Models of the crates that depend on loom: integration tests with `loom` in their name, or else the library's unit tests with
    `loom` in their path. All crates are selected for the integration tests, so that the libraries are found as built."""
    crates = [package["name"] for package in packages().values() if any(d["name"] == "loom" for d in package["dependencies"])]
    tests = {name: [test for test in integration_tests(name) if "loom" in test] for name in crates}
    env = [f"RUSTFLAGS={os.environ.get('RUSTFLAGS', '')} --cfg loom".strip(), f"CARGO_TARGET_DIR={TARGET}/loom"]
    select = "--profile models " + " ".join(f"-p {name}" for name in crates)
    libraries = "--profile models " + " ".join(f"-p {name}" for name in crates if not tests[name])
    return both(rust("loom", f"{select} " + " ".join(f"--test {test}" for name in crates for test in tests[name]), env=env),
                rust("loom-libraries", f"{libraries} --lib", "--cargo-path=loom", env=env))


def steps():
    """Name, prerequisites, whether it keeps processors busy or mostly waits, the profile that cargo builds in it, and the command. In
    the order in which they begin. Most steps wait for `build`, so it has the priority of those that wait."""
    scheduler = " ".join(f"--test {name}" for name in integration_tests("weir-sched"))
    return [lanes.Step(*row) for row in (
        ("format", (), BUILD, None, ["cargo", "fmt", "--all", "--check"]),
        ("build", (), TEST, "trial", ["sh", "-c", BUILD_ONCE]),
        ("compile", (), BUILD, "dev", ["python3", "-m", "pytest", "-qq", "tests/units", "--cargo=--workspace", "--collect-only", "--no-summary"]),
        ("loom", (), BUILD, None, loom()),
        ("optimized", ("build",), BUILD, "trial", both(
            rust("optimized", f"{OPTIMIZED} -p weir-sync -p weir-containers -p weir-sched --lib {scheduler}"),
            rust("optimized-resolvers", f"{OPTIMIZED} -p weir-resolvers --lib", "--cargo-path=recover"),
            rust("optimized-streams", f"{OPTIMIZED} -p weir-stream --test simulated"))),
        # Lock statistics are a build of their own (R82).
        ("statistics", (), BUILD, "dev", rust("statistics", "-p weir-sync -p weir-sched --features weir-sync/lock-statistics --lib")),
        ("deny", (), BUILD, None, ["sh", "-c", DENY]),
        # The scheduler's benchmark has dependencies of its own, so it is a workspace of its own; here it only has to build.
        ("bench", (), BUILD, None, ["cargo", "check", "--locked", "--manifest-path", "bench/sched/Cargo.toml", "--target-dir", f"{TARGET}/bench-sched"]),
        ("processes", ("build",), TEST, None, pytest("processes", "tests", "-m", "not alone and not release")),
        ("units", ("compile",), TEST, "dev", rust("units", "--workspace")),
        # The release takes ten minutes to link, and differs from `trial` only by that: `make shipped` tests it once, when it is built.
        ("release", (), BUILD, "release", ["make", "--no-print-directory", "build"]),
        ("shipped", ("release",), TEST, None, pytest("shipped", f"--bin={TARGET}/release/weir", "tests/package", *verdict.scripts(ROOT))),
    )]


# Steps of `make shipped` alone.
SHIPPED = ("release", "shipped")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(step.name for step in steps()))
        return 0
    # So that steps that run are ended with this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.makedirs(FOLDER)
    os.environ |= (env := environment())
    every = steps()
    only = {name for name in options.only.split(",") if name}
    if unknown := only - {step.name for step in every}:
        sys.exit(f"no such step: {', '.join(sorted(unknown))}")
    # Prerequisites of the chosen steps run, too.
    needed = only | {need for step in every if step.name in only for need in step.needs}
    chosen = [step for step in every if (step.name in needed if only else step.name not in SHIPPED)]
    return run(chosen, env)


def environment():
    """The environment of tests: a PATH with the commands of packages, and a variable with the PATH that includes optional packages."""
    env = machine.environment(FOLDER, PURPOSES)
    wide = machine.environment(FOLDER, (*PURPOSES, "optional"))["PATH"]
    return env | {"TESTS_WIDE_PATH": os.pathsep.join([wide, os.environ.get("PATH", "")])}


def run(chosen, env):
    """Runs steps and prints their results. Returns the exit status."""
    began = time.monotonic()
    print(f"programs under test: {TARGET}/trial/weir and its neighbours, built with the profile trial", flush=True)
    rows = lanes.run(chosen, FOLDER, env)
    # What measures time runs when nothing else does.
    if any(row.name == "processes" and not row.result.startswith("not run") for row in rows):
        rows += lanes.run([lanes.Step("alone", (), TEST, None, pytest("alone", "tests", "-m", "alone", at_once=0))], FOLDER, env)
    rows, flaky = verdict.settle(rows, FOLDER, env, ROOT)
    cases = verdict.cases(FOLDER)
    wrong = ["tests"] * (verdict.report(cases, flaky) > 0) + verdict.steps_table(rows)
    total, processors = time.monotonic() - began, sum(row.processors for row in rows)
    passed = sum(case.outcome == "ok" for case in cases)
    print(f"{'total':12s} {total:8.1f}  {processors:13.1f}  {passed} tests passed; {'FAILED: ' + ', '.join(wrong) if wrong else 'ok'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
