"""The rows: one observation of the Lua API each.

A row has a name, Lua code, and the place where the code runs. The code is an expression or a block; its values come back as text with
their types (harness.lua). `want` is what the manual defines. Without it, recorded.json has what HAProxy 3.2 does (record.py)."""
import dataclasses
import importlib

AREAS = ("members", "core", "actions", "fetches", "converters", "services", "txn", "reply", "channel", "http", "filters", "objects", "sockets",
         "httpclient", "errors", "tasks", "maps", "patterns", "regex", "proxies", "sticktables", "queues", "events", "cli")

GET = b"GET /path?q=1&r=2 HTTP/1.1\r\nHost: shop.test\r\nX-One: 1\r\nX-Two: a\r\nX-Two: b\r\nConnection: close\r\n\r\n"


# The answer of the origin with the fields of all rules, and the error page of a service.
HELLO = (r"client: HTTP/1.1 200 OK\nconnection: close\ncontent-length: 5\nserver-says: hello\nx-backend-after: 1\nx-backend-response: 1\nx-frontend-after: 1\n"
         r"x-frontend-response: 1\nx-list: a, b\nx-list: c\n\nhello")
ERROR_500 = (r"client: HTTP/1.1 500 Internal Server Error\ncache-control: no-cache\nconnection: close\ncontent-length: 97\ncontent-type: text/html\nx-frontend-after: 1\n"
             r"x-frontend-response: 1\n\n<html><body><h1>500 Internal Server Error</h1>\nAn internal server error occurred.\n</body></html>\n")


@dataclasses.dataclass
class Row:
    """One observation.

    place: where the code runs, see `PLACES` of world.py.
    want: the lines of the observation that the manual defines; a string is one line. None: as recorded.
    raw: the code runs unprotected, so that its errors and its return value reach HAProxy; `show(…)` keeps values.
    sent: what the client sends; a list has one element for each connection.
    see: what is observed beside the values: "client" (the answer), "server" (what the origin received), "got"
    (the fields `got`, `made` and `is-bool` that rules added to the request), "log", "stream" (the level of the stream's log line), "peer" (what the peer read).
    registration: code of the file's body, for what has to be registered. frontend, backend: rules, with `{if}` where a condition selects the row.
    peer: the steps of the TCP peer (world.py). answer: the answer of the origin.
    both: the row runs with both values of tune.lua.bool-sample-conversion.
    manual: what the manual of 3.5 says where HAProxy 3.2 does something else.
    since: the first version with the feature, where 2.6 lacks it.
    """
    name: str
    code: str
    want: object = None
    place: str = "http-req"
    raw: bool = False
    sent: object = GET
    see: tuple = ()
    registration: str = ""
    frontend: str = ""
    backend: str = ""
    peer: tuple = ()
    answer: bytes = b""
    both: bool = False
    shut: bool = True
    manual: str = ""
    since: str = ""
    area: str = ""
    number: int = 0

    @property
    def key(self):
        """The row's name in recorded.json."""
        return f"{self.area}: {self.name}"

    @property
    def group(self):
        """The rows that share a process: those of an area, but those that need services, filters or the runtime API apart."""
        kind = next((kind for kind in ("service", "filter", "cli") if kind in self.place), "")
        return self.area, kind

    @property
    def wanted(self):
        """The lines that the manual defines, or None."""
        return [self.want] if isinstance(self.want, str) else self.want


def request(method="GET", path="/path?q=1&r=2", *fields, body=b"", version="1.1", length=True):
    """A request on a connection of its own."""
    lines = [f"{method} {path} HTTP/{version}", "Host: shop.test", *fields, "Connection: close"]
    if body and length:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def rows():
    """All rows, numbered."""
    every = []
    for area in AREAS:
        for one in importlib.import_module(f"lua.rows.{area}").ROWS:
            one.area = area
            every.append(one)
    for number, one in enumerate(every, 1):
        one.number = number
    return every
