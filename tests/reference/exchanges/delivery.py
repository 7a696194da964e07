"""Choice of a server for a request, retries after failures, the resulting answers to clients, and streams of bytes."""
import re

from reference.exchanges import H, answered, get, only, post

_ALGORITHMS = {
    "uri": "balance uri", "urilen": "balance uri len 5", "uridepth": "balance uri depth 2", "uriwhole": "balance uri whole", "hdr": "balance hdr(x-key)", "hdrdomain": "balance hdr(host) use_domain_only",
    "param": "balance url_param key", "paramless": "balance url_param none", "rr": "balance roundrobin", "uriconsistent": "balance uri\n    hash-type consistent", "hdrconsistent": "balance hdr(x-key)\n    hash-type consistent",
    "hdrdjb2": "balance hdr(x-key)\n    hash-type map-based djb2", "hdrwt6": "balance hdr(x-key)\n    hash-type map-based wt6", "hdrcrc32": "balance hdr(x-key)\n    hash-type map-based crc32",
    "hdravalanche": "balance hdr(x-key)\n    hash-type map-based sdbm avalanche", "hdrconsistentcrc": "balance hdr(x-key)\n    hash-type consistent crc32 avalanche", "first": "balance first", "source": "balance source", "rdp": "balance rdp-cookie",
}
_FAILURES = ("refused", "silent", "bye", "nonsense", "cuthead")

CONFIGURATION = r"""
global
    log 127.0.0.1:@log@ local0
    nbthread 1
defaults
    mode http
    log global
    option httplog
    timeout connect 200ms
    timeout client 300ms
    timeout server 200ms
    timeout queue 100ms
    timeout http-request 250ms
    timeout http-keep-alive 60ms
    retries 2
""" + "".join(f"""listen {name}
    bind 127.0.0.1:@{name}@
    {lines}
    server s1 127.0.0.1:@s1@
    server s2 127.0.0.1:@s2@ weight 2
    server s3 127.0.0.1:@s3@
    server s4 127.0.0.1:@s4@ weight 3
""" for name, lines in _ALGORITHMS.items()) + r"""
listen retrying
    bind 127.0.0.1:@retrying@
    option redispatch
    balance roundrobin
    server dead 127.0.0.1:@closed@ weight 256
    server s1 127.0.0.1:@s1@ backup
listen redispatching
    bind 127.0.0.1:@redispatching@
    option redispatch 1
    balance first
    server dead 127.0.0.1:@closed@
    server s2 127.0.0.1:@s2@
listen conn
    bind 127.0.0.1:@conn@
    retry-on conn-failure
    server s1 127.0.0.1:@origin@
listen all
    bind 127.0.0.1:@all@
    retry-on all-retryable-errors
    retries 1
    server s1 127.0.0.1:@origin@
listen statuses
    bind 127.0.0.1:@statuses@
    retry-on 503 404
    retries 1
    server s1 127.0.0.1:@origin@
listen empty
    bind 127.0.0.1:@empty@
    retry-on empty-response
    retries 1
    server s1 127.0.0.1:@origin@
listen allstaying
    bind 127.0.0.1:@allstaying@
    no option abortonclose
    retry-on all-retryable-errors
    retries 1
    server s1 127.0.0.1:@origin@
listen disabled
    bind 127.0.0.1:@disabled@
    server s1 127.0.0.1:@s1@ disabled
listen backup
    bind 127.0.0.1:@backup@
    server s1 127.0.0.1:@s1@ disabled
    server s2 127.0.0.1:@s2@ backup
    server s3 127.0.0.1:@s3@ backup
listen weightless
    bind 127.0.0.1:@weightless@
    balance roundrobin
    server s1 127.0.0.1:@s1@ weight 0
    server s2 127.0.0.1:@s2@
listen full
    bind 127.0.0.1:@full@
    server s1 127.0.0.1:@origin@ maxconn 1
listen redirected
    bind 127.0.0.1:@redirected@
    server s1 127.0.0.1:@s1@ redir http://img.example
frontend chosen
    bind 127.0.0.1:@chosen@
    use_backend %[path,field(2,/)] if { path_beg /used }
    use_backend named if { path_beg /named }
    use_backend %[req.hdr(x-backend)]
    default_backend named
backend named
    use-server s3 if { path_end /three }
    use-server s2 unless { path_end /one } { path_end /x }
    server s1 127.0.0.1:@s1@ weight 0
    server s2 127.0.0.1:@s2@
    server s3 127.0.0.1:@s3@ weight 0
backend used
    server s4 127.0.0.1:@s4@
frontend nowhere
    bind 127.0.0.1:@nowhere@
    use_backend used if { path /used }
frontend messages
    bind 127.0.0.1:@messages@
    errorfile 400 @folder@/400.http
    errorfile 408 /dev/null
    errorloc302 403 http://e.example/403
    errorloc303 404 /404
    errorloc 405 /405
    http-error status 429 content-type text/plain lf-string "slow down, %[src]" hdr Retry-After 5
    http-error status 500 errorfile @folder@/500.http
    http-error status 410 content-type text/plain string gone
    http-request deny deny_status 403 if { path /403 }
    http-request deny deny_status 404 if { path /404 }
    http-request deny deny_status 405 if { path /405 }
    http-request deny deny_status 429 if { path /429 }
    http-request deny deny_status 500 if { path /500 }
    http-request deny deny_status 410 if { path /410 }
    http-request deny deny_status 400 if { path /400 }
    default_backend failing
backend failing
    errorfile 502 @folder@/502.http
    errorfile 504 @folder@/504.http
    server s1 127.0.0.1:@origin@
frontend files
    bind 127.0.0.1:@files@
    errorfiles shared 404
    errorfiles more
    http-request deny deny_status 404 if { path /404 }
    http-request deny deny_status 403 if { path /403 }
    http-request deny deny_status 403 errorfiles shared if { path /shared }
    errorfile 405 @folder@/404.http
    http-request deny deny_status 405 if { path /405 }
    http-request deny deny_status 410 errorfile @folder@/403.http if { path /410 }
    http-request return status 410 errorfile @folder@/403.http if { path /return }
    http-response return status 200 errorfile @folder@/502.http if { status 502 }
    default_backend failing
http-errors shared
    errorfile 404 @folder@/404.http
    errorfile 403 @folder@/403.http
http-errors more
    errorfile 503 @folder@/504.http
frontend captured
    bind 127.0.0.1:@captured@
    declare capture request len 5
    declare capture response len 5
    capture request header X-A len 3
    capture cookie SESS= len 8
    http-request capture req.hdr(x-b) id 0
    http-request capture path len 10
    http-response capture res.hdr(x-c) id 0
    http-response set-header x-cap "%[capture.req.hdr(0)]|%[capture.req.hdr(1)]|%[capture.req.hdr(2)]"
    default_backend failing
listen tcp
    bind 127.0.0.1:@tcp@
    mode tcp
    option tcplog
    server s1 127.0.0.1:@bytes@
listen tcprefused
    bind 127.0.0.1:@tcprefused@
    mode tcp
    option tcplog
    retries 1
    timeout connect 50ms
    server s1 127.0.0.1:@closed@
frontend tcpchosen
    bind 127.0.0.1:@tcpchosen@
    mode tcp
    option tcplog
    tcp-request inspect-delay 100ms
    tcp-request content capture req.payload(0,3) len 3
    tcp-request content set-var(txn.first) req.payload(0,1)
    tcp-request content reject if { req.payload(0,3) -m str bad }
    tcp-request content accept if { req.len gt 3 }
    tcp-request content accept if WAIT_END
    use_backend tcpbytes if { var(txn.first) -m str b }
    default_backend tcporigin
backend tcpbytes
    mode tcp
    server s1 127.0.0.1:@bytes@
backend tcporigin
    mode tcp
    tcp-response inspect-delay 100ms
    tcp-response content reject if { res.payload(0,8) -m str "HTTP/1.0" }
    tcp-response content close if { res.len gt 200 }
    server s1 127.0.0.1:@origin@
frontend tcphasty
    bind 127.0.0.1:@tcphasty@
    mode tcp
    option tcplog
    tcp-request content reject if { req.payload(0,3) -m str bad }
    default_backend tcpbytes
frontend tcprouted
    bind 127.0.0.1:@tcprouted@
    mode tcp
    option tcplog
    use_backend tcpserved if { req.payload(0,3) -m str bad }
    default_backend tcpbytes
backend tcpserved
    mode tcp
    use-server s2 if { req.payload(4,4) -m str news }
    server s1 127.0.0.1:@bytes@
    server s2 127.0.0.1:@bytes@ weight 0
frontend tcpdenied
    bind 127.0.0.1:@tcpdenied@
    mode tcp
    option tcplog
    tcp-request connection reject if { src 127.0.0.1 }
    default_backend tcpbytes
frontend sessiondenied
    bind 127.0.0.1:@sessiondenied@
    tcp-request session reject
    default_backend used
frontend contentdenied
    bind 127.0.0.1:@contentdenied@
    tcp-request inspect-delay 100ms
    tcp-request content reject if { path /reject }
    tcp-request content set-var(txn.a) path if HTTP
    tcp-request content accept if HTTP
    http-request return status 200 content-type text/plain lf-string "%[var(txn.a)]"
frontend monitored
    bind 127.0.0.1:@monitored@
    monitor-uri /alive
    monitor fail if { nbsrv(disabled) lt 1 } { hdr(x-fail) -m found }
    http-request deny
"""

FILES = {
    "400.http": "HTTP/1.1 400 Bad\r\nContent-Length: 4\r\nX-File: 400\r\n\r\nbad\n", "500.http": "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nX-File: 500\r\n\r\n",
    "502.http": "HTTP/1.1 502 Upstream\r\nContent-Length: 3\r\nX-File: 502\r\n\r\n502", "504.http": "HTTP/1.1 504 Late\r\nContent-Length: 3\r\nConnection: close\r\nX-File: 504\r\n\r\n504",
    "404.http": "HTTP/1.1 404 Lost\r\nContent-Length: 4\r\n\r\nlost", "403.http": "HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno",
}

EXCHANGES = {}
for name in _ALGORITHMS:
    if name in ("rr", "paramless", "rdp"):
        continue  # whose turn it is depends on who came before
    EXCHANGES |= {f"chosen by {name} {key}": (name, get(f"/who/{key}/deep/{key}?key={key}&a=b", f"X-Key: {key}", host=f"{key}.site{number % 3}.example"))
                  for number, key in enumerate(("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "1"))}
EXCHANGES |= {
    "one connection, the same uri": ("uri", get("/who/a") + get("/who/a") + get("/who/b")),
    "retried on another server": ("retrying", get("/who")), "redispatched": ("redispatching", get("/who")), "redispatched post": ("redispatching", post("/who", "hello")),
    "all disabled": ("disabled", get("/who")), "backup": ("backup", get("/who")), "weightless": ("weightless", get("/who")),
    "redirected to the server": ("redirected", get("/a/b?c")), "redirected post to the server": ("redirected", post("/a", "hello")),
    "monitor": ("monitored", get("/alive")), "monitor fails": ("monitored", get("/alive", "X-Fail: 1")), "monitor and other paths": ("monitored", get("/other")), "monitor HEAD": ("monitored", get("/alive", method="HEAD")),
    "monitor with a query": ("monitored", get("/alive?x")), "monitor keeps alive": ("monitored", get("/alive") + get("/alive")),
}
EXCHANGES |= {f"retry {where} {what}": (where, get(f"/{what}")) for where in ("conn", "all", "empty", "statuses") for what in ("bye", "nonsense", "cuthead", "silent", "status/503", "status/404", "status/500", "len/1")}
EXCHANGES |= {f"retry {where} an unrequested 101": (where, get(answered("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"))) for where in ("conn", "all", "empty", "statuses")}
EXCHANGES |= {f"retry a post {where}": (where, post("/bye", "hello")) for where in ("conn", "all", "empty")}
# A head that arrives in pieces is held in a small buffer: 128 bytes fit this one plus one byte of its body.
EXCHANGES |= {f"retry {where} a post in pieces": (where, ["POST /nonsense HTTP/1.1\r\n" + H + "X-Pad: " + "p" * (127 - 26 - len(H) - 9 - 21) + "\r\nContent-Le", "ngth: 9\r\n\r\n123456789"]) for where in ("conn", "all", "empty")}
# A client that half-closes still gets the bytes that are available at once; weir does not wait for more.
EXCHANGES |= {f"retry {where} {what}, and the client ends": (where, [get(f"/{what}"), 0.05, None]) for where in ("all", "allstaying") for what in ("silent", "bye", "cuthead", "status/503", "len/1")}
EXCHANGES |= {f"chosen {path}": ("chosen", get(path, *fields)) for path, fields in (
    ("/used/who", ()), ("/named", ()), ("/named/three", ()), ("/named/one", ()), ("/other", ("X-Backend: used",)), ("/other", ("X-Backend: nobody",)), ("/other", ()), ("/used", ()))}
EXCHANGES |= {f"nowhere {path}": ("nowhere", get(path)) for path in ("/used", "/else")}
EXCHANGES |= {f"message {path}": ("messages", get(path)) for path in ("/403", "/404", "/405", "/429", "/500", "/410", "/400", "/bye", "/silent", "/nonsense", "/len/1")}
EXCHANGES |= {f"message {path} to HEAD": ("messages", get(path, method="HEAD") + get("/len/1")) for path in ("/403", "/429", "/400", "/bye")}
EXCHANGES |= {"message for a bad request": ("messages", "nonsense\r\n\r\n"), "message for no request": ("messages", ["GET / HT", 0.3]), "message twice": ("messages", get("/429") + get("/500"))}
EXCHANGES |= {f"file {path}": ("files", get(path)) for path in ("/404", "/403", "/405", "/410", "/return", "/shared", "/bye", "/status/502")}
EXCHANGES |= {
    "captured": ("captured", get(answered("HTTP/1.1 200 OK\r\nX-C: 123456789\r\nSet-Cookie: SESS=fromserver; path=/\r\nContent-Length: 0\r\n\r\n"), "X-A: abcdef", "X-B: 123456789", "Cookie: a=b; SESS=fromclient; c=d")),
    "captured nothing": ("captured", get("/len/1")), "captured twice": ("captured", get("/len/1", "X-A: 1", "X-A: 2", "X-B: {|}")),
    "bytes": ("tcp", "hello"), "bytes in pieces": ("tcp", ["he", "llo"]), "bytes and an end": ("tcp", ["hello", None]), "no bytes": ("tcp", [0.05, None]), "bytes without a server": ("tcprefused", "hello"),
    "bytes by content": ("tcpchosen", "bcdef"), "bytes refused by content": ("tcpchosen", "bad news"), "no bytes by content": ("tcpchosen", [0.03, None]), "few bytes by content": ("tcpchosen", ["b", 0.2]), "bytes by content in pieces": ("tcpchosen", ["bc", "def"]), "bytes by content that end": ("tcpchosen", ["b", None]),
    "bytes refused without a delay": ("tcphasty", "bad news"), "bytes accepted without a delay": ("tcphasty", "good news"),
    "bytes that choose without a delay": ("tcprouted", "bad news"), "other bytes that choose without a delay": ("tcprouted", "good news"),
    "bytes to an origin": ("tcpchosen", get("/len/5")), "bytes refused on their way back": ("tcpchosen", get(answered("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"))), "many bytes on their way back": ("tcpchosen", get("/len/500")),
    "connection denied": ("tcpdenied", "hello"), "session denied": ("sessiondenied", get("/")), "content denied": ("contentdenied", get("/reject")), "content accepted": ("contentdenied", get("/some/path")), "content unknown": ("contentdenied", ["\x00\x01\x02", 0.2]),
}



def plain(text):
    """With the fields of responses sorted by name: neither program promises an order."""
    def ordered(match):
        return match[1] + "".join(sorted(match[2].splitlines(True), key=str.lower)) + "\r\n"

    return re.sub(r"(HTTP/1\.\d \d+ [^\r\n]*\r\n)((?:[^\r\n]+\r\n)*)\r\n", ordered, text)


OWN = "the configured message is used"
DIFFERENT = {
    "message for a bad request": OWN,
    "message /silent": "a message with `close` announces the end of the connection",
    **dict.fromkeys(("retry conn cuthead", "retry all cuthead", "retry empty cuthead", "retry statuses cuthead", "retry all cuthead, and the client ends",
                     "retry allstaying cuthead, and the client ends"), only("2.6", "since 3.x a part of a head is a junk response, not none (manual, \"retry-on\")")),
    "retry all an unrequested 101": only("2.6", "2.6 drops the answer and waits out its timeout; 3.2 retries and says 502, as for any junk response"),
    "content denied": "the request was read, and the log has it",
    "retry all silent, and the client ends": "since 3.3 `option abortonclose` is on in HTTP mode unless it is switched off",
    "file /status/502": "the manual says that the status counts",
    "redirected to the server": "the connection lives on",
    "bytes refused on their way back": "refused bytes do not pass",
    "many bytes on their way back": "a rule that closes lets nothing more pass",
}

# Differences from one version only.
DIFFERENT["redirected to the server"] = only("2.6", DIFFERENT["redirected to the server"])
