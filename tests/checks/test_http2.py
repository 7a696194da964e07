"""HTTP/2 checks of real and of misbehaving servers; results match the reference program."""
import os

from checks.support import Scene, serving
from lib.http2 import PREFACE, frame
from lib.needs import installed
from lib.origin import Server
from lib.program import free_port, wait_until
from lib.tls import Authority

# Frames of a server: SETTINGS, their acknowledgement, and answers to stream 1.
SETTINGS, ACKNOWLEDGED = frame(4, 0, 0), frame(4, 1, 0)
OKAY = b"\x88"


def scripted(answer):
    """The port of a server that reads until a request is complete, sends `answer`, and closes when its client does."""
    def serve(connection):
        connection.settimeout(10)
        read = b""
        while len(read) < len(PREFACE) + 9 + 9:
            read += connection.recv(65536) or b"\0" * 99
        connection.sendall(answer)
        while connection.recv(65536):
            pass
    return Server(serve).port


# Name, the server's frames, and the result, which is the same in both programs unless noted.
SERVERS = [
    ("head", SETTINGS + frame(1, 5, 1, OKAY), ("UP", "L7OK", "200")),
    ("body", SETTINGS + ACKNOWLEDGED + frame(1, 4, 1, OKAY) + frame(0, 1, 1, b"hello"), ("UP", "L7OK", "200")),
    ("interim", SETTINGS + frame(1, 4, 1, b"\x08\x03103") + frame(1, 5, 1, OKAY), ("UP", "L7OK", "200")),
    ("pings", SETTINGS + frame(6, 0, 0, b"12345678") * 10 + frame(1, 5, 1, OKAY), ("UP", "L7OK", "200")),
    ("missing", SETTINGS + frame(1, 5, 1, b"\x8d"), ("DOWN", "L7STS", "404")),
    ("failing", SETTINGS + frame(1, 5, 1, b"\x8e"), ("DOWN", "L7STS", "500")),
    ("silent", SETTINGS, ("DOWN", "L7TOUT", "")),
    ("mute", b"", ("DOWN", "L7TOUT", "")),
]
# Servers with an error that is specific to their answer: down.
BROKEN = [
    ("http1", b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
    ("reset", SETTINGS + frame(3, 0, 1, b"\0\0\0\2")),
    ("leaving", SETTINGS + frame(7, 0, 0, b"\0" * 8)),
    ("malformed", SETTINGS + frame(1, 5, 1, b"\x00\x01a\x01b")),
    ("closing", None),
]


def sections(servers, option="option httpchk GET /health HTTP/1.1 test.example"):
    """A backend that checks servers, names with ports, by HTTP/2."""
    lines = "".join(f"    server {name} 127.0.0.1:{port} proto h2 check inter 200ms fall 1 rise 1\n" for name, port in servers)
    return f"\nbackend b\n    mode http\n    timeout check 1s\n    {option}\n{lines}"


def test_http2_checks_report_the_expected_status_for_each_answer(binary, folder):
    """Valid and invalid responses of servers: the status, the code and the message of the check."""
    servers = [(name, scripted(answer)) for name, answer, _ in SERVERS]
    broken = [(name, scripted(answer) if answer is not None else Server().port) for name, answer in BROKEN]
    with Scene(binary, folder, sections(servers + broken)) as scene:
        for (name, _, (status, found_status, code)) in SERVERS:
            scene.expect("b", name, status=status, check_status=found_status, check_code=code)
        for name, _ in broken:
            assert wait_until(lambda: scene.stat("b", name, "status") == ("DOWN",)), name
            said = scene.stat("b", name, "check_status")[0].lstrip("* ")
            assert said in ("SOCKERR", "L7RSP", "L7TOUT", "L4CON"), (name, said)


ORIGIN = """
global
    maxconn 100
defaults
    mode http
    timeout client 5s
    timeout server 5s
    timeout connect 5s
frontend f
    bind 127.0.0.1:{clear} proto h2
    bind 127.0.0.1:{secure} ssl crt {site} alpn h2,http/1.1
    http-request return status 404 if {{ path /none }}
    http-request return status 200 content-type text/plain lf-string "%HV %HM %[req.hdr(host)] %[req.hdr(x-own)] %[req.body] end"
"""


def test_http2_checks_of_haproxy_succeed(binary, folder):
    """In plaintext and over TLS, with the protocol from ALPN, from the server line or from rules; bodies both ways."""
    reference = installed(os.environ.get("HAPROXY", "haproxy"))
    authority = Authority(folder)
    clear, secure = free_port(), free_port()
    origin = folder.file("origin.cfg", ORIGIN.format(clear=clear, secure=secure, site=authority.issue("back.example")))
    text = "http-check send meth POST uri /x ver HTTP/1.1 hdr host back.example hdr x-own y body abc\n    http-check expect string "
    tls = f"ssl ca-file {authority.certificate} sni str(back.example)"
    rows = [
        ("clear", clear, "proto h2", '"HTTP/2.0 POST back.example y abc end"'),
        ("forced", clear, "check-proto h2", '"HTTP/2.0 POST back.example y abc end"'),
        ("agreed", secure, f"{tls} alpn h2,http/1.1", '"HTTP/2.0 POST back.example y abc end"'),
        ("own", secure, f"{tls} check-alpn h2", '"HTTP/2.0 POST back.example y abc end"'),
        ("other", secure, f"{tls} alpn h2 check-alpn http/1.1", '"HTTP/1.1 POST back.example y abc end"'),
    ]
    lines = "".join(
        f"\nbackend {name}\n    mode http\n    option httpchk\n    {text}{expected}\n    server s 127.0.0.1:{port} {words} check inter 200ms fall 1 rise 1\n" for name, port, words, expected in rows)
    lines += (f"\nbackend rule\n    mode http\n    option httpchk\n    http-check connect port {clear} proto h2\n    http-check send meth GET uri / ver HTTP/1.1\n"
              f"    http-check expect status 200\n    http-check connect port {secure} ssl alpn h2\n    http-check send meth GET uri /none ver HTTP/1.1\n"
              f"    http-check expect status 404\n    server s 127.0.0.1:1 ssl ca-file {authority.certificate} sni str(back.example) verifyhost back.example check inter 200ms fall 1 rise 1\n")
    with serving(clear, reference, "-db", "-f", origin), Scene(binary, folder, lines) as scene:
        for name, *_ in rows:
            scene.expect(name, "s", status="UP", check_status="L7OK", check_code="200")
        scene.expect("rule", "s", status="UP", check_status="L7OK", check_code="404")


def test_http2_checks_send_bodies_larger_than_the_window(binary, folder):
    """A request body larger than the server's window is sent as the server opens it."""
    size = 100_000

    def more_of(count):
        return b"".join(frame(8, 0, stream, max(count, 1).to_bytes(4, "big")) for stream in (0, 1))

    def serve(connection):
        connection.settimeout(10)
        read = connection.recv(65536)
        connection.sendall(SETTINGS + more_of(len(read)))
        while read.count(b"x") < size:
            more = connection.recv(65536)
            read += more
            connection.sendall(more_of(len(more)))
        connection.sendall(frame(1, 5, 1, OKAY))
        while connection.recv(65536):
            pass

    option = f"option httpchk\n    http-check send meth POST uri / ver HTTP/1.1 hdr host h body {'x' * size}"
    with Scene(binary, folder, sections([("s", Server(serve).port)], option)) as scene:
        scene.expect("b", "s", status="UP", check_status="L7OK", check_code="200")


def test_http2_checks_of_nginx_succeed(binary, folder):
    """In plaintext, with prior knowledge."""
    nginx = installed(os.environ.get("NGINX", "nginx"))
    port = free_port()
    text = f"""
daemon off;
master_process off;
error_log stderr;
pid {folder.path}/nginx.pid;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder.path}/a; proxy_temp_path {folder.path}/b; fastcgi_temp_path {folder.path}/c;
    uwsgi_temp_path {folder.path}/d; scgi_temp_path {folder.path}/e;
    server {{
        listen 127.0.0.1:{port} http2;
        location / {{ return 200 "$server_protocol $host"; }}
    }}
}}
"""
    option = ("option httpchk\n    http-check send meth GET uri / ver HTTP/1.1 hdr host n.example\n"
              "    http-check expect string \"HTTP/2.0 n.example\"")
    with serving(port, nginx, "-c", folder.file("nginx.conf", text)), Scene(binary, folder, sections([("s", port)], option)) as scene:
        scene.expect("b", "s", status="UP", check_status="L7OK", check_code="200")
        assert wait_until(lambda: int(scene.stat("b", "s", "chkfail")[0]) == 0)
