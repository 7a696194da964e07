"""Logs to UNIX sockets, from a process started like in distributions: `-Ws`, a user, another root directory."""
import contextlib
import os
import re
import signal
import socket
import subprocess

import pytest

from lib.needs import needs_root
from lib.program import ask, free_port, log_socket, request, wait_until
from master.support import Service

CONFIG = """
global
    stats socket {folder}/cli level admin
    {jail}
    {targets}
defaults
    mode http
    log global
    timeout connect 1s
    timeout client 10s
    timeout server 5s
frontend f
    bind 127.0.0.1:{port}
    option dontlognull
    log-format "%HU"
    {own}
    http-request return status 200
{more}
"""


class Daemon:
    """A log daemon: a socket at a path, removed at its end."""

    def __init__(self, path):
        self.path = path

    def __enter__(self):
        self.socket = log_socket(self.path)
        return self

    def __exit__(self, *_):
        self.socket.close()
        os.remove(self.path)

    def paths(self, count):
        """The paths of the next requests, in their order."""
        found = []
        while len(found) < count:
            # The process itself logs its start.
            found += re.findall(r"(/\w+)\n", self.socket.recv(65536).decode())
        return found


class World:
    """A service with a configuration, and requests to it."""

    def __init__(self, binary, folder, jail, targets, own="", more=""):
        os.chmod(folder.path, 0o755)
        self.folder, self.port = folder, free_port()
        text = CONFIG.format(folder=folder.path, jail=jail, targets=targets, port=self.port, own=own, more=more)
        command = [binary, "-Ws", "-f", folder.file("a.cfg", text), "-p", f"{folder.path}/pid"]
        self.service = Service(command, folder)

    def __enter__(self):
        self.service.__enter__()
        assert self.service.heard().get("STATUS") == "Ready.", self.service.said()
        return self

    def __exit__(self, *_):
        self.service.__exit__()

    def get(self, *paths):
        for path in paths:
            assert b" 200 " in request(self.port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())

    def dropped(self):
        return int(re.search(r"^DroppedLogs: (\d+)$", ask(f"{self.folder.path}/cli", "show info"), re.M)[1])

    def outages(self):
        return self.service.said().count("cannot be reached")

    def reload(self):
        os.kill(self.service.pid(), signal.SIGUSR2)
        while self.service.heard().get("STATUS") != "Ready.":
            pass


def jails(folder):
    """Root directories with the identity of a distribution's package."""
    needs_root()
    own = os.path.join(folder.path, "jail")
    os.makedirs(own, exist_ok=True)
    for root in ("auto", own, "/"):
        yield f"chroot {root}\n    uid 65534\n    gid 65534"


def test_log_lines_reach_the_socket_with_any_chroot(binary, folder):
    """No line is lost, neither the first one nor one after a reload, and nothing is reported."""
    path = f"{folder.path}/dev-log"
    for jail in jails(folder):
        with Daemon(path) as daemon, World(binary, folder, jail, f"log {path} local0") as world:
            world.get("/a", "/b")
            assert daemon.paths(2) == ["/a", "/b"], jail
            world.reload()
            world.get("/c")
            assert daemon.paths(1) == ["/c"], jail
            assert (world.dropped(), world.outages()) == (0, 0), (jail, world.service.said())


def test_log_lines_arrive_after_the_log_daemon_starts_or_restarts(binary, folder):
    """The first line after the socket appears arrives. Lines lost before it are counted, and each outage is reported once."""
    path = f"{folder.path}/dev-log"
    for jail in jails(folder):
        with World(binary, folder, jail, f"log {path} local0") as world:
            assert wait_until(lambda: world.outages() == 1), (jail, world.service.said())
            world.get("/lost", "/lost")
            assert wait_until(lambda: world.dropped() >= 2), (jail, world.dropped())
            before = world.dropped()
            for outages in (1, 2):
                with Daemon(path) as daemon:
                    world.get("/a", "/b", "/c")
                    assert sorted(daemon.paths(3)) == ["/a", "/b", "/c"], jail
                assert world.outages() == outages, (jail, world.service.said())
                world.get("/lost", "/lost", "/lost")
                assert wait_until(lambda: world.dropped() == before + 3 * outages), (jail, world.dropped(), before)
                assert wait_until(lambda: world.outages() == outages + 1), (jail, world.service.said())


def test_each_kind_of_section_logs_to_a_socket_outside_the_chroot(binary, folder):
    """A frontend, `log-forward`, a log backend; two targets do not disturb each other."""
    needs_root()
    paths = [f"{folder.path}/{name}" for name in ("own", "relayed", "shared", "global")]
    own, relayed, shared, of_all = paths
    udp = free_port()
    more = (f"log-forward r\n    dgram-bind 127.0.0.1:{udp}\n    log {relayed} local0\n"
            f"backend logs\n    mode log\n    server s uxdg@{shared}\n")
    lines = f"log {own} local0\n    log backend@logs local0"
    with contextlib.ExitStack() as stack:
        daemons = {path: stack.enter_context(Daemon(path)) for path in (own, relayed, shared)}
        world = stack.enter_context(World(binary, folder, "chroot auto\n    uid 65534\n    gid 65534", f"log {of_all} local0", lines, more))
        world.get("/a")
        assert daemons[own].paths(1) == daemons[shared].paths(1) == ["/a"]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"<134>Nov 20 13:05:05 host tag: /relayed\n", ("127.0.0.1", udp))
        assert daemons[relayed].paths(1) == ["/relayed"]
        assert f"'{of_all}' cannot be reached" in world.service.said() and world.outages() == 1, world.service.said()


def test_a_log_socket_inside_the_chroot_is_preferred(binary, folder):
    """As with HAProxy, `/dev/log` inside the chroot is used where it exists."""
    needs_root()
    jail, path = f"{folder.path}/jail", f"{folder.path}/dev-log"
    inner = jail + path
    os.makedirs(os.path.dirname(inner), exist_ok=True)
    os.chmod(os.path.dirname(inner), 0o755)
    with World(binary, folder, f"chroot {jail}\n    uid 65534\n    gid 65534", f"log {path} local0") as world:
        with Daemon(inner) as inside, Daemon(path):
            world.get("/a")
            assert inside.paths(1) == ["/a"]


def test_the_log_connector_process_lacks_privileges_and_listening_sockets(binary, folder):
    """The connector opens log sockets outside of the chroot for its worker. It runs as the worker's user without capabilities, holds no listening
    socket, and ends with the worker, even after SIGKILL. It does not exist without a chroot or without a log target that is a UNIX socket."""
    needs_root()
    path = f"{folder.path}/dev-log"
    jail = "chroot auto\n    uid 65534\n    gid 65534"
    for changes, target, count in ((jail, path, 1), ("uid 65534\n    gid 65534", path, 0), (jail, "127.0.0.1:514", 0)):
        with Daemon(path), World(binary, folder, changes, f"log {target} local0") as world:
            worker, = world.service.workers()
            children = children_of(worker)
            assert len(children) == count, (changes, target, children)
            for child in children:
                with open(f"/proc/{child}/status") as file:
                    status = file.read()
                assert re.search(r"^Uid:\t65534\t65534\t65534\t65534\nGid:\t65534\t65534\t65534\t65534$", status, re.M), status
                assert re.search(r"^Groups:\s*$", status, re.M) and re.search(r"^CapEff:\t0+$", status, re.M), status
                opened = sorted(os.readlink(f"/proc/{child}/fd/{number}").split(":")[0] for number in os.listdir(f"/proc/{child}/fd"))
                assert opened[:3] == ["/dev/null"] * 3 and set(opened[3:]) == {"socket"} and len(opened) <= 5, opened
                for number in os.listdir(f"/proc/{worker}/fd"):
                    with contextlib.suppress(FileNotFoundError):
                        opened = f"/proc/{worker}/fd/{number}"
                        assert not os.path.isdir(opened) or os.path.samefile(opened, f"/proc/{worker}/root"), os.readlink(opened)
                os.kill(worker, signal.SIGKILL)
                assert wait_until(lambda: not os.path.exists(f"/proc/{child}") or is_over(child)), "it outlived its worker"


def children_of(process):
    with open(f"/proc/{process}/task/{process}/children") as file:
        return [int(child) for child in file.read().split()]


def is_over(process):
    with contextlib.suppress(OSError), open(f"/proc/{process}/stat") as file:
        return file.read().rsplit(") ")[-1][0] in "ZX"
    return True


def test_a_log_descriptor_on_a_full_disk_is_reported_once(binary, folder):
    """A full disk is the usual reason."""
    with open("/dev/full", "w") as full:
        inherited = full.fileno()
        os.set_inheritable(inherited, True)
        service = Service([], folder, pass_fds=(inherited,))
        port = free_port()
        text = CONFIG.format(folder=folder.path, jail="", targets=f"log fd@{inherited} format raw local0", port=port, own="", more="")
        service.command = [binary, "-Ws", "-f", folder.file("a.cfg", text), "-p", f"{folder.path}/pid"]
        with service:
            assert service.heard().get("STATUS") == "Ready.", service.said()
            for _ in range(3):
                request(port)
            dropped = r"^DroppedLogs: [1-9]"
            assert wait_until(lambda: re.search(dropped, ask(f"{folder.path}/cli", "show info"), re.M))
            wanted = f"log target 'fd@{inherited}' cannot be reached (No space left on device (os error 28))"
            assert wait_until(lambda: service.said().count(wanted) == 1), service.said()


def test_a_line_after_a_truncated_one_begins_on_a_new_line(binary, folder):
    """A disk that is full may take a part of a line: the next one, when there is room again, begins on a line of its own."""
    needs_root()
    disk = os.path.join(folder.path, "disk")
    os.mkdir(disk)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", disk], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        with open(f"{disk}/log", "ab") as log:
            descriptor = log.fileno()
            os.set_inheritable(descriptor, True)
            port = free_port()
            text = CONFIG.format(folder=folder.path, jail="", targets=f"log fd@{descriptor} format raw local0", port=port, own="", more="")
            service = Service([binary, "-Ws", "-f", folder.file("a.cfg", text), "-p", f"{folder.path}/pid"], folder, pass_fds=(descriptor,))
            with service:
                assert service.heard().get("STATUS") == "Ready.", service.said()
                path = "/" + "x" * 700
                dropped = lambda: int(re.search(r"^DroppedLogs: (\d+)$", ask(f"{folder.path}/cli", "show info"), re.M)[1])
                count = 0
                while not dropped():
                    request(port, f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                    count += 1
                    assert count < 1000, "the disk never fills up"
                # Room for a few lines, and the torn one stays at the end.
                with open(f"{disk}/log", "r+b") as file:
                    content = file.read()
                    assert not content.endswith(b"\n"), "nothing is torn"
                    file.seek(0)
                    file.truncate()
                    file.write(content[-100:])
                request(port, b"GET /after HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert wait_until(lambda: b"/after\n" in open(f"{disk}/log", "rb").read())
                with open(f"{disk}/log", "rb") as file:
                    assert b"\n/after\n" in file.read(), "glued"
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
