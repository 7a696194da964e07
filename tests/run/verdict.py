"""The verdict of a run: failed tests run once more, alone; then a report of all results."""
import dataclasses
import glob
import itertools
import json
import os
import re
import subprocess
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLAKY, LEFT_OUT = os.path.join(HERE, "flaky.tsv"), os.path.join(HERE, "left-out.tsv")
# Rows that flaky.tsv may have: a sixth test that is known to fail by chance is mended, not listed.
MOST_FLAKY = 5
# When more tests or tables fail than this, something is broken, and running them again would only take longer.
MOST_AGAIN = 20
LONGEST_AGAIN_S = 900
# How often a failed test is tried again, alone; one that is known to fail by chance has more tries.
TRIES, TRIES_OF_FLAKY = 1, 3
SLOWEST = 10
# Functions with a row for each test of another suite.
ON_THEIR_OWN = ("test_in_rust", "test_script", "test_answers_match_commands_tsv")
# So many flaky tests, and so many failed ones, are named in the report.
MOST_NAMED = 20


@dataclasses.dataclass
class Case:
    """The result of one test: `ok`, `failed` or `skipped`, and why."""
    run: str
    name: str
    outcome: str
    seconds: float
    why: str


def files(folder, name):
    """Options with which pytest writes the results of each test, and its list of failed tests, under this name."""
    return [f"--junitxml={folder}/{name}.xml", "-o", f"cache_dir={folder}/{name}.cache"]


def scripts(root):
    """Our scripts of varnishtest."""
    return sorted(os.path.relpath(path, root) for path in glob.glob(os.path.join(root, "tests", "*", "*.vtc")))


def cases(folder):
    """The results of all tests. A case that pytest reports twice, as a failure and as an error of its end, is one."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.xml"))):
        run = os.path.basename(path).removesuffix(".xml")
        for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
            outcome, why = "ok", ""
            for kind, meaning in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
                if (said := case.find(kind)) is not None:
                    outcome, why = meaning, said.get("message") or ""
                    break
            name = f"{case.get('classname').removeprefix('tests.')}.{without_group(case.get('name'))}"
            found[run, name] = Case(run, name, outcome, float(case.get("time")), why)
    return list(found.values())


def failed_tests(folder, run):
    """The tests that failed in a run of pytest, as its arguments."""
    try:
        with open(os.path.join(folder, f"{run}.cache", "v", "cache", "lastfailed")) as file:
            return [without_group(name) for name in json.load(file)]
    except FileNotFoundError:
        return []


def without_group(name):
    """The name of a test without its group, which a worker appends."""
    return re.sub(r"@[^\]@]*$", "", name)


def table(path, most=None):
    """The rows of a table of a test and a reason. Lines that begin with # are comments."""
    with open(path) as file:
        rows = [tuple(line.rstrip("\n").split("\t")) for line in file if line.strip() and not line.startswith("#")]
    assert all(len(row) == 2 and all(row) for row in rows), f"{os.path.basename(path)}: a row is a test and a reason"
    assert most is None or len(rows) <= most, f"{os.path.basename(path)}: {most} rows at most"
    return rows


def settle(rows, folder, env, root):
    """Runs the failed tests of each failed step again. Returns the rows, corrected for steps that then passed, and the
    flaky tests as run and name. The rows of one table run together, because they share fixtures, and a fault in these
    fails all of them."""
    flaky, settled = [], []
    for row in rows:
        failed = [(run, name) for run in runs_of(row, folder) for name in failed_tests(folder, run)]
        tables = {function: list(tests) for function, tests in itertools.groupby(sorted(failed), key=function_of)}
        if row.result == "FAILED" and 0 < len(tables) <= MOST_AGAIN:
            passed = [test for (run, _), tests in tables.items() if pass_alone(folder, run, [name for _, name in tests], env, root) for test in tests]
            flaky += passed
            if len(passed) == len(failed):
                row = dataclasses.replace(row, result="ok")
        settled.append(row)
    return settled, flaky


def function_of(test):
    """The run of a test, and its function without the row of the table. A test of Rust, and a script of another suite, is on its own."""
    run, name = test
    function, row, _ = name.partition("[")
    return run, function if row and not function.endswith(ON_THEIR_OWN) else name


def runs_of(row, folder):
    """The names of the runs of pytest that a step made."""
    names = (os.path.basename(path).removesuffix(".xml") for path in glob.glob(os.path.join(folder, "*.xml")))
    return sorted(name for name in names if name == row.name or name.startswith(f"{row.name}-"))


def pass_alone(folder, run, names, env, root):
    """Whether tests pass when run alone, with the arguments of their run (saved by conftest.py)."""
    with open(os.path.join(folder, f"{run}.xml.run")) as file:
        first = json.load(file)
    command = ["python3", "-m", "pytest", *first["options"], "-n", "0", f"--junitxml={folder}/alone", "-o", f"cache_dir={folder}/alone.cache", *names]
    known = dict(table(FLAKY, MOST_FLAKY))
    for _ in range(TRIES_OF_FLAKY if any(title(name) in known for name in names) else TRIES):
        try:
            done = subprocess.run(command, cwd=root, env=env | first["environment"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LONGEST_AGAIN_S)
            if done.returncode == 0:
                return True
            output = done.stdout
        except subprocess.TimeoutExpired as late:
            output = f"{(late.stdout or b'').decode(errors='replace')}\nstill ran after {LONGEST_AGAIN_S} s"
        print(f"FAILED again, alone: {run}: {names[0]}{f' and {len(names) - 1} more' if len(names) > 1 else ''}\n{output[-20000:]}", flush=True)
    return False


def title(name):
    """The name of a test as the tables and JUnit's files have it."""
    path, _, test = name.partition("::")
    return f"{path.removeprefix('tests/').removesuffix('.py').replace('/', '.')}.{test}"


def not_permitted(found):
    """The skipped tests that left-out.tsv does not list with that reason."""
    permitted = set(table(LEFT_OUT))
    return [case for case in found if case.outcome == "skipped" and (case.name, case.why) not in permitted]


def report(found, flaky):
    """Prints the summary of a run. Returns the number of tests that failed twice or were skipped without permission."""
    passed_alone = {(run, title(name)) for run, name in flaky}
    print("\nthe slowest tests:")
    for case in sorted(found, key=lambda case: -case.seconds)[:SLOWEST]:
        print(f"{case.seconds:8.1f} s  {case.run}: {case.name}")
    skipped = sorted((case for case in found if case.outcome == "skipped"), key=lambda case: case.why)
    for why, several in itertools.groupby(skipped, key=lambda case: case.why):
        names = [case.name for case in several]
        print(f"skipped, {len(names)} for want of {why}: {', '.join(names)}")
    causes = dict(table(FLAKY, MOST_FLAKY))
    again = [case for case in found if (case.run, case.name) in passed_alone]
    for case in again[:MOST_NAMED]:
        print(f"flaky, passed alone: {case.run}: {case.name}: {causes.get(case.name, 'not known')}; first: {case.why[:300]}")
    wrong = [(case, case.why) for case in found if case.outcome == "failed" and (case.run, case.name) not in passed_alone]
    wrong += [(case, f"skipped ({case.why}), which tests/left-out.tsv does not permit") for case in not_permitted(found)]
    for case, why in wrong[:MOST_NAMED]:
        print(f"FAILED {case.run}: {case.name}: {' '.join(why.split())[-600:]}")
    for kind, several in (("flaky", again), ("FAILED", wrong)):
        if len(several) > MOST_NAMED:
            print(f"{kind}: {len(several) - MOST_NAMED} more, in target/test")
    return len(wrong)


def steps_table(rows):
    """Prints the duration of each step. Returns the names of failed steps."""
    print("\nstep          seconds  of processors  result")
    for row in rows:
        print(f"{row.name:12s} {row.seconds:8.1f}  {row.processors:13.1f}  {row.result}")
    return [row.name for row in rows if row.result != "ok"]
