"""HTTP/2 towards servers over TLS: ALPN with nginx, and WebSocket both ways through HAProxy."""
import os
import random
import socket
import ssl
import struct
import subprocess

from lib.http2 import ACK, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PING, PREFACE, RESET, SETTINGS, WINDOW, FramePeer, field, frame
from lib.needs import installed
from lib.origin import Request, Server, read_head, switching
from lib.program import Program, free_port
from lib.tls import Authority, World, connect

NGINX, HAPROXY = os.environ.get("NGINX", "nginx"), os.environ.get("HAPROXY", "haproxy")

NGINX_FILE = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 512; }}
http {{
    access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; client_max_body_size 10m;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    ssl_certificate {site}; ssl_certificate_key {site};
    add_header version $server_protocol; add_header connection-number $connection; add_header sni $ssl_server_name;
    proxy_hide_header version; proxy_hide_header connection-number; proxy_hide_header sni;
    server {{ listen 127.0.0.1:{two} ssl http2; location / {{ root {folder}; }} location /put {{ proxy_pass https://127.0.0.1:{one}/said; }} }}
    server {{ listen 127.0.0.1:{one} ssl; location / {{ root {folder}; }} location /put {{ proxy_pass https://127.0.0.1:{one}/said; }}
              location /said {{ return 200 "$content_length"; }} }}
}}
"""

HAPROXY_FILE = """
defaults
    mode http
    timeout connect 5s
    timeout client 20s
    timeout server 20s
listen gateway
    bind 127.0.0.1:{port} ssl crt {site} alpn h2,http/1.1
    http-request set-header version %[req.ver]
    server s 127.0.0.1:{server}
"""

BODY = random.Random(1).randbytes(3_000_000)
KEY = "dGhlIHNhbXBsZSBub25jZQ=="


class Browser(FramePeer):
    """An HTTP/2 client over TLS with handwritten frames. `room` is the send window: of the connection, of a stream."""

    def __init__(self, port, authority):
        context = ssl.create_default_context(cafile=authority.certificate)
        context.set_alpn_protocols(["h2"])
        super().__init__(context.wrap_socket(socket.create_connection(("127.0.0.1", port), 10), server_hostname="one.example"))
        assert self.connection.selected_alpn_protocol() == "h2"
        self.room, self.allowed, self.first = {0: 65535}, set(), 65535
        self.send(PREFACE)
        self.settings()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def step(self):
        """The next frame, after updating the send windows."""
        kind, flags, stream, payload = self.next_frame()
        if kind == SETTINGS and not flags & ACK:
            values = dict(struct.iter_unpack(">HI", payload))
            self.allowed |= values.items()
            self.first = values.get(4, self.first)
        if kind == WINDOW:
            self.room[stream] = self.room.get(stream, self.first) + int.from_bytes(payload, "big")
        if kind == DATA and payload:
            given = struct.pack(">I", len(payload))
            self.send(frame(WINDOW, payload=given) + (b"" if flags & END_STREAM else frame(WINDOW, 0, stream, given)))
        return kind, flags, stream, payload

    def ask(self, stream, fields, end=True):
        """Opens a stream."""
        self.send(frame(HEADERS, END_HEADERS | (END_STREAM if end else 0), stream, b"".join(field(name, value) for name, value in fields)))

    def head(self, stream):
        """The encoded head of a stream's response, and whether it ends the stream."""
        while True:
            kind, flags, number, payload = self.step()
            assert kind not in (RESET, GOAWAY), (kind, payload)
            if kind == HEADERS and number == stream:
                return payload, bool(flags & END_STREAM)

    def exchange(self, stream, data):
        """Sends payload as the windows permit, without END_STREAM, and reads until the same amount is received."""
        said, back = 0, b""
        while len(back) < len(data):
            room = min(self.room[0], self.room.setdefault(stream, self.first), 16384, len(data) - said)
            if room > 0:
                self.send(frame(DATA, 0, stream, data[said:said + room]))
                said += room
                self.room[0] -= room
                self.room[stream] -= room
                continue
            kind, flags, number, payload = self.step()
            assert kind not in (RESET, GOAWAY) and not flags & END_STREAM or kind in (SETTINGS, PING), (kind, flags, payload)
            if kind == DATA and number == stream:
                back += payload
        return back


def speaks_websocket(connection):
    """A WebSocket server that handshakes and then echoes all bytes; its answer names the HTTP version of the request."""
    request = Request(*read_head(connection), connection=1)
    assert request.field("upgrade").lower() == "websocket", request
    connection.sendall(switching(request, f"Version: v{request.field('version')}\r\n"))
    while more := connection.recv(65536):
        connection.sendall(more)


def echoed(connection, data, ahead=48_000):
    """Sends bytes, at most `ahead` bytes more than echoed. Returns the echo."""
    back = b""
    for start in range(0, len(data), 16_000):
        connection.sendall(data[start:start + 16_000])
        while len(back) < min(start + 16_000 - ahead, len(data)):
            assert (more := connection.recv(65536)), len(back)
            back += more
    while len(back) < len(data) and (more := connection.recv(65536)):
        back += more
    return back


def curl(port, authority, *arguments, seconds=20):
    """curl's output from a listener with TLS."""
    done = subprocess.run(["curl", "-sS", "--cacert", authority.certificate, "--resolve", f"one.example:{port}:127.0.0.1", *arguments],
                          capture_output=True, timeout=seconds)
    assert done.returncode == 0, done
    return done.stdout


def test_alpn_selects_the_http_version_with_nginx(binary, folder):
    """`alpn h2,http/1.1` selects HTTP/2 with a server that offers it and HTTP/1.1 with others, for clients of both versions."""
    nginx_program = installed(NGINX)
    authority = Authority(folder)
    site = authority.issue("one.example")
    two, one = free_port(), free_port()
    with open(os.path.join(folder.path, "object"), "wb") as file:
        file.write(BODY)
    made = folder.file("nginx.conf", NGINX_FILE.format(folder=folder.path, site=site, two=two, one=one))
    words = f"ssl ca-file {authority.certificate} sni str(one.example)"
    cases = {"both": (two, "alpn h2,http/1.1", "2.0"), "only1": (two, "alpn http/1.1", "1.1"), "none": (two, "", "1.1"),
             "only2": (two, "alpn h2", "2.0"), "old": (one, "alpn h2,http/1.1", "1.1"), "forced": (two, "alpn h2 proto h2", "2.0")}
    sections = (f"frontend f\n    bind 127.0.0.1:@port@ ssl crt {site} alpn h2,http/1.1\n    use_backend %[req.hdr(to)]\n"
                '    log-format "%b %ST %tsc %[fc_http_major] %[bc_http_major]"\n')
    for name, (port, alpn, _) in cases.items():
        sections += f"backend {name}\n    http-reuse always\n    server s 127.0.0.1:{port} {words} {alpn}\n"
    with Program(nginx_program, "-c", made, "-e", f"{folder.path}/errors") as nginx, World(binary, folder, sections) as world:
        nginx.ready(two)
        url = f"https://one.example:{world.port}"
        for name, (_, _, version) in cases.items():
            for client, number in (("--http1.1", "1"), ("--http2", "2")):
                seen = (name, client)
                shown = ["-w", "\n%{http_code} %header{version} %{http_version} %header{sni} %header{connection-number}"]
                # Far more than any window.
                got = curl(world.port, authority, client, "-H", f"To: {name}", *shown, f"{url}/object")
                body, last = got[:len(BODY)], got[len(BODY):].decode().split()
                assert body == BODY, (seen, len(got), last)
                assert last[:2] == ["200", f"HTTP/{version}"] and last[2][0] == number and last[3] == "one.example", (seen, last)
                sent = folder.file("upload", "u" * 1_500_000)
                got = curl(world.port, authority, client, "-H", f"To: {name}", *shown, "--data-binary", f"@{sent}",
                           f"{url}/put").decode().split()
                # nginx reads the whole body before it queries another server for its size. The connection is the one of
                # the first request.
                assert got == ["1500000", *last], (seen, got, last)
                for _ in range(2):
                    assert world.log.line() == f"{name} 200 ---- {number} {version[0]}", seen


def test_websocket_passes_through_tls_on_both_sides(binary, folder):
    """Clients of HTTP/1 and 2, servers that offer both: `ws` selects the version (manual, `ws`), and bytes go both ways
    beyond any window."""
    haproxy = installed(HAPROXY)
    authority = Authority(folder)
    site = authority.issue("one.example")
    gateway, server = free_port(), Server(speaks_websocket)
    made = folder.file("gateway.cfg", HAPROXY_FILE.format(port=gateway, site=site, server=server.port))
    cases = {"auto": ("alpn h2,http/1.1", "1.1"), "asks1": ("alpn h2,http/1.1 ws h1", "1.1"), "asks2": ("alpn h2,http/1.1 ws h2", "2.0"),
             "only2": ("alpn h2", "2.0"), "says2": ("ws h2", "2.0"), "says1": ("alpn h2 ws h1", "1.1"), "plain": ("", "1.1")}
    sections = (f"frontend f\n    bind 127.0.0.1:@port@ ssl crt {site} alpn h2,http/1.1\n    use_backend %[path,field(2,/)]\n"
                '    timeout tunnel 10s\n    log-format "%b %ST %tsc %[fc_http_major] %[bc_http_major]"\n')
    for name, (words, _) in cases.items():
        sections += f"backend {name}\n    timeout tunnel 10s\n    server s 127.0.0.1:{gateway} ssl ca-file {authority.certificate} sni str(one.example) {words}\n"
    with Program(haproxy, "-f", made) as other, World(binary, folder, sections) as world:
        other.ready(gateway)
        for name, (_, version) in cases.items():
            with connect(world.port, authority) as client:
                client.sendall((f"GET /{name} HTTP/1.1\r\nHost: one.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n").encode())
                head, rest = read_head(client)
                head += b"\r\n"
                assert not rest and head.startswith(b"HTTP/1.1 101 "), (name, head)
                assert b"sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=" in head.lower(), (name, head)
                assert f"version: v{version}\r\n".encode() in head.lower(), (name, head)
                assert echoed(client, BODY[:400_000]) == BODY[:400_000], name
            assert (line := world.log.line()).startswith(f"{name} 101 ") and line.endswith(f" 1 {version[0]}"), line
            with Browser(world.port, authority) as client:
                while (8, 1) not in client.allowed:
                    client.step()
                client.ask(1, ((":method", "CONNECT"), (":protocol", "websocket"), (":scheme", "https"), (":path", f"/{name}"),
                               (":authority", "one.example"), ("sec-websocket-version", "13")), end=False)
                head, ended = client.head(1)
                # The status is an entry of the static table.
                assert head[:1] == b"\x88" and not ended and f"v{version}".encode() in head, (name, head)
                assert client.exchange(1, BODY[:400_000]) == BODY[:400_000], name
                client.send(frame(DATA, END_STREAM, 1))
                while (last := client.step())[0] not in (DATA, RESET) or not last[1] & END_STREAM:
                    pass
            assert (line := world.log.line()).startswith(f"{name} 101 ") and line.endswith(f" 2 {version[0]}"), line


def test_websocket_to_an_http2_server_without_extended_connect_gets_502(binary, folder):
    """nginx announces no extended CONNECT: 502, and the connection serves others."""
    nginx_program = installed(NGINX)
    authority = Authority(folder)
    site = authority.issue("one.example")
    two, one = free_port(), free_port()
    made = folder.file("nginx.conf", NGINX_FILE.format(folder=folder.path, site=site, two=two, one=one))
    sections = (f"listen f\n    bind 127.0.0.1:@port@ ssl crt {site} alpn h2,http/1.1\n    retries 0\n"
                f"    server s 127.0.0.1:{two} ssl ca-file {authority.certificate} sni str(one.example) alpn h2\n")
    with Program(nginx_program, "-c", made, "-e", f"{folder.path}/errors") as nginx, World(binary, folder, sections) as world:
        nginx.ready(two)
        upgrade = ("-H", "Connection: Upgrade", "-H", "Upgrade: websocket", "-H", f"Sec-WebSocket-Key: {KEY}", "-H", "Sec-WebSocket-Version: 13")
        for more, expected in ((upgrade, b"502"), (("-d", "x"), b"200"), (upgrade, b"502"), (("-d", "x"), b"200")):
            got = curl(world.port, authority, "--http1.1", *more, "-o", f"{folder.path}/out", "-w", "%{http_code}",
                       f"https://one.example:{world.port}/put")
            assert got == expected, (more, got)
