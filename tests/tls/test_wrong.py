"""Malformed TLS, from raw records: the alert for each fault, cuts at every byte, floods, silent ends."""
import socket
import ssl
import time

from lib.tls import Authority, SecureServer, World, ask_over, connect, frontend
from tls.records import Client, Hello, last_alert, message, raw, record, still_serves, vector


def site(folder):
    authority = Authority(folder)
    return f"ssl crt {authority.issue('one.example')}", authority


def test_malformed_client_hellos_get_the_alerts_of_haproxy(binary, folder):
    """Alerts of HAProxy 3.2 for the same bytes."""
    with World(binary, folder, frontend(site(folder)[0])) as world:
        for said, alert in ((b"GET / HTTP/1.0\r\n\r\n", None), (b"\x99" * 20, None), (record(99, b"hello", b"\x03\x03"), 10),
                            (message(2, b""), 10), (record(23, b"hello", b"\x03\x03"), 10), (record(21, b"\x02\x28"), 10),
                            (record(20, b"\x01"), 10), (b"\x16\x03\x01\x50\x00" + b"\0" * 0x5000, 22),
                            (message(1, b"\x03\x03\0\0"), 50),
                            (message(1, b"\x03\x01" + b"r" * 32 + b"\0\0\x02\xc0\x13\x01\0"), 70)):
            assert raw(world.port, said) == alert, (said[:20], alert)
        still_serves(world)


def test_each_client_hello_error_has_its_alert(binary, folder):
    """RFC 8446, 4.1.2 and 6.2; RFC 5246, 7.2.2."""
    with World(binary, folder, frontend(site(folder)[0])) as world:
        def hello():
            with Client(world.port) as client:
                return Hello(client.hello())

        def check(name, changed, *alerts):
            found = raw(world.port, changed.bytes())
            assert found in alerts, (name, found, alerts)

        no_ciphers = hello()
        no_ciphers.ciphers = b"\x00\x2f\x00\x35"
        check("no cipher in common", no_ciphers, 40)
        check("no group in common", hello().having(10, vector(b"\0\x01")).having(51, vector(b"\0\x01" + vector(b"x"))), 40)
        check("a hello without groups", hello().without(10, 51), 40, 109)
        # 109 in RFC 8446, 4.2.3; 40 where TLS 1.2 is considered first.
        check("no signatures", hello().without(13), 40, 109)
        check("a duplicate extension", (lambda it: it.extensions.append((10, vector(b"\0\x1d"))) or it)(hello()), 47, 50)
        compressed = hello()
        compressed.compressions = b"\x01"
        check("only compression offered", compressed, 47)
        check("only unknown versions", hello().having(43, vector(b"\x7f\x01", 1)), 70)
        check("only TLS 1.0 and 1.1", hello().having(43, vector(b"\x03\x02\x03\x01", 1)), 70)
        check("an invalid key share", hello().having(51, vector(b"\0\x1d" + vector(b"short"))), 47)
        check("a truncated extension", hello().having(51, b"\0\x40\0\x1d"), 50)
        still_serves(world)
    with World(binary, folder, frontend(site(folder)[0] + " strict-sni")) as world:
        with Client(world.port, name="two.example") as client:
            client.socket.sendall(client.hello())
            assert last_alert(client.socket) == 112


def test_unknown_alpn_protocols_are_ignored(binary, folder):
    """A client that offers only unknown protocols is served without ALPN, as in HAProxy."""
    with World(binary, folder, frontend(site(folder)[0] + " alpn h2,http/1.1", "alpn %[ssl_fc_alpn].")) as world:
        for offered, agreed in ((("foo",), b"alpn ."), (("foo", "http/1.1"), b"alpn http/1.1.")):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.set_alpn_protocols(offered)
            with context.wrap_socket(socket.create_connection(("127.0.0.1", world.port), 5), server_hostname="x") as connection:
                assert ask_over(connection).endswith(agreed), offered


def test_missing_and_unknown_client_certificates_have_their_alerts(binary, folder):
    """A missing, an unknown and an expired certificate: in TLS 1.2, where alerts are in plaintext, and in 1.3 by OpenSSL's
    messages."""
    line, authority = site(folder)
    unknown = Authority(folder, "unknown").issue("me.example")
    line += f" ca-file {authority.certificate} verify required"
    with World(binary, folder, frontend(line)) as world:
        # The word that TLS 1.3 has for the first case is used in 1.2 as well, where RFC 5246 would have 40.
        for own, alert, words in ((None, 116, "CERTIFICATE_REQUIRED"), (unknown, 48, "UNKNOWN_CA")):
            with Client(world.port, ssl.TLSVersion.TLSv1_2, own) as client:
                client.socket.sendall(client.hello())
                client.receive()
                while not client.step() and not (flight := client.flight()):
                    client.receive()
                client.socket.sendall(flight)
                assert (found := last_alert(client.socket)) == alert, (own, found)
            try:
                with Client(world.port, ssl.TLSVersion.TLSv1_3, own) as client:
                    client.shake().get()
                raise AssertionError("it was served")
            except ssl.SSLError as error:
                assert words in str(error), error


def test_modified_records_end_a_tls_session(binary, folder):
    """In the handshake and after it, in both versions."""
    with World(binary, folder, frontend(site(folder)[0])) as world:
        for version, alert in ((ssl.TLSVersion.TLSv1_2, 20), (ssl.TLSVersion.TLSv1_3, 20)):
            with Client(world.port, version) as client:
                client.socket.sendall(client.hello())
                while not client.step() and not client.leaving.pending:
                    client.receive()
                flight = bytearray(client.flight())
                flight[-1] ^= 1
                client.socket.sendall(flight)
                assert last_alert(client.socket) in ((alert, 51) if version == ssl.TLSVersion.TLSv1_2 else (None, alert)), version
            with Client(world.port, version) as client:
                client.shake()
                client.session.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                flight = bytearray(client.flight())
                flight[-1] ^= 1
                client.socket.sendall(flight)
                try:
                    while True:
                        client.receive()
                        client.session.read()
                except ssl.SSLWantReadError:
                    continue
                except ssl.SSLError as error:
                    assert "BAD_RECORD_MAC" in str(error), error
        still_serves(world)


def test_a_handshake_may_be_split_or_aborted_at_any_byte(binary, folder):
    """Clients that close after any byte of either flight do no harm; a handshake with one byte per segment succeeds, and so does a ClientHello in
    many records."""
    with World(binary, folder, frontend(site(folder)[0])) as world:
        with Client(world.port) as client:
            length = len(client.hello())
        for cut in range(length):
            with Client(world.port) as client:
                client.socket.sendall(client.hello()[:cut])
        with Client(world.port) as client:
            client.socket.sendall(client.hello())
            client.receive()
            while not client.step():
                client.receive()
            length = len(client.flight())
        for cut in range(length):
            with Client(world.port) as client:
                client.socket.sendall(client.hello())
                while not client.step():
                    client.receive()
                client.socket.sendall(client.flight()[:cut])

        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with Client(world.port, version) as client:
                def slowly(flight):
                    for byte in flight:
                        client.socket.sendall(bytes([byte]))

                assert client.shake(slowly).get(slowly) == b"HTTP/1.1 200 OK", version
            for size in (1, 7, 100, 4096):
                with Client(world.port, version) as client:
                    sent = []

                    def in_pieces(flight):
                        if sent or flight[0] != 22:
                            return client.socket.sendall(flight)
                        sent.append(True)
                        pieces = [flight[5:][at:at + size] for at in range(0, len(flight) - 5, size)]
                        client.socket.sendall(b"".join(record(22, piece) for piece in pieces))

                    assert client.shake(in_pieces).get() == b"HTTP/1.1 200 OK", (version, size)


def test_a_client_hello_has_a_maximum_length(binary, folder):
    """A ClientHello of 15 kB is answered; one beyond the limit is refused."""
    with World(binary, folder, frontend(site(folder)[0])) as world:
        with Client(world.port) as client:
            hello = Hello(client.hello())
        for padding in (10_000, 15_000):
            said = hello.having(21, b"\0" * padding).bytes()
            with socket.create_connection(("127.0.0.1", world.port), 5) as connection:
                connection.sendall(said)
                answer = connection.recv(65536)
                assert answer[0] == 22 and answer[5] == 2, (padding, answer[:20])
        endless = record(22, b"\x01\xff\xff\xff" + b"\0" * 16380) + record(22, b"\0" * 16384) * 5
        assert raw(world.port, endless) == 47
        still_serves(world)


def test_unfinished_client_hellos_take_little_memory_and_time_out(binary, folder):
    """A client that stops within its hello holds little memory, and is closed after `timeout client`."""
    with World(binary, folder, frontend(site(folder)[0], more="timeout client 2s"), extra="maxconn 1000\n    nbthread 1") as world:
        still_serves(world)
        with Client(world.port) as client:
            hello = client.hello()
        before = world.program.resident_kb()
        crowd = []
        for number in range(400):
            connection = socket.create_connection(("127.0.0.1", world.port), 5)
            connection.sendall(hello[:1 + number % (len(hello) - 1)])
            crowd.append(connection)
        still_serves(world)
        each = (world.program.resident_kb() - before) * 1024 / len(crowd)
        assert each < 8_000, each
        end = time.monotonic() + 6
        for connection in crowd:
            connection.settimeout(max(0.1, end - time.monotonic()))
            try:
                while connection.recv(100):
                    pass
            except ConnectionResetError:
                pass
            connection.close()
        still_serves(world)


def test_idle_tls_connections_take_at_most_7000_bytes(binary, folder):
    """An idle connection over TLS holds at most 7,000 bytes."""
    with World(binary, folder, frontend(site(folder)[0], more="timeout client 30s\n    timeout http-keep-alive 30s"),
               extra="maxconn 2000\n    nbthread 1") as world:
        authority = None

        def crowd(count):
            held = []
            for _ in range(count):
                connection = connect(world.port, authority)
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert connection.recv(4096).startswith(b"HTTP/1.1 200")
                held.append(connection)
            return held

        first = crowd(100)
        before = world.program.resident_kb()
        more = crowd(400)
        each = (world.program.resident_kb() - before) * 1024 / len(more)
        print(f"        an idle connection over TLS: {each:.0f} bytes")
        assert each < 7_000, each
        for connection in first + more:
            connection.close()


def test_a_body_shorter_than_its_length_is_logged_as_aborted(binary, folder):
    """A body shorter than its Content-Length is logged as aborted, in either direction."""
    line, authority = site(folder)
    back = authority.issue("back.example")

    def serve(connection):
        said = connection.recv(65536)
        length = b"Content-Length: 100\r\n" if said.startswith(b"GET /length") else b""
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + length + b"\r\nshort")

    sections = f"listen f\n    bind 127.0.0.1:@port@ {line}\n    server s 127.0.0.1:{SecureServer(back, serve=serve).port} ssl verify none"
    with World(binary, folder, sections, defaults="retries 0") as world:
        for path, ending in (("until-close", "--"), ("length", "SD")):
            with connect(world.port, authority) as connection:
                answer = ask_over(connection, f"GET /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            assert answer.endswith(b"\r\n\r\nshort"), (path, answer)
            logged = world.log.line()
            assert logged.split()[2].startswith(ending), (path, logged)
        # A client that closes in the middle of its body.
        with Client(world.port) as client:
            client.shake()
            client.session.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nshort")
            client.socket.sendall(client.flight())
        logged = world.log.line()
        assert logged.split()[2].startswith("C"), logged
