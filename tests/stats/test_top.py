"""The terminal dashboard in a real terminal: against weir, against the packaged haproxy, and against neither of them.


weir-top has to be built beside weir. The terminal is tmux's.
"""
import os
import re
import signal
import subprocess
import threading

from lib.needs import installed
from lib.origin import Server
from lib.program import Program, ask, free_port, request, run, wait_until

CONFIGURATION = """
global
    stats socket {folder}/a.sock level admin
    stats socket {folder}/user.sock level user
    stats socket 127.0.0.1:{stats} level admin
defaults
    mode http
    timeout connect 2s
    timeout client 20s
    timeout server 20s
frontend web
    bind 127.0.0.1:{port}
    default_backend app
frontend behind
    bind 127.0.0.1:{behind}
    http-request return status 503 if {{ path /bad }}
    http-request return status 200 content-type text/plain string hello
backend app
    balance roundrobin
    server app1 127.0.0.1:{behind} weight 7
    server app2 127.0.0.1:{behind} weight 3
    server app3 127.0.0.1:1 disabled
"""
REFERENCE = os.environ.get("HAPROXY_PROGRAM", "haproxy")


def top_of(binary):
    """The program under test, and tmux for it."""
    top = os.path.join(os.path.dirname(binary), "weir-top")
    assert os.path.exists(top), "weir-top is not built beside weir"
    installed("tmux")
    return top


class World:
    """A proxy with the configuration above, and clients with a steady load."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        self.port, self.behind, self.stats = free_port(), free_port(), free_port()
        self.path = folder.file("a.cfg", CONFIGURATION.format(folder=folder.path, port=self.port, behind=self.behind, stats=self.stats))
        self.socket = os.path.join(folder.path, "a.sock")
        self.over = threading.Event()

    def start(self):
        self.program = Program(self.binary, "-f", self.path)
        self.program.__enter__()
        self.program.ready(self.port)

    def __enter__(self):
        self.start()
        self.client = threading.Thread(target=self.load)
        self.client.start()
        return self

    def load(self):
        while not self.over.wait(0.02):
            try:
                request(self.port)
            except OSError:
                pass

    def __exit__(self, *_):
        self.over.set()
        self.client.join()
        self.program.__exit__()

    def ask(self, command):
        return ask(self.socket, command)

    def state(self, server):
        """State and weight, as the statistics have them."""
        for line in self.ask("show stat").splitlines():
            fields = line.split(",")
            if fields[:2] == ["app", server]:
                return fields[17], fields[18]
        raise AssertionError(f"no {server}")


class Screen:
    """A terminal of some size with a shell that runs a command, and reports its end."""

    def __init__(self, folder, command, width=80, height=24, **env):
        self.tmux = ["tmux", "-S", os.path.join(folder.path, f"tmux{id(self)}"), "-f", "/dev/null"]
        words = " ".join(f"{name}='{value}'" for name, value in env.items())
        self.command = f"echo before; env {words} {command}; echo ended with $?; stty -a | grep -o ' [-]*icanon'; exec sleep 1000"
        self.size = ["-x", str(width), "-y", str(height)]
        self.env = {**os.environ, "TERM": "xterm", "HOME": folder.path, "LC_ALL": "C.UTF-8"}
        self.env.pop("NO_COLOR", None)

    def __enter__(self):
        subprocess.run([*self.tmux, "new-session", "-d", *self.size, "sh", "-c", self.command], check=True, env=self.env)
        return self

    def __exit__(self, *_):
        subprocess.run([*self.tmux, "kill-server"], capture_output=True)

    def text(self, *options):
        return subprocess.run([*self.tmux, "capture-pane", "-p", *options], capture_output=True, text=True).stdout

    def keys(self, *keys):
        for key in keys:
            subprocess.run([*self.tmux, "send-keys", key], check=True)

    def shows(self, *patterns, seconds=20.0):
        """Waits until all texts are on the screen at the same time."""
        found = wait_until(lambda: (text := self.text()) and all(re.search(p, text, re.M) for p in patterns), seconds)
        assert found, f"{patterns} are not all in:\n{self.text()}"

    def resize(self, width, height):
        subprocess.run([*self.tmux, "resize-window", "-x", str(width), "-y", str(height)], check=True)

    def child(self, name):
        """The process of that name below the terminal."""
        shell = subprocess.run([*self.tmux, "display-message", "-p", "#{pane_pid}"], capture_output=True, text=True).stdout.strip()
        pids = subprocess.run(["pgrep", "-P", shell, "-x", name], capture_output=True, text=True).stdout.split()
        return int(pids[0])

    def ended(self, status):
        """The program is gone, the shell's screen is back, and the terminal takes lines again."""
        self.shows(r"^before$", rf"^ended with {status}$", r"^ icanon$")
        assert "Overview" not in self.text(), self.text()


def test_changes_of_a_server_in_weir_top_need_a_confirmation(binary, folder):
    """A change is sent only after a confirmation: drain, weight, ready. The answer of weir is shown."""
    top = top_of(binary)
    with World(binary, folder) as world, Screen(folder, f"{top} -s {world.socket}") as screen:
        screen.shows("weir 0", r"requests/s +[1-9]", r"app/app3 +MAINT", r"2 up, 1 maint")
        screen.keys("4")
        screen.shows(r"^app/app1 +no check +7 .* [1-9][\d.]*", r"^app/app2 +no check +3", r"p99")
        screen.keys("d")
        screen.shows(r"Drain app/app1\?", "set server app/app1 state drain")
        assert world.state("app1")[0] == "no check"
        screen.keys("n")
        screen.shows("nothing was changed")
        assert world.state("app1")[0] == "no check"
        screen.keys("d", "y")
        screen.shows("state drain: done", r"^app/app1 +DRAIN")
        assert world.state("app1")[0] == "DRAIN"
        # The rate falls to zero.
        screen.shows(r"^app/app1 +DRAIN +7 +\d+ +\d+ +0 ")
        screen.keys("e", "y")
        screen.shows("state ready: done", r"^app/app1 +no check")
        screen.keys("Down", "w", "9", "Enter")
        screen.shows(r"Give app/app2 the weight 9\?")
        screen.keys("y")
        screen.shows(r"^app/app2 +no check +9")
        assert world.state("app2") == ("no check", "9")
        screen.keys("m", "y")
        screen.shows(r"^app/app2 +MAINT")
        screen.keys("Enter")
        screen.shows("server app/app2", "MAINT for", "p99.9", r"^. total +[\d.]+(us|ms)")
        screen.keys("Escape", "q")
        screen.ended(0)


def test_every_view_of_weir_top_has_its_rows(binary, folder):
    top = top_of(binary)
    with World(binary, folder) as world, Screen(folder, f"{top} -s 127.0.0.1:{world.stats}", 120, 40) as screen:
        request(world.port, b"GET / HTTP/1.1\r\nHo st: x\r\n\r\n")
        screen.shows("Overview", "Attention", "Busiest")
        for key, *patterns in (("2", r"^web +OPEN", r"^behind +OPEN"), ("3", r"^app +UP"), ("4", r"^app/app1"),
                               ("5", r"^web .* [1-9] ", "Total events captured", "Ho st: x"), ("6", "^SOURCE", "GLOBAL"),
                               ("?", "another weight")):
            screen.keys(key)
            screen.shows(*patterns)
        screen.keys("4", ">", ">")
        screen.shows("STATE▼")
        screen.keys("/", "a", "p", "p", "2", "Enter")
        screen.shows("names: app2")
        assert "app/app1" not in screen.text()


def test_weir_top_shows_and_drains_servers_of_haproxy(binary, folder):
    """Figures that HAProxy lacks are left out; changes take effect in HAProxy."""
    top = top_of(binary)
    with World(installed(REFERENCE), folder) as world, Screen(folder, f"{top} -s {world.socket}", 120, 40) as screen:
        screen.shows(r"HAProxy \d", r"requests/s +[1-9]")
        screen.keys("4")
        screen.shows(r"^app/app1 +no check +7")
        assert "p99" not in screen.text() and "nknown" not in screen.text(), screen.text()
        screen.keys("d", "y")
        screen.shows(r"^app/app1 +DRAIN")
        assert world.state("app1")[0] == "DRAIN"
        screen.keys("Enter")
        screen.shows("server app/app1", "average")
        screen.keys("Escape", "5")
        screen.shows("Total events captured")
        screen.keys("6")
        screen.shows("GLOBAL")


def test_weir_top_reports_a_read_only_socket(binary, folder):
    top = top_of(binary)
    with World(binary, folder) as world, Screen(folder, f"{top} -s {folder.path}/user.sock") as screen:
        screen.keys("6")
        screen.shows("Permission denied", "level of this socket")
        screen.keys("4", "d", "y")
        screen.shows("state drain: Permission denied")
        assert world.state("app1")[0] == "no check"


def test_weir_top_keeps_the_last_snapshot_until_the_process_is_back(binary, folder):
    """The last snapshot stays on the screen with a notice; a new process is announced, and rates do not jump."""
    top = top_of(binary)
    with World(binary, folder) as world, Screen(folder, f"{top} -s {world.socket}") as screen:
        screen.keys("4")
        screen.shows(r"^app/app1 +no check", "every 1 s")
        former = world.program.pid
        world.program.__exit__()
        screen.shows(r"lost \d+s", r"^app/app1 +no check", "last picture")
        screen.keys("d", "y")
        screen.shows("not sent")
        world.start()
        screen.shows("every 1 s", rf"pid {world.program.pid}", r"^app/app1 +no check")
        assert former != world.program.pid and world.state("app1")[0] == "no check"


def test_weir_top_follows_a_reload_to_the_new_worker(binary, folder):
    """After a reload the new worker is shown, through its own socket and through the master's."""
    top = top_of(binary)
    world = World(binary, folder)
    master = os.path.join(folder.path, "master")
    with Program(binary, "-W", "-f", world.path, "-S", master) as program:
        program.ready(world.port)
        with Screen(folder, f"{top} -s {world.socket}") as screen, Screen(folder, f"{top} -s {master}") as of_master:
            for each in (screen, of_master):
                each.keys("2")
                each.shows(r"^web +OPEN", r"pid \d+")
            former = re.search(r"Pid: (\d+)", world.ask("show info")).group(1)
            program.send(signal.SIGUSR2)
            assert wait_until(lambda: f"Pid: {former}\n" not in world.ask("show info"), 20)
            present = re.search(r"Pid: (\d+)", world.ask("show info")).group(1)
            for each in (screen, of_master):
                each.shows(rf"pid {present}", r"^web +OPEN")


def test_weir_top_restores_the_terminal_on_every_exit(binary, folder):
    """After keys and signals that end weir-top, the former screen, echo and line mode are back."""
    top = top_of(binary)
    with World(binary, folder) as world:
        for end in ("C-c", "q", signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with Screen(folder, f"{top} -s {world.socket}") as screen:
                screen.shows("Overview", "every 1 s")
                if isinstance(end, str):
                    screen.keys(end)
                else:
                    os.kill(screen.child("weir-top"), end)
                screen.ended(0)


def test_weir_top_exits_when_its_terminal_is_gone(binary, folder):
    """A closed window or a broken connection leaves no process behind."""
    top = top_of(binary)
    with World(binary, folder) as world, Screen(folder, f"{top} -s {world.socket}") as screen:
        screen.shows("Overview", "every 1 s")
        pid = screen.child("weir-top")
        server = subprocess.run([*screen.tmux, "display-message", "-p", "#{pid}"], capture_output=True, text=True).stdout
        os.kill(int(server), signal.SIGKILL)
        assert wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 10), "still there"


def test_weir_top_adapts_to_terminal_size_colours_and_type(binary, folder):
    top = top_of(binary)
    with World(binary, folder) as world:
        with Screen(folder, f"{top} -s {world.socket} --view servers") as screen:
            screen.shows(r"^app/app1", "WEIGHT", "q quit")
            screen.resize(40, 12)
            screen.shows(r"^app/app1 .*[\d.]+$", "q quit")
            screen.resize(10, 3)
            screen.resize(200, 50)
            screen.shows("resp p99", "HISTORY")
            screen.keys("q")
            screen.ended(0)
        with Screen(folder, f"{top} -s {world.socket}") as screen:
            screen.shows("╭ Process")
            assert COLOUR.search(screen.text("-e")), screen.text("-e")
        with Screen(folder, f"{top} -s {world.socket}", LC_ALL="C", NO_COLOR="1") as screen:
            screen.shows(r"^\+ Process", r"requests/s +[1-9]")
            assert screen.text().isascii() and not COLOUR.search(screen.text("-e")), screen.text("-e")
        with Screen(folder, f"{top} -s {world.socket}", TERM="dumb") as screen:
            screen.shows("TERM=dumb", "ended with 1")


def test_weir_top_once_prints_one_snapshot_for_scripts(binary, folder):
    """`--once`: rows with equal numbers of fields, exit statuses, messages on standard error."""
    top = top_of(binary)
    with World(binary, folder) as world:
        assert wait_until(lambda: world.state("app1") and "app,app1,0,0" in world.ask("show stat"))
        status, out, error = run(top, "-s", world.socket, "--once", "--view", "servers", "--filter", "app1")
        rows = [line.split() for line in out.splitlines()]
        assert (status, error, len(rows)) == (0, "", 2) and len(rows[0]) == len(rows[1]), (status, out, error)
        assert dict(zip(rows[0], rows[1]))["WEIGHT"] == "7" and rows[1][0] == "app/app1", out
        status, out, error = run(top, "-s", f"127.0.0.1:{world.stats}", "--once")
        assert status == 0 and "web" in out and re.search("attention +app/app3: MAINT", out), (status, out, error)
        status, out, error = run(top, "-s", f"{folder.path}/user.sock", "--once", "--view", "sessions")
        assert status == 1 and "Permission denied" in error, (status, out, error)
        status, out, error = run(top, "-s", world.socket)
        assert status == 1 and "not a terminal" in error, (status, out, error)
        # A web server answers.
        status, out, error = run(top, "-s", f"127.0.0.1:{world.port}", "--once")
        assert status == 1 and "not a runtime API" in error, (status, out, error)
    status, out, error = run(top, "-s", f"{folder.path}/nosuch", "--once")
    assert status == 1 and "nosuch: cannot connect" in error, (status, out, error)
    assert run(top, "--nosuch")[0] == 2 and run(top, "--help")[0] == 0
    assert run(top, "--version")[1].startswith("weir-top ")


# A sequence that chooses a colour.
COLOUR = re.compile("\x1b\\[(?:\\d+;)*(?:3[0-8]|9[0-7])[;m]")
HEAD = "# pxname,svname,status,type,stot,last_chk\n"


def test_weir_top_survives_a_hostile_runtime_api(binary, folder):
    """Endless answers, silence, control characters: weir-top keeps responding, and its memory stays small."""
    top = top_of(binary)
    mode, over = ["names"], threading.Event()

    def serve(connection):
        for line in connection.makefile("rb"):
            if line == b"prompt\n":
                connection.sendall(b"\n> ")
            elif mode[0] == "flood":
                while not over.is_set():
                    connection.sendall(b"x" * 65536)
            elif mode[0] == "silence":
                over.wait(60)
            elif line.startswith(b"show info"):
                connection.sendall(b"Version: \x1b[2Jx\nPid: 7\nUptime_sec: 5\n\n> ")
            elif line.startswith(b"show stat"):
                connection.sendall((HEAD + "evil\x1b]0;\x07,s\x1b[2J;1,UP,2,5,\x1bc\n\n> ").encode())
            else:
                connection.sendall(b"\n> ")

    server = Server(serve)
    try:
        with Screen(folder, f"{top} -s 127.0.0.1:{server.port} -i 0.2 --view servers") as screen:
            screen.shows(r"evil\?\]0;\?/s\?\[2J;1 +UP")
            screen.keys("d")
            screen.shows("cannot be written in a command")
            pid = screen.child("weir-top")
            for mode[0], words in (("flood", "lost"), ("silence", r"no complete answer within|closed|show info")):
                screen.shows(words, seconds=40)
                screen.keys("1")
                screen.shows("1 Overview")
            with open(f"/proc/{pid}/status") as file:
                most = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
            assert most < 100_000, f"{most} kB"
            screen.keys("q")
            screen.ended(0)
    finally:
        over.set()
        server.close()
