#!/usr/bin/env python3
"""`make soak ONLY=name`: tests many times, on a quiet machine and on a busy one; a test that fails once is not ready.

  soak.py --only EXPRESSION [--times 50] [--cargo=ARGUMENTS]

Runs the tests that match, as `pytest -k` selects them: scripts and functions, or those of Rust with `--cargo`. Busy means twice as many
loops as there are processors, at the same priority.
"""
import argparse
import contextlib
import os
import subprocess
import sys
import tempfile

import steps

MOST = 40


@contextlib.contextmanager
def busy(loops):
    """Keeps all CPUs busy during the block."""
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def pytest(env, *arguments):
    """Runs pytest in this process group. Returns its exit status and output."""
    done = subprocess.run(["python3", "-m", "pytest", "-q", "-n", "0", *arguments], cwd=steps.ROOT, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return done.returncode, done.stdout


def selected(env, only, cargo):
    """The names of the tests that match, as arguments of pytest."""
    place = ["tests/units", f"--cargo={cargo}"] if cargo else ["tests"]
    status, said = pytest(env, *place, "-k", only, "--collect-only")
    if status not in (0, 5):
        sys.exit(said)
    return [line for line in said.splitlines() if "::" in line]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", required=True)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--cargo")
    options = parser.parse_args()
    os.makedirs(steps.FOLDER, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        # Cargo builds the tests of Rust once.
        env = steps.environment() | {"TESTS_BUILD_INTO": os.path.join(folder, "programs.json")}
        tests = selected(env, options.only, options.cargo)
        if not 0 < len(tests) <= MOST:
            sys.exit(f"soak: {len(tests)} tests match {options.only!r}; between 1 and {MOST} may")
        more = [f"--cargo={options.cargo}"] if options.cargo else []
        failed = False
        for kind, loops in (("quiet", 0), ("busy", 2 * (os.cpu_count() or 1))):
            with busy(loops):
                runs = [pytest(env, *tests, *more) for _ in range(options.times)]
            # A skipped test has shown nothing.
            bad = [said for status, said in runs if status != 0 or f"{len(tests)} passed" not in said]
            print(f"soak: {kind}: {len(tests)} tests passed in {options.times - len(bad)} of {options.times} runs", flush=True)
            if bad:
                print(f"the first failure:\n{bad[0][-5000:]}", flush=True)
            failed |= bool(bad)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
