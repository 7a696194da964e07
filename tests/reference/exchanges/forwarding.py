"""Additions of proxies to messages: addresses, cookies, identifiers, PROXY headers; and the servers that they select."""
import re

from reference.exchanges import COMMON, answer, answered, get, only, post

CONFIGURATION = COMMON + r"""frontend ff
    bind 127.0.0.1:@ff@
    option forwardfor
    default_backend origin
frontend ffname
    bind 127.0.0.1:@ffname@
    option forwardfor header X-Client
    option originalto header X-Server
    default_backend origin
frontend ffexcept
    bind 127.0.0.1:@ffexcept@
    option forwardfor except 127.0.0.0/8
    option originalto except 127.0.0.1
    default_backend origin
frontend ffexceptoffers
    bind 127.0.0.1:@ffexceptoffers@
    option forwardfor except 127.0.0.0/8
    option originalto except 127.0.0.1
    default_backend offersall
frontend ffoffersexcept
    bind 127.0.0.1:@ffoffersexcept@
    option forwardfor
    option originalto
    default_backend offersexcept
frontend ffexceptothers
    bind 127.0.0.1:@ffexceptothers@
    option forwardfor except 10.0.0.0/8
    option originalto except 10.0.0.1
    default_backend offersall
backend offersall
    option forwardfor
    option originalto
    server s1 127.0.0.1:@origin@
backend offersexcept
    option forwardfor except 127.0.0.0/8
    option originalto except 127.0.0.1
    server s1 127.0.0.1:@origin@
frontend ffnone
    bind 127.0.0.1:@ffnone@
    option forwardfor if-none
    default_backend origin
frontend ffboth
    bind 127.0.0.1:@ffboth@
    option forwardfor header X-Front
    default_backend offers
backend offers
    option forwardfor header X-Back
    server s1 127.0.0.1:@origin@
frontend ffnoneoffers
    bind 127.0.0.1:@ffnoneoffers@
    option forwardfor header X-Back if-none
    default_backend offers
frontend ffoffersnone
    bind 127.0.0.1:@ffoffersnone@
    option forwardfor header X-Back
    default_backend offersnone
frontend ffnonenone
    bind 127.0.0.1:@ffnonenone@
    option forwardfor header X-Back if-none
    default_backend offersnone
backend offersnone
    option forwardfor header X-Back if-none
    server s1 127.0.0.1:@origin@
frontend ids
    bind 127.0.0.1:@ids@
    unique-id-format "id-%[path]-%{+X}o%ci"
    unique-id-header X-Id
    log-format "%ci:%cp = %ID %ST"
    http-response set-header x-back %[unique-id]
    default_backend origin
frontend names
    bind 127.0.0.1:@names@
    option http-restrict-req-hdr-names delete
    default_backend origin
frontend rejects
    bind 127.0.0.1:@rejects@
    option http-restrict-req-hdr-names reject
    default_backend origin
listen insert
    bind 127.0.0.1:@insert@
    option httplog
    cookie SRV insert
    server s1 127.0.0.1:@origin@ cookie one
    server s2 127.0.0.1:@origin@ cookie two weight 0
listen indirect
    bind 127.0.0.1:@indirect@
    cookie SRV insert indirect nocache
    capture cookie APP len 10
    server s1 127.0.0.1:@origin@ cookie one
    server s2 127.0.0.1:@origin@ cookie two weight 0
listen attributes
    bind 127.0.0.1:@attributes@
    cookie SRV insert indirect nocache httponly secure domain .a.example domain b.example attr "SameSite=Strict" attr Priority=High
    server s1 127.0.0.1:@origin@ cookie one
listen postonly
    bind 127.0.0.1:@postonly@
    cookie SRV insert postonly
    server s1 127.0.0.1:@origin@ cookie one
listen preserve
    bind 127.0.0.1:@preserve@
    cookie SRV insert indirect preserve
    server s1 127.0.0.1:@origin@ cookie one
listen rewrite
    bind 127.0.0.1:@rewrite@
    cookie SRV rewrite nocache
    server s1 127.0.0.1:@origin@ cookie one
    server s2 127.0.0.1:@origin@ cookie two weight 0
listen prefix
    bind 127.0.0.1:@prefix@
    cookie APP prefix nocache
    server s1 127.0.0.1:@origin@ cookie one
    server s2 127.0.0.1:@origin@ cookie two weight 0
listen nomode
    bind 127.0.0.1:@nomode@
    cookie SRV
    server s1 127.0.0.1:@origin@ cookie one
    server s2 127.0.0.1:@origin@ cookie two weight 0
listen dynamic
    bind 127.0.0.1:@dynamic@
    cookie SRV insert dynamic
    dynamic-cookie-key key
    server s1 127.0.0.1:@closed@
    server s2 127.0.0.1:@closed@
listen aged
    bind 127.0.0.1:@aged@
    cookie SRV insert indirect maxidle 1h maxlife 8h
    server s1 127.0.0.1:@origin@ cookie one
listen down
    bind 127.0.0.1:@down@
    cookie SRV insert indirect
    option redispatch
    retries 1
    server s1 127.0.0.1:@closed@ cookie one
    server s2 127.0.0.1:@origin@ cookie two weight 0
listen downstuck
    bind 127.0.0.1:@downstuck@
    cookie SRV insert indirect
    retries 1
    timeout connect 50ms
    server s1 127.0.0.1:@closed@ cookie one
    server s2 127.0.0.1:@origin@ cookie two weight 0
listen maintained
    bind 127.0.0.1:@maintained@
    cookie SRV insert indirect
    server s1 127.0.0.1:@origin@ cookie one disabled
    server s2 127.0.0.1:@origin@ cookie two
listen persisted
    bind 127.0.0.1:@persisted@
    cookie SRV insert indirect
    ignore-persist if { path_beg /ignore }
    force-persist if { path_beg /force }
    server s1 127.0.0.1:@origin@ cookie one disabled
    server s2 127.0.0.1:@origin@ cookie two
listen out1
    bind 127.0.0.1:@out1@
    http-reuse never
    server s 127.0.0.1:@bytes@ send-proxy
listen out2
    bind 127.0.0.1:@out2@
    server s 127.0.0.1:@bytes@ send-proxy-v2
listen out2options
    bind 127.0.0.1:@out2options@
    unique-id-format "u-%[req.hdr(x-u)]"
    server s 127.0.0.1:@bytes@ send-proxy-v2 proxy-v2-options unique-id,authority,crc32c
listen out1src
    bind 127.0.0.1:@out1src@
    http-request set-src hdr(x-src)
    http-request set-dst hdr(x-dst)
    server s 127.0.0.1:@bytes@ send-proxy
listen out2src
    bind 127.0.0.1:@out2src@
    http-request set-src hdr(x-src)
    http-request set-dst hdr(x-dst)
    http-request set-src-port int(1000)
    http-request set-dst-port int(2000)
    server s 127.0.0.1:@bytes@ send-proxy-v2
listen outtcp
    bind 127.0.0.1:@outtcp@
    mode tcp
    option tcplog
    server s 127.0.0.1:@bytes@ send-proxy
listen outboth
    bind 127.0.0.1:@outboth@
    mode tcp
    option tcplog
    server s 127.0.0.1:@bytes@ send-proxy-v2 send-proxy
frontend in
    bind 127.0.0.1:@in@ accept-proxy
    http-request return status 200 content-type text/plain lf-string "%[src]:%[src_port] %[dst]:%[dst_port] %[fc_src] %[fc_rcvd_proxy] %[fc_pp_authority] %[fc_pp_unique_id] %[fc_pp_tlv(0xE0)]"
frontend inbare
    bind 127.0.0.1:@inbare@ accept-proxy
    http-request return status 200 content-type text/plain lf-string "%[src] %[dst] %[fc_rcvd_proxy] %[fc_pp_authority] %[fc_pp_unique_id]"
frontend expected
    bind 127.0.0.1:@expected@
    tcp-request connection expect-proxy layer4 if TRUE
    http-request return status 200 content-type text/plain lf-string "%[src] %[dst]"
backend origin
    server s1 127.0.0.1:@origin@
""".replace(" %[fc_pp_tlv(0xE0)]", "")

SET = "Set-Cookie: SRV=mine; path=/"
APP = "Set-Cookie: APP=abc; path=/"
TLV = "\x02\x00\x05a.com" + "\x05\x00\x03uid"


def v2(command, family, addresses, tlvs=""):
    """A binary PROXY header."""
    length = len(addresses) + len(tlvs)
    return "\r\n\r\n\0\r\nQUIT\n" + chr(0x20 | command) + chr(family) + chr(length >> 8) + chr(length & 255) + addresses + tlvs


FOUR = "\x0a\x01\x01\x01\x0a\x02\x02\x02\x04\xd2\x16\x2e"
SIX = "\x20\x01\x0d\xb8" + "\0" * 11 + "\x01" + "\x20\x01\x0d\xb8" + "\0" * 11 + "\x02" + "\x04\xd2\x16\x2e"

EXCHANGES = {f"forwarded {name}{' with its own' * own}": (name, get("/echo", *(("X-Forwarded-For: 1.1.1.1", "X-Client: 2.2.2.2") * own)))
             for name in ("ff", "ffname", "ffexcept", "ffnone", "ffboth") for own in (0, 1)}
EXCHANGES |= {f"forwarded twice {name}": (name, get("/echo", "X-Back: 1.1.1.1"))
              for name in ("ffboth", "ffnoneoffers", "ffoffersnone", "ffnonenone", "ffexceptoffers", "ffoffersexcept", "ffexceptothers")}
EXCHANGES |= {
    "forwarded two requests": ("ff", get("/echo") + get("/echo", "Connection: close")),
    "identifier": ("ids", get("/echo")),
    "identifier replaced": ("ids", get("/echo", "X-Id: theirs")),
    "odd names deleted": ("names", get("/echo", "A_b: 1", "C-d: 2", "e.f: 3", "g!h: 4")),
    "odd names rejected": ("rejects", get("/echo", "A_b: 1")),
    "no odd names": ("rejects", get("/echo", "A-b: 1")),
}
for name in ("insert", "indirect", "attributes", "postonly", "preserve", "rewrite", "prefix", "nomode", "aged", "down", "downstuck", "maintained", "persisted"):
    EXCHANGES |= {
        f"cookie {name}": (name, get("/echo")),
        f"cookie {name} known": (name, get("/echo", "Cookie: SRV=one")),
        f"cookie {name} unknown": (name, get("/echo", "Cookie: a=b; SRV=three; c=d")),
        f"cookie {name} other server": (name, get("/echo", "Cookie: SRV=two")),
    }
for name in ("insert", "indirect", "preserve", "rewrite", "nomode"):
    EXCHANGES |= {
        f"cookie {name} and the server sets it": (name, get(answer(SET))),
        f"cookie {name} known and the server sets it": (name, get(answer(SET, "Set-Cookie: x=y"), "Cookie: SRV=one")),
        f"cookie {name} quoted": (name, get("/echo", 'Cookie: SRV="one"')),
        f"cookie {name} twice": (name, get("/echo", "Cookie: SRV=one; SRV=two")),
        f"cookie {name} in two fields": (name, get("/echo", "Cookie: a=b", "Cookie: SRV=two")),
        f"cookie {name} alone among others": (name, get("/echo", "Cookie: SRV=one;a=b")),
        f"cookie {name} last": (name, get("/echo", "Cookie: a=b; SRV=one")),
        f"cookie {name} malformed": (name, get("/echo", "Cookie: SRV; =x; SRV=one;;")),
        f"cookie {name} of a post": (name, post("/echo", "hi")),
        f"cookie {name} of a cacheable answer": (name, get(answer("Cache-Control: public, max-age=5"))),
    }
EXCHANGES |= {
    "cookie prefix set": ("prefix", get(answer(APP))),
    "cookie prefix two set": ("prefix", get(answer(APP, "Set-Cookie: other=1"))),
    "cookie prefix returned": ("prefix", get("/echo", "Cookie: APP=one~abc")),
    "cookie prefix of the other": ("prefix", get("/echo", "Cookie: APP=two~abc; x=y")),
    "cookie prefix of an unknown server": ("prefix", get("/echo", "Cookie: APP=three~abc")),
    "cookie prefix without": ("prefix", get("/echo", "Cookie: APP=abc")),
    "cookie postonly of a post": ("postonly", post("/echo", "hi")),
    "public answer to DELETE": ("indirect", get(answer("Cache-Control: max-age=5, public"), method="DELETE")),
    "public answer of a status that is not kept": ("indirect", get(answer("ETag: x", "Cache-Control: public", status="500 X"))),
    "cookie captured": ("indirect", get(answer(APP), "Cookie: APP=0123456789abcdef")),
    "cookie of an old date": ("aged", get("/echo", "Cookie: SRV=one|AAAAA|AAAAA")),
    "cookie of a bad date": ("aged", get("/echo", "Cookie: SRV=one|x")),
    "cookie and a forced server": ("persisted", get("/force", "Cookie: SRV=one")),
    "cookie and no persistence": ("persisted", get("/ignore", "Cookie: SRV=one")),
    "cookie of a HEAD": ("insert", get(answered("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"), method="HEAD")),
    "cookie of a 304": ("insert", get("/status/304")),
    "proxy header 1": ("out1", get("/x")),
    "proxy header 2": ("out2", get("/x")),
    "proxy header 2 with options": ("out2options", get("/x", "X-U: 7")),
    "proxy header 1 of other addresses": ("out1src", get("/x", "X-Src: 10.0.0.1", "X-Dst: 10.0.0.2")),
    "proxy header 1 of six": ("out1src", get("/x", "X-Src: 2001:db8::1", "X-Dst: 2001:db8::2")),
    "proxy header 1 of mixed addresses": ("out1src", get("/x", "X-Src: 2001:db8::1", "X-Dst: 10.0.0.2")),
    "proxy header 2 of other addresses": ("out2src", get("/x", "X-Src: 10.0.0.1", "X-Dst: 10.0.0.2")),
    "proxy header 2 of six": ("out2src", get("/x", "X-Src: 2001:db8::1", "X-Dst: 2001:db8::2")),
    "proxy header 2 of mixed addresses": ("out2src", get("/x", "X-Src: 2001:db8::1", "X-Dst: 10.0.0.2")),
    "proxy header of tcp": ("outtcp", "hello"),
    "proxy header of both versions": ("outboth", "hello"),
}
SAID = get("/", "Connection: close")
EXCHANGES |= {f"said {name}": ("in", text) for name, text in {
    "1 four": "PROXY TCP4 10.1.1.1 10.2.2.2 1234 5678\r\n" + SAID,
    "1 six": "PROXY TCP6 2001:db8::1 2001:db8::2 1234 5678\r\n" + SAID,
    "1 unknown": "PROXY UNKNOWN\r\n" + SAID,
    "1 unknown with addresses": "PROXY UNKNOWN ff:ff::1 ff::2 1 2\r\n" + SAID,
    "1 bad address": "PROXY TCP4 10.1.1.300 10.2.2.2 1234 5678\r\n" + SAID,
    "1 bad port": "PROXY TCP4 10.1.1.1 10.2.2.2 1234 99999\r\n" + SAID,
    "1 bad family": "PROXY UDP4 10.1.1.1 10.2.2.2 1234 5678\r\n" + SAID,
    "1 without its end": "PROXY TCP4 10.1.1.1 10.2.2.2 1234 5678",
    "1 line feed only": "PROXY TCP4 10.1.1.1 10.2.2.2 1234 5678\n" + SAID,
    "1 too long": "PROXY TCP4 10.1.1.1 10.2.2.2 1234 " + "5" * 200 + "\r\n" + SAID,
    "nothing": SAID,
    "lower case": "proxy TCP4 10.1.1.1 10.2.2.2 1234 5678\r\n" + SAID,
    "2 four": v2(1, 0x11, FOUR) + SAID,
    "2 six": v2(1, 0x21, SIX) + SAID,
    "2 local": v2(0, 0, "") + SAID,
    "2 local with addresses": v2(0, 0x11, FOUR) + SAID,
    "2 unspecified": v2(1, 0, "") + SAID,
    "2 with values": v2(1, 0x11, FOUR, TLV) + SAID,
    "2 with values twice": v2(1, 0x11, FOUR, TLV + TLV.replace("a.com", "b.com").replace("uid", "two")) + SAID,
    "2 with a bad checksum": v2(1, 0x11, FOUR, "\x03\x00\x04abcd") + SAID,
    "2 too short": v2(1, 0x11, FOUR[:8]) + SAID,
    "2 of version 3": v2(1, 0x11, FOUR).replace("\x21", "\x31", 1) + SAID,
    "2 of an odd command": v2(3, 0x11, FOUR) + SAID,
    "2 of udp": v2(1, 0x12, FOUR) + SAID,
    "2 of unix": v2(1, 0x31, "\0" * 216) + SAID,
}.items()}
EXCHANGES |= {
    "said in pieces": ("in", ["PROXY TCP4 10.1.1", ".1 10.2.2.2 1234 5678\r", "\n" + SAID]),
    "said in pieces 2": ("in", [v2(1, 0x11, FOUR)[:14], v2(1, 0x11, FOUR)[14:] + SAID[:5], SAID[5:]]),
    "said and gone": ("in", ["PROXY TCP4", None]),
    "said late": ("in", ["PROXY", 0.35]),
    "said as expected": ("expected", "PROXY TCP4 10.1.1.1 10.2.2.2 1234 5678\r\n" + SAID),
}
del EXCHANGES["cookie aged"], EXCHANGES["cookie aged unknown"], EXCHANGES["cookie aged other server"]  # they carry the time


def plain(text):
    """Without the time in cookies that have one: it changes every four seconds."""
    return re.sub(r"(SRV=one)\|\w{5}\|\w{5}", r"\1|TIME|TIME", text)


STRICT = "a header outside the specification is refused"
LENIENT = "the specification wants it accepted"
DIFFERENT = {
    "cookie indirect malformed": "fields that are kept stay unchanged",
    "cookie preserve malformed": "fields that are kept stay unchanged",
    "proxy header 2 with options": "the checksum follows the protected fields",
    "said 1 unknown with addresses": LENIENT,
    "said 1 bad address": STRICT,
    "said 1 bad port": STRICT,
    "said 1 too long": STRICT,
    "said 2 unspecified": LENIENT,
    "said 2 of udp": LENIENT,
    "said 2 of unix": LENIENT,
    "said 2 with values twice": only("2.6", "the first one counts: no specification says which"),
    "said 2 with a bad checksum": "the log reports it",
    "said in pieces": "a header may come in pieces",
    "said in pieces 2": "a header may come in pieces",
    "said and gone": "a truncated header is reported as such",
}
DIFFERENT["said 2 local with addresses"] = only("3.2", "addresses of a LOCAL header are ignored (PROXY protocol, 2.2)")
