#!/usr/bin/env python3
"""What clients suffer while the configuration is reloaded again and again under load, side by side.

  reload.py -p weir=target/release/weir [-p haproxy=haproxy] [-p nginx=nginx] [-r 200] [-s 120] [--alone] [--json FILE]

Each side serves for a while without reloads, then `-r` reloads are spread over `-s` seconds: of five, one has a broken
configuration and in one the new worker is killed while it reads its configuration (others have no such moment: HAProxy 2.6 reads
it in the master, and a master ends with a worker that crashes later; there both are broken configurations). All the while there are clients of six kinds; each counts what went wrong for it:

  busy      keep-alive, a request every 4 ms: gives the tail
  quiet     keep-alive, a request now and then; a connection that is closed although nobody said so is torn
  short     a connection for each request
  download  20 MB, read at some 40 MB/s
  upload    4 MB, written in pieces
  socket    a WebSocket upgrade, then an echo every 100 ms for 5 s

The busy clients are bench/paced.c, and their answers come from bench/origin.c: what they measure is the load balancer, not an
interpreter. They send at times that were fixed before, so a stall counts for every request that it delays. The other clients and
their origin, which would be on other machines, run when nothing else does. On a machine that others use too, `--alone` (needs
root) gives all that is measured precedence over them. Real-time priority would not do: a worker that reads its configuration would
keep the others off its processor for as long as it takes.

A client that finds its idle connection closed and whose next request fails for it counts as a failed request; an idle
connection that is closed is counted as torn, whether or not a request was on its way.
"""
import argparse
import asyncio
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tests"))
from lib.program import free_port  # noqa: E402

CONFIGURATION = """
global
    nbthread 1
    maxconn 4000
    hard-stop-after 30s
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
    timeout tunnel 20s
frontend f
    bind 127.0.0.1:{port}
    use_backend bulk if {{ path /download /upload /socket }}
    default_backend small
backend small
    server s 127.0.0.1:{small}
backend bulk
    server s 127.0.0.1:{origin}
"""
NGINX = """
worker_processes 1; daemon off; pid {work}/pid; error_log {work}/err;
events {{ worker_connections 4000; }}
http {{ access_log off; keepalive_requests 100000000; client_max_body_size 0; proxy_request_buffering off; proxy_buffering off;
 proxy_temp_path {work}/p; client_body_temp_path {work}/c; fastcgi_temp_path {work}/f; uwsgi_temp_path {work}/u; scgi_temp_path {work}/s;
 keepalive_timeout 20s;
 upstream o {{ server 127.0.0.1:{origin}; keepalive 64; }}
 upstream small {{ server 127.0.0.1:{small}; keepalive 64; }}
 map $http_upgrade $c {{ default upgrade; '' ''; }}
 proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $c;
 server {{ listen 127.0.0.1:{port}; location /64 {{ proxy_pass http://small; }} location / {{ proxy_pass http://o; }} }} }}
"""
# What takes long enough to read that a worker can be killed meanwhile.
LONG = "".join(f"backend b{number}\n    server s{number} 127.0.0.1:9\n" for number in range(5000))
DOWNLOAD, UPLOAD = 20_000_000, 4_000_000
BUSY, PERIOD_MS = 4, 4
OTHERS = ["quiet", "short", "download", "upload", "socket"]
# --- the origin


def step_back():
    """Yields to the measured processes: this one only runs when the processor is idle."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            path = head.split(b" ", 2)[1]
            length = re.search(rb"(?i)content-length: (\d+)", head)
            left = int(length.group(1)) if length else 0
            while left:
                left -= len(await reader.read(min(left, 65536)))
            if path == b"/socket":
                writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                             b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n")
                while data := await reader.read(4096):
                    writer.write(data)
                    await writer.drain()
                return
            size = DOWNLOAD if path == b"/download" else 64
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            while size:
                piece = min(size, 65536)
                writer.write(bytes(piece))
                await writer.drain()
                size -= piece
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


def origin(port):
    step_back()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=1000)
        await server.serve_forever()
    asyncio.run(run())


# --- clients


class Count:
    def __init__(self):
        self.done = self.failed = self.torn = 0
        self.why = {}

    def fail(self, why):
        self.failed += 1
        self.why[why] = self.why.get(why, 0) + 1


class Gone(Exception):
    """The far end closed."""


class Kept:
    """A connection that is kept; opened again when the server said that it closes it."""

    def __init__(self, port):
        self.port, self.reader, self.writer = port, None, None

    async def ask(self, count, path=b"/64", body=b""):
        if self.reader is not None and self.reader.at_eof():
            count.torn += 1
            self.drop()
        if self.reader is None:
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writer.write(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path)
        try:
            head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 15)
        except asyncio.IncompleteReadError as error:
            raise Gone(f"closed after {len(error.partial)} bytes of a head") from None
        if not head.startswith(b"HTTP/1.1 200"):
            raise Gone(head[:40].decode())
        await self.reader.readexactly(64)
        if re.search(rb"(?i)\r\nconnection: close", head):
            self.drop()

    def drop(self):
        if self.writer:
            self.writer.close()
        self.reader = self.writer = None


async def keep(port, count, over):
    kept = Kept(port)
    while not over():
        try:
            await kept.ask(count)
            count.done += 1
        except (OSError, Gone, asyncio.TimeoutError, asyncio.IncompleteReadError) as error:
            count.fail(f"{type(error).__name__} {error}"[:60])
            kept.drop()
        await asyncio.sleep(random.uniform(0.3, 3))
    kept.drop()


async def once(port, count, over, work, pause):
    while not over():
        writer = None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.wait_for(work(reader, writer, over), 30)
            count.done += 1
        except (OSError, Gone, asyncio.TimeoutError, asyncio.IncompleteReadError) as error:
            count.fail(f"{type(error).__name__} {error}"[:60])
        finally:
            if writer:
                writer.close()
        await asyncio.sleep(pause)


async def expect(reader, length, pace=None):
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise Gone(head[:40].decode())
    while length:
        piece = await reader.read(min(length, 400_000))
        if not piece:
            raise Gone(f"{length} bytes missing")
        length -= len(piece)
        if pace:
            await asyncio.sleep(len(piece) / pace)


async def short(reader, writer, _):
    writer.write(b"GET /64 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    await expect(reader, 64)


async def download(reader, writer, _):
    writer.write(b"GET /download HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    await expect(reader, DOWNLOAD, 40e6)


async def upload(reader, writer, _):
    writer.write(b"POST /upload HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % UPLOAD)
    for _ in range(40):
        writer.write(bytes(UPLOAD // 40))
        await writer.drain()
        await asyncio.sleep(0.01)
    await expect(reader, 64)


async def websocket(reader, writer, over):
    writer.write(b"GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                 b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 101"):
        raise Gone(head[:40].decode())
    for number in range(50):
        if over():
            return
        writer.write(b"%06d" % number)
        if await reader.readexactly(6) != b"%06d" % number:
            raise Gone("another echo")
        await asyncio.sleep(0.1)


def clients(port, end, pipe, kinds):
    step_back()
    counts = {kind: Count() for kind in kinds}
    over = end.is_set

    async def run():
        starts = {
            "quiet": lambda count: [keep(port, count, over) for _ in range(32)],
            "short": lambda count: [once(port, count, over, short, 0.002) for _ in range(4)],
            "download": lambda count: [once(port, count, over, download, 0.1) for _ in range(2)],
            "upload": lambda count: [once(port, count, over, upload, 0.1) for _ in range(2)],
            "socket": lambda count: [once(port, count, over, websocket, 0.1) for _ in range(8)],
        }
        work = [client for kind in kinds for client in starts[kind](counts[kind])]
        await asyncio.gather(*work)

    asyncio.run(run())
    pipe.send({kind: (count.done, count.failed, count.torn, count.why, []) for kind, count in counts.items()})


# --- one side


def ask(path, text, seconds=30):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(seconds)
        # HAProxy's command line is away for the time of its executions.
        for _ in range(500):
            if client.connect_ex(path) == 0:
                break
            time.sleep(0.01)
        answer = b""
        try:
            client.sendall(text.encode() + b"\n")
            client.shutdown(socket.SHUT_WR)
            while more := client.recv(65536):
                answer += more
        except OSError:
            pass
        return answer.decode(errors="replace")


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except FileNotFoundError:
        return []


def figures(pid):
    with open(f"/proc/{pid}/status") as file:
        memory = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
    return memory, len(os.listdir(f"/proc/{pid}/fd"))


def take_precedence():
    """The highest weight beside others; all that is measured competes among itself as usual."""
    if os.getsid(0) != os.getpid():
        os.execvp("setsid", ["setsid", "--wait", sys.executable, *sys.argv])
    try:
        if os.path.exists("/proc/self/autogroup"):
            with open("/proc/self/autogroup", "w") as file:
                file.write("-20")
        else:
            os.setpriority(os.PRIO_PROCESS, 0, -20)
    except OSError as error:
        sys.exit(f"--alone: {error}")


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] * 1e3 if times else float("nan")


def build(folder, sources, *flags):
    """Compiles programs in C, named from here, into a folder; where each is, by its name."""
    built = {}
    for source in sources:
        name = os.path.basename(source).removesuffix(".c")
        built[name] = os.path.join(folder, name)
        source = os.path.join(os.path.dirname(os.path.abspath(__file__)), source)
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-pthread", *flags, "-o", built[name], source], check=True)
    return built


class Load:
    """A process with some kinds of clients."""

    def __init__(self, port, kinds):
        self.ours, theirs = multiprocessing.Pipe()
        self.over = multiprocessing.Event()
        self.process = multiprocessing.Process(target=clients, args=(port, self.over, theirs, kinds))
        self.process.start()

    def end(self):
        self.over.set()

    def abandon(self):
        self.process.kill()

    def counts(self):
        """Their counts, after they received the signal to end."""
        counts = self.ours.recv()
        self.process.join()
        return counts


class Paced:
    """The busy clients."""

    def __init__(self, program, port):
        self.process = subprocess.Popen([program, str(port), str(BUSY), str(PERIOD_MS)], stdout=subprocess.PIPE, text=True)

    def end(self):
        self.process.terminate()

    def abandon(self):
        self.process.kill()

    def counts(self):
        lines = iter(self.process.communicate()[0].splitlines())
        done, failed, torn = map(int, next(lines).split())
        return {"busy": (done, failed, torn, {}, [tuple(map(float, line.split())) for line in lines])}


def measure(name, program, options, paced, origin_port, small_port):
    work, port = tempfile.mkdtemp(prefix="reload."), free_port()
    nginx = name.startswith("nginx")
    good = (NGINX if nginx else CONFIGURATION).format(port=port, origin=origin_port, small=small_port, work=work)
    config, master_socket = os.path.join(work, "cfg"), os.path.join(work, "master")

    def write(text):
        with open(config, "w") as file:
            file.write(text)

    write(good)
    command = [program, "-c", config, "-p", work] if nginx else [program, "-W", "-f", config, "-S", master_socket]
    log = open(os.path.join(work, "log"), "w")
    master = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    loads = []
    try:
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        loads = [Paced(paced, port), Load(port, options.others)]
        time.sleep(options.quiet)
        began = time.monotonic()
        done, before, most = {"good": 0, "broken": 0, "killed": 0}, None, 0
        took = []
        for number in range(options.reloads):
            if number == 10:
                before = figures(master.pid)
            kind = {3: "broken", 4: "killed"}.get(number % 5, "good")
            if kind == "killed" and not name.startswith("weir"):
                kind = "broken"
            at = time.monotonic()
            write(good + {"good": "", "broken": "\nnonsense here\n", "killed": LONG}[kind])
            if nginx:
                master.send_signal(signal.SIGHUP)
                done[kind] += 1
            elif kind == "killed":
                known = set(children(master.pid))
                os.kill(master.pid, signal.SIGUSR2)
                while not (fresh := set(children(master.pid)) - known) and time.monotonic() - at < 0.3:
                    time.sleep(0.0002)
                for pid in fresh:
                    os.kill(pid, signal.SIGKILL)
                done[kind] += bool(fresh)
            else:
                answer = ask(master_socket, "reload")
                took.append(time.monotonic() - at)
                if not answer.startswith("Success="):
                    # HAProxy 2.6 does not report the result.
                    failed = re.search(r"failed: (\d+)", ask(master_socket, "show proc"))
                    answer = f"Success={int(bool(failed) and failed.group(1) == '0')}"
                done[kind] += answer.startswith("Success=1") if kind == "good" else answer.startswith("Success=0")
            if master.poll() is not None:
                print(f"{name}: the master ended at reload {number} ({kind})")
                break
            most = max(most, len(children(master.pid)))
            time.sleep(max(0.0, began + (number + 1) * options.seconds / options.reloads - time.monotonic()))
        after = figures(master.pid) if master.poll() is None else (0, 0)
        finish = time.monotonic()
        for load in loads:
            load.end()
        counts = {kind: count for load in loads for kind, count in load.counts().items()}
        result = {"reloads": done, "took_ms": percentile(took, 0.5), "workers": most, "master": (before, after), "clients": {}}
        print(f"{name}: {done['good']} reloads, {done['broken']} of broken configurations, {done['killed']} of killed workers; "
              f"median {result['took_ms']:.0f} ms; at most {most} workers; master {before} -> {after} (kB, descriptors)")
        for kind, (requests, failed, torn, why, times) in counts.items():
            quiet = [took for at, took in times if at < began]
            under = [took for at, took in times if began <= at < finish]
            line = f"  {kind:9s} {requests:7d} done, {failed} failed, {torn} torn"
            if kind == "busy":
                line += (f"; p50 {percentile(quiet, .5):.2f} -> {percentile(under, .5):.2f}, p99 {percentile(quiet, .99):.2f}"
                         f" -> {percentile(under, .99):.2f}, worst {percentile(quiet, 1):.1f} -> {percentile(under, 1):.1f} ms")
                result["p99_ms"] = (percentile(quiet, .99), percentile(under, .99))
            print(line + (f"  {why}" if why else ""), flush=True)
            result["clients"][kind] = (requests, failed, torn)
        return result
    finally:
        for load in loads:
            load.abandon()
        for pid in children(master.pid):
            os.kill(pid, signal.SIGKILL)
        master.kill()
        master.wait()
        shutil.rmtree(work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-p", action="append", required=True, metavar="NAME=PROGRAM")
    parser.add_argument("-r", "--reloads", type=int, default=200)
    parser.add_argument("-s", "--seconds", type=float, default=120)
    parser.add_argument("-q", "--quiet", type=float, default=15, help="seconds without reloads before")
    parser.add_argument("--others", default=OTHERS, type=lambda text: [kind for kind in text.split(",") if kind],
                        metavar="KIND,...", help="the clients beside the busy ones")
    parser.add_argument("--alone", action="store_true", help="take precedence over whatever else uses the machine")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    if options.alone:
        take_precedence()
    small, port = free_port(), free_port()
    server = multiprocessing.Process(target=origin, args=(port,), daemon=True)
    server.start()
    folder = tempfile.mkdtemp(prefix="reload.")
    built = build(folder, ["../origin.c", "../paced.c"])
    quick = subprocess.Popen([built["origin"], str(small)], stdout=subprocess.DEVNULL)
    results = {}
    for side in options.p:
        name, _, program = side.partition("=")
        results[name] = measure(name, os.path.abspath(shutil.which(program) or program), options, built["paced"], port, small)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)
    server.terminate()
    quick.terminate()
    quick.wait()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
