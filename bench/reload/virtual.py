#!/usr/bin/env python3
"""The tail during reloads on an undisturbed machine: a virtual one, with a clock that counts instructions.

  virtual.py -p weir=target/release/weir [-p haproxy=haproxy] [-p nginx=nginx] [-r 40] [--kernel VMLINUZ]

A shared machine takes its processors away for milliseconds, as often as a reload takes any; no figure of a tail means anything
there. Here QEMU translates the instructions of one processor and lets a nanosecond pass for each (`-icount`), so the host's load
changes how long the measurement takes and nothing else: a repetition gives the same figures within some per cent. The kernel is
Debian's; one with another scheduler is named by `--kernel`.

In it run bench/origin.c, the load balancer with one thread under its master, and bench/paced.c, the clients that send at times
that were fixed before. They compete for that one processor with whatever a reload does, which is the worst case. What starts
processes beside (a shell, a command line's client) would be measured too, so bench/reload/signals.c signals the reloads.

Needs qemu-system-x86, busybox-static and a C compiler; fetches a kernel with apt-get if none is named.
"""
import argparse
import glob
import gzip
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

from reload import CONFIGURATION, NGINX, build, percentile

ORIGIN, PORT = 9000, 8080
# Without ERMS and FSRM the kernel clears memory by words: a repeated instruction counts once for each repetition.
MACHINE = ["-M", "q35", "-cpu", "max,-erms,-fsrm", "-smp", "1", "-accel", "tcg,thread=single",
           "-icount", "shift=0,sleep=off", "-m", "768", "-nodefaults", "-nographic", "-no-reboot", "-net", "none",
           "-append", "console=ttyS0 quiet panic=-1 rdinit=/init"]
# The kernel dies at its start in one of ten tries (QEMU 7.2), in whatever uses CMPXCHG16B; without it HAProxy does.
TRIES = 4
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t devtmpfs dev /dev
ip link set lo up
origin {origin} > /dev/null &
sleep 0.3
{command} > /log 2>&1 &
master=$!
sleep {settle}
paced {port} {clients} {period} > /answers &
paced=$!
sleep 0.5
signals $master {signal} {reloads} {quiet} > /moments
kill -TERM $paced
wait $paced
grep -c "Loading success" /log > /loads
cat /loads /moments /answers > /dev/ttyS1
poweroff -f
"""


class Tree:
    """The files of the virtual machine, as an archive that its kernel unpacks (cpio, "newc")."""

    def __init__(self):
        self.archive, self.known = bytearray(), set()

    def add_folder(self, path):
        if path and path not in self.known:
            self.add_folder(os.path.dirname(path))
            self.add_entry(path, b"", stat.S_IFDIR | 0o755)

    def add(self, path, content, permissions=0o644):
        self.add_folder(os.path.dirname(path))
        if path not in self.known:
            self.add_entry(path, content, stat.S_IFREG | permissions)

    def add_entry(self, path, content, mode):
        self.known.add(path)
        name = path.encode() + b"\0"
        fields = [len(self.known), mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0]
        self.archive += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        self.pad()
        self.archive += content
        self.pad()

    def pad(self):
        self.archive += bytes(-len(self.archive) % 4)

    def add_program(self, name, path):
        """A program, and the libraries that it is linked with."""
        with open(path, "rb") as file:
            self.add(f"bin/{name}", file.read(), 0o755)
        linked = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        for word in linked.split():
            if word.startswith("/"):
                with open(word, "rb") as file:
                    self.add(word.lstrip("/"), file.read(), 0o755)

    def packed(self):
        self.add_entry("TRAILER!!!", b"", 0)
        return gzip.compress(bytes(self.archive), 1)


def kernel(folder):
    """Debian's kernel for virtual machines, unpacked and not installed."""
    depends = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], capture_output=True, text=True).stdout
    package = next((line.split()[-1] for line in depends.splitlines() if "Depends: linux-image-" in line), None)
    if package is None:
        sys.exit("no kernel is known to apt; name one with --kernel")
    subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    subprocess.run(["dpkg", "-x", glob.glob(f"{folder}/*.deb")[0], folder], check=True)
    return glob.glob(f"{folder}/boot/vmlinuz-*")[0]


def measure(name, program, options, programs, image, folder):
    nginx = name.startswith("nginx")
    places = dict(port=PORT, origin=ORIGIN, small=ORIGIN, work="")
    config = "user root;" + NGINX.format(**places) if nginx else CONFIGURATION.format(**places)
    if not nginx:
        config += "".join(f"backend b{number}\n    server s 127.0.0.1:9\n" for number in range(options.backends))
    tree = Tree()
    for ours, path in programs.items():
        tree.add_program(ours, path)
    tree.add_program("side", program)
    tree.add_program("busybox", shutil.which("busybox"))
    command = "side -c /etc/side -p /" if nginx else "side -W -f /etc/side -S /master"
    init = INIT.format(origin=ORIGIN, port=PORT, command=command, clients=options.clients, period=options.period,
                       signal=int(signal.SIGHUP if nginx else signal.SIGUSR2), reloads=options.reloads, quiet=options.quiet,
                       settle=1 + options.backends / 2000)
    tree.add("init", init.encode(), 0o755)
    tree.add("etc/side", config.encode())
    tree.add("etc/passwd", b"root:x:0:0::/:/bin/sh\n")
    tree.add("etc/group", b"root:x:0:\n")
    for mount in ("dev", "proc"):
        tree.add_folder(mount)
    root, answers = os.path.join(folder, "root"), os.path.join(folder, "answers")
    with open(root, "wb") as file:
        file.write(tree.packed())
    for _ in range(TRIES):
        run = subprocess.run(
            ["qemu-system-x86_64", *MACHINE, "-kernel", image, "-initrd", root, "-serial", "stdio", "-serial", f"file:{answers}"],
            capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=options.patience)
        with open(answers) as file:
            lines = file.read().splitlines()
        if len(lines) > 3:
            break
    else:
        sys.exit(f"{name}: nothing was measured:\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
    loads = int(lines[0])
    quiet_began, began, finish = map(float, lines[1].split())
    done, failed, torn = map(int, lines[2].split())
    times = [tuple(map(float, line.split())) for line in lines[3:]]
    phases = {"without": [took for due, took in times if quiet_began <= due < began],
              "during": [took for due, took in times if began <= due < finish]}
    result = {phase: {share: percentile(took, share) for share in (.5, .99, .999, 1)} for phase, took in phases.items()}
    # nginx does not report its reloads.
    told = "" if nginx else f", {loads} loads"
    print(f"{name}: {done} answers, {failed} failed, {torn} torn{told}")
    for phase, shares in result.items():
        figures = ", ".join(f"{label} {shares[share]:.2f}" for share, label in zip(shares, ("p50", "p99", "p99.9", "worst")))
        print(f"  {phase:8s} {len(phases[phase]):6d}: {figures} ms", flush=True)
    return {**result, "clients": (done, failed, torn), "loads": loads}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-p", action="append", required=True, metavar="NAME=PROGRAM")
    parser.add_argument("-r", "--reloads", type=int, default=40)
    parser.add_argument("-q", "--quiet", type=float, default=10, help="seconds without reloads before")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--period", type=float, default=4, help="milliseconds from one request of a client to its next")
    parser.add_argument("--backends", type=int, default=0, help="backends that nobody uses")
    parser.add_argument("--kernel", default="", metavar="VMLINUZ")
    parser.add_argument("--patience", type=float, default=1800, help="seconds that one side may take")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="virtual.") as folder:
        # Without libraries of their own they start with less.
        programs = build(folder, ["../origin.c", "../paced.c", "signals.c"], "-static")
        image = options.kernel or kernel(folder)
        results = {}
        for side in options.p:
            name, _, program = side.partition("=")
            results[name] = measure(name, os.path.abspath(shutil.which(program) or program), options, programs, image, folder)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
