#!/usr/bin/env python3
"""Instructions in user space that a unit of work takes, counted by callgrind: they repeat where time does not.

  instructions.py [--rows h1,ret,...] [--units 2000] [--caches] NAME=PROGRAM [NAME=PROGRAM...]

Build weir for it with RUSTFLAGS=--cfg=rustix_use_libc: valgrind does not know the system calls that are made without libc. Each
program does a warm-up and then the units; what the warm-up alone takes in another run is subtracted. Ratios are against the
first program. Two runs of one program differ by one in ten thousand on h1 and ret, by up to two in a hundred where timing decides how
many calls a unit takes (close, big).

With `--caches` each row also has the misses of simulated caches of a fixed size, for one core alone: I1 and D1 of 32 kB, and an L2 of 1 MB,
of instructions and of data. The kernel's share is not simulated.
"""
import argparse
import os
import re
import signal
import socket
import stat
import subprocess
import sys

import sides

# `track`: h1 with a counter and a rate of the client's address, which a rule asks; `tracks`: of one of a million keys at random.
# row: listener, size of the answer's body, whether each unit has a connection of its own, units for one of h1
ROWS = {
    "h1": ("http", 64, False, 1),
    "track": ("track", 64, False, 1),
    "tracks": ("tracks", 64, False, 1),
    "ret": ("answer", 5, False, 1),
    "close": ("http", 64, True, 1),
    "big": ("http", 1_000_000, False, 0.1),
    "tcp": ("tcp", 64, False, 1),
    "tcpbig": ("tcp", 1_000_000, False, 0.1),
    "tcpclose": ("tcp", 64, True, 1),
}
# The same of HTTP/2, by h2load: listener, size of the answer's body, size of the request's, connections, streams of each, units.
STREAMS = {
    "h2": ("h2c", 64, 0, 8, 32, 4),
    "h2h2": ("h2h2", 64, 0, 8, 32, 4),
    "h2big": ("h2c", 1_000_000, 0, 4, 10, 0.1),
    "h2up": ("h2c", 64, 1_000_000, 4, 10, 0.1),
    "h2h2big": ("h2h2", 1_000_000, 0, 4, 10, 0.1),
}
# At once, and how many units come before those that count.
CONNECTIONS, WARM = 16, 320


def read_answer(connection, size):
    """Reads a head and `size` bytes behind it."""
    seen = b""
    while b"\r\n\r\n" not in seen:
        seen += receive(connection)
    left = size - len(seen.split(b"\r\n\r\n", 1)[1])
    while left > 0:
        left -= len(receive(connection))


def receive(connection):
    more = connection.recv(65536)
    if not more:
        sys.exit("the connection was closed before the answer's end")
    return more


def work(port, size, own_connections, units):
    """That many units, `CONNECTIONS` at a time, in rounds, so that each run meets the same order."""
    request = b"GET /%d HTTP/1.1\r\nHost: x\r\n%s\r\n" % (size, b"Connection: close\r\n" if own_connections else b"")
    connections = []
    for _ in range(units // CONNECTIONS):
        if own_connections or not connections:
            connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(CONNECTIONS)]
        for connection in connections:
            connection.sendall(request)
        for connection in connections:
            read_answer(connection, size)
        if own_connections:
            for connection in connections:
                connection.close()
    for connection in connections:
        connection.close()


def work_streams(port, row, units):
    """That many units over connections of HTTP/2, as many streams at a time as the row says."""
    _, size, upload, connections, streams, _ = STREAMS[row]
    command = ["h2load", "-t1", f"-c{connections}", f"-m{streams}", f"-n{units}", f"http://127.0.0.1:{port}/{size}"]
    if upload:
        with open(f"{sides.WORK}/upload", "wb") as file:
            file.write(b"x" * upload)
        command.append(f"--data={file.name}")
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if f" {units} succeeded" not in said:
        sys.exit(f"{row}: not all requests succeeded:\n{said}")


# Of usual servers, so that counts are the same whatever this machine has. Callgrind's last level is the second one here.
CACHES = "--cache-sim=yes --I1=32768,8,64 --D1=32768,8,64 --LL=1048576,16,64"
# The counts, each a sum of callgrind's events.
EVENTS = {
    "instructions": ("Ir",),
    "I1 misses": ("I1mr",),
    "D1 misses": ("D1mr", "D1mw"),
    "L2 misses, instructions": ("ILmr",),
    "L2 misses, data": ("DLmr", "DLmw"),
}


def wrapper(name, program, caches):
    """The path of a script that runs the program under callgrind, and the path of the file with the counts."""
    path, counts = f"{sides.WORK}/{name}.sh", f"{sides.WORK}/{name}.counts"
    with open(path, "w") as file:
        file.write(f'#!/bin/sh\nexec valgrind --tool=callgrind {CACHES if caches else ""} --callgrind-out-file={counts} {os.path.abspath(program)} "$@"\n')
    os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
    return path, counts


def counted(name, program, origin, row, units, caches):
    """The total counts of one run with so many units behind the warm-up, by event."""
    path, counts = wrapper(name, program, caches)
    side = sides.Side(name, path, origin)
    sides.wait_port(side.ports[(ROWS | STREAMS)[row][0]])
    if row in STREAMS:
        listener = STREAMS[row][0]
        work_streams(side.ports[listener], row, WARM + units)
    else:
        listener, size, own_connections, _ = ROWS[row]
        work(side.ports[listener], size, own_connections, WARM + units)
    side.process.send_signal(signal.SIGTERM)
    side.process.wait(60)
    side.stop()
    with open(counts) as file:
        text = file.read()
    names = re.search(r"^events: (.+)", text, re.M).group(1).split()
    sums = dict(zip(names, map(int, re.search(r"^(?:totals|summary): (.+)", text, re.M).group(1).split())))
    return {what: sum(sums[event] for event in events) for what, events in EVENTS.items() if events[0] in sums}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default=",".join(ROWS | STREAMS))
    parser.add_argument("--units", type=int, default=2000)
    parser.add_argument("--caches", action="store_true", help="also simulate caches, which takes twice as long")
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    options = parser.parse_args()
    programs = dict(word.split("=", 1) for word in options.programs)
    origin = sides.Origin()
    first = next(iter(programs))
    print("| row | " + " | ".join(programs) + " |" + "".join(f" {name} : {first} |" for name in list(programs)[1:]))
    print("|---|" + "---|" * (2 * len(programs) - 1))
    for row in options.rows.split(","):
        units = int(options.units * (ROWS | STREAMS)[row][-1]) // CONNECTIONS * CONNECTIONS
        each = {}
        for name, program in programs.items():
            base, all_of_it = (counted(name, program, origin, row, n, options.caches) for n in (0, units))
            each[name] = {what: (count - base[what]) / units for what, count in all_of_it.items()}
        for what, expected in each[first].items():
            ratios = "".join(f" {each[name][what] / expected:.4f} |" for name in list(programs)[1:])
            label = row if what == "instructions" else f"{row}, {what}"
            print(f"| {label} | " + " | ".join(f"{counts[what]:,.{0 if expected > 100 else 1}f}" for counts in each.values()) + " |" + ratios, flush=True)


if __name__ == "__main__":
    main()
