#!/usr/bin/env python3
"""Runs our own VTC scripts (tests/vtc, one folder a subject) against the built program with varnishtest.

  vtc.py --bin target/release/weir [--only REGEX] [-j N] [--keep DIR]

A skip is a failure: our scripts never need to skip.
"""
import argparse
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "parity"))
import regtests  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("-j", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--timeout", type=int, default=10)
    parser.add_argument("--keep", default="", help="folder for the logs of what failed")
    options = parser.parse_args()
    runner = regtests.Runner(options.bin, HERE, timeout=options.timeout, logs=options.keep)
    names = regtests.scripts(HERE, "vtc", options.only)
    results = runner.run_all(names, options.j)
    failed = []
    for name in names:
        result = results[name]
        regtests.record(name, result, options.bin)
        if result.outcome != "pass":
            failed.append(name)
            print(f"{result.outcome:5s}  {name}  {result.seconds:.1f}s  {result.why}")
    print(f"vtc: {len(names) - len(failed)} of {len(names)} passed")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
