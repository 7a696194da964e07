"""Request smuggling: every way to give a length that recipients may read differently, before servers that know no
transfer codings and servers that do, in both versions of HTTP, and the same in responses.

The hidden request is for `/admin`, which the frontend denies: it must never reach a server. The origin's answers name
the exchange of the request, so that an answer to the wrong client is seen as well.
"""
import re

from reference.exchanges import COMMON, answered, only

CONFIGURATION = COMMON + """    http-reuse always
    timeout http-request 200ms
""" + "".join(f"""
frontend {name}
    bind 127.0.0.1:@{name}@
    {"option accept-invalid-http-request" if name.startswith("lax") else ""}
    http-request deny if {{ path_beg /admin }}
    default_backend {name}
backend {name}
    {"option accept-invalid-http-response" if name.startswith("lax") else ""}
    server s1 127.0.0.1:@{"deaf" if name.endswith("deaf") else "origin"}@
""" for name in ("plain", "plaindeaf", "lax", "laxdeaf"))

RECORD = True


def parts(view):
    """The client's answer, and each request that reached a server, in lines."""
    return [part.split("\n") for part in re.split(r"\nto server .*\n", "\n".join(view))]


def fields(head):
    """The fields of a head that determine the body's end and the connection's persistence."""
    return [line.lower() for line in head[1:head.index("\\r\\n")] if re.match("(transfer.encoding|content.length|connection).*:", line, re.I)]


def doubtful(head):
    """Whether a message declares its length in a way that HTTP/1.0 does not know."""
    return "HTTP/1.0" in head[0] and any(line.startswith("transfer-encoding") for line in fields(head))


def never(view):
    """Faults of a view, whatever the other program does."""
    client, *requests = parts(view)
    for request in requests:
        if " /admin" in request[0]:
            return "the hidden request reached a server"
        if doubtful(request) and "connection: close\\r\\n" not in fields(request):
            return "a doubtful request is forwarded without `close`"
    framed = [request for request in requests if any(line.startswith("transfer-encoding") for line in fields(request))]
    if any(doubtful(request) for request in framed) and any(" /next" in request[0] for request in requests):
        return "a connection goes on after a doubtful request"
    if "\\r\\n" in client and doubtful(client) and any(" /next" in request[0] for request in requests):
        return "a connection goes on after a doubtful response"
    return None


def shown(view):
    """The first answer's status, and the framing of the first request that reached a server. `never` checks whether
    connections persist; that differs for doubtful requests."""
    client, *requests = parts(view)
    status = re.search(r"HTTP/1\.\d (\d+)", client[0])
    first = [[re.sub(r"/raw/.*? HTTP", "/raw HTTP", requests[0][0]), *(line for line in fields(requests[0]) if not line.startswith("connection"))]] if requests else []
    # Whether the refusal can still be read is a matter of timing: the reference program resets the connection.
    if not requests and status is None or status and status[1] == "400":
        return ["refused", *sum(first, [])]
    answered_as = [line for line in fields(client) if not line.startswith("connection")] if "\\r\\n" in client else []
    return [status[1] if status else "none", *answered_as, *sum(first, [])]


def hidden(name):
    """A request that must stay hidden in a body."""
    return f"GET /admin HTTP/1.1\r\nHost: x\r\nX-Id: {name}\r\nConnection: keep-alive\r\n\r\n"


def chunked(text):
    """A chunked body."""
    return f"{len(text):x}\r\n{text}\r\n0\r\n\r\n"


# How a message may say that it is chunked, or seem to.
CODINGS = {
    "chunked": "Transfer-Encoding: chunked", "upper": "TRANSFER-ENCODING: CHUNKED", "tab": "Transfer-Encoding:\tchunked", "blank before the colon": "Transfer-Encoding : chunked", "tab before the colon": "Transfer-Encoding\t: chunked",
    "vertical tab": "Transfer-Encoding:\x0bchunked", "form feed": "Transfer-Encoding: chunked\x0c", "form feed in a fold": "Transfer-Encoding:\r\n \x0cchunked", "delete": "Transfer-Encoding: chunked\x7f", "nul": "Transfer-Encoding: chunked\x00", "nul in the name": "Transfer-Encoding\x00: chunked",
    "underscore": "Transfer_Encoding: chunked", "leading blank": " Transfer-Encoding: chunked", "fold": "Transfer-Encoding:\r\n chunked", "fold with a line feed": "Transfer-Encoding:\n chunked", "in a fold": "X: y\r\n Transfer-Encoding: chunked", "after a line feed": "X: y\nTransfer-Encoding: chunked",
    "after a carriage return": "X: y\rTransfer-Encoding: chunked", "in a name": "X\r\nTransfer-Encoding: chunked", "in an odd name": "X(: y\r\n Transfer-Encoding: chunked", "identity": "Transfer-Encoding: identity", "gzip": "Transfer-Encoding: gzip", "gzip and chunked": "Transfer-Encoding: gzip, chunked",
    "identity and chunked": "Transfer-Encoding: identity, chunked", "chunked and identity": "Transfer-Encoding: chunked, identity", "two fields": "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "two fields, turned": "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    "twice": "Transfer-Encoding: chunked, chunked", "twice in fields": "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "empty": "Transfer-Encoding:", "empty and chunked": "Transfer-Encoding:\r\nTransfer-Encoding: chunked", "comma": "Transfer-Encoding: chunked,", "leading comma": "Transfer-Encoding: ,chunked",
    "quotes": 'Transfer-Encoding: "chunked"', "parameter": "Transfer-Encoding: chunked;a=b", "longer": "Transfer-Encoding: xchunked", "and more": "Transfer-Encoding: chunked x", "named by connection": "Connection: transfer-encoding\r\nTransfer-Encoding: chunked", "none": "X: y",
}
# Variants of Content-Length. N stands for the length that a recipient would use if it trusts the field.
LENGTHS = {
    "none": "", "length": "Content-Length: N", "nought": "Content-Length: 0", "plus": "Content-Length: +N", "noughts before": "Content-Length: 00N", "list of equals": "Content-Length: N, N", "list": "Content-Length: N, 0", "equals": "Content-Length: N\r\nContent-Length: N", "two": "Content-Length: N\r\nContent-Length: 0",
    "two, turned": "Content-Length: 0\r\nContent-Length: N", "blank before the colon": "Content-Length : N", "fold": "Content-Length:\r\n N", "fold inside": "Content-Length: 0\r\n N", "empty": "Content-Length:", "comma": "Content-Length: N,", "hexadecimal": "Content-Length: 0xN", "nul": "Content-Length: N\x00",
    "nul in the name": "Content-Length\x00: N", "underscore": "Content_Length: N", "leading blank": " Content-Length: N", "after a carriage return": "X: y\rContent-Length: N", "minus": "Content-Length: -0", "named by connection": "Connection: content-length\r\nContent-Length: N", "form feed": "Content-Length: N\x0c",
}
# Replacements for chunks; T is the hidden request. Trailers with invalid names are left out: 2.6 refuses them or not,
# depending on how it receives them.
CHUNKS = {
    "line feeds": "5\nhello\n0\n\nT", "line feed in an extension": "5;a\nhello\r\n0\r\n\r\nT", "carriage returns": "5\rhello\r0\r\rT", "carriage return in an extension": "5;a\rb\r\nhello\r\n0\r\n\r\nT", "no end of line": "5\r\nhelloT", "two bytes instead": "5\r\nhelloXX0\r\n\r\nT", "longer": "6\r\nhello\r\n0\r\n\r\nT",
    "shorter": "2\r\nhello\r\n0\r\n\r\nT", "prefix": "0x5\r\nhello\r\n0\r\n\r\nT", "plus": "+5\r\nhello\r\n0\r\n\r\nT", "minus": "-5\r\nhello\r\n0\r\n\r\nT", "blank before": " 5\r\nhello\r\n0\r\n\r\nT", "blank behind": "5 \r\nhello\r\n0\r\n\r\nT", "tab behind": "5\t;a\r\nhello\r\n0\r\n\r\nT", "underscore": "1_0\r\n0123456789abcdef\r\n0\r\n\r\nT",
    "too large": "10000000000000005\r\nhello\r\n0\r\n\r\nT", "many noughts": "0" * 40 + "5\r\nhello\r\n0\r\n\r\nT", "extension with quotes": '5;a="\r\n0\r\n\r\nT"\r\n', "extension that is long": "5;" + "a" * 3000 + "\r\nhello\r\n0\r\n\r\n", "empty size": "\r\n0\r\n\r\nT", "extension only": ";a\r\n0\r\n\r\nT", "last chunk of many noughts": "5\r\nhello\r\n00000\r\n\r\n",
    "trailers that frame": "5\r\nhello\r\n0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "trailers with a request": "5\r\nhello\r\n0\r\nGET /admin HTTP/1.1\r\nX-Id: I\r\n\r\n", "trailers with a nul": "5\r\nhello\r\n0\r\nX: \x00\r\n\r\n", "trailers with a fold": "5\r\nhello\r\n0\r\nX: y\r\n z\r\n\r\n",
    "trailers with a line feed": "5\r\nhello\r\n0\r\nX: y\nT", "trailers with a carriage return": "5\r\nhello\r\n0\r\nX: y\rT", "a last line feed": "5\r\nhello\r\n0\r\n\nT", "a last carriage return": "5\r\nhello\r\n0\r\n\r\rT", "a chunk of a request": "N\r\nT\r\n0\r\n\r\n",
}

EXCHANGES = {}


def add(listener, subject, head, body):
    """Adds an exchange: the message, and a second request on the same connection. An HTTP/1.1 message goes to servers
    that know codings, if it has no other length for them to go by."""
    if "HTTP/1.1" in head and "ontent-" not in head.replace("Content_", ""):
        listener = listener.removesuffix("deaf")
    name = f"{listener}-{subject}".replace(" ", "_").replace(",", "")
    text = hidden(name)
    body = body.replace("N", f"{len(text):x}").replace("T", text).replace("X-Id: I", f"X-Id: {name}")
    head = head.replace("@", name).replace("N\r", f"{len(body)}\r").replace("N,", f"{len(body)},").replace("N\x00", f"{len(body)}\x00").replace("N\x0c", f"{len(body)}\x0c")
    EXCHANGES[name] = (listener, [head + "\r\n" + body, 0.03, f"GET /next HTTP/1.1\r\nHost: x\r\nX-Id: {name}\r\n\r\n"])


for _listener in ("plaindeaf", "laxdeaf"):
    for _version in ("1.0", "1.1"):
        _start = f"POST /echo HTTP/{_version}\r\nHost: x\r\nX-Id: @\r\n" + ("Connection: keep-alive\r\n" if _version == "1.0" else "")
        for _name, _field in CODINGS.items():
            add(_listener, f"{_version} coding {_name}", _start + f"{_field}\r\n", "N\r\nT\r\n0\r\n\r\n")
            add(_listener, f"{_version} coding {_name} and a length", _start + f"Content-Length: N\r\n{_field}\r\n", "N\r\nT\r\n0\r\n\r\n")
        for _name, _field in LENGTHS.items():
            add(_listener, f"{_version} length {_name}", _start + (f"{_field}\r\n" if _field else ""), "T" if _name not in ("none", "nought", "minus", "empty") else "")
            if _field:
                add(_listener, f"{_version} length {_name} and a coding", _start + f"Transfer-Encoding: chunked\r\n{_field}\r\n", "N\r\nT\r\n0\r\n\r\n")
for _name, _body in CHUNKS.items():
    add("plain", f"chunks {_name}", "POST /echo HTTP/1.1\r\nHost: x\r\nX-Id: @\r\nTransfer-Encoding: chunked\r\n", _body)

# The same for responses: bytes after one must not be taken for the answer to the next request.
STOLEN = "HTTP/1.1 200 OK\r\nX-Stolen: 1\r\nContent-Length: 6\r\n\r\nstolen"
for _listener in ("plain", "lax"):
    for _version in ("1.0", "1.1"):
        _start = f"HTTP/{_version} 200 OK\r\n" + ("Connection: keep-alive\r\n" if _version == "1.0" else "")
        for _name, _field in CODINGS.items():
            for _more in ("", "Content-Length: 2\r\n"):
                _text = f"{_start}{_more}{_field}\r\n\r\n{chunked(STOLEN)}"
                _title = f"{_listener}-response-{_version}-{_name}{'-and-a-length' if _more else ''}".replace(" ", "_").replace(",", "")
                EXCHANGES[_title] = (_listener, [f"GET {answered(_text)} HTTP/1.1\r\nHost: x\r\nX-Id: {_title}\r\n\r\n", 0.03, f"GET /next HTTP/1.1\r\nHost: x\r\nX-Id: {_title}\r\n\r\n"])

STRICT = "refused: invalid in RFC 9112, or excessive"
DIFFERENT = {f"plain-chunks_{what}": STRICT for what in ("many_noughts", "extension_that_is_long", "trailers_with_a_fold", "a_last_line_feed")}
# Messages that 2.6 lets pass against the manual, by the names of their exchanges.
for _why, _pattern in (
        ("2.6 forwards fields that the manual says are dropped", r"^lax.*(coding|length)_(blank_before|tab_before|nul_in_the_name)|^lax-response.*-(blank_before|tab_before|nul_in_the_name)|^lax-response-1.1-leading_blank$|^lax-response-1..-in_an_odd_name$"),
        ("2.6 takes empty codings, and answers 422 to some", r"coding_(empty_and_chunked|comma|leading_comma)|^plain-response.*-(empty|comma)"),
        ("2.6 forwards codings unchanged, and accepts fewer than in the manual", r"^lax-response.*-(twice|empty|comma|leading_comma)"),
        ("2.6 forwards codings in upper case, which some servers do not know", "-response-1.[01]-upper"),
        (STRICT, "^plain-chunks_(line_feeds|line_feed_in_an_extension|longer|trailers_with_a_nul)$")):
    DIFFERENT |= {name: only("2.6", _why) for name in EXCHANGES if re.search(_pattern, name)}
