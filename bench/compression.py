#!/usr/bin/env python3
"""CPU and size of compressed responses, beside HAProxy's stateless encoder and nginx's zlib: `bench/compression.py [rounds]`.

The response is 64 kB of text from our manual, over connections that stay open. The figures are CPU time of the proxy for one response, of
which forwarding alone is the first row, and bytes of its body. Rounds are interleaved, and the table shows medians.
"""
import os
import socket
import statistics
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "growth"))
import measure
from measure import OWN, REFERENCE, ROOT, WORK, Proxy, free_port

REQUESTS = 200
CONFIGURATION = measure.HEAD.replace("global\n", "global\n    @level@\n") + """listen all
    bind 127.0.0.1:{port}
    @words@
    server s 127.0.0.1:@origin@
"""
NGINX = """
worker_processes 1;
daemon off;
pid {work}/nginx.pid;
error_log /dev/null;
events {{ worker_connections 64; }}
http {{
    access_log off;
    keepalive_requests 1000000;
    client_body_temp_path {work}; proxy_temp_path {work}; fastcgi_temp_path {work}; uwsgi_temp_path {work}; scgi_temp_path {work};
    gzip {gzip}; gzip_comp_level {level}; gzip_proxied any; gzip_types text/plain; gzip_min_length 0;
    upstream origin {{ server 127.0.0.1:{origin}; keepalive 8; }}
    server {{
        listen 127.0.0.1:{port};
        location / {{ proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; }}
    }}
}}
"""
# Row: program, words of `compression`, level.
ROWS = [
    ("weir, not compressed", OWN, "", 1),
    ("weir, gzip 1", OWN, "compression algo gzip", 1),
    ("weir, gzip 2", OWN, "compression algo gzip", 2),
    ("weir, gzip 5", OWN, "compression algo gzip", 5),
    ("weir, zstd 1", OWN, "compression algo zstd", 1),
    ("weir, br 1", OWN, "compression algo br", 1),
    ("HAProxy, not compressed", REFERENCE, "", 1),
    ("HAProxy, gzip", REFERENCE, "compression algo gzip", 1),
    ("nginx, not compressed", "nginx", "off", 1),
    ("nginx, gzip 1", "nginx", "on", 1),
    ("nginx, gzip 6", "nginx", "on", 6),
]


def page():
    with open(os.path.join(ROOT, "doc/manual/src/reference/proxies.md"), "rb") as file:
        return file.read(64 * 1024)


def serve(listener, answer):
    """Answers each request of each connection."""
    def one(connection):
        held = b""
        while part := connection.recv(65536):
            held += part
            while b"\r\n\r\n" in held:
                held = held.split(b"\r\n\r\n", 1)[1]
                connection.sendall(answer)
    while True:
        threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()


class Nginx(Proxy):
    def __init__(self, gzip, level, origin):
        # Another program may take the port first.
        while not self.starts(gzip, level, origin):
            pass
        measure.atexit.register(self.stop)
        children = open(f"/proc/{self.program.pid}/task/{self.program.pid}/children").read().split()
        self.worker = int(children[0])

    def starts(self, gzip, level, origin):
        self.port = free_port()
        path = os.path.join(WORK, f"{self.port}.conf")
        with open(path, "w") as file:
            file.write(NGINX.format(work=WORK, gzip=gzip, level=level, origin=origin, port=self.port))
        self.program = subprocess.Popen(["nginx", "-c", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.program.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return True
            except OSError:
                measure.time.sleep(0.05)
        return False

    def cpu_us(self):
        return int(open(f"/proc/{self.worker}/schedstat").read().split()[0]) / 1e3

    def stop(self):
        self.program.terminate()
        self.program.wait()


def received(connection):
    part = connection.recv(1 << 20)
    assert part, "the connection was closed"
    return part


def body_size(connection):
    """The size of the next response's body, without the framing of chunks."""
    held = b""
    while b"\r\n\r\n" not in held:
        held += received(connection)
    head, held = held.split(b"\r\n\r\n", 1)
    head = head.lower()
    if b"content-length: " in head:
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(held) < length:
            held += received(connection)
        return length
    size = 0
    while True:
        while b"\r\n" not in held:
            held += received(connection)
        line, held = held.split(b"\r\n", 1)
        count = int(line, 16)
        while len(held) < count + 2:
            held += received(connection)
        held, size = held[count + 2:], size + count
        if not count:
            return size


def main(rounds):
    body = page()
    listener = socket.create_server(("127.0.0.1", 0))
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    threading.Thread(target=serve, args=(listener, head + body), daemon=True).start()
    origin = listener.getsockname()[1]
    sides = []
    for name, program, words, level in ROWS:
        if program == "nginx":
            side = Nginx(words, level, origin)
        else:
            text = CONFIGURATION.replace("@level@", f"tune.comp.maxlevel {level}").replace("@words@", words).replace("@origin@", str(origin))
            side = Proxy(program, text)
        coding = next((coding for coding in ("zstd", "br") if coding in words), "gzip")
        connection = socket.create_connection(("127.0.0.1", side.port))
        request = f"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}\r\n\r\n".encode()
        sides.append((name, side, connection, request, []))
    for _ in range(rounds):
        for _, side, connection, request, found in sides:
            before = side.cpu_us()
            for _ in range(REQUESTS):
                connection.sendall(request)
                size = body_size(connection)
            found.append(((side.cpu_us() - before) / REQUESTS, size))
    print("| encoder | us | bytes |\n|---|---|---|")
    for name, _, _, _, found in sides:
        print(f"| {name} | {statistics.median(cost for cost, _ in found):.0f} | {found[0][1]:,} |")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
