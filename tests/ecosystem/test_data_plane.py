"""The actions of HAProxy's Data Plane API, by hand: its modules are not available from the registry. A transaction is a
file that is written, checked and loaded; servers, maps and certificates change at run time, with the commands and the
framing of its library, on the master's socket."""
import contextlib
import os
import re

from ecosystem.support import ROOT, of_the_manual
from lib.needs import installed
from lib.program import free_port, request, run, wait_until
from master.support import Clients, Master, talk, tcp

CONFIGURATION = """
# _version={version}
global
    master-worker
    stats socket {folder}/cli level admin
defaults unnamed_defaults_1
    mode http
    timeout connect 2s
    timeout client 5s
    timeout server 5s
frontend web from unnamed_defaults_1
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain lf-string v{version} if {{ path / }}
    use_backend %[path,map({folder}/paths.map,app)]
backend app from unnamed_defaults_1
    server app1 127.0.0.1:{server} weight 10
    server app2 127.0.0.1:1 disabled
listen server from unnamed_defaults_1
    bind 127.0.0.1:{server}
    http-request return status 200 content-type text/plain string served
"""


class Plane:
    """A master, with the actions of the Data Plane API."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.port, self.server = binary, folder, free_port(), free_port()
        folder.file("paths.map", "/one app\n")
        self.master = Master(binary, folder, folder.file("a.cfg", self.text(1)))

    def text(self, version):
        return CONFIGURATION.format(folder=self.folder.path, port=self.port, server=self.server, version=version)

    def __enter__(self):
        self.master.__enter__()
        self.master.served()
        return self

    def __exit__(self, *_):
        self.master.__exit__()

    def commit(self, text):
        """A transaction: checks the text as a file of its own, replaces the former one, and loads it. Returns -c's
        output and its status."""
        path = self.folder.file("transaction.cfg", text)
        status, out, err = run(self.binary, "-c", "-f", path)
        if status == 0:
            os.rename(path, self.master.config)
        return status, out + err

    def say(self, command):
        """A command for the worker, with severities, as the library sends it; the bytes that come back."""
        return talk(self.master.socket, f"set severity-output number;@1 {command};quit", end=False)

    def direct(self, command):
        """The same on the worker's own socket; without the empty lines around it."""
        try:
            return talk(f"{self.folder.path}/cli", f"set severity-output number;{command}").strip("\n")
        except OSError:
            return ""

    def answer(self, command):
        """The answer in the library's form: without empty lines; fails if its severity marks an error."""
        said = self.say(command).removesuffix("\n")
        assert not re.match(r"\[[0-3]\]:", said), (command, said)
        return said


def test_a_data_plane_transaction_is_checked_and_loaded(binary, folder):
    """Under load. A transaction with a mistake changes nothing, whether the check or the start finds the mistake."""
    with Plane(binary, folder) as plane, Clients(tcp(plane.port), 2) as clients:
        for version in (2, 3):
            assert plane.commit(plane.text(version))[0] == 0
            plane.master.reload()
            assert wait_until(lambda: request(plane.port).startswith(b"HTTP/1.1 200") and clients.answers.get(f"v{version}", 0) > 20, 10), clients.answers
        status, said = plane.commit(plane.text(4).replace("timeout connect", "timeout conect"))
        assert status == 1 and "transaction.cfg:8]" in said and "conect" in said, said
        assert plane.text(3) == open(plane.master.config).read()
        # A fault that only the start can find: an address in use.
        status, said = plane.commit(plane.text(4).replace(f"bind 127.0.0.1:{plane.server}", "bind 192.0.2.1:1"))
        assert status == 0, said
        answer = plane.master.ask("reload")
        assert answer.startswith("Success=0\n--\n") and "192.0.2.1:1" in answer, answer
        seen = clients.answers["v3"]
        assert wait_until(lambda: clients.answers["v3"] > seen + 20) and "v4" not in clients.answers
        assert plane.commit(plane.text(5))[0] == 0
        plane.master.reload()
        assert wait_until(lambda: clients.answers.get("v5", 0) > 20)
    assert not clients.failures, clients.failures[:3]


# Commands of the library, in the order of one session, and the worker socket's answers with severities in front. 2.6
# prints more about the address.
EXCHANGES = [
    ("set server app/app1 weight 5", ""),
    ("get weight app/app1", "5 (initial 10)"),
    ("set server app/app1 state maint", ""),
    ("set server app/app1 state ready", ""),
    ("set server app/app2 addr 127.0.0.1 port @server@", "[4]: port changed from '1' to '@server@' by 'stats socket command'"),
    ("set server app/app2 state ready", ""),
    ("set server app/nobody state ready", "[3]: No such server."),
    ("set server nobody/app1 weight 1", "[3]: No such backend."),
    ("add server app/app3 127.0.0.1:@server@ weight 10", "[6]: New server registered."),
    ("add server app/app3 127.0.0.1:@server@", "[3]: Already exists a server with the same name in backend."),
    ("enable server app/app3", ""),
    ("del server app/app3", "[3]: Only servers in maintenance mode can be deleted."),
    ("set server app/app3 state maint", ""),
    ("del server app/app3", "[6]: Server deleted."),
    ("add map @map@ /two app", ""),
    ("set map @map@ /two server", ""),
    ("get map @map@ /two", 'type=str, case=sensitive, found=yes, idx=tree, key="/two", value="server", type="str"'),
    ("del map @map@ /two", ""),
    ("prepare map @map@", "[6]: New version created: 1"),
    ("add map @1 @map@ /three server", ""),
    ("commit map @1 @map@", ""),
    ("set maxconn frontend web 500", ""),
    ("disable frontend web", ""),
    ("enable frontend web", ""),
]


def exchanges(plane):
    """The commands and answers for the ports and paths of a world."""
    for exchange in EXCHANGES:
        yield (text.replace("@map@", f"{plane.folder.path}/paths.map").replace("@server@", str(plane.server)) for text in exchange)


def test_data_plane_commands_change_servers_and_maps(binary, folder):
    """Through the master's socket, which does not answer `set severity-output`, and through the worker's. Traffic follows the changes."""
    with Plane(binary, folder) as plane:
        for command, expected in exchanges(plane):
            said = plane.say(command)
            assert said == (f"{expected}\n\n" if expected else "\n"), (command, said)
        states = {row[3]: row for row in (line.split() for line in plane.answer("show servers state app").splitlines()) if len(row) > 5}
        assert (states["app1"][7], states["app1"][8], states["app2"][18]) == ("5", "10", str(plane.server)) and "app3" not in states, states
        assert plane.answer(f"show map {folder.path}/paths.map").split()[1:] == ["/three", "server"]
        assert request(plane.port, b"GET /three HTTP/1.1\r\nHost: x\r\n\r\n").startswith(b"HTTP/1.1 200")
        # The typed figures: number, field, process, tags, type and value of each line.
        lines = plane.answer("show info typed").splitlines()
        typed = {found[1]: found[2] for found in (re.fullmatch(r"\d+\.([\w -]+)\.1:\w{3,4}:(?:str|[us]\d+):(.*)", line) for line in lines)}
        assert typed["Pid"] == str(plane.master.current()) and typed["Name"] == "HAProxy", typed
    with Plane(binary, folder) as plane:
        for command, expected in exchanges(plane):
            said = plane.direct(command)
            assert said == expected, (command, said)


def test_data_plane_commands_have_the_answers_of_haproxy(binary, folder):
    """The same commands to the packaged HAProxy: the same answers, except for the message about the address."""
    answers = []
    for program in (installed("haproxy"), binary):
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(folder.path, "log"))
        with Plane(program, folder) as plane:
            assert wait_until(lambda: plane.direct("show version"))
            found = [plane.direct(command) for command, _ in exchanges(plane)]
            answers.append([text.replace(str(plane.server), "PORT").replace("no need to change the addr, ", "") for text in found])
    for (command, _), theirs, ours in zip(EXCHANGES, *answers):
        assert theirs == ours, (command, theirs, ours)


def test_data_plane_settings_of_the_manual_match_the_package(binary, folder):
    """Paths and unit of `dataplaneapi.yml`."""
    [settings] = of_the_manual("Data Plane API", "text")
    with open(os.path.join(ROOT, "packaging", "systemd", "weir.service")) as file:
        unit = file.read()
    values = dict(re.findall(r"^ *(\w+): (.+)$", settings, re.M))
    assert values["haproxy_bin"] in unit and values["config_file"] in unit and values["master_runtime"] in unit, values
    assert values["service_name"] == "weir" and values["reload_cmd"].split() == ["systemctl", "reload", "weir"], values
