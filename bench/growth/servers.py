#!/usr/bin/env python3
"""How the cost of servers, idle connections and their display grows, beside HAProxy: `bench/growth/servers.py [row...]`.

Rows are chosen by the beginning of their names. `ROUNDS` and `BINARY` are read from the environment.
"""
import os
import select
import socket
import subprocess
import sys
import threading

import measure
from measure import Proxy

HEAD = """
global
    nbthread 1
    maxconn 9500
    stats socket {{socket}} mode 600 level admin
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
"""
FRONT = """
frontend page
    bind 127.0.0.1:{{port}}
    http-request use-service prometheus-exporter if {{{{ path /metrics }}}}
    stats enable
    stats uri /stats
"""


def configuration(size):
    servers = "".join(f"    server s{at} 127.{at >> 16 & 255}.{at >> 8 & 255}.{at & 255}:80 weight 10\n" for at in range(1, size + 1))
    return (HEAD + FRONT).format() + "backend be\n    balance roundrobin\n" + servers


def commands(line, count=200, before=None):
    """The cost of one of many commands to different servers. `{at}` is the server."""

    def begin(binary, size):
        proxy = Proxy(binary, configuration(size))
        last = [0]

        def lines(text):
            places = [1 + (last[0] + step * 7919) % size for step in range(count)]
            for start in range(0, count, 20):
                yield "; ".join(text.format(at=at, name=last[0] + start + step) for step, at in enumerate(places[start : start + 20]))

        def measured():
            for text in before or ():
                for commands in lines(text):
                    proxy.command(commands)
            todo = list(lines(line))
            cost = proxy.cost_us(lambda: [proxy.command(commands) for commands in todo]) / count
            last[0] += count
            return cost

        return proxy, measured

    return begin


def shown(command):
    """The cost of a dump for all servers, in us."""

    def begin(binary, size):
        proxy = Proxy(binary, configuration(size))
        return proxy, lambda: proxy.cost_us(lambda: proxy.command(command))

    return begin


def page(path):
    """The cost of a page for all servers, in us."""

    def begin(binary, size):
        proxy = Proxy(binary, configuration(size))
        return proxy, lambda: proxy.cost_us(lambda: proxy.get(path))

    return begin


def show_map(kind):
    """The cost of a map's dump, in us."""

    def begin(binary, size):
        path = os.path.join(measure.WORK, f"{kind}.map")
        with open(path, "w") as file:
            file.writelines(f"key{at:07} value{at}\n" for at in range(size))
        rule = f"    http-request set-header x %[path,map_{kind}({path})]\n"
        proxy = Proxy(binary, (HEAD + FRONT).format() + rule)
        return proxy, lambda: proxy.cost_us(lambda: proxy.command(f"show map {path}"))

    return begin


def show_certificate(binary, size):
    """The cost of showing one of many certificates, in us. All have the same key: only their paths differ."""
    folder = os.path.join(measure.WORK, f"certificates.{size}")
    if not os.path.isdir(folder):
        os.mkdir(folder)
        key, own = (os.path.join(measure.WORK, name) for name in ("key.pem", "own.pem"))
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=a.example"]
        subprocess.run(["openssl", "req", "-x509", *curve, "-keyout", key, "-out", own], check=True, stderr=subprocess.DEVNULL)
        text = open(own).read() + open(key).read()
        for at in range(size):
            with open(os.path.join(folder, f"{at:05}.pem"), "w") as file:
                file.write(text)
    front = f"frontend page\n    bind 127.0.0.1:{{port}} ssl crt {folder}\n    http-request return status 200\n"
    proxy = Proxy(binary, HEAD.format() + front)

    def measured():
        paths = [os.path.join(folder, f"{step * 7919 % size:05}.pem") for step in range(50)]
        return proxy.cost_us(lambda: [proxy.command(f"show ssl cert {path}") for path in paths]) / len(paths)

    return proxy, measured


class Origin(threading.Thread):
    """Four servers that answer every request at once."""

    def __init__(self):
        super().__init__(daemon=True)
        self.listeners = [socket.create_server(("127.0.0.1", 0), backlog=4096) for _ in range(4)]
        self.ports = [listener.getsockname()[1] for listener in self.listeners]
        self.start()

    def run(self):
        poller, open_ones = select.epoll(), {listener.fileno(): listener for listener in self.listeners}
        [poller.register(number, select.EPOLLIN) for number in open_ones]
        accepting = set(open_ones)
        while True:
            for number, _ in poller.poll():
                if number in accepting:
                    connection = open_ones[number].accept()[0]
                    open_ones[connection.fileno()] = connection
                    poller.register(connection.fileno(), select.EPOLLIN)
                    continue
                try:
                    if open_ones[number].recv(4096):
                        open_ones[number].send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                        continue
                except OSError:
                    pass
                poller.unregister(number)
                open_ones.pop(number).close()


def clients(binary, size):
    """The cost of a request where so many clients with keep-alive take turns: 500 at once."""
    origin = Origin()
    servers = "".join(f"    server s{at} 127.0.0.1:{port}\n" for at, port in enumerate(origin.ports))
    listen = "listen all\n    bind 127.0.0.1:{port}\n    http-reuse always\n" + servers
    proxy = Proxy(binary, HEAD.format() + listen)
    connections = [socket.create_connection(("127.0.0.1", proxy.port)) for _ in range(size)]

    def measured():
        def work():
            for start in range(0, size, 500):
                some = connections[start : start + 500]
                [connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") for connection in some]
                for connection in some:
                    assert connection.recv(1000).startswith(b"HTTP/1.1 200"), "a request failed"

        return proxy.cost_us(lambda: [work() for _ in range(2)]) / (2 * size)

    return proxy, measured


SIZES = (100, 1_000, 10_000)
ADDED = "add server be/new{name} 127.0.0.1:80"
ROWS = [
    ("set server addr", SIZES, commands("set server be/s{at} addr 127.9.9.9 port {at}")),
    ("set weight", SIZES, commands("set weight be/s{at} 7", before=("set weight be/s{at} 10",))),
    ("disable server", SIZES, commands("disable server be/s{at}", before=("enable server be/s{at}",))),
    ("enable server", SIZES, commands("enable server be/s{at}", before=("disable server be/s{at}",))),
    ("add server", SIZES, commands(ADDED)),
    ("del server", SIZES, commands("del server be/new{name}", before=(ADDED,))),
    ("clients", (1_000, 4_000), clients),
    ("/metrics", SIZES, page("/metrics")),
    ("statistics page", SIZES, page("/stats")),
    ("show stat", SIZES, shown("show stat")),
    ("show servers conn", SIZES, shown("show servers conn")),
    ("show servers state", SIZES, shown("show servers state")),
    ("show ssl cert FILE", SIZES, show_certificate),
    ("show map str", (100_000, 1_000_000), show_map("str")),
    ("show map beg", (100_000, 1_000_000), show_map("beg")),
]


def main():
    measure.allow_descriptors(30_000)
    wanted = sys.argv[1:]
    rows = [row for row in ROWS if not wanted or any(row[0].startswith(name) for name in wanted)]
    programs = {"weir": os.environ.get("BINARY", measure.OWN), "HAProxy 3.2": measure.REFERENCE}
    measure.table(rows, programs, int(os.environ.get("ROUNDS", "3")))


if __name__ == "__main__":
    main()
