#!/usr/bin/env python3
"""`make soak ONLY=name`: tests many times, on a quiet machine and on a busy one; a test that fails once is not ready.

  soak.py --only EXPRESSION [--times 50] [--cargo ARGUMENTS]

Runs tests that match, as `pytest -k` does; of Rust with `--cargo`. Busy means twice as many loops as there are processors, at the
same priority.
"""
import argparse
import contextlib
import os
import subprocess
import sys

import steps


@contextlib.contextmanager
def busy(loops):
    """Keeps processors busy while the block runs."""
    running = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", required=True)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--cargo")
    options = parser.parse_args()
    os.makedirs(steps.FOLDER, exist_ok=True)
    env = steps.environment()
    command = ["python3", "-m", "pytest", "-q", "-x", "-n", "0", "--count", str(options.times), "-k", options.only]
    command += ["tests/units", f"--cargo={options.cargo}"] if options.cargo else ["tests"]
    statuses = {}
    for kind, loops in (("quiet", 0), ("busy", 2 * (os.cpu_count() or 1))):
        with busy(loops):
            statuses[kind] = subprocess.run(command, cwd=steps.ROOT, env=env).returncode
    print(f"soak: {options.times} times each: " + ", ".join(f"{kind} {'failed' if status else 'passed'}" for kind, status in statuses.items()))
    return 1 if any(statuses.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
