#!/usr/bin/env python3
"""`make test`: every check, side by side where they wait, and one exit status.

  steps.py [--only NAME,NAME...] [--list]

Tests see an empty home and the commands of the packages that packaging/setup names (tests/runner/machine.py). A test
that fails runs once more, alone: if it passes then, it is reported as flaky and the run goes on. Tests that are left
out are listed, and have to be in tests/left-out.tsv. The output of each step and the results of all tests are in
target/test. Nothing here reaches a host other than the package registries.

The programs under test are built with the profile `trial` (Cargo.toml), which takes a third of the release's time. `make shipped` tests the
release.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import results
from runner import lanes, machine, rust, verdict
from runner.lanes import BUILD, TEST

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.path.abspath(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")))
WEIR = os.path.join(TARGET, "trial", "weir")
PROGRAMS = ("-p", "weir", "-p", "weir-ring", "-p", "weir-top")


def run(command, **env):
    """One command from the project's root; true when it succeeded."""
    return subprocess.run(command, cwd=ROOT, env=dict(os.environ, **env)).returncode == 0


def script(name, *arguments):
    """One of the programs of tests beside this file, against the built weir."""
    return run([sys.executable, os.path.join("tests", name), "--bin", WEIR, *arguments])


def formatted():
    return run(["cargo", "fmt", "--all", "--check"])


def counting():
    """The run sees tests that fail, that are flaky and that were left out, programs that run no test, and no more of the machine than it
    may."""
    return run([sys.executable, "-c", "from runner import checks; checks.check()"], PYTHONPATH=os.path.join(ROOT, "tests"))


# Programs without tests of their own: wrappers around a library, and programs that only the step `loom` runs.
EMPTY = [r"^weir-tidy/.*\(program\)$", r"^weir-fuzz$", r"loom$"]


def linted():
    """The test programs of all crates; true when they compile without a warning. Clippy compiles our crates here: a pass of its own would check all
    crates once more."""
    driver = shutil.which("clippy-driver")
    assert driver, "clippy is not installed: rustup component add clippy"
    return rust.build(["--workspace"], ROOT, dict(os.environ, RUSTC_WORKSPACE_WRAPPER=driver), may_warn=False)


def compiled():
    """The test programs of `units`, at the priority of builds."""
    return linted()[1]


def units():
    """Units, properties, replayed fuzz corpora, tidy (with the licence check), the README's generated part."""
    return rust.run_all(*linted(), may_be_empty=EMPTY)


def packages():
    """The crates of the workspace, as cargo describes them."""
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"],
                              cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {package["name"]: package for package in json.loads(metadata)["packages"]}


def integration_tests(name):
    """The integration tests of a crate."""
    return [target["name"] for target in packages()[name]["targets"] if "test" in target["kind"]]


def optimized():
    """The crates with shared state and the scheduler again, optimized and without debug assertions, to show bugs that
    only one of the two builds has (R13, R27, R71). Warnings of this level alone are errors (R28). Then workers over the
    simulated network, and misbehaving name servers, with ten times as many seeds as `units` runs of them and more."""
    # Each together with weir, so that all share one selection of features and nothing is built twice.
    trial = ["--profile", "trial", "-p", "weir"]
    tests = [word for name in integration_tests("weir-sched") for word in ("--test", name)]
    ok = rust.test([*trial, "-p", "weir-sync", "-p", "weir-containers", "-p", "weir-sched"], ROOT, kinds=("--lib", *tests), may_warn=False)
    ok &= rust.test([*trial, "-p", "weir-resolvers"], ROOT, kinds=("--lib",), only="recover", may_warn=False)
    return rust.test([*trial, "-p", "weir-stream"], ROOT, kinds=("--test", "simulated"), may_warn=False) and ok


def statistics():
    """Lock statistics are a build of their own (R82)."""
    return rust.test(["-p", "weir-sync", "-p", "weir-sched", "--features", "weir-sync/lock-statistics"], ROOT, kinds=("--lib",))


def loom():
    """Models of the crates that depend on loom, built with `--cfg loom` in a folder of their own: integration tests
    with `loom` in their name, or else the library's unit tests with `loom` in their path."""
    crates = [package["name"] for package in packages().values() if any(d["name"] == "loom" for d in package["dependencies"])]
    tests = {name: [test for test in integration_tests(name) if "loom" in test] for name in crates}
    more = {"RUSTFLAGS": (os.environ.get("RUSTFLAGS", "") + " --cfg loom").strip(), "CARGO_TARGET_DIR": os.path.join(TARGET, "loom")}

    def models(names, kinds, only):
        selected = [word for name in names for word in ("-p", name)]
        return rust.test(["--profile", "models", *selected], ROOT, kinds=kinds, only=only, **more)

    # All crates are selected for the integration tests, so that the libraries are found as built.
    return (models(crates, [word for name in crates for test in tests[name] for word in ("--test", test)], "")
            and models([name for name in crates if not tests[name]], ["--lib"], "loom"))


def deny():
    """deny.toml by cargo-deny itself where it is installed. Everywhere else tidy (in `units`) holds its licence, ban
    and source rules: building cargo-deny takes longer than all the rest, and its advisories live on a host other than
    the package registries."""
    if shutil.which("cargo-deny") is None:
        results.record("deny", "left out", why="program cargo-deny")
        return True
    return run(["cargo", "deny", "--offline", "check", "licenses", "bans", "sources"])


def bench():
    """The scheduler's benchmark has dependencies of its own, so it is a workspace of its own; here it only has to build."""
    return run(["cargo", "check", "--locked", "--manifest-path", "bench/sched/Cargo.toml"],
               CARGO_TARGET_DIR=os.path.join(TARGET, "bench-sched"))


def build():
    """The programs that the steps below test. `make run` builds only weir: no crate is built once more for it."""
    if not run(["cargo", "build", "--profile", "trial", "--locked", *PROGRAMS]):
        return False
    alone = subprocess.run(["cargo", "build", "--profile", "trial", "--locked", *PROGRAMS[:2]], cwd=ROOT, stderr=subprocess.PIPE, text=True)
    twice = [line for line in alone.stderr.splitlines() if "Compiling" in line]
    print("\n".join(f"FAILED built twice: {line.strip()}" for line in twice))
    return alone.returncode == 0 and not twice


def package():
    """The Debian package: installed, upgraded, removed and purged in a folder; man pages; completion."""
    return script("package.py")


def release():
    """The release build."""
    return run(["make", "--no-print-directory", "build"])


def shipped():
    """The release: its package, and the scripts of varnishtest against it. Then the checks that need builds of their
    own (tests/builds.py)."""
    program = os.path.join(TARGET, "release", "weir")
    return all([run([sys.executable, os.path.join("tests", name), "--bin", program]) for name in ("package.py", "vtc.py", "builds.py")])


def vtc():
    return script("vtc.py")


def parity():
    return script("parity/parity.py")


def process():
    return script("process.py")


def master():
    return script("master.py")


def attacks():
    return script("attacks.py")


def phases():
    return script("phases.py")


def servers():
    return script("servers.py")


def prometheus():
    """The exporter for Prometheus beside the reference program's."""
    return script("prometheus.py")


def ecosystem():
    """Third-party software for HAProxy: scripts, libraries, dashboards, log readers; as far as installed."""
    return script("ecosystem.py")


def top():
    """The terminal dashboard in a real terminal."""
    return script("top.py")


def browser():
    """The statistics page in a real browser."""
    return script("browser.py")


def health():
    """Health checks and their consequences, by processes: programs, mails, sessions, reloads."""
    return script("health.py")


def resolving():
    return script("resolving.py")


def tls():
    """TLS on both sides, with other implementations."""
    return script("tls.py")


def ocsp_updates():
    """OCSP responses that are renewed while it runs, by real responders and by some that err; the HTTP client."""
    return script("ocsp_updates.py")


def certificates():
    """TLS listeners: ticket keys, certificate stores."""
    return script("certificates.py")


def peers():
    """Stick-tables that instances share, beside other implementations of the protocol."""
    return script("peers.py")


def tables():
    """A table of a million entries: requests while entries are shown, cleared and expire at once, and the memory held
    by a slow reader."""
    return run([sys.executable, "bench/tables.py", "--rows", "operator,expiry", "--entries", "1000000", "--most-ms", "100", f"weir={WEIR}"])


def grpc():
    """Calls of gRPC by the real library, which the package registry has."""
    return script("grpc_calls.py")


def examples():
    """The configurations of doc/examples with real traffic."""
    return script("examples.py")


def differential():
    return script("differential.py")


def commands():
    """Each statement of the management manual about a command of the runtime API."""
    return script("commands.py")


def walk():
    """Each statement of the manual on fetches and log formats, by tables."""
    return script("walk.py")


def explore():
    """Random expressions of one seed; longer runs, other kinds and other seeds are made by hand (`make explore`)."""
    return script("explore.py", "--kind", "values", "--count", "12", "--seconds", "120", "--patience", "0")


# Name, function, prerequisites, whether it keeps processors busy or mostly waits, and the profile that cargo builds in
# it. In the order in which they begin. Most steps wait for `build`, so it has the priority of those that wait.
STEPS = [
    ("format", formatted, (), BUILD, None),
    ("build", build, (), TEST, "trial"),
    ("counting", counting, (), BUILD, None),
    ("compile", compiled, (), BUILD, "dev"),
    ("loom", loom, (), BUILD, None),
    ("optimized", optimized, ("build",), BUILD, "trial"),
    ("statistics", statistics, (), BUILD, "dev"),
    ("deny", deny, (), BUILD, None),
    ("bench", bench, (), BUILD, None),
    ("parity", parity, ("build",), TEST, None),
    ("vtc", vtc, ("build",), TEST, None),
    ("tls", tls, ("build",), TEST, None),
    ("health", health, ("build",), TEST, None),
    ("process", process, ("build",), TEST, None),
    ("master", master, ("build",), TEST, None),
    ("attacks", attacks, ("build",), TEST, None),
    ("phases", phases, ("build",), TEST, None),
    ("servers", servers, ("build",), TEST, None),
    ("prometheus", prometheus, ("build",), TEST, None),
    ("ecosystem", ecosystem, ("build",), TEST, None),
    ("top", top, ("build",), TEST, None),
    ("browser", browser, ("build",), TEST, None),
    ("resolving", resolving, ("build",), TEST, None),
    ("certificates", certificates, ("build",), TEST, None),
    ("ocsp_updates", ocsp_updates, ("build",), TEST, None),
    ("peers", peers, ("build",), TEST, None),
    ("tables", tables, ("build",), TEST, None),
    ("grpc", grpc, ("build",), TEST, None),
    ("examples", examples, ("build",), TEST, None),
    ("walk", walk, ("build",), TEST, None),
    ("differential", differential, ("build",), TEST, None),
    ("commands", commands, ("build",), TEST, None),
    ("explore", explore, ("build",), TEST, None),
    ("package", package, ("build",), TEST, None),
    ("units", units, ("compile",), TEST, "dev"),
]
# The release takes ten minutes to link, and differs from `trial` only by that: `make shipped` tests it once, when it is
# built.
RELEASE = [
    ("release", release, (), BUILD, "release"),
    ("shipped", shipped, ("release",), TEST, None),
]
PURPOSES = ("build", "test")


def step(name):
    """Makes one step, as a process of its own; the exit status. A step that records no results of its tests is one test."""
    function = next(function for one, function, *_ in STEPS + RELEASE if one == name)
    began, path = time.monotonic(), os.environ[results.FILE]
    ok = function()
    if not results.read(path):
        again = (sys.executable, os.path.abspath(__file__), "--step", name)
        results.record(name, "ok" if ok else "failed", time.monotonic() - began, again=again)
    return 0 if ok else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--step", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.list:
        print("\n".join(name for name, *_ in STEPS + RELEASE))
        return 0
    if options.step:
        return step(options.step)
    # So that steps that run are ended with this.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    only = {name for name in options.only.split(",") if name}
    if unknown := only - {name for name, *_ in STEPS + RELEASE}:
        sys.exit(f"no such step: {', '.join(sorted(unknown))}")
    # Prerequisites of the chosen steps run, too.
    needed = only | {need for name, _, needs, *_ in STEPS + RELEASE if name in only for need in needs}
    chosen = [row for row in STEPS + RELEASE if row[0] in needed] if only else STEPS
    return verdict_of(chosen)


def verdict_of(chosen):
    """Runs steps, and prints their results; returns the exit status."""
    began, folder = time.monotonic(), os.path.join(TARGET, "test")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    print(f"programs under test: {WEIR} and its neighbours, built with the profile trial", flush=True)
    env = machine.environment(folder, PURPOSES)
    # An optional program may need its neighbours, so the second try of tests that were left out sees this machine's own PATH, too.
    wide = env | {"PATH": os.pathsep.join([machine.environment(folder, (*PURPOSES, "optional"))["PATH"], os.environ.get("PATH", "")])}
    path = os.path.join(folder, "results")
    steps = [lanes.Step(name, needs, kind, profile, [sys.executable, os.path.abspath(__file__), "--step", name],
                        {results.FILE: f"{path}.{name}", "TESTS_ALONE": "later"}) for name, _, needs, kind, profile in chosen]
    rows = lanes.run(steps, folder, env)
    found = [case for name, *_ in chosen for case in results.read(f"{path}.{name}", name)]
    final, flaky = verdict.settle(found, env, wide, path)
    wrong = verdict.report(rows, final, flaky)
    verdict.steps_table(rows)
    verdict.failures(final)
    total, processors = time.monotonic() - began, sum(row.processors for row in rows)
    tests = sum(case.outcome == "ok" for case in final)
    print(f"{'total':12s} {total:8.1f}  {processors:13.1f}  {tests} tests passed; {'FAILED: ' + ', '.join(wrong) if wrong else 'ok'}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
