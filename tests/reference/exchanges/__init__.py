"""The traffic of tests/reference/test_exchanges.py, one file a subject, each with one configuration.

A file has `CONFIGURATION` (`@name@` becomes the port of that listener; `@origin@`, `@s1@` to `@s4@` and `@bytes@` are
servers, `@closed@` a port that refuses, `@log@` the log's, `@folder@` a folder with `FILES`), `EXCHANGES` and
`DIFFERENT`. `EXCHANGES` has under each name the listener and the pieces to send: text verbatim, None half-closes, a
number waits that many seconds. Or it has `CONFIGURATIONS` instead, texts for both programs to check. Or a `log-forward`
`SECTION` and `TARGETS`: then each exchange is sent alone, as a datagram or over a connection, and the messages at each
target are compared. `DIFFERENT` maps a name to the reason why weir differs on purpose from the compared program, which
is older than the manual (3.5). A reason that holds for one version of it only says which: `only("2.6", "...")`, or
`{"2.6": "...", "3.2": "..."}` for two reasons. A file's `never(view)` names a fault in weir's view, whatever the other
program does; `shown(view)` is the compared part of a view.
"""

H = "Host: x\r\n"
# The beginning of most configurations; a subject may add to the section `defaults`.
COMMON = """
global
    log 127.0.0.1:@log@ local0
    nbthread 1
defaults
    mode http
    log global
    option httplog
    timeout connect 300ms
    timeout client 300ms
    timeout server 300ms
    timeout http-keep-alive 60ms
"""


def only(version, why):
    """A reason to differ from this version alone."""
    return {version: why}


def meant(subject, version):
    """The exchanges that differ on purpose from this version, with their reasons."""
    reasons = {name: why.get(version) if isinstance(why, dict) else why for name, why in subject.DIFFERENT.items()}
    return {name: why for name, why in reasons.items() if why}


def get(path, *headers, method="GET", host="x"):
    """A request without a body."""
    return f"{method} {path} HTTP/1.1\r\nHost: {host}\r\n" + "".join(f"{header}\r\n" for header in headers) + "\r\n"


def post(path, body, *headers, method="POST"):
    """A request with a body of known length."""
    return get(path, f"Content-Length: {len(body)}", *headers, method=method) + body


def answered(text, end=False):
    """The path for which the origin answers these very bytes; it closes then if this is the `end`."""
    return ("/end/" if end else "/raw/") + text.encode("latin-1").hex()


def answer(*headers, body="ok", status="200 OK"):
    """The path for which the origin answers with these fields and this body."""
    fields = "".join(f"{header}\r\n" for header in headers)
    return answered(f"HTTP/1.1 {status}\r\n{fields}Content-Length: {len(body)}\r\n\r\n{body}")
