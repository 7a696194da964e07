"""Each member of the API is there, with its type."""
from lua.members import MEMBERS
from lua.rows import Row, request

# An object of each class, and the place that has one.
OBJECTS = {
    "core": "core", "Proxy": "core.backends.spare", "Server": "core.backends.spare.servers.s1", "Listener": "core.frontends.f.listeners.plain",
    "EventSub": "core.event_sub({'SERVER_DOWN'}, function() end)", "Queue": "core.queue()", "Concat": "core.concat()", "Channel": "txn.req", "HTTP": "txn.http",
    "HTTPClient": "core.httpclient()", "TXN": "txn", "Reply": "txn:reply{body = 'x'}", "Socket": "core.tcp()", "Regex": "select(2, Regex.new('a', true))", "Map": "member_map",
    "Patref": "core.get_patref(settings.folder .. '/words.map')", "AppletHTTP": "applet", "AppletTCP": "applet", "StickTable": "core.backends.spare.stktable", "act": "act", "filter": "filter",
    "HTTPMessage": "msg", "CertCache": "CertCache", "ACME": "ACME",
}
PLACES = {"AppletHTTP": "http-service", "AppletTCP": "tcp-service", "HTTPMessage": "filter-headers-req"}
# Members of the class itself, and objects with members that depend on events or on mailers: rows/events.py.
STATIC = {"Regex": ("new",), "Map": ("new", "_")}
LUA = {"integer": '"number"', "string": '"string"', "table": '"table"', "boolean": '"boolean"'}


def member(name, of, about):
    """The row of a member."""
    holder = of if of in STATIC and name.startswith(STATIC[of]) else OBJECTS[of]
    want = '"function"' if about["kind"] in ("function", "method") else None
    if about["kind"] == "constant":
        want = '"number"'
    if of == "core" and about["kind"] == "attribute" and "integer" in about["returns"]:
        want = '"number"'
    if about.get("since") == "3.5" or (of, name) == ("TXN", "http_req") or (of, name) == ("TXN", "http_res"):
        want = None
    return Row(f"{of}.{name}", f"type(({holder}).{name})", want, place=PLACES.get(of, "http-req"), since=about.get("since", ""),
               registration="member_map = member_map or Map.new(settings.folder .. '/suffixes.map', Map._str)" if (of, name) == ("Map", "lookup") else "",
               sent=b"x\n" if of == "AppletTCP" else request())


ROWS = [member(name, of, about) for of, members in MEMBERS.items() if of in OBJECTS for name, about in members.items()]
for one in ROWS:
    # 3.5 alone has it: the class may be missing.
    if one.since == "3.5":
        one.code, one.want = "type(ACME)", None
        one.manual = "3.5 has it, 3.2 not."
