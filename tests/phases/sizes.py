"""`%B` (manual, 8.2.6): the logged size of a response, compared with the reference."""
from phases import case


def _response(*fields, body="ok", status="200 OK"):
    """A word that sends these bytes."""
    head = f"HTTP/1.1 {status}\r\n" + "".join(f"{field}\r\n" for field in fields) + "\r\n"
    return ":" + (head + body).replace(" ", "\\x20").replace("\r\n", "\\r\\n")


_LENGTH, _CODING = "Content-Length: 2", "Transfer-Encoding: chunked"
_RESPONSES = {
    "plain": (_response(_LENGTH), 51), "until_close": (_response(), 36), "no_reason": (_response(_LENGTH, status="200"), 49),
    # Connection without the hop-by-hop tokens.
    "close": (_response(_LENGTH, "Connection: close"), 51), "keep_alive": (_response(_LENGTH, "Connection: Keep-Alive"), 51),
    "keep_alive_time": (_response(_LENGTH, "Connection: keep-alive", "Keep-Alive: timeout=5"), 70),
    "token": (_response(_LENGTH, "Connection: foo"), 64), "close_and_token": (_response(_LENGTH, "Connection: close, foo"), 64),
    "two_fields": (_response(_LENGTH, "Connection: close", "Connection: foo"), 64),
    # The payload, and one for its end.
    "chunk": (_response(_CODING, body="2\r\nok\r\n0\r\n\r\n"), 61), "chunks": (_response(_CODING, body="1\r\no\r\n1\r\nk\r\n0\r\n\r\n"), 61),
    "extension": (_response(_CODING, body="2;a=b\r\nok\r\n0\r\n\r\n"), 61),
    "interim": (":HTTP/1.1\\x20100\\x20Continue\\r\\n\\r\\n" + _response(_LENGTH)[1:], 91),
}
CASES = [
    case(f"size_{name}{mode}", lines, f"head {response} fin rest", f"{request} head rest", "*", "*", f"200 ---- 0 s {size}")
    for name, (response, size) in _RESPONSES.items()
    for mode, lines, request in (("", "", "get"), ("_httpclose", "option httpclose", "get"), ("_10", "", ":GET\\x20/\\x20HTTP/1.0\\r\\n\\r\\n"),
                                 ("_added", "http-response add-header X-Y zz", "get"))
]
