"""Rust's tests: builds the test programs by cargo, runs two of them at a time, and records the result of every test.

cargo runs one program after the other, and only reports how many passed. A program that runs no test proves nothing and
prints `ok`: here it is a failure.
"""
import concurrent.futures
import dataclasses
import functools
import json
import os
import re
import subprocess
import time

import results

# The longest a test program may take.
LONGEST_S = 1200
LINE = re.compile(r"^test (?P<name>\S+)(?: - should panic)? \.\.\. (?P<outcome>ok|FAILED|ignored\b.*)$", re.M)
RESULT = re.compile(r"^test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<ignored>\d+) ignored; "
                    r"\d+ measured; (?P<filtered>\d+) filtered out", re.M)


@dataclasses.dataclass
class Program:
    """A program of tests: its crate, with the target's name unless that is the library, where it is, and the crate's folder, in which
    it runs."""
    name: str
    path: str
    folder: str


@dataclasses.dataclass
class Tally:
    """The outcome of a program's tests; `loud` is the output of those that failed."""
    ran: int
    filtered: int
    ok: bool
    loud: str


# Every kind of target that has tests, but for examples in documentation: ours are text.
KINDS = ("--lib", "--bins", "--tests")


def build(arguments, root, env, kinds=KINDS, may_warn=True):
    """Builds test programs; the programs, and whether it succeeded. Where nothing may warn, a warning in our crates is a failure."""
    command = ["cargo", "test", "--no-run", "--locked", "--message-format", "json", *kinds, *arguments]
    programs, ok = [], True
    with subprocess.Popen(command, cwd=root, env=env, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            message = json.loads(line) if line.startswith("{") else {}
            if message.get("reason") == "compiler-message":
                print(message["message"]["rendered"], end="", flush=True)
                ok &= may_warn or message["message"]["level"] != "warning" or not message["manifest_path"].startswith(root + os.sep)
            if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
                crate, target = crate_of(message["package_id"]), message["target"]
                name = crate if "lib" in target["kind"] else f"{crate}/{target['name']}" + " (program)" * ("bin" in target["kind"])
                programs.append(Program(name, message["executable"], os.path.dirname(message["manifest_path"])))
    return programs, ok and process.returncode == 0


def crate_of(package_id):
    """The name in cargo's id of a package: `path+file:///weir/data/tls#weir-tls@0.1.0`, or `...#0.1.0` where the folder has the name."""
    path, _, last = package_id.partition("#")
    return last.partition("@")[0] if "@" in last else path.rpartition("/")[2]


@functools.cache
def compiler_libraries():
    """The folder of the compiler's libraries, as cargo sets it: the tests of a procedural macro are linked to them."""
    return subprocess.run(["rustc", "--print", "target-libdir"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def run(program, only="", env=None):
    """Runs the tests of one program with `only` in their path, and records each."""
    env = dict(env or os.environ, CARGO_MANIFEST_DIR=program.folder, LD_LIBRARY_PATH=compiler_libraries())
    command, began = [program.path, *([only] if only else [])], time.monotonic()
    try:
        done = subprocess.run(command, cwd=program.folder, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace", timeout=LONGEST_S)
        output, status = done.stdout, done.returncode
    except subprocess.TimeoutExpired as late:
        output, status = f"{said(late)}\nstill ran after {LONGEST_S} s", 1
    seconds = time.monotonic() - began
    tally, outcomes = read(output, status)
    for name, outcome in outcomes.items():
        failure = "" if outcome == "ok" else " ".join(output.partition(f"---- {name} stdout ----")[2].split("\n", 9)[:9]).strip()
        results.record(f"{program.name} {name}", outcome, 0, failure[:1500], [program.path, name, "--exact", "--test-threads", "1"], program.folder)
    if not tally.ok and "failed" not in outcomes.values():
        results.record(program.name, "failed", seconds, f"{output[-1500:]} (exit status {status})", command, program.folder)
    else:
        results.record(program.name, "program", seconds)
    return tally


def said(late):
    """The output of a program until its time was over."""
    return (late.stdout or b"").decode(errors="replace")


def read(output, status):
    """The tally of a program, and the outcome of each of its tests by name."""
    outcomes = {match["name"]: {"ok": "ok", "FAILED": "failed"}.get(match["outcome"], "ignored") for match in LINE.finditer(output)}
    outcomes = {name: outcome for name, outcome in outcomes.items() if outcome != "ignored"}
    result = RESULT.search(output)
    ran = int(result["passed"]) + int(result["failed"]) if result else len(outcomes)
    filtered = int(result["ignored"]) + int(result["filtered"]) if result else 0
    ok = status == 0 and result is not None
    return Tally(ran, filtered, ok, "" if ok else output[-20000:]), outcomes


def test(arguments, root, kinds=KINDS, only="", may_be_empty=(), may_warn=True, **more):
    """Builds and runs tests with `only` in their path; whether all of them passed and every program ran one."""
    env = dict(os.environ, **more)
    return run_all(*build(arguments, root, env, kinds, may_warn), only, may_be_empty, env)


def run_all(programs, built, only="", may_be_empty=(), env=None):
    """Runs the tests of programs with `only` in their path; whether they were built, all passed and every program ran one."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        tallies = dict(zip((program.name for program in programs), pool.map(lambda program: run(program, only, env), programs)))
    for name, tally in tallies.items():
        if not tally.ok:
            print(f"FAILED {name}\n{tally.loud}")
    empty = without_tests(tallies, may_be_empty)
    for name in empty:
        print(f"FAILED {name}: not one test ran ({tallies[name].filtered} were left out)")
        results.record(f"{name} without tests", "failed", why="not one test ran")
    if not built or not programs:
        results.record("build", "failed", why="an error, a warning that may not be, or no program")
    print(f"{sum(tally.ran for tally in tallies.values())} tests in {len(tallies)} programs", flush=True)
    return built and bool(programs) and not empty and all(tally.ok for tally in tallies.values())


def without_tests(tallies, may_be_empty=()):
    """The names of the programs that ran nothing, but for those that match one of `may_be_empty`."""
    return [name for name, tally in tallies.items() if tally.ran == 0 and not any(re.search(one, name) for one in may_be_empty)]


# The output of a test program, as this file reads it.
SAMPLE = """
running 4 tests
test queue::tests::keeps_order ... ok
test queue::tests::refuses_more - should panic ... ok
test queue::tests::later ... ignored, takes an hour
test queue::tests::wraps ... FAILED

failures:

---- queue::tests::wraps stdout ----
thread 'queue::tests::wraps' panicked at queue.rs:1:1

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 5 filtered out; finished in 0.00s
"""


def check():
    """Reads the sample."""
    tally, outcomes = read(SAMPLE, 101)
    assert outcomes == {"queue::tests::keeps_order": "ok", "queue::tests::refuses_more": "ok", "queue::tests::wraps": "failed"}, outcomes
    assert (tally.ran, tally.filtered, tally.ok) == (3, 6, False), tally
    nothing = "\nrunning 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s\n"
    assert read(nothing, 0)[0].ok and not read(nothing, 134)[0].ok and not read("", 0)[0].ok
    empty = {"a": read(nothing, 0)[0], "b/loom": read(nothing, 0)[0], "c": tally}
    assert without_tests(empty) == ["a", "b/loom"] and without_tests(empty, ["loom"]) == ["a"]
    assert crate_of("path+file:///weir/data/tls#weir-tls@0.1.0") == "weir-tls" and crate_of("path+file:///weir/sched#0.1.0") == "sched"
