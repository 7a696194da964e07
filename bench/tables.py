#!/usr/bin/env python3
"""What stick-tables and peers cost, side by side: tracking, memory, expiry, `show table` and `clear table`, updates and lessons of peers.

  tables.py [--rows track,keys,memory,expiry,operator,push,teach] [--entries 1000000] [--seconds 3] weir=PROGRAM haproxy=PROGRAM...

  track     CPU time of a request that is tracked, over that of one which is not (with two threads, too)
  keys      the same for one key, and for a million of them, drawn at random
  memory    resident bytes of an entry of an IPv4 address with one rate
  expiry    the longest time that a request takes while all entries expire in the same moment, and what is held when they are gone
  operator  the same while somebody reads `show table` slowly or fast, while no entry fits a filter, and while `clear table` runs; what
            that takes of memory, and what is held when all were cleared
  push      entries that changed while the other instance did not listen: CPU time of both for each until it has them
  teach     how long an instance that starts is taught all entries by another one, and what requests to that one take meanwhile

Entries are taught by this program, as a peer: `--entries 10000000` takes some seconds. Latencies are of one client that asks the program
itself as fast as it is answered, both with precedence over everybody else on the machine (needs root); what it sees alone is told
beside them. `--most-ms` fails when one of a thousand requests waits for more work of weir than that, in milliseconds of CPU time, while
something goes on, when a slow reader holds more than 1 MB, and when more than a tenth of what entries held is not given back.
"""
import argparse
import os
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time

import sides

CONFIGURATION = """
global
    nbthread {threads}
    localpeer {name}
    stats socket {cli} level admin
    stats timeout 1m
    maxconn 4000
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
peers p
    peer a 127.0.0.1:{a}
    peer b 127.0.0.1:{b}
    table t type ip size {size} expire {expire} store http_req_rate(10s)
    table n type integer size 2m expire 10m store gpc0
listen none
    bind 127.0.0.1:{none}
    server s1 127.0.0.1:{origin}
listen one
    bind 127.0.0.1:{one}
    stick-table type ip size 100k expire 10m store http_req_rate(10s),gpc0
    http-request track-sc0 src
    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 1000000000 }}
    server s1 127.0.0.1:{origin}
listen number
    bind 127.0.0.1:{number}
    stick-table type integer size 2m expire 10m store http_req_rate(10s),gpc0
    http-request track-sc0 rand(1)
    server s1 127.0.0.1:{origin}
listen numbers
    bind 127.0.0.1:{numbers}
    stick-table type integer size 2m expire 10m store http_req_rate(10s),gpc0
    http-request track-sc0 rand(1000000)
    server s1 127.0.0.1:{origin}
listen answer
    bind 127.0.0.1:{answer}
    http-request return status 200
listen changes
    bind 127.0.0.1:{changes}
    http-request track-sc0 rand(1000000) table p/n
    http-request sc-inc-gpc0(0)
    http-request return status 200
"""
LISTENERS = ("none", "one", "number", "numbers", "answer", "changes")
# The size of the table that the teacher fills.
MOST_ENTRIES = 12_000_000
# The most memory that a slow reader of a listing may hold, in kilobytes.
MOST_HELD_KB = 1024
# The share of the memory of entries that may stay allocated when all entries are gone.
MOST_KEPT = 0.1


def precedence(pid):
    """Gives a process precedence over all others. Not in real time: a process that is always busy would be stopped for 50 ms of each second."""
    try:
        for task in os.listdir(f"/proc/{pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(task), -20)
    except PermissionError:
        print("without precedence over others: latencies are theirs, too", file=sys.stderr)


class Instance(sides.Side):
    """A program with this configuration, as one of two peers."""

    def __init__(self, label, program, origin, name="a", peers=None, threads=1, expire="1h", cpus="0"):
        self.name, self.program, self.peers = label, program, peers or dict(zip("ab", sides.free_ports(2)))
        self.ports = dict(zip(LISTENERS, sides.free_ports(len(LISTENERS))))
        base = f"{sides.WORK}/{label}-{name}-{self.peers['a']}"
        self.cli = base + ".sock"
        with open(base + ".cfg", "w") as file:
            file.write(CONFIGURATION.format(threads=threads, name=name, cli=self.cli, expire=expire, size=MOST_ENTRIES, origin=origin.port, **self.peers, **self.ports))
        self.log = open(base + ".log", "wb")
        self.process = subprocess.Popen(["taskset", "-c", cpus, program, "-db", "-f", base + ".cfg"], stdout=self.log, stderr=self.log)
        if not sides.wait_port(self.ports["none"]):
            sys.exit(f"{label} did not start: {self.last_words()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def ask(self, command):
        """The answer of the runtime API."""
        with socket.socket(socket.AF_UNIX) as cli:
            cli.connect(self.cli)
            cli.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: cli.recv(65536), b"")).decode()

    def used(self, table="p/t"):
        """How many entries a table has."""
        return int(re.search(rf"table: {table}, .*used:(\d+)", self.ask("show table")).group(1))

    def cpu(self):
        """Seconds of CPU time so far."""
        return sum(self.cpu_seconds())


def integer(value):
    """An integer as peers write it."""
    if value < 240:
        return bytes([value])
    out, value = [value & 15 | 240], value - 240 >> 4
    while value >= 128:
        out.append(value & 127 | 128)
        value = value - 128 >> 7
    return bytes(out + [value])


class Teacher:
    """A peer that sends entries of the table `t`: addresses with one event each."""

    def __init__(self, instance, name="b"):
        self.socket = socket.create_connection(("127.0.0.1", instance.peers["a"]))
        self.socket.sendall(f"HAProxyS 2.1\na\n{name} 1 1\n".encode())
        assert self.socket.recv(4) == b"200\n"
        self.heard, self.sent = b"", 0
        threading.Thread(target=self.listen, daemon=True).start()
        body = integer(1) + b"\2/t" + bytes([4, 4]) + integer(1 << 10) + integer(3600_000) + integer(10) + integer(10_000)
        self.socket.sendall(b"\0\1\x0a\x82" + integer(len(body)) + body)

    def listen(self):
        """Keeps the end of the received bytes."""
        try:
            while more := self.socket.recv(65536):
                self.heard = (self.heard + more)[-64:]
        except OSError:
            pass

    def tell(self, count, expire_at=None):
        """Sends so many entries, of addresses in no particular order; they expire at that time, or in an hour."""
        for high in range((count + 65535) >> 16):
            number = min(65536, count - (high << 16))
            left = int((expire_at - time.monotonic()) * 1000) if expire_at else 3600_000
            entry = b"\x0a\x86\x0b" + struct.pack(">I", left) + bytes(4) + b"\0\1\0"
            block, length = bytearray(entry * number), len(entry)
            addresses = [(high << 16 | low) * 2654435761 & 0xffffffff for low in range(number)]
            addresses = struct.pack(f">{number}I", *addresses)
            for byte in range(4):
                block[7 + byte::length] = addresses[byte::4]
            # The first one of a block has the number of its update.
            first = struct.pack(">I", self.sent + 1)
            self.socket.sendall(b"\x0a\x85\x0f" + first + bytes(block[3:length]) + bytes(block[length:]))
            self.sent += number

    def wait(self, seconds=120):
        """Waits until all entries are acknowledged."""
        wanted, end = struct.pack(">I", self.sent), time.monotonic() + seconds
        while not re.search(rb"\x0a\x84\x05\x01" + re.escape(wanted), self.heard, re.S):
            assert time.monotonic() < end, self.heard
            time.sleep(0.005)


class Client:
    """Sends a request after each answer until a signal stops it, and records the slowest. A process of its own, so that nothing here
    delays it. Beside the elapsed time it records the CPU time that the program takes meanwhile, by the kernel's performance events:
    other processes on the machine cannot add to that."""

    CODE = """
import ctypes, os, signal, socket, struct, sys, time
port, program = sys.argv[1:]
PERF_EVENT_OPEN, SOFTWARE, TASK_CLOCK = 298, 1, 1
attributes = struct.pack("IIQQQQQIIQ", SOFTWARE, 64, TASK_CLOCK, 0, 0, 0, 0, 0, 0, 0)
clocks = [ctypes.CDLL(None).syscall(PERF_EVENT_OPEN, attributes, int(task), -1, -1, 0) for task in os.listdir(f"/proc/{program}/task")]
used = lambda: sum(struct.unpack("Q", os.read(clock, 8))[0] for clock in clocks)
if -1 in clocks:
    # Not permitted: the time that passes is the most that it can have used.
    used = time.perf_counter_ns
try:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
except PermissionError:
    pass
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
s = socket.create_connection(("127.0.0.1", int(port)))
print("ready", flush=True)
passed, busy = [], []
while not stop:
    before, began = used(), time.perf_counter()
    s.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    s.recv(65536)
    passed.append(time.perf_counter() - began)
    busy.append((used() - before) / 1e9)
print(len(passed))
for took in (passed, busy):
    took.sort()
    print(*(took[min(len(took) - 1, int(len(took) * part))] * 1e3 for part in (0.5, 0.99, 0.999, 1)))
"""
    SHARES = ("p50", "p99", "p99.9", "longest")

    def __init__(self, instance):
        self.name, self.count, self.passed, self.busy = instance.name, 0, {}, {}
        self.process = subprocess.Popen(["taskset", "-c", "1", sys.executable, "-c", self.CODE, str(instance.ports["answer"]),
                                         str(instance.process.pid)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        # Without figures if the program went away.
        if figures := self.process.communicate()[0].splitlines():
            self.count = int(figures[0])
            self.passed, self.busy = (dict(zip(self.SHARES, map(float, line.split()))) for line in figures[1:])

    def __str__(self):
        passed, busy = (", ".join(f"{share} {ms:.2f}" for share, ms in took.items()) for took in (self.passed, self.busy))
        return f"{self.count} requests, ms: {passed}; of the program's CPU time: {busy}"

    def check(self, options):
        """Fails if that was too long."""
        if options.most_ms and self.name.startswith("weir") and self.busy["p99.9"] > options.most_ms:
            sys.exit(f"{self.name}: one of a thousand requests waited for more than {options.most_ms} ms of work")


def alone(instance):
    """The latencies of a client without other load."""
    with Client(instance) as client:
        time.sleep(2)
    return client


def load(instance, listener, seconds, connections=64):
    """Requests of wrk; CPU time of each in microseconds."""
    before = instance.cpu()
    text = subprocess.run(f"taskset -c 1 wrk -t1 -c{connections} -d{seconds}s http://127.0.0.1:{instance.ports[listener]}/64", shell=True,
                          capture_output=True, text=True, check=True).stdout
    done = int(re.search(r"(\d+) requests in", text).group(1))
    assert "Non-2xx" not in text, text
    return (instance.cpu() - before) / done * 1e6


def compare(instances, listeners, options):
    """The median and the least of rounds in which every instance and every listener has its turn: others on the machine add to the
    first, and hardly to the second."""
    taken = {(label, listener): [] for label in instances for listener in listeners}
    for turn in range(options.rounds + 1):
        for label, instance in instances.items():
            for listener in listeners:
                cost = load(instance, listener, 1 if turn == 0 else options.seconds)
                if turn:
                    taken[label, listener].append(cost)
    return {place: (statistics.median(costs), min(costs)) for place, costs in taken.items()}


def beside(options, origin, what, listeners, threads=1, warm=0):
    """Compares the cost of a request to the second listener with one to the first, in each program."""
    instances = {label: Instance(label, program, origin, threads=threads, cpus="0" if threads == 1 else "0-1")
                 for label, program in options.programs.items()}
    for instance in instances.values():
        if warm:
            load(instance, listeners[1], warm)
    taken = compare(instances, listeners, options)
    for label, instance in instances.items():
        for kind, first, second in zip(("median", "least"), *(taken[label, listener] for listener in listeners)):
            print(f"  {what}, {label:12s} {kind:6s} {listeners[0]} {first:.2f} us, {listeners[1]} {second:.2f} us: {second - first:+.2f} us, "
                  f"{second / first:.2f}", flush=True)
        instance.stop()


def track(options, origin):
    for threads in (1, 2):
        beside(options, origin, f"track, {threads} thread(s)", ("none", "one"), threads)


def keys(options, origin):
    # Most of the million is there before it counts.
    beside(options, origin, "keys", ("number", "numbers"), warm=10)


def memory(options, origin):
    for label, program in options.programs.items():
        with Instance(label, program, origin) as instance:
            before = instance.resident_kb()
            teacher = Teacher(instance)
            began, cpu = time.monotonic(), instance.cpu()
            teacher.tell(options.entries)
            teacher.wait()
            each = (instance.resident_kb() - before) * 1024 / options.entries
            print(f"  memory, {label:12s} {each:.0f} bytes an entry, {instance.used()} entries, learned in {time.monotonic() - began:.1f} s, "
                  f"{(instance.cpu() - cpu) / options.entries * 1e6:.2f} us each", flush=True)


class Held:
    """The memory of a program: before entries arrive, while they exist, and when they are gone."""

    def __init__(self, instance):
        self.instance, self.before = instance, instance.resident_kb()
        self.full = self.now = 0

    def filled(self):
        """All entries have arrived."""
        self.full = self.instance.resident_kb()

    def emptied(self, options):
        """All are gone: gives it some time, and fails if too much is kept."""
        for _ in range(20):
            self.now = self.instance.resident_kb()
            if self.kept() < MOST_KEPT / 2:
                break
            time.sleep(0.2)
        if options.most_ms and self.instance.name.startswith("weir") and self.kept() > MOST_KEPT:
            sys.exit(f"{self.instance.name}: {self} is not given back")

    def kept(self):
        """The share that was not given back."""
        return (self.now - self.before) / max(1, self.full - self.before)

    def __str__(self):
        return f"{self.before} kB before, {self.full} full, {self.now} then: {self.kept():.1%}"


def filled(options, origin, label, program, **more):
    """An instance with precedence over others, the figures of a client of it alone, and its teacher."""
    instance = Instance(label, program, origin, **more)
    precedence(instance.process.pid)
    return instance, alone(instance), Teacher(instance)


def expiry(options, origin):
    for label, program in options.programs.items():
        instance, before, teacher = filled(options, origin, label, program)
        with instance:
            at = time.monotonic() + 5 + options.entries / 150_000
            held = Held(instance)
            teacher.tell(options.entries, at)
            teacher.wait()
            held.filled()
            had = instance.used()
            time.sleep(max(0, at - 0.5 - time.monotonic()))
            with Client(instance) as client:
                time.sleep(max(0, at - time.monotonic()))
                end = time.monotonic() + 60
                while (left := instance.used()) and time.monotonic() < end:
                    time.sleep(0.2)
            took = time.monotonic() - at
            held.emptied(options)
            print(f"  expiry, {label:12s} {had} entries, {left} left after {took:.1f} s: {client}\n{'':22s}alone: {before}\n{'':22s}held: {held}",
                  flush=True)
            client.check(options)


# The operator's commands: the command, the reader's pause behind every 16 kB, and the second at which the reader leaves.
ASKED = {
    "show, read slowly": ("show table p/t", 0.01, 5),
    "show, read fast": ("show table p/t", 0, 60),
    "show what nobody has": ("show table p/t data.http_req_rate gt 1000000", 0, 60),
    "clear what nobody has": ("clear table p/t data.http_req_rate gt 1000000", 0, 60),
    "clear": ("clear table p/t", 0, 60),
}


def read_answer(instance, command, pause, end):
    """Reads the answer of the runtime API, with a pause behind every 16 kB, until `end` at most. Returns its size, and how many kilobytes more
    the program held meanwhile, if there are pauses."""
    held, size, most = instance.resident_kb(), 0, 0
    with socket.socket(socket.AF_UNIX) as cli:
        cli.connect(instance.cli)
        cli.sendall(command.encode() + b"\n")
        try:
            while time.monotonic() < end and (more := cli.recv(16384)):
                size += len(more)
                if pause:
                    most = max(most, instance.resident_kb() - held)
                    time.sleep(pause)
        except ConnectionError:
            pass
    return size, most


def operator(options, origin):
    for label, program in options.programs.items():
        instance, before, teacher = filled(options, origin, label, program)
        with instance:
            held = Held(instance)
            teacher.tell(options.entries)
            teacher.wait()
            held.filled()
            print(f"  operator, {label:12s} {instance.used()} entries; alone: {before}", flush=True)
            for what, (command, pause, seconds) in ASKED.items():
                began = time.monotonic()
                with Client(instance) as client:
                    size, most = read_answer(instance, command, pause, began + seconds)
                if instance.process.poll() is not None:
                    print(f"    {what:22s} the program is gone after {time.monotonic() - began:.2f} s: {instance.last_words()}", flush=True)
                    break
                more = f", at most {most} kB more" if pause else ""
                print(f"    {what:22s} {size} bytes in {time.monotonic() - began:.2f} s{more}: {client}", flush=True)
                client.check(options)
                if options.most_ms and label.startswith("weir") and most > MOST_HELD_KB:
                    sys.exit(f"{label}: {most} kB for a slow reader")
            else:
                held.emptied(options)
                print(f"    {instance.used()} left; held: {held}", flush=True)


def wait_used(instance, table, wanted, seconds=120):
    end = time.monotonic() + seconds
    while instance.used(table) < wanted:
        assert time.monotonic() < end, (instance.used(table), wanted)
        time.sleep(0.01)


def push(options, origin):
    for label, program in options.programs.items():
        with Instance(label, program, origin) as here, Instance(label, program, origin, "b", here.peers) as there:
            time.sleep(12)
            load(here, "changes", 1)
            wait_used(there, "p/n", here.used("p/n"))
            known = there.used("p/n")
            there.process.send_signal(signal.SIGSTOP)
            load(here, "changes", 4)
            changed = here.used("p/n") - known
            before, began = here.cpu() + there.cpu(), time.monotonic()
            there.process.send_signal(signal.SIGCONT)
            wait_used(there, "p/n", known + changed)
            seconds, taken = time.monotonic() - began, here.cpu() + there.cpu() - before
            print(f"  push, {label:12s} {changed} new entries in {seconds:.2f} s, {taken / changed * 1e6:.2f} us of CPU time each "
                  f"({changed / max(taken, 0.01):,.0f} a second on one core)", flush=True)


def teach(options, origin):
    for label, program in options.programs.items():
        here, before, teacher = filled(options, origin, label, program)
        with here:
            teacher.tell(options.entries)
            teacher.wait()
            teacher.socket.close()
            with Instance(label, program, origin, "b", here.peers, cpus="1") as there, Client(here) as client:
                cpu, end = here.cpu() + there.cpu(), time.monotonic() + 60
                while there.used() == 0 and time.monotonic() < end:
                    time.sleep(0.002)
                began = time.monotonic()
                wait_used(there, "p/t", options.entries)
                seconds, taken = time.monotonic() - began, here.cpu() + there.cpu() - cpu
            print(f"  teach, {label:12s} {options.entries} entries in {seconds:.2f} s behind the first ones, "
                  f"{taken:.2f} s of CPU time with the client's: {client}\n{'':22s}alone: {before}", flush=True)


ROWS = {row.__name__: row for row in (track, keys, memory, expiry, operator, push, teach)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--most-ms", type=float)
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    options = parser.parse_args()
    if options.entries > MOST_ENTRIES:
        parser.error(f"at most {MOST_ENTRIES} entries")
    options.programs = dict(word.split("=", 1) for word in options.programs)
    origin = sides.Origin()
    for row in options.rows.split(","):
        print(row, flush=True)
        ROWS[row](options, origin)


if __name__ == "__main__":
    main()
