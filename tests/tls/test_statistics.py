"""The `ssl` part of statistics: `show stat`, `show info`, Prometheus."""
import os
import re
import shutil
import socket
import ssl

from lib.program import ask, free_port, wait_until
from lib.tls import Authority, World, ask_over, connect, openssl

FIELDS = ("ssl_sess", "ssl_reused_sess", "ssl_failed_handshake", "ssl_ocsp_staple", "ssl_failed_ocsp_staple")
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def shown(stats):
    """By proxy and object: full handshakes, resumed sessions, failures, and both counts of OCSP responses."""
    found = {}
    for line in ask(stats, "show stat typed").splitlines():
        if match := re.match(r"[FBSL]\.(\d+)\.(\d+)\.\d+\.(\w+)\.1:\w+:\w+:(.*)", line):
            found.setdefault(match.group(1, 2), {})[match[3]] = match[4]
    return {f"{row['pxname']}/{row['svname']}": tuple(int(row.get(field, -1)) for field in FIELDS) for row in found.values()}


def test_tls_sessions_are_counted_by_listener_frontend_server_and_backend(binary, folder):
    """Client sessions on the frontend and its listener, server sessions on the server and its backend; `clear counters all` resets them."""
    authority = Authority(folder)
    site, second, stats = authority.issue("one.example"), free_port(), os.path.join(folder.path, "stats")
    sections = (f"frontend f\n    bind 127.0.0.1:@port@ ssl crt {site} name l ssl-min-ver TLSv1.2\n    option socket-stats\n    default_backend b\n"
                f"    http-request use-service prometheus-exporter if {{ path /metrics }}\n"
                f"backend b\n    http-reuse never\n    server s 127.0.0.1:{second} ssl ca-file {authority.certificate} sni str(one.example)\n"
                f"    server wrong 127.0.0.1:{second} ssl ca-file {authority.certificate} sni str(two.example) weight 0\n"
                f"    server clear 127.0.0.1:{second} weight 0\n"
                f"frontend g\n    bind 127.0.0.1:{second} ssl crt {site}\n    http-request return status 200")
    with World(binary, folder, sections, extra=f"stats socket {stats} level admin", defaults="timeout client-hs 300ms\n    retries 0") as world:
        # The probe whether it listens breaks its handshake off, like a client that closes without a byte.
        ask(stats, "clear counters all")
        session = folder.path + "/session"
        client = ["s_client", "-quiet", "-tls1_3", "-connect", f"127.0.0.1:{world.port}"]
        for more in (["-sess_out", session], ["-sess_in", session], ["-sess_in", session]):
            assert "HTTP/1.1 200" in openssl(*client, *more, stdin=REQUEST)
        found = shown(stats)
        assert found["f/FRONTEND"] == found["f/l"] == (1, 2, 0, 0, 0), found
        # The first connection to a server is a full handshake, the others resume its session.
        assert found["b/s"] == found["b/BACKEND"] == (1, 2, 0, 0, 0) and found["b/wrong"] == found["b/clear"] == (0, 0, 0, 0, 0), found
        assert found["g/FRONTEND"] == (1, 2, 0, 0, 0), found
        info = dict(line.split(": ", 1) for line in ask(stats, "show info").splitlines() if ": " in line)
        assert int(info["SslBackendMaxKeyRate"]) == 1 and int(info["SslFrontendMaxKeyRate"]) >= 2, info
        assert int(info["SslBackendKeyRate"]) <= 1 and 0 <= int(info["SslFrontendSessionReuse_pct"]) <= 100, info
        # A client of another protocol, one that leaves, and one that is silent for too long, which does not count as a
        # failed handshake.
        with socket.create_connection(("127.0.0.1", world.port)) as other:
            other.sendall(b"nothing of the kind\r\n")
            assert len(other.recv(100)) in (0, 7)
        socket.create_connection(("127.0.0.1", world.port)).close()
        with socket.create_connection(("127.0.0.1", world.port)) as silent:
            silent.settimeout(5)
            assert silent.recv(1) == b""
        assert wait_until(lambda: shown(stats)["f/FRONTEND"] == (1, 2, 2, 0, 0)), shown(stats)
        assert shown(stats)["f/l"] == (1, 2, 2, 0, 0)
        # A server with another server's certificate, and one without TLS.
        for name, weights in (("wrong", (0, 1)), ("clear", (0, 0))):
            ask(stats, f"set weight b/s {weights[0]}; set weight b/wrong {weights[1]}; set weight b/clear {int(name == 'clear')}")
            ask_over(connect(world.port), REQUEST)
        found = shown(stats)
        assert found["b/wrong"] == (0, 0, 1, 0, 0) and found["b/clear"] == (0, 0, 0, 0, 0) and found["b/BACKEND"] == (1, 2, 1, 0, 0), found
        assert found["g/FRONTEND"][2] == 2, found
        scrape = b"GET /metrics?%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        assert b"_ssl_reused_sess" not in ask_over(connect(world.port), scrape % b"")
        said = ask_over(connect(world.port), scrape % b"extra-counters").decode()
        for metric in ('haproxy_frontend_ssl_reused_sess{proxy="f",mod="ssl"} 2', 'haproxy_listener_ssl_reused_sess{proxy="f",listener="l",mod="ssl"} 2',
                       'haproxy_backend_ssl_failed_handshake{proxy="b",mod="ssl"} 1', 'haproxy_server_ssl_failed_handshake{proxy="b",server="wrong",mod="ssl"} 1',
                       'haproxy_server_ssl_sess{proxy="b",server="s",mod="ssl"} 1'):
            assert f"\n{metric}\n" in said, (metric, [line for line in said.splitlines() if "_ssl_" in line])
        ask(stats, "clear counters all")
        assert shown(stats)["f/FRONTEND"] == shown(stats)["b/s"] == (0, 0, 0, 0, 0)


def test_stapled_ocsp_responses_are_counted(binary, folder):
    """One for each client that requests stapling and gets the certificate; expired responses count separately. A client
    without the request does not count."""
    authority, stats = Authority(folder), os.path.join(folder.path, "stats")
    site = authority.issue("one.example")
    index, request = folder.file("index", ""), os.path.join(folder.path, "request")
    serial = openssl("x509", "-in", site, "-noout", "-serial").split("=")[1].strip()
    with open(index, "w") as out:
        out.write(f"V\t{'3' * 12}Z\t\t{serial}\tunknown\t/O=tests/CN=one.example\n")
    openssl("ocsp", "-issuer", authority.certificate, "-cert", site, "-no_nonce", "-reqout", request)
    openssl("ocsp", "-index", index, "-CA", authority.certificate, "-rsigner", authority.certificate, "-rkey", authority.key,
            "-reqin", request, "-respout", site + ".ocsp", "-ndays", "1")
    shutil.copy(authority.certificate, site + ".issuer")
    sections = f"frontend f\n    bind 127.0.0.1:@port@ ssl crt {site} name l\n    option socket-stats\n    http-request return status 200"
    with World(binary, folder, sections, extra=f"stats socket {stats} level admin") as world:
        ask(stats, "clear counters all")
        for version in ("-tls1_2", "-tls1_3"):
            said = openssl("s_client", "-connect", f"127.0.0.1:{world.port}", version, "-status")
            assert "OCSP Response Status: successful" in said, said
        ask_over(connect(world.port, version=ssl.TLSVersion.TLSv1_2), REQUEST)
        found = shown(stats)
        assert found["f/FRONTEND"] == found["f/l"] == (3, 0, 0, 2, 0), found
