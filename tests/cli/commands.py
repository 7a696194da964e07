"""Chapter 9 of the management manual 3.5 as a table: the answer to each command of the runtime API.

A row of commands.tsv is a statement of the manual: its section, the level of the socket, the line to send, and
the complete answer. `~` begins a regular expression that the whole answer has to match. Lines have `\\n`, `\\t`, `\\r`
and `\\\\` for such bytes. Rows of one section are sent to one process, in their order. A row may have a reason why HAProxy
answers otherwise, which begins with the version that it holds for.
"""
import itertools
import os
import re
import socket

from lib.program import Folder, Program, free_port, request, run, wait_until

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "commands.tsv")
LEVELS = ("admin", "operator", "user")
# Passing sockets has its tests in tests/master/test_hand_over.py.
ELSEWHERE = {"_getsocks"}

CONFIGURATION = """
global
    stats socket @folder@/admin level admin
    stats socket @folder@/operator level operator
    stats socket @folder@/user level user
    stats maxconn 30
    maxconn 200
    nbthread 1
    set-var proc.text str(hello)
    set-var proc.five int(5)
    setenv ONE first
ring events
    description "one ring"
    format raw
    size 32768
defaults
    mode http
    timeout connect 1s
    timeout client 20s
    timeout server 20s
frontend front
    bind 127.0.0.1:@front@ name first
    log ring@events local0
    log-format "%HM %HU"
    acl listed src -f @folder@/src.acl
    http-request set-header x %[src,map_ip(@folder@/ips.map)]
    http-request set-header y %[path,map(@folder@/words.map)]
    use_backend held
    http-request return status 200 content-type text/plain string hello unless { path /held }
frontend other
    bind 127.0.0.1:@other@
    default_backend b
backend b
    balance roundrobin
    server s1 127.0.0.1:9 weight 10 maxconn 30
    server s2 127.0.0.2:9
    server s3 127.0.0.3:9 disabled
backend held
    server silent 127.0.0.1:@silent@
backend fixed
    balance static-rr
    server s1 127.0.0.1:9 weight 7
backend cookies
    balance roundrobin
    cookie c insert dynamic
    server s1 127.0.0.1:9
"""
# The place of the last rule of `front` is warned of, so that the start has something to show.
FILES = {"src.acl": "10.0.0.0/8\n192.168.0.1\n", "ips.map": "10.0.0.0/8 ten\n", "words.map": "one 1\ntwo 2\none 11\n"}


class Row:
    """A row of the table: a statement of the manual."""

    def __init__(self, number, line):
        self.number = number
        fields = line.split("\t")
        if len(fields) != 5 or fields[1] not in LEVELS:
            raise ValueError(f"commands.tsv:{number}: five fields and a level are wanted")
        self.section, self.level, self.sent, self.answer, reason = fields
        version, _, self.reason = reason.partition(": ")
        self.version = version if self.reason else None

    def holds(self, answer):
        """Whether the response matches the row."""
        if self.answer.startswith("~"):
            return re.fullmatch(self.answer[1:], shown(answer)) is not None
        return self.answer == shown(answer)


def shown(text):
    """A text on one line, with escapes."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")


def meant(text):
    """Decodes the escapes of a row."""
    return re.sub(r"\\([ntr\\])", lambda match: {"n": "\n", "t": "\t", "r": "\r", "\\": "\\"}[match[1]], text)


def rows():
    """The table."""
    with open(TABLE) as file:
        lines = list(enumerate(file.read().split("\n"), 1))
    return [Row(number, line) for number, line in lines if line and not line.startswith("#")]


def say(path, text):
    """The response to a text on one connection. After a text that ends with `...`, the client's side stays open."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5)
        connection.connect(path)
        stays = text.endswith("...")
        connection.sendall(text.removesuffix("...").encode() + b"\n")
        if not stays:
            connection.shutdown(socket.SHUT_WR)
        try:
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode("latin-1")
        except TimeoutError:
            return "it neither answers nor closes"


class Asked:
    """A program with the configuration, a client with a stream in progress, and the program's answers."""

    def __init__(self, binary, folder):
        self.folder = folder
        self.silent = socket.create_server(("127.0.0.1", 0))
        self.ports = {"front": free_port(), "other": free_port(), "silent": self.silent.getsockname()[1]}
        self.places = {"folder": folder.path, **{name: str(port) for name, port in self.ports.items()}}
        for name, content in FILES.items():
            folder.file(name, content)
        path = folder.file("commands.cfg", self.placed(CONFIGURATION))
        self.program = Program(binary, "-db", "-f", path)

    def placed(self, text):
        """Inserts the paths and ports of this run into a text."""
        return re.sub(r"@(folder|front|other|silent)@", lambda match: self.places[match[1]], text)

    def unplaced(self, text):
        """Replaces the paths and ports of this run by placeholders."""
        text = text.replace(self.folder.path, "@folder@")
        for name, port in self.ports.items():
            text = re.sub(rf"(?<!\d){port}(?!\d)", f"@{name}@", text)
        return text

    def __enter__(self):
        self.program.__enter__()
        self.program.ready(self.ports["front"])
        assert request(self.ports["front"]).startswith(b"HTTP/1.1 200")
        self.client = socket.create_connection(("127.0.0.1", self.ports["front"]))
        self.client.sendall(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wait_until(lambda: "be=held" in say(self.folder.path + "/admin", "show sess"))
        return self

    def __exit__(self, *error):
        self.client.close()
        self.silent.close()
        self.program.__exit__(*error)

    def answer(self, row):
        """The program's response to a row."""
        sent = self.placed(meant(row.sent))
        if "@stream@" in sent:
            listed = say(self.folder.path + "/admin", "show sess")
            sent = sent.replace("@stream@", re.search(r"^(0x[0-9a-f]+): .*be=held", listed, re.M)[1])
        return self.unplaced(say(f"{self.folder.path}/{row.level}", sent))


def walk(binary, table):
    """The answers of a program, by the number of the row."""
    answers = {}
    for _, group in itertools.groupby(table, lambda row: row.section):
        with Folder() as folder, Asked(binary, folder) as asked:
            for row in group:
                answers[row.number] = asked.answer(row)
                if asked.program.status(0) is not None:
                    raise AssertionError(f"commands.tsv:{row.number}: the program ended with {asked.program.status(0)}")
    return answers


def unwalked(binary, table):
    """Commands of weir without a row."""
    with Folder() as folder, Asked(binary, folder):
        listed = "".join(run(binary, "-dKcli", "-c", "-f", folder.file("empty.cfg", "defaults\n"))[1:])
        names = set(re.findall(r"^(\S.*?) (?:\[MASTER\] )?(?:\[WORKER\] )", listed, re.M))
        later = {name for name in names if "is not implemented yet" in say(folder.path + "/admin", f"expert-mode on;{name} x x x")}
    return sorted(names - later - {row.section.removeprefix("9.3 ") for row in table} - ELSEWHERE)
