#!/usr/bin/env python3
"""`make test`: every check in turn, each timed, a table at the end, and one exit status.

  steps.py [--only NAME,NAME...] [--list]

A step that fails does not stop the others (only what cannot run without the built program is left out), so one run
shows everything that is wrong. A step whose tests are all left out, by a filter that matches no name for example, fails.
Nothing here reaches a host other than the package registries.
"""
import argparse
import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import tally

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
WEIR = os.path.join(TARGET, "release", "weir")


def run(command, **env):
    """One command from the project's root; true when it succeeded."""
    return subprocess.run(command, cwd=ROOT, env=dict(os.environ, **env)).returncode == 0


def processor_seconds():
    """What all commands took of processors until now: a step that takes little of them waits for timeouts."""
    times = os.times()
    return times.children_user + times.children_system


def formatted():
    return run(["cargo", "fmt", "--all", "--check"])


def clippy():
    return run(["cargo", "clippy", "--workspace", "--all-targets", "--locked", "--quiet", "--", "-D", "warnings"])


# Targets that have no tests of their own: a program around a library, and what only the step `loom` runs.
EMPTY = [r"^weir_tidy \(src/main\.rs\)", r"^weir_fuzz \(src/lib\.rs\)", r"loom \(tests/"]


def cargo_test(arguments, **env):
    """Every target runs tests, and all of them pass."""
    ok, targets = tally.cargo_test(arguments, cwd=ROOT, **env)
    print(f"{sum(target.ran for target in targets)} tests in {len(targets)} targets")
    return ok and bool(targets) and not tally.without_tests(targets, EMPTY)


def counting():
    """The steps below see that a target runs no test."""
    return run([sys.executable, "tests/tally.py"])


def units():
    """Units, properties, replayed fuzz corpora, tidy (with the licence check), the README's generated part."""
    return cargo_test(["--workspace", "--locked", "--no-fail-fast"])


# As optimized as the release, without its slow linking.
OPTIMIZED = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16", "CARGO_PROFILE_RELEASE_DEBUG": "false"}


def optimized():
    """What threads share and what schedules them once more, at the highest level and without debug assertions: a bug that
    only one of the two shows (R13, R27, R71) shows. Warnings that only this level gives are errors (R28). Then workers over
    the simulated network, and name servers that err, ten times as many seeds as `units` runs of them and more."""
    env = dict(OPTIMIZED, RUSTFLAGS=(os.environ.get("RUSTFLAGS", "") + " -D warnings").strip(),
               CARGO_TARGET_DIR=os.path.join(TARGET, "optimized"))
    ok = cargo_test(["--release", "--locked", "-p", "weir-sync", "-p", "weir-containers", "-p", "weir-sched"], **env)
    ok &= cargo_test(["--release", "--locked", "-p", "weir-resolvers", "--lib", "stick"], **env)
    return cargo_test(["--release", "--locked", "-p", "weir-stream", "--test", "simulated"], **env) and ok


def statistics():
    """Lock statistics are a build of their own (R82)."""
    return cargo_test(["--locked", "-p", "weir-sync", "-p", "weir-sched", "--features", "weir-sync/lock-statistics", "--lib"])


def loom_crates():
    """The crates that name loom among their dependencies, with their integration tests that are named for it."""
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1", "--locked"],
                              cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for package in json.loads(metadata)["packages"]:
        if any(d["name"] == "loom" for d in package["dependencies"]):
            yield package["name"], [t["name"] for t in package["targets"] if "test" in t["kind"] and "loom" in t["name"]]


def loom():
    """Models, in the crates that use loom, built with `--cfg loom` in a folder of their own: the unit tests whose path has
    `loom` in it, and whole integration tests that are named for it."""
    ok, crates = True, list(loom_crates())
    env = dict(OPTIMIZED, RUSTFLAGS=(os.environ.get("RUSTFLAGS", "") + " --cfg loom").strip(), CARGO_TARGET_DIR=os.path.join(TARGET, "loom"))
    for name, tests in crates:
        passed, targets = tally.cargo_test(["--release", "--locked", "-p", name, "--lib"], only="loom", cwd=ROOT, **env)
        ok &= passed
        if tests:
            chosen = [word for test in tests for word in ("--test", test)]
            passed, whole = tally.cargo_test(["--release", "--locked", "-p", name, *chosen], cwd=ROOT, **env)
            ok &= passed and len(whole) == len(tests) and not tally.without_tests(whole)
            targets += whole
        models = sum(target.ran for target in targets)
        print(f"loom: {models} models in {name}")
        ok &= models > 0
    return ok and bool(crates)


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


class Building:
    """The programs as they are shipped, built while steps run that use other folders: linking as a whole keeps one processor
    busy for minutes and leaves the others idle. `finish` waits for it and tells what it printed."""

    def __init__(self):
        self.output = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            ["cargo", "build", "--release", "--locked", "--quiet", "-p", "weir", "-p", "weir-ring", "-p", "weir-top"],
            cwd=ROOT, stdout=self.output, stderr=subprocess.STDOUT)

    def finish(self):
        status = self.process.wait()
        self.output.seek(0)
        sys.stdout.write(self.output.read().decode(errors="replace"))
        return status == 0

    def stop(self):
        """Nothing is left behind when the run ends early."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


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


def phases():
    return run([sys.executable, "tests/phases.py", "--bin", WEIR])


def servers():
    return run([sys.executable, "tests/servers.py", "--bin", WEIR])


def prometheus():
    """The exporter for Prometheus beside the reference program's."""
    return run([sys.executable, "tests/prometheus.py", "--bin", WEIR])


def ecosystem():
    """What others wrote for HAProxy: scripts, libraries, dashboards, readers of logs; of those, what is installed."""
    return run([sys.executable, "tests/ecosystem.py", "--bin", WEIR])


def top():
    """The terminal dashboard in a real terminal."""
    built = run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "weir-top"])
    return built and run([sys.executable, "tests/top.py", "--bin", WEIR])


def browser():
    """The statistics page in a real browser, where one is installed: `make test` installs none, for its size."""
    if shutil.which("chromedriver") is None:
        print("chromium and chromium-driver are not installed: nobody looked at the statistics page")
        return True
    return run([sys.executable, "tests/browser.py", "--bin", WEIR])


def health():
    """Health checks and what follows from them, by processes: programs, mails, sessions, reloads."""
    return run([sys.executable, "tests/health.py", "--bin", WEIR])


def resolving():
    return run([sys.executable, "tests/resolving.py", "--bin", WEIR])


def tls():
    """TLS on both sides, with other implementations."""
    return run([sys.executable, "tests/tls.py", "--bin", WEIR])


def ocsp_updates():
    """OCSP responses that are renewed while it runs, by real responders and by some that err; the HTTP client."""
    return run([sys.executable, "tests/ocsp_updates.py", "--bin", WEIR])


def certificates():
    """What listeners of TLS are made of: keys of tickets, stores of certificates."""
    return run([sys.executable, "tests/certificates.py", "--bin", WEIR])


def peers():
    """Stick-tables that instances share, beside other implementations of the protocol."""
    return run([sys.executable, "tests/peers.py", "--bin", WEIR])


def tables():
    """A table of a million entries: requests while they are shown, cleared and expire at once, and what a slow reader holds."""
    return run([sys.executable, "bench/tables.py", "--rows", "operator,expiry", "--entries", "1000000", "--most-ms", "100", f"weir={WEIR}"])


def grpc_calls():
    """Calls of gRPC by the real library, which the package registry has."""
    return run([sys.executable, "tests/grpc_calls.py", "--bin", WEIR])


def examples():
    """The configurations of doc/examples with real traffic."""
    return run([sys.executable, "tests/examples.py", "--bin", WEIR])


def package():
    """The Debian package: installed, upgraded, removed and purged in a folder; man pages; completion."""
    built = run(["cargo", "build", "--release", "--locked", "--quiet", "-p", "weir-ring", "-p", "weir-top"])
    return built and run([sys.executable, "tests/package.py", "--bin", WEIR])


def differential():
    return run([sys.executable, "tests/differential.py", "--bin", WEIR])


def commands():
    """Each statement of the management manual about a command of the runtime API."""
    return run([sys.executable, "tests/commands.py", "--bin", WEIR])


def walk():
    """Each statement of the manual on fetches and log formats, by tables."""
    return run([sys.executable, "tests/walk.py", "--bin", WEIR])


def explore():
    """Random expressions of one seed; longer runs, other kinds and other seeds are made by hand (`make explore`)."""
    return run([sys.executable, "tests/explore.py", "--bin", WEIR, "--kind", "values", "--count", "12", "--seconds", "120", "--patience", "0"])


# name, function, whether it needs the built program
STEPS = [
    ("format", formatted, False),
    ("clippy", clippy, False),
    ("counting", counting, False),
    ("units", units, False),
    ("statistics", statistics, False),
    ("optimized", optimized, False),
    ("loom", loom, False),
    ("deny", deny, False),
    ("bench", bench, False),
    ("build", None, False),
    ("process", process, True),
    ("master", master, True),
    ("vtc", vtc, True),
    ("attacks", attacks, True),
    ("phases", phases, True),
    ("servers", servers, True),
    ("prometheus", prometheus, True),
    ("ecosystem", ecosystem, True),
    ("top", top, True),
    ("browser", browser, True),
    ("health", health, True),
    ("resolving", resolving, True),
    ("tls", tls, True),
    ("certificates", certificates, True),
    ("ocsp updates", ocsp_updates, True),
    ("peers", peers, True),
    ("tables", tables, True),
    ("grpc", grpc_calls, True),
    ("examples", examples, True),
    ("package", package, True),
    ("walk", walk, True),
    ("differential", differential, True),
    ("commands", commands, True),
    ("explore", explore, True),
    ("parity", parity, True),
]

# Steps in whose folders nothing is built that the programs need: `Building` runs meanwhile.
BESIDE_THE_BUILD = ("optimized", "loom", "deny", "bench")


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
    rows, failed, building = [], [], None
    atexit.register(lambda: building and building.stop())
    for name, step, needs_program in STEPS:
        if only and name not in only:
            continue
        if needs_program and "build" in failed:
            rows.append((name, 0.0, 0.0, "not run: there is no program"))
            failed.append(name)
            continue
        print(f"=== {name}", flush=True)
        start, before = time.monotonic(), processor_seconds()
        if name in (*BESIDE_THE_BUILD, "build") and building is None and (not only or "build" in only):
            building = Building()
        ok = building.finish() if name == "build" else step()
        rows.append((name, time.monotonic() - start, processor_seconds() - before, "ok" if ok else "FAILED"))
        if not ok:
            failed.append(name)
    print("\nstep          seconds  of processors  result")
    for name, seconds, processors, result in rows:
        print(f"{name:12s} {seconds:8.1f}  {processors:13.1f}  {result}")
    total, processors = (sum(row[place] for row in rows) for place in (1, 2))
    print(f"{'total':12s} {total:8.1f}  {processors:13.1f}  {'FAILED: ' + ', '.join(failed) if failed else 'ok'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
