"""HTTP/1 messages and TCP streams: accepted ones, refused ones, and their endings."""
from reference.exchanges import H, only

CONFIGURATION = """
global
    log 127.0.0.1:@log@ local0
    nbthread 1
    tune.bufsize 16384
defaults
    mode http
    log global
    option httplog
    timeout connect 300ms
    timeout client 400ms
    timeout server 300ms
    timeout http-request 300ms
    retries 1
frontend plain
    bind 127.0.0.1:@plain@
    default_backend origin
frontend closing
    bind 127.0.0.1:@closing@
    option httpclose
    default_backend origin
frontend serverclose
    bind 127.0.0.1:@serverclose@
    option http-server-close
    option forwardfor
    default_backend origin
frontend rules
    bind 127.0.0.1:@rules@
    capture request header Host len 20
    capture response header Server len 20
    acl is_post method POST
    http-request deny if { path /deny }
    http-request deny deny_status 429 hdr x-why limits if { path /many }
    http-request redirect location /new code 301 if { path /moved }
    http-request redirect prefix http://other.example if { path_beg /prefix }
    http-request redirect scheme https code 308 if { path /scheme }
    http-request return status 200 content-type text/plain lf-string "%[method] %[path] %[query] %[req.hdr(x-a)] %[req.fhdr(x-a)] %[req.hdr_cnt(x-a)]" if { path_beg /say }
    http-request set-path /echo%[path] if { path_beg /rewrite }
    http-request replace-header X-Edit (.*)b(.*) \\1-\\2
    http-request add-header X-Added "one two"
    http-request del-header X-Gone
    http-request set-header X-Posted yes if is_post
    http-request set-var(txn.u) url,lower
    http-response set-header X-Url %[var(txn.u)]
    http-response del-header Server if { res.hdr(x-strip) -m found }
    http-response set-status 299 reason "As it was" if { status 298 }
    default_backend origin
frontend small
    bind 127.0.0.1:@small@
    http-request return status 200
    monitor-uri /alive
    errorfile 403 /dev/null
    errorloc 404 /lost
backend origin
    server s1 127.0.0.1:@origin@
frontend nobody
    bind 127.0.0.1:@nobody@
    default_backend refused
backend refused
    server s0 127.0.0.1:@closed@
listen raw
    mode tcp
    option tcplog
    bind 127.0.0.1:@raw@
    server s1 127.0.0.1:@origin@
listen rejecting
    mode tcp
    option tcplog
    bind 127.0.0.1:@rejecting@
    tcp-request inspect-delay 200ms
    tcp-request content accept if HTTP
    tcp-request content reject
    server s1 127.0.0.1:@origin@
"""

EXCHANGES = {
    "get": ("plain", ["GET /len/5 HTTP/1.1\r\n" + H + "\r\n"]),
    "what the server sees": ("plain", ["GET /echo?q=1 HTTP/1.1\r\nhOsT: X.example\r\nX-Order: 1\r\nAccept: */*\r\nX-ORDER:2  \r\n\r\n"]),
    "fragment": ("plain", ["GET /echo#f HTTP/1.1\r\n" + H + "\r\n"]),
    "keep-alive": ("plain", ["GET /len/1 HTTP/1.1\r\n" + H + "\r\n", 0.05, "GET /len/2 HTTP/1.1\r\n" + H + "\r\n"]),
    "pipeline": ("plain", ["GET /len/1 HTTP/1.1\r\n" + H + "\r\nGET /len/2 HTTP/1.1\r\n" + H + "\r\nGET /len/3 HTTP/1.1\r\n" + H + "\r\n"]),
    "connection close": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "Connection: close\r\n\r\n"]),
    "connection tokens": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "Connection: keep-alive, x-hop\r\nX-Hop: 1\r\nKeep-Alive: 5\r\n\r\n"]),
    "http/1.0": ("plain", ["GET /echo HTTP/1.0\r\n\r\n"]),
    "http/1.0 keep-alive": ("plain", ["GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"]),
    "http/1.0 with a chunked answer": ("plain", ["GET /chunked HTTP/1.0\r\n\r\n"]),
    "post": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 5\r\n\r\nhello"]),
    "post in pieces": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Le", "ngth: 5\r\n\r", "\nhe", "llo"]),
    "post chunked": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"]),
    "post chunked with trailers": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nX-T: 1\r\n\r\n"]),
    "chunked answer": ("plain", ["GET /chunked HTTP/1.1\r\n" + H + "\r\n"]),
    "chunked answer with trailers": ("plain", ["GET /trailers HTTP/1.1\r\n" + H + "\r\n"]),
    "answer until close": ("plain", ["GET /close HTTP/1.1\r\n" + H + "\r\n"]),
    "head": ("plain", ["HEAD /len/5 HTTP/1.1\r\n" + H + "\r\n", 0.05, "GET /len/1 HTTP/1.1\r\n" + H + "\r\n"]),
    "204": ("plain", ["GET /status/204 HTTP/1.1\r\n" + H + "\r\n", 0.05, "GET /len/1 HTTP/1.1\r\n" + H + "\r\n"]),
    "304": ("plain", ["GET /status/304 HTTP/1.1\r\n" + H + "\r\n", 0.05, "GET /len/1 HTTP/1.1\r\n" + H + "\r\n"]),
    "100-continue": ("plain", ["POST /continue HTTP/1.1\r\n" + H + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n", 0.05, "ok"]),
    "103": ("plain", ["GET /hints HTTP/1.1\r\n" + H + "\r\n"]),
    "upgrade": ("plain", ["GET /upgrade HTTP/1.1\r\n" + H + "Connection: upgrade\r\nUpgrade: x\r\n\r\n", 0.05, "ping"]),
    "connect": ("plain", ["CONNECT a.example:443 HTTP/1.1\r\nHost: a.example:443\r\n\r\n", 0.05, "ping"]),
    "absolute": ("plain", ["GET http://a.example/echo HTTP/1.1\r\nHost: a.example\r\n\r\n"]),
    "absolute with default port": ("plain", ["GET http://a.example:80/echo HTTP/1.1\r\nHost: a.example:80\r\n\r\n"]),
    "absolute and another host": ("plain", ["GET http://a.example/echo HTTP/1.1\r\nHost: b.example\r\n\r\n"]),
    "options *": ("plain", ["OPTIONS * HTTP/1.1\r\n" + H + "\r\n"]),
    "odd method": ("plain", ["BREW /echo HTTP/1.1\r\n" + H + "\r\n"]),
    "leading empty lines": ("plain", ["\r\n\r\nGET /echo HTTP/1.1\r\n" + H + "\r\n"]),
    "bare line feeds": ("plain", ["GET /echo HTTP/1.1\nHost: x\n\n"]),
    "no host": ("plain", ["GET /echo HTTP/1.1\r\n\r\n"]),
    "two hosts": ("plain", ["GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"]),
    "the same host twice": ("plain", ["GET /echo HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"]),
    "space before colon": ("plain", ["GET /echo HTTP/1.1\r\nHost : x\r\n\r\n"]),
    "space in name": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "A B: x\r\n\r\n"]),
    "empty name": ("plain", ["GET /echo HTTP/1.1\r\n" + H + ": x\r\n\r\n"]),
    "folded line": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "A: b\r\n c\r\n\r\n"]),
    "bare cr": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "A: b\rc\r\n\r\n"]),
    "two lengths": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"]),
    "the same length twice": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nab"]),
    "a list of the same length": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 2, 2\r\n\r\nab"]),
    "signed length": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: +2\r\n\r\nab"]),
    "empty length": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length:\r\n\r\n"]),
    "length and chunks": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"]),
    "chunked twice": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"]),
    "unknown coding": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: gzip\r\n\r\n"]),
    "bad chunk size": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n"]),
    "huge chunk size": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\n"]),
    "chunk without its end": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Transfer-Encoding: chunked\r\n\r\n2\r\nxyXX0\r\n\r\n"]),
    "version 1.2": ("plain", ["GET /echo HTTP/1.2\r\n" + H + "\r\n"]),
    "version 2.0": ("plain", ["GET /echo HTTP/2.0\r\n" + H + "\r\n"]),
    "version nonsense": ("plain", ["GET /echo HTTX/1.1\r\n" + H + "\r\n"]),
    "no version": ("plain", ["GET /echo\r\n\r\n"]),
    "control in uri": ("plain", ["GET /ec\x01ho HTTP/1.1\r\n" + H + "\r\n"]),
    "eight bits in uri": ("plain", ["GET /ec\xe9ho HTTP/1.1\r\n" + H + "\r\n"]),
    "garbage": ("plain", ["\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"]),
    "head too large": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "A: " + "a" * 20000 + "\r\n\r\n"]),
    "too many headers": ("plain", ["GET /echo HTTP/1.1\r\n" + H + "".join(f"A{i}: b\r\n" for i in range(150)) + "\r\n"]),
    "large uri": ("plain", ["GET /len/1?" + "u" * 5000 + " HTTP/1.1\r\n" + H + "\r\n"]),
    "nothing at all": ("plain", [None]),
    "leaves in the request": ("plain", ["GET /echo HT", None]),
    "request that never ends": ("plain", ["GET /echo HT", 0.4]),
    "leaves in the body": ("plain", ["POST /echo HTTP/1.1\r\n" + H + "Content-Length: 10\r\n\r\nab", 0.05, None]),
    "half close after the request": ("plain", ["GET /len/5 HTTP/1.1\r\n" + H + "\r\n", None]),
    "no answer": ("plain", ["GET /silent HTTP/1.1\r\n" + H + "\r\n"]),
    "server closes": ("plain", ["GET /bye HTTP/1.1\r\n" + H + "\r\n"]),
    "server speaks nonsense": ("plain", ["GET /nonsense HTTP/1.1\r\n" + H + "\r\n"]),
    "answer cut in the head": ("plain", ["GET /cuthead HTTP/1.1\r\n" + H + "\r\n"]),
    "answer cut in the body": ("plain", ["GET /cutbody HTTP/1.1\r\n" + H + "\r\n"]),
    "answer cut in a chunk": ("plain", ["GET /cutchunk HTTP/1.1\r\n" + H + "\r\n"]),
    "answer that stalls": ("plain", ["GET /stall HTTP/1.1\r\n" + H + "\r\n"]),
    "answer with two lengths": ("plain", ["GET /twolengths HTTP/1.1\r\n" + H + "\r\n"]),
    "answer with bare line feeds": ("plain", ["GET /linefeeds HTTP/1.1\r\n" + H + "\r\n"]),
    "answer without a reason": ("plain", ["GET /noreason HTTP/1.1\r\n" + H + "\r\n"]),
    "httpclose": ("closing", ["GET /echo HTTP/1.1\r\n" + H + "\r\n"]),
    "http-server-close": ("serverclose", ["GET /echo HTTP/1.1\r\n" + H + "\r\n", 0.05, "GET /len/1 HTTP/1.1\r\n" + H + "\r\n"]),
    "deny": ("rules", ["GET /deny HTTP/1.1\r\n" + H + "\r\n"]),
    "deny with status": ("rules", ["GET /many HTTP/1.1\r\n" + H + "\r\n"]),
    "redirect location": ("rules", ["GET /moved HTTP/1.1\r\n" + H + "\r\n"]),
    "redirect prefix": ("rules", ["GET /prefix/a?b=c HTTP/1.1\r\n" + H + "\r\n"]),
    "redirect scheme": ("rules", ["GET /scheme HTTP/1.1\r\nHost: h.example\r\n\r\n"]),
    "return": ("rules", ["POST /say/it?a=b HTTP/1.1\r\n" + H + "X-A: 1, 2\r\nX-A: 3\r\nContent-Length: 0\r\n\r\n"]),
    "edits": ("rules", ["POST /rewrite/a?b HTTP/1.1\r\n" + H + "X-Edit: abc\r\nX-Gone: 1\r\nx-gone: 2\r\nContent-Length: 2\r\n\r\nhi"]),
    "edited answer": ("rules", ["GET /strip HTTP/1.1\r\n" + H + "\r\n"]),
    "status changed": ("rules", ["GET /status/298 HTTP/1.1\r\n" + H + "\r\n"]),
    "captures": ("rules", ["GET /len/1 HTTP/1.1\r\nHost: a-very-long-name.example.com\r\n\r\n"]),
    "monitor": ("small", ["GET /alive HTTP/1.1\r\n" + H + "\r\n"]),
    "empty answer": ("small", ["GET / HTTP/1.1\r\n" + H + "\r\n"]),
    "body without a reader": ("small", ["POST / HTTP/1.1\r\n" + H + "Content-Length: 3\r\n\r\nabc", 0.05, "GET / HTTP/1.1\r\n" + H + "\r\n"]),
    "refused": ("nobody", ["GET / HTTP/1.1\r\n" + H + "\r\n"]),
    "tcp": ("raw", ["GET /len/5 HTTP/1.0\r\n\r\n"]),
    "tcp nothing": ("raw", [None]),
    "tcp idle": ("raw", [0.6]),
    "tcp half close": ("raw", ["GET /len/5 HTTP/1.1\r\n" + H + "\r\n", None]),
    "tcp content accepted": ("rejecting", ["GET /le", "n/5 HTTP/1.0\r\n\r\n"]),
    "tcp content rejected": ("rejecting", ["\x00\x01\x02\x03"]),
}

EXCHANGES |= {f"{method} {path} on a connection that was used before": ("plain", [f"GET /len/1 HTTP/1.1\r\n{H}\r\n", 0.05, f"{method} {path} HTTP/1.1\r\n{H}Content-Length: 0\r\n\r\nGET /len/2 HTTP/1.1\r\n{H}\r\n"])
              for method in ("GET", "POST") for path in ("/bye", "/cuthead", "/nonsense", "/cutbody")}

PARTIAL = "since 3.x a part of a head is a junk response, not none (manual, \"retry-on\")"
DIFFERENT = {
    "length and chunks": "a message that says its length in two ways ends its connections",
    "head too large": only("2.6", "a head that is too large has a status of its own (RFC 6585, 5)"),
    "GET /bye on a connection that was used before": "the request is retried on a fresh connection",
    "GET /cuthead on a connection that was used before": only("2.6", PARTIAL),
    "POST /cuthead on a connection that was used before": only("2.6", PARTIAL),
    "answer cut in the head": only("2.6", PARTIAL),
    "leaves in the body": {"2.6": "an incomplete request is a bad request, as in 3.2", "3.2": "a half-closed client can still read, and gets the error"},
    "half close after the request": "since 3.3 `option abortonclose` is on in HTTP mode unless it is switched off",
    "answer cut in a chunk": "chunks keep their size: a truncated chunk is never completed",
    "connection tokens": "an unedited head is forwarded unchanged, `keep-alive` included",
}

# Differences from one version only.
DIFFERENT |= {
    "head too large": {"2.6": "a head that is too large has a status of its own (RFC 6585, 5)", "3.2": "an answer that ends its connection announces it (RFC 9112, 9.6)"},
    "large uri": only("2.6", "since 3.2, the newline is part of a log line's length"),
    "two lengths": only("3.2", "3.2 resets a connection that it has not read to its end, and the client loses the refusal"),
    "answer cut in a chunk": only("2.6", DIFFERENT["answer cut in a chunk"]),
    "answer without a reason": only("3.2", "an empty reason is one (RFC 9112, 4)"),
    "httpclose": only("3.2", "with `option httpclose` both sides get `close`, as in the manual"),
}
