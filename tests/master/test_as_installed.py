"""Starts as distributions make them: identity, root directory, background, pid file, service manager, all at once."""
import contextlib
import os
import re
import shlex
import socket
import subprocess

from lib.needs import installed, needs_root
from lib.program import ROOT, TERM, answering, connects, free_port, request, run, wait_until
from lib.tls import ask_over
from master.support import IS_ROOT, USR2, Service, alive

# Debian's settings, and their variants.
STOCK = "stats socket {folder}/admin.sock mode 660 level admin\n    stats timeout 30s\n    {root}\n    {identity}\n    {daemon}"


def configurations(folder):
    """The `global` sections that the checks start with: with and without a root directory, identity and background."""
    jail = os.path.join(folder.path, "jail")
    os.makedirs(jail, exist_ok=True)
    identity = "uid 65534\n    gid 65534" if IS_ROOT else ""
    roots = ("", f"chroot {jail}", "chroot auto", "chroot /") if IS_ROOT else ("",)
    for root in roots:
        for daemon in ("daemon", ""):
            yield root, daemon, STOCK.format(folder=folder.path, root=root, identity=identity, daemon=daemon)


def test_a_service_with_option_Ws_serves_once_it_reports_readiness(binary, folder):
    for root, daemon, stock in configurations(folder):
        port = free_port()
        config = answering(folder, port, extra=stock)
        command = [binary, "-Ws", "-f", config, "-p", f"{folder.path}/pid", "-S", f"{folder.path}/master.sock"]
        with Service(command, folder) as service:
            told = service.heard()
            assert told == {"READY": "1", "MAINPID": str(service.process.pid), "STATUS": "Ready."}, (root, daemon, told)
            assert request(port).startswith(b"HTTP/1.1 200"), (root, daemon, service.said())
            # It is still the process that the manager started, with its number in the pid file.
            assert service.process.poll() is None and service.pid() == service.process.pid, (root, daemon)
            service.process.send_signal(USR2)
            assert service.heard()["RELOADING"] == "1" and service.heard()["STATUS"] == "Ready."
            assert request(port).startswith(b"HTTP/1.1 200"), (root, daemon, service.said())
            service.process.send_signal(TERM)
            assert service.heard()["STOPPING"] == "1" and service.process.wait(10) == 0


def test_a_daemon_serves_as_soon_as_its_command_returns(binary, folder):
    for options in (["-D"], ["-W", "-D"], ["-W", "-D", "-S", f"{folder.path}/master.sock"]):
        for root, daemon, stock in configurations(folder):
            port = free_port()
            command = [binary, *options, "-f", answering(folder, port, extra=stock), "-p", f"{folder.path}/pid"]
            with Service(command, folder) as service:
                assert service.process.wait(10) == 0, (options, root, daemon, service.said())
                assert request(port).startswith(b"HTTP/1.1 200"), (options, root, daemon, service.said())
                pid = service.pid()
                for process in [pid, *service.workers()]:
                    streams = {os.readlink(f"/proc/{process}/fd/{number}") for number in range(3)}
                    assert streams == {"/dev/null"}, (options, root, streams)
                os.kill(pid, TERM)
                assert wait_until(lambda: not alive(pid)), (options, root, daemon)


def test_foreground_processes_keep_their_stderr(binary, folder):
    for options in (["-W", "-db"], ["-Ws"], ["-db", "-D"]):
        port = free_port()
        config = answering(folder, port, extra="daemon")
        with Service([binary, *options, "-f", config, "-p", f"{folder.path}/pid"], folder) as service:
            assert wait_until(lambda: connects(port)), service.said()
            assert wait_until(lambda: service.pid() == service.process.pid), options
            for process in [service.pid(), *service.workers()]:
                assert os.readlink(f"/proc/{process}/fd/2") == service.log, options


def test_chroot_auto_uses_a_deleted_empty_directory(binary, folder, port):
    """`chroot auto`: the directory is deleted at once, so nothing can be put there, and starts leave none behind."""
    needs_root()
    temporary = os.path.join(folder.path, "tmp")
    os.mkdir(temporary)
    config = answering(folder, port, extra="chroot auto\n    uid 65534\n    gid 65534")
    environment = {**os.environ, "TMPDIR": temporary}
    with Service([binary, "-W", "-f", config, "-p", f"{folder.path}/pid"], folder) as service:
        pass
    service = Service([binary, "-W", "-f", config, "-p", f"{folder.path}/pid"], folder)
    with contextlib.ExitStack() as stack:
        process = subprocess.Popen(service.command, env=environment, stderr=subprocess.DEVNULL)
        stack.callback(process.wait)
        stack.callback(process.kill)
        assert wait_until(lambda: connects(port)) and wait_until(lambda: service.pid() == process.pid)
        worker = service.workers()[0]
        assert os.readlink(f"/proc/{worker}/root").endswith("(deleted)") and os.listdir(f"/proc/{worker}/root") == []
        assert os.listdir(temporary) == [], "nothing is left"
        process.send_signal(USR2)
        assert wait_until(lambda: service.workers() not in ([], [worker])) and os.listdir(temporary) == []


def whole(port):
    with socket.create_connection(("127.0.0.1", port)) as client:
        return ask_over(client)


PACKAGING = os.path.join(ROOT, "packaging")


def test_packaged_configurations_are_valid(binary, folder):
    """The configurations are valid, and the files that the image copies exist."""
    for name, port, users in (("systemd", 80, True), ("container", 8080, False)):
        with open(os.path.join(PACKAGING, name, "weir.cfg")) as file:
            text = file.read()
        assert f"bind :{port}\n" in text and ("user weir" in text) == users, name
        # The user may not exist on this machine.
        config = folder.file("a.cfg", text.replace("user weir", "user root").replace("group weir", "group root"))
        status, out, err = run(binary, "-c", "-V", "-f", config)
        assert (status, err) == (0, "") and "Configuration file is valid" in out, (name, err)
        served = free_port()
        text = text.replace(f"bind :{port}", f"bind 127.0.0.1:{served}").replace("/run/weir", folder.path)
        text = text.replace("user weir", "uid 65534" if IS_ROOT else "").replace("group weir", "gid 65534" if IS_ROOT else "")
        text = text.replace(" uid 65534 gid 65534 mode", " mode")
        if not IS_ROOT:
            text = text.replace("chroot auto", "")
        config = folder.file("a.cfg", text)
        with Service([binary, "-Ws", "-f", config, "-p", f"{folder.path}/pid"], folder) as service:
            assert service.heard()["STATUS"] == "Ready." and b"weir is running" in whole(served), service.said()
    root = os.path.dirname(PACKAGING)
    with open(os.path.join(PACKAGING, "container/Containerfile")) as file:
        image = file.read()
    copies = [line.split()[1:-1] for line in image.splitlines() if line.startswith("COPY ")]
    assert all(os.path.exists(os.path.join(root, source)) for sources in copies for source in sources if sources[0][0] != "-"), copies
    for program in ("weir-ring", "weir-top"):
        assert f"target/release/{program}" in image and f"-p {program}" in image


def test_systemd_analyze_accepts_the_packaged_units(binary, folder):
    """`systemd-analyze verify` complains of neither the service nor the socket."""
    program = installed("systemd-analyze")
    for name in ("weir.service", "weir.socket"):
        with open(os.path.join(PACKAGING, "systemd", name)) as file:
            unit = folder.file(name, file.read().replace("/usr/bin/weir", binary))
    done = subprocess.run([program, "verify", "--man=no", unit.replace(".socket", ".service"), unit], capture_output=True, text=True)
    own = [line for line in done.stderr.splitlines() if "weir." in line]
    assert not own, own


def test_the_systemd_unit_starts_and_reloads_weir(binary, folder, port):
    """The lines of the unit file as the service manager runs them, with the paths of this check."""
    with open(os.path.join(PACKAGING, "systemd/weir.service")) as file:
        unit = file.read()
    lines = dict(re.findall(r"^(ExecStartPre|ExecStart|Environment|PIDFile|Type)=(.*)$", unit, re.M))
    reloads = re.findall(r"^ExecReload=(.*)$", unit, re.M)
    variables = dict(word.split("=", 1) for word in shlex.split(lines["Environment"]))
    assert variables["CONFIG"] == "/etc/weir/weir.cfg", "where the one that ships is installed"
    variables.update(CONFIG=answering(folder, port, extra="daemon"), PIDFILE=f"{folder.path}/pid")

    def command(line):
        # `$NAME` alone is split into words, `${NAME}` is one word.
        words = []
        for word in line.split():
            bare = re.fullmatch(r"\$(\w+)", word)
            name = bare and bare[1]
            words += variables[name].split() if name else [re.sub(r"\$\{(\w+)\}", lambda found: variables[found[1]], word)]
        return [binary if word == "/usr/bin/weir" else word.replace("/run/weir", folder.path) for word in words]

    assert lines["Type"] == "notify" and subprocess.run(command(lines["ExecStartPre"])).returncode == 0
    with Service(command(lines["ExecStart"]), folder) as service:
        assert service.heard()["READY"] == "1"
        assert request(port).startswith(b"HTTP/1.1 200") and service.pid() == service.process.pid
        variables["MAINPID"] = str(service.process.pid)
        for line in reloads:
            assert subprocess.run(command(line.replace("$MAINPID", "${MAINPID}"))).returncode == 0, line
        assert service.heard()["RELOADING"] == "1" and service.heard()["READY"] == "1"
        # The check before a reload finds the fault, so the running service never gets the signal.
        folder.file("a.cfg", "nonsense\n")
        assert subprocess.run(command(reloads[0]), stderr=subprocess.DEVNULL).returncode == 1
        service.process.send_signal(TERM)
        assert service.heard()["STOPPING"] == "1" and service.process.wait(10) in (0, 143)
