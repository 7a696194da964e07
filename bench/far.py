#!/usr/bin/env python3
"""How long bodies over HTTP/2 take between peers that are far from each other, one program beside the other.

  far.py [--ms 20,100] [--mb 1,4,16] [--rounds 3] NAME=PROGRAM [NAME=PROGRAM...]

A relay of this program's delays each direction by half of the round trip. Rows: `up`, an upload of a new client; `more`, the next one on its
connection; `down`, a download through a new connection to a server; `again`, one through a connection that had a large body before. A figure
is seconds, the rounds' median, beside it in round trips; the last column is the first program over each other one.
"""
import argparse
import os
import socket
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests"))
from http2 import far_peers
from lib.program import free_port, wait_until

ROWS = "up", "more", "down", "again"


def times(binary, folder, body, origin):
    """Seconds of each row, of a process of its own."""
    door, near = free_port(), free_port()
    configuration = os.path.join(folder, "far.cfg")
    with open(configuration, "w") as file:
        text = far_peers.CONFIGURATION.replace("defaults\n", "defaults\n    http-reuse always\n")
        file.write(text.format(door=door, near=near, relay_to_door=far_peers.relay(door), origin=origin))
    program = subprocess.Popen([binary, "-db", "-f", configuration], stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: not socket.socket().connect_ex(("127.0.0.1", door)))
        _, upload = far_peers.fetched("--http2-prior-knowledge", "-T", body, f"http://127.0.0.1:{far_peers.relay(door)}/")
        return [upload, next_upload(folder, body, far_peers.relay(door)), *(far_peers.fetched(f"http://127.0.0.1:{near}/")[1] for _ in range(2))]
    finally:
        program.terminate()
        program.wait()


def next_upload(folder, body, port):
    """Seconds of the second upload on a connection, by h2load: curl 7.88 makes none."""
    log = os.path.join(folder, "log")
    subprocess.run(["h2load", "-n2", "-c1", "-m1", f"--data={body}", f"--log-file={log}", f"http://127.0.0.1:{port}/"], check=True, capture_output=True)
    with open(log) as file:
        (_, first, _), (_, second, microseconds) = (line.split() for line in file)
    os.remove(log)
    assert first == second == "200", (first, second)
    return int(microseconds) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="+", metavar="NAME=PROGRAM")
    parser.add_argument("--ms", default="20,100", help="round trips in milliseconds")
    parser.add_argument("--mb", default="1,4,16", help="sizes in MB")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    programs = dict(program.split("=", 1) for program in options.programs)
    origin = far_peers.origin()
    with tempfile.TemporaryDirectory(prefix="far.") as folder:
        for megabytes in map(int, options.mb.split(",")):
            far_peers.BODY = os.urandom(1 << 20) * megabytes
            body = os.path.join(folder, "body")
            with open(body, "wb") as file:
                file.write(far_peers.BODY)
            for milliseconds in map(int, options.ms.split(",")):
                far_peers.ONE_WAY_S = milliseconds / 2000
                rounds = [{name: times(binary, folder, body, origin) for name, binary in programs.items()} for _ in range(options.rounds)]
                for at, row in enumerate(ROWS):
                    took = {name: statistics.median(one[name][at] for one in rounds) for name in programs}
                    first, *others = took.values()
                    figures = "  ".join(f"{name} {seconds:6.3f} ({seconds * 1000 / milliseconds:4.1f})" for name, seconds in took.items())
                    ratios = ", ".join(f"{first / other:.2f}" for other in others)
                    print(f"{row:6} {megabytes:3} MB {milliseconds:4} ms  {figures}  {ratios}", flush=True)


if __name__ == "__main__":
    main()
