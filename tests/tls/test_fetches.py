"""Fetches on the ClientHello and on keys, compared with the client's own report."""
import hashlib
import http.client
import os
import re
import socket
import ssl
import struct
import subprocess

from lib.origin import Origin
from lib.program import wait_until
from lib.tls import Authority, SecureServer, World, ask_over, frontend, openssl

LISTS = " ".join(f"{name}=%[{fetch}]" for name, fetch in {
    "bin": "ssl_fc_cipherlist_bin,hex", "bin1": "ssl_fc_cipherlist_bin(1),hex", "hex": "ssl_fc_cipherlist_hex",
    "hex1": "ssl_fc_cipherlist_hex(1)", "str": "ssl_fc_cipherlist_str", "str1": "ssl_fc_cipherlist_str(1)",
    "xxh": "ssl_fc_cipherlist_xxh", "hello": "ssl_fc_protocol_hello_id", "ext": "ssl_fc_extlist_bin,hex",
    "ext1": "ssl_fc_extlist_bin(1),hex", "ec": "ssl_fc_eclist_bin,hex", "ec1": "ssl_fc_eclist_bin(1),hex",
    "fmt": "ssl_fc_ecformats_bin,hex", "sig": "ssl_fc_sigalgs_bin,hex", "ver": "ssl_fc_supported_versions_bin,hex",
    "ver1": "ssl_fc_supported_versions_bin(1),hex"}.items())
# The values of HAProxy 3.2 with OpenSSL 3.6 for the same hello.
WHOLE = {"bin": "0A0AFFFEC02B0005130100FF5600", "bin1": "FFFEC02B0005130100FF5600", "hex": "0A0AFFFEC02B0005130100FF5600",
         "hex1": "FFFEC02B0005130100FF5600", "xxh": "-6306197766768083783", "hello": "771", "ext": "1A1A0000000A000B002B000D",
         "str1": "UNKNOWN(fffe),ECDHE-ECDSA-AES128-GCM-SHA256,UNKNOWN(0005),TLS_AES_128_GCM_SHA256,TLS_EMPTY_RENEGOTIATION_INFO_SCSV,TLS_FALLBACK_SCSV",
         "ext1": "0000000A000B002B000D", "ec": "2A2A001D0017", "ec1": "001D0017", "fmt": "00", "sig": "04030804", "ver": "3A3A0304", "ver1": "0304"}
WHOLE["str"] = "UNKNOWN(0a0a)," + WHOLE["str1"]
# How long the lists are, in the order in which they are kept.
LENGTHS = {"bin": 14, "ext": 12, "ec": 6, "fmt": 1, "ver": 4, "sig": 4}
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


def vector(size, bytes_):
    return len(bytes_).to_bytes(size) + bytes_


def hello():
    """A hello with GREASE values in each list, an unknown cipher, and no key share: it is refused."""
    ciphers = (0x0a0a, 0xfffe, 0xc02b, 0x0005, 0x1301, 0x00ff, 0x5600)
    extensions = ((0x1a1a, b""), (0, vector(2, b"\0" + vector(2, b"one.example"))), (10, vector(2, bytes.fromhex("2a2a001d0017"))),
                  (11, vector(1, b"\0")), (43, vector(1, bytes.fromhex("3a3a0304"))), (13, vector(2, bytes.fromhex("04030804"))))
    listed = b"".join(struct.pack(">H", kind) + vector(2, content) for kind, content in extensions)
    body = (b"\x03\x03" + bytes(range(32)) + vector(1, b"") + vector(2, b"".join(struct.pack(">H", cipher) for cipher in ciphers))
            + vector(1, b"\0") + vector(2, listed))
    return b"\x16\x03\x01" + vector(2, b"\x01" + vector(3, body))


def test_client_hello_lists_are_cut_to_the_capture_buffer_size(binary, folder):
    """Each list of the ClientHello by its fetch, as in HAProxy 3.2; lists that do not fit are cut, and the digest covers all of them."""
    site = Authority(folder).issue("one.example")
    sections = frontend(f"ssl crt {site}", more=f'error-log-format "{LISTS}"')
    for room in (400, 41, 40, 33, 27, 20, 13, 1, 0):
        with World(binary, folder, sections, extra=f"tune.ssl.capture-buffer-size {room}") as world:
            with socket.create_connection(("127.0.0.1", world.port), 5) as client:
                client.sendall(hello())
                assert client.recv(100)[0] == 21
            said = dict(re.findall(r"(\w+)=(\S*)", world.log.line()))
        if room >= 41:
            assert said == WHOLE, (room, said)
            continue
        left = room
        for name, length in LENGTHS.items():
            count = min(left, length)
            left -= count
            assert said[name] in (WHOLE[name][:2 * count], "-" if count == 0 else None), (room, name, said)
        assert said["xxh"] == (WHOLE["xxh"] if room else "-"), (room, said)


# The values of HAProxy 3.2 for a client's certificate.
NAMES = {
    "s_dn": '/C=DE/O=Org, A/OU=first/OU=second/CN=Cli "Ent" \u00fcmlaut+x/emailAddress=a@b.c', "s_dn(OU)": "first", "s_dn(OU,2)": "second",
    "s_dn(OU,-1)": "second", "s_dn(OU,-2)": "first", "s_dn(OU,3)": "", "s_dn(OU,-3)": "", "s_dn(OU,0)": "", "s_dn(nope)": "",
    "s_dn(emailAddress)": "a@b.c", "s_dn(CN)": 'Cli "Ent" \u00fcmlaut+x', "s_dn(OU,1,rfc2253)": "first", "i_dn": "/CN=authority",
    "s_dn(,0,rfc2253)": 'emailAddress=a@b.c,CN=Cli \\"Ent\\" \\C3\\BCmlaut\\+x,OU=second,OU=first,O=Org\\, A,C=DE',
    "s_dn(,1,rfc2253)": 'emailAddress=a@b.c,CN=Cli \\"Ent\\" \\C3\\BCmlaut\\+x,OU=second,OU=first,O=Org\\, A,C=DE',
    "serial,hex": "FF01", "version": "1", "key_alg": "id-ecPublicKey", "sig_alg": "ecdsa-with-SHA256",
}


def test_certificate_names_have_the_format_of_haproxy(binary, folder):
    """Entries by position, escapes, serial numbers; a name with a NUL is empty. The client's SNI keeps its case."""
    authority = Authority(folder)
    site, own = authority.issue("one.example"), folder.path + "/own"

    def issue(subject, zero=b""):
        openssl("req", "-utf8", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", own + ".key", "-out", own + ".csr",
                "-multivalue-rdn", "-subj", subject)
        openssl("x509", "-req", "-in", own + ".csr", "-CA", authority.certificate, "-CAkey", authority.key, "-set_serial", "0xff01", "-outform", "der",
                "-out", own + ".der", "-days", "20")
        der = open(own + ".der", "rb").read()
        assert zero in der
        with open(own + ".der", "wb") as out:
            out.write(der.replace(zero, b"\0" * len(zero)) if zero else der)
        openssl("x509", "-inform", "der", "-in", own + ".der", "-out", own + ".pem")

    # A value may hold a quote: one header for each.
    rules = "\n    ".join(f'http-after-response add-header x-{number} "<%[ssl_c_{name}]>"' for number, name in enumerate(NAMES))
    line = f"ssl crt {site} ca-file {authority.certificate} verify optional crt-ignore-err all"
    with World(binary, folder, frontend(line, "%[ssl_fc_sni] %[ssl_fc_has_sni]", rules)) as world:
        def said():
            said = subprocess.run(["openssl", "s_client", "-quiet", "-connect", f"127.0.0.1:{world.port}", "-servername", "One.eXample", "-cert", own + ".pem",
                                   "-key", own + ".key"], input=b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", capture_output=True, timeout=10)
            answer = said.stdout.decode()
            assert answer.endswith("\r\n\r\nOne.eXample 1"), answer
            values = re.findall(r"\r\nx-\d+: <(.*?)>(?=\r\n)", answer)
            return dict(zip(NAMES, values, strict=True))
        issue('/C=DE/O=Org, A/OU=first/OU=second/CN=Cli "Ent" \u00fcmlaut\\+x/emailAddress=a@b.c')
        assert said() == NAMES, {name: value for name, value in said().items() if value != NAMES[name]}
        # The signature is broken, but errors are ignored. The mark is long: random bytes of the key or the serial do
        # not match it.
        issue("/O=all/CN=good.exampleQZQZQZ.bad.example", b"QZQZQZ")
        names = said()
        assert (names["s_dn"], names["s_dn(CN)"], names["i_dn"]) == ("", "", "/CN=authority"), names


def test_session_secrets_are_available_with_keylog(binary, folder):
    """`tune.ssl.keylog`: the values of the client's own key log, for both versions; random numbers with and without it."""
    site = Authority(folder).issue("one.example")
    labels = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0",
              "EXPORTER_SECRET")
    answer = " ".join(["R=%[ssl_fc_client_random,hex,lower]", *(f"{label}=%[ssl_fc_{label.lower()}]" for label in labels)])
    for switch in ("on", "off"):
        with World(binary, folder, frontend(f"ssl crt {site}", answer), extra=f"tune.ssl.keylog {switch}") as world:
            for version in ("-tls1_2", "-tls1_3"):
                log = folder.path + "/keys"
                said = openssl("s_client", "-quiet", "-connect", f"127.0.0.1:{world.port}", version, "-keylogfile", log,
                               stdin=b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                said = dict(re.findall(r"(\w+)=(\S*)", said.split("\r\n\r\n")[-1]))
                with open(log) as file:
                    keys = [line.split() for line in file if not line.startswith("#")]
                os.unlink(log)
                assert {key[1] for key in keys} == {said["R"]}, (said, keys)
                known = {label: key for label, _, key in keys}
                wanted = {label: known.get(label, "") if switch == "on" else "" for label in labels}
                assert {label: said[label] for label in labels} == wanted, (switch, version, said, keys)


def test_session_secrets_of_server_connections_are_available_with_keylog(binary, folder):
    """`ssl_bc_…`: the random numbers differ from the client's side, and the keys are those of the server's own log."""
    server = SecureServer(Authority(folder).issue("one.example"))
    server.context.keylog_filename = folder.path + "/keys"
    words = " ".join(f"%[ssl_bc_{name}]" for name in ("client_random,hex,lower", "server_handshake_traffic_secret",
                                                     "client_traffic_secret_0", "exporter_secret"))
    sections = (f"listen f\n    bind 127.0.0.1:@port@\n    http-response set-header x-keys \"{words}\"\n"
                f"    http-response set-header x-random %[ssl_bc_server_random,hex,length]\n    server s 127.0.0.1:{server.port} ssl verify none")
    with World(binary, folder, sections, extra="tune.ssl.keylog on") as world:
        client = http.client.HTTPConnection("127.0.0.1", world.port, timeout=10)
        client.request("GET", "/")
        response = client.getresponse()
        told = response.headers["x-keys"].split()
        assert (response.status, response.headers["x-random"]) == (200, "64"), response.headers.items()
    with open(server.context.keylog_filename) as file:
        keys = {label: (random_, key) for label, random_, key in (line.split() for line in file if not line.startswith("#"))}
    labels = ("SERVER_HANDSHAKE_TRAFFIC_SECRET", "CLIENT_TRAFFIC_SECRET_0", "EXPORTER_SECRET")
    assert told == [keys[labels[0]][0], *(keys[label][1] for label in labels)], (told, keys)


IDENTITY = " ".join(f"{part}=%[ssl_@_{fetch}]" for part, fetch in (("id", "session_id,hex,lower"), ("key", "session_key,hex,lower"),
                                                                  ("unique", "unique_id,hex,lower"), ("npn", "npn"), ("resumed", "is_resumed")))


def kept_keys(path, label):
    """The keys of this kind in a key log, which is emptied."""
    with open(path, "r+") as file:
        keys = [line.split()[2] for line in file if line.startswith(label)]
        file.truncate(0)
    return keys


def test_ids_and_keys_of_client_sessions_match_openssl(binary, folder):
    """Identifier, key and Finished message are those that OpenSSL has on the other side, where HAProxy 3.2 has them."""
    site, log = Authority(folder).issue("one.example"), folder.file("keys", "")
    for stored, line in ((False, ""), (True, "no-tls-tickets")):
        with World(binary, folder, frontend(f"ssl crt {site} {line}", IDENTITY.replace("@", "fc"))) as world:
            def said(context, session=None):
                with context.wrap_socket(socket.create_connection(("127.0.0.1", world.port), 5), session=session) as connection:
                    answer = ask_over(connection).decode().split("\r\n\r\n")[-1]
                    parts = dict(re.findall(r"(\w+)=(\S*)", answer))
                    assert parts.pop("npn") == "" and parts.pop("resumed") == str(int(connection.session_reused)), answer
                    assert parts["unique"] == connection.get_channel_binding("tls-unique").hex(), (connection.version(), answer)
                    return connection.session, parts

            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                for knows_tickets in (True, False):
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                    context.minimum_version = context.maximum_version = version
                    context.options |= 0 if knows_tickets else ssl.OP_NO_TICKET
                    context.keylog_filename = log
                    first, found = said(context)
                    second, again = said(context, first)
                    kind = (version, stored, knows_tickets)
                    if version == ssl.TLSVersion.TLSv1_3:
                        # The name of a ticket is its digest; a stored session is its own ticket.
                        names = [hashlib.sha256(bytes.fromhex(parts["id"])).digest() for parts in (found, again)]
                        assert [name == session.id for name, session in zip(names, (first, second))] == [stored, stored], kind
                        assert len(found["id"]) == len(again["id"]) == 64 and found["id"] != again["id"], kind
                        continue
                    has_ticket = not stored and knows_tickets
                    assert (found["id"], again["id"]) == ("" if has_ticket else first.id.hex(), first.id.hex()), kind
                    assert [found["key"], again["key"]] == kept_keys(log, "CLIENT_RANDOM"), kind
            # The resumption secret of a TLS 1.3 session is known only to a ticket's owner.
            for resumes in (False, True):
                kept = ["-sess_in", folder.path + "/session"] if resumes else ["-sess_out", folder.path + "/session"]
                text = openssl("s_client", "-connect", f"127.0.0.1:{world.port}", "-tls1_3", "-ign_eof", *kept,
                               stdin=b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                parts = dict(re.findall(r"(\w+)=(\S*)", text[text.index("id="):]))
                assert parts["key"] == re.findall(r"Resumption PSK: (\w+)", text)[-1].lower() and parts["resumed"][0] == str(int(resumes)), text


def test_ids_and_keys_of_server_sessions_match_openssl(binary, folder):
    """The same for connections to servers. HAProxy 3.2 has the server's Finished message for the client's here, and the reverse: RFC 5929, 3, which
    the manual refers to, means the first one on both sides."""
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for has_tickets in (True, False):
            server = SecureServer(Authority(folder).issue("one.example"))
            server.context.minimum_version = server.context.maximum_version = version
            server.context.options |= 0 if has_tickets else ssl.OP_NO_TICKET
            server.context.keylog_filename = folder.path + "/keys"
            sections = (f"listen f\n    bind 127.0.0.1:@port@\n    option httpclose\n    http-response set-header x-told \"{IDENTITY.replace('@', 'bc')}\"\n"
                        f"    server s 127.0.0.1:{server.port} ssl verify none")
            found = []
            with World(binary, folder, sections) as world:
                for _ in range(3):
                    client = http.client.HTTPConnection("127.0.0.1", world.port, timeout=10)
                    client.request("GET", "/")
                    response = client.getresponse()
                    response.read()
                    found.append(dict(re.findall(r"(\w+)=(\S*)", response.headers["x-told"])))
            kind = (version, has_tickets, found)
            resumed, names, uniques = zip(*server.identities)
            # OpenSSL forgets stored sessions that were cut.
            assert not has_tickets or resumed == (False, True, True), kind
            assert tuple(parts["resumed"] == "1" for parts in found) == resumed and {parts["npn"] for parts in found} == {""}, kind
            assert tuple(parts["unique"] for parts in found) == uniques, (kind, uniques)
            ids, keys = [parts["id"] for parts in found], [parts["key"] for parts in found]
            if version == ssl.TLSVersion.TLSv1_2:
                assert keys == kept_keys(server.context.keylog_filename, "CLIENT_RANDOM"), kind
                # The ticket's name, chosen by the client, or the server's session ID.
                assert {len(id) for id in ids} == {64}, kind
                assert len(set(ids)) == 1 if has_tickets else ids == list(names), (kind, names)
            else:
                assert {len(id) for id in ids} == {64} and len(set(ids)) == len(set(keys)) == 3, kind
                # A stored session is its own ticket.
                assert has_tickets or ids == [hashlib.sha256(bytes.fromhex(name)).hexdigest() for name in names], (kind, names)


def test_ssl_bc_fetches_work_in_health_checks(binary, folder):
    """`ssl_bc_…` in rules of checks, as in HAProxy 3.2; empty for checks in plaintext."""
    names = ("ssl_bc", "ssl_bc_err", "ssl_bc_err_str", "ssl_bc_alg_keysize", "ssl_bc_use_keysize", "ssl_bc_alpn", "ssl_bc_cipher", "ssl_bc_curve", "ssl_bc_protocol", "ssl_bc_sni",
             "ssl_bc_is_resumed", "ssl_bc_npn", *(f"ssl_bc_{name},hex,lower" for name in ("client_random", "server_random", "session_id", "session_key", "unique_id")))
    said = " ".join(f"%[{name}]," for name in names)
    certificate = Authority(folder).issue("one.example")
    secure, clear = SecureServer(certificate, answer=EMPTY), Origin(EMPTY)
    secure.context.minimum_version = secure.context.maximum_version = ssl.TLSVersion.TLSv1_2
    secure.context.set_alpn_protocols(["http/1.1"])
    secure.context.keylog_filename = folder.file("keys")
    sections = frontend(f"ssl crt {Authority(folder).issue('two.example')}") + f"""
backend b
    option httpchk
    http-check connect ssl sni a.example alpn http/1.1
    http-check send hdr x-told "{said}"
    server s 127.0.0.1:{secure.port} check inter 100 verify none
backend c
    option httpchk
    http-check send hdr x-told "{said}"
    server s 127.0.0.1:{clear.port} check inter 100
"""
    with World(binary, folder, sections):
        assert wait_until(lambda: secure.requests and clear.requests)
    found = [server.requests[0].field("x-told").rstrip(",").split(", ") for server in (secure, clear)]
    values, unique = found[0], secure.identities[0][2]
    assert [values.pop(1), values.pop(1)] == ["0", ""], found
    assert values[:10] == ["1", "256", "256", "http/1.1", "ECDHE-ECDSA-AES256-GCM-SHA384", values[5], "TLSv1.2", "a.example", "0", ""] and values[5], found
    randoms, key = values[10:12], values[13]
    assert (randoms[0], key) in [(line.split()[1], line.split()[2]) for line in open(secure.context.keylog_filename) if line.startswith("CLIENT_RANDOM")], found
    assert len(randoms[1]) == len(values[12]) == 64 and (values[14], len(unique)) == (unique, 24), found
    assert found[1] == ["0", *[""] * 9, "0", *[""] * 6], found
