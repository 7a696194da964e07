"""Results of fetches, converters, ACLs, maps and log formats."""
from reference.exchanges import COMMON, answer, get, only, post

# name: the expression, asked of one request.
EXPRESSIONS = {name: name for name in """
src,add(1) dst,cpl req.hdr_ip(x-ip),mul(2) req.hdr_ip(x-ip6),add(1)
method path url url_param(a) url_param(b) url_param(none) urlp_val(n) url_param(e) query base base32 base32+src,length capture.req.method
capture.req.uri capture.req.ver req.ver req_ver req.hdr(x-list) req.hdr(x-list,1) req.hdr(x-list,2) req.hdr(x-list,-1) req.hdr(x-list,3) req.hdr(x-list,9)
req.fhdr(x-list) req.fhdr(x-list,1) req.hdr_cnt(x-list) req.fhdr_cnt(x-list) req.hdr_cnt req.hdr_names(-) req.hdr_names req.hdr_val(x-num) req.hdr_ip(x-ip)
req.hdr_ip(x-ip6) req.cook(a) req.cook(b) req.cook_cnt(a) req.cook_val(n)  hdr(host) hdr(host),host_only hdr(host),port_only
req.hdrs,length req.hdrs_bin,length req.body req.body_len req.body_size req.body_param(f) req.body_param(g) http_first_req path,length
src dst dst_port fe_name fe_id  so_id nbsrv(origin) be_conn(origin) fe_conn srv_is_up(origin/s1) queue(origin) avg_queue(origin) connslots(origin)
always_true always_false bool(1) int(-5) str(abc) bin(616263) ipv4(1.2.3.4) ipv6(::1) meth(GET) env(NOBODY_HAS_IT) nbproc  stopping
bool(true),not int(5),add(3) int(5),sub(9) int(5),mul(3) int(17),div(5) int(17),div(0) int(17),mod(5) int(17),neg int(6),and(3) int(6),or(1) int(6),xor(5) int(6),cpl
int(6),even int(6),odd int(6),bool int(0),not int(3),bytes(0) int(9223372036854775807),add(1) int(-9223372036854775808),sub(1) int(-17),mod(5) int(-17),div(5)
str(abc),upper str(ABC),lower str(abc),length str(abc),hex str(616263),hex2i str(abc),base64 str(YWJj),b64dec str(abc),bytes(1) str(abc),bytes(0,2) str(abc),bytes(5)
str(a-b-c),field(2,-) str(a-b-c),field(-1,-) str(a-b-c),field(2,-,2) str(a-b-c),field(9,-) str(a.b.c),word(2,.) str(..a..b),word(1,.) str(a-b-c),field(2,-,0)
str(abc),regsub(b,x) str(aaa),regsub(a,x) str(aaa),regsub(a,x,g) str(AbA),regsub(a,x,gi) str(abc),sub(1)  str(abc),strcmp(txn.s) str(abc),concat(-,txn.s,-)
str(abc),crc32 str(abc),crc32c str(abc),djb2 str(abc),sdbm str(abc),wt6 str(abc),xxh32 str(abc),xxh64 str(abc),xxh3 str(abc),crc32(1) str(abc),sdbm(1)
str(abc),sha1,hex str(abc),sha2,hex str(abc),sha2(512),hex str(abc),digest(md5),hex str(abc),hmac(sha256,a2V5),hex str(1.2.3.4),ipmask(24) ipv6(2001:db8::1),ipmask(32,64)
str(a%20b),url_dec str(a+b),url_dec str(a+b),url_dec(1) str(a/b),url_enc str(<&>),htonl int(1),htonl,hex str(1),b64dec str(%%),url_dec
date(0),ltime(%Y),length int(0),utime(%Y-%m-%d) int(1000000000),http_date int(1000000000123),http_date(0,ms) int(1600000000),utime(%H:%M:%S)
str(abc),map_str(@folder@/values.map) str(abd),map_beg(@folder@/values.map,dflt) str(xyz),map_str(@folder@/values.map) str(xyz),map_str(@folder@/values.map,dflt) str(zzabc),map_end(@folder@/values.map)
str(zzabcz),map_sub(@folder@/values.map) str(a/abc/c),map_dir(@folder@/values.map) str(a.abc.c),map_dom(@folder@/values.map) ipv4(10.1.2.3),map_ip(@folder@/ips.map) ipv4(11.1.2.3),map_ip(@folder@/ips.map,none)
int(5),map_int(@folder@/ints.map) str(abc),map_str_int(@folder@/ints2.map) str(xaby),map_reg(@folder@/regs.map) str(xaby),map_regm(@folder@/regs.map)
str(Mozilla/5.0),in_table(x) str(abc),json  str(abc),iif(yes,no) bool(1),iif(yes,no) bool(0),iif(yes,no)  str(aabaa),ltrim(a) str(aabaa),rtrim(a)
   str(-x),protobuf(1) req.hdr(x-json),json_query($.a) req.hdr(x-json),json_query($.b.c) req.hdr(x-json),json_query($.n,int) req.hdr(x-json),json_query($.none)
req.hdr(accept-language),language(fr;en;de) req.hdr(accept-language),language(es,pl) str(1),debug rand(1) uuid,length uuid(4),length req.hdr(x-num),mul(2) req.hdr(x-list),length
str(abc),capture-req(0) var(txn.none) var(txn.none,dflt) var(txn.s) var(txn.i),add(1) str(5),set-var(txn.z) str(5),unset-var(txn.z) req.hdr(x-bool),bool
str(%23),url_dec str(abc),bytes(1,1) str(ABC),lower,upper  int(1),bytes(0,1) hostname,length str(1.1.1.1),ipmask(8) str(1.2.3.4:80),ipmask(8) str(1.2.3.4/8),ipmask(8) str(1.2.3.4x),ipmask(8,64) str(1.2.3.4.5),ipmask(8) str(x1.2.3.4),ipmask(8) str(1.2.3:4),ipmask(8) str(::1/64),ipmask(8,64) str(1.2.3.4:80),ipmask(8),neg str(::1),ipmask(24,8)
base64 unique-id src_port,div(100000)  last_rule_line req.payload(0,3) req.len,div(10000) payload(0,0),length req.proto_http  wait_end
   rdp_cookie(x) req_ssl_ver ssl_fc http_auth(users) http_auth_group(users) http_auth_user http_auth_pass http_auth_type http_auth_bearer
 str(ab),add_item(-,txn.s) str(ab),add_item(-,txn.s,_x) str(YWI_-w),ub64dec,hex bin(ff00),ub64enc str(abc),secure_memcmp(txn.s) str(abcdef),be2hex str(abcdef),be2hex(-,2) str(ab),be2dec(.,1) str(x),bool
str(010.1.1.1),ipmask(32) str(::1.2.3.4),ipmask(24,8) str(2002:102:304::1),ipmask(24,8) str(64:ff9b::1.2.3.4),ipmask(24,8) str(3000000000),add(1) str(0x1F),add(1) str(1.5),add(1) str(-7),add(1) str(abc),add(1) bool(1),add(1) ipv4(0.0.1.1),add(1)
req.hdr(user-agent),map_sub(@folder@/agents.map,other) req.hdr(host),lower,map_str(@folder@/values.map,dflt) req.cook(a),map_str(@folder@/values.map,dflt) path,map_beg(@folder@/paths.map,dflt) path,map_reg(@folder@/paths.map,dflt)
str(eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0IiwiYWRtaW4iOnRydWUsImlhdCI6MTUxNjIzOTAyMn0.c2ln),jwt_header_query str(eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0IiwiYWRtaW4iOnRydWUsImlhdCI6MTUxNjIzOTAyMn0.c2ln),jwt_payload_query str(eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0IiwiYWRtaW4iOnRydWUsImlhdCI6MTUxNjIzOTAyMn0.c2ln),jwt_header_query($.alg) str(eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0IiwiYWRtaW4iOnRydWUsImlhdCI6MTUxNjIzOTAyMn0.c2ln),jwt_payload_query($.iat,int) str(eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0IiwiYWRtaW4iOnRydWUsImlhdCI6MTUxNjIzOTAyMn0.c2ln),jwt_payload_query($.admin) str(eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0IiwiYWRtaW4iOnRydWUsImlhdCI6MTUxNjIzOTAyMn0.c2ln),jwt_payload_query($.none) str(a.b),jwt_header_query str(e30.e30.),jwt_header_query str(e30.e30.x.y),jwt_payload_query str(...),jwt_payload_query bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(1,int32) bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(1,uint64) bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(1,sint32) bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(1,bool) bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(1),hex bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(2),hex bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(2.3) bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(2.4,fixed32) bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(2.4),hex bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(5,double) bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(5),hex bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(6,sint64) bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(7,float) bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(9) bin(089601120a1a03616263250700000029000000000000044030033d0000c03f),protobuf(1,double) bin(0000000003089601),ungrpc(1,int32) bin(0100000003089601),ungrpc(1,int32) bin(0000000009089601),ungrpc(1,int32) bin(08),protobuf(1,int32) bin(1205616263),protobuf(2) str(e30.eyJhIjoxfQ.x.y.z),jwt_payload_query("$.a") str(eyJhIjoxfQ),jwt_header_query("$.a") str(e30),jwt_payload_query
""".split()}
# Not in 2.6, or said of something that changes.
for name in ("base32+src,length", "str(Mozilla/5.0),in_table(x)", "str(-x),protobuf(1)", "str(1),debug", "ssl_fc_sni", "base64",
             "str(abc),hmac(sha256,a2V5),hex", "str(<&>),htonl"):
    EXPRESSIONS.pop(name, None)

ACLS = {f"acl {test}": test for test in (
    "path /a/b.html", "path -i /A/B.HTML", "path_beg /a", "path_end .html", "path_sub b.h", "path_dir a", "path_dir a/b.html", "path_dom html", "path_reg ^/a", "path_len 9", "path_len gt 3",
    "path_len 3:10", "path -m beg /a", "path -m str /a /a/b.html", "path /x /a/b.html", "method GET", "method POST", "method GET POST", "url_beg /a", "url_param(a) 1", "url_param(a) -m found", "url_param(zz) -m found",
    "hdr(host) h.example", "hdr(host) -i H.EXAMPLE", "hdr_dom(host) example", "hdr_dom(host) ample", "hdr_end(host) example", "hdr_beg(host) h.", "hdr_cnt(x-list) 3", "hdr_cnt(x-list) ge 2", "hdr(x-list) b", "hdr(x-list) z", "hdr_sub(x-list) d",
    "hdr_reg(x-list) ^d$", "hdr_val(x-num) 40:50", "hdr_val(x-num) lt 40", "hdr_ip(x-ip) 10.0.0.0/8", "hdr_ip(x-ip) 10.1.2.3", "hdr_ip(x-ip) 11.0.0.0/8", "src 127.0.0.0/8", "src ::1", "src 127.0.0.1 10.0.0.1", "dst_port 1:65535",
    "req.hdr(x-list),length 1", "int(5) 1:5", "int(5) eq 5", "int(5) gt 5", "bool(1)", "always_true", "always_false", "str(abc) -m bin 616263", "bin(616263) -m bin 616263", "str(abc) -m len 3", "str(abc) -m reg ^a.c$", "str(abc) -f @folder@/words.lst",
    "str(nope) -f @folder@/words.lst", "str(ABC) -i -f @folder@/words.lst", "str(/x) -m beg -f @folder@/words.lst -- /x", "req.cook(a) one", "req.cook(none) -m found", "var(txn.s) -m str abc", "var(txn.none) -m found", "str(1) 1", "str(12) -m int 12", "str(1.2.3.4) -m ip 1.2.3.0/24",
    "ipv4(1.2.3.4) 1.2.3.4", "str(1.2.3.4:80) -m ip 1.2.3.0/24", "str(1.2.3.4x) -m ip 1.2.3.0/24", "str(1.2.3.4.5) -m ip 1.2.3.0/24", "req.body -m sub f=1", "http_first_req", "ssl_fc", "req.ver 1.1", "nbsrv(origin) gt 0", "srv_is_up(origin/s1)", "path -m end -i .HTML", "hdr(host),lower,field(1,.) h", "path,map_beg(@folder@/paths.map) -m str A")}

FORMATS = (
    "%B %CC %CS %HM %HP %HPO %HQ %HU %HV %ST", "%b %f %ft %s %r", "%hr %hrl %hs %hsl", "%rc %sq %bq %tsc %ts", "%{+Q}r %{+Q,+E}r %{+X}ci", "%{+X}ST %{+X}fc", 
    "%{+Q}HM %{-Q}HM", '%{+Q}o %HM %HP %[method] %{-Q}HM', "%{+X}o %ci %ST", "%Th %Tq", "%[src] %ci %fi %si", "%sc %bc %ac %fc",
    "a\\ b %HM", "%ID %H", "%[bin(00ff10)]", "%{+X}[int(255)]", "%[int(255),hex]", "%[bool(1)] %[ipv4(1.2.3.4)]", "%{+Q}CC %{+Q}b", "%lc", "%{+Q}hr", "%{+Q}hrl %{+Q}hsl", "%{+X}lc %{+X}fc %{+X}bc", "%ft %HQ %HP %HQ", "%HQ %HM %hr %hs  %HQ", "%HQ %{+Q}CC %{+Q}CS %CC")


def escaped(text):
    """A word that has this text."""
    return "'" + text.replace("'", "'\\''") + "'"


_rules = "".join(f"    http-request return status 200 content-type text/plain lf-string {escaped('[%[' + text + ']]')} if {{ path /e{number} }}\n"
                 for number, text in enumerate(EXPRESSIONS.values()))
_acls = "".join(f"    http-request return status 200 hdr x-acl yes if {{ req.hdr(x-case) {number} }} {{ {test} }}\n"
                for number, test in enumerate(ACLS.values()))
_logs = "".join(f"frontend log{number}\n    bind 127.0.0.1:@log{number}@\n    capture request header X-List len 20\n    capture response header X-Back len 3\n    capture cookie a len 9\n"
                f"    log-format {escaped('%ci:%cp = ' + text)}\n    default_backend origin\n" for number, text in enumerate(FORMATS))

CONFIGURATION = COMMON + """    option dontlog-normal
frontend expressions
    bind 127.0.0.1:@expressions@
    http-request set-var(txn.s) str(abc)
    http-request set-var(txn.i) int(3)
    http-request wait-for-body time 100ms if { method POST }
    http-request set-path %[req.hdr(x-path)] if { req.hdr(x-path) -m found }
""" + _rules.replace("{ path /e", "{ req.hdr(x-case) e") + """
frontend acls
    bind 127.0.0.1:@acls@
    http-request set-var(txn.s) str(abc)
    http-request wait-for-body time 100ms if { method POST }
""" + _acls + """
    http-request return status 404
""" + _logs.replace("frontend log", "frontend log").replace("    default_backend", "    no option dontlog-normal\n    default_backend") + """
userlist users
    user u1 insecure-password p1
backend origin
    server s1 127.0.0.1:@origin@
"""

FILES = {
    "values.map": "abc one\n# comment\nab two words\n  xabc   three\n",
    "ips.map": "10.0.0.0/8 ten\n10.1.0.0/16 ten-one\n",
    "ints.map": "5 five\n",
    "ints2.map": "abc 42\n",
    "regs.map": "^x(.*)y$ got-\\1\n",
    "agents.map": "curl curl!\nMozilla moz\n",
    "paths.map": "/a/b AB\n/a A\n",
    "words.lst": "abc\n#comment\n/x\n",
}

_HEADERS = ("X-List: a, b", "X-List: d", "X-Num: 42", "X-Ip: 10.1.2.3", "X-Ip6: 2001:db8::1", 'Cookie: a=one; b="two"; n=7', "Cookie: c=3", "User-Agent: curl/7",
            'X-Json: {"a":"x","b":{"c":true},"n":12}', "Accept-Language: de;q=0.5, en;q=0.8, fr", "X-Bool: true", "X-Quote: a\"b]c", "Authorization: Basic dTE6cDE=")
_TARGET = "/a/b.html?a=1&b=x%20y&n=5&e=&a=2"

EXCHANGES = {f"value {name}": ("expressions", get(_TARGET, f"X-Case: e{number}", *_HEADERS, host="h.example:81"))
             for number, name in enumerate(EXPRESSIONS)}
EXCHANGES |= {name: ("acls", get(_TARGET, f"X-Case: {number}", *_HEADERS, host="h.example")) for number, name in enumerate(ACLS)}
EXCHANGES |= {f"format {text}": (f"log{number}", get(answer("X-Back: 12345", "Set-Cookie: a=back") + "?x=y", *_HEADERS)) for number, text in enumerate(FORMATS)}
EXCHANGES |= {f"format {text} without a query": (f"log{number}", get("/echo")) for number, text in enumerate(FORMATS) if "%HQ" in text}
_number = list(EXPRESSIONS).index
EXCHANGES |= {f"posted {name}": ("expressions", post("/p", "f=1&g=2%203", f"X-Case: e{_number(name)}")) for name in ("req.body", "req.body_len", "req.body_param(f)", "req.body_param(g)", "req.body_size")}

DIFFERENT = {"value str(010.1.1.1),ipmask(32)": "a leading zero makes it no decimal number",
             "value bin(08),protobuf(1,int32)": "an unterminated number is not a value"}
DIFFERENT |= {f"value {name}": only("2.6", "2.6 gives nothing without a path, whatever its manual says") for name in EXPRESSIONS if name.endswith(("_query", "e30.),jwt_header_query")) and not name.startswith(("str(a.b)", "str(...)", "str(e30)"))}
DIFFERENT |= {f"value {name}": only("2.6", "a mapped, 6to4 or compatible address is masked as the IPv4 one that it holds, as in 3.2") for name in EXPRESSIONS if "),ipmask(24,8)" in name and name.startswith(("str(::", "str(2002:"))}
DIFFERENT |= {f"format {text} without a query": only("2.6", "it keeps the blanks on both sides of an empty query") for text in FORMATS if "%HQ" in text}
DIFFERENT |= {f"value {name}": only("2.6", "2.6 does not find the last field of a nested message") for name in EXPRESSIONS if "protobuf(2.4" in name}
DIFFERENT |= {f"format {text} without a query": only("2.6", "since 3.2, an empty query does not leave two blanks") for text in FORMATS if " %HQ" in text or text.startswith("%HQ ")}
