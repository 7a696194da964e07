#!/usr/bin/env python3
"""What health checks cost: CPU of a check, and what requests beside them take. Programs in turn, round after round; medians.

  checks.py cost   [--rounds 5] [--seconds 2] [--servers 1000] [--inter 500] weir=PROGRAM haproxy=PROGRAM...
  checks.py beside [--rounds 10] [--count 100000] [--servers 1000] [--inter 500] weir=PROGRAM haproxy=PROGRAM...

  cost    checks that connect, and HTTP checks, of one thread: CPU each, in user space and in the kernel. In the same rounds the loop of floor.c,
          which makes the system calls of weir and nothing else. All of these on one processor, and the server that is checked on another one.
  beside  requests of one client, without checks, with checks that connect and with HTTP checks. The time for which the client, the program and
          the server behind it waited for a processor is not counted.

Checks are counted as the connections that the kernel opened, as many as were asked for at most: others may open some, too.
"""
import argparse
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CONFIGURATION = """
global
    nbthread 1
    maxconn 9000
    spread-checks 0
defaults
    mode http
    timeout connect 1s
    timeout client 50s
    timeout server 50s
    timeout check 1s
listen l
    bind 127.0.0.1:{port}
    server s 127.0.0.1:{served}
backend b
    {option}
{servers}
"""


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(port):
    for _ in range(500):
        try:
            return socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.01)
    sys.exit(f"nobody listens on port {port}")


def build(folder, name, source):
    made = os.path.join(folder, name)
    subprocess.run(["cc", "-O2", "-pthread", source, "-o", made], check=True)
    return made


def opened():
    """Connections that this machine opened so far."""
    rows = [line.split() for line in open("/proc/net/snmp") if line.startswith("Tcp:")]
    return int(dict(zip(*rows))["ActiveOpens"])


def schedstats(pid):
    return [f"/proc/{pid}/task/{task}/schedstat" for task in os.listdir(f"/proc/{pid}/task")]


def processor_us(pid):
    """Processor time: exactly, and by the kernel's ticks in user space and in the kernel."""
    exact = sum(int(open(name).read().split()[0]) for name in schedstats(pid)) / 1e3
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return [exact, *(int(ticks) * 1e6 / os.sysconf("SC_CLK_TCK") for ticks in fields[11:13])]


def on(processor):
    """For a process that starts: it keeps to this processor."""
    return lambda: os.sched_setaffinity(0, {processor})


class Bench:
    """Two servers: one that is checked, and one that serves the requests."""

    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        origin = build(folder, "origin", os.path.join(HERE, "..", "origin.c"))
        self.floor, self.client = (build(folder, name, os.path.join(HERE, f"{name}.c")) for name in ("floor", "client"))
        self.checked, self.served = free_port(), free_port()
        # Costs are compared where the programs are; requests may run wherever the machine has room for them.
        self.pins = options.row == "cost"
        self.origins = [subprocess.Popen([origin, str(port)], stdout=subprocess.DEVNULL, preexec_fn=self.pins and on(1) or None)
                        for port in (self.checked, self.served)]
        wait_for(self.checked)
        wait_for(self.served)

    def run(self, program, kind, measure):
        """Starts a program with checks of this kind, or `none`; what `measure` finds of its process and port."""
        check = "" if kind == "none" else f"check inter {self.options.inter}ms"
        servers = "\n".join(f"    server s{number} 127.0.0.1:{self.checked} {check}" for number in range(self.options.servers))
        option = "option httpchk GET /64" if kind == "http" else ""
        port, name = free_port(), os.path.join(self.folder, "a.cfg")
        with open(name, "w") as file:
            file.write(CONFIGURATION.format(port=port, served=self.served, option=option, servers=servers))
        process = subprocess.Popen([program, "-f", name, "-db"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=self.pins and on(0) or None)
        try:
            wait_for(port)
            time.sleep(1 + self.options.inter / 1000)
            return measure(process.pid, port)
        finally:
            process.terminate()
            process.wait()

    def cost(self, pid, _):
        before, first = processor_us(pid), opened()
        time.sleep(self.options.seconds)
        after, asked = processor_us(pid), self.options.seconds * self.options.servers * 1000 / self.options.inter
        count = max(1, min(asked, opened() - first))
        return [(now - then) / count for now, then in zip(after, before)]

    def beside(self, pid, port):
        tasks = schedstats(pid) + schedstats(self.origins[1].pid)
        said = subprocess.run([self.client, str(port), str(self.options.count), *tasks], capture_output=True, text=True, check=True).stdout
        return [float(word) for word in said.split("net")[1].split()]

    def floor_of(self, kind):
        rate = self.options.servers * 1000 // self.options.inter
        said = subprocess.run([self.floor, str(self.checked), str(rate), str(self.options.seconds), kind],
                              capture_output=True, text=True, check=True, preexec_fn=on(0)).stdout
        return [float(figure) for figure in re.search(r"cpu ([\d.]+) us .user ([\d.]+) system ([\d.]+)", said).groups()]

    def rounds(self):
        """The figures of each program and kind of check, a list a round."""
        found = {}
        for _ in range(self.options.rounds):
            for name, program in (each.split("=", 1) for each in self.options.programs):
                for kind in ("tcp", "http") if self.options.row == "cost" else ("none", "tcp", "http"):
                    measure = self.cost if self.options.row == "cost" else self.beside
                    found.setdefault((name, kind), []).append(self.run(program, kind, measure))
            for kind in ("tcp", "http", "once") if self.options.row == "cost" else ():
                found.setdefault(("floor", kind), []).append(self.floor_of(kind))
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("row", choices=("cost", "beside"))
    for name, usual in (("rounds", 5), ("seconds", 2), ("servers", 1000), ("inter", 500), ("count", 100_000)):
        parser.add_argument(f"--{name}", type=int, default=usual)
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        try:
            found = bench.rounds()
        finally:
            for origin in bench.origins:
                origin.terminate()
    print(f"load {os.getloadavg()[0]:.1f}")
    words = ("cpu", "user", "system") if options.row == "cost" else ("p50", "p90", "p99", "p99.9", "p99.99", "most")
    for (name, kind), rows in found.items():
        medians = [statistics.median(column) for column in zip(*rows)]
        print(f"{name:10} {kind:5}", " ".join(f"{word} {median:.1f}" for word, median in zip(words, medians)), "us")


if __name__ == "__main__":
    main()
