"""TLS listeners: ticket keys, certificate stores, OCSP responses."""
import base64
import os
import random
import re
import shutil
import socket
import ssl
import time

from lib.program import ask, free_port, run, wait_until
from lib.tls import CONFIGURATION, Authority, World, ask_over, connect, frontend, openssl, refused

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def resumes(world, kept, version, save=False):
    """Whether a client's session was resumed; `save` begins a new one and writes it to the file."""
    said = openssl("s_client", "-quiet", "-connect", f"127.0.0.1:{world.port}", version, "-sess_out" if save else "-sess_in", kept,
                   stdin=REQUEST)
    assert said.rstrip()[-1] in "01", said
    return said.rstrip().endswith("1")


def ticket_keys(folder, name, secrets):
    return folder.file(name, "".join(base64.b64encode(secret).decode() + "\n" for secret in secrets))


def test_session_tickets_are_accepted_where_their_keys_are_known(binary, folder):
    """Two processes with the same key file, one with other keys, and keys set by the runtime API."""
    site = Authority(folder).issue("one.example")
    for length in (48, 80):
        secrets = [random.randbytes(length) for _ in range(5)]
        same, other = ticket_keys(folder, "same", secrets[:3]), ticket_keys(folder, "other", secrets[2:])
        cli = folder.path + "/cli"
        world = lambda keys, extra="": World(binary, folder, frontend(f"ssl crt {site} tls-ticket-keys {keys}", "%[ssl_fc_is_resumed]"), extra)
        kept = folder.path + "/session"
        with world(same) as first:
            for version in ("-tls1_2", "-tls1_3"):
                assert not resumes(first, kept + version, version, save=True)
        for version in ("-tls1_2", "-tls1_3"):
            with world(same) as second:
                assert resumes(second, kept + version, version), version
            with world(other, f"stats socket {cli} level admin") as third:
                assert not resumes(third, kept + version, version), version
                assert ask(cli, "show tls-keys") == f"# id (file)\n0 ({other})\n\n"
                assert ask(cli, "show tls-keys #0").splitlines()[3].split() == ["0.1", base64.b64encode(secrets[3]).decode()]
                for secret in secrets[:2]:
                    assert ask(cli, f"set ssl tls-key #0 {base64.b64encode(secret).decode()}") == "TLS ticket key updated!\n\n"
                assert resumes(third, kept + version, version), version
                assert "wrong size" in ask(cli, f"set ssl tls-key {other} {base64.b64encode(b'short').decode()}")
    few = ticket_keys(folder, "few", secrets[:2])
    assert f"'{few}' holds 2 keys for tickets, and at least 3 are needed." in refused(binary, folder, f"ssl crt {site} tls-ticket-keys {few}")


def test_session_tickets_do_not_bypass_client_verification(binary, folder):
    """A session from a listener that does not verify clients cannot be resumed on one that does, even with shared
    ticket keys."""
    authority = Authority(folder)
    site, own = authority.issue("one.example"), authority.issue("client")
    keys = ticket_keys(folder, "keys", [random.randbytes(80) for _ in range(3)])
    second = free_port()
    sections = (frontend(f"ssl crt {site} tls-ticket-keys {keys}", "%[ssl_fc_is_resumed]")
                + f"\n    bind 127.0.0.1:{second} ssl crt {site} tls-ticket-keys {keys} verify required ca-file {authority.certificate}")
    with World(binary, folder, sections) as world:
        kept = folder.path + "/session"
        assert not resumes(world, kept, "-tls1_3", save=True) and resumes(world, kept, "-tls1_3")
        said = openssl("s_client", "-connect", f"127.0.0.1:{second}", "-tls1_3", "-sess_in", kept, "-ign_eof", stdin=REQUEST)
        assert "alert certificate required" in said, said
        with connect(second, own=own) as connection:
            assert ask_over(connection).endswith(b"0")


def test_sessions_expire_after_tune_ssl_lifetime(binary, folder):
    """`tune.ssl.lifetime`, for tickets and for sessions in the cache."""
    site = Authority(folder).issue("one.example")
    for word in ("", " no-tls-tickets"):
        with World(binary, folder, frontend(f"ssl crt {site}{word}", "%[ssl_fc_is_resumed]"), "tune.ssl.lifetime 2") as world:
            kept = folder.path + "/session"
            assert not resumes(world, kept, "-tls1_2", save=True)
            assert resumes(world, kept, "-tls1_2"), word
            time.sleep(3.1)
            assert not resumes(world, kept, "-tls1_2"), word


def cli_of(folder):
    return folder.path + "/cli", f"stats socket {folder.path}/cli level admin"


def test_crt_store_certificates_are_used_by_alias_store_and_path(binary, folder):
    """`crt-store`: by alias, by name of a store, by path; used from `bind`, from a list, and by `ssl-f-use`."""
    authority = Authority(folder)
    one = authority.issue("one.example", key_apart=True)
    os.rename(one + ".key", folder.path + "/elsewhere.key")
    two, three, four = (authority.issue(f"{name}.example") for name in ("two", "three", "four"))
    five = authority.issue("five.example", key_apart=True)
    os.rename(five + ".key", folder.path + "/five.key")
    cli, socket_line = cli_of(folder)
    listed = folder.file("list", "@web/two.example.pem [ssl-min-ver TLSv1.3]\n")
    stores = (f"crt-store\n    load crt {one} key elsewhere.key alias first\n    load crt {three}\n"
              f"crt-store web\n    crt-base {folder.path}\n    load crt two.example.pem\n")
    sections = (stores.replace("elsewhere.key", folder.path + "/elsewhere.key")
                + frontend(f"ssl crt @/first crt-list {listed} crt {three}", "%[ssl_f_s_dn(CN)] %[ssl_fc_protocol]")
                + f"\n    ssl-f-use crt {four} ssl-max-ver TLSv1.2\n    ssl-f-use crt {five} key {folder.path}/five.key\n")
    with World(binary, folder, sections, socket_line) as world:
        for name, version in (("one", "1.3"), ("two", "1.3"), ("three", "1.3"), ("four", "1.2"), ("five", "1.3"), ("none", "1.3")):
            with connect(world.port, name=f"{name}.example") as connection:
                said = ask_over(connection).split(b"\r\n\r\n")[1].decode()
            assert said == f"{'one' if name == 'none' else name}.example TLSv{version}", (name, said)
        assert ask(cli, "show ssl cert").split() == ["#", "filename", five, four, three, "@/first", "@web/two.example.pem"]
        assert ask(cli, "show ssl crt-list").split() == [listed, "@f"]
        assert ask(cli, "show ssl crt-list @f") == f"# @f\n{four} [ssl-max-ver TLSv1.2]\n{five} [key {folder.path}/five.key]\n\n"
        assert f"Entry '{four}' deleted in crtlist '@f'!" in ask(cli, f"del ssl crt-list @f {four}")
        assert "deleted" in ask(cli, f"del ssl cert {four}")
        assert "in use" in ask(cli, "del ssl cert @/first")
        with connect(world.port, name="four.example") as connection:
            assert ask_over(connection).endswith(b"one.example TLSv1.3")
    for lines, line, said in ((f"load crt {one} alias a", "crt @/a", f"'{one}' holds no private key"),
                              ("load key x", "crt @/a", "mandatory 'crt' parameter not found"),
                              (f"load crt {two} alias a\n load crt {three} alias a", "crt @/a", "store '@/a' was already defined"),
                              (f"load crt {two} alias a", "crt @/b", "no 'crt-store' section has a certificate '@/b'"),
                              (f"load crt {two} foo x", f"crt {two}", "unknown keyword 'foo'"),
                              (f"load crt {two}\n crt-base /", f"crt {two}", "'crt-base' can't be used after a load line"),
                              (f"load crt {two}", f"crt {two}\n ssl-f-use crt {two} key {folder.path}/five.key", "was loaded before, with other files"),
                              (f"load crt {two}", f"crt {two}\n ssl-f-use alpn h2", "no 'crt' keyword specified")):
        found = refused(binary, folder, "", sections=f"crt-store\n {lines}\n" + frontend(f"ssl {line}"))
        assert said in found, found


def answered(authority, folder, site, days=2, line=None):
    """The OCSP response of an authority for a certificate, as bytes."""
    serial = openssl("x509", "-in", site, "-noout", "-serial").strip().split("=")[1]
    index, question, answer = (os.path.join(folder.path, name) for name in ("index", "question", "answer"))
    with open(index, "w") as out:
        out.write((line or "V\t491130000000Z\t\t{}\tunknown\t/CN=x\n").format(serial))
    open(index + ".attr", "w").close()
    openssl("ocsp", "-issuer", authority.certificate, "-cert", site, "-no_nonce", "-reqout", question)
    openssl("ocsp", "-index", index, "-rsigner", authority.certificate, "-rkey", authority.key, "-CA", authority.certificate,
            "-reqin", question, "-respout", answer, *(["-ndays", str(days)] if days else []))
    return open(answer, "rb").read()


def stapled(port):
    """The certificate status that is stapled for a client."""
    said = openssl("s_client", "-connect", f"127.0.0.1:{port}", "-servername", "one.example", "-status")
    return next((line.split(": ")[1] for line in said.splitlines() if "Cert Status" in line), None)


def test_ocsp_responses_are_stapled_shown_and_updated(binary, folder):
    """`.ocsp` files, and their updates by the runtime API."""
    authority = Authority(folder)
    site = authority.issue("one.example")
    shutil.copy(authority.certificate, site + ".issuer")
    good = answered(authority, folder, site)
    with open(site + ".ocsp", "wb") as out:
        out.write(good)
    revoked = answered(authority, folder, site, line="R\t491130000000Z\t261101000000Z,keyCompromise\t{}\tunknown\t/CN=x\n")
    endless = answered(authority, folder, site, days=0)
    cli, socket_line = cli_of(folder)
    with World(binary, folder, frontend(f"ssl crt {site}"), socket_line) as world:
        assert stapled(world.port) == "good"
        listing = ask(cli, "show ssl ocsp-response").splitlines()
        key = listing[1].split(" : ")[1]
        assert listing[0] == "# Certificate IDs" and listing[2] == f"Certificate path : {site}", listing
        shown = ask(cli, f"show ssl ocsp-response {key}")
        described = ask(cli, f"show ssl cert {site}")
        assert f"OCSP Response Key: {key.removeprefix('Certificate ID key : ')}\n" in described
        assert re.search(f"^Crt filename: {site}\nKey filename: .*\nOCSP filename: .*\nOption: ocsp-update off\nOption: jwt off\nStatus: Used$", described, re.M)
        assert "Cert Status: good" in shown and "Responder Id: CN = authority" in shown, shown
        assert shown == ask(cli, f"show ssl ocsp-response text {site}") == ask(cli, f"show ssl cert {site}.ocsp")
        assert base64.b64decode(ask(cli, f"show ssl ocsp-response base64 {key}")) == good
        set_ = lambda response: ask(cli, f"set ssl ocsp-response {base64.b64encode(response).decode()}")
        assert set_(revoked) == "OCSP Response updated!\n\n"
        assert stapled(world.port) == "revoked"
        assert set_(endless) == "OCSP single response: missing nextupdate.\n\n"
        other = Authority(folder, "other")
        assert "does not match any certificate" in set_(answered(other, folder, other.issue("two.example")))
        # A transaction puts the first one back.
        assert "Transaction created" in ask(cli, f"set ssl cert {site}.ocsp <<\n{base64.b64encode(good).decode()}\n")
        assert "Cert Status: good" in ask(cli, f"show ssl cert *{site}.ocsp")
        assert stapled(world.port) == "revoked"
        assert "Success!" in ask(cli, f"commit ssl cert {site}")
        assert stapled(world.port) == "good"


def test_certificate_files_can_be_deleted_once_no_line_names_them(binary, folder):
    """A list is found with trailing slashes in its name; deleting a line of it releases the line's `ca-file`."""
    authority, (cli, socket_line) = Authority(folder), cli_of(folder)
    one, two = authority.issue("one.example"), authority.issue("two.example")
    listed = folder.file("list", f"{one}\n{two} [verify optional ca-file {authority.certificate}] two.example\n")
    with World(binary, folder, frontend(f"ssl crt-list {listed}"), socket_line):
        assert f"{two} [" in ask(cli, f"show ssl crt-list {listed}//"), ask(cli, f"show ssl crt-list {listed}//")
        assert "in use" in ask(cli, f"del ssl ca-file {authority.certificate}")
        assert "deleted in crtlist" in ask(cli, f"del ssl crt-list {listed}/ {two}")
        assert "deleted!" in ask(cli, f"del ssl ca-file {authority.certificate}")
        # The remaining certificates are served as before.
        assert f"{one}" in ask(cli, "show ssl sni") and two not in ask(cli, "show ssl sni")


def test_ocsp_responses_that_cannot_be_stapled_are_reported(binary, folder):
    """A damaged response, one without nextUpdate, one for another certificate, and one of an unknown issuer."""
    authority = Authority(folder)
    site, other = authority.issue("one.example"), authority.issue("two.example")
    shutil.copy(authority.certificate, site + ".issuer")
    text = CONFIGURATION.format(log=514, extra="", defaults="", sections=frontend(f"ssl crt {site}").replace("@port@", "1"))
    for response, said in ((b"nothing", "Unable to parse OCSP response."),
                           (answered(authority, folder, site, days=0), "missing nextupdate."),
                           (answered(authority, folder, other), "it is about another certificate.")):
        with open(site + ".ocsp", "wb") as out:
            out.write(response)
        status, _, printed = run(binary, "-c", "-f", folder.file("told.cfg", text))
        assert status == 0 and said in printed, (status, printed)
    os.remove(site + ".issuer")
    with open(site + ".ocsp", "wb") as out:
        out.write(answered(authority, folder, site))
    assert "who issued it is not known" in refused(binary, folder, f"ssl crt {site}")


def test_signature_algorithms_follow_sigalgs_and_client_sigalgs(binary, folder):
    """`sigalgs` for signatures of weir, `client-sigalgs` for those of clients, on a `bind` line and in the global section."""
    authority = Authority(folder)
    site, own = authority.issue("one.example", kind="rsa"), authority.issue("client", kind="rsa")
    key = lambda world, *more: openssl("s_client", "-connect", f"127.0.0.1:{world.port}", *more)
    for line, extra in ((" sigalgs RSA-PSS+SHA512:RSA+SHA512", ""), ("", "ssl-default-bind-sigalgs rsa_pss_rsae_sha512:RSA+SHA512")):
        with World(binary, folder, frontend(f"ssl crt {site}{line}"), extra) as world:
            for version in ("-tls1_2", "-tls1_3"):
                assert "Peer signing digest: SHA512" in key(world, version), version
            assert "Peer signing digest" not in key(world, "-tls1_3", "-sigalgs", "RSA-PSS+SHA256")
    asking = f"ssl crt {site} verify required ca-file {authority.certificate} client-sigalgs RSA-PSS+SHA384"
    with World(binary, folder, frontend(asking)) as world:
        said = key(world, "-cert", own, "-tls1_3")
        assert "Requested Signature Algorithms: RSA-PSS+SHA384\n" in said, said
        with connect(world.port, own=own) as connection:
            assert ask_over(connection).endswith(b"one.example")


def test_maxsslconn_and_maxsslrate_limit_tls_sessions(binary, folder):
    """`maxsslconn`, `maxsslrate`, and the session figures of `show info`."""
    site = Authority(folder).issue("one.example")
    cli, socket_line = cli_of(folder)
    figures = lambda: dict(line.split(": ", 1) for line in ask(cli, "show info").splitlines() if ": " in line)
    with World(binary, folder, frontend(f"ssl crt {site}"), f"maxsslconn 2\n    {socket_line}") as world:
        held = [connect(world.port) for _ in range(2)]
        wait_until(lambda: figures()["CurrSslConns"] == "2")
        assert figures()["MaxSslConns"] == "2"
        third = socket.create_connection(("127.0.0.1", world.port), 5)
        late = ssl._create_unverified_context().wrap_socket(third, server_hostname="one.example", do_handshake_on_connect=False)
        late.settimeout(0.5)
        try:
            late.do_handshake()
            raise AssertionError("a session beyond the limit")
        except TimeoutError:
            pass
        held.pop().close()
        late.settimeout(5)
        late.do_handshake()
        assert ask_over(late).endswith(b"one.example")
        found = figures()
        assert int(found["CumSslConns"]) >= 3 and int(found["SslFrontendMaxKeyRate"]) >= 1, found
    # A client that withholds its PROXY header counts once against the limit; its session keeps that slot later.
    with World(binary, folder, frontend(f"ssl crt {site} accept-proxy"), f"maxsslconn 2\n    {socket_line}") as world:
        assert wait_until(lambda: figures()["CurrSslConns"] == "0"), "the connection that asked whether it serves"
        silent = [socket.create_connection(("127.0.0.1", world.port), 5) for _ in range(2)]
        assert wait_until(lambda: figures()["CurrSslConns"] == "2"), figures()
        for client in silent:
            client.sendall(b"PROXY TCP4 192.0.2.7 192.0.2.8 77 2\r\n")
        for client in silent:
            with ssl._create_unverified_context().wrap_socket(client, server_hostname="one.example") as connection:
                assert ask_over(connection).endswith(b"one.example")
        assert wait_until(lambda: figures()["CurrSslConns"] == "0"), figures()
    with World(binary, folder, frontend(f"ssl crt {site}"), f"maxsslrate 5\n    {socket_line}") as world:
        began = time.monotonic()
        for _ in range(12):
            with connect(world.port) as connection:
                assert ask_over(connection).endswith(b"one.example")
        assert time.monotonic() - began > 1, "twelve sessions within a second"
        found = figures()
        assert found["SslRateLimit"] == "5" and 1 <= int(found["MaxSslRate"]) <= 7, found
        assert ask(cli, "set rate-limit ssl-sessions global 1000") == "\n"
        assert figures()["SslRateLimit"] == "1000"
    # Sessions stored in weir are looked up in the cache.
    with World(binary, folder, frontend(f"ssl crt {site} no-tls-tickets", "%[ssl_fc_is_resumed]"), socket_line) as world:
        kept = folder.path + "/session"
        resumes(world, kept, "-tls1_2", save=True)
        assert resumes(world, kept, "-tls1_2")
        found = figures()
        assert (found["SslCacheLookups"], found["SslCacheMisses"]) == ("1", "0"), found


def test_generate_certificates_signs_certificates_for_unknown_sni(binary, folder):
    """`generate-certificates`: signed by the authority of `ca-sign-file`, and kept in a cache of bounded size."""
    for kind in ("ec", "rsa"):
        authority = Authority(folder, kind)
        if kind == "rsa":
            openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", authority.key, "-out", authority.certificate, "-days", "30",
                    "-subj", "/O=tests & co/CN=rsa", "-addext", "keyUsage=critical,keyCertSign")
        site = authority.issue("one.example", kind=kind)
        signer = folder.file(f"signer-{kind}", open(authority.certificate).read() + open(authority.key).read())
        line = f"ssl crt {site} generate-certificates ca-sign-file {signer}"
        with World(binary, folder, frontend(line, "%[ssl_f_s_dn(CN,-1)] %[ssl_f_serial,hex] %[ssl_f_s_dn(CN)],%[ssl_f_s_dn(O)]"), "tune.ssl.ssl-ctx-cache-size 2") as world:
            def shown(name):
                with connect(world.port, authority, name=name) as connection:
                    return ask_over(connection).split(b"\r\n\r\n")[1].decode().split()
            # Python's client checks chain and name of each.
            first = shown("forged.example")
            # The authority's subject and the name.
            own = openssl("x509", "-in", authority.certificate, "-noout", "-subject", "-nameopt", "multiline")
            of = [line.split("= ", 1)[1].replace(" ", "") for line in own.splitlines() if "commonName" in line]
            assert "".join(first[2:]).startswith(of[0]), (first, own)
            assert first[0] == "forged.example" and shown("forged.example") == first and shown("one.example")[0] == "one.example"
            longest = ".".join(["a" * 60] * 4)
            assert shown(longest)[-1] == ","
            assert shown("forged.example") == first
            shown("b.example"), shown("c.example")
            assert shown("forged.example") != first
            with open(folder.path + "/chain", "w") as out:
                said = openssl("s_client", "-connect", f"127.0.0.1:{world.port}", "-servername", "forged.example")
                out.write(said[said.index("-----BEGIN"):])
            said = openssl("verify", *(["-x509_strict"] if kind == "rsa" else []), "-purpose", "sslserver", "-CAfile", authority.certificate, folder.path + "/chain")
            assert said.endswith(": OK\n"), said
            # A client that sends an SNI that is not a valid name, or none at all, gets the default certificate.
            with connect(world.port, name=None) as connection:
                assert b"one.example" in ask_over(connection)
    assert "add 'ca-sign-file <file>'" in refused(binary, folder, f"ssl crt {site} generate-certificates")
    assert "holds no private key" in refused(binary, folder, f"ssl crt {site} generate-certificates ca-sign-file {authority.certificate}")


def test_issuers_chain_path_completes_certificate_chains(binary, folder):
    """A certificate without a chain in its file gets the chain that begins with its issuer's certificate; an unwanted
    root is left out."""
    root = Authority(folder, "root")
    between = Authority(folder, "between")
    between.certificate = root.issue("between", key_apart=True)
    between.key = between.certificate + ".key"
    site, direct = between.issue("one.example"), root.issue("two.example")
    os.mkdir(f"{folder.path}/chains")
    chain = folder.file("chains/a.pem", open(between.certificate).read() + open(root.certificate).read())
    folder.file("chains/b.pem", open(between.certificate).read())
    folder.file("chains/c.txt", "no certificate")
    folder.file("direct.pem", open(direct).read() + open(root.certificate).read())
    cli = folder.path + "/cli"
    lines = f"stats socket {cli} level admin\n issuers-chain-path {folder.path}/chains"

    def presented(world, name):
        said = openssl("s_client", "-connect", f"127.0.0.1:{world.port}", "-servername", name, "-showcerts", stdin=b"")
        return re.findall(r"^ ?\d+ s:.*CN ?= ?(\S+)", said, re.M)

    bind = f"ssl crt {site} crt {folder.path}/direct.pem"
    for extra, of_direct in (("", ["two.example", "root"]), ("\n ssl-skip-self-issued-ca", ["two.example"])):
        with World(binary, folder, frontend(bind), lines + extra) as world:
            assert presented(world, "one.example") == ["one.example", "between", "root"]
            assert presented(world, "two.example") == of_direct
            assert f"Chain Filename: {chain}\n" in ask(cli, f"show ssl cert {site}")
            assert "Chain Filename" not in ask(cli, f"show ssl cert {folder.path}/direct.pem")
            # Certificates changed by an operator are completed like those from files.
            renewed = open(between.issue("one.example", file="new.pem")).read()
            assert "created" in ask(cli, f"set ssl cert {site} <<\n{renewed}")
            assert "Success!" in ask(cli, f"commit ssl cert {site}")
            assert presented(world, "one.example") == ["one.example", "between", "root"]
    text = lambda extra: CONFIGURATION.format(log=514, extra=extra, defaults="", sections=frontend(bind).replace("@port@", "1"))
    status, _, printed = run(binary, "-c", "-f", folder.file("b.cfg", text(lines)))
    warnings = [line.split("config : ", 1)[-1] for line in printed.splitlines() if "WARNING" in line]
    assert status == 0 and warnings == [
        f"duplicate issuers-chain {folder.path}/chains/b.pem: {chain} already in store",
        f"unable to load issuers-chain {folder.path}/chains/c.txt : pem certificate not found."], printed
    status, _, printed = run(binary, "-c", "-f", folder.file("b.cfg", text(f"issuers-chain-path {folder.path}/nowhere")))
    assert status == 1 and f"expects a folder that can be read: '{folder.path}/nowhere'" in printed, printed
