"""Checks of the run itself: it sees tests that fail, that are flaky and that were left out, and tests see no more than they may."""
import contextlib
import io
import os
import shutil
import subprocess
import sys
import tempfile
import time

import fresh
import results
from runner import lanes, machine, rust, verdict

OK, FAILS = (sys.executable, "-c", ""), (sys.executable, "-c", "raise SystemExit(1)")


def quietly(function, *arguments):
    """The result of a function, and its output."""
    with contextlib.redirect_stdout(io.StringIO()) as said:
        return function(*arguments), said.getvalue()


def fails_at_first(folder, name, times=1):
    """A command that fails that often before it succeeds."""
    count = f"p = {os.path.join(folder, name)!r}; open(p, 'a').write('x'); raise SystemExit(len(open(p).read()) <= {times})"
    return sys.executable, "-c", count


def failed_tests_run_once_more(folder):
    """A test that passes alone is flaky; one that fails again fails the run; one that flaky.tsv names has three tries. A test that waits for a quiet machine has its two tries, too."""
    found = [results.Result("good", "ok", again=FAILS, step="s"), results.Result("chance", "failed", why="it was late", again=OK, step="s"),
             results.Result("broken", "failed", again=FAILS, step="s"), results.Result("timed", "later", again=OK, step="s"),
             results.Result("slow", "later", again=FAILS, step="s"), results.Result("late", "later", again=fails_at_first(folder, "late"), step="s")]
    (final, flaky), said = quietly(verdict.settle, found, dict(os.environ), dict(os.environ), os.path.join(folder, "results"))
    assert {case.name: case.outcome for case in final} == {"good": "ok", "chance": "ok", "broken": "failed", "timed": "ok", "slow": "failed", "late": "ok"}, final
    assert [case.name for case in flaky] == ["chance", "late"] and flaky[0].why == "it was late", flaky
    assert "again, alone: s: broken" in said and "good" not in said, said
    assert quietly(verdict.failures, final)[1].splitlines() == ["FAILED s: broken: ", "FAILED s: slow: "]
    step, name, _ = verdict.table(verdict.FLAKY, 3)[0]
    rare = [results.Result(name, "failed", again=fails_at_first(folder, f"{rare}.{times}", times), step=step if rare else "s")
            for rare, times in ((True, 2), (True, 3), (False, 1))]
    (final, flaky), _ = quietly(verdict.settle, rare, dict(os.environ), dict(os.environ), os.path.join(folder, "results"))
    assert [case.outcome for case in final] == ["ok", "failed", "failed"] and flaky == rare[:1], final
    many = [results.Result(str(number), "failed", again=OK, step="s") for number in range(verdict.MOST_AGAIN + 1)]
    (final, flaky), _ = quietly(verdict.settle, many, dict(os.environ), dict(os.environ), os.path.join(folder, "results"))
    assert not flaky and all(case.outcome == "failed" for case in final)


def the_end_of_a_run_names_every_fault(folder):
    """Steps without a program, steps that fail though no test does, and tests that were left out without leave."""
    rows = [lanes.Row("a", 1, 1, "ok"), lanes.Row("b", 1, 1, "FAILED"), lanes.Row("c", 1, 1, "FAILED"), lanes.Row("d", 0, 0, "not run: b failed"),
            lanes.Row("e", 1, 1, "FAILED"), lanes.Row("f", 1, 1, "ok")]
    chance, left_out = results.Result("t", "ok", step="b"), results.Result("u", "left out", why="program unheard-of", step="f")
    final = [results.Result("x", "ok", step="a"), chance, results.Result("y", "failed", step="e"), left_out]
    wrong, said = quietly(verdict.report, rows, final, [chance])
    assert sorted(wrong) == ["c", "d", "e", "f"], wrong
    assert "program unheard-of: u" in said and "does not allow" in said and "b: t: not known" in said, said
    assert verdict.too_much([left_out], [("f", "u", "program unheard-of")]) == []
    allowed, optional = verdict.table(verdict.LEFT_OUT, 3), {one for _, command in machine.named("optional") for one in (command, os.path.basename(command))}
    # Only 'make shipped' needs these.
    optional |= {"cargo-deny", "rustc 1.88", "rustup", "valgrind"}
    for _, _, why in allowed:
        # Programs that setup installs for tests may not be missing.
        assert why in ("root", "kernel without MPTCP") or why.removeprefix("program ") in optional, why
    assert len(verdict.table(verdict.FLAKY, 3)) <= verdict.MOST_FLAKY


def steps_wait_for_their_needs(folder):
    """A step begins after those that it needs, never beside one that builds the same profile, and not at all when one of them failed."""
    def step(name, needs=(), code="", profile=None, kind=lanes.BUILD):
        return lanes.Step(name, needs, kind, profile, [sys.executable, "-c", f"import time; {code or 'time.sleep(0.2)'}; print('{name} was here')"], {})
    steps = [step("first", profile="dev"), step("second", profile="dev"), step("third", ("first",), "time.sleep(0.1)", kind=lanes.TEST),
             step("bad", code="raise SystemExit(3)"), step("never", ("bad",))]
    began = time.monotonic()
    rows, said = quietly(lanes.run, steps, folder, dict(os.environ))
    assert {row.name: row.result for row in rows} == {"first": "ok", "second": "ok", "third": "ok", "bad": "FAILED", "never": "not run: bad failed"}, rows
    ends = [row.name for row in rows]
    assert ends.index("first") < ends.index("third") and time.monotonic() - began >= 0.4, ends
    assert "third was here" in said and "never was here" not in said, said
    shares = [range(int(first), int(last) + 1) for first, last in (lanes.ports((kind, number)).split("-") for kind, count in lanes.AT_ONCE.items() for number in range(count))]
    assert all(max(one.start, other.start) >= min(one.stop, other.stop) for one in shares for other in shares if one is not other), shares


def tests_see_an_empty_home_and_no_other_command(folder):
    """A command that packaging/setup does not name is not there, those of Debian's base and of Rust are."""
    place = os.path.join(folder, "elsewhere")
    os.mkdir(place)
    for name in ("nginx-of-an-earlier-hand", "cargo-deny"):
        with open(os.path.join(place, name), "w") as file:
            os.chmod(file.name, 0o755)
    inherited = os.environ | {"PATH": os.environ["PATH"] + os.pathsep + place, "HOME": os.path.expanduser("~"), "XDG_CACHE_HOME": "/x", "WEIR_REFERENCE": "/x"}
    env = machine.environment(os.path.join(folder, "seen"), ("build", "test"), inherited)
    assert os.listdir(env["HOME"]) == [] and not {"XDG_CACHE_HOME", "WEIR_REFERENCE"} & env.keys(), env
    for name in ("sh", "cc", "cargo", "rustc", "haproxy", "varnishtest", "python3", "make", "git"):
        assert shutil.which(name, path=env["PATH"]), f"{name} is not there"
    if shutil.which("dpkg-query"):
        assert not shutil.which("nginx-of-an-earlier-hand", path=env["PATH"]) and not shutil.which("cargo-deny", path=env["PATH"])
    assert subprocess.run(["cargo", "--version"], env=env, capture_output=True).returncode == 0


def set_up_was_tried_on_a_fresh_machine(_):
    """The digest that the last success of tests/fresh.py left is that of packaging/setup."""
    with open(fresh.SEEN) as file:
        seen = file.read().strip()
    assert seen == fresh.digest(), "packaging/setup changed after the last `make fresh` that succeeded"


def check():
    """All of them, and that the programs of Rust's tests are read as they print."""
    rust.check()
    for one in (failed_tests_run_once_more, the_end_of_a_run_names_every_fault, steps_wait_for_their_needs, tests_see_an_empty_home_and_no_other_command,
                set_up_was_tried_on_a_fresh_machine):
        with tempfile.TemporaryDirectory() as folder:
            one(folder)


if __name__ == "__main__":
    check()
