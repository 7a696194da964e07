#!/usr/bin/env python3
"""`make bench`: the cost of a unit of work in weir, HAProxy, nginx and the byte-forwarding floor, side by side.

  run.py --weir target/release/weir [--rows h1,ret,...] [--rounds 5] [--seconds 4] [--json FILE]

Every side gets the same work in turn, round after round, so that a drift of the machine hits all alike. The figures are
medians of CPU time (user and system) per unit; the ratios are medians of the rounds' own ratios. Quote ratios, never one
figure. `asked` is design.md section 3.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time

import check
import idle
import sides

# row: title, load, unit, listener, sides that support it, the target for weir in microseconds
ROWS = {
    "h1": ("HTTP/1 keep-alive, 64 B", "wrk -t1 -c64 {d} http://127.0.0.1:{http}/64", "request", ("floor", "nginx"), "1.15 of the floor (aim 1.10)"),
    "ret": ("answer without a server", "wrk -t1 -c64 {d} http://127.0.0.1:{answer}/", "request", ("nginx",), "4.8 us"),
    "ring": ("the h1 row, logged into a ring", "wrk -t1 -c64 {d} http://127.0.0.1:{ring}/64", "request", (), "the best peer's"),
    "udp": ("the h1 row, logged to a UDP server", "wrk -t1 -c64 {d} http://127.0.0.1:{udp}/64", "request", (), "the best peer's"),
    "close": ("one connection per request", "wrk -t1 -c64 {d} -H 'Connection: close' http://127.0.0.1:{http}/64", "connection", ("floor", "nginx"), "21 us"),
    "big": ("1 MB objects over HTTP/1", "wrk -t1 -c16 {d} http://127.0.0.1:{http}/1000000", "object", ("floor", "nginx"), "260 us"),
    "tcp": ("TCP mode, 64 B exchanges", "wrk -t1 -c64 {d} http://127.0.0.1:{tcp}/64", "exchange", ("floor",), "9.2 us"),
    "tcpbig": ("TCP mode, 1 MB, splice allowed", "wrk -t1 -c16 {d} http://127.0.0.1:{splice}/1000000", "object", ("floor-splice",), "225 us"),
    "tcpclose": ("TCP mode, one exchange per connection", "wrk -t1 -c64 {d} -H 'Connection: close' http://127.0.0.1:{tcp}/64", "connection", ("floor",), "the best peer's"),
}


def load(command, seconds, side):
    """Runs the load generator on CPU 1; the units done, the p99 in ms, and the errors."""
    text = subprocess.run("exec taskset -c 1 " + command.format(d=f"-d{seconds}s --latency", **side.ports), shell=True,
                          capture_output=True, text=True).stdout
    done = re.search(r"(\d+) requests in", text)
    if not done:
        sys.exit(f"{side.name} gave no figures: {command}\n{text}\n{side.last_words()}")
    tail = re.search(r"^\s+99%\s+([\d.]+)(us|ms|s)", text, re.M)
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    bad = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return (int(done.group(1)), float(tail.group(1)) * {"us": 0.001, "ms": 1, "s": 1000}[tail.group(2)] if tail else math.nan,
            sum(map(int, errors.groups())) + 0 if errors else 0, int(bad.group(1)) if bad else 0)


def measure(command, seconds, side):
    """One stretch of load against one side."""
    before = side.cpu_seconds()
    start = time.monotonic()
    done, tail, broken, bad = load(command, seconds, side)
    elapsed = time.monotonic() - start
    after = side.cpu_seconds()
    user, system = after[0] - before[0], after[1] - before[1]
    unit = 1e6 / max(done, 1)
    return {"us": (user + system) * unit, "user": user * unit, "rate": done / elapsed, "p99": tail,
            "busy": (user + system) / elapsed, "errors": broken + bad}


def median(rounds, key):
    return statistics.median(r[key] for r in rounds)


def ratio(of, to, key="us"):
    """The median of the rounds' own ratios."""
    pairs = [a[key] / b[key] for a, b in zip(of, to) if b[key]]
    return statistics.median(pairs) if pairs else math.nan


def traffic(options, running):
    """Every row on every side, in rounds; the results by row and side."""
    results = {}
    for row in options.rows:
        what, command, unit, able, asked = ROWS[row]
        takers = [s for s in running if s.name in ("weir", "haproxy") or s.name in able]
        for number in range(options.rounds + 1):
            for side in takers:
                figures = measure(command, options.seconds if number else 1, side)
                if number:  # the first stretch only warms up
                    results.setdefault(row, {}).setdefault(side.name, []).append(figures)
        print(f"\n{row}: {what} (CPU per {unit})")
        for name, rounds in results[row].items():
            spread = f"{min(r['us'] for r in rounds):.2f}-{max(r['us'] for r in rounds):.2f}"
            print(f"  {name:13s} {median(rounds, 'us'):9.2f} us ({spread}; user {median(rounds, 'user'):7.2f})  {median(rounds, 'rate'):9.0f}/s"
                  f"  busy {median(rounds, 'busy'):.2f}  p99 {median(rounds, 'p99'):7.2f} ms  errors {sum(r['errors'] for r in rounds)}", flush=True)
    return results


def table(options, results):
    """The summary: one line a row."""
    names = ["weir", "haproxy", "nginx", "floor"]
    print("\n| row | " + " | ".join(names) + " | weir : best peer | weir : floor | asked |")
    print("|---|" + "---|" * (len(names) + 3))
    for row in options.rows:
        sides_of = dict(results[row])
        sides_of["floor"] = sides_of.get("floor") or sides_of.get("floor-splice")
        cells = [f"{median(sides_of[n], 'us'):.2f}" if sides_of.get(n) else "" for n in names]
        best = min((n for n in ("haproxy", "nginx") if sides_of.get(n)), key=lambda n: median(sides_of[n], "us"), default=None)
        against = [f"{ratio(sides_of['weir'], sides_of[n]):.2f}" if n and sides_of.get(n) else "" for n in (best, "floor")]
        print(f"| {row} | " + " | ".join(cells) + f" | {' | '.join(against)} | {ROWS[row][4]} |")


# row: how much more a unit may cost on two threads than on one
ON_TWO_THREADS = {"h1": "1.05", "ret": "1.05", "close": "1.12"}


class Pair:
    """Two processes of one thread each behind the same ports, on the processors that two threads have: they share nothing but the
    machine, whose processors serve the load generator and the origin too. What they cost beyond one is the machine's price."""

    def __init__(self, name, program, origin):
        self.first = sides.Side(name, program, origin)
        self.second = sides.Side(name, program, origin, beside=self.first)
        self.ports = self.first.ports

    def cpu_seconds(self):
        return tuple(map(sum, zip(self.first.cpu_seconds(), self.second.cpu_seconds())))

    def stop(self):
        self.first.stop()
        self.second.stop()


def two_threads(options, programs, origin):
    """Rows on two threads against one, and against two processes: the work of one request must not grow with the threads."""
    for name, program in programs.items():
        if name not in ("weir", "haproxy"):
            continue
        ways = [sides.Side(name, program, origin), sides.Side(name, program, origin, threads=2), Pair(name, program, origin)]
        for row, asked in ON_TWO_THREADS.items():
            _, command, unit, _, _ = ROWS[row]
            rounds = [[measure(command, options.seconds if number else 1, way) for way in ways] for number in range(options.rounds + 1)][1:]
            one, two, pair = ([r[i] for r in rounds] for i in range(3))
            print(f"  threads {row:6s} {name:8s} {median(one, 'us'):.2f} us a {unit} on one; two threads {ratio(two, one):.2f} of it (asked of weir: {asked}), "
                  f"two processes {ratio(pair, one):.2f}; threads : processes {ratio(two, pair):.2f}", flush=True)
        for way in ways:
            way.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", required=True)
    parser.add_argument("--rows", default=",".join(list(ROWS) + ["threads", "idle", "check"]))
    parser.add_argument("--peers", default="haproxy,nginx")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--json")
    options = parser.parse_args()
    wanted = options.rows.split(",")
    options.rows = [row for row in wanted if row in ROWS]
    unknown = set(wanted) - set(ROWS) - {"threads", "idle", "check"}
    if unknown:
        sys.exit(f"no such row: {', '.join(sorted(unknown))}")
    programs = {"weir": os.path.abspath(options.weir), **sides.peers(p for p in options.peers.split(",") if p)}
    results = {}
    if options.rows:
        origin = sides.Origin()
        running = [sides.Side(name, program, origin) for name, program in programs.items()]
        running += [sides.Side(name, sides.compiled("floor"), origin) for name in ("floor", "floor-splice")]
        results = traffic(options, running)
        table(options, results)
        for side in running:
            side.stop()
    if "threads" in wanted:
        two_threads(options, programs, sides.Origin())
    if "idle" in wanted:
        idle.report(programs)
    if "check" in wanted:
        check.report(programs)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
