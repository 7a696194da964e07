"""Receivers and readers of weir's log."""
import contextlib
import json
import os
import re
import subprocess

from ecosystem.support import World
from lib.needs import installed
from lib.program import ROOT, TERM, Program, ask, free_port, request, wait_until

# The fields of `option httplog`, in GoAccess' words.
GOACCESS = ["--log-format=%^]: %h:%^ [%d:%t.%^] %^ %^ %^/%^/%^/%^/%L %s %b %^ %^ %^ %^ %^ \"%r\"", "--date-format=%d/%b/%Y",
            "--time-format=%H:%M:%S"]


def test_goaccess_parses_httplog_lines(binary, folder):
    """Every line of `option httplog` is one request with its status, and none is wrong."""
    installed("goaccess")
    with World(binary, folder) as world:
        for path in ("/local/a", "/local/b", "/local/a", "/nobody"):
            world.get(path)
        lines = world.lines(4)
    log, report = folder.file("log", "\n".join(lines) + "\n"), os.path.join(folder.path, "report.json")
    done = subprocess.run(["goaccess", log, *GOACCESS, "-o", report, "--no-global-config"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, (done.stdout + done.stderr, lines)
    with open(report) as file:
        found = json.load(file)
    general = found["general"]
    assert (general["valid_requests"], general["failed_requests"]) == (4, 0), (general, lines)
    hits = {one["data"]: one["hits"]["count"] for one in found["requests"]["data"]}
    assert hits.get("/local/a") == 2 and hits.get("/local/b") == 1, hits


def test_lnav_parses_httplog_lines(binary, folder):
    """lnav's built-in format for HAProxy logs finds the fields."""
    installed("lnav")
    with World(binary, folder) as world:
        for path in ("/local/a", "/nobody"):
            world.get(path)
        lines = world.lines(2)
    log = folder.file("log", "\n".join(lines) + "\n")
    query = ";SELECT status_code, backend_name, termination_state, http_url FROM haproxy_log"
    done = subprocess.run(["lnav", "-n", "-c", query, "-c", ":write-json-to -", log], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "HOME": folder.path})
    assert done.returncode == 0 and "haproxy_log" not in done.stderr, done.stderr
    found = json.loads(done.stdout[done.stdout.index("["):])
    assert [tuple(one.values()) for one in found] == [(200, "web", "LR--", "/local/a"), (503, "app", "SC--", "/nobody")], (found, lines)


def test_halog_counts_httplog_lines(binary, folder):
    """The log analyser of HAProxy's package: statuses, servers, addresses, termination codes, errors."""
    halog = installed("halog")
    with World(binary, folder) as world:
        for path in ("/local/a", "/local/b", "/local/a", "/nobody"):
            world.get(path)
        lines = world.lines(4)
    text = "\n".join(lines) + "\n"

    def said(*words):
        done = subprocess.run([halog, *words], input=text, capture_output=True, text=True, timeout=20)
        assert done.returncode == 0 and "wrong" not in done.stderr, (words, done.stderr)
        return [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert said("-q", "-st") == [["200", "3"], ["503", "1"]], (said("-q", "-st"), lines)
    assert sorted(said("-q", "-tc")) == [["LR", "3"], ["SC", "1"]], said("-q", "-tc")
    assert [line.split()[-1] for line in lines if "/nobody" in line] and said("-q", "-e", "-c") == [["1"]], said("-q", "-e", "-c")
    assert {row[-1]: row[0] for row in said("-q", "-uc")} == {"/local/a": "2", "/local/b": "1", "/nobody": "1"}, said("-q", "-uc")
    assert [row[:1] for row in said("-q", "-srv")] == [["app/app1"], ["web/<NOSRV>"]], said("-q", "-srv")
    assert said("-q", "-ic")[0][-1] == "127.0.0.1", said("-q", "-ic")


PACKAGED = os.path.join(ROOT, "packaging", "deb")


class Syslog(Program):
    """rsyslogd with the packaged snippet, but weir.log is in the folder of the test. It listens on a UNIX socket and on UDP. Other
    messages go to rest.log."""

    def __init__(self, folder, port):
        installed("rsyslogd")
        self.socket, self.own, self.rest = (os.path.join(folder.path, name) for name in ("dev-log", "weir.log", "rest.log"))
        with open(os.path.join(PACKAGED, "rsyslog")) as file:
            snippet = file.read()
        assert "/var/log/weir.log" in snippet
        self.configuration = folder.file("rsyslog.conf", f"""
global(workDirectory="{folder.path}" maxMessageSize="64k")
module(load="imuxsock" SysSock.Use="off")
input(type="imuxsock" Socket="{self.socket}")
module(load="imudp")
input(type="imudp" address="127.0.0.1" port="{port}")
""" + snippet.replace("/var/log/weir.log", self.own) + f"*.* {self.rest}\n")
        super().__init__("rsyslogd", "-n", "-f", self.configuration, "-i", os.path.join(folder.path, "rsyslog.pid"))

    def __enter__(self):
        super().__enter__()
        assert wait_until(lambda: os.path.exists(self.socket) or self.process.poll() is not None), "no socket"
        assert self.process.poll() is None, self.process.communicate()[0]
        return self

    def lines(self, path=None):
        with contextlib.suppress(FileNotFoundError), open(path or self.own) as file:
            return file.read().splitlines()
        return []


LOGGING = """
global
    {targets}
    log-tag weir
    {extra}
defaults
    mode http
    log global
    option httplog
    timeout connect 2s
    timeout client 5s
    timeout server 5s
frontend web
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string hello
"""


def test_rsyslog_writes_log_lines_to_the_file_of_the_packaged_snippet(binary, folder, port):
    """Over its UNIX socket and over UDP, in rfc3164 and rfc5424: the lines are in weir's file and in no other."""
    udp = free_port()
    with Syslog(folder, udp) as syslog:
        for number, target in enumerate((f"log {syslog.socket} local0", f"log 127.0.0.1:{udp} local0", f"log 127.0.0.1:{udp} format rfc5424 local0",
                                         f"log 127.0.0.1:{udp} format rfc3164 local0")):
            path = folder.file("a.cfg", LOGGING.format(targets=target, extra="", port=port))
            with Program(binary, "-f", path) as program:
                program.ready(port)
                for part in ("a", "b"):
                    request(port, f"GET /{number}/{part} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                assert wait_until(lambda: sum(f"GET /{number}/" in line for line in syslog.lines()) == 2), (target, syslog.lines())
                found = [line for line in syslog.lines() if f"GET /{number}/a" in line]
                wanted = rf' weir\[{program.pid}\]:? 127\.0\.0\.1:\d+ \[[^]]+\] web web/<NOSRV> 0/-1/-1/-1/\d+ 200 \d+ - - LR-- \d+/\d+/0/0/0 0/0 "GET /{number}/a HTTP/1\.1"$'
                assert re.search(wanted, found[0]), found
        # Lines with another tag go to the other file, and so do lines with a host name on the local socket, where rsyslog takes the host for the tag.
        for name, target, tag in (("tag", f"127.0.0.1:{udp}", "other"), ("host", f"{syslog.socket} format rfc3164", "weir")):
            text = LOGGING.format(targets=f"log {target} local0", extra="", port=port)
            with Program(binary, "-f", folder.file("a.cfg", text.replace("log-tag weir", f"log-tag {tag}"))) as program:
                program.ready(port)
                request(port, f"GET /{name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                assert wait_until(lambda: any(f"GET /{name}" in line for line in syslog.lines(syslog.rest))), syslog.lines(syslog.rest)
            assert not any(f"GET /{name}" in line for line in syslog.lines()), syslog.lines()
        assert not any("GET /0/" in line for line in syslog.lines(syslog.rest)), syslog.lines(syslog.rest)


def test_logging_resumes_after_a_restart_of_rsyslog(binary, folder, port):
    """Also from a worker in a chroot: meanwhile requests are served, and lost messages are counted."""
    udp = free_port()
    jail = "chroot auto\n    uid 65534\n    gid 65534" if os.getuid() == 0 else ""
    for number, (target, extra) in enumerate((("unix", ""), ("udp", jail), ("unix", jail))):
        with Syslog(folder, udp) as syslog:
            address = syslog.socket if target == "unix" else f"127.0.0.1:{udp}"
            os.chmod(syslog.socket, 0o666)
            stats = f"{extra}\n    stats socket {folder.path}/cli level admin"
            path = folder.file("a.cfg", LOGGING.format(targets=f"log {address} local0", extra=stats, port=port))
            with Program(binary, "-f", path) as program:
                program.ready(port)

                def arrives(name):
                    def once():
                        request(port, f"GET /{name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                        return any(f"/{name} " in line for line in syslog.lines())
                    return wait_until(once, 8)
                # The file has the lines of all cases.
                assert arrives(f"before-{number}"), (target, extra)
                syslog.send(TERM)
                assert syslog.status() is not None
                for _ in range(20):
                    assert b" 200 " in request(port)
                with Syslog(folder, udp) as syslog:
                    os.chmod(syslog.socket, 0o666)
                    assert arrives(f"after-{number}"), (target, extra)
                    dropped = int(re.search(r"^DroppedLogs: (\d+)$", ask(f"{folder.path}/cli", "show info"), re.M)[1])
                    # A UDP sender learns only by chance that its receiver is gone.
                    assert dropped >= 20 or target == "udp", dropped
