"""The list of members is complete and used."""
import os
import re

from lua.members import MEMBERS
from lua.rows.members import OBJECTS

COUNTS = {
    "core": 53, "Proxy": 17, "ProxyMailers": 7, "Server": 34, "Listener": 1, "EventSub": 1, "ServerEvent": 9, "ServerEventCheckRes": 5, "ServerEventState": 6, "ServerEventAdmin": 4,
    "Queue": 5, "Concat": 2, "Channel": 19, "HTTP": 17, "HTTPClient": 5, "TXN": 29, "Reply": 8, "Socket": 9, "Regex": 3, "Map": 12, "Patref": 11, "AppletHTTP": 21, "AppletTCP": 13,
    "StickTable": 3, "act": 9, "filter": 7, "FILTER": 9, "HTTPMessage": 29, "CertCache": 1, "ACME": 1, "AcmeEvent": 6,
}
KINDS = {"attribute", "function", "method", "constant", "callback"}
CONTEXTS = {"body", "init", "task", "action", "fetch", "converter", "filter", "service", "event", "cli"}
# Without a row yet: they need mailers, an ACME section, or checks that fail in time.
WITHOUT_ROWS = {"ProxyMailers", "AcmeEvent", "ServerEventCheckRes"}


def test_each_class_has_all_its_members():
    assert {name: len(members) for name, members in MEMBERS.items()} == COUNTS


def test_each_member_is_described():
    for members in MEMBERS.values():
        for name, about in members.items():
            assert about["kind"] in KINDS and set(about["contexts"].split()) <= CONTEXTS and about["contexts"], name
            assert ("parameters" in about) == (about["kind"] in ("function", "method", "callback")), name


def test_each_member_is_in_a_row():
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rows")
    text = ""
    for name in sorted(os.listdir(folder)) + ["../harness.lua"]:
        if name.endswith((".py", ".lua")):
            with open(os.path.join(folder, name)) as file:
                text += file.read()
    words = set(re.findall(r"\w+", text))
    # `OBJECTS` has a row for each member of its classes.
    missing = [f"{of}.{name}" for of, members in MEMBERS.items() if of not in {*OBJECTS, *WITHOUT_ROWS} for name in members if name not in words]
    assert not missing
