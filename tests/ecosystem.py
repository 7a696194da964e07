#!/usr/bin/env python3
"""Programs that others wrote for HAProxy, against weir: what they show and what they change.

  ecosystem.py --bin target/release/weir [--only REGEX]

hatop, tmux, goaccess, lnav and socat are packages of Debian, haproxyadmin one of PyPI, installed in an environment
of its own. What is not there is left out.
"""
import json
import os
import re
import shutil
import subprocess
import sys

from program import *  # noqa: F403

CONFIGURATION = """
global
    stats socket {folder}/weir.sock level admin
    log {folder}/log.sock local0
defaults
    mode http
    log global
    option httplog
    timeout connect 2s
    timeout client 5s
    timeout server 5s
frontend web
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string hello if {{ path_beg /local }}
    default_backend app
backend app
    server app1 127.0.0.1:1 weight 7 maxconn 30
    server app2 127.0.0.1:1 disabled
"""


def library():
    """A python that has haproxyadmin, in an environment that is made of the registry's package once."""
    python = os.path.join(ENVIRONMENT, "bin", "python")
    if subprocess.run(["sh", "-c", f"'{python}' -c 'import haproxyadmin'"], capture_output=True).returncode == 0:
        return python
    for command in ([sys.executable, "-m", "venv", ENVIRONMENT], [python, "-m", "pip", "install", "--quiet", LIBRARY]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        except subprocess.TimeoutExpired as late:
            raise LeftOut("haproxyadmin cannot be installed: the registry does not answer") from late
        if done.returncode != 0:
            raise LeftOut(f"haproxyadmin cannot be installed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return python


LIBRARY = "haproxyadmin==0.2.4"
ENVIRONMENT = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "target")),
                           "haproxyadmin-environment")


class World:
    """weir with the configuration above, and the lines that it logs."""

    def __init__(self, binary, folder):
        self.folder, self.port = folder, free_port()
        self.log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.log.bind(os.path.join(folder.path, "log.sock"))
        self.log.settimeout(10)
        self.socket = os.path.join(folder.path, "weir.sock")
        self.program = Program(binary, "-f", folder.file("a.cfg", CONFIGURATION.format(folder=folder.path, port=self.port)))

    def __enter__(self):
        self.program.__enter__()
        self.program.ready(self.port)
        return self

    def __exit__(self, *_):
        self.program.__exit__()
        self.log.close()

    def ask(self, command):
        return ask(self.socket, command)

    def get(self, path):
        return request(self.port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())

    def lines(self, count):
        """That many lines of requests that were logged, as a file of rsyslog has them."""
        found = []
        while len(found) < count:
            line = self.log.recv(65536).decode().rstrip("\n")
            if "HTTP/1.1" in line:
                # Without the priority, with the name of a host.
                date, rest = re.fullmatch(r"<\d+>(\w{3} [ \d]\d [\d:]{8}) (.*)", line).groups()
                found.append(f"{date} host {rest}")
        return found


def haproxyadmin_reads_and_changes(binary, folder):
    """The Python library: proxies, servers, figures, states and weights."""
    python = library()
    script = """
import json, sys
from haproxyadmin import STATE_DRAIN, STATE_READY, haproxy
h = haproxy.HAProxy(socket_file=sys.argv[1])
server = h.server("app1", backend="app")[0]
before = (server.status, server.weight, server.address)
server.setweight(3)
server.setstate(STATE_DRAIN)
drained = (server.status, server.weight)
server.setstate(STATE_READY)
front = h.frontend("web")
front.setmaxconn(77)
print(json.dumps({
    "fronts": [f.name for f in h.frontends()], "backs": [b.name for b in h.backends()],
    "servers": sorted(s.name for s in h.servers()), "before": before, "drained": drained, "after": server.status,
    "maxconn": front.maxconn, "requests": front.requests, "hits": front.metric("hrsp_2xx"),
    "pid": h.processids, "version": h.version, "uptime": h.uptime, "down": h.backend("app").server("app2").status}))
"""
    with World(binary, folder) as world:
        for _ in range(3):
            world.get("/local")
        done = subprocess.run([python, "-c", script, world.socket], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        assert (found["fronts"], found["backs"], found["servers"]) == (["web"], ["app"], ["app1", "app2"]), found
        assert found["before"] == ["no check", "7", "127.0.0.1"], found
        assert found["drained"] == ["DRAIN", "3"] and found["after"] == "no check", found
        assert found["maxconn"] == 77 and found["hits"] == 3 and found["down"] == "MAINT", found
        assert found["pid"] == [str(world.program.pid)], found


class Screen:
    """A terminal of tmux that runs a program."""

    def __init__(self, folder, *command):
        self.tmux = ["tmux", "-S", os.path.join(folder.path, "tmux"), "-f", "/dev/null"]
        self.command = command
        self.env = {**os.environ, "TERM": "xterm", "HOME": folder.path}

    def __enter__(self):
        subprocess.run([*self.tmux, "new-session", "-d", "-x", "120", "-y", "40", *self.command], check=True, env=self.env)
        return self

    def __exit__(self, *_):
        subprocess.run([*self.tmux, "kill-server"], capture_output=True)

    def text(self):
        """What it shows; empty when it has ended."""
        return subprocess.run([*self.tmux, "capture-pane", "-p"], capture_output=True, text=True).stdout

    def keys(self, *keys):
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)


def hatop_shows_the_proxies(binary, folder):
    """The dashboard of the terminal: its table has the servers with their states."""
    if not (shutil.which("hatop") and shutil.which("tmux")):
        raise LeftOut("hatop or tmux is not installed")
    with World(binary, folder) as world:
        world.get("/local")
        with Screen(folder, "hatop", "-s", world.socket) as screen:
            shown = lambda: all(word in screen.text() for word in ("web", "app1", "app2", "MAINT"))  # noqa: E731
            assert wait_until(shown, 20), screen.text()


# The fields of `option httplog`, in GoAccess' words.
GOACCESS = ["--log-format=%^]: %h:%^ [%d:%t.%^] %^ %^ %^/%^/%^/%^/%L %s %b %^ %^ %^ %^ %^ \"%r\"", "--date-format=%d/%b/%Y",
            "--time-format=%H:%M:%S"]


def goaccess_understands_the_log(binary, folder):
    """Every line of `option httplog` is one request with its status, and none is wrong."""
    if not shutil.which("goaccess"):
        raise LeftOut("goaccess is not installed")
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


def lnav_knows_the_format(binary, folder):
    """Its own definition of HAProxy's log reads the fields."""
    if not shutil.which("lnav"):
        raise LeftOut("lnav is not installed")
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


def check_scripts_ask_the_socket(binary, folder):
    """The lines of shell that keepalived, Pacemaker and monitoring run: is it alive, is a backend up, how full is it."""
    with World(binary, folder) as world:
        def shell(script):
            done = subprocess.run(["sh", "-c", script, "sh", world.socket], capture_output=True, text=True, timeout=20)
            return done.returncode, done.stdout.strip()
        ask = 'printf "%s\\n" "{}" | socat - "UNIX-CONNECT:$1"'
        assert shell(ask.format("show info") + " | grep -q '^Name: '")[0] == 0
        assert shell(f"kill -0 $({ask.format('show info')} | awk '/^Pid:/ {{print $2}}')")[0] == 0
        state = ask.format("show stat") + " | awk -F, '$1 == \"app\" && $2 == \"{}\" {{{{print $18}}}}'"
        assert shell(state.format("BACKEND")) == (0, "UP")
        assert shell(ask.format("disable server app/app1")) == (0, "")
        assert shell(state.format("app1")) == (0, "MAINT") and shell(state.format("BACKEND")) == (0, "DOWN")
        assert shell(ask.format("set server app/app1 state ready; get weight app/app1")) == (0, "7 (initial 7)")
        limit = ask.format("show info") + " | awk '/^Maxconn:/ {m=$2} /^CurrConns:/ {c=$2} END {exit !(c < m)}'"
        assert shell(limit)[0] == 0


if __name__ == "__main__":
    sys.exit(main("ecosystem", [sys.modules[__name__]]))
