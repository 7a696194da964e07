"""TLS of listeners that carry no traffic: the runtime API, senders of log messages, the statistics page."""
import socket
import ssl

from lib.program import free_port
from lib.tls import Authority, World, ask_over, connect, frontend, refused


def test_the_runtime_api_accepts_tls_clients(binary, folder):
    """`stats socket … ssl`: a session, a required client certificate, a PROXY header before it; plaintext clients get no answer."""
    authority = Authority(folder)
    site, mine = authority.issue("one.example"), authority.issue("me.example")
    port, strict, headed = free_port(), free_port(), free_port()
    common = f"ssl crt {site} level admin"
    extra = (f"stats socket ipv4@127.0.0.1:{port} {common} expose-fd listeners\n"
             f"    stats socket ipv4@127.0.0.1:{strict} {common} ca-file {authority.certificate} verify required\n"
             f"    stats socket ipv4@127.0.0.1:{headed} {common} accept-proxy")
    with World(binary, folder, frontend(""), extra=extra):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            # An answer of many records.
            said = ask_over(connect(port, authority, version=version), b"show stat typed; show info\n")
            assert b".pxname.1:KNSV:str:f\n" in said and b"\nSslFrontendKeyRate: " in said, said[-200:]
        assert b"no level" not in ask_over(connect(port, authority), b"disable frontend f\n")
        assert b"SSL: 0" not in ask_over(connect(port, authority), b"show info\n")
        # Descriptors cannot be passed over an encrypted connection.
        said = ask_over(connect(port, authority), b"_getsocks\nshow version\n")
        assert said, "the session goes on or ends by a word"
        # Certificates can be listed over TLS, too.
        said = ask_over(connect(port, authority), b"show ssl sni\n")
        assert b"one.example" in said, said
        with socket.create_connection(("127.0.0.1", port), 5) as clear:
            clear.sendall(b"show info\n")
            assert b"Name:" not in clear.recv(4096)
        assert b"Name: " in ask_over(connect(strict, authority, own=mine), b"show info\n")
        try:
            said = ask_over(connect(strict, authority), b"show info\n")
        except (ssl.SSLError, ConnectionError):
            said = b""
        assert not said, said
        raw = socket.create_connection(("127.0.0.1", headed), 5)
        raw.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.8 77 2\r\n")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(authority.certificate)
        said = ask_over(context.wrap_socket(raw, server_hostname="one.example"), b"show sess\n")
        assert b"src=192.0.2.7:77" in said, said
    assert "unable to read '/nowhere.pem'" in refused(binary, folder, "", extra="stats socket ipv4@127.0.0.1:1 ssl crt /nowhere.pem")


def test_log_forward_receives_messages_over_tls(binary, folder, port):
    """`log-forward` with `bind … ssl`: messages of any size and framing, also after a PROXY header; plaintext messages are refused."""
    authority = Authority(folder)
    site, mine = authority.issue("one.example"), authority.issue("me.example")
    headed = free_port()
    target = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    target.bind(("127.0.0.1", 0))
    target.settimeout(5)
    sections = (frontend("") + f"\nlog-forward logs\n    bind 127.0.0.1:{port} ssl crt {site} ca-file {authority.certificate} verify optional\n"
                f"    bind 127.0.0.1:{headed} accept-proxy ssl crt {site}\n    option host replace\n    timeout client 3s\n"
                f"    log 127.0.0.1:{target.getsockname()[1]} len 9000 local0")

    def heard():
        return target.recv(65536).decode().rstrip()

    with World(binary, folder, sections):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with connect(port, authority, own=mine, version=version) as sender:
                for length in (1, 100, 4000):
                    sender.sendall(f"<13>1 - host app - - - {'x' * length}\n".encode())
                    assert heard().endswith(" app - - - " + "x" * length), length
                # Two messages in one record, one in two records, and a frame with a length.
                sender.sendall(b"<13>1 - h a - - - one\n<13>1 - h a - - - two\n<13>1 - h a")
                sender.sendall(b" - - - three\n24 <13>1 - h a - - - framed\n")
                said = [heard() for _ in range(4)]
                assert [line.split()[-1] for line in said] == ["one", "two", "three", "framed"], said
        with socket.create_connection(("127.0.0.1", port), 5) as clear:
            clear.sendall(b"<13>1 - h a - - - clear\n")
            assert len(clear.recv(100)) in (0, 7), "at most an alert"
        raw = socket.create_connection(("127.0.0.1", headed), 5)
        raw.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.8 77 2\r\n")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(authority.certificate)
        with context.wrap_socket(raw, server_hostname="one.example") as sender:
            sender.sendall(b"<13>1 - h a - - - last\n")
            assert "192.0.2.7" in (said := heard()) and said.endswith("last"), said


def test_the_statistics_page_is_served_over_tls(binary, folder):
    """The page, its forms and the exporter for Prometheus behind `bind … ssl`."""
    authority = Authority(folder)
    sections = (f"frontend f\n    bind 127.0.0.1:@port@ ssl crt {authority.issue('one.example')}\n    stats enable\n    stats uri /stats\n"
                "    stats admin if TRUE\n    http-request use-service prometheus-exporter if { path /metrics }\n"
                "backend b\n    server s 127.0.0.1:1")

    with World(binary, folder, sections) as world:
        def get(path, more=""):
            return ask_over(connect(world.port, authority),
                            f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{more}\r\n".encode())

        assert b"Statistics Report" in get("/stats") and b"b,s," in get("/stats;csv")
        assert b"haproxy_process_current_ssl_connections" in get("/metrics")
        form = b"s=s&action=maint&b=b"
        said = ask_over(connect(world.port, authority),
                        b"POST /stats HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(form) + form)
        assert said.startswith(b"HTTP/1.1 303") and b",MAINT," in get("/stats;csv")
