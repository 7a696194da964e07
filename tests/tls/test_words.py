"""Messages about lines with TLS: faults of files, names that are never negotiated, combinations of versions."""
import os
import re
import ssl

from lib.program import run
from lib.tls import CONFIGURATION, Authority, World, ask_over, connect, frontend, get_over, openssl, refused


def test_invalid_tls_files_and_settings_are_reported_with_a_remedy(binary, folder):
    """Messages name the file or the setting, and the remedy."""
    authority = Authority(folder)
    good = authority.issue("one.example")
    bare = folder.file("bare.pem", open(authority.certificate).read())
    other_key = folder.file("other.pem", open(authority.certificate).read() + open(authority.issue("two.example")).read().split("-----END CERTIFICATE-----")[1])
    rubbish = folder.file("rubbish.pem", "nothing of use\n")
    listed = folder.file("list", f"{good} [nonsense] one.example\n")
    for line, said in (("ssl", "no SSL certificate specified for bind '127.0.0.1:1' (use 'crt')."),
                       ("ssl crt /none.pem", "unable to read '/none.pem': No such file or directory."),
                       (f"ssl crt {bare}", f"'{bare}' holds no private key, and there is none in '{bare}.key'."),
                       (f"ssl crt {rubbish}", f"'{rubbish}' holds no certificate"),
                       (f"ssl crt {other_key}", f"does not belong to the first certificate of '{other_key}'"),
                       (f"ssl crt {good} verify required", "add 'ca-file <file>'"),
                       (f"ssl crt {good} verify required ca-file {rubbish}", f"'{rubbish}' holds no certificate"),
                       (f"ssl crt {good} ca-file {rubbish}", f"'{rubbish}' holds no certificate"),
                       (f"ssl crt {good} ca-file /none", "/none"),
                       (f"ssl crt {good} crl-file /none", "/none"),
                       ("ssl crt-list /none", "unable to read '/none'"),
                       ("crt-list /none", "unable to read '/none'"),
                       (f"crt-list {listed}", "unknown keyword 'nonsense'"),
                       (f"ssl crt {good} force-tlsv10", "TLSv1.0 is not supported: TLSv1.2 and TLSv1.3 are"),
                       (f"ssl crt {good} ssl-max-ver TLSv1.1", "write 'ssl-min-ver TLSv1.2'"),
                       (f"ssl crt {good} force-tlsv12 ciphers AES128-SHA", "no cipher is left of 'AES128-SHA'"),
                       # No cipher is left of a word that OpenSSL does not know, or of a selector for unsupported ciphers.
                       (f"ssl crt {good} ciphers ECDHE-RSA-AES128-GCM-SHA265", "no cipher is left of 'ECDHE-RSA-AES128-GCM-SHA265'"),
                       (f"ssl crt {good} ciphers PSK", "no cipher is left of 'PSK'"),
                       (f"ssl crt {good} ciphers @STRENGTH", "no cipher is left of '@STRENGTH'"),
                       (f"ssl crt {good} ciphersuites TLS_AES_128", "no cipher is left of 'TLS_AES_128': write 'TLS_AES_128_GCM_SHA256'"),
                       (f"ssl crt {good} client-sigalgs nonsense", "no signature algorithm is left of 'nonsense'"),
                       (f"ssl crt {good} alpn ,", "empty protocol name"),
                       (f"ssl crt {good} alpn h3", "'alpn h3' is not implemented yet"),
                       (f"ssl crt {good} tls-ticket-keys /none", "'tls-ticket-keys' : unable to read '/none'")):
        assert said in (found := refused(binary, folder, line)), found
    for words, said in (("none all", "'none' stands alone"), ("key all", "'all' stands alone"), ("ssl-min-ver TLSv1.2", "unknown option 'ssl-min-ver'")):
        found = refused(binary, folder, f"ssl crt {good}", extra=f"ssl-load-extra-files {words}")
        assert said in found, found
    found = refused(binary, folder, f"ssl crt {good} sigalgs RSA+SHA1")
    assert "no signature algorithm is left of 'RSA+SHA1'" in found, found


def test_unsupported_tls_names_are_reported_once_as_a_warning(binary, folder):
    """A configuration with unsupported names starts; settings that are always met need no warning."""
    site = Authority(folder).issue("one.example")
    timed = folder.file("timed.pem", open(site).read())
    folder.file("timed.pem.sctl", "x")
    many = folder.path + "/many"
    os.mkdir(many)
    folder.file("many/one.pem", open(site).read())
    for line, said, extra in ((f"ssl crt {site} no-sslv3 no-tlsv10 no-tlsv11 ciphers HIGH:!aNULL:!MD5", None, ""),
                              (f"ssl crt {site} ssl-min-ver TLSv1.0", "never negotiated, not supported: TLSv1.0 TLSv1.1.", ""),
                              (f"ssl crt {site} ciphers ECDHE+AESGCM:AES128-SHA", "never negotiated, not supported: AES128-SHA.", ""),
                              # A folder does not have lines: the reported place is the line that names it.
                              (f"ssl crt {many} ciphers ECDHE+AESGCM:AES128-SHA", "/b.cfg:", ""),
                              (f"ssl crt {timed} crt {timed}", f"'{timed}.sctl' is not sent", ""),
                              (f"ssl crt {timed}", f"'{timed}.sctl' is not sent", "ssl-load-extra-files key sctl"),
                              (f"ssl crt {timed}", None, "ssl-load-extra-files bundle ocsp issuer key"),
                              (f"ssl crt {timed}", None, "ssl-load-extra-files none"),
                              (f"ssl crt {site} alpn h2,http/1.1", None, ""),
                              (f"ssl crt {site} alpn h2,", "a protocol without a name is left out of 'h2,'", ""),
                              # Names for versions that are never spoken are not checked.
                              (f"ssl crt {site} ciphers AES128-SHA ssl-min-ver TLSv1.3", "never negotiated, not supported: AES128-SHA.", ""),
                              (f"ssl crt {site} crt-ignore-err X509_V_OK,10", None, ""),
                              ("ssl strict-sni", "each handshake fails until one is added", ""),
                              (f"ssl crt {site}", None, "ssl-default-bind-options strict-sni no-strict-sni"),
                              (f"ssl crt {site} alpn h3,h2", "'h3' is not implemented yet and not offered: 'h2' is.", "")):
        text = CONFIGURATION.format(log=514, extra=extra, defaults="", sections=frontend(line).replace("@port@", "1"))
        status, _, printed = run(binary, "-c", "-f", folder.file("b.cfg", text))
        warnings = [text for text in printed.splitlines() if "WARNING" in text]
        assert status == 0 and len(warnings) == (said is not None), printed
        assert said is None or said in warnings[0], warnings
        # With zero-warning, these warnings are errors as well, in a check and at a start, except for names in a list.
        if said and "AES128-SHA" not in line:
            for words in (["-c"], ["-db"]):
                status, _, printed = run(binary, "-dW", *words, "-f", folder.path + "/b.cfg")
                assert status == 1 and printed.count("WARNING") == 1 and "'zero-warning' is set" in printed, printed


# Mozilla's list of ciphers for TLS 1.2 in the intermediate configuration, and those of them that are never negotiated.
INTERMEDIATE = ("ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:"
                "ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:DHE-RSA-AES128-GCM-SHA256:DHE-RSA-AES256-GCM-SHA384:"
                "DHE-RSA-CHACHA20-POLY1305")
NEVER = "never negotiated, not supported: DHE-RSA-AES128-GCM-SHA256 DHE-RSA-AES256-GCM-SHA384 DHE-RSA-CHACHA20-POLY1305."


def test_unsupported_names_in_tls_lists_are_reported_with_their_line(binary, folder):
    """One message for each line that has some, however many certificates it is for. Under `zero-warning` it is a notice, which is shown."""
    authority = Authority(folder)
    site = authority.issue("one.example")
    for name in ("one", "two", "three"):
        authority.issue(f"{name}.example", file=f"sites/{name}.pem")
    listed = folder.file("list", f"# those of the bind line\n{site}\n{site} [ciphers ECDHE+AESGCM:AES128-SHA curves X25519:X448]\n{site} [ciphers {INTERMEDIATE}]\n")
    bind = f"ssl ciphers {INTERMEDIATE}"
    for line, extra, places in (
            (f"ssl crt {site}", f"ssl-default-bind-ciphers {INTERMEDIATE}", [("a.cfg:4", f"'ssl-default-bind-ciphers' : {NEVER}")]),
            (f"{bind} crt {folder.path}/sites", "", [("a.cfg:@bind@", f"'bind 127.0.0.1:@port@' : {NEVER}")]),
            (f"{bind} crt-list {listed}", "", [("a.cfg:@bind@", f"'bind 127.0.0.1:@port@' : {NEVER}"),
                                               ("list:3", "'bind 127.0.0.1:@port@' : never negotiated, not supported: AES128-SHA X448.")]),
            (f"ssl crt {site} crt {folder.path}/sites ciphers ECDHE+AESGCM", f"ssl-default-bind-ciphers {INTERMEDIATE}", []),
            (f"ssl crt {site}", "ssl-default-bind-curves X25519:X448\n    ssl-default-bind-client-sigalgs ECDSA+SHA1:ECDSA+SHA256",
             [("a.cfg:4", "'ssl-default-bind-curves' : never negotiated, not supported: X448."),
              ("a.cfg:5", "'ssl-default-bind-client-sigalgs' : never negotiated, not supported: ECDSA+SHA1.")])):
        sections = frontend(line) + "\nbackend b\n    server s 127.0.0.1:1 ssl verify none\n    server t 127.0.0.1:1 ssl verify none\n"
        # A process of root without a chroot is a warning, too.
        quiet = "zero-warning" + "\n    chroot /\n    uid 0" * (os.geteuid() == 0)
        for strict, level in (("", "WARNING"), (quiet, "NOTICE")):
            said_first = "\n    ".join(filter(None, (extra, strict)))
            with World(binary, folder, sections, extra=said_first) as world:
                assert get_over(world.port, authority).endswith(b"1 one.example")
                status, out, said = run(binary, "-c", "-f", world.file)
                world.program.process.kill()
                started = world.program.process.communicate()[0]
            line_of_bind = str(14 + said_first.count("\n"))
            wanted = [(level, f"[{folder.path}/{place}] : {text}".replace("@bind@", line_of_bind).replace("@port@", str(world.port)))
                      for place, text in places]
            for printed in (said, started):
                found = [re.match(r"\[(\w+)\] +\(\d+\) : config : (.*never negotiated.*)", line) for line in printed.splitlines()]
                assert [match.groups() for match in found if match] == wanted, (printed, wanted)
            assert status == 0 and ("Warnings were found" in out) == (bool(places) and not strict), (status, out)


def test_errors_in_settings_inherited_by_certificates_name_the_bind_line(binary, folder):
    """A folder and the lines of a list without options have those of the `bind` line, once."""
    authority = Authority(folder)
    sites = [authority.issue(f"{name}.example", file=f"sites/{name}.pem") for name in ("one", "two")]
    listed = folder.file("list", "".join(f"{site}\n" for site in sites))
    for source in (f"crt {folder.path}/sites", f"crt-list {listed}"):
        said = refused(binary, folder, f"ssl {source} ciphers AES128-SHA")
        at = [line for line in said.splitlines() if "no cipher is left" in line]
        assert at and all(f"[{folder.path}/refused.cfg:14] : 'bind" in line for line in at), said


def test_tls_version_settings_select_the_versions_of_haproxy(binary, folder):
    """Ranges count alone, and each end of the defaults by itself: the versions that HAProxy 3.2 negotiates, and its
    warnings."""
    site = Authority(folder).issue("one.example")
    listed = folder.path + "/list"
    # The global section, the line, a line of a list; whether TLS 1.2 and 1.3 are spoken, whether something is ignored.
    for default, line, of_list, spoken, warned in (
            ("", "", "", "11", False), ("", "no-tlsv13", "", "10", False), ("", "no-tlsv12", "", "01", False),
            ("", "no-tlsv13 ssl-min-ver TLSv1.2", "", "11", True), ("", "no-tlsv12 ssl-min-ver TLSv1.2", "", "11", True),
            ("", "no-tlsv13 force-tlsv13", "", "01", True), ("", "force-tlsv12 ssl-max-ver TLSv1.3", "", "11", False),
            ("no-tlsv13", "ssl-min-ver TLSv1.2", "", "11", True), ("ssl-max-ver TLSv1.2", "ssl-min-ver TLSv1.2", "", "10", False),
            ("ssl-min-ver TLSv1.3", "ssl-max-ver TLSv1.3", "", "01", False), ("ssl-max-ver TLSv1.2", "no-tlsv11", "", "10", True),
            ("ssl-min-ver TLSv1.3", "no-tlsv13", "", "01", True), ("no-tlsv13", "no-tlsv10", "", "10", False),
            ("no-tlsv12", "force-tlsv12", "", "10", True), ("force-tlsv12", "force-tlsv13", "", "01", False),
            ("no-tlsv13 ssl-min-ver TLSv1.2", "", "", "11", True), ("", "no-tlsv13", "ssl-min-ver TLSv1.2", "10", False),
            ("", "no-tlsv12", "ssl-max-ver TLSv1.3", "01", False), ("", "no-tlsv12", "ssl-min-ver TLSv1.2", "11", False),
            ("ssl-max-ver TLSv1.2", "", "ssl-min-ver TLSv1.2", "10", False), ("no-tlsv13", "", "ssl-max-ver TLSv1.3", "11", False),
            ("", "force-tlsv12", "ssl-max-ver TLSv1.3", "11", False), ("", "no-tlsv13 ssl-min-ver TLSv1.2", "alpn h2,http/1.1", "11", True)):
        folder.file("list", f"{site} [{of_list}]\n")
        source = f"crt-list {listed}" if of_list else f"crt {site}"
        extra = f"ssl-default-bind-options {default}" if default else ""
        with World(binary, folder, frontend(f"ssl {source} {line}"), extra=extra) as world:
            found = ""
            for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
                try:
                    with connect(world.port, version=version) as connection:
                        found += "1" if ask_over(connection) else "0"
                except ssl.SSLError:
                    found += "0"
            _, _, said = run(binary, "-c", "-f", world.file)
        kind = (default, line, of_list)
        assert found == spoken, (kind, found)
        ignored = [text for text in said.splitlines() if "WARNING" in text and "no-sslv3" in text and "ignored" in text]
        assert len(ignored) == warned, (kind, said)
    for words, warned in (("no-tlsv13", 0), ("no-tlsv13 ssl-min-ver TLSv1.2", 1), ("force-tlsv12 no-sslv3", 1)):
        sections = frontend(f"ssl crt {site}") + f"\nbackend b\n    server s 127.0.0.1:1 ssl verify none {words}\n"
        text = CONFIGURATION.format(log=514, extra="", defaults="", sections=sections.replace("@port@", "1"))
        _, _, said = run(binary, "-c", "-f", folder.file("b.cfg", text))
        assert said.count("WARNING") == said.count("are ignored") == warned, (words, said)


def test_expired_and_not_yet_valid_certificates_are_reported(binary, folder):
    """By a check, by lint and by the start, for certificates of a file or a list; weir serves them all the same, also under `zero-warning`."""
    authority = Authority(folder)
    good = authority.issue("one.example")
    authority.issue("two.example")
    for name in ("index.txt", "serial"):
        folder.file(name, "01\n" if name == "serial" else "")
    folder.file("ca.cnf", f"[ca]\ndefault_ca = c\n[c]\ndatabase = {folder.path}/index.txt\nserial = {folder.path}/serial\nnew_certs_dir = {folder.path}\n"
                          "default_md = sha256\npolicy = p\nunique_subject = no\n[p]\ncommonName = supplied\n")

    def dated(name, start, end):
        file = os.path.join(folder.path, name)
        openssl("ca", "-batch", "-config", f"{folder.path}/ca.cnf", "-in", authority.path("r"), "-cert", authority.certificate, "-keyfile", authority.key,
                "-out", file, "-startdate", start, "-enddate", end, "-notext")
        with open(file, "a") as out:
            out.write(open(authority.path("k")).read())
        return file
    old, early = dated("old.pem", "20200101000000Z", "20210101000000Z"), dated("early.pem", "20900101000000Z", "20910101000000Z")
    listed = folder.file("list", f"{good}\n{old}\n")
    for source, said in ((f"crt {good}", None), (f"crt {old}", "old.pem' expired on Jan  1 00:00:00 2021 GMT"), (f"crt-list {listed}", "old.pem' expired on Jan  1 00:00:00 2021 GMT"),
                         (f"crt {early}", "early.pem' is not valid before Jan  1 00:00:00 2090 GMT"), (f"crt {good} crt {old}", "expired on ")):
        for extra in ("", "zero-warning\n    chroot /\n    uid 0" if os.geteuid() == 0 else "zero-warning"):
            with World(binary, folder, frontend(f"ssl {source}"), extra=extra) as world:
                with connect(world.port, name=None) as connection:
                    assert ask_over(connection)
                found = world.program.process
                found.terminate()
                out = found.communicate(timeout=10)[0]
            status, checked, err = run(binary, "-c", "-f", world.file)
            assert status == 0, (source, extra, checked, err)
            lint = run(binary, "lint", "-f", world.file)[1]
            for text in (out, checked + err, lint):
                assert (said in text) if said else ("expired" not in text and "not valid before" not in text), (source, extra, text)
    # Authorities: those of clients, and those of servers.
    trusted = folder.file("trusted", open(authority.certificate).read() + open(old).read())
    for source, backend in ((f"crt {good} verify optional ca-file {trusted}", ""), (f"crt {good}", f"backend b\n    server s 127.0.0.1:1 ssl ca-file {trusted}\n    server t 127.0.0.1:1 ssl ca-file {trusted}\n")):
        file = folder.file("ca.cfg", "defaults\n    mode http\n    timeout client 5s\n    timeout server 5s\n    timeout connect 5s\n" + frontend(f"ssl {source}").replace("@port@", "1") + "\n" + backend)
        status, checked, err = run(binary, "-c", "-f", file)
        wanted = "trusted' expired on Jan  1 00:00:00 2021 GMT: certificates that it signed are refused."
        assert status == 0 and (checked + err).count(wanted) == 1, (status, checked, err)
