"""Rules on the fields, methods and statuses that say where a message ends: whatever they write, nothing that follows is misread."""
from reference.exchanges import COMMON, answer, answered, get, only, post

# The effect of a rule on a request, by the path that selects it.
REQUEST_RULES = {
    "del length": "del-header content-length", "set length": "set-header content-length 3", "add length": "add-header content-length 3",
    "same length": "set-header content-length 5", "add coding": "add-header transfer-encoding chunked", "set coding": "set-header transfer-encoding gzip",
    "del coding": "del-header transfer-encoding", "GET": "set-method GET", "HEAD": "set-method HEAD", "POST": "set-method POST",
    "CONNECT": "set-method CONNECT", "close": "set-header connection close", "other connection": "set-header connection x-y", "expect": "set-header expect 100-continue",
}
# The effect of a rule on a response, by the field that selects it.
RESPONSE_RULES = {
    "del-length": "del-header content-length", "set-length": "set-header content-length 3", "add-length": "add-header content-length 3",
    "add-coding": "add-header transfer-encoding chunked", "set-coding": "set-header transfer-encoding gzip", "del-coding": "del-header transfer-encoding",
    "close": "set-header connection close", "add-close": "add-header connection close", "204": "set-status 204", "304": "set-status 304", "200": "set-status 200", "404": "set-status 404",
}
NAMES = {what: what.replace(" ", "-").lower() for what in REQUEST_RULES}

CONFIGURATION = COMMON + """    timeout http-keep-alive 200ms
frontend front
    bind 127.0.0.1:@front@
""" + "".join(f"    http-request {rule} if {{ path /{NAMES[what]} }}\n" for what, rule in REQUEST_RULES.items()) \
    + "".join(f"    http-response {rule} if {{ res.hdr(x-do) {what} }}\n" for what, rule in RESPONSE_RULES.items()) + """
    default_backend origin
frontend replies
    bind 127.0.0.1:@replies@
    http-after-response set-status 204 if { capture.req.uri /204 }
    http-after-response set-status 200 if { capture.req.uri /200 }
    http-after-response set-status 304 if { capture.req.uri /304 }
    http-after-response del-header content-length if { capture.req.uri /del }
    http-after-response set-header content-length 3 if { capture.req.uri /set }
    http-after-response set-header connection close if { capture.req.uri /close }
    http-request return status 204 if { path /200 }
    http-request return status 404 content-type text/plain string hello
frontend refusing
    bind 127.0.0.1:@refusing@
    http-request deny if { path /no }
    http-request redirect location /there if { path /elsewhere }
    default_backend origin
frontend tunnels
    bind 127.0.0.1:@tunnels@
    http-request set-var(txn.do) req.hdr(x-do)
    http-request return status 200 content-type text/plain string hello if { req.hdr(x-return) 200 }
    http-request return status 403 content-type text/plain string hello if { req.hdr(x-return) 403 }
    http-response set-status 503 if { var(txn.do) -m str early-503 }
    http-response set-status 101 if { var(txn.do) -m str early-101 }
    http-response set-status 201 if { var(txn.do) -m str early-201 }
    http-response return status 200 content-type text/plain string hello if { var(txn.do) -m str return }
    http-response deny if { var(txn.do) -m str deny }
    http-after-response set-status 503 if { var(txn.do) -m str 503 }
    http-after-response set-status 204 if { var(txn.do) -m str 204 }
    http-after-response set-status 200 if { var(txn.do) -m str 200 }
    http-after-response set-status 101 if { var(txn.do) -m str 101 }
    http-after-response set-status 100 if { var(txn.do) -m str 100 }
    http-after-response set-header content-length 3 if { var(txn.do) -m str length }
    http-after-response set-header transfer-encoding chunked if { var(txn.do) -m str coding }
    default_backend tunnelled
backend tunnelled
    server s1 127.0.0.1:@origin@
backend origin
    server s1 127.0.0.1:@origin@
"""

NEXT = get("/next", "Connection: close")

EXCHANGES = {}
for _what, _name in NAMES.items():
    EXCHANGES |= {
        f"{_what}, request with a length": ("front", post(f"/{_name}", "hello") + NEXT),
        f"{_what}, chunked request": ("front", get(f"/{_name}", "Transfer-Encoding: chunked", method="POST") + "5\r\nhello\r\n0\r\n\r\n" + NEXT),
        f"{_what}, request without a body": ("front", get(f"/{_name}") + NEXT),
    }
EXCHANGES |= {f"{what}, HEAD": ("front", get(f"/{what.lower()}", method="HEAD") + NEXT) for what in ("GET", "HEAD", "POST")}
for _what in RESPONSE_RULES:
    _chunked = answered(f"HTTP/1.1 200 OK\r\nX-Do: {_what}\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
    EXCHANGES |= {
        f"{_what}, response with a length": ("front", get(answer(f"X-Do: {_what}", body="hello")) + NEXT),
        f"{_what}, empty response": ("front", get(answer(f"X-Do: {_what}", body="")) + NEXT),
        f"{_what}, chunked response": ("front", get(_chunked) + NEXT),
        f"{_what}, response until the end": ("front", get(answered(f"HTTP/1.1 200 OK\r\nX-Do: {_what}\r\n\r\nhello", end=True)) + NEXT),
        f"{_what}, response to HEAD": ("front", get(answered(f"HTTP/1.1 200 OK\r\nX-Do: {_what}\r\nContent-Length: 5\r\n\r\n"), method="HEAD") + NEXT),
    }
for _status in (204, 304):
    EXCHANGES |= {f"{what}, response {_status}": ("front", get(answered(f"HTTP/1.1 {_status} X\r\nX-Do: {what}\r\n\r\n")) + NEXT) for what in ("200", "404", "204", "304", "set-length")}
EXCHANGES |= {f"reply {path}": ("replies", get(path) + NEXT) for path in ("/", "/204", "/200", "/304", "/del", "/set", "/close")}
# A request that is answered before its body arrives: the rest of the body must not be taken for a request.
for _path in ("/no", "/elsewhere"):
    EXCHANGES |= {
        f"{_path} in the middle of a body": ("refusing", [post(_path, "hello" + NEXT)[:-len(NEXT) - 3], "llo" + NEXT]),
        f"{_path} before the body": ("refusing", [get(_path, f"Content-Length: {len(NEXT)}", method="POST"), NEXT]),
        f"{_path} in the middle of a chunk": ("refusing", [get(_path, "Transfer-Encoding: chunked", method="POST") + "40\r\nhe", NEXT]),
        f"{_path} while a body is expected": ("refusing", [get(_path, "Content-Length: 5", "Expect: 100-continue", method="POST") + "he", NEXT]),
    }

# Tunnels that rules refuse or promise: the bytes after them are not a request.
CONNECT = "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n"
EXCHANGES |= {f"tunnel {do}": ("tunnels", [f"{CONNECT}X-Do: {do}\r\n\r\n", 0.05, NEXT])
              for do in ("early-503", "early-101", "early-201", "return", "deny", "503", "204", "200", "101", "length", "coding")}
EXCHANGES |= {f"upgrade {do}": ("tunnels", [get("/upgrade", f"X-Do: {do}", "Connection: upgrade", "Upgrade: x"), 0.05, NEXT])
              for do in ("early-503", "early-201", "return", "deny", "503", "200", "length", "coding")}
EXCHANGES |= {f"tunnel answered {status}, then {do}": ("tunnels", [f"{CONNECT}X-Return: {status}\r\nX-Do: {do}\r\n\r\n", 0.05, NEXT])
              for status in (200, 403) for do in ("nothing", "204", "200", "101")}
EXCHANGES |= {f"tunnel {target}, then {do}": ("tunnels", [CONNECT.replace("x:80", f"{target}:80") + f"X-Do: {do}\r\n\r\n", 0.05, NEXT])
              for target in ("refused", "refused-in-chunks") for do in ("nothing", "early-201", "204", "200", "101")}
EXCHANGES |= {f"request answered 403, then {do}": ("tunnels", [get("/", "X-Return: 403", f"X-Do: {do}"), 0.05, NEXT]) for do in ("200", "101", "100")}

# The reference program writes some of these fields as the rules say, converts bodies to fit others, and fails at some.
SAFE = "rules change fields, not where a message ends"
DIFFERENT = {name: SAFE for name in EXCHANGES if name.startswith(("set coding", "add coding", "set-coding", "add-coding", "set-length"))}
DIFFERENT |= {f"CONNECT, {what}": "a request does not become a tunnel, nor a tunnel a request"
              for what in ("request with a length", "chunked request", "request without a body")}
DIFFERENT |= dict.fromkeys(("del length, request with a length", "set length, request with a length", "set length, chunked request",
                            "add length, chunked request", "same length, chunked request", "del-length, response with a length",
                            "del-length, empty response", "add-length, chunked response", "add-length, response until the end",
                            "add-length, response to HEAD", "200, response 204", "404, response 204", "200, response 304", "404, response 304",
                            "reply /del", "reply /set"), SAFE)
DIFFERENT |= dict.fromkeys(("204, response until the end", "304, response until the end"), "the client's connection lives on")
for _same in ("set-length, response to HEAD", "set-length, response 204", "set-length, response 304"):
    del DIFFERENT[_same]
REFUSED = "a tunnel refused by a rule ends its connection, and announces it"
DIFFERENT |= dict.fromkeys(("tunnel early-503", "tunnel 503", "tunnel deny", *(f"upgrade {do}" for do in ("early-503", "early-201", "503", "200", "return", "deny"))), REFUSED)
PROMISED = "a tunnel promised only by a rule ends at once: the client's bytes are not requests, and no length ends it (RFC 9110, 9.3.6)"
DIFFERENT |= dict.fromkeys(("tunnel early-101", "tunnel 101", "tunnel return", "request answered 403, then 101", "request answered 403, then 100"), PROMISED)
DIFFERENT |= {name: PROMISED for name in EXCHANGES if name.startswith(("tunnel answered", "tunnel refused")) and name not in (
    "tunnel answered 403, then nothing", "tunnel refused, then nothing", "tunnel refused-in-chunks, then nothing")}
DIFFERENT |= dict.fromkeys(("tunnel length", "tunnel coding"), "a tunnel's answer does not have a length (RFC 9110, 9.3.6)")

# Differences from one version only.
for _name in ("tunnel length", "tunnel coding", *(f"{what}, chunked request" for what in ("set length", "add length", "same length", "add coding", "set coding")),
              *(f"{what}, request {which}" for what in ("add coding", "set coding") for which in ("with a length", "without a body")),
              *(f"{what}, {which}" for what in ("set-length", "add-length", "add-coding", "set-coding") for which in ("chunked response", "response until the end")),
              *(f"{what}, {which}" for what in ("add-coding", "set-coding") for which in ("response with a length", "empty response"))):
    DIFFERENT[_name] = only("2.6", DIFFERENT[_name])
for _name in (*(f"{what} length, request without a body" for what in ("set", "add", "same")), "add length, request with a length", "del coding, chunked request", "del-length, response to HEAD",
              "add-length, response with a length", "add-length, empty response", "del-coding, chunked response", "204, chunked response"):
    DIFFERENT.setdefault(_name, only("3.2", f"{SAFE}: 3.2 fails at some, and loses the bodies of others"))
DIFFERENT |= {name: only("3.2", "a 204 does not have a length (RFC 9110, 8.6)") for name in ("204, response with a length", "204, empty response", "204, response to HEAD", "reply /204")}
DIFFERENT |= {f"{path} {when}": only("3.2", "an answer that ends its connection announces it, and later requests are not answered (RFC 9112, 9.6)")
              for path in ("/no", "/elsewhere") for when in ("in the middle of a body", "before the body", "in the middle of a chunk", "while a body is expected")}
DIFFERENT["set-length, response 304"] = only("3.2", "a 304 keeps the length set by a rule")
