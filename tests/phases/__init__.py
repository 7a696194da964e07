"""Cases of tests/phases/test_phases.py, one file a subject."""
from dataclasses import dataclass


@dataclass
class Case:
    """One stream: its configuration, the scripts of both ends, the results."""
    name: str
    lines: str
    server: list
    client: list
    client_sees: str
    server_sees: str
    logged: str
    least: float


def case(name, lines, server, client, client_sees="?", server_sees="?", logged="?", least=0):
    """A row, which takes at `least` so many seconds. The scripts are words; `|` parts those of a server's connections, `;` the lines
    of the section. `*` stands for anything."""
    return Case(name, lines, [script.split() for script in server.split("|")], client.split(), client_sees, server_sees, logged, least)
