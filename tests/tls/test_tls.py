"""TLS on both sides, with curl, openssl and Python as the other implementations."""
import contextlib
import http.client
import random
import shutil
import socket
import ssl
import struct
import subprocess
import threading

from lib.origin import Server, read_all
from lib.program import free_port
from lib.tls import ANSWER, Authority, SecureServer, World, ask_over, backend, backwards, connect, frontend, get, openssl, refused


def test_tls_1_2_and_1_3_serve_requests(binary, folder):
    """With the version in fetches and in the log."""
    authority = Authority(folder)
    answer = "%[ssl_fc] %[ssl_fc_protocol] %[ssl_fc_cipher] %[ssl_fc_sni] %[ssl_fc_alpn] %[ssl_fc_has_sni] %[ssl_f_s_dn(CN)]"
    with World(binary, folder, frontend(f"ssl crt {authority.issue('one.example')}", answer)) as world:
        for version, name, cipher in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384"),
                                      (ssl.TLSVersion.TLSv1_3, "TLSv1.3", "TLS_AES_256_GCM_SHA384")):
            with connect(world.port, authority, version=version) as connection:
                body = ask_over(connection).split(b"\r\n\r\n", 1)[1].decode()
            assert body == f"1 {name} {cipher} one.example http/1.1 1 one.example", body
            assert (line := world.log.line()) == f"line 200 LR-- f~ {name} {cipher}", line
        done = subprocess.run(["curl", "-sS", "--cacert", authority.certificate, "--resolve", f"one.example:{world.port}:127.0.0.1",
                               f"https://one.example:{world.port}/"], capture_output=True, text=True, timeout=20)
        assert "one.example h2 1" in done.stdout, done


def test_several_requests_share_a_tls_session_that_ends_with_close_notify(binary, folder):
    """Keep-alive; a close without `close_notify` would be an error of Python's client."""
    authority = Authority(folder)
    with World(binary, folder, frontend(f"ssl crt {authority.issue('one.example')}")) as world:
        with connect(world.port, authority) as connection:
            connection.suppress_ragged_eofs = False
            client = http.client.HTTPConnection("x")
            client.sock = connection
            for _ in range(3):
                client.request("GET", "/")
                assert client.getresponse().read() == b"1 one.example"
            assert ask_over(connection).endswith(b"1 one.example")


def test_certificates_are_selected_by_sni(binary, folder):
    """Files, folders, lists with filters, a separate key; a strict listener refuses other names."""
    authority = Authority(folder)
    one, two = authority.issue("one.example"), authority.issue("two.example", key_apart=True)
    authority.issue("three.example", "many/a.pem")
    authority.issue("*.wild.example", "many/b.pem", key_apart=True)
    listed = folder.file("list", f"# a list\n{two} [ssl-min-ver TLSv1.3] *.two.example !not.two.example listed.example\n")
    line = f"ssl crt {one} crt {folder.path}/many crt-list {listed}"
    shown = "%[ssl_f_s_dn(CN)]"
    expected = {"one.example": "one.example", "three.example": "three.example", "a.wild.example": "*.wild.example",
                "x.two.example": "two.example", "listed.example": "two.example", "not.two.example": "one.example",
                "two.example": "one.example", "none.example": "one.example", "A.WILD.example": "*.wild.example"}
    with World(binary, folder, frontend(line, shown)) as world:
        for name, certificate in expected.items():
            with connect(world.port, name=name) as connection:
                assert ask_over(connection).endswith(b"\r\n\r\n" + certificate.encode()), name
            world.log.line()
        try:
            connect(world.port, name="listed.example", version=ssl.TLSVersion.TLSv1_2)
            raise AssertionError("TLS 1.2 where the list says 1.3")
        except ssl.SSLError as error:
            assert "PROTOCOL_VERSION" in str(error), error
    with World(binary, folder, frontend(line + " strict-sni", shown)) as world:
        with connect(world.port, name="one.example") as connection:
            assert ask_over(connection).endswith(b"one.example")
        world.log.line()
        for name in ("none.example", None):
            try:
                connect(world.port, name=name)
                raise AssertionError("a session without a certificate")
            except ssl.SSLError as error:
                assert "UNRECOGNIZED_NAME" in str(error), error
            assert world.log.line().endswith("SSL handshake failure (error:0A0000EA:SSL routines::callback failed)")


def test_a_wildcard_serves_clients_without_the_key_type_of_the_exact_certificate(binary, folder):
    """The exact name has an ECDSA certificate, its wildcard one of RSA."""
    authority = Authority(folder)
    exact = authority.issue("www.one.example", "exact.pem")
    wild = authority.issue("*.one.example", "wild.pem", kind="rsa")
    rsa, ecdsa = "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"
    for order in ((exact, wild), (wild, exact)):
        line = "ssl strict-sni " + " ".join(f"crt {path}" for path in order)
        with World(binary, folder, frontend(line, "%[ssl_f_s_dn(CN)]")) as world:
            for ciphers, expected in ((rsa, b"*.one.example"), (ecdsa, b"www.one.example"), (f"{rsa}:{ecdsa}", b"www.one.example")):
                with connect(world.port, name="www.one.example", version=ssl.TLSVersion.TLSv1_2, ciphers=ciphers) as connection:
                    assert ask_over(connection).endswith(b"\r\n\r\n" + expected), (order, ciphers)
                world.log.line()
    # A name that the line of the wildcard excludes keeps its own certificate, and the handshake fails.
    listed = folder.file("list", f"{exact}\n{wild} *.one.example !www.one.example\n")
    with World(binary, folder, frontend(f"ssl strict-sni crt-list {listed}")) as world:
        try:
            connect(world.port, name="www.one.example", version=ssl.TLSVersion.TLSv1_2, ciphers=rsa)
            raise AssertionError("the certificate of a wildcard that excludes the name")
        except ssl.SSLError:
            pass


def test_ssl_default_lines_apply_only_to_lines_below_them(binary, folder):
    """With several global sections, `ssl-default-*` lines do not affect the lines above them."""
    certificate = Authority(folder).issue("one.example", kind="rsa")
    answer = ANSWER.format("%[ssl_fc_protocol] %[ssl_fc_cipher] %[ssl_fc_curve]")
    back, above, below = free_port(), free_port(), free_port()

    def options(kind, version, suite, curve):
        return f"""
    ssl-default-{kind}-ciphersuites {suite}
    ssl-default-{kind}-curves {curve}
    ssl-default-{kind}-options ssl-max-ver {version}
    ssl-default-{kind}-ciphers ECDHE-RSA-AES256-GCM-SHA384"""

    former = ("TLSv1.3", "TLS_AES_128_GCM_SHA256", "X25519")
    later = ("TLSv1.2", "TLS_CHACHA20_POLY1305_SHA256", "P-384")
    second = free_port()
    sections = f"""
frontend back
    bind 127.0.0.1:{back} ssl crt {certificate}
    {answer}
global{options("bind", *former)}{options("server", *former)}
frontend f
    bind 127.0.0.1:@port@ ssl crt {certificate}
    {answer}
listen above
    bind 127.0.0.1:{above}
    server s 127.0.0.1:{back} ssl verify none
global{options("bind", *later)}{options("server", *later)}
frontend second
    bind 127.0.0.1:{second} ssl crt {certificate}
    {answer}
listen below
    bind 127.0.0.1:{below}
    server s 127.0.0.1:{back} ssl verify none"""
    expected = b"TLSv1.3 TLS_AES_128_GCM_SHA256 X25519", b"TLSv1.2 ECDHE-RSA-AES256-GCM-SHA384 SECP384R1"
    with World(binary, folder, sections) as world:
        for port, values in zip((world.port, second), expected):
            with connect(port) as connection:
                body = ask_over(connection).split(b"\r\n\r\n", 1)[1]
                assert body.upper() == values.upper(), (port, body)
        for port, values in zip((above, below), expected):
            _, body = get(port)
            assert body.upper() == values.upper(), (port, body)


def test_a_bundle_serves_the_key_type_that_the_client_supports(binary, folder):
    """`NAME.rsa` and `NAME.ecdsa` for `crt NAME`."""
    authority = Authority(folder)
    authority.issue("one.example", "site.ecdsa")
    authority.issue("one.example", "site.rsa", kind="rsa")
    with World(binary, folder, frontend(f"ssl crt {folder.path}/site", "%[ssl_f_key_alg]")) as world:
        for ciphers, expected in (("ECDHE-RSA-AES128-GCM-SHA256", b"rsaEncryption"), ("ECDHE-ECDSA-AES128-GCM-SHA256", b"id-ecPublicKey")):
            with connect(world.port, authority, version=ssl.TLSVersion.TLSv1_2, ciphers=ciphers) as connection:
                assert ask_over(connection).endswith(expected), ciphers
    # weir as a client: its hello names ciphers of the versions that it offers, and the server goes by those of the version.
    clear = free_port()
    servers = "".join(f"\n    server {name} 127.0.0.1:@port@ ssl verify none sni str(one.example) {name} {more}" for name, more in (
        ("force-tlsv12", "ciphers ECDHE-RSA-AES128-GCM-SHA256"), ("force-tlsv13", "ciphersuites TLS_AES_128_GCM_SHA256")))
    sections = (frontend(f"ssl crt {folder.path}/site", "%[ssl_f_key_alg] %[ssl_fc_cipherlist_str]")
                + f"\nlisten clear\n    bind 127.0.0.1:{clear}\n    balance roundrobin{servers}")
    with World(binary, folder, sections, extra="tune.ssl.capture-buffer-size 512"):
        said = set()
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", clear), 5) as client:
                said.add(ask_over(client).split(b"\r\n\r\n")[1].replace(b",TLS_EMPTY_RENEGOTIATION_INFO_SCSV", b""))
        assert said == {b"rsaEncryption ECDHE-RSA-AES128-GCM-SHA256", b"id-ecPublicKey TLS_AES_128_GCM_SHA256"}, said
    # A listener without TLS 1.3: a client of both versions that lacks an ECDSA cipher for the lower one.
    with World(binary, folder, frontend(f"ssl crt {folder.path}/site ssl-max-ver TLSv1.2", "%[ssl_f_key_alg]")) as world:
        with connect(world.port, authority, ciphers="ECDHE-RSA-AES128-GCM-SHA256") as connection:
            assert ask_over(connection).endswith(b"rsaEncryption")


def test_curves_limits_the_certificate_keys_of_the_peer_in_tls_1_2(binary, folder):
    """In TLS 1.2 `curves` also limits the keys of client certificates, as in OpenSSL and HAProxy; in TLS 1.3 it does not. The same holds for server
    certificates."""
    authority = Authority(folder)
    site, mine = authority.issue("one.example", kind="rsa"), authority.issue("me.example")
    rsa = authority.issue("rsa.example", kind="rsa")
    line = f"ssl crt {site} ca-file {authority.certificate} verify required curves "
    errors = "error-log-format \"%[fc_err] %[ssl_fc_err,hex] %[ssl_fc_err_str]\""
    for curves in ("P-384:P-521", "P-384:prime256v1"):
        with World(binary, folder, frontend(line + curves, "%[ssl_c_s_dn(CN)] %[ssl_fc_curve]", errors)) as world:
            with connect(world.port, own=mine, version=ssl.TLSVersion.TLSv1_3) as connection:
                said = ask_over(connection)
                assert b"\r\n\r\nme.example SECP" in said, said
            world.log.line()
            with connect(world.port, own=rsa, version=ssl.TLSVersion.TLSv1_2) as connection:
                assert b"\r\n\r\nrsa.example SECP" in ask_over(connection)
            world.log.line()
            try:
                with connect(world.port, own=mine, version=ssl.TLSVersion.TLSv1_2) as connection:
                    said = ask_over(connection)
                assert b"\r\n\r\nme.example SECP" in said, said
                assert "prime" in curves
            except ssl.SSLError:
                assert "prime" not in curves
                assert world.log.line() == "34 000000000A00017A error:0A00017A:SSL routines::wrong curve"
    site, clear = authority.issue("two.example"), free_port()
    servers = f"\nlisten clear\n    bind 127.0.0.1:{clear}\n    retries 0\n    server s 127.0.0.1:@port@ ssl verify none curves P-384"
    for version, status in (("1.2", b"503"), ("1.3", b"200")):
        with World(binary, folder, frontend(f"ssl crt {site}") + f"{servers} ssl-max-ver TLSv{version}"):
            with socket.create_connection(("127.0.0.1", clear), 5) as client:
                assert ask_over(client).split()[1] == status, version


def test_secp521r1_can_be_negotiated(binary, folder):
    """When it is the only curve of either side, in both TLS versions, with clients and servers."""
    authority = Authority(folder)
    site, inner = authority.issue("one.example", kind="rsa"), free_port()
    for word in ("curves P-521", "curves secp521r1", "ecdhe secp521r1"):
        sections = (frontend(f"ssl crt {site} {word}", "%[ssl_fc_curve]")
                    + f"\nlisten l\n    bind 127.0.0.1:{inner}\n    http-response set-header curve %[ssl_bc_curve]\n    server s 127.0.0.1:@port@ ssl verify none")
        with World(binary, folder, sections) as world:
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                with connect(world.port, authority, version=version) as connection:
                    assert ask_over(connection).endswith(b"\r\n\r\nSECP521R1")
            with socket.create_connection(("127.0.0.1", inner), 5) as client:
                assert b"\r\ncurve: SECP521R1\r\n" in ask_over(client)
    with World(binary, folder, frontend(f"ssl crt {site}", "%[ssl_fc_curve]")) as world:
        for version in ("-tls1_2", "-tls1_3"):
            said = openssl("s_client", "-quiet", version, "-connect", f"127.0.0.1:{world.port}", "-curves", "P-521",
                           stdin=b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert said.rstrip().endswith("\nSECP521R1"), (version, said)


def test_ssl_c_r_dn_names_the_root_of_the_client_certificate(binary, folder):
    """`ssl_c_r_dn`: the authority at the top of a chain, whichever side provided the intermediates; empty if an error
    is ignored."""
    authority = Authority(folder, "summit")
    key, request, between, leaf = (f"{folder.path}/{name}" for name in ("key", "request", "between", "leaf"))
    extension = folder.file("extension", "basicConstraints=critical,CA:true\nkeyUsage=keyCertSign\n")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request, "-subj", "/O=tests/CN=between")
    openssl("x509", "-req", "-in", request, "-CA", authority.certificate, "-CAkey", authority.key, "-CAcreateserial", "-out", between,
            "-extfile", extension)
    signer = Authority(folder, "between")
    shutil.copy(between, signer.certificate)
    shutil.copy(key, signer.key)
    mine, direct = signer.issue("me.example"), authority.issue("direct.example")
    with open(mine, "a") as out:
        out.write(open(between).read())
    foreign = Authority(folder, "other").issue("foreign.example")
    shown = "<%[ssl_c_i_dn(cn)]> <%[ssl_c_r_dn]> <%[ssl_c_r_dn(Cn)]> <%[ssl_c_r_dn(,0,rfc2253)]> <%[ssl_c_r_dn(O)]>"
    line = f"ssl crt {authority.issue('one.example')} ca-file {authority.certificate} verify optional crt-ignore-err all ca-ignore-err all"
    root = b"</CN=summit> <summit> <CN=summit> <>"
    with World(binary, folder, frontend(line, shown)) as world:
        for own, expected in ((mine, b"<between> " + root), (direct, b"<summit> " + root), (foreign, b"<other> <> <> <> <>"), (None, b"<> <> <> <> <>")):
            with connect(world.port, own=own) as connection:
                said = ask_over(connection)
                assert said.endswith(b"\r\n\r\n" + expected), (own, said)
        # A resumed session has it, too.
        arguments = ("s_client", "-quiet", "-tls1_2", "-connect", f"127.0.0.1:{world.port}", "-cert", direct, "-key", direct)
        for end in ("-sess_out", "-sess_in"):
            said = openssl(*arguments, end, folder.path + "/session", stdin=b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert said.rstrip().endswith("<summit> " + root.decode()), (end, said)


def test_client_certificates_are_verified(binary, folder):
    """`verify required`, `optional`, and ignored errors."""
    authority, other = Authority(folder), Authority(folder, "other")
    site = authority.issue("one.example")
    mine, foreign = authority.issue("me.example"), other.issue("me.example", "foreign.pem")
    shown = "%[ssl_c_used] %[ssl_c_verify] %[ssl_c_err] %[ssl_c_s_dn] %[ssl_c_i_dn(CN)]"
    line = f"ssl crt {site} ca-file {authority.certificate} verify "
    with World(binary, folder, frontend(line + "optional", shown)) as world:
        with connect(world.port, own=mine) as connection:
            assert ask_over(connection).endswith(b"\r\n\r\n1 0 0 /O=tests/CN=me.example authority")
        with connect(world.port) as connection:
            assert ask_over(connection).endswith(b"\r\n\r\n0 0 0  ")
    with World(binary, folder, frontend(line + "required", shown)) as world:
        for own, said in ((None, "0A0000C7:SSL routines::peer did not return a certificate"), (foreign, "0A000086:SSL routines::certificate verify failed")):
            try:
                # A client of TLS 1.3 learns of it only with the answer.
                with connect(world.port, own=own) as connection:
                    ask_over(connection)
                raise AssertionError("a session without a good certificate")
            except (ssl.SSLError, ConnectionError):
                pass
            assert world.log.line().endswith(f"SSL handshake failure (error:{said})")
    with World(binary, folder, frontend(line + "required crt-ignore-err all ca-ignore-err all", shown)) as world:
        with connect(world.port, own=foreign) as connection:
            assert ask_over(connection).endswith(b"\r\n\r\n1 21 20 /O=tests/CN=me.example other")
        # Also an unknown critical extension, which HAProxy refuses in spite of these words.
        strange = authority.issue("me.example", "strange.pem", extension="1.2.3.4=critical,ASN1:UTF8String:x")
        with connect(world.port, own=strange) as connection:
            assert ask_over(connection).endswith(b"\r\n\r\n1 34 34 /O=tests/CN=me.example authority")
    # Errors by name, reported by name: an intermediate certificate without the right to issue others.
    between = Authority(folder, "between")
    shutil.copy(mine, between.certificate)
    shutil.copy(mine, between.key)
    own = between.issue("me.example", "issued.pem")
    with open(own, "a") as out:
        out.write(open(mine).read())
    names = "X509_V_ERR_INVALID_CA,X509_V_ERR_KEYUSAGE_NO_CERTSIGN,X509_V_ERR_INVALID_PURPOSE"
    with World(binary, folder, frontend(f"{line}required ca-ignore-err {names} crt-ignore-err {names}", shown + " %[ssl_c_ca_err,x509_v_err_str]")) as world:
        with connect(world.port, own=own) as connection:
            said = ask_over(connection)
            assert said.endswith(b" /O=tests/CN=me.example me.example X509_V_ERR_INVALID_CA"), said


def test_failed_tls_handshakes_are_logged_with_their_reason(binary, folder):
    """Each with its reason; plaintext HTTP has its own."""
    site = Authority(folder).issue("one.example")
    with World(binary, folder, frontend(f"ssl crt {site}"), defaults="timeout client-hs 300ms") as world:
        for bytes_, said in ((b"GET / HTTP/1.0\r\n\r\n", "SSL handshake failure (error:0A00009C:SSL routines::http request)"),
                             (b"SSH-2.0-x\r\n", "SSL handshake failure (error:0A00010B:SSL routines::wrong version number)"),
                             (b"", "Connection closed during SSL handshake"),
                             (b"\x16\x03\x01\x02", "Timeout during SSL handshake")):
            with socket.create_connection(("127.0.0.1", world.port)) as connection:
                if bytes_:
                    connection.sendall(bytes_)
                else:
                    connection.close()
                assert world.log.line().endswith(f" f/1: {said}")
        try:
            connect(world.port, Authority(folder, "another"))
            raise AssertionError("trusted by nobody")
        except ssl.SSLError:
            assert world.log.line().endswith("f/1: SSL handshake failure (error:0A000418:SSL routines::tlsv1 alert unknown ca)")
        assert "alert number 70" in openssl("s_client", "-connect", f"127.0.0.1:{world.port}", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
        assert world.log.line().endswith("(error:0A000102:SSL routines::unsupported protocol)")


def test_tls_sessions_are_resumed_with_and_without_tickets(binary, folder):
    """With tickets and with stored sessions."""
    site = Authority(folder).issue("one.example")
    for word in ("", " no-tls-tickets"):
        with World(binary, folder, frontend(f"ssl crt {site}{word}", "%[ssl_fc_is_resumed]")) as world:
            for version in ("-tls1_2", "-tls1_3"):
                kept = folder.path + "/session"
                request_ = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
                first = ["s_client", "-quiet", "-connect", f"127.0.0.1:{world.port}", version]
                assert openssl(*first, "-sess_out", kept, stdin=request_).rstrip().endswith("0"), version + word
                assert openssl(*first, "-sess_in", kept, stdin=request_).rstrip().endswith("1"), version + word


def test_tickets_leave_in_the_segment_of_the_response_if_a_request_is_waiting(binary, folder):
    """In one segment; otherwise at once, because the client may wait for an acknowledgement."""
    site = Authority(folder).issue("one.example")
    with World(binary, folder, frontend(f"ssl crt {site}")) as world:
        for has_request in (True, False):
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            client = context.wrap_bio(incoming, outgoing, server_hostname="one.example")
            with socket.create_connection(("127.0.0.1", world.port), 5) as raw:

                def read():
                    while True:
                        try:
                            return client.read(10000)
                        except ssl.SSLWantReadError:
                            incoming.write(raw.recv(65536))

                # `tcpi_data_segs_in`: how many segments with data have come.
                segments = lambda: struct.unpack_from("I", raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256), 152)[0]
                with contextlib.suppress(ssl.SSLWantReadError):
                    client.do_handshake()
                raw.sendall(outgoing.read())
                incoming.write(raw.recv(65536))
                client.do_handshake()
                before = segments()
                if not has_request:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(65536))
                    assert segments() == before + 1, "they came by themselves"
                client.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                raw.sendall(outgoing.read())
                assert b"200 OK" in read()
                assert segments() == before + (1 if has_request else 2), has_request
                assert client.session.has_ticket


def test_tls_records_have_the_configured_size(binary, folder):
    """`tune.ssl.hard-maxrecord`: lengths on the wire, read beside Python's client."""
    authority = Authority(folder)
    answer = 'frontend f\n    bind 127.0.0.1:@port@ ssl crt ' + authority.issue("one.example") + '\n    http-request return status 200 content-type text/plain string "' + "x" * 4000 + '"'
    with World(binary, folder, answer, extra="tune.ssl.hard-maxrecord 500") as world:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = ssl.create_default_context(cafile=authority.certificate).wrap_bio(incoming, outgoing, server_hostname="one.example")
        with socket.create_connection(("127.0.0.1", world.port), 5) as raw:
            wire = b""
            done, asked, heard_ = False, False, b""
            while len(heard_) < 4000:
                try:
                    if not done:
                        client.do_handshake()
                        done = True
                    if not asked:
                        client.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                        asked, wire = True, b""
                    heard_ += client.read(65536)
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    more = raw.recv(65536)
                    wire += more
                    incoming.write(more)
        sizes = []
        while len(wire) > 5:
            length = int.from_bytes(wire[3:5], "big")
            sizes.append(length)
            wire = wire[5 + length:]
        # The type of the content and the tag come on top.
        assert max(sizes) == 517 and sizes.count(517) >= 8, sizes


def test_servers_receive_the_sni_and_are_verified(binary, folder):
    """`sni`, `verifyhost`, `ca-file`: an unexpected server gets no request."""
    authority, other = Authority(folder), Authority(folder, "other")
    server = SecureServer(authority.issue("back.example"))
    ssl_ = f"{server.port} ssl ca-file {authority.certificate} "
    for line, status in ((ssl_ + "sni str(back.example)", 200), (ssl_ + "sni str(wrong.example)", 503), (ssl_, 200),
                         (ssl_ + "verifyhost back.example", 200), (ssl_ + "verifyhost wrong.example", 503),
                         (ssl_ + "sni str(x.example) verifyhost back.example", 503),
                         (ssl_ + "sni str(back.example) verifyhost x.example", 200),
                         (f"{server.port} ssl verify none sni str(wrong.example)", 200),
                         (f"{server.port} ssl ca-file {other.certificate}", 503)):
        server.names.clear()
        with World(binary, folder, backend(line), defaults="retries 0") as world:
            assert get(world.port)[0] == status, line
            assert world.log.line().startswith("line 200" if status == 200 else "line 503 SC"), line
        asked = line.split("str(")[1].split(")")[0] if "str(" in line else None
        assert server.names == [asked], (line, server.names)
    said = refused(binary, folder, "", sections=backend(f"{server.port} ssl"))
    assert "no trust anchor: add 'ca-file <file>'" in said, said
    with World(binary, folder, backend(f"{server.port} ssl"), extra="ssl-server-verify none") as world:
        assert get(world.port)[0] == 200


def test_servers_get_the_client_certificate_and_a_plaintext_proxy_header_before_tls(binary, folder):
    """`crt` of a server line; the PROXY header is sent in plaintext before the handshake."""
    authority = Authority(folder)
    headers = []

    class Behind(SecureServer):
        """A server that reads a PROXY header before the handshake."""

        def one(self, connection):
            headers.append(b"")
            while not headers[-1].endswith(b"\r\n") and (byte := connection.recv(1)):
                headers[-1] += byte
            super().one(connection)

    server, behind = (kind(authority.issue("back.example"), authority) for kind in (SecureServer, Behind))
    mine = authority.issue("me.example")
    with World(binary, folder, backend(f"{server.port} ssl verify none crt {mine}")) as world:
        assert get(world.port)[0] == 200
    with World(binary, folder, backend(f"{behind.port} ssl verify none crt {mine} send-proxy")) as world:
        assert get(world.port)[0] == 200
    assert headers[0].startswith(b"PROXY TCP4 127.0.0.1 "), headers


def test_ssl_s_fetches_show_the_server_certificate(binary, folder):
    """`ssl_s_*`: the certificate of the server that answers."""
    authority = Authority(folder)
    certificate = authority.issue("one.example")
    server = SecureServer(certificate)
    asked = "%[ssl_s_s_dn(CN)] %[ssl_s_i_dn] %[ssl_s_key_alg] %[ssl_s_version] %[ssl_s_serial,hex] %[ssl_s_sha1,hex] %[ssl_s_der,hex,length]"
    sections = backend(f"{server.port} ssl verify none") + f'\n    http-response set-header x "{asked}"'
    with World(binary, folder, sections) as world:
        client = http.client.HTTPConnection("127.0.0.1", world.port, timeout=10)
        client.request("GET", "/")
        shown = client.getresponse().getheader("x")
    serial = openssl("x509", "-in", certificate, "-noout", "-serial").strip().split("=")[1]
    digest = openssl("x509", "-in", certificate, "-noout", "-fingerprint", "-sha1").strip().split("=")[1].replace(":", "")
    der = ssl.PEM_cert_to_DER_cert(open(certificate).read().split("-----BEGIN PRIVATE")[0])
    words = shown.split(" ")
    assert words[4].lstrip("0") == serial.lstrip("0"), (words, serial)
    assert words[:4] + words[5:] == ["one.example", "/CN=authority", "id-ecPublicKey", "3", digest, str(2 * len(der))], (words, digest, len(der))


def test_tls_server_connections_are_reused_per_sni_and_sessions_are_resumed(binary, folder):
    """Connections are reused for the same SNI or `pool-conn-name`, and new ones resume an earlier TLS session."""
    server = SecureServer(Authority(folder).issue("back.example"))
    with World(binary, folder, backend(f"{server.port} ssl verify none sni req.hdr(host)"), extra="nbthread 1") as world:
        for host in (b"a.example", b"a.example", b"b.example", b"a.example"):
            with socket.create_connection(("127.0.0.1", world.port)) as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
                while client.recv(65536):
                    pass
    assert server.names == ["a.example", "b.example"] and len(server.identities) == 2, server.names
    server = SecureServer(Authority(folder).issue("back.example"))
    line = f"{server.port} ssl verify none sni req.hdr(host) pool-conn-name req.hdr(n)"
    with World(binary, folder, backend(line), extra="nbthread 1") as world:
        for host, name in (("a.example", "x"), ("b.example", "x"), ("b.example", "y"), ("a.example", "y"), ("c.example", None)):
            client = http.client.HTTPConnection("127.0.0.1", world.port, timeout=10)
            client.request("GET", "/", headers={"Host": host, **({"N": name} if name else {})})
            assert client.getresponse().read() is not None
            client.close()
    assert server.names == ["a.example", "b.example", "c.example"], "'pool-conn-name' stands for the SNI"
    for word, resumed in (("", 2), (" no-ssl-reuse", 0)):
        server = SecureServer(Authority(folder).issue("back.example"))
        with World(binary, folder, backend(f"{server.port} ssl verify none pool-max-conn 0 sni str(a.example){word}"), extra="nbthread 1") as world:
            for _ in range(3):
                assert get(world.port)[0] == 200
        assert len(server.identities) == 3 and sum(is_resumed for is_resumed, *_ in server.identities) == resumed, server.identities


def test_bodies_pass_complete_through_tls_in_both_directions(binary, folder):
    """TLS on both sides, sizes around those of records and buffers, and several at once."""
    authority = Authority(folder)
    server = SecureServer(authority.issue("back.example"))
    sections = (f"listen f\n    bind 127.0.0.1:@port@ ssl crt {authority.issue('one.example')}\n"
                f"    server s 127.0.0.1:{server.port} ssl verify none")
    faults = []
    with World(binary, folder, sections) as world:
        def exchange(number):
            try:
                client = http.client.HTTPConnection("x", timeout=20)
                client.sock = connect(world.port, authority)
                for size in (1, 16383, 16384, 16385, 40000, 1_000_003):
                    client.request("POST", f"/{size}", b"y" * (size + number))
                    response = client.getresponse()
                    body = response.read()
                    assert body == f"{size + number:08}".encode() + b"x" * size, (size, len(body))
            except Exception as error:  # noqa: BLE001
                faults.append(error)

        threads = [threading.Thread(target=exchange, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not faults, faults


def test_a_handshake_in_segments_of_one_byte_succeeds(binary, folder):
    """Each byte of the client is a segment of its own."""
    authority = Authority(folder)
    with World(binary, folder, frontend(f"ssl crt {authority.issue('one.example')}")) as world:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=authority.certificate)
        client = context.wrap_bio(incoming, outgoing, server_hostname="one.example")
        with socket.create_connection(("127.0.0.1", world.port), 5) as raw:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def settle(step):
                while True:
                    try:
                        result = step()
                    except ssl.SSLWantReadError:
                        result = None
                    for byte in outgoing.read():
                        raw.sendall(bytes([byte]))
                    if result is not None:
                        return result
                    incoming.write(raw.recv(65536))

            settle(lambda: client.do_handshake() or True)
            client.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert b"200 OK" in settle(lambda: client.read(10000))


def test_resumed_sessions_keep_the_verification_result_of_the_client(binary, folder):
    """Verification results of a client's certificate persist in resumed sessions, and a new set of authorities applies
    to them, too."""
    authority, other = Authority(folder), Authority(folder, "other")
    site, foreign = authority.issue("one.example"), other.issue("me.example")
    line = f"ssl crt {site} ca-file {authority.certificate} verify optional crt-ignore-err all ca-ignore-err all"
    with World(binary, folder, frontend(line, "%[ssl_c_verify] %[ssl_c_err] %[ssl_fc_is_resumed]")) as world:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.minimum_version = context.maximum_version = version
            context.load_cert_chain(foreign)
            session, found = None, []
            for _ in range(2):
                raw = socket.create_connection(("127.0.0.1", world.port), 5)
                with context.wrap_socket(raw, server_hostname="one.example", session=session) as connection:
                    found.append(ask_over(connection).split(b"\r\n\r\n")[1])
                    session = connection.session
            assert found == [b"21 20 0", b"21 20 1"], (version, found)


def test_tcp_mode_passes_data_and_fin_through_tls_on_either_side(binary, folder):
    """TCP mode with TLS towards the client or towards the server; the client's end is passed on."""
    authority = Authority(folder)
    second = free_port()
    sections = (f"listen f\n    mode tcp\n    bind 127.0.0.1:@port@ \n    server s 127.0.0.1:{second} ssl ca-file {authority.certificate} sni str(one.example)\n"
                f"listen g\n    mode tcp\n    bind 127.0.0.1:{second} ssl crt {authority.issue('one.example')}\n    server s 127.0.0.1:{Server(backwards).port}")
    with World(binary, folder, sections) as world:
        for size in (3, 100_000):
            said = random.randbytes(size)
            with socket.create_connection(("127.0.0.1", world.port), 10) as client:
                client.sendall(said)
                client.shutdown(socket.SHUT_WR)
                heard_ = read_all(client)
            assert heard_ == said[::-1], (size, len(heard_))
