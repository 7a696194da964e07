"""TLS towards servers, beyond the traffic: health checks, names, PROXY headers, servers that are added, servers of logs."""
import http.client
import os
import socket
import ssl
import struct
import threading
import time

from lib.origin import Server
from lib.program import ask, free_port, wait_until
from lib.tls import ANSWER, Authority, SecureServer, World, backend, backwards, connect, get, refused


class Checked(SecureServer):
    """A server that records checks: the server name, the negotiated protocol, the first bytes."""

    def __init__(self, certificate):
        self.seen = set()
        super().__init__(certificate)
        self.context.set_alpn_protocols(["two", "one"])

    def serve(self, connection):
        said = connection.recv(4096)
        self.seen.add((connection.sni, connection.selected_alpn_protocol(), said.split(b"\r\n")[0].decode()))
        if said:
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
        # Answer the client's close_notify.
        connection.unwrap()


class Once(Server):
    """Waits for the client's first bytes, then answers and closes."""

    def __init__(self, answer):
        self.answer = answer
        super().__init__()

    def serve(self, connection):
        if connection.recv(4096):
            connection.sendall(self.answer)


def reset(connection):
    connection.recv(4096)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def verdicts(stats):
    """The last check of each server in `show stat`: state, status, message."""
    lines = ask(stats, "show stat").splitlines()
    names = lines[0][2:].split(",")
    rows = [dict(zip(names, line.split(","))) for line in lines[1:] if line]
    # A star marks a check in progress.
    return {f"{row['pxname']}/{row['svname']}": (row["status"].split()[0], row["check_status"].removeprefix("* "), row["last_chk"])
            for row in rows if row["svname"] not in ("FRONTEND", "BACKEND")}


def settled(stats, expected, seconds=8):
    """Waits until every check has the expected verdict; fails with the others."""
    wait_until(lambda: expected.items() <= verdicts(stats).items(), seconds)
    found = verdicts(stats)
    wrong = {name: (found.get(name), verdict) for name, verdict in expected.items() if found.get(name) != verdict}
    assert not wrong, wrong


def test_health_checks_over_tls_have_the_results_of_haproxy(binary, folder):
    """Statuses and messages are those of HAProxy 3.2 for the same servers."""
    authority, other = Authority(folder), Authority(folder, "other")
    good = Checked(authority.issue("back.example"))
    silent, resets = Server(lambda connection: time.sleep(20)), Server(reset)
    plain, closes, refuses = (Once(answer) for answer in (b"HTTP/1.0 400 no\r\n\r\n", b"", b"\x15\x03\x03\0\x02\x02\x28"))
    stats = os.path.join(folder.path, "stats")
    failed = ("DOWN", "L6RSP", "SSL handshake failure")
    well, clear = ("UP", "L6OK", ""), ("UP", "L4OK", "")
    expected_name = ("DOWN", "L6RSP", "Server presented an SSL certificate different from the expected one")
    configured_name = ("DOWN", "L6RSP", "Server presented an SSL certificate different from the configured one")
    cases = (
        ("ok", good, "", well), ("silent", silent, "", ("DOWN", "L6TOUT", "")), ("plain", plain, "", failed),
        ("closes", closes, "", failed), ("resets", resets, "", failed), ("refuses", refuses, "", failed),
        ("wronghost", good, "verifyhost two.example", configured_name), ("righthost", good, "verifyhost back.example", well),
        ("sni", good, "check-sni back.example verifyhost two.example", well),
        ("wrongsni", good, "check-sni two.example verifyhost back.example", expected_name),
        ("elsewhere", good, f"port {good.port}", clear), ("forced", good, f"port {good.port} check-ssl", well),
        ("never", good, "no-check-ssl", clear), ("untrusted", good, f"ca-file {other.certificate}", failed),
        ("alpn", good, "check-alpn one,three", well), ("ofserver", good, "alpn two", well),
    )
    lines = "\n".join(f"    server {name} 127.0.0.1:{server.port} {words}" for name, server, words, _ in cases)
    sections = f"""
frontend f
    bind 127.0.0.1:@port@
    {ANSWER.format("x")}
backend b
    timeout check 1s
    default-server check inter 500 fall 1 rise 1 ssl ca-file {authority.certificate}
{lines}
backend c
    server checked 127.0.0.1:{good.port} check inter 500 check-ssl verify none
    server clear 127.0.0.1:{good.port} check inter 500
backend h
    option httpchk GET /h HTTP/1.1
    http-check send hdr Host auto.example:81
    default-server check inter 500 ssl verify none
    server auto 127.0.0.1:{good.port}
    server noauto 127.0.0.1:{good.port} no-check-sni-auto
    server own 127.0.0.1:{good.port} check-sni own.example
backend t
    option tcp-check
    tcp-check connect ssl sni rule.example alpn one
    default-server check inter 500
    server ok 127.0.0.1:{good.port} verify none
    server plain 127.0.0.1:{plain.port} ssl verify none fall 1
backend u
    option tcp-check
    tcp-check connect
    server ok 127.0.0.1:{good.port} ssl verify none check inter 500
backend w
    option httpchk GET /w HTTP/1.1 auto.example
    http-check connect default
    server ok 127.0.0.1:{good.port} ssl verify none check inter 500
backend v
    option tcp-check
    tcp-check connect default
    tcp-check connect default sni other.example
    tcp-check send /v
    server ok 127.0.0.1:{good.port} ssl verify none check inter 500 check-sni server.example
"""
    with World(binary, folder, sections, extra=f"stats socket {stats} level admin"):
        expected = {f"b/{name}": verdict for name, _, __, verdict in cases}
        expected |= {"c/checked": well, "c/clear": clear, "t/ok": ("UP", "L6OK", "(tcp-check)"), "u/ok": ("UP", "L4OK", "(tcp-check)"),
                     "t/plain": ("DOWN", "L6RSP", "SSL handshake failure at step 1 of tcp-check (connect)"),
                     "v/ok": ("UP", "L7OK", "(tcp-check)"), "w/ok": ("UP", "L7OK", "")}
        expected |= {f"h/{name}": ("UP", "L7OK", "") for name in ("auto", "noauto", "own")}
        settled(stats, expected)
    for seen in ((None, None, ""), ("back.example", None, ""), (None, "one", ""), (None, "two", ""), ("rule.example", "one", ""),
                 ("auto.example", None, "GET /h HTTP/1.1"), (None, None, "GET /h HTTP/1.1"), ("own.example", None, "GET /h HTTP/1.1"),
                 ("server.example", None, ""), ("other.example", None, "/v"), (None, None, "GET /w HTTP/1.1")):
        assert seen in good.seen, (seen, good.seen)
    # Only checks without a rule choose a name by themselves (manual, "check-sni-auto").
    assert ("auto.example", None, "GET /w HTTP/1.1") not in good.seen, good.seen


def test_show_timeline_has_the_fault_of_a_tls_session_with_a_server(binary, folder):
    authority, other = Authority(folder), Authority(folder, "other")
    good = SecureServer(authority.issue("back.example"))
    plain, closes, refuses = (Once(answer) for answer in (b"HTTP/1.0 400 no\r\n\r\n", b"", b"\x15\x03\x03\0\x02\x02\x28"))
    trust = f"ca-file {authority.certificate} no-sni-auto"
    tls = "the TLS session with the server failed: "
    cases = {
        "untrusted": (good.port, f"ca-file {other.certificate} no-sni-auto", tls + "who issued the certificate is not trusted"),
        "wronghost": (good.port, f"{trust} verifyhost two.example", tls + "the certificate is for another name"),
        "plain": (plain.port, trust, tls + "the peer does not speak TLS"), "closes": (closes.port, trust, tls + "the peer went away"),
        "refuses": (refuses.port, trust, tls + "the peer refused (HandshakeFailure)"),
        "dead": (free_port(), trust, "the connection to the server failed: "),
    }
    stats = os.path.join(folder.path, "stats")
    sections = "frontend f\n    bind 127.0.0.1:@port@\n    use_backend %[path,word(1,/)]\n" + "".join(
        f"backend {name}\n    retries 0\n    server s 127.0.0.1:{port} ssl {words}\n" for name, (port, words, _) in cases.items())
    with World(binary, folder, sections, extra=f"stats socket {stats} level admin") as world:
        for name, (_, __, fault) in cases.items():
            assert get(world.port, f"/{name}")[0] == 503
            assert wait_until(lambda: ask(stats, f"show timeline proxy {name}").strip())
            lines = ask(stats, f"show timeline proxy {name}").strip().splitlines()
            assert lines[-2].strip().startswith(fault) and "end: the connection to the server failed" in lines[-1], lines


def test_unsupported_check_proto_values_are_refused(binary, folder):
    """`check-proto` and `proto` that do not fit the check, and unknown protocols."""
    for option, words, message in (
            ("", "check-proto h1", "uses an incompatible MUX protocol for the selected check type"),
            ("option httpchk", "check-proto none", "uses an incompatible MUX protocol for the selected check type"),
            ("", "check-proto what", "'check-proto' :  unknown MUX protocol 'what'"),
            ("", "check-proto h2", "uses an incompatible MUX protocol for the selected check type"),
            ("option httpchk", "check-proto quic", "'check-proto quic' is not implemented yet"),
            ("option httpchk\n    http-check connect proto none", "", "'proto' : invalid MUX protocol 'none' for http-check."),
            ("option tcp-check\n    tcp-check connect proto h1", "", "'proto' : invalid MUX protocol 'h1' for tcp-check."),
            ("option httpchk\n    http-check connect proto quic", "", "'http-check connect proto quic' is not implemented yet"),
            ("option httpchk\n    http-check connect alpn h3", "", "'alpn h3' is not implemented yet"),
            ("option tcp-check\n    tcp-check connect ssl", "", "no trust anchor"),
            ("", "check-ssl", "no trust anchor")):
        sections = f"backend b\n    {option}\n    server s 127.0.0.1:1 check {words}\n"
        said = refused(binary, folder, "", sections=sections)
        assert message in said, (option, words, said)


def test_the_sni_to_servers_follows_the_host_header(binary, folder):
    """Without `sni`, the host of the request is sent as SNI and verified; an address is not sent, and `no-sni-auto` sends no SNI."""
    authority = Authority(folder)
    server = SecureServer(authority.issue("*.back.example"))

    def status(port, host):
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        client.request("GET", "/", headers={"Host": host})
        response = client.getresponse()
        response.read()
        return response.status

    trusted = f"{server.port} ssl ca-file {authority.certificate}"
    for words, host, expected, asked in (("", "A.back.example:8443", 200, "a.back.example"), ("", "other.example", 503, "other.example"),
                                         ("", "10.0.0.1", 200, None), (" verifyhost nobody.example", "10.0.0.1", 503, None),
                                         (" no-sni-auto", "other.example", 200, None),
                                         (" sni str(b.back.example)", "other.example", 200, "b.back.example")):
        server.names.clear()
        with World(binary, folder, backend(trusted + words), defaults="retries 0") as world:
            assert status(world.port, host) == expected, (words, host)
        assert [name and name.lower() for name in server.names] == [asked], (words, host, server.names)


def test_close_notify_in_the_segment_of_the_last_data_ends_the_stream(binary, folder):
    """A `close_notify` in one segment with the data before it, and no FIN: it ends a body that lasts until close, and
    the client's data."""
    authority = Authority(folder)
    certificate = authority.issue("one.example")
    body = b"z" * 3000
    over = threading.Event()

    def last(engine, outgoing, raw, content):
        """Sends `content` and a `close_notify` in one segment."""
        engine.write(content)
        try:
            engine.unwrap()
        except ssl.SSLWantReadError:
            pass
        raw.sendall(outgoing.read())

    def shaken(raw, context, **side):
        """A session with records sent by hand."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        engine = context.wrap_bio(incoming, outgoing, **side)

        def until(step):
            while True:
                try:
                    return step()
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(65536))

        until(engine.do_handshake)
        raw.sendall(outgoing.read())
        return engine, outgoing, until

    def answer(raw):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        engine, outgoing, until = shaken(raw, context, server_side=True)
        until(lambda: engine.read(4096))
        last(engine, outgoing, raw, b"HTTP/1.1 200 OK\r\n\r\n" + body)
        # The socket stays open.
        over.wait(20)

    until_close = Server(answer)
    tcp, web = free_port(), free_port()
    sections = (f"{backend(f'{until_close.port} ssl ca-file {authority.certificate} sni str(one.example)')}\n"
                f"listen t\n    mode tcp\n    bind 127.0.0.1:{tcp} ssl crt {certificate}\n    server s 127.0.0.1:{Server(backwards).port}\n"
                f"frontend w\n    bind 127.0.0.1:{web} ssl crt {certificate}\n    {ANSWER.format('x')}\n")
    with World(binary, folder, sections) as world:
        begun = time.monotonic()
        assert get(world.port) == (200, body)
        assert time.monotonic() - begun < 2
        assert " ---- " in (line := world.log.line()), line
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for port, said, heard in ((tcp, b"abc", b"cba"), (web, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200")):
            with socket.create_connection(("127.0.0.1", port), 10) as raw:
                engine, outgoing, until = shaken(raw, context, server_hostname="one.example")
                last(engine, outgoing, raw, said)
                begun = time.monotonic()
                assert until(lambda: engine.read(4096)).startswith(heard), port
                while raw.recv(65536):
                    pass
                # The end was answered at once.
                assert time.monotonic() - begun < 2, port
    over.set()


def values_of(data):
    """The TLVs of a PROXY header of version 2, nested ones as lists."""
    found = []
    while data:
        kind, length = data[0], int.from_bytes(data[1:3], "big")
        value, data = data[3:3 + length], data[3 + length:]
        if kind == 0x20:
            value = (value[0], int.from_bytes(value[1:5], "big"), dict(values_of(value[5:])))
        found.append((kind, value))
    return found


def test_proxy_headers_have_the_tls_tlvs_of_haproxy(binary, folder):
    """TLVs 0x20 to 0x25, the application protocol and the authority, as HAProxy 3.2 writes them."""
    authority = Authority(folder)
    site, mine = authority.issue("one.example", kind="rsa"), authority.issue("me.example")
    headers = []

    def read(connection):
        said = connection.recv(65536)
        assert said.startswith(b"\r\n\r\n\0\r\nQUIT\n\x21\x11"), said
        headers.append(dict(values_of(said[28:16 + int.from_bytes(said[14:16], "big")])))
        connection.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n")

    reader = Server(read)
    all_words = "send-proxy-v2 proxy-v2-options ssl,cert-cn,ssl-cipher,cert-sig,cert-key,authority,crc32c"
    cases = {"ssl": "send-proxy-v2-ssl", "cn": "send-proxy-v2-ssl-cn", "all": all_words, "none": "send-proxy-v2",
             "cipher": "send-proxy-v2 proxy-v2-options ssl-cipher"}
    sections = (f"frontend f\n    bind 127.0.0.1:@port@ ssl crt {site} ca-file {authority.certificate} verify optional\n"
                f"    use_backend %[path,field(2,/)]\n")
    plain = free_port()
    sections = sections.replace("    use", f"    bind 127.0.0.1:{plain}\n    use")
    for name, words in cases.items():
        sections += f"backend {name}\n    server s 127.0.0.1:{reader.port} {words}\n"

    def told(path, over=None):
        headers.clear()
        with over or socket.create_connection(("127.0.0.1", plain), 5) as connection:
            connection.sendall(f"GET /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            while connection.recv(65536):
                pass
        return headers[0]

    with World(binary, folder, sections) as world:
        def secure(own=None):
            return connect(world.port, authority, own=own)

        assert told("ssl", secure(mine)) == {1: b"http/1.1", 0x20: (7, 0, {0x21: b"TLSv1.3"})}
        assert told("ssl", secure()) == {1: b"http/1.1", 0x20: (1, 0, {0x21: b"TLSv1.3"})}
        assert told("cn", secure(mine))[0x20] == (7, 0, {0x21: b"TLSv1.3", 0x22: b"me.example"})
        everything = told("all", secure(mine))
        assert everything[2] == b"one.example" and 3 in everything, everything
        assert everything[0x20] == (7, 0, {0x21: b"TLSv1.3", 0x22: b"me.example", 0x23: b"TLS_AES_256_GCM_SHA384",
                                           0x24: b"ecdsa-with-SHA256", 0x25: b"RSA2048"}), everything
        assert told("none", secure(mine)) == {1: b"http/1.1"}
        assert told("cipher", secure())[0x20] == (1, 0, {0x21: b"TLSv1.3", 0x23: b"TLS_AES_256_GCM_SHA384"})
        assert told("cn") == {0x20: (0, 0, {})}
        assert told("none") == {}


def test_added_servers_support_tls(binary, folder):
    """`add server … ssl`, with files that were read at the start; `set server ssl` for new connections."""
    authority = Authority(folder)
    server = SecureServer(authority.issue("back.example"))
    plain = Once(b"HTTP/1.0 200 OK\r\n\r\n")
    stats = os.path.join(folder.path, "stats")
    sections = (f"listen f\n    bind 127.0.0.1:@port@\n    server old 127.0.0.1:{plain.port} ssl verify none disabled\n"
                f"backend b\n    server s 127.0.0.1:{server.port} ssl ca-file {authority.certificate}\n    server clear 127.0.0.1:1\n"
                f"    default-server ssl verify none\n    server later 127.0.0.1:1 no-ssl")
    with World(binary, folder, sections, extra=f"stats socket {stats} level admin", defaults="retries 0") as world:
        def tell(command, expected):
            said = ask(stats, command)
            assert expected in said, (command, said)

        tell(f"add server f/new 127.0.0.1:{server.port} ssl", "no trust anchor")
        tell(f"add server f/new 127.0.0.1:{server.port} ssl ca-file /nowhere", "'ca-file' : unable to load /nowhere.")
        tell(f"add server f/new 127.0.0.1:{server.port} ssl verify none crt /nowhere", "unable to stat SSL certificate '/nowhere'.")
        tell(f"add server f/new 127.0.0.1:{server.port} ssl ca-file {authority.certificate} sni str(back.example) check check-ssl inter 300",
             "New server registered.")
        tell("enable health f/new", "")
        tell("enable server f/new", "")
        settled(stats, {"f/new": ("UP", "L6OK", "")})
        assert get(world.port)[0] == 200
        tell("set server f/new state maint", "")
        assert wait_until(lambda: "Server deleted." in ask(stats, "del server f/new"))
        # A server without TLS takes traffic once TLS is off.
        tell("set server f/old state ready", "")
        assert get(world.port)[0] == 503
        tell("set server f/old ssl", "expects 'on' or 'off'")
        tell("set server f/old ssl off", "server ssl setting updated.")
        assert get(world.port)[0] == 200
        tell("set server f/old ssl on", "server ssl setting updated.")
        assert get(world.port)[0] == 503
        tell("set server b/clear ssl on", "cannot be set.  default-server should define ssl settings")
        uses = lambda: {line.split()[3]: line.split()[20] for line in ask(stats, "show servers state b").splitlines()[2:] if line}
        # As in HAProxy: after `no-ssl`, `use-ssl` is undecided until a command sets it.
        assert uses() == {"s": "1", "clear": "0", "later": "-1"}, uses()
        tell("set server b/later ssl on", "server ssl setting updated.")
        assert uses() == {"s": "1", "clear": "0", "later": "1"}, uses()
        tell("set server b/later ssl off", "server ssl setting updated.")
        assert uses()["later"] == "0", uses()


def test_log_lines_are_sent_to_servers_over_tls(binary, folder):
    """Servers of rings and of log backends; a server without a trusted certificate gets nothing."""
    authority = Authority(folder)
    lines = []

    def take(connection):
        for line in connection.makefile("rb"):
            lines.append(line)

    taker = SecureServer(authority.issue("logs.example"), serve=take)
    names = taker.names
    words = f"ssl ca-file {authority.certificate}"
    for target, section in (
            ("ring@r", f"ring r\n    server s 127.0.0.1:{taker.port} {words} sni str(logs.example)"),
            ("backend@l", f"backend l\n    mode log\n    server s 127.0.0.1:{taker.port} {words} sni str(logs.example)")):
        sections = f"frontend f\n    log {target} local0\n    bind 127.0.0.1:@port@\n    {ANSWER.format('x')}\n{section}"
        # A server may be connected as soon as the program starts.
        lines.clear()
        names.clear()
        with World(binary, folder, sections) as world:
            for _ in range(50):
                assert get(world.port)[0] == 200
            assert wait_until(lambda: sum(b"line 200" in line for line in lines) == 50), (target, len(lines))
            assert set(names) == {"logs.example"}, names
        lines.clear()
        names.clear()
        with World(binary, folder, sections.replace("logs.example", "other.example")) as world:
            assert get(world.port)[0] == 200
            assert wait_until(lambda: names), target
            assert not lines, lines
    for section in ("ring r\n    server s 127.0.0.1:1 ssl", "backend l\n    mode log\n    server s 127.0.0.1:1 ssl"):
        assert "no trust anchor" in refused(binary, folder, "", sections=section)
    asks_a_client = "backend l\n    mode log\n    server s 127.0.0.1:1 ssl verify none sni req.hdr(host)"
    assert "messages have no client to ask" in refused(binary, folder, "", sections=asks_a_client)


def test_tls_errors_with_servers_are_reported(binary, folder):
    """`ssl_bc_err` and its message: no error, an untrusted certificate, alerts, a plaintext server; with OpenSSL's numbers, as in HAProxy."""
    authority, stranger = Authority(folder), Authority(folder, "stranger")
    site = authority.issue("one.example")
    good, picky = SecureServer(site), SecureServer(site, authority)
    picky.context.maximum_version = ssl.TLSVersion.TLSv1_2
    old = SecureServer(site)
    old.context.set_ciphers("AES256-SHA256:@SECLEVEL=0")
    old.context.maximum_version = ssl.TLSVersion.TLSv1_2
    clear = Server(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"))
    plain = Once(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    cases = {
        "good": (good.port, "ssl verify none", "0", "-"),
        "untrusted": (good.port, f"ssl verify required ca-file {stranger.certificate}", str(0x0A000086), "certificate verify failed"),
        "other": (good.port, f"ssl verify required ca-file {authority.certificate} sni str(two.example)", str(0x0A000086), "certificate verify failed"),
        "host": (good.port, f"ssl verify required ca-file {authority.certificate} no-sni-auto verifyhost two.example", str(0x0A000086), "certificate verify failed"),
        "picky": (picky.port, "ssl verify none", str(0x0A000410), "ssl/tls alert handshake failure"),
        "old": (old.port, "ssl verify none", str(0x0A000410), "ssl/tls alert handshake failure"),
        "clear": (clear.port, "ssl verify none", str(0x0A00010B), "wrong version number"),
        "plain": (plain.port, "", "-", "-"),
    }
    sections = ("frontend f\n    bind 127.0.0.1:@port@\n    use_backend %[req.hdr(to)]\n"
                '    log-format "%b %ST %[bc_err] %[bc_err_name] %[ssl_bc_err] %[ssl_bc_err_str]"\n')
    for name, (port, words, *_) in cases.items():
        sections += f"backend {name}\n    retries 0\n    http-response set-header err %[ssl_bc_err]\n    server s 127.0.0.1:{port} {words}\n"
    with World(binary, folder, sections) as world:
        for name, (_, _, number, words) in cases.items():
            client = http.client.HTTPConnection("127.0.0.1", world.port, timeout=10)
            client.request("GET", "/", headers={"To": name})
            response = client.getresponse()
            response.read()
            line = world.log.line()
            if response.status == 200:
                assert (response.getheader("err"), line) == (number.replace("-", ""), f"{name} 200 0 - {number} {words}"), (response.getheaders(), line)
                continue
            told = line.split(" ", 5)
            error = {"other": ["33", "SSL_MISMATCH_SNI"], "host": ["32", "SSL_MISMATCH"]}.get(name, ["34", "SSL_HANDSHAKE"])
            assert told[:5] == [name, "503", *error, number] and told[5] == f"error:{int(number):08X}:SSL routines::{words}", line
