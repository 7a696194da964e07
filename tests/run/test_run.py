"""The test run itself: its handling of failed, flaky and skipped tests, and the environment of the tests."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

import fresh
from lib import golang
from lib.program import own_ports
from run import lanes, machine, verdict
from units import cargo

# Debian's Python before any other.
ENV = os.environ | {"PYTHONPATH": os.path.dirname(verdict.FLAKY), "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]}
CASES = """
import pytest
def test_good(): pass
def test_broken(): assert False, "always"
def test_chance():
    with open({count!r}, "a+") as file:
        file.write("x"); file.seek(0)
        assert len(file.read()) > 1, "it was late"
def test_absent(): pytest.skip("program unheard-of")
"""


def pytest_run(folder, name, text):
    """Runs pytest on a file with this text; returns the row of its step."""
    tests = folder.file("test_cases.py", text)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "conftest", *verdict.files(folder.path, name), tests]
    done = subprocess.run(command, cwd=folder.path, env=ENV, capture_output=True, text=True)
    assert "test_cases.py" in done.stdout, done.stdout + done.stderr
    return lanes.Row(name, 1, 1, "FAILED")


def test_failed_tests_run_again_alone(folder, capsys):
    """A test that passes alone is flaky; one that fails again fails the run."""
    row = pytest_run(folder, "some", CASES.format(count=os.path.join(folder.path, "count")))
    assert sorted(name.rpartition("::")[2] for name in verdict.failed_tests(folder.path, "some")) == ["test_broken", "test_chance"]
    rows, flaky = verdict.settle([row], folder.path, ENV, folder.path)
    assert [one.result for one in rows] == ["FAILED"] and [name.rpartition("::")[2] for _, name in flaky] == ["test_chance"], flaky
    said = capsys.readouterr().out
    assert "FAILED again, alone" in said and "test_broken" in said, said
    found = verdict.cases(folder.path)
    assert {case.name.rpartition(".")[2]: case.outcome for case in found} == {
        "test_good": "ok", "test_broken": "failed", "test_chance": "failed", "test_absent": "skipped"}, found
    assert verdict.report(found, flaky) == 2
    said = capsys.readouterr().out
    assert re.search(r"flaky, passed alone: some: .*test_chance: not known; first: .*it was late", said), said
    assert re.search(r"FAILED some: .*test_broken: .*always", said) and re.search(r"FAILED some: .*test_absent: skipped \(program unheard-of\)", said), said


def test_a_step_passes_when_its_failed_tests_pass_alone(folder):
    text = CASES.format(count=os.path.join(folder.path, "count")).replace("assert False", "assert True")
    row = pytest_run(folder, "some", text)
    rows, flaky = verdict.settle([row], folder.path, ENV, folder.path)
    assert [one.result for one in rows] == ["ok"] and len(flaky) == 1


def test_a_known_flaky_test_is_tried_three_times(folder, monkeypatch):
    text = CASES.format(count=os.path.join(folder.path, "count")).replace("assert False", "assert True").replace("> 1, ", "> 3, ")
    for title, result in (("test_cases.test_chance", "ok"), ("test_cases.another", "FAILED")):
        monkeypatch.setattr(verdict, "FLAKY", folder.file("flaky.tsv", f"{title}\tby chance\n"))
        folder.file("count")
        row = pytest_run(folder, "some", text)
        rows, _ = verdict.settle([row], folder.path, ENV, folder.path)
        assert [one.result for one in rows] == [result], title


def test_many_failures_are_not_tried_again(folder):
    count = os.path.join(folder.path, "count")
    text = "".join(f"def test_{number}():\n    open({count!r}, 'a').write('x')\n    assert False\n" for number in range(verdict.MOST_AGAIN + 1))
    rows, flaky = verdict.settle([pytest_run(folder, "some", text)], folder.path, ENV, folder.path)
    assert [one.result for one in rows] == ["FAILED"] and not flaky
    assert os.path.getsize(count) == verdict.MOST_AGAIN + 1
    found = [verdict.Case("some", str(number), "failed", 1, "why") for number in range(verdict.MOST_NAMED + 2)]
    assert verdict.report(found, []) == verdict.MOST_NAMED + 2


def test_pytest_workers_use_disjoint_port_ranges(monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "4")
    shares = []
    for worker in range(4):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", f"gw{worker}")
        shares.append(set(own_ports()))
    assert sum(map(len, shares)) == len(set().union(*shares)) == 22_000


def test_rows_of_a_table_are_run_again_together():
    rows = [("r", "tests/a.py::test_row[1]"), ("r", "tests/a.py::test_row[2]"), ("r", "tests/units/test_rust.py::test_in_rust[a b]"), ("r", "tests/a.py::test_x")]
    assert [verdict.function_of(row) for row in rows] == [("r", "tests/a.py::test_row"), ("r", "tests/a.py::test_row"), rows[2], rows[3]]


def test_a_step_that_fails_without_a_failed_test_stays_failed(folder):
    row = pytest_run(folder, "some", "import nothing_of_this_name")
    rows, flaky = verdict.settle([row, lanes.Row("other", 1, 1, "FAILED")], folder.path, ENV, folder.path)
    assert [one.result for one in rows] == ["FAILED", "FAILED"] and not flaky
    assert verdict.steps_table([*rows, lanes.Row("d", 0, 0, "not run: b failed"), lanes.Row("f", 1, 1, "ok")]) == ["some", "other", "d"]


def test_titles_of_tests_agree_with_the_names_in_the_tables():
    name = "tests/units/test_rust.py::test_in_rust[weir-stream a::b]"
    assert verdict.title(name) == "units.test_rust.test_in_rust[weir-stream a::b]"
    assert verdict.title("tests/tls/test_early.py::test_x") == "tls.test_early.test_x"
    assert verdict.without_group(f"{name}@weir-stream") == name == verdict.without_group(name)
    assert verdict.without_group("test_row[x]@y]@walk") == "test_row[x]@y]"


def test_tests_are_skipped_only_for_programs_that_setup_does_not_install():
    optional = {one for _, command in machine.named("optional") for one in (command, os.path.basename(command))}
    # Only 'make shipped' needs these.
    optional |= {"cargo-deny", "rustc 1.88", "rustup", "valgrind"}
    for _, why in verdict.table(verdict.LEFT_OUT):
        assert why in ("root", "kernel without MPTCP", golang.MISSING) or why.removeprefix("program ") in optional, why
    verdict.table(verdict.FLAKY, verdict.MOST_FLAKY)


def test_steps_wait_for_their_prerequisites(folder, capsys):
    """A step begins after those that it needs, never beside one that builds the same profile, and not at all when one of them failed."""
    def step(name, needs=(), code="", profile=None, kind=lanes.BUILD):
        return lanes.Step(name, needs, kind, profile, [sys.executable, "-c", f"import time; {code or 'time.sleep(0.2)'}; print('{name} was here')"])
    steps = [step("first", profile="dev"), step("second", profile="dev"), step("third", ("first",), "time.sleep(0.1)", kind=lanes.TEST),
             step("bad", code="raise SystemExit(3)"), step("never", ("bad",))]
    began = time.monotonic()
    rows = lanes.run(steps, folder.path, dict(os.environ))
    assert {row.name: row.result for row in rows} == {"first": "ok", "second": "ok", "third": "ok", "bad": "FAILED", "never": "not run: bad failed"}, rows
    ends = [row.name for row in rows]
    assert ends.index("first") < ends.index("third") and time.monotonic() - began >= 0.4, ends
    said = capsys.readouterr().out
    assert "third was here" in said and "never was here" not in said, said


def test_tests_see_an_empty_home_and_only_the_declared_commands(folder):
    """Commands that packaging/setup does not name are absent; those of Debian's base system and of Rust are present."""
    place = os.path.join(folder.path, "elsewhere")
    os.mkdir(place)
    for name in ("nginx-of-an-earlier-hand", "cargo-deny"):
        os.chmod(folder.file(f"elsewhere/{name}"), 0o755)
    inherited = os.environ | {"PATH": os.environ["PATH"] + os.pathsep + place, "HOME": os.path.expanduser("~"), "XDG_CACHE_HOME": "/x", "WEIR_REFERENCE": "/x"}
    env = machine.environment(os.path.join(folder.path, "seen"), ("build", "test"), inherited)
    assert os.listdir(env["HOME"]) == [] and not {"XDG_CACHE_HOME", "WEIR_REFERENCE"} & env.keys(), env
    for name in ("sh", "cc", "cargo", "rustc", "haproxy", "varnishtest", "python3", "make", "git"):
        assert shutil.which(name, path=env["PATH"]), f"{name} is not there"
    if shutil.which("dpkg-query"):
        assert not shutil.which("nginx-of-an-earlier-hand", path=env["PATH"]) and not shutil.which("cargo-deny", path=env["PATH"])
    assert subprocess.run(["cargo", "--version"], env=env, capture_output=True).returncode == 0


def test_packaging_setup_was_tried_on_a_fresh_machine():
    """The digest stored by the last successful run of tests/fresh.py is that of packaging/setup."""
    with open(fresh.SEEN) as file:
        seen = file.read().strip()
    assert seen == fresh.digest(), "packaging/setup changed after the last `make fresh` that succeeded"


def test_json_events_of_rust_tests_are_parsed():
    events = [{"type": "test", "event": "started", "name": "a::b"}, {"type": "test", "name": "a::b", "event": "ok"},
              {"type": "test", "name": "a::c", "event": "failed", "stdout": "why\n"}, {"type": "suite", "event": "failed"}]
    lines = [json.dumps(event).replace("{", "{ ", 1) for event in events]
    assert dict(cargo.read("\n".join([lines[0], "text of a test " + lines[1], *lines[2:], "{ \"type\": \"test\", cut"]))) == {
        "a::b": ("ok", ""), "a::c": ("failed", "why\n")}
    assert cargo.crate_of("path+file:///weir/data/tls#weir-tls@0.1.0") == "weir-tls" and cargo.crate_of("path+file:///weir/sched#0.1.0") == "sched"
    empty = cargo.Program("weir-fuzz", "", "", [])
    assert cargo.may_be_empty(empty) and not cargo.may_be_empty(cargo.Program("weir-stream", "", "", []))
