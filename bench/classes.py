#!/usr/bin/env python3
"""Measures the runs of each class of work under different traffic, and the latency of the runtime API meanwhile (R33 to R37).

  classes.py --weir target/release/weir [--seconds 5]

The traffic is that of the founding measurement (S4), as far as one machine makes it: connections, bytes, spliced bytes,
objects of 10 kB, and 1 MB objects beside empty connections; the last also with a run queue and a poller of 10,000. The
shares are `run_urgent`, `run_normal` and `run_bulk` of `show activity`; the operator sends `show info` ten times a second.
"""
import argparse
import re
import shutil
import socket
import statistics
import subprocess
import time

import sides

CLOSE = "-H 'Connection: close'"
MIXED = ["wrk -t1 -c16 {d} http://127.0.0.1:{splice}/1000000", f"wrk -t1 -c32 {{d}} {CLOSE} http://127.0.0.1:{{http}}/0"]
DEEP = "tune.runqueue-depth 10000\n    tune.maxpollevents 10000"
# title, loads, tuning
SCENES = [
    ("TCP, one connection each", [f"wrk -t1 -c64 {{d}} {CLOSE} http://127.0.0.1:{{tcp}}/64"], ""),
    ("HTTP, one connection each", [f"wrk -t1 -c64 {{d}} {CLOSE} http://127.0.0.1:{{http}}/64"], ""),
    ("TCP, 1 MB", ["wrk -t1 -c16 {d} http://127.0.0.1:{tcp}/1000000"], ""),
    ("TCP, 1 MB, spliced", ["wrk -t1 -c16 {d} http://127.0.0.1:{splice}/1000000"], ""),
    ("HTTP, 10 kB", ["wrk -t1 -c64 {d} http://127.0.0.1:{http}/10000"], ""),
    ("1 MB spliced beside empty connections", MIXED, ""),
    ("the same, both depths 10,000", MIXED, DEEP),
]


def ask(path, command):
    """The answer of the runtime API, and how many milliseconds it took."""
    start = time.monotonic()
    with socket.socket(socket.AF_UNIX) as connection:
        while connection.connect_ex(path):
            time.sleep(0.01)  # it has only just begun
        connection.sendall(command.encode() + b"\n")
        answer = b""
        while more := connection.recv(65536):
            answer += more
    return answer.decode(), (time.monotonic() - start) * 1e3


def runs(side):
    """Runs of each class so far; empty if the program does not report them."""
    text = ask(f"{sides.WORK}/{side.name}-1.sock", "show activity")[0]
    return [int(number) for number in re.findall(r"^run_(?:urgent|normal|bulk): (\d+)", text, re.M)]


def scene(side, loads, seconds):
    """Shares of the classes, requests a second, and what `show info` took."""
    before, waits = runs(side), []
    commands = ["exec taskset -c 1 " + load.format(d=f"-d{seconds}s", **side.ports) for load in loads]
    processes = [subprocess.Popen(command, shell=True, stdout=subprocess.PIPE, text=True) for command in commands]
    end = time.monotonic() + seconds - 0.5
    while time.monotonic() < end:
        waits.append(ask(f"{sides.WORK}/{side.name}-1.sock", "show info")[1])
        time.sleep(0.1)
    texts = [process.communicate()[0] for process in processes]
    done = [int(re.search(r"(\d+) requests in", text).group(1)) / seconds for text in texts]
    ran = [after - former for after, former in zip(runs(side), before)]
    total = sum(ran) or 1
    shares = " / ".join(f"{part * 100 / total:.0f}" for part in ran) or "-"
    return shares, ", ".join(f"{rate:,.0f}" for rate in done), statistics.median(waits), max(waits)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", default="target/release/weir")
    parser.add_argument("--seconds", type=int, default=5)
    options = parser.parse_args()
    origin = sides.Origin()
    programs = [("weir", options.weir)] + [("haproxy", path) for path in [shutil.which("haproxy") or "/usr/sbin/haproxy"]]
    print(f"{'':40} {'':8} {'urgent / normal / bulk, %':26} {'a second':>18}  show info, ms: median, longest")
    for name, loads, tuning in SCENES:
        for program, path in programs:
            side = sides.Side(program, path, origin, tuning=tuning)
            shares, rates, median, longest = scene(side, loads, options.seconds)
            print(f"{name:40} {program:8} {shares:26} {rates:>18}  {median:.1f}, {longest:.1f}", flush=True)
            side.stop()


if __name__ == "__main__":
    main()
