"""The verdict of a run: failed tests run once more alone, and tests that were left out are compared with the table of those that may be."""
import itertools
import os
import shutil
import subprocess
import time

import results
from runner import rust

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLAKY = os.path.join(HERE, "flaky.tsv")
LEFT_OUT = os.path.join(HERE, "left-out.tsv")
# Rows that flaky.tsv may have: a sixth test that is known to fail by chance is mended, not listed.
MOST_FLAKY = 5
# When more tests fail than this, something is broken, and running them again would only take longer.
MOST_AGAIN = 20
LONGEST_AGAIN_S = 900
# How often a failed test is tried again, alone; one that is known to fail by chance has more tries.
TRIES, TRIES_OF_FLAKY = 1, 3
SLOWEST = 10


def table(path, columns):
    """The rows of a table: tuples of its columns. Lines that begin with # are comments."""
    with open(path) as file:
        rows = [tuple(line.rstrip("\n").split("\t")) for line in file if line.strip() and not line.startswith("#")]
    for row in rows:
        assert len(row) == columns and all(row), f"{os.path.basename(path)}: {row} does not have {columns} columns"
    return rows


def alone(case, env, path):
    """Runs one test by itself; its result, and its output."""
    file = f"{path}.alone"
    if os.path.exists(file):
        os.unlink(file)
    began = time.monotonic()
    try:
        done = subprocess.run(case.again, cwd=case.folder or None, env=env | {results.FILE: file, "TESTS_ALONE": "now"}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LONGEST_AGAIN_S)
        status, output = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, output = 1, f"{rust.said(late)}\nstill ran after {LONGEST_AGAIN_S} s"
    again = [one for one in results.read(file, case.step) if one.name == case.name]
    result = again[-1] if again else results.Result(case.name, "ok" if status == 0 else "failed", again=case.again, folder=case.folder, step=case.step)
    if status != 0 and result.outcome == "ok":
        result.outcome = "failed"
    result.seconds = time.monotonic() - began
    return result, output


def tried_again(case, env, path, tries):
    """Runs a failed test again, alone, until it passes or has failed `tries` times; its last result."""
    for _ in range(tries):
        again, output = alone(case, env, path)
        if again.outcome == "ok":
            break
        print(f"FAILED again, alone: {case.step}: {case.name}\n{output}", flush=True)
    return again


def settle(found, env, wide, path):
    """Runs tests that wait for a quiet machine, tests that were left out for want of a program if `wide`, an environment with the optional
    programs, has it, and failed tests once more. The final results, and the first results of flaky tests."""
    final, flaky = [], []
    known = {(step, name) for step, name, _ in table(FLAKY, 3)}
    failed = sum(case.outcome == "failed" for case in found)
    for case in found:
        seen = env
        if case.outcome == "later" or case.outcome == "left out" and case.again and is_there(case.why, wide):
            seen = env if case.outcome == "later" else wide
            case, output = alone(case, seen, path)
            failed += case.outcome == "failed"
            if case.outcome == "failed":
                print(f"FAILED {case.step}: {case.name}\n{output}", flush=True)
        if case.outcome == "failed" and case.again and failed <= MOST_AGAIN:
            again = tried_again(case, seen, path, TRIES_OF_FLAKY if (case.step, case.name) in known else TRIES)
            if again.outcome == "ok":
                flaky.append(case)
            again.why = again.why or case.why
            case = again
        final.append(case)
    return final, flaky


def is_there(why, env):
    """Whether a program that a test was left out for can be run after all."""
    name = why.removeprefix("program ")
    return name != why and shutil.which(name, path=env["PATH"]) is not None


def too_much(left_out, allowed):
    """The tests that were left out, and that no row allows to be for that cause."""
    return [case for case in left_out if (case.step, case.name, case.why) not in allowed]


def report(rows, final, flaky):
    """Prints the end of a run; returns the names of failures."""
    wrong = sorted({case.step for case in final if case.outcome == "failed"} | {row.name for row in rows if row.result.startswith("not run")})
    # A step that failed without a test that did is not explained by tests that passed the second time.
    explained = {case.step for case in final if case.outcome == "failed"} | {case.step for case in flaky}
    wrong += [row.name for row in rows if row.result == "FAILED" and row.name not in explained]
    slowest = sorted(final, key=lambda case: -case.seconds)[:SLOWEST]
    print("\nthe slowest tests:")
    for case in slowest:
        print(f"{case.seconds:8.1f} s  {case.step}: {case.name}")
    left_out = [case for case in final if case.outcome == "left out"]
    if left_out:
        print("left out:")
    for (step, why), several in itertools.groupby(sorted(left_out, key=lambda case: (case.step, case.why)), key=lambda case: (case.step, case.why)):
        names = [case.name for case in several]
        print(f"{len(names):8d}  {step}: {why}: {', '.join(names)}")
    for case in too_much(left_out, table(LEFT_OUT, 3)):
        print(f"FAILED {case.step}: {case.name}: left out ({case.why}), which tests/left-out.tsv does not allow")
        wrong.append(case.step)
    known = {(step, name): cause for step, name, cause in table(FLAKY, 3)}
    if len(known) > MOST_FLAKY:
        print(f"FAILED tests/flaky.tsv has {len(known)} rows, {MOST_FLAKY} at most")
        wrong.append("flaky.tsv")
    if flaky:
        print("flaky, passed alone:")
    for case in flaky:
        print(f"          {case.step}: {case.name}: {known.get((case.step, case.name), 'not known')}; first: {case.why[:300]}")
    return list(dict.fromkeys(wrong))


def failures(final):
    """Prints the tests that finally failed, a line each, for readers who only see the end of a run."""
    for case in final:
        if case.outcome == "failed":
            print(f"FAILED {case.step}: {case.name}: {' '.join(case.why.split())[-600:]}")


def steps_table(rows):
    """Prints the time of each step."""
    print("\nstep          seconds  of processors  result")
    for row in rows:
        print(f"{row.name:12s} {row.seconds:8.1f}  {row.processors:13.1f}  {row.result}")
