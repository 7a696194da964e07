#!/usr/bin/env python3
"""Wake-ups by cause and processor time where two layers of HTTP/2 are stacked, one program beside the other (R184, R186, R187, R196).

  stacked.py [--rows big,small] [--units 2000] [--rounds 3] [--causes 8] [--most 0.34] NAME=PROGRAM [NAME=PROGRAM...]

One process, one thread: its first listener takes HTTP/2 in clear and passes it on over HTTP/2 to its second one, and that one to an
origin of HTTP/1. The load is the founding measurement's (S1): 4 connections of 10 streams each. Wake-ups are the calls of
`show profiling tasks`, by what was called and from where; they are of all rounds, and processor time is the rounds' median.
Measuring costs the same calls in every round, so ratios count. The last column is the first program over the others. It fails if that
one takes more than `--most` of another's wake-ups for objects of 1 MB: 0.34 says that it must take a third of HAProxy's.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys

import classes
import sides

# row: size of an object, unit, multiplier of the units of a round
ROWS = {"big": (1_000_000, "MB", 1), "small": (64, "request", 20)}
CONNECTIONS, STREAMS = 4, 10
LINE = re.compile(r"^ +(\S.*?) {2,}(\d+) .*?(?:<- (.+?)(?: (\w+))?)?$")


def calls(side):
    """Calls so far, by kind of work and caller."""
    found = {}
    for line in classes.ask(f"{sides.WORK}/{side.name}-1.sock", "show profiling tasks bytime")[0].splitlines():
        matched = LINE.match(line)
        if matched and not line.startswith("Tasks"):
            what, count, caller, _ = matched.groups()
            key = (what, re.sub(r"\S*/|src/", "", caller or ""))
            found[key] = found.get(key, 0) + int(count)
    return found


def load(side, size, units):
    """That many objects; how long it took is the programs' matter."""
    said = subprocess.run(["taskset", "-c", "1", "h2load", "-t1", f"-c{CONNECTIONS}", f"-m{STREAMS}", f"-n{units}",
                           f"http://127.0.0.1:{side.ports['h2h2']}/{size}"], capture_output=True, text=True, check=True).stdout
    if f" {units} succeeded" not in said:
        sys.exit(f"{side.name}: not all requests succeeded:\n{said}\n{side.last_words()}")


def measure(side, size, units):
    """One round: processor time of a unit in microseconds."""
    before = sum(side.cpu_seconds())
    load(side, size, units)
    return (sum(side.cpu_seconds()) - before) * 1e6 / units


def report(row, running, options):
    """One row, all programs in turn, round after round; the first program's wake-ups over those of each other one."""
    size, unit, times = ROWS[row]
    units = options.units * times
    for side in running:
        load(side, size, max(units // 20, CONNECTIONS * STREAMS))
    before = {side.name: calls(side) for side in running}
    rounds = [[measure(side, size, units) for side in running] for _ in range(options.rounds)]
    print(f"\n{row}: {units} objects of {size} bytes a round, {CONNECTIONS} x {STREAMS} streams")
    totals = {}
    for at, side in enumerate(running):
        after = calls(side)
        each = {key: (count - before[side.name].get(key, 0)) / units / options.rounds for key, count in after.items()}
        totals[side.name] = sum(each.values())
        cpu = statistics.median(of[at] for of in rounds)
        ratio = "" if at == 0 else (f"; {running[0].name}: {totals[running[0].name] / totals[side.name]:.2f} of the wake-ups, "
                                    f"{statistics.median(of[0] / of[at] for of in rounds):.2f} of the time")
        print(f"  {side.name:12s} {totals[side.name]:8.2f} wake-ups, {cpu:9.1f} us a {unit}{ratio}")
        for (what, caller), count in sorted(each.items(), key=lambda item: -item[1])[:options.causes]:
            if count > 0:
                print(f"      {count:8.2f}  {what} <- {caller}", flush=True)
    first, *others = totals.values()
    return [first / other for other in others]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--units", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--causes", type=int, default=8)
    parser.add_argument("--most", type=float, help="fail beyond this part of another's wake-ups for a MB")
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    options = parser.parse_args()
    unknown = set(options.rows.split(",")) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    origin = sides.Origin()
    running = [sides.Side(name, os.path.abspath(program), origin, tuning="profiling.tasks on")
               for name, program in (word.split("=", 1) for word in options.programs)]
    ratios = {row: report(row, running, options) for row in options.rows.split(",")}
    for side in running:
        side.stop()
    if options.most and any(ratio > options.most for ratio in ratios.get("big", [])):
        sys.exit(f"{running[0].name} takes more than {options.most} of another's wake-ups for a MB")


if __name__ == "__main__":
    main()
