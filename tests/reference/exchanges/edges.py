"""Requests and responses at the limits of validity, and attacks."""
from reference.exchanges import H, answer, answered, get, only, post

CONFIGURATION = r"""
global
    log 127.0.0.1:@log@ local0
    nbthread 1
    tune.bufsize 8192
    tune.maxrewrite 1024
    expose-experimental-directives
defaults
    mode http
    log global
    option httplog
    timeout connect 300ms
    timeout client 300ms
    timeout server 300ms
    timeout http-request 250ms
    timeout http-keep-alive 60ms
frontend plain
    bind 127.0.0.1:@plain@
    default_backend origin
frontend lax
    bind 127.0.0.1:@lax@
    option accept-invalid-http-request
    default_backend laxorigin
backend laxorigin
    option accept-invalid-http-response
    server s1 127.0.0.1:@origin@
frontend buffered
    bind 127.0.0.1:@buffered@
    option http-buffer-request
    http-request set-header x-body "%[req.body_len] %[req.body_size] %[req.body,length]"
    default_backend origin
frontend nowhere
    bind 127.0.0.1:@nowhere@
    option http-buffer-request
frontend quiet
    bind 127.0.0.1:@quiet@
    option dontlognull
    option http-ignore-probes
    default_backend origin
frontend normal
    bind 127.0.0.1:@normal@
    option dontlog-normal
    option log-separate-errors
    default_backend origin
frontend asap
    bind 127.0.0.1:@asap@
    option logasap
    default_backend origin
frontend asaptcplog
    bind 127.0.0.1:@asaptcplog@
    option tcplog
    option logasap
    http-request deny if { path /deny }
    default_backend origin
listen asapbytes
    bind 127.0.0.1:@asapbytes@
    mode tcp
    option tcplog
    option logasap
    server s1 127.0.0.1:@bytes@
listen asaprefused
    bind 127.0.0.1:@asaprefused@
    mode tcp
    option tcplog
    option logasap
    retries 0
    server s1 127.0.0.1:@closed@
listen asaprejected
    bind 127.0.0.1:@asaprejected@
    mode tcp
    option tcplog
    option logasap
    tcp-request inspect-delay 100ms
    tcp-request content reject if WAIT_END
    server s1 127.0.0.1:@bytes@
frontend check
    bind 127.0.0.1:@check@
    default_backend checked
backend checked
    option checkcache
    server s1 127.0.0.1:@origin@
frontend closing
    bind 127.0.0.1:@closing@
    capture cookie a= len 9
    default_backend closing
backend closing
    option httpclose
    server s1 127.0.0.1:@origin@
listen abort
    bind 127.0.0.1:@abort@
    option abortonclose
    server s1 127.0.0.1:@origin@
frontend normalized
    bind 127.0.0.1:@normalized@
    http-request normalize-uri path-merge-slashes if { hdr(x-n) merge }
    http-request normalize-uri path-strip-dot if { hdr(x-n) dot }
    http-request normalize-uri path-strip-dotdot if { hdr(x-n) dotdot }
    http-request normalize-uri path-strip-dotdot full if { hdr(x-n) dotdotfull }
    http-request normalize-uri percent-decode-unreserved if { hdr(x-n) decode }
    http-request normalize-uri percent-decode-unreserved strict if { hdr(x-n) decodestrict }
    http-request normalize-uri percent-to-uppercase if { hdr(x-n) upper }
    http-request normalize-uri percent-to-uppercase strict if { hdr(x-n) upperstrict }
    http-request normalize-uri query-sort-by-name if { hdr(x-n) sort }
    http-request normalize-uri fragment-strip if { hdr(x-n) strip }
    http-request normalize-uri fragment-encode if { hdr(x-n) encode }
    default_backend origin
backend origin
    server s1 127.0.0.1:@origin@
"""

R = "HTTP/1.1 200 OK\r\n"
NEXT = get("/len/1", "X-Second: 1")

REQUESTS = {
    "te chunked and identity": post("/echo", "0\r\n\r\n", "Transfer-Encoding: chunked, identity"),
    "te identity": get("/echo", "Transfer-Encoding: identity"),
    "te with a tab": get("/echo", "Transfer-Encoding:\tchunked", method="POST") + "0\r\n\r\n",
    "te with a vertical tab": get("/echo", "Transfer-Encoding:\x0bchunked", method="POST") + "0\r\n\r\n",
    "te in two fields": get("/echo", "Transfer-Encoding: gzip", "Transfer-Encoding: chunked", method="POST") + "0\r\n\r\n",
    "te twice chunked": get("/echo", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked", method="POST") + "0\r\n\r\n",
    "te chunked not last": get("/echo", "Transfer-Encoding: chunked, gzip", method="POST") + "0\r\n\r\n",
    "te with an upper case": get("/echo", "Transfer-Encoding: CHUNKED", method="POST") + "0\r\n\r\n",
    "te of version 1.0": "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "te and a length of version 1.0": "POST /echo HTTP/1.0\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "te empty": get("/echo", "Transfer-Encoding:", method="POST") + "0\r\n\r\n",
    "te with parameters": get("/echo", "Transfer-Encoding: chunked;a=b", method="POST") + "0\r\n\r\n",
    "te with a quote": get("/echo", 'Transfer-Encoding: "chunked"', method="POST") + "0\r\n\r\n",
    "length and te and a second request": get("/echo", "Content-Length: 5", "Transfer-Encoding: chunked", method="POST") + "0\r\n\r\n" + NEXT,
    "length of a GET": get("/echo", "Content-Length: 5") + "hello" + NEXT,
    "length zero": get("/echo", "Content-Length: 0", method="POST") + NEXT,
    "length with blanks": get("/echo", "Content-Length:  5  ", method="POST") + "hello",
    "length with zeroes": get("/echo", "Content-Length: 00005", method="POST") + "hello",
    "length negative": get("/echo", "Content-Length: -5", method="POST") + "hello",
    "length hexadecimal": get("/echo", "Content-Length: 0x5", method="POST") + "hello",
    "length with a point": get("/echo", "Content-Length: 5.0", method="POST") + "hello",
    "length too large": get("/echo", "Content-Length: 99999999999999999999999", method="POST"),
    "length list": get("/echo", "Content-Length: 5, 6", method="POST") + "hello",
    "length list of equals": get("/echo", "Content-Length: 5, 5", method="POST") + "hello",
    "length with a comma": get("/echo", "Content-Length: 5,", method="POST") + "hello",
    "length with a line feed": "POST /echo HTTP/1.1\r\n" + H + "Content-Length: 5\n\r\nhello",
    "chunk with leading zeroes": get("/echo", "Transfer-Encoding: chunked", method="POST") + "0000005\r\nhello\r\n000\r\n\r\n",
    "chunk with a plus": get("/echo", "Transfer-Encoding: chunked", method="POST") + "+5\r\nhello\r\n0\r\n\r\n",
    "chunk with a prefix": get("/echo", "Transfer-Encoding: chunked", method="POST") + "0x5\r\nhello\r\n0\r\n\r\n",
    "chunk with a blank": get("/echo", "Transfer-Encoding: chunked", method="POST") + "5 \r\nhello\r\n0\r\n\r\n",
    "chunk with a leading blank": get("/echo", "Transfer-Encoding: chunked", method="POST") + " 5\r\nhello\r\n0\r\n\r\n",
    "chunk with an extension": get("/echo", "Transfer-Encoding: chunked", method="POST") + "5;a=b;c\r\nhello\r\n0;d\r\n\r\n",
    "chunk with a bare line feed": get("/echo", "Transfer-Encoding: chunked", method="POST") + "5\nhello\n0\n\n",
    "chunk with a bare line feed in an extension": get("/echo", "Transfer-Encoding: chunked", method="POST") + "5;a\nhello\r\n0\r\n\r\n",
    "chunk with a bare carriage return": get("/echo", "Transfer-Encoding: chunked", method="POST") + "5\rhello\r\n0\r\n\r\n",
    "chunk without a size": get("/echo", "Transfer-Encoding: chunked", method="POST") + "\r\nhello\r\n0\r\n\r\n",
    "chunk too large": get("/echo", "Transfer-Encoding: chunked", method="POST") + "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "chunk of 53 bits": get("/echo", "Transfer-Encoding: chunked", method="POST") + "10000000000000\r\nhello\r\n0\r\n\r\n",
    "chunk negative": get("/echo", "Transfer-Encoding: chunked", method="POST") + "-5\r\nhello\r\n0\r\n\r\n",
    "trailers": get("/echo", "Transfer-Encoding: chunked", method="POST") + "5\r\nhello\r\n0\r\nX-A: 1\r\nX-B: 2\r\n\r\n",
    "trailers that frame": get("/echo", "Transfer-Encoding: chunked", method="POST") + "5\r\nhello\r\n0\r\nContent-Length: 3\r\nTransfer-Encoding: x\r\n\r\n",
    "trailers with a host": get("/echo", "Transfer-Encoding: chunked", method="POST") + "5\r\nhello\r\n0\r\nHost: y\r\n\r\n",
    "name with a nul": "GET /echo HTTP/1.1\r\n" + H + "X\0A: 1\r\n\r\n",
    "value with a nul": "GET /echo HTTP/1.1\r\n" + H + "X-A: 1\x002\r\n\r\n",
    "value with eight bits": "GET /echo HTTP/1.1\r\n" + H + "X-A: \xe9\xff\r\n\r\n",
    "value with a control": "GET /echo HTTP/1.1\r\n" + H + "X-A: \x01\x7f\r\n\r\n",
    "name with a bracket": "GET /echo HTTP/1.1\r\n" + H + "X(A): 1\r\n\r\n",
    "name with a slash": "GET /echo HTTP/1.1\r\n" + H + "X/A: 1\r\n\r\n",
    "name with all signs": "GET /echo HTTP/1.1\r\n" + H + "X!#$%&'*+-.^_`|~A: 1\r\n\r\n",
    "field without a colon": "GET /echo HTTP/1.1\r\n" + H + "nonsense\r\n\r\n",
    "field without a value": "GET /echo HTTP/1.1\r\n" + H + "X-A:\r\nX-B: \r\n\r\n",
    "first field folded": "GET /echo HTTP/1.1\r\n Host: x\r\n\r\n",
    "host folded": "GET /echo HTTP/1.1\r\nHost:\r\n x\r\n\r\n",
    "field folded twice": "GET /echo HTTP/1.1\r\n" + H + "A: b\r\n\tc\r\n  d\r\nE: f\r\n\r\n",
    "two blanks in the request line": "GET  /echo  HTTP/1.1\r\n" + H + "\r\n",
    "a tab in the request line": "GET\t/echo\tHTTP/1.1\r\n" + H + "\r\n",
    "a blank before the request line": " GET /echo HTTP/1.1\r\n" + H + "\r\n",
    "a blank after the version": "GET /echo HTTP/1.1 \r\n" + H + "\r\n",
    "a method with signs": "M-SEARCH /echo HTTP/1.1\r\n" + H + "\r\n",
    "a method with a bracket": "GE(T /echo HTTP/1.1\r\n" + H + "\r\n",
    "a method in lower case": "get /echo HTTP/1.1\r\n" + H + "\r\n",
    "a target without a slash": "GET echo HTTP/1.1\r\n" + H + "\r\n",
    "a target with a fragment": "GET /echo#x HTTP/1.1\r\n" + H + "\r\n",
    "a target with quotes": "GET /echo?\"<>\\^`{|} HTTP/1.1\r\n" + H + "\r\n",
    "a target with a percent": "GET /echo%zz?%2 HTTP/1.1\r\n" + H + "\r\n",
    "a target with eight bits": "GET /echo?\xe9 HTTP/1.1\r\n" + H + "\r\n",
    "a target with a delete": "GET /echo?\x7f HTTP/1.1\r\n" + H + "\r\n",
    "a target of slashes": "GET //echo HTTP/1.1\r\n" + H + "\r\n",
    "a star": "GET * HTTP/1.1\r\n" + H + "\r\n",
    "connect without a port": "CONNECT x HTTP/1.1\r\n" + H + "\r\n",
    "connect to a path": "CONNECT /echo HTTP/1.1\r\n" + H + "\r\n",
    "a scheme": "GET ftp://x/echo HTTP/1.1\r\n" + H + "\r\n",
    "an absolute target without a path": "GET http://a.example HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "an absolute target with a user": "GET http://u:p@a.example/echo HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "an absolute target and a port": "GET http://a.example:81/echo HTTP/1.1\r\nHost: a.example:81\r\n\r\n",
    "an absolute target and another port": "GET http://a.example:81/echo HTTP/1.1\r\nHost: a.example:82\r\n\r\n",
    "an absolute target and no host": "GET http://a.example/echo HTTP/1.1\r\n\r\n",
    "an absolute target in upper case": "GET HTTP://A.EXAMPLE/echo HTTP/1.1\r\nHost: a.example\r\n\r\n",
    "an empty host": "GET /echo HTTP/1.1\r\nHost:\r\n\r\n",
    "a host with a blank": "GET /echo HTTP/1.1\r\nHost: a b\r\n\r\n",
    "a host with a slash": "GET /echo HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a host with a user": "GET /echo HTTP/1.1\r\nHost: u@a\r\n\r\n",
    "a host with a bad port": "GET /echo HTTP/1.1\r\nHost: a:x\r\n\r\n",
    "a host with six": "GET /echo HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
    "version 1.1 in lower case": "GET /echo http/1.1\r\n" + H + "\r\n",
    "version 1.10": "GET /echo HTTP/1.10\r\n" + H + "\r\n",
    "version 1": "GET /echo HTTP/1\r\n" + H + "\r\n",
    "version 0.9": "GET /echo HTTP/0.9\r\n" + H + "\r\n",
    "version 3.0": "GET /echo HTTP/3.0\r\n" + H + "\r\n",
    "the preface of version 2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "expect nonsense": post("/echo", "hello", "Expect: nonsense"),
    "expect of version 1.0": "POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
    "upgrade without connection": get("/echo", "Upgrade: x"),
    "upgrade refused": get("/echo", "Connection: upgrade", "Upgrade: x"),
    "upgrade and close": get("/echo", "Connection: upgrade, close", "Upgrade: x"),
    "upgrade and close in fields of their own": get("/echo", "Connection: upgrade", "Connection: close", "Upgrade: x"),
    "upgrade to h2c": get("/echo", "Connection: upgrade, http2-settings", "Upgrade: h2c", "HTTP2-Settings: AAA"),
    "upgrade with a body": post("/echo", "hello", "Connection: upgrade", "Upgrade: x"),
    "a websocket without its key": get("/echo", "Connection: upgrade", "Upgrade: websocket"),
    "a websocket": get("/upgrade", "Connection: upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==") + "ping",
    "connection close and more": get("/len/1", "Connection: close") + NEXT,
    "connection tokens that are fields": get("/echo", "Connection: x-a, host", "X-A: 1"),
    "proxy connection": get("/echo", "Proxy-Connection: keep-alive"),
    "te trailers": get("/echo", "TE: trailers, gzip"),
    "max forwards": get("/echo", "Max-Forwards: 0", method="TRACE"),
    "many empty lines": "\r\n" * 20 + NEXT,
    "two requests and a broken one": NEXT + NEXT + "GET / HTTP/1.1\r\nBad Name: 1\r\n\r\n",
    "a request after a head": get("/len/5", method="HEAD") + NEXT,
    "a request after a 204": get("/status/204") + NEXT,
    "a request after a 304": get("/status/304") + NEXT,
    "a request after a 205": get("/status/205") + NEXT,
    "a large field": get("/len/1", "X: " + "a" * 6000),
    "a field that is too large": get("/len/1", "X: " + "a" * 7300),
    "many cookies": get("/echo", *(f"Cookie: c{n}={n}" for n in range(30))),
    "a cookie with commas": get("/echo", "Cookie: a=1, b=2"),
}
RESPONSES = {
    "no length": answered(R + "\r\nuntil the end", end=True),
    "no length, version 1.0": answered("HTTP/1.0 200 OK\r\n\r\nuntil the end", end=True),
    "version 1.0 and a length": answered("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", end=True),
    "version 1.0 that stays": answered("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok"),
    "version 2.0": answered("HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    "version nonsense": answered("HTTX/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    "status of two digits": answered("HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\nok"),
    "status of four digits": answered("HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\nok"),
    "status with letters": answered("HTTP/1.1 2xx OK\r\nContent-Length: 2\r\n\r\nok"),
    "status 600": answered("HTTP/1.1 600 OK\r\nContent-Length: 2\r\n\r\nok"),
    "status 099": answered("HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok"),
    "no reason and no blank": answered("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"),
    "an empty reason": answered("HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok"),
    "a reason with eight bits": answered("HTTP/1.1 200 \xe9t\xe9\r\nContent-Length: 2\r\n\r\nok"),
    "two blanks": answered("HTTP/1.1  200 OK\r\nContent-Length: 2\r\n\r\nok"),
    "a blank before it": answered(" HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    "an empty line before it": answered("\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    "a bad name": answered(R + "Bad Name: 1\r\nContent-Length: 2\r\n\r\nok"),
    "a blank before a colon": answered(R + "Server : 1\r\nContent-Length: 2\r\n\r\nok"),
    "a folded field": answered(R + "X-A: 1\r\n 2\r\nContent-Length: 2\r\n\r\nok"),
    "a nul": answered(R + "X-A: 1\x002\r\nContent-Length: 2\r\n\r\nok"),
    "eight bits": answered(R + "X-A: \xe9\r\nContent-Length: 2\r\n\r\nok"),
    "both lengths": answered(R + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
    "an unknown coding": answered(R + "Transfer-Encoding: gzip\r\n\r\nok", end=True),
    "chunked twice": answered(R + "Transfer-Encoding: chunked, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
    "a bad length": answered(R + "Content-Length: x\r\n\r\nok"),
    "an empty length": answered(R + "Content-Length:\r\n\r\nok"),
    "equal lengths": answered(R + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok"),
    "more than its length": answered(R + "Content-Length: 2\r\n\r\nok and more"),
    "a 204 with a length": answered("HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok"),
    "a 304 with a length": answered("HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\n"),
    "a 204 with a coding": answered("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"),
    "a 100 first": answered("HTTP/1.1 100 Continue\r\n\r\n" + R + "Content-Length: 2\r\n\r\nok"),
    "a 102 first": answered("HTTP/1.1 102 Processing\r\nX-A: 1\r\n\r\n" + R + "Content-Length: 2\r\n\r\nok"),
    "three 103 first": answered("HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" * 3 + R + "Content-Length: 2\r\n\r\nok"),
    "an unrequested 101": answered("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello", end=True),
    "a 100 and an end": answered("HTTP/1.1 100 Continue\r\n\r\n", end=True),
    "a bad chunk": answered(R + "Transfer-Encoding: chunked\r\n\r\nxyz\r\nok\r\n0\r\n\r\n"),
    "a chunk of 53 bits": answered(R + "Transfer-Encoding: chunked\r\n\r\n10000000000000\r\nok\r\n0\r\n\r\n"),
    "a bad chunk later": answered(R + "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\nxyz\r\n"),
    "a chunk without its end": answered(R + "Transfer-Encoding: chunked\r\n\r\n2\r\nokXX0\r\n\r\n"),
    "trailers": answered(R + "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: 1\r\n\r\n"),
    "hop by hop fields": answered(R + "Connection: x-a\r\nX-A: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: x\r\nContent-Length: 2\r\n\r\nok"),
    "connection close": answered(R + "Connection: close\r\nContent-Length: 2\r\n\r\nok", end=True),
    "a large field": answered(R + "X: " + "a" * 6000 + "\r\nContent-Length: 2\r\n\r\nok"),
    "a field that is too large": answered(R + "X: " + "a" * 9000 + "\r\nContent-Length: 2\r\n\r\nok"),
    "many fields": answered(R + "".join(f"X{n}: 1\r\n" for n in range(120)) + "Content-Length: 2\r\n\r\nok"),
    "nothing but an end of line": answered("\r\n", end=True),
    "garbage": answered("\x00\x01\x02\x03\r\n\r\n", end=True),
    "set cookie": answer("Set-Cookie: a=b", "Cache-Control: public"),
    "set cookie not cacheable": answer("Set-Cookie: a=b", "Cache-Control: private"),
    "set cookie no-cache": answer("Set-Cookie: a=b", 'Cache-Control: no-cache="set-cookie"'),
    "set cookie alone": answer("Set-Cookie: a=b"),
}
EXCHANGES = {f"request {name}": ("plain", text) for name, text in REQUESTS.items()}
EXCHANGES |= {f"lax {name}": ("lax", REQUESTS[name]) for name in (
    "value with a nul", "value with a control", "name with a bracket", "a target with eight bits", "a target with a delete", "a target with quotes", "length negative", "two blanks in the request line", "version 1.10",
    "a host with a blank", "a host with a slash", "a method with a bracket", "an absolute target and another port", "name with a nul", "field without a colon", "version 3.0", "a target with a fragment")}
# A request line with the whole answer does not fit in these buffers: the path names one of the origin's answers.
EXCHANGES |= {f"response {name}": ("plain", get(path)) for name, path in RESPONSES.items() if len(path) < 6000}
EXCHANGES |= {f"lax response {name}": ("lax", get(RESPONSES[name])) for name in (
    "a bad name", "a nul", "eight bits", "status of two digits", "version 2.0", "a blank before a colon", "a reason with eight bits", "a folded field", "an empty length")}
EXCHANGES |= {f"response to version 1.0: {name}": ("plain", f"GET {RESPONSES[name]} HTTP/1.0\r\n\r\n") for name in (
    "no length", "trailers", "equal lengths", "a 100 first", "three 103 first", "connection close", "version 1.0 that stays")}
EXCHANGES |= {f"response to HEAD: {name}": ("plain", get(RESPONSES[name], method="HEAD")) for name in ("no length", "equal lengths", "connection close", "both lengths")}
EXCHANGES |= {
    "check set cookie by POST": ("check", get(answer("Set-Cookie: a=b", "ETag: x"), "Content-Length: 0", method="POST")),
    "check set cookie of a status that is not kept": ("check", get(answer("Set-Cookie: a=b", "ETag: x", status="201 Created"))),
    "check set cookie with pragma": ("check", get(answer("Set-Cookie: a=b", "ETag: x", "Cache-Control: public", "Pragma: no-cache"))),
    "check public set cookie by POST": ("check", get(answer("Set-Cookie: a=b", "ETag: x", "Cache-Control: public"), "Content-Length: 0", method="POST")),
}
EXCHANGES |= {f"check {name}": ("check", get(RESPONSES[name])) for name in ("set cookie", "set cookie not cacheable", "set cookie no-cache", "set cookie alone")}
EXCHANGES |= {f"buffered {name}": ("buffered", text) for name, text in {
    "post": post("/echo", "hello"), "chunked": get("/echo", "Transfer-Encoding: chunked", method="POST") + "5\r\nhello\r\n0\r\n\r\n", "get": get("/echo"),
    "large": post("/len/1", "x" * 20000), "chunked badly": get("/echo", "Transfer-Encoding: chunked", method="POST") + "5\r\nhello\r\nxx\r\n"}.items()}
EXCHANGES |= {
    "buffered without a server": ("nowhere", post("/echo", "hello")),
    "buffered badly, and late": ("buffered", [get("/echo", "Transfer-Encoding: chunked", method="POST") + "5\r\nhello\r\n", 0.05, "xx\r\n"]),
    "buffered with an expectation": ("buffered", [post("/echo", "hello", "Expect: 100-continue")[:-5], 0.05, "hello"]),
    "buffered with an expectation of version 1.0": ("buffered", ["POST /echo HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", 0.05, "hello"]),
    "buffered with an expectation of version 1.0, and badly": ("buffered", [get("/echo", "Transfer-Encoding: chunked", "Expect: 100-continue", method="POST").replace("1.1", "1.0") + "5\r\nhello\r\n", 0.05, "xx\r\n"]),
    "buffered never": ("buffered", [post("/echo", "hello")[:-3], 0.3]),
    "buffered cut": ("buffered", [post("/echo", "hello")[:-3], 0.03, None]),
    "quiet nothing": ("quiet", [None]), "quiet half": ("quiet", ["GET /echo", None]), "quiet late": ("quiet", [0.3]), "quiet half late": ("quiet", ["GET /echo", 0.3]),
    "quiet bad": ("quiet", "GET / HTTP/1.1\r\nBad Name: 1\r\n\r\n"),
    "normal": ("normal", get("/len/1")), "not normal": ("normal", get("/bye")), "normal 500": ("normal", get("/status/500")), "normal 404": ("normal", get("/status/404")), "normal bad": ("normal", "nonsense\r\n\r\n"), "normal never": ("normal", ["GET ", 0.3]),
    "asap": ("asap", get("/len/5")), "asap of a failure": ("asap", get("/bye")), "asap of a bad request": ("asap", "nonsense\r\n\r\n"),
    **{f"asap with tcplog, {path}": ("asaptcplog", get(path)) for path in ("/len/5", "/deny", "/close", "/bye", "/silent", "/cutbody", "/stall", "/status/204")},
    "asap with tcplog, two": ("asaptcplog", get("/len/5") + get("/len/1")), "asap with tcplog, a bad request": ("asaptcplog", "nonsense\r\n\r\n"),
    "asap with tcplog, a slow body": ("asaptcplog", [post("/echo", "hello")[:-3], 0.1, "llo"]), "asap with tcplog, half a request": ("asaptcplog", ["GET /", None]),
    "asap of bytes": ("asapbytes", "hello"), "asap of no bytes": ("asapbytes", [0.05, None]), "asap of bytes without a server": ("asaprefused", "hello"), "asap of bytes that are rejected": ("asaprejected", "hello"),
    "abort in the request": ("abort", ["GET /silent HTTP/1.1\r\n" + H + "\r\n", 0.05, None]),
    "no abort without the option": ("plain", ["GET /len/5 HTTP/1.1\r\n" + H + "\r\n", None]),
    "late second request": ("plain", [get("/len/1"), 0.1, get("/len/2")]),
    "early second request": ("plain", [get("/len/1") + "GET /len/2 HT", 0.04, "TP/1.1\r\n" + H + "\r\n"]),
    "half of a second request": ("plain", [get("/len/1") + "GET /len/2 HT", 0.3]),
    "slow head": ("plain", ["GET /len/1 HTTP/1.1\r\n", 0.1, H, 0.1, "X: 1\r\n", 0.1, "\r\n"]),
    "slow body": ("plain", [post("/echo", "hello")[:-5], 0.1, "h", 0.1, "e", 0.1, "l", 0.1, "lo"]),
    "body that stops": ("plain", [post("/echo", "hello")[:-3], 0.4]),
    "chunked body that stops": ("plain", [get("/echo", "Transfer-Encoding: chunked", method="POST") + "5\r\nhe", 0.4]),
    "response before the body": ("plain", [get("/echo", "Content-Length: 10", method="POST") + "12345", 0.02, "67890"]),
}
EXCHANGES |= {
    "a backend that closes": ("closing", NEXT + NEXT),
    "a cookie without a value": ("closing", get("/len/1", "Cookie: a")),
    "a cookie with a value": ("closing", get("/len/1", "Cookie: b=1; a=1")),
}
for kind, paths in {
    "merge": ("/a//b///c", "//a", "/a?b//c"), "dot": ("/a/./b", "/./a", "/a/.", "/.", "/..", "/a/../b"), "dotdot": ("/a/../b", "/a/b/../../c", "/../a", "/a/..", "/..", "/a/./../b"), "dotdotfull": ("/../a", "/..", "/a/../../b"),
    "decode": ("/%61%2D%2f%zz", "/%41?%42", "/%7e"), "decodestrict": ("/%61", "/%zz", "/%6"), "upper": ("/%2f%aa%zz", "/%c3?%e9"), "upperstrict": ("/%2f", "/%zz"), "sort": ("/a?c=1&a=2&b=3", "/a?b=2&b=1&a", "/a?", "/a", "/a?z&y=1&y=0"),
    "strip": ("/a#b", "/a?x#b#c", "/a#"), "encode": ("/a#b", "/a?x#b#c", "/a"),
}.items():
    EXCHANGES |= {f"normalized {kind} {path}": ("normalized", f"GET /echo{path} HTTP/1.1\r\n{H}X-N: {kind}\r\n\r\n") for path in paths}

STRICT = "refused: invalid in RFC 9112"
AS_IT_CAME = "chunks are forwarded unchanged"
NO_INTERIM = "version 1.0 knows no interim responses (RFC 9110, 15.2)"
TWO_WAYS = "a message that says its length in two ways ends its connections"
TOLERATED = "a message that was tolerated ends its connections"
NO_HOST = "an invalid host is refused (RFC 9112, 3.2)"
DROPPED = "a field with an invalid name is dropped, as in the manual, and ends the connections"
TOO_LARGE = "a head that is too large has a status of its own (RFC 6585, 5)"
UPLOADING = "the server's time begins when it has the request"
FORGOTTEN = "2.6 loses the condition of a normalizer that could have an argument"
DIFFERENT = {
    "request te in two fields": TWO_WAYS,
    "request te of version 1.0": TWO_WAYS,
    "request length and te and a second request": TWO_WAYS,
    "request te with an upper case": only("2.6", "codings go on in the letters that everybody knows"),
    "request upgrade without connection": only("2.6", "an upgrade not named in Connection does not count (RFC 9110, 7.8)"),
    "request length with zeroes": only("2.6", "noughts before a length say octal to some"),
    "request a star": only("2.6", "an asterisk is a target of OPTIONS (RFC 9112, 3.2.4)"),
    "request an absolute target without a path": only("2.6", "an empty path is a slash (RFC 9110, 4.2.3)"),
    "request a host with a blank": only("2.6", NO_HOST),
    "request a host with a slash": only("2.6", NO_HOST),
    "request a host with a user": only("2.6", NO_HOST),
    "lax a host with a blank": only("2.6", NO_HOST),
    "lax a host with a slash": only("2.6", NO_HOST),
    "request a field that is too large": only("2.6", TOO_LARGE),
    "lax value with a nul": TOLERATED,
    "lax a target with eight bits": TOLERATED,
    "lax a target with a fragment": TOLERATED,
    "lax an absolute target and another port": TOLERATED,
    "lax response a nul": TOLERATED,
    "lax name with a bracket": DROPPED,
    "lax name with a nul": DROPPED,
    "lax response a bad name": DROPPED,
    "lax response a blank before a colon": DROPPED,
    "request te and a length of version 1.0": TWO_WAYS,
    "request chunk with leading zeroes": AS_IT_CAME,
    "request upgrade to h2c": "h2c is never accepted (withdrawn by RFC 9113, 3.1): it would bypass the rules",
    "buffered cut": "the manual says 400 (8.5, CR)",
    "body that stops": UPLOADING,
    "chunked body that stops": UPLOADING,
    "no abort without the option": "since 3.3 `option abortonclose` is on in HTTP mode unless it is switched off",
    "request the preface of version 2": "HTTP/2 is not implemented yet",
    "request expect of version 1.0": NO_INTERIM,
    "buffered with an expectation of version 1.0": NO_INTERIM,
    "lax version 1.10": "the log has the version that was understood",
    "response both lengths": TWO_WAYS,
    "response to HEAD: both lengths": TWO_WAYS,
    "response to version 1.0: a 100 first": NO_INTERIM,
    "response to version 1.0: three 103 first": NO_INTERIM,
    "response to version 1.0: version 1.0 that stays": "it says that it will not stay",
    "check set cookie": "the manual says that it is blocked",
    "check set cookie alone": "the manual says that it is blocked",
    "check public set cookie by POST": "2.6 blocks it with the status of the answer that it blocks",
}
DIFFERENT |= {name: STRICT for name in (
    "request chunk with a bare line feed", "request chunk with a bare line feed in an extension", "request value with a nul", "response version nonsense", "response status of two digits",
    "response status of four digits", "response status 099", "response a nul", "lax response status of two digits")}
DIFFERENT |= {name: FORGOTTEN for name in EXCHANGES if name.startswith(("normalized dotdot /", "normalized decode /", "normalized upper /"))}
DIFFERENT |= {name: "a rule that says what becomes of fragments admits them" for name in EXCHANGES if name.startswith(("normalized strip /", "normalized encode /")) and "#" in name}

# Differences from one version only.
RESETS = "3.2 resets a connection that it has not read to its end, and the client loses the refusal"
SAID = "an answer that ends its connection announces it (RFC 9112, 9.6)"
for _name in EXCHANGES:
    if _name in DIFFERENT and _name.startswith("normalized ") and DIFFERENT[_name] == FORGOTTEN or _name in (
            "request chunk with a bare line feed", "request chunk with a bare line feed in an extension", "request value with a nul", "response version nonsense", "response status of four digits", "response a nul", "check public set cookie by POST"):
        DIFFERENT[_name] = only("2.6", DIFFERENT[_name])
DIFFERENT |= {
    "request te chunked and identity": only("3.2", RESETS), "buffered badly, and late": only("3.2", RESETS), "buffered with an expectation of version 1.0, and badly": only("3.2", RESETS),
    "response many fields": only("2.6", "since 3.2, the newline is part of a log line's length"),
    "request upgrade with a body": only("3.2", "a request with a body upgrades nothing: its server could read it in two ways"),
    "request a field that is too large": {"2.6": TOO_LARGE, "3.2": SAID},
    "response no reason and no blank": only("3.2", "an empty reason is one (RFC 9112, 4)"), "response an empty reason": only("3.2", "an empty reason is one (RFC 9112, 4)"),
    "response nothing but an end of line": only("3.2", "a server that ends before its header has SH in the log, as the manual says"),
}
