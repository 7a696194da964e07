"""The messages for the evaluation of cases, with the configuration lines that each requires."""
import struct
from dataclasses import dataclass, field

# The beginning of every configuration; `{log}` is the port of the log server.
COMMON = """global
    log 127.0.0.1:{log} len 65000 local0
    nbthread 1
    tune.bufsize 65536
    set-var-fmt proc.set %[str(of-process)]
defaults
    log global
    timeout connect 1s
    timeout client 1s
    timeout server 1s
    timeout http-keep-alive 100ms
    timeout tunnel 700ms
userlist users
    group g1 users u1
    group g2 users u2
    user u1 insecure-password p1
    user u2 insecure-password p2
backend farm
    mode http
    balance roundrobin
    server s1 127.0.0.1:1 weight 10 maxconn 5 maxqueue 3
    server s2 127.0.0.1:1 weight 20 maxconn 7 maxqueue 4
    server s3 127.0.0.1:1 backup
    server s4 127.0.0.1:1 disabled maxconn 9
backend boundless
    mode http
    server s1 127.0.0.1:1
backend singles
    stick-table type ip size 1k expire 1h store conn_cnt,conn_cur,conn_rate(1h),sess_cnt,sess_rate(1h),http_req_cnt,http_req_rate(1h) store http_err_cnt,http_err_rate(1h),http_fail_cnt,http_fail_rate(1h),bytes_in_cnt,bytes_in_rate(1h),bytes_out_cnt,bytes_out_rate(1h),glitch_cnt,glitch_rate(1h),gpc0,gpc0_rate(1h),gpc1,gpc1_rate(1h),gpt0
backend arrays
    stick-table type ip size 1k expire 1h store gpc(3),gpc_rate(3,1h),gpt(3)
backend nothing
    stick-table type ip size 1k
backend nothing-tracked
    stick-table type ip size 1k
backend nothing-late
    stick-table type ip size 1k
backend texts
    stick-table type string len 4 size 1k expire 1h store gpc0
backend numbers
    stick-table type integer size 1k expire 1h store gpc0
backend octets
    stick-table type binary len 4 size 1k expire 1h store gpc0
backend sixes
    stick-table type ipv6 size 1k expire 1h store gpc0
backend few
    stick-table type integer size 2 nopurge store gpc0
backend stuck
    stick-table type ip size 1k expire 1h store server_id,http_req_cnt
fcgi-app php
    docroot /var/www
    index index.php
backend keys
    stick-table type ip size 1k expire 1h srvkey addr store server_key,gpc0
"""

FILES = {}


@dataclass
class Message:
    """Pieces sent by a client, and the server's response. A message without a response is sent without a server."""

    pieces: list
    response: bytes | None = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    mode: str = "http"
    bind: str = ""
    frontend: list = field(default_factory=list)
    backend: list = field(default_factory=list)


def request(text, **more):
    """A message with CRLF line ends."""
    return Message([text.replace("\n", "\r\n").encode("latin-1")], **more)


def pp2(fields, command=0x21):
    """A binary PROXY header from 10.1.2.3:1111 to 10.4.5.6:2222."""
    rest = bytes([10, 1, 2, 3, 10, 4, 5, 6]) + struct.pack("!HH", 1111, 2222)
    rest += b"".join(struct.pack("!BH", kind, len(text)) + text for kind, text in fields)
    return b"\r\n\r\n\0\r\nQUIT\n" + struct.pack("!BBH", command, 0x11, len(rest)) + rest


def hello(extensions, version=0x0303):
    """A ClientHello."""
    body = struct.pack("!H", version) + b"r" * 32 + b"\x04sess" + struct.pack("!HHH", 4, 0x1301, 0xC02B) + b"\1\0"
    rest = b"".join(struct.pack("!HH", kind, len(text)) + text for kind, text in extensions)
    body += struct.pack("!H", len(rest)) + rest
    record = b"\1" + struct.pack("!I", len(body))[1:] + body
    return b"\x16\3\1" + struct.pack("!H", len(record)) + record


def name_extension(name):
    """server_name (RFC 6066, 3)."""
    entry = b"\0" + struct.pack("!H", len(name)) + name
    return 0, struct.pack("!H", len(entry)) + entry


# Rules are evaluated only after the first bytes are received.
WAIT = ["tcp-request inspect-delay 100ms", "tcp-request content set-var(txn.wait) bool(1) if { req.len gt 0 }"]
WAIT_FOR_ANSWER = ["tcp-response inspect-delay 100ms", "tcp-response content set-var(txn.wait) bool(1) if { res.len gt 0 }"]
ANSWER = """HTTP/1.1 201 Made
Server: origin
X-R: a, b
X-R: c
X-N: 12abc
X-Ip: 10.0.0.1, 2001:db8::1
Set-Cookie: s1=v1; path=/
Set-Cookie: s2=42; secure
Set-Cookie: s1=v2
Content-Length: 5

hello""".replace("\n", "\r\n").encode()

MESSAGES = {
    "get": request("""GET /a/b%20c.html?x=1&y=%41&x=2;z=&A=b HTTP/1.1
Host: www.Example.com:8080
X-A: one, two
X-Num: 12, -7abc
x-a:  three ,"four,five"
X-Empty:
X-Ip: 10.0.0.1, [2001:db8::1]:80, 1.2.3.4:99
X-Bad-Ip: 10.0.0.1:99999
X-Quote: a"b\\c]d
X-Bytes: é\xff
Cookie: a=1; B="two words"; a=3; empty=; n=42x
Cookie: c=last
User-Agent: agent (one, two)

""", response=ANSWER, frontend=["capture request header x-a len 3", "capture request header x-none len 10", "capture response header server len 10",
                                "unique-id-format %f-unique", "capture cookie a len 10"]),
    "application": request("GET / HTTP/1.1\nHost: h\n\n", backend=["use-fcgi-app php", "server app 127.0.0.1:1 proto fcgi disabled"]),
    "bare": request("GET / HTTP/1.0\n\n"),
    "absolute": request("GET http://10.9.8.7:81/p/q?r=s HTTP/1.1\nHost: 10.9.8.7:81\n\n"),
    "with-user": request("GET http://u:p@10.9.8.7:81/p HTTP/1.1\nHost: 10.9.8.7:81\n\n"),
    "closing": request("GET / HTTP/1.1\nHost: h\nConnection: close\n\n"),
    "named": request("GET http://example.com/p HTTP/1.1\nHost: example.com\n\n"),
    "options": request("OPTIONS * HTTP/1.1\nHost: h\n\n"),
    "own": request("PURGE /x? HTTP/1.1\nHost: h\nAuthorization: Basic dTE6cDE=\n\n", response=None),
    "bearer": request("GET /x;s=1;t=2 HTTP/1.1\nHost: h\nAuthorization: Bearer tok.en\nX-Auth: bEARER other\n\n", response=None),
    "wrong-user": request("GET / HTTP/1.1\nHost: h\nAuthorization: Basic dTE6d3Jvbmc=\n\n", response=None),
    "form": request("POST /form HTTP/1.1\nHost: h\nContent-Type: application/x-www-form-urlencoded\nContent-Length: 22\n\na=1&B=two&a=%41;c&d=&e", frontend=["option http-buffer-request"]),
    "chunked": request("POST /form HTTP/1.1\nHost: h\nTransfer-Encoding: chunked\n\n3\nabc\n2\nde\n0\n\n", frontend=["option http-buffer-request"]),
    "body": request("GET / HTTP/1.1\nHost: h\nX-Quote: a\"b\\c]d\nX-Bytes: é\xff\n\n"),
    "proxied": Message([pp2([(2, b"auth.example"), (5, b"id-1"), (5, b"id-2"), (1, b"h2"), (0xE0, b"own"), (4, b"noop"), (0x30, b"netns")]) + b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"], bind="accept-proxy"),
    "proxy-text": Message([b"PROXY TCP4 10.1.2.3 10.4.5.6 1111 2222\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"], bind="accept-proxy"),
    "bytes": Message([b"\3abcdef\0\2hi"], response=b"\0\4resp!", mode="tcp", frontend=WAIT, backend=WAIT_FOR_ANSWER),
    "bytes-with-http": Message([b"GET /tcp?q=1 HTTP/1.1\r\nHost: h\r\n\r\n"], response=b"x", mode="tcp", frontend=WAIT),
    "tls": Message([hello([name_extension(b"sni.Example"), (16, b"\0\x0c\x02h2\x08http/1.1"), (10, b"\0\4\0\x1d\0\x17"), (13, b"\0\4\4\3\x08\4"), (35, b"tick"), (51, b"\0\6\0\x1d\0\2kk")])],
                   response=b"\x16\3\3\0\4\2\0\0\0", mode="tcp", frontend=WAIT, backend=WAIT_FOR_ANSWER),
    "tls-bare": Message([hello([], 0x0301)], response=b"x", mode="tcp", frontend=WAIT),
    "tracked": request("GET /tracked HTTP/1.1\nHost: h\n\n", frontend=["tcp-request connection track-sc0 src table singles", "tcp-request connection track-sc1 src table arrays"]),
    "untracked": request("GET /untracked HTTP/1.1\nHost: h\n\n", frontend=["stick-table type ip size 1k expire 1h store gpc0,conn_cnt"]),
    "tracked-late": request("GET /late?k=one HTTP/1.1\nHost: h\n\n", frontend=["stick-table type ip size 1k expire 1h store conn_cnt,conn_cur,http_req_cnt,gpc0,gpc0_rate(1h)"]),
    "rdp": Message([b"\3\0\0\x2b\x26\xe0\0\0\0\0\0Cookie: mstshash=user1\r\n\1\0\x08\0\3\0\0\0"], response=b"x", mode="tcp", frontend=WAIT),
}
