#!/usr/bin/env python3
"""How the cost of rules, patterns and cookies grows, beside HAProxy: `bench/growth/rules.py [row...]`.

Rows are chosen by the beginning of their names. `ROUNDS` and `BINARY` are read from the environment. Requests are pipelined on one connection,
so a figure is close to the cost of the rules alone. The last row is in MB of memory.
"""
import itertools
import os
import subprocess
import socket
import sys

import measure
from measure import Proxy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import sides

HEAD = measure.HEAD + "    option http-ignore-probes\n"
FRONT = """frontend all
    bind 127.0.0.1:{port}
"""
ANSWER = "    http-request return status 200 content-type text/plain string ok\n"
BATCH, BATCHES = 50, 20
numbers = itertools.count(10_000_000)


class Client:
    """One connection that sends requests in batches."""

    def __init__(self, proxy, head, body=2):
        self.head, self.body = head, body
        self.connection = socket.create_connection(("127.0.0.1", proxy.port))
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection.settimeout(60)

    def batch(self):
        requests = "".join(self.head.replace("NUMBER", str(next(numbers))) for _ in range(BATCH))
        self.connection.sendall(requests.encode())
        answers = b""
        while answers.count(b"\r\n\r\n") < BATCH or len(answers.rpartition(b"\r\n\r\n")[2]) < self.body:
            part = self.connection.recv(1 << 20)
            assert part and b"HTTP/1.1 4" not in part, "a request failed"
            answers += part

    def cost_us(self, proxy):
        """The cost of one request."""
        return proxy.cost_us(lambda: [self.batch() for _ in range(BATCHES)]) / (BATCH * BATCHES)


def requests(rules, path="/static/app.js", host="www.example.com"):
    """The cost of a request that passes so many rules. A path with NUMBER never repeats."""

    def begin(binary, size):
        proxy = Proxy(binary, HEAD + FRONT + rules(size))
        client = Client(proxy, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")
        client.batch()
        return proxy, lambda: client.cost_us(proxy)

    return begin


def each(line):
    """A rule for each number. No rule applies."""
    return lambda size: "".join(line.format(at=at, high=at >> 8, low=at & 255) for at in range(size)) + ANSWER


def map_reg(size):
    path = os.path.join(measure.WORK, f"{size}.map")
    with open(path, "w") as file:
        file.writelines(f"^/site{at}/[a-z]+$ value{at}\n" for at in range(size))
    return f"    http-request deny if {{{{ path,map_reg({path}) -m found }}}}\n" + ANSWER


ORIGIN = []


def cookies(binary, size):
    """The cost of a request with so many cookies before the one of its server."""
    ORIGIN[:] = ORIGIN or [sides.Origin()]
    listen = f"""listen all
    bind 127.0.0.1:{{port}}
    cookie SRV insert indirect nocache
    server s1 127.0.0.1:{ORIGIN[0].port} cookie s1
"""
    proxy = Proxy(binary, HEAD + listen)
    line = "; ".join([f"name{at}=value{at}" for at in range(size)] + ["SRV=s1"])
    client = Client(proxy, f"GET /64 HTTP/1.1\r\nHost: x\r\nCookie: {line}\r\n\r\n", 64)
    client.batch()
    return proxy, lambda: client.cost_us(proxy)


class Check:
    """Reads a configuration in a process that ends."""

    def __init__(self, binary, configuration):
        self.path = os.path.join(measure.WORK, f"check.{next(numbers)}.cfg")
        with open(self.path, "w") as file:
            file.write(configuration)
        self.binary = binary

    def stop(self):
        os.unlink(self.path)

    def memory_mb(self):
        run = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL); "
        show = "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
        command = [sys.executable, "-c", run + show, self.binary, "-c", "-q", "-f", self.path]
        return int(subprocess.run(command, capture_output=True, check=True).stdout) / 1024


def checked(binary, size):
    rules = "".join(f"    use_backend be if {{ path_beg /p{at} }} {{ hdr(host) h{at}.example }}\n" for at in range(size))
    check = Check(binary, HEAD.format(socket=measure.WORK + "/check") + FRONT.format(port=1) + rules + "backend be\n    server s 127.0.0.1:2\n")
    return check, check.memory_mb


SIZES = (10, 100, 1_000)
ROWS = [
    ("path_reg rules, one path", SIZES, requests(each("    http-request deny if {{{{ path_reg ^/r{at}/[a-z]+$ }}}}\n"))),
    ("path_reg rules, new paths", SIZES, requests(each("    http-request deny if {{{{ path_reg ^/r{at}/[a-z]+$ }}}}\n"), "/s/NUMBER/app.js")),
    ("path_reg without text, one path", SIZES, requests(each("    http-request deny if {{{{ path_reg ^/[a-z]+/(?:{at}|x)$ }}}}\n"))),
    ("path_reg without text, new paths", SIZES,
     requests(each("    http-request deny if {{{{ path_reg ^/[a-z]+/(?:{at}|x)$ }}}}\n"), "/s/NUMBER/app.js")),
    ("path_reg -i anywhere, new paths", SIZES, requests(each("    http-request deny if {{{{ path_reg -i foo{at}bar }}}}\n"), "/s/NUMBER/app.js")),
    ("map_reg, one path", SIZES, requests(map_reg)),
    ("map_reg, new paths", SIZES, requests(map_reg, "/s/NUMBER/app.js")),
    ("src rules", SIZES, requests(each("    http-request deny if {{{{ src 10.{high}.{low}.0/24 }}}}\n"))),
    ("named ACLs of hdr(host)", (100, 1_000, 10_000),
     requests(each("    acl a{at} hdr(host) -i h{at}.example.com\n    http-request deny if a{at}\n"))),
    ("cookies of a request", (1, 100, 300), cookies),
    ("-c use_backend of two ACLs, MB", (5_000, 50_000), checked),
]


def main():
    binary = os.environ.get("BINARY", measure.OWN)
    programs = {"weir": binary, "HAProxy 3.2": measure.REFERENCE}
    chosen = [row for row in ROWS if not sys.argv[1:] or row[0].startswith(tuple(sys.argv[1:]))]
    measure.table(chosen, programs, int(os.environ.get("ROUNDS", "5")))


if __name__ == "__main__":
    main()
