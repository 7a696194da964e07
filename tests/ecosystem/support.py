"""A weir with two servers and a log, for programs of third parties."""
import os
import re
import socket

from lib.program import ROOT, Program, ask, free_port, request

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




def of_the_manual(heading, kind):
    """The blocks of one kind (`haproxy`, `text`) under a heading of the manual's page on tools, so that tests run the
    recommended text."""
    with open(os.path.join(ROOT, "doc", "manual", "src", "tools.md")) as file:
        section = file.read().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    found = re.findall(rf"^( *)```{kind}\n(.*?)^ *```$", section, re.M | re.S)
    assert found, (heading, kind)
    return [re.sub(rf"^{indent}", "", text, flags=re.M) for indent, text in found]


def replaced(text, changes):
    """A text of the manual with the addresses and paths of a check; each of them has to be in it."""
    for before, after in changes.items():
        assert before in text, before
        text = text.replace(before, after)
    return text
