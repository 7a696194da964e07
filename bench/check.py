#!/usr/bin/env python3
"""Time and memory of `-c` on a large configuration: 20,000 backends and the 20,000 rules that choose among them.

  check.py weir=target/release/weir haproxy=/usr/sbin/haproxy
"""
import os
import statistics
import subprocess
import sys
import time

import sides

COUNT, ROUNDS = 20_000, 5


def write(path, count=COUNT):
    """Writes the configuration."""
    with open(path, "w") as file:
        file.write("global\n    maxconn 1000\ndefaults\n    mode http\n    timeout connect 5s\n    timeout client 60s\n"
                   "    timeout server 60s\nfrontend f\n    bind 127.0.0.1:1\n")
        file.writelines(f"    use_backend b{i} if {{ hdr(host) -i h{i}.example.com }}\n" for i in range(count))
        for i in range(count):
            file.write(f"backend b{i}\n    balance roundrobin\n    server s1 10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}:8080\n")


def once(program, path):
    """Seconds and peak memory (MB) of one check."""
    start = time.monotonic()
    process = subprocess.Popen([program, "-c", "-f", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status:
        sys.exit(f"{program} refused the configuration:\n" + output.decode(errors="replace")[:2000])
    return seconds, usage.ru_maxrss / 1024


def report(programs):
    """One line a program that reads this language."""
    path = os.path.join(sides.WORK, "large.cfg")
    write(path)
    print(f"\ncheck: -c on {COUNT} backends and {COUNT} rules (asked of weir: 0.25 s, 120 MB)")
    takers = {name: program for name, program in programs.items() if name in ("weir", "haproxy")}
    rounds = {name: [] for name in takers}
    for _ in range(ROUNDS):
        for name, program in takers.items():
            rounds[name].append(once(program, path))
    for name, figures in rounds.items():
        print(f"  {name:13s} {statistics.median(f[0] for f in figures):.2f} s, {max(f[1] for f in figures):.0f} MB", flush=True)


if __name__ == "__main__":
    report(dict(word.split("=", 1) for word in sys.argv[1:]))
