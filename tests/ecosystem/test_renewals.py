"""Certificates that certbot renews: its deploy hook, alone and called by certbot itself with a real authority."""
import contextlib
import json
import os
import shutil
import socket
import ssl
import subprocess

import pytest

from ecosystem.support import ROOT, of_the_manual, replaced
from lib.name_server import NameServer
from lib.needs import installed
from lib.program import Program, ask, free_port
from lib.tls import Authority, openssl

HOOK = os.path.join(ROOT, "packaging", "certbot", "deploy")

CONFIGURATION = """
global
    stats socket {folder}/cli level {level}
    {extra}
defaults
    mode http
    timeout connect 2s
    timeout client 60s
    timeout server 5s
frontend web
    bind 127.0.0.1:{port} ssl crt {folder}/certificates/
    http-request return status 200 content-type text/plain string fine
"""


class Lineage:
    """certbot's folder for a certificate, with the newest chain and key."""

    def __init__(self, folder, name):
        self.authority, self.name = Authority(folder), name
        self.path = os.path.join(folder.path, "live", name)
        os.makedirs(self.path)
        self.renew()

    def renew(self, name=None, kind="ec"):
        """A new certificate of a new key."""
        site = self.authority.issue(name or self.name, file="renewed", kind=kind, key_apart=True)
        shutil.copy(self.authority.key.replace("own-key", "c"), os.path.join(self.path, "fullchain.pem"))
        shutil.copy(site + ".key", os.path.join(self.path, "privkey.pem"))

    def text(self):
        return "".join(open(os.path.join(self.path, name)).read() for name in ("fullchain.pem", "privkey.pem"))

    def serial(self):
        return serial(os.path.join(self.path, "fullchain.pem"))


def serial(path):
    return openssl("x509", "-in", path, "-noout", "-serial").strip().split("=")[-1]


def shown(port, name="one.example"):
    """The serial number of the certificate that a client is shown."""
    said = openssl("s_client", "-connect", f"127.0.0.1:{port}", "-servername", name)
    return openssl("x509", "-noout", "-serial", stdin=said.encode()).strip().split("=")[-1]


def hook(folder, lineage, **others):
    """Runs the hook; returns its exit status and its messages."""
    environment = {**os.environ, "RENEWED_LINEAGE": lineage.path, "RENEWED_DOMAINS": lineage.name, "WEIR_SOCKET": f"{folder.path}/cli",
                   "WEIR_CERTIFICATES": f"{folder.path}/certificates", **others}
    done = subprocess.run([HOOK], env={name: value for name, value in environment.items() if value is not None}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60)
    assert done.stdout == "", done.stdout
    return done.returncode, done.stderr


def certificates(folder):
    installed("socat")
    path = os.path.join(folder.path, "certificates")
    os.mkdir(path)
    return path


def test_certbot_hook_replaces_the_certificate_of_a_running_weir(binary, folder):
    """New clients get the new certificate at once, without a reload, and also after the next start."""
    place, lineage, port = certificates(folder), Lineage(folder, "one.example"), free_port()
    file = os.path.join(place, "one.example.pem")
    # weir is not running: the file is for its start.
    status, said = hook(folder, lineage)
    assert status == 0 and f"{file} is written, weir does not answer at {folder.path}/cli: it takes the certificate when it starts" in said, said
    assert open(file).read() == lineage.text() and os.stat(file).st_mode & 0o777 == 0o600
    os.chmod(file, 0o640)
    config = folder.file("a.cfg", CONFIGURATION.format(folder=folder.path, port=port, level="admin", extra=""))
    with Program(binary, "-f", config) as program:
        program.ready(port)
        assert shown(port) == lineage.serial()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="one.example") as open_before:
            for _ in range(2):
                lineage.renew()
                assert shown(port) != lineage.serial()
                # An unfinished transaction of another operator does not block the hook.
                ask(f"{folder.path}/cli", f"set ssl cert {file} <<\n{lineage.authority.issue('other.example') and open(lineage.authority.path('c')).read()}\n")
                status, said = hook(folder, lineage)
                assert (status, said) == (0, f"weir: one.example: {file} is written, weir uses it\n"), said
                assert shown(port) == lineage.serial() and open(file).read() == lineage.text()
                assert os.stat(file).st_mode & 0o777 == 0o640, "as it was"
            open_before.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert open_before.recv(1000).startswith(b"HTTP/1.1 200")
        assert f"Pid: {program.pid}\n" in ask(f"{folder.path}/cli", "show info")
        # A name that is new to the folder.
        other = Lineage.__new__(Lineage)
        other.authority, other.name, other.path = lineage.authority, "two.example", os.path.join(folder.path, "live", "two.example")
        os.makedirs(other.path)
        other.renew()
        status, said = hook(folder, other)
        assert status == 0 and said.endswith(f"two.example.pem is written, weir does not use {place}/two.example.pem yet: reload it\n"), said
    with Program(binary, "-f", config) as program:
        program.ready(port)
        assert shown(port) == lineage.serial() and shown(port, "two.example") == other.serial()
    assert sorted(os.listdir(place)) == ["one.example.pem", "two.example.pem"], os.listdir(place)


def test_certbot_hook_keeps_the_old_certificate_when_the_new_one_is_invalid(binary, folder):
    """In each case the old certificate is served, its file is unchanged, no transaction stays open, and the message gives the reason."""
    place, lineage, port = certificates(folder), Lineage(folder, "one.example"), free_port()
    file = os.path.join(place, "one.example.pem")
    assert hook(folder, lineage)[0] == 0
    good, text = lineage.serial(), lineage.text()
    config = folder.file("a.cfg", CONFIGURATION.format(folder=folder.path, port=port, level="admin", extra=""))

    def other_key():
        lineage.renew()
        openssl("genpkey", "-algorithm", "rsa", "-out", f"{lineage.path}/privkey.pem")

    def garbage():
        lineage.renew()
        with open(f"{lineage.path}/fullchain.pem", "w") as out:
            out.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")

    def half_a_chain():
        lineage.renew()
        with open(f"{lineage.path}/fullchain.pem", "a") as out:
            out.write("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")

    def no_key():
        lineage.renew()
        os.remove(f"{lineage.path}/privkey.pem")

    def unknown_curve():
        """A kind of key that weir does not have, and openssl does."""
        lineage.renew()
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:brainpoolP256r1", "-nodes", "-keyout", f"{lineage.path}/privkey.pem",
                "-out", f"{lineage.path}/fullchain.pem", "-days", "30", "-subj", "/CN=one.example")

    with Program(binary, "-f", config) as program:
        program.ready(port)
        for bad, expected in ((other_key, "is not the key of"), (garbage, "holds no certificate"), (half_a_chain, "weir refuses the certificate: "),
                              (no_key, "has no fullchain.pem or privkey.pem"), (unknown_curve, "the certificate: ")):
            bad()
            status, said = hook(folder, lineage)
            assert status == 1 and expected in said and said.startswith("weir: one.example: ") and said.count("\n") == 1, (bad.__name__, said)
            assert shown(port) == good and open(file).read() == text, bad.__name__
            assert os.listdir(place) == ["one.example.pem"], os.listdir(place)
            assert ask(f"{folder.path}/cli", f"show ssl cert *{file}").count("Serial") == 0, bad.__name__
        lineage.renew()
        for others, expected in (({"RENEWED_LINEAGE": None}, "RENEWED_LINEAGE is not set"), ({"WEIR_CERTIFICATES": "/nowhere"}, "/nowhere is not a folder"),
                                 ({"PATH": folder.path}, "openssl is not installed")):
            status, said = hook(folder, lineage, **others)
            assert status == 1 and expected in said, said
        assert shown(port) == good and open(file).read() == text
    # A socket that may not change anything.
    for level in ("user", "operator"):
        expected = f"has level {level}, and needs 'level admin'"
        config = folder.file("a.cfg", CONFIGURATION.format(folder=folder.path, port=port, level=level, extra=""))
        with Program(binary, "-f", config) as program:
            program.ready(port)
            status, said = hook(folder, lineage)
            assert status == 1 and expected in said and shown(port) == good and open(file).read() == text, (level, said)


TARGET = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
PEBBLE = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.3"


def pebble():
    """An authority that speaks ACME, for tests, of the registry of Go's modules, built once."""
    folder = os.path.join(TARGET, "pebble")
    program = os.path.join(folder, "bin", "pebble")
    if os.path.exists(program):
        return program
    installed("go")
    environment = {**os.environ, "GOFLAGS": "-mod=mod -modcacherw", "GOBIN": os.path.dirname(program), "GOPATH": os.path.join(folder, "path")}
    try:
        done = subprocess.run(["go", "install", PEBBLE], env=environment, cwd="/", capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        pytest.skip("the authority cannot be had: the registry does not answer")
    shutil.rmtree(environment["GOPATH"], ignore_errors=True)
    if done.returncode != 0:
        pytest.skip(f"the authority cannot be had: {done.stderr.strip().splitlines()[-1:]}")
    return program


def test_certbot_renews_through_weir(binary, folder):
    """The whole way: the authority requests the challenge through weir, certbot answers it and calls the hook, and
    clients see the new certificate. Then a renewal that the hook cannot use, which certbot reports."""
    installed("certbot")
    place, authority_program = certificates(folder), pebble()
    port, tls_port, answers, directory, manage = (free_port() for _ in range(5))
    api = Authority(folder, "api")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{folder.path}/api.key", "-out", f"{folder.path}/api.csr",
            "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    openssl("x509", "-req", "-in", f"{folder.path}/api.csr", "-CA", api.certificate, "-CAkey", api.key, "-CAcreateserial", "-out", f"{folder.path}/api.crt",
            "-days", "2", "-copy_extensions", "copy")
    settings = {"listenAddress": f"127.0.0.1:{directory}", "managementListenAddress": f"127.0.0.1:{manage}", "certificate": f"{folder.path}/api.crt",
                "privateKey": f"{folder.path}/api.key", "httpPort": port, "tlsPort": tls_port, "retryAfter": {"authz": 1, "order": 1},
                "profiles": {"default": {"description": "a month", "validityPeriod": 2592000}}}
    names = NameServer({("www.example.com", kind): [] for kind in (1, 28, 257)} | {("www.example.com", 1): ["127.0.0.1"], ("example.com", 257): [], ("com", 257): []})
    # The certificate for the first start of weir: with the name, from another authority.
    first = Lineage(folder, "www.example.com")
    file = os.path.join(place, "www.example.com.pem")
    with open(file, "w") as out:
        out.write(first.text())
    head = CONFIGURATION.format(folder=folder.path, port=tls_port, level="admin", extra="").split("frontend web\n")[0]
    recipe = next(text for text in of_the_manual("certbot", "text") if "use_backend" in text)
    text = head + replaced(recipe, {"bind :80\n": f"bind 127.0.0.1:{port}\n", "127.0.0.1:8402": f"127.0.0.1:{answers}", "bind :443 ": f"bind 127.0.0.1:{tls_port} ",
                                    "/etc/weir/certificates/": place + "/", "    default_backend app\n": ""})
    environment = {**os.environ, "WEIR_SOCKET": f"{folder.path}/cli", "WEIR_CERTIFICATES": place, "REQUESTS_CA_BUNDLE": api.certificate,
                   "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0"}

    def certbot(*words):
        folders = [word for name in ("config", "work", "logs") for word in (f"--{name}-dir", os.path.join(folder.path, "certbot" if name == "config" else name))]
        done = subprocess.run(["certbot", *words, *folders, "--non-interactive", "--server", f"https://127.0.0.1:{directory}/dir"], env=environment,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=90)
        return done.returncode, done.stdout + done.stderr

    with contextlib.closing(names), Program(binary, "-f", folder.file("a.cfg", text)) as weir, \
            Program(authority_program, "-config", folder.file("pebble.json", json.dumps({"pebble": settings})), "-dnsserver", f"127.0.0.1:{names.port}",
                    env=environment) as authority:
        weir.ready(tls_port)
        authority.ready(directory)
        status, said = certbot("certonly", "--standalone", "--http-01-address", "127.0.0.1", "--http-01-port", str(answers), "-d", "www.example.com",
                               "--agree-tos", "--register-unsafely-without-email", "--deploy-hook", HOOK)
        assert status == 0, said
        lineage = f"{folder.path}/certbot/live/www.example.com"
        assert shown(tls_port, "www.example.com") == serial(f"{lineage}/fullchain.pem") != first.serial(), said
        status, said = certbot("renew", "--force-renewal", "--no-random-sleep-on-renew")
        assert status == 0 and said.count("weir uses it") == 1, said
        renewed = serial(f"{lineage}/fullchain.pem")
        assert shown(tls_port, "www.example.com") == renewed == serial(file), said
        # The other place for hooks, used by certbot for renewals only: its hooks are called additionally.
        hooks = os.path.join(folder.path, "certbot", "renewal-hooks", "deploy")
        os.symlink(HOOK, os.path.join(hooks, "weir"))
        status, said = certbot("renew", "--force-renewal", "--no-random-sleep-on-renew")
        assert status == 0 and said.count("weir uses it") == 2, said
        renewed = serial(f"{lineage}/fullchain.pem")
        assert shown(tls_port, "www.example.com") == renewed == serial(file), said
        # weir's folder is missing for a while: certbot's report has the message of the hook.
        os.rename(place, place + ".away")
        status, said = certbot("renew", "--force-renewal", "--no-random-sleep-on-renew")
        assert f"{place} is not a folder" in said, said
        os.rename(place + ".away", place)
        assert shown(tls_port, "www.example.com") == renewed != serial(f"{lineage}/fullchain.pem")
