"""Tools for operators: libraries, dashboards, shell commands."""
import json
import os
import subprocess
import sys
import urllib.request

import pytest

from ecosystem.support import World
from lib.needs import installed
from lib.program import ROOT, connects, free_port, wait_until


def library():
    """A python that has haproxyadmin, in an environment that is made of the registry's package once."""
    python = os.path.join(ENVIRONMENT, "bin", "python")
    if subprocess.run(["sh", "-c", f"'{python}' -c 'import haproxyadmin'"], capture_output=True).returncode == 0:
        return python
    for command in ([sys.executable, "-m", "venv", ENVIRONMENT], [python, "-m", "pip", "install", "--quiet", LIBRARY]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        except subprocess.TimeoutExpired:
            pytest.skip("haproxyadmin cannot be installed: the registry does not answer")
        if done.returncode != 0:
            pytest.skip(f"haproxyadmin cannot be installed: {(done.stderr or done.stdout).strip().splitlines()[-1:]}")
    return python


LIBRARY = "haproxyadmin==0.2.4"
ENVIRONMENT = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")),
                           "haproxyadmin-environment")


def test_haproxyadmin_reads_and_changes_servers_and_frontends(binary, folder):
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
        """The screen's text; empty when the program has ended."""
        return subprocess.run([*self.tmux, "capture-pane", "-p"], capture_output=True, text=True).stdout

    def keys(self, *keys):
        subprocess.run([*self.tmux, "send-keys", *keys], check=True)


def test_hatop_shows_frontends_and_servers(binary, folder):
    """The dashboard of the terminal: its table has the servers with their states."""
    installed("hatop")
    installed("tmux")
    with World(binary, folder) as world:
        world.get("/local")
        with Screen(folder, "hatop", "-s", world.socket) as screen:
            shown = lambda: all(word in screen.text() for word in ("web", "app1", "app2", "MAINT"))
            assert wait_until(shown, 20), screen.text()


def test_prometheus_haproxy_exporter_reads_the_statistics(binary, folder):
    """prometheus-haproxy-exporter, over the runtime API: its figures from `show stat` and `show info`."""
    installed("prometheus-haproxy-exporter")
    with World(binary, folder) as world:
        world.get("/local")
        port = free_port()
        words = ["prometheus-haproxy-exporter", f"--web.listen-address=127.0.0.1:{port}", f"--haproxy.scrape-uri=unix:{world.socket}"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as exporter:
            try:
                assert wait_until(lambda: connects(port), 10)
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                    said = answer.read().decode()
            finally:
                exporter.kill()
    for line in ("haproxy_up 1", "haproxy_exporter_csv_parse_failures_total 0", 'haproxy_server_up{backend="app",server="app1"} 1',
                 'haproxy_server_up{backend="app",server="app2"} 0', 'haproxy_server_weight{backend="app",server="app1"} 7',
                 'haproxy_frontend_http_responses_total{code="2xx",frontend="web"} 1'):
        assert f"{line}\n" in said, (line, [found for found in said.splitlines() if found.startswith(line.split("{")[0])])


def test_shell_check_scripts_get_answers_from_the_runtime_api(binary, folder):
    """Shell lines of keepalived, Pacemaker and monitoring: whether weir is alive, whether a backend is up, and the share of connections in use."""
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
