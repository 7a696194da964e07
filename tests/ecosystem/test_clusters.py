"""Programs that direct clients around weir or behind it: keepalived, Pacemaker's agents, Patroni."""
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import pytest

from ecosystem.support import of_the_manual, replaced
from lib.needs import installed, needs_root
from lib.origin import Origin, Server
from lib.program import Program, ask, connects, free_port, request, wait_until

USR2, STOP, CONT, KILL = signal.SIGUSR2, signal.SIGSTOP, signal.SIGCONT, signal.SIGKILL


# The first process of a machine: it reaps zombies, which `killall -0` would still find, and ends after five minutes.
FIRST = """
import os, time
end = time.monotonic() + 300
while time.monotonic() < end:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        pass
    time.sleep(0.05)
"""


class Machine:
    """A network and a process table of their own, which end with the block, together with the processes in them."""

    def __init__(self):
        self.holder, self.started = None, []

    def __enter__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", FIRST],
                                       stderr=subprocess.PIPE, text=True)
        children = f"/proc/{self.holder.pid}/task/{self.holder.pid}/children"

        def inside():
            with contextlib.suppress(OSError), open(children) as file:
                return file.read().strip()
            return ""
        wait_until(lambda: inside() or self.holder.poll() is not None)
        if self.holder.poll() is not None:
            pytest.skip(f"no namespaces: {self.holder.stderr.read().strip()}")
        self.pid = int(inside())
        self.enter = ["nsenter", "-t", str(self.pid), "-n", "-p", "-m"]
        # The mounts are there once the process table is the new one.
        assert wait_until(lambda: "ChildProcessError" in self.run("cat", "/proc/1/cmdline"))
        self.run("ip", "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.wait()
        self.holder.stderr.close()
        # Also stop the children that entered the namespace; they do not notice the end of the stopped program.
        for entered in self.started:
            entered.kill()
            entered.wait()

    def run(self, *command):
        """The command's output; empty when it fails."""
        done = subprocess.run([*self.enter, *command], capture_output=True, text=True, timeout=20)
        return done.stdout if done.returncode == 0 else ""

    def start(self, log, *command):
        with open(log, "a") as file:
            self.started.append(subprocess.Popen([*self.enter, *command], stdin=subprocess.DEVNULL, stdout=file, stderr=file))

    def send(self, number, name="weir"):
        """A signal to all processes of a name."""
        self.run("killall", f"-{int(number)}", name)


def wire(machine, address, switch, port):
    """Connects a machine to a switch, which is another one's bridge."""
    subprocess.run(["ip", "link", "add", "name", "eth0", "netns", str(machine.pid), "type", "veth", "peer", "name", port, "netns", str(switch.pid)],
                   check=True, capture_output=True)
    switch.run("ip", "link", "set", port, "master", "switch", "up")
    machine.run("ip", "address", "add", f"{address}/24", "dev", "eth0")
    machine.run("ip", "link", "set", "eth0", "up")


SHARED = "192.0.2.100"


class Pair:
    """Two machines that share an address by keepalived, configured as in the manual, and the clients' machine."""

    def __init__(self, binary, folder, script):
        for name in ("keepalived", "killall", "unshare", "nsenter", "ip", "curl"):
            installed(name)
        needs_root()
        self.binary, self.folder, self.script, self.stack = binary, folder, script, contextlib.ExitStack()
        # A pid in the file of another machine would be taken for a running process.
        self.own = tempfile.mkdtemp(dir=folder.path)

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.clients, *self.machines = [stack.enter_context(Machine()) for _ in range(3)]
            self.clients.run("ip", "link", "add", "name", "switch", "type", "bridge")
            self.clients.run("ip", "address", "add", "192.0.2.1/24", "dev", "switch")
            self.clients.run("ip", "link", "set", "switch", "up")
            for number, machine in enumerate(self.machines):
                wire(machine, f"192.0.2.{number + 2}", self.clients, f"port{number}")
                self.weir(number)
            for number, machine in enumerate(self.machines):
                assert wait_until(lambda: machine.run("curl", "-fs", "http://127.0.0.1:8404/alive"), 10), self.said()
                self.keepalived(number)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self.stack.__exit__(None, None, None)

    def weir(self, number):
        """Starts weir on a machine with the manual's configuration, plus an answer that identifies the machine."""
        [text] = of_the_manual("keepalived", "haproxy")
        text = replaced(text, {"server app1 192.0.2.11:8080 check": "server app1 127.0.0.1:8001 check inter 300ms fall 2 rise 2",
                               "    server app2 192.0.2.12:8080 check\n": "",
                               "    default_backend app\n": f"    http-request return status 200 content-type text/plain string {'ab'[number]}\n    default_backend app\n"})
        # A server that only accepts connections.
        text += "listen accepts\n    mode http\n    bind 127.0.0.1:8001\n    http-request return status 200\n"
        self.machines[number].start(self.log, self.binary, "-W", "-f", self.folder.file(f"{number}.cfg", text),
                                    "-S", os.path.join(self.folder.path, f"master{number}"))

    def keepalived(self, number):
        text = replaced(of_the_manual("keepalived", "text")[0],
                        {"priority 101": f"priority {101 - number}", "interval 2": "interval 1", "    enable_script_security\n": "",
                         "    virtual_router_id 51\n": "    virtual_router_id 51\n    version 3\n    advert_int 0.2\n"})
        text = re.sub(r'script ".*"', lambda _: f'script "{self.script}"', text)
        pids = [word for flag, name in (("-p", "pid"), ("-r", "vrrp"), ("-c", "checkers"))
                for word in (flag, os.path.join(self.own, f"{name}{number}"))]
        self.machines[number].start(self.log, "keepalived", "-P", "-n", "-l", "-f", self.folder.file(f"keepalived{number}", text), *pids)

    @property
    def log(self):
        return os.path.join(self.folder.path, "said")

    def said(self):
        with open(self.log) as file:
            return file.read()[-3000:]

    def answer(self):
        """The machine that answers a client at the shared address; empty without an answer."""
        return self.clients.run("curl", "-s", "-m", "1", f"http://{SHARED}/")

    def answered_by(self, name, seconds=15):
        return wait_until(lambda: self.answer() == name, seconds)

    def has_address(self, number):
        return SHARED in self.machines[number].run("ip", "-o", "address")


SCRIPT = re.search(r'script "(.*)"', of_the_manual("keepalived", "text")[0])[1]


def test_keepalived_moves_the_address_when_weir_dies(binary, folder):
    """With each check script. A reload does not move the address, and a restarted weir gets it back."""
    for script in ("/usr/bin/killall -0 weir", "/usr/bin/pgrep -x weir", SCRIPT):
        with Pair(binary, folder, script) as pair:
            assert pair.answered_by("a"), (script, pair.said())
            pair.machines[0].run("sh", "-c", f"echo reload | socat - UNIX-CONNECT:{folder.path}/master0")
            end = time.monotonic() + 3
            while time.monotonic() < end:
                assert pair.answer() == "a", (script, pair.said())
            pair.machines[0].send(KILL)
            assert pair.answered_by("b"), (script, pair.said())
            assert not pair.has_address(0), script
            pair.weir(0)
            assert pair.answered_by("a"), (script, pair.said())


def test_keepalived_detects_a_hung_weir_only_by_the_monitor_uri(binary, folder):
    """A stopped process still exists for `killall -0`, as the manual notes. The monitor address detects it, and a
    backend without servers."""
    with Pair(binary, folder, "/usr/bin/killall -0 weir") as pair:
        assert pair.answered_by("a"), pair.said()
        pair.machines[0].send(STOP)
        time.sleep(4)
        assert pair.has_address(0) and pair.answer() == ""
        pair.machines[0].send(CONT)
    with Pair(binary, folder, SCRIPT) as pair:
        assert pair.answered_by("a"), pair.said()
        pair.machines[0].send(STOP)
        assert pair.answered_by("b"), pair.said()
        pair.machines[0].send(CONT)
        assert pair.answered_by("a"), pair.said()
        pair.machines[0].run("sh", "-c", f"echo '@1 disable server app/app1' | socat - UNIX-CONNECT:{folder.path}/master0")
        assert pair.answered_by("b"), pair.said()


def test_keepalived_health_checkers_get_answers(binary, folder, port):
    """The request of an HTTP_GET checker, sent by keepalived's `genhash`, and connections without data, as of a TCP_CHECK."""
    installed("genhash")
    log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    log.bind(os.path.join(folder.path, "log"))
    log.settimeout(5)
    text = (f"global\n    log {folder.path}/log local0\ndefaults\n    mode http\n    log global\n    option httplog\n    option dontlognull\n"
            f"    timeout client 5s\nfrontend f\n    bind 127.0.0.1:{port}\n    monitor-uri /alive\n    monitor fail if {{ nbsrv(b) lt 1 }}\n"
            "    http-request return status 200\nbackend b\n    timeout connect 1s\n    timeout server 1s\n    server s 127.0.0.1:1\n")
    with log, Program(binary, "-f", folder.file("a.cfg", text)) as program:
        program.ready(port)
        done = subprocess.run(["genhash", "-s", "127.0.0.1", "-p", str(port), "-u", "/alive", "-v"], capture_output=True, text=True, timeout=10)
        assert done.returncode == 0 and re.search(r"200 OK|MD5SUM", done.stdout), (done.stdout, done.stderr)
        for _ in range(5):
            socket.create_connection(("127.0.0.1", port)).close()
        request(port, b"GET /last HTTP/1.0\r\n\r\n")
        # Neither the monitor nor connections without a byte are in the log.
        lines = []
        while not any("/last" in line for line in lines):
            lines.append(log.recv(4096).decode())
        assert [line for line in lines if "<BADREQ>" in line or "/alive" in line] == [], lines


AGENT = "/usr/lib/ocf/resource.d/heartbeat/anything"
SUCCESS, ERROR, NOT_RUNNING = 0, 1, 7


def test_pacemaker_agent_starts_monitors_and_stops_weir(binary, folder, port):
    """`ocf:heartbeat:anything` with the parameters of the manual, as Pacemaker calls it: arguments and environment, exit statuses of OCF."""
    if not os.path.exists(AGENT):
        pytest.skip(f"program {AGENT}")
    needs_root()
    text = next(text for text in of_the_manual("Pacemaker", "text") if "anything" in text)
    parameters = {name: quoted or bare for name, quoted, bare in re.findall(r'(\w+)=(?:"([^"]*)"|(\S+))', text)}
    assert set(parameters) == {"binfile", "cmdline_options", "pidfile", "monitor_hook"}, parameters
    alive = free_port()
    config = folder.file("a.cfg", f"defaults\n    mode http\n    timeout client 5s\nfrontend f\n    bind 127.0.0.1:{port}\n    http-request return status 200\n"
                         f"frontend alive\n    bind 127.0.0.1:{alive}\n    monitor-uri /alive\n    monitor fail if {{ env(NOTHING) -m found }} or {{ nbsrv(b) lt 1 }}\n"
                         "backend b\n    timeout connect 1s\n    timeout server 1s\n    server s 127.0.0.1:1\n")
    master = os.path.join(folder.path, "master")
    changes = {"/usr/bin/weir": binary, "/etc/weir/weir.cfg": config, "/run/weir/master.sock": master, "/run/weir/weir.pid": f"{folder.path}/pid",
               "127.0.0.1:8404": f"127.0.0.1:{alive}"}
    for name, value in parameters.items():
        for before, after in changes.items():
            value = value.replace(before, after)
        parameters[name] = value
    environment = {**os.environ, "OCF_ROOT": "/usr/lib/ocf", "OCF_RESOURCE_INSTANCE": "weir", "HA_LOGFACILITY": "none", "HA_logfile": f"{folder.path}/ocf",
                   **{f"OCF_RESKEY_{name}": value for name, value in parameters.items()}}

    def agent(action):
        done = subprocess.run([AGENT, action], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
        return done.returncode

    def pid():
        with open(f"{folder.path}/pid") as file:
            return int(file.read())
    assert agent("monitor") == NOT_RUNNING and agent("stop") == SUCCESS
    try:
        assert agent("start") == SUCCESS and connects(port) and agent("start") == SUCCESS
        assert agent("monitor") == SUCCESS
        before = pid()
        assert ask(master, "reload").startswith("Success=1") and pid() == before and agent("monitor") == SUCCESS
        # The hook detects more than a missing process.
        ask(master, "@1 disable server b/s")
        assert agent("monitor") == ERROR
        ask(master, "@1 enable server b/s")
        assert agent("monitor") == SUCCESS
        assert agent("stop") == SUCCESS and not connects(port) and agent("monitor") == NOT_RUNNING
        # A killed weir is an error, not a stop. The next start repairs it.
        assert agent("start") == SUCCESS
        os.kill(pid(), KILL)
        assert wait_until(lambda: agent("monitor") == ERROR)
        assert wait_until(lambda: not connects(port)), "the worker ends with its master"
        assert agent("start") == SUCCESS and agent("monitor") == SUCCESS and agent("stop") == SUCCESS
        # A configuration with a mistake: the start fails.
        with open(config, "a") as file:
            file.write("    nonsense\n")
        assert agent("start") == ERROR and agent("stop") == SUCCESS
    finally:
        with contextlib.suppress(OSError, ValueError):
            os.kill(pid(), KILL)


class Database(Server):
    """A database that sends its name to each session, and the REST server of its Patroni, which knows its role."""

    def __init__(self, name):
        self.name, self.primary = name, False
        self.rest = Origin(self.role)
        super().__init__()

    def role(self, request):
        is_right = self.primary == (request.path in ("/master", "/primary"))
        return b"HTTP/1.0 %d x\r\nConnection: close\r\n\r\n" % (200 if is_right else 503)

    def serve(self, session):
        """Each line is a write: it is answered with the name, or refused by a replica."""
        for _ in session.makefile("rb"):
            session.sendall(f"{self.name} {'written' if self.primary else 'read only'}\n".encode())


def test_sessions_follow_patroni_failovers_under_traffic(binary, folder):
    """The manual's configuration, where databases change their roles while clients write: sessions with the former primary end, and
    no new one reaches a replica once weir knows the roles."""
    databases = [Database("pg1"), Database("pg2")]
    ports = [free_port(), free_port()]
    [text] = of_the_manual("Patroni", "haproxy")
    text = replaced(text, {"bind :5000": f"bind 127.0.0.1:{ports[0]}", "bind :5001": f"bind 127.0.0.1:{ports[1]}", "inter 3s": "inter 200ms",
                           "check port 8008": "check", **{f"192.0.2.4{number}:5432": f"127.0.0.1:{database.port} port {database.rest.port}"
                                                          for number, database in enumerate(databases, 1)}})
    text = f"global\n    stats socket {folder.path}/cli level admin\n" + text
    over, written, refused, lost = threading.Event(), [], [], []

    def client():
        while not over.is_set():
            with contextlib.suppress(OSError):
                with socket.create_connection(("127.0.0.1", ports[0]), 2) as session:
                    session.settimeout(2)
                    lines = session.makefile("rb")
                    while not over.is_set():
                        session.sendall(b"insert\n")
                        answer = lines.readline().decode()
                        if not answer:
                            lost.append(time.monotonic())
                            break
                        (written if "written" in answer else refused).append((time.monotonic(), answer.split()[0]))
            time.sleep(0.01)

    def states():
        table = [line.split(",") for line in ask(f"{folder.path}/cli", "show stat").splitlines()]
        return {(row[0], row[1]): row[17].split()[0] for row in table if len(row) > 17 and row[1].startswith("pg")}

    def settled(primary):
        names = ("pg1", "pg2")
        wanted = {(proxy, name): "UP" if (proxy == "primary") == (name == primary) else "DOWN" for proxy in ("primary", "replicas") for name in names}
        return wait_until(lambda: states() == wanted, 10)
    databases[0].primary = True
    threads = [threading.Thread(target=client) for _ in range(4)]
    try:
        with Program(binary, "-f", folder.file("a.cfg", text)) as program:
            program.ready(ports[0])
            assert settled("pg1"), states()
            for thread in threads:
                thread.start()
            for former, name in ((0, "pg2"), (1, "pg1"), (0, "pg2")):
                assert wait_until(lambda: len(written) > 20), len(written)
                # As Patroni does it: the former one is a replica first, then the other one is promoted.
                databases[former].primary = False
                assert wait_until(lambda: states()[("primary", f"pg{former + 1}")] == "DOWN", 10), states()
                known = time.monotonic()
                time.sleep(0.3)
                databases[1 - former].primary = True
                assert settled(name), states()
                count = len(written)
                assert wait_until(lambda: len(written) > count + 50, 10), (len(written), count)
                assert {who for moment, who in written[count:]} == {name}, (name, written[-5:])
                late = [one for one in refused if one[0] > known + 0.2]
                assert not late, (known, late[:5])
            assert len(lost) >= 4, "sessions with the former primary were ended"
            with socket.create_connection(("127.0.0.1", ports[1]), 2) as session:
                session.sendall(b"select\n")
                assert session.recv(100) == b"pg1 read only\n"
            asked = {f"{request.method} {request.path}" for request in databases[0].rest.requests}
            assert {"OPTIONS /master", "OPTIONS /replica"} <= asked, asked
    finally:
        over.set()
        for thread in threads:
            if thread.ident:
                thread.join()
        for database in databases:
            database.rest.close()
            database.cut()
