#!/usr/bin/env python3
"""What stick-tables and peers cost, side by side: tracking, memory, expiry, `show table` and `clear table`, updates and lessons of peers.

  tables.py [--rows track,keys,memory,expiry,operator,push,teach] [--entries 1000000] [--seconds 3] weir=PROGRAM haproxy=PROGRAM...

  track     CPU time of a request that is tracked, over that of one which is not (medians of rounds; with two threads, too)
  keys      the same for one key, and for a million of them, drawn at random
  memory    resident bytes of an entry of an IPv4 address with one rate
  expiry    the longest time that a request takes while all entries expire in the same moment
  operator  the same while somebody reads `show table` slowly, and while `clear table` runs; what that takes of memory
  push      entries that changed while the other instance did not listen: CPU time of both for each until it has them
  teach     how long an instance that starts is taught all entries by another one, and what requests to that one take meanwhile

Entries are taught by this program, as a peer. Latencies are of one client that asks as fast as it is answered, with precedence over
everybody else on the machine (needs root); what it sees alone is told beside them.
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
    table t type ip size 12m expire {expire} store http_req_rate(10s)
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
listen changes
    bind 127.0.0.1:{changes}
    http-request track-sc0 rand(1000000) table p/n
    http-request sc-inc-gpc0(0)
    http-request return status 200
"""
LISTENERS = ("none", "one", "number", "numbers", "changes")


def precedence(pid=0):
    """Lets a process go before all others."""
    try:
        for task in os.listdir(f"/proc/{pid or os.getpid()}/task"):
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
            file.write(CONFIGURATION.format(threads=threads, name=name, cli=self.cli, expire=expire, origin=origin.port, **self.peers, **self.ports))
        self.log = open(base + ".log", "wb")
        self.process = subprocess.Popen(["taskset", "-c", cpus, program, "-db", "-f", base + ".cfg"], stdout=self.log, stderr=self.log)
        if not sides.wait_port(self.ports["none"]):
            sys.exit(f"{label} did not start: {self.last_words()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def ask(self, command):
        """What an operator is told."""
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
    """A peer that tells entries of the table `t`: addresses with one event each."""

    def __init__(self, instance, name="b"):
        self.socket = socket.create_connection(("127.0.0.1", instance.peers["a"]))
        self.socket.sendall(f"HAProxyS 2.1\na\n{name} 1 1\n".encode())
        assert self.socket.recv(4) == b"200\n"
        self.heard, self.sent = b"", 0
        threading.Thread(target=self.listen, daemon=True).start()
        body = integer(1) + b"\2/t" + bytes([4, 4]) + integer(1 << 10) + integer(3600_000) + integer(10) + integer(10_000)
        self.socket.sendall(b"\0\1\x0a\x82" + integer(len(body)) + body)

    def listen(self):
        """Keeps the end of what is said."""
        try:
            while more := self.socket.recv(65536):
                self.heard = (self.heard + more)[-64:]
        except OSError:
            pass

    def tell(self, count, expire_at=None):
        """Tells so many entries, of addresses in no order; they expire at that time, or in an hour."""
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
        """Until all of it was acknowledged."""
        wanted, end = struct.pack(">I", self.sent), time.monotonic() + seconds
        while not re.search(rb"\x0a\x84\x05\x01" + re.escape(wanted), self.heard, re.S):
            assert time.monotonic() < end, self.heard
            time.sleep(0.005)


class Client(threading.Thread):
    """Asks as fast as it is answered, and notes what takes longest. A process of its own, so that nothing here delays it."""

    CODE = """
import socket, sys, time, os
os.setpriority(os.PRIO_PROCESS, 0, -20)
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
took, end = [], time.perf_counter() + float(sys.argv[2])
while (began := time.perf_counter()) < end:
    s.sendall(b"GET /64 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
    s.recv(65536)
    took.append(time.perf_counter() - began)
took.sort()
print(len(took), took[len(took) // 2] * 1e3, took[len(took) * 99 // 100] * 1e3, took[len(took) * 999 // 1000] * 1e3, took[-1] * 1e3)
"""

    def __init__(self, port, seconds):
        super().__init__()
        self.command, self.said = [sys.executable, "-c", self.CODE, str(port), str(seconds)], ""
        self.start()

    def run(self):
        self.said = subprocess.run(["taskset", "-c", "1", *self.command], capture_output=True, text=True, check=True).stdout

    def figures(self):
        """A sentence about what it saw."""
        self.join()
        count, *took = self.said.split()
        return f"{count} requests, ms: " + ", ".join(f"{what} {float(ms):.2f}" for what, ms in zip(("p50", "p99", "p99.9", "longest"), took))


def load(instance, listener, seconds, connections=64):
    """Requests of wrk; CPU time of each in microseconds."""
    before = instance.cpu()
    text = subprocess.run(f"taskset -c 1 wrk -t1 -c{connections} -d{seconds}s http://127.0.0.1:{instance.ports[listener]}/64", shell=True,
                          capture_output=True, text=True, check=True).stdout
    done = int(re.search(r"(\d+) requests in", text).group(1))
    assert "Non-2xx" not in text, text
    return (instance.cpu() - before) / done * 1e6


def compare(instances, listeners, options):
    """Medians of rounds in which every instance and every listener has its turn."""
    taken = {(label, listener): [] for label in instances for listener in listeners}
    for turn in range(options.rounds + 1):
        for label, instance in instances.items():
            for listener in listeners:
                cost = load(instance, listener, 1 if turn == 0 else options.seconds)
                if turn:
                    taken[label, listener].append(cost)
    return {place: statistics.median(costs) for place, costs in taken.items()}


def track(options, origin):
    for threads in (1, 2):
        instances = {label: Instance(label, program, origin, threads=threads, cpus="0" if threads == 1 else "0-1")
                     for label, program in options.programs.items()}
        taken = compare(instances, ("none", "one"), options)
        for label, instance in instances.items():
            none, one = taken[label, "none"], taken[label, "one"]
            print(f"  track, {threads} thread(s), {label:12s} {none:.2f} us, tracked {one:.2f} us: {one - none:+.2f} us", flush=True)
            instance.stop()


def keys(options, origin):
    instances = {label: Instance(label, program, origin) for label, program in options.programs.items()}
    # Most of the million is there before it counts.
    for instance in instances.values():
        load(instance, "numbers", 10)
    taken = compare(instances, ("number", "numbers"), options)
    for label, instance in instances.items():
        one, many = taken[label, "number"], taken[label, "numbers"]
        print(f"  keys, {label:12s} one key {one:.2f} us, a million {many:.2f} us: {many / one:.2f}", flush=True)
        instance.stop()


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


def expiry(options, origin):
    for label, program in options.programs.items():
        with Instance(label, program, origin, expire="1h") as instance:
            precedence(instance.process.pid)
            alone = Client(instance.ports["none"], 3).figures()
            teacher = Teacher(instance)
            wait = 5 + options.entries / 150_000
            at = time.monotonic() + wait
            teacher.tell(options.entries, at)
            teacher.wait()
            had = instance.used()
            time.sleep(max(0, at - 1 - time.monotonic()))
            shown = Client(instance.ports["none"], 8).figures()
            print(f"  expiry, {label:12s} {had} entries, {instance.used()} left 7 s later: {shown}\n{'':22s}alone: {alone}", flush=True)


def operator(options, origin):
    for label, program in options.programs.items():
        with Instance(label, program, origin) as instance:
            precedence(instance.process.pid)
            alone = Client(instance.ports["none"], 3).figures()
            teacher = Teacher(instance)
            teacher.tell(options.entries)
            teacher.wait()
            before = instance.resident_kb()
            for rate, what in ((0.01, "slowly"), (0, "fast")):
                client, read, most = Client(instance.ports["none"], 5), 0, 0
                with socket.socket(socket.AF_UNIX) as cli:
                    cli.connect(instance.cli)
                    cli.sendall(b"show table p/t\n")
                    end = time.monotonic() + 5
                    while time.monotonic() < end and (more := cli.recv(16384)):
                        read, most = read + len(more), max(most, instance.resident_kb() if rate else 0)
                        time.sleep(rate)
                more = f", at most {most - before} kB more" if rate else ""
                print(f"  show, {label:12s} read {what}: {read} bytes{more}: {client.figures()}", flush=True)
            client = Client(instance.ports["none"], 12)
            time.sleep(0.5)
            began = time.monotonic()
            instance.ask("clear table p/t")
            print(f"  clear, {label:12s} {options.entries} entries in {time.monotonic() - began:.2f} s, {instance.used()} left: {client.figures()}\n"
                  f"{'':22s}alone: {alone}", flush=True)


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
        with Instance(label, program, origin) as here:
            teacher = Teacher(here)
            teacher.tell(options.entries)
            teacher.wait()
            teacher.socket.close()
            precedence(here.process.pid)
            alone = Client(here.ports["none"], 3).figures()
            with Instance(label, program, origin, "b", here.peers, cpus="1") as there:
                client, before = Client(here.ports["none"], 8), here.cpu() + there.cpu()
                end = time.monotonic() + 60
                while there.used() == 0 and time.monotonic() < end:
                    time.sleep(0.002)
                began = time.monotonic()
                wait_used(there, "p/t", options.entries)
                print(f"  teach, {label:12s} {options.entries} entries in {time.monotonic() - began:.2f} s behind the first ones, "
                      f"{(here.cpu() + there.cpu() - before):.2f} s of CPU time with the client's: {client.figures()}\n{'':22s}alone: {alone}", flush=True)


ROWS = {row.__name__: row for row in (track, keys, memory, expiry, operator, push, teach)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    options = parser.parse_args()
    options.programs = dict(word.split("=", 1) for word in options.programs)
    origin = sides.Origin()
    for row in options.rows.split(","):
        print(row, flush=True)
        ROWS[row](options, origin)


if __name__ == "__main__":
    main()
