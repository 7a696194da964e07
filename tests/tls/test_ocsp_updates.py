"""OCSP responses that are renewed while the program runs: by a real responder, and by faulty ones (manual, "ocsp-update")."""
import os
import re
import subprocess
import threading
import time

from lib.origin import Server
from lib.program import ask, free_port, run
from lib.tls import CONFIGURATION, Authority, SecureServer, World, frontend, openssl, refused
from tls.test_certificates import cli_of


class Responder:
    """An OCSP responder of an authority (`openssl ocsp`)."""

    def __init__(self, folder, authority, signer=None, key=None):
        self.port = free_port()
        self.index = folder.path + f"/index{self.port}"
        signer, key = signer or authority.certificate, key or authority.key
        folder.file(os.path.basename(self.index) + ".attr", "unique_subject = no\n")
        self.command = ["openssl", "ocsp", "-index", self.index, "-port", str(self.port), "-rsigner", signer, "-rkey", key,
                        "-CA", authority.certificate, "-nmin", "30"]

    def knows(self, certificate, line="V\t491130000000Z\t"):
        serial = openssl("x509", "-in", certificate, "-noout", "-serial").split("=")[1].strip()
        with open(self.index, "a") as index:
            index.write(f"{line}\t{serial}\tunknown\t/CN=any\n")

    def __enter__(self):
        # A client that connects and sends nothing blocks it for good: wait for its own message instead.
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = []
        while "waiting for OCSP client" not in (line := self.process.stderr.readline()):
            said.append(line)
            assert line, said
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def until(holds, what, seconds=15):
    """Waits until a condition holds; returns its value."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := holds():
            return found
        time.sleep(0.05)
    raise AssertionError(f"not in time: {what}")


class Liar(Server):
    """A responder that sends these bytes, or calls a function with the connection."""

    def __init__(self, answer):
        self.answer, self.heard = answer, []
        super().__init__()

    def serve(self, peer):
        self.heard.append(peer.recv(65536))
        self.answer(peer) if callable(self.answer) else peer.sendall(self.answer)


def issue(authority, name, responder):
    """Issues a certificate with this responder's address. Its file includes the issuer."""
    folder = authority.folder
    key, request, signed, extensions = (f"{folder.path}/{name}.{end}" for end in ("k", "r", "c", "x"))
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", request, "-subj", f"/CN={name}")
    folder.file(os.path.basename(extensions), f"subjectAltName=DNS:{name}\nauthorityInfoAccess=OCSP;URI:{responder}\n")
    openssl("x509", "-req", "-in", request, "-CA", authority.certificate, "-CAkey", authority.key, "-CAcreateserial", "-out", signed,
            "-days", "9", "-extfile", extensions)
    return folder.file(f"{name}.pem", "".join(open(part).read() for part in (signed, key, authority.certificate)))


def status_shown(world, name, authority):
    """The certificate status that is stapled for a client."""
    said = openssl("s_client", "-connect", f"127.0.0.1:{world.port}", "-servername", name, "-status", "-CAfile", authority.certificate,
                   stdin=b"")
    found = re.search(r"Cert Status: (\w+)", said)
    return found.group(1) if found else None


def updates(cli):
    """The lines of `show ssl ocsp-updates`, by certificate."""
    lines = ask(cli, "show ssl ocsp-updates").strip().splitlines()
    assert lines[0].startswith("OCSP Certid | Path | Next Update | Last Update | Successes | Failures | Last Update Status"), lines
    return {os.path.basename(cells[1]): cells for cells in (line.split(" | ") for line in lines[1:])}


def log_lines(world, wanted, seconds=15):
    """Log lines about updates, up to one with this text."""
    lines = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            line = world.log.line(1)
        except TimeoutError:
            continue
        if "<OCSP-UPDATE>" in line:
            lines.append(line)
            if wanted in line:
                return lines
    raise AssertionError(f"no line with {wanted}: {lines}")


DELAYS = "\n    ocsp-update.mindelay 2\n    ocsp-update.maxdelay 4"


def test_ocsp_responses_are_renewed(binary, folder):
    """Enabled in a list, in a store or globally; responses are stapled, listed and logged, and renewed in time."""
    authority = Authority(folder)
    cli, socket_line = cli_of(folder)
    responder = Responder(folder, authority)
    at = f"http://127.0.0.1:{responder.port}"
    names = ("listed.example", "stored.example", "plain.example")
    files = {name: issue(authority, name, at) for name in names}
    gone = issue(authority, "revoked.example", at)
    for file in files.values():
        responder.knows(file)
    responder.knows(gone, "R\t491130000000Z\t261101000000Z,keyCompromise")
    with responder:
        listed = folder.file("list", f"{files['listed.example']} [ocsp-update on] listed.example\n{gone} [ocsp-update on]\n")
        sections = (f"crt-store\n    load crt {files['stored.example']} ocsp-update on\n"
                    + frontend(f"ssl crt-list {listed} crt {files['stored.example']} crt {files['plain.example']}"))
        with World(binary, folder, sections, socket_line + DELAYS) as world:
            for name in names[:2]:
                until(lambda: status_shown(world, name, authority) == "good", f"a response for {name}")
            until(lambda: status_shown(world, "revoked.example", authority) == "revoked", "that it is revoked is shown")
            assert status_shown(world, "plain.example", authority) is None
            lines = log_lines(world, "listed.example.pem")
            assert re.search(r'listed.example.pem 1 "Update successful" 0 [12]$', lines[-1]), lines
            known = updates(cli)
            assert sorted(known) == ["listed.example.pem", "revoked.example.pem", "stored.example.pem"], known
            assert known["stored.example.pem"][5:] == ["0", "1", "Update successful"], known
            until(lambda: int(updates(cli)["stored.example.pem"][4]) >= 2, "the second update")
            # By hand: a certificate without automatic updates, and an unknown one.
            said = ask(cli, f"update ssl ocsp-response {files['plain.example']}")
            assert said.startswith("OCSP Response Data:") and "Cert Status: good" in said, said
            assert status_shown(world, "plain.example", authority) == "good"
            assert "it is not known" in ask(cli, "update ssl ocsp-response /nowhere.pem")
            assert ask(cli, "update ssl ocsp-response").strip() == "'update ssl ocsp-response' expects a filename"
            # A certificate that comes later, by a list.
            late = issue(authority, "late.example", at)
            responder.knows(late)
            assert "New empty" in ask(cli, f"new ssl cert {late}")
            payload = open(late).read().strip()
            assert "Success" in ask(cli, f"set ssl cert {late} <<\n{payload}\n") + ask(cli, f"commit ssl cert {late}")
            assert "Success" in ask(cli, f"add ssl crt-list {listed} <<\n{late} [ocsp-update on] late.example\n")
            # openssl reads its index once.
            until(lambda: "late.example.pem" in updates(cli), "it is asked for")
            for command in (f"del ssl crt-list {listed} {late}", f"del ssl cert {late}"):
                said = ask(cli, command)
                assert "deleted" in said, (command, said)
            # An answer may be on its way.
            until(lambda: "late.example.pem" not in updates(cli), "it is forgotten")
        with World(binary, folder, sections, socket_line + DELAYS + "\n    ocsp-update.disable on") as world:
            time.sleep(1.5)
            assert updates(cli) == {} and status_shown(world, "listed.example", authority) is None
        plain = frontend(f"ssl crt {files['plain.example']}")
        with World(binary, folder, plain, f"{socket_line}\n    ocsp-update.mode on" + DELAYS.replace("ocsp-", "tune.ssl.ocsp-")) as world:
            until(lambda: status_shown(world, "plain.example", authority) == "good", "the global word")
            until(lambda: int(updates(cli)["plain.example.pem"][4]) >= 2, "the second update, by the old words for delays")


def test_invalid_ocsp_responses_are_rejected(binary, folder):
    """Responses of others, garbage, too large, too slow, cut, without a type: each is reported with its error, and
    never stapled; memory is bounded."""
    authority, stranger = Authority(folder), Authority(folder, "stranger")
    cli, socket_line = cli_of(folder)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/ocsp-response\r\n"

    def endless(peer):
        peer.sendall(head + b"\r\n")
        for _ in range(2000):
            peer.sendall(b"x" * 65536)

    def slow(peer):
        peer.sendall(head + b"Content-Length: 9000\r\n\r\n")
        for _ in range(60):
            peer.sendall(b"x")
            time.sleep(0.5)

    cases = {
        "garbage": (head + b"Content-Length: 7\r\n\r\ngarbage", 4, "OCSP response check failure (Unable to parse OCSP response)"),
        "endless": (endless, 2, "HTTP error (the answer is too large)"),
        "cut": (head + b"Content-Length: 900\r\n\r\nxxx", 2, "HTTP error (the server closed before its answer was whole)"),
        "typeless": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nxx", 3, 'Missing "ocsp-response" header'),
        "absent": (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", 2, "HTTP error (status 404)"),
        "nonsense": (b"\x16\x03\x01\x00\x02\x01\x00 no HTTP\r\n\r\n", 2, "HTTP error (the answer is not valid HTTP)"),
        "trylater": (head + b"Content-Length: 5\r\n\r\n\x30\x03\x0a\x01\x03", 4, "OCSP response check failure (OCSP response status not successful)"),
        "interim": (b"HTTP/1.1 103 Early Hints\r\n\r\n" * 20, 2, "HTTP error (the answer is not valid HTTP)"),
        "split": (head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 2, "HTTP error (the answer is not valid HTTP)"),
    }
    liars = {name: Liar(answer) for name, (answer, *_) in cases.items()}
    sluggish = Liar(slow)
    files = {name: issue(authority, f"{name}.example", f"http://127.0.0.1:{liar.port}/a/") for name, liar in liars.items()}
    files["slow"] = issue(authority, "slow.example", f"http://127.0.0.1:{sluggish.port}")
    dead = free_port()
    files["dead"] = issue(authority, "dead.example", f"http://127.0.0.1:{dead}/")
    files["named"] = issue(authority, "named.example", "http://nobody.invalid/")
    # Another key signs, under the name of the authority's responder.
    other = Responder(folder, authority, stranger.certificate, stranger.key)
    files["other"] = issue(authority, "other.example", f"http://127.0.0.1:{other.port}")
    other.knows(files["other"])
    listed = folder.file("list", "".join(f"{file} [ocsp-update on]\n" for file in [*files.values()]))
    extra = socket_line + DELAYS + "\n    httpclient.retries 0\n    httpclient.resolvers.disabled on"
    try:
        with other, World(binary, folder, frontend(f"ssl crt-list {listed}"), extra) as world:
            before = world.program.resident_kb()
            # The list is complete from the start.
            assert sorted(updates(cli)) == sorted(f"{name}.example.pem" for name in files)
            known = until(lambda: (found := updates(cli)) and all(int(cells[5]) >= 1 for cells in found.values()) and found,
                          "each was asked for", 30)
            for name, (_, code, text) in cases.items():
                assert known[f"{name}.example.pem"][6:] == [str(code), text], known[f"{name}.example.pem"]
            assert known["other.example.pem"][6:] == ["4", "OCSP response check failure (OCSP response: its signer is of another authority)"], known["other.example.pem"]
            assert known["named.example.pem"][6:] == ["2", "HTTP error (the host's name cannot be resolved)"], known["named.example.pem"]
            assert known["dead.example.pem"][6:] == ["2", "HTTP error (Connection refused)"], known
            assert known["slow.example.pem"][6:] == ["2", "HTTP error (no answer in time)"], known
            lines = log_lines(world, '<OCSP-UPDATE> -/- 0/0/-1/-1/')
            assert any(re.search(r'503 0 - - (SC|LR)-- 0/0/0/0/0 0/0 \{\} "GET http://\S+ HTTP/1.1"$', line) for line in lines), lines
            # The path is the certificate's own plus the question; nothing else is disclosed.
            asked = liars["garbage"].heard[0].split(b"\r\n")
            assert re.fullmatch(rb"GET /a/MF[\w%]+ HTTP/1.1", asked[0]) and f"host: 127.0.0.1:{liars['garbage'].port}".encode() in asked, asked
            for name in files:
                assert status_shown(world, f"{name}.example", authority) is None, name
            assert world.program.resident_kb() < before + 20_000
            said = ask(cli, f"update ssl ocsp-response {files['garbage']}")
            assert said.startswith(f"Can't update the OCSP response of '{files['garbage']}': OCSP response check failure"), said
    finally:
        for liar in [*liars.values(), sluggish]:
            liar.close()


def test_an_ocsp_response_for_another_certificate_is_rejected(binary, folder):
    """A response about another certificate of the same authority, replayed."""
    authority = Authority(folder)
    cli, socket_line = cli_of(folder)
    kept = folder.path + "/kept"
    honest = Responder(folder, authority)
    one = issue(authority, "one.example", f"http://127.0.0.1:{honest.port}")
    honest.knows(one)
    with honest:
        openssl("ocsp", "-issuer", authority.certificate, "-cert", one, "-url", f"http://127.0.0.1:{honest.port}", "-respout", kept, "-no_nonce")
    der = open(kept, "rb").read()
    liar = Liar(b"HTTP/1.1 200 OK\r\ncontent-type: application/ocsp-response; x\r\nConnection: close\r\n\r\n" + der)
    two = issue(authority, "two.example", f"http://127.0.0.1:{liar.port}")
    own = issue(authority, "three.example", f"http://127.0.0.1:{liar.port}")
    listed = folder.file("list", f"{two} [ocsp-update on]\n{own} [ocsp-update off]\n")
    with World(binary, folder, frontend(f"ssl crt-list {listed}"), socket_line + DELAYS) as world:
        known = until(lambda: (found := updates(cli)) and int(found["two.example.pem"][5]) and found, "an update")
        text = "OCSP response check failure (OCSP single response: it is about another certificate)"
        assert list(known) == ["two.example.pem"] and known["two.example.pem"][6:] == ["4", text], known
        assert status_shown(world, "two.example", authority) is None
    liar.close()


def test_ocsp_and_httpclient_requests_follow_proxy_size_and_tls_settings(binary, folder):
    """A proxy gets the absolute URL; a long question is posted; operators send requests; TLS servers are verified."""
    authority, stranger = Authority(folder), Authority(folder, "stranger")
    cli, socket_line = cli_of(folder)
    told = Liar(b"HTTP/1.1 404 No\r\nX-Told: yes\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
    far = issue(authority, "far.example", "http://192.0.2.1/" + "x" * 300)
    listed = folder.file("list", f"{far} [ocsp-update on]\n")
    extra = socket_line + f"\n    ocsp-update.httpproxy 127.0.0.1:{told.port}"
    with World(binary, folder, frontend(f"ssl crt-list {listed}"), extra):
        until(lambda: told.heard, "the proxy is asked")
        asked = told.heard[0]
        assert asked.startswith(b"POST http://192.0.2.1/xxx") and b"\r\ncontent-type: application/ocsp-request\r\n" in asked, asked
        assert re.search(rb"\r\ncontent-length: (\d+)\r\n\r\n0", asked), asked
        said = ask(cli, f"expert-mode on; httpclient OPTIONS http://127.0.0.1:{told.port}/y?z")
        assert "HTTP/1.1 404 No" in said and "X-Told: yes" in said and said.rstrip().endswith("abc"), said
        assert told.heard[-1].startswith(b"OPTIONS /y?z HTTP/1.1\r\n"), told.heard[-1]
        for wrong, why in (("G@T http://127.0.0.1/", "the method is not valid"), ("GET ftp://a/", "not http or https"),
                           ("GET http://nobody.invalid/", "cannot be resolved")):
            assert why in ask(cli, f"expert-mode on; httpclient {wrong}"), wrong
        assert "expert" in ask(cli, f"httpclient GET http://127.0.0.1:{told.port}/")
    told.close()
    site = authority.issue("localhost")
    server = SecureServer(site, answer=b"HTTP/1.0 200 OK\r\nConnection: close\r\n\r\nover TLS")
    url = f"https://127.0.0.1:{server.port}/"
    for line, expected in ((f"ca-file {stranger.certificate}", "TLS handshake failure"), ("verify none", "over TLS"),
                           # It is not for this address.
                           (f"ca-file {authority.certificate}", "TLS handshake failure")):
        with World(binary, folder, frontend(f"ssl crt {site}"), socket_line + f"\n    httpclient.ssl.{line}"):
            said = ask(cli, f"expert-mode on; httpclient GET {url}")
            assert expected in said, (line, said)
    server.close()


def test_invalid_ocsp_settings_are_refused(binary, folder):
    """Contradicting lines, delays, missing sections and missing files; settings without effect get a warning."""
    authority = Authority(folder)
    site = issue(authority, "one.example", "http://127.0.0.1:1/")
    on, off = folder.file("on", f"{site} [ocsp-update on]\n"), folder.file("off", f"{site} [ocsp-update off]\n")
    assert "'ocsp-update' of" in refused(binary, folder, f"ssl crt-list {on} crt-list {off}")
    assert "is 'on' here, and 'off' where" in refused(binary, folder, f"ssl crt {site} crt-list {on}")
    for extra, why in (("ocsp-update.mindelay 9\n ocsp-update.maxdelay 9", "must be lower than 'ocsp-update.maxdelay' (9)"),
                       ("ocsp-update.mode maybe", "expects either 'on' or 'off'"),
                       ("ocsp-update.httpproxy 127.0.0.1:+1", "is not an address with a port"),
                       ("ocsp-update.mindelay 0", "ocsp-update.mindelay"),
                       ("httpclient.resolvers.id nobody", "there is no 'resolvers' section 'nobody'"),
                       ("httpclient.ssl.ca-file /nowhere.pem", "/nowhere.pem"),
                       ("httpclient.resolvers.prefer ipv5", "expects either 'ipv4' or 'ipv6'"),
                       ("httpclient.retries -1", "httpclient.retries")):
        assert why in (said := refused(binary, folder, f"ssl crt {site}", extra=extra)), (extra, said)
    silent = authority.issue("two.example")
    listed = folder.file("list", f"{silent} [ocsp-update on issuer {authority.certificate}]\n")
    text = CONFIGURATION.format(log=514, extra="", defaults="", sections=frontend(f"ssl crt-list {listed}").replace("@port@", "1"))
    status, _, said = run(binary, "-c", "-f", folder.file("warned.cfg", text))
    assert status == 0 and "'ocsp-update on' has no effect for" in said and "it names no responder of HTTP" in said, said
