"""Random expressions: fetches, converters with random arguments, patterns; some forty to a configuration."""
from reference.explorers import Case, maybe, quoted

# Fetches on a request, by type.
FETCHES = {
    "str": ("req.hdr(x-a)", "req.hdr(x-a,1)", "req.hdr(x-a,-1)", "req.hdr(x-a,-2)", "req.hdr(x-b)", "req.hdr(x-c)", "req.hdr(x-d)", "req.fhdr(x-b)", "req.fhdr(x-a,-1)", "hdr(host)", "path", "url", "query", "pathq", "base", "baseq", "url_param(a)", "url_param(b)",
            "url_param(c,;)", "urlp(a)", "urlp(x,-)", "req.cook(a)", "req.cook(b)", "cook(SID)", "req.hdr_names", "req.hdr_names(;)", "req.ver", "method", "req.hdr(x-json)", "req.hdr(x-time)", "var(txn.s)", "var(req.t)", "var(txn.none)", "var(txn.none,dflt)",
            "var(sess.i)", "str(abc)", "str(a.b-c_d)", "str(%41+b)", "str(\"a,b;c\")", "str(10.1.2.3)", "str(-12)", "str(0x1f)", "str(99999999999999999999)", "str(2001:db8::5)", "str(true)", "str(\"\")", "fe_name", "http_auth_user", "http_auth_pass", "http_auth_type",
            "http_auth_bearer", "http_auth_bearer(authorization)", "capture.req.uri", "capture.req.method", "capture.req.ver", "capture.req.hdr(0)", "env(HOME)", "env(NONE)", "url_ip", "req.hdrs", "url_param"),
    "bin": ("bin(00ff10)", "bin(616263)", "bin(0a0d2225)", "req.body", "req.body_param(f)", "req.body_param", "req.hdr(x-bin),b64dec", "base32+src,bytes(0,4)", "req.payload(0,5)", "payload(2,3)", "req.payload_lv(0,1)", "url32+src,bytes(0,4)",
            "req.hdrs_bin"),
    "int": ("int(5)", "int(-7)", "int(9223372036854775807)", "int(-9223372036854775808)", "int(0)", "req.hdr_cnt(x-a)", "req.hdr_cnt", "req.fhdr_cnt(x-a)", "req.hdr_val(x-num)", "req.hdr_val(x-num,2)", "req.cook_cnt", "req.cook_cnt(a)", "req.cook_val(n)", "urlp_val(n)", "url_port",
            "var(txn.i)", "base32", "url32", "req.body_len", "req.body_size", "fe_id", "so_id", "nbproc", "fe_client_timeout", "prio_class", "prio_offset", "req.hdr(x-num),add(0)", "fc_http_major"),
    "bool": ("bool(1)", "bool(0)", "bool(true)", "always_true", "always_false", "http_first_req", "ssl_fc", "req.proto_http", "http_auth(users)", "stopping", "src_is_local", "fc_rcvd_proxy"),
    "ip": ("src", "dst", "ipv4(1.2.3.4)", "ipv4(192.168.10.200)", "ipv6(::1)", "ipv6(2001:db8:1::ff)", "ipv6(::ffff:1.2.3.4)", "req.hdr_ip(x-ip)", "req.hdr_ip(x-a)", "req.hdr_ip(x-ip,-1)", "fc_src", "fc_dst"),
    "meth": ("method", "meth(GET)"),
}
WORDS = ("abc", "a", "-", ".", "b-c", "x1", "A", "1", "10", "0", "_", "é", "a b", ",", ";", "", "txn.s", "txn.i", "%", "\\", "()")
NUMBERS = ("0", "1", "2", "3", "5", "-1", "-2", "7", "10", "32", "64", "100", "255", "256", "4294967296", "9223372036854775807", "-9223372036854775808", "65536", "-10")


def word(chance):
    """An argument, quoted if necessary."""
    text = chance.choice(WORDS)
    return f'"{text}"' if any(sign in text for sign in " ,;()%") or not text else text


def number(chance):
    """A number or a variable that may hold one."""
    return chance.choice(NUMBERS) if maybe(chance, 0.85) else chance.choice(("txn.i", "txn.s", "txn.none", "sess.i"))


def small(chance):
    """A small number."""
    return str(chance.choice((0, 1, 1, 2, 2, 3, 5, -1, -1, -2, 100)))


def delimiters(chance):
    """Delimiter characters."""
    return chance.choice((".", "-", "/", "a", '","', "-.", '" "', ";", "=", ":", "&", "bc"))


def optional(chance, *arguments):
    """So many of the arguments as chance has it, in brackets when there are some."""
    kept = arguments[:chance.randint(0, len(arguments))]
    return f"({','.join(kept)})" if kept else ""


def expressions_of(chance):
    """A regular expression and its replacement."""
    pattern = chance.choice(("a", "[a-c]", "^/", "(a)(b)?", "b*", ".", "x?", "(.)(.)", "$", "^", "\\\\.", "[^/]+", "(?i)A", "a|b", "\\\\d+", "/+"))
    target = chance.choice(("x", "", "\\\\1", "<\\\\0>", "\\\\2\\\\1", "yy", "\\\\9", "%", "&"))
    flags = chance.choice(("", "", ",g", ",i", ",gi"))
    return f'("{pattern}","{target}"{flags})'


FORMATS = ("%Y-%m-%d", "%H:%M:%S", "%a %b %d", "%s", "%%", "%j %U", "%y%m", "%e|%k", "%D %T", "%Z", "%z", "%c", "%q", "%G-%V", "%p %I", "%F", "%n%t")
JSON_PATHS = ("$.a", "$.b", "$.b.c", "$.n", "$.arr", "$.arr[0]", "$.arr[1]", "$.none", "$", "$.f", "$.s", "$.u", "$['a']", "$.b['c']", "$.neg", "$.big", "$.null")
FIELDS_OF_FIX = ("BeginString", "BodyLength", "MsgType", "SenderCompID", "TargetCompID", "CheckSum", "8", "9", "35", "49", "56", "10", "34")

# name: input type, output type, arguments.
CONVERTERS = {
    "add": ("int", "int", lambda c: f"({number(c)})"), "sub": ("int", "int", lambda c: f"({number(c)})"), "mul": ("int", "int", lambda c: f"({number(c)})"),
    "div": ("int", "int", lambda c: f"({number(c)})"), "mod": ("int", "int", lambda c: f"({number(c)})"), "and": ("int", "int", lambda c: f"({number(c)})"),
    "or": ("int", "int", lambda c: f"({number(c)})"), "xor": ("int", "int", lambda c: f"({number(c)})"), "neg": ("int", "int", None), "cpl": ("int", "int", None),
    "even": ("int", "bool", None), "odd": ("int", "bool", None), "bool": ("int", "bool", None), "not": ("int", "bool", None),
    "htonl": ("int", "bin", None), "hex2i": ("bin", "int", None), "hex": ("bin", "str", None),
    "base64": ("bin", "str", None), "b64dec": ("str", "bin", None), "ub64enc": ("bin", "str", None), "ub64dec": ("str", "bin", None),
    "be2hex": ("bin", "str", lambda c: optional(c, word(c), small(c), small(c))), "be2dec": ("bin", "str", lambda c: f"({word(c)}" + c.choice((",1", ",2", ",4", ",8", ",2,1", "")) + ")"),
    "bytes": ("bin", "bin", lambda c: f"({c.choice((0, 1, 2, 3, 5, 100))}" + (f",{c.choice((1, 2, 3, 100))}" if maybe(c, 0.5) else "") + ")"),
    "concat": ("str", "str", lambda c: optional(c, word(c), c.choice(("txn.s", "txn.i", "txn.none", "req.t")), word(c)) or "(x)"),
    "add_item": ("str", "str", lambda c: f"({word(c)},{c.choice(('txn.s', 'txn.i', 'txn.none', ''))}" + (f",{word(c)}" if maybe(c, 0.5) else "") + ")"),
    "cut_crlf": ("str", "str", None), "length": ("str", "int", None), "lower": ("str", "str", None), "upper": ("str", "str", None),
    "ltrim": ("str", "str", lambda c: f"({delimiters(c)})"), "rtrim": ("str", "str", lambda c: f"({delimiters(c)})"),
    "field": ("str", "str", lambda c: f"({small(c)},{delimiters(c)}" + (f",{small(c)}" if maybe(c, 0.4) else "") + ")"),
    "word": ("str", "str", lambda c: f"({small(c)},{delimiters(c)}" + (f",{small(c)}" if maybe(c, 0.4) else "") + ")"),
    "regsub": ("str", "str", expressions_of), "iif": ("bool", "str", lambda c: f"({word(c)},{word(c)})"),
    "strcmp": ("str", "int", lambda c: f"({c.choice(('txn.s', 'txn.none', 'txn.i', 'req.t'))})"), "secure_memcmp": ("bin", "bool", lambda c: f"({c.choice(('txn.s', 'txn.none', 'txn.i'))})"),
    "url_dec": ("str", "str", lambda c: c.choice(("", "(1)", "(0)"))), "url_enc": ("str", "str", lambda c: c.choice(("", "(query)"))),
    "json": ("str", "str", lambda c: c.choice(("", "(ascii)", "(utf8)", "(utf8s)", "(utf8p)", "(utf8ps)"))),
    "json_query": ("str", "str", lambda c: f"({quoted_argument(c.choice(JSON_PATHS))}" + c.choice(("", "", ",int")) + ")"),
    "jwt_header_query": ("str", "str", lambda c: c.choice(("", "($.alg)", "($.typ)"))), "jwt_payload_query": ("str", "str", lambda c: c.choice(("", "($.iat,int)", "($.sub)", "($.admin)"))),
    "language": ("str", "str", lambda c: c.choice(("(en;de)", "(fr;en,dflt)", "(de)", "(es,pl)"))),
    "host_only": ("str", "str", None), "port_only": ("str", "int", None),
    "ipmask": ("ip", "ip", lambda c: c.choice(("(24)", "(8)", "(32)", "(0)", "(255.255.0.0)", "(24,64)", "(8,0)", "(32,128)"))),
    "http_date": ("int", "str", lambda c: optional(c, c.choice(("0", "3600", "86400")), c.choice(("s", "ms", "us")))),
    "utime": ("int", "str", lambda c: f'("{c.choice(FORMATS)}"' + c.choice(("", "", ",60", ",-3600")) + ")"), "ltime": ("int", "str", lambda c: f'("{c.choice(FORMATS)}"' + c.choice(("", "", ",60")) + ")"),
    "crc32": ("bin", "int", lambda c: c.choice(("", "(1)", "(0)"))), "crc32c": ("bin", "int", lambda c: c.choice(("", "(1)"))), "djb2": ("bin", "int", lambda c: c.choice(("", "(1)"))),
    "sdbm": ("bin", "int", lambda c: c.choice(("", "(1)"))), "wt6": ("bin", "int", lambda c: c.choice(("", "(1)"))), "xxh32": ("bin", "int", lambda c: c.choice(("", "(7)"))),
    "xxh64": ("bin", "int", lambda c: c.choice(("", "(7)"))), "xxh3": ("bin", "int", lambda c: c.choice(("", "(7)"))),
    "sha1": ("bin", "bin", None), "sha2": ("bin", "bin", lambda c: c.choice(("", "(224)", "(256)", "(384)", "(512)"))), "digest": ("bin", "bin", lambda c: c.choice(("(md5)", "(sha256)", "(sha1)", "(sha512)"))),
    "hmac": ("bin", "bin", lambda c: c.choice(("(sha256,a2V5)", "(sha1,txn.s)", "(md5,a2V5)"))),
    "protobuf": ("bin", "bin", lambda c: c.choice(("(1,int32)", "(1)", "(2)", "(1,bool)", "(2.1)", "(1,uint64)", "(1,sint64)", "(3,fixed32)", "(4,double)"))),
    "ungrpc": ("bin", "bin", lambda c: c.choice(("(1,int32)", "(2)"))),
    "fix_is_valid": ("bin", "bool", None), "fix_tag_value": ("bin", "bin", lambda c: f"({c.choice(FIELDS_OF_FIX)})"), "mqtt_is_valid": ("bin", "bool", None),
    "mqtt_field_value": ("bin", "bin", lambda c: c.choice(("(connect,protocol_name)", "(connect,client_identifier)", "(connect,flags)", "(connect,username)", "(connack,reason_code)"))),
    "map_str": ("str", "str", lambda c: f"(@folder@/values.map{c.choice(('', ',dflt'))})"), "map_beg": ("str", "str", lambda c: f"(@folder@/values.map{c.choice(('', ',dflt'))})"),
    "map_end": ("str", "str", lambda c: f"(@folder@/values.map{c.choice(('', ',dflt'))})"), "map_sub": ("str", "str", lambda c: f"(@folder@/values.map{c.choice(('', ',dflt'))})"),
    "map_dir": ("str", "str", lambda c: f"(@folder@/values.map{c.choice(('', ',dflt'))})"), "map_dom": ("str", "str", lambda c: f"(@folder@/values.map{c.choice(('', ',dflt'))})"),
    "map_reg": ("str", "str", lambda c: f"(@folder@/regs.map{c.choice(('', ',dflt'))})"), "map_regm": ("str", "str", lambda c: f"(@folder@/regs.map{c.choice(('', ',dflt'))})"),
    "map_ip": ("ip", "str", lambda c: f"(@folder@/ips.map{c.choice(('', ',none'))})"), "map_ip_int": ("ip", "int", lambda c: "(@folder@/ipnum.map,3)"), "map_int": ("int", "str", lambda c: f"(@folder@/ints.map{c.choice(('', ',none'))})"),
    "map_str_int": ("str", "int", lambda c: f"(@folder@/numbers.map{c.choice(('', ',-3'))})"), "map_str_ip": ("str", "ip", lambda c: "(@folder@/addresses.map)"), "map": ("str", "str", lambda c: "(@folder@/values.map)"),
    "set-var": ("str", "str", lambda c: c.choice(("(txn.z)", "(req.y)"))), "unset-var": ("str", "str", lambda c: "(txn.z)"), "nbsrv": ("str", "int", None), "srv_queue": ("str", "int", None),
    "capture-req": ("str", "str", lambda c: "(0)"),
}
# Implicit conversions by wanted type. In 2.6, a boolean stays one after arithmetic.
CASTS = {"str": ("bin", "str", "int", "ip"), "bin": ("str", "bin"), "int": ("str", "bin", "int", "bool", "ip"), "bool": ("bool", "str"), "ip": ("str", "ip", "int", "bin"), "meth": ("str", "bin")}

FILES = {
    "values.map": "abc one\n# comment\nab two words\n  xabc   three\n/a path\nb be\n1 number\nh.example host\n",
    "regs.map": "^x(.*)y$ got-\\1\n^/(.*)/ dir-\\1\n(a)(b) \\2\\1\n1 one\n",
    "ips.map": "10.0.0.0/8 ten\n10.1.0.0/16 ten-one\n127.0.0.1 local\n2001:db8::/32 doc\n::1 six\n",
    "ipnum.map": "10.0.0.0/8 10\n127.0.0.0/8 -127\n",
    "ints.map": "5 five\n42 forty-two\n0 zero\n",
    "numbers.map": "abc 42\na -1\n/a 7\n1 11\n",
    "addresses.map": "abc 1.2.3.4\na 10.0.0.7\n/a 2001:db8::7\n",
    "words.lst": "abc\n#comment\n/a\n  1\nx y\n",
}


def quoted_argument(text):
    """An argument in quotes."""
    return f'"{text}"'


def expression(chance, longest=4):
    """A fetch with some converters, and the type of the result."""
    kind = chance.choice(("str", "str", "str", "bin", "int", "bool", "ip", "meth"))
    text = chance.choice(FETCHES[kind])
    names = list(CONVERTERS)
    for _ in range(chance.choice(range(longest + 1))):
        wanted = CASTS[kind] if maybe(chance, 0.97) else ("str", "bin", "int", "bool", "ip")
        name = chance.choice([name for name in names if CONVERTERS[name][0] in wanted])
        _, kind, arguments = CONVERTERS[name]
        if name in ("utime", "ltime", "http_date"):
            text += ",and(2147483647)"  # times before 1970 and after 2038 are nobody's concern
        text += f",{name}{(arguments(chance) or '') if arguments else ''}"
    return text, kind


def shown(chance):
    """An expression with a value that fits in a field."""
    text, kind = expression(chance)
    flags = chance.choice(("", "", "", "", "{+Q}", "{+X}", "{+E}", "{+Q,+E}"))
    # Values with arbitrary bytes are shown in hexadecimal.
    if kind == "bin" or "url_dec" in text or "req.hdrs" in text or "%n%t" in text or "b64dec" in text or "req.body" in text or "payload" in text or "bin(" in text or "regsub" in text:
        text += ",hex"
    elif maybe(chance, 0.15):
        text += chance.choice((",hex", ",length"))
    return f"%{flags}[{text}]"


MATCHES = {
    "str": ("-m str abc", "-m str -i ABC", "-m beg a /", "-m end c l", "-m sub b", "-m dir a", "-m dom b example", "-m reg ^a [0-9]", "-m reg -i ^A", "-m len 3", "-m len gt 2", "-m found", "-m bin 616263", "-m ip 10.0.0.0/8", "-m int 5", "-m int ge 1", "abc a", "-f @folder@/words.lst",
            "-m beg -f @folder@/words.lst", "-i -f @folder@/words.lst zzz", "-m bool", "1:5", "-- -x abc"),
    "bin": ("-m bin 616263 00ff10", "-m str abc", "-m found", "-m len 3", "-m sub b", "-m beg a"),
    "int": ("5", "1:10", "gt 3", "le 0", "-m found", "eq 5", "lt -1 5", ":3", "7:", "-m str 5", "-m len 1", "-m int 5 6"),
    "bool": ("", "-m bool", "1", "0", "-m found", "-m int 1", "-m str 1", "true", "no"),
    "ip": ("127.0.0.1", "10.0.0.0/8 127.0.0.0/8", "::1 2001:db8::/32", "-m found", "-m str 127.0.0.1", "1.2.3.4/255.255.0.0", "-m beg 1", "-f @folder@/words.lst"),
    "meth": ("GET", "POST GET", "-m str GET", "-m found", "-m reg ^G"),
}


def condition(chance):
    """A condition on an expression."""
    text, kind = expression(chance, 2)
    return f"{{ {quoted(text)} {chance.choice(MATCHES[kind])} }}"


VALUES = ("abc", "a,b , c", "1", "-5", "", "  x  ", "a.b.c", "/a/b", "10.1.2.3", "2001:db8::1", "xaby", "%41%zz+b", "true", "3.5", "0x1f", "a\"b\\c", "\xe9\xff", "ABC", "99999999999999999999", "a=b;c=d", "abcabc", "1.2.3.4, 5.6.7.8", "é", "-", "a-b-c", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0IiwiYWRtaW4iOnRydWUsImlhdCI6MTUxNjIzOTAyMn0.c2ln",
          "8=FIX.4.4|9=5|35=0|10=161|".replace("|", "\x7f"), "YWJj", "YWJj=", "_-8", "de;q=0.5, en;q=0.8, fr", "h.example:81", "[::1]:80", "Thu", "1600000000", "1e3", "00")
DIGITS = ("1", "-5", "0", "42", "007", "3, -4", "123456789")
JSONS = ('{"a":"x","b":{"c":true},"n":12}', '{"a":1.5,"arr":[1,"two"],"neg":-3,"big":99999999999999999999,"null":null}', '{"s":"q\\"uo\\u00e9","u":"\\u4e2d"}', "[1,2]", "{", '{"a":{"a":{"a":1}},"f":1e3}', "no")
PATHS = ("/a/b.html?a=1&b=x%20y&c=5;d=6&n=12", "/?a=%41&b", "/a", "/abc?A=abc;x-y=1", "/x?a=1&a=2#f", "/a?b=&a", "/%41/abc?a=10.1.2.3")


def asked(chance, name):
    """A request with values for the expressions."""
    method = chance.choice(("GET", "GET", "POST", "HEAD", "PUT"))
    body = chance.choice(("", "f=1&g=2", "abc", "\x08\x96\x01\x12\x03abc", "\x00\x00\x00\x00\x03\x08\x96\x01", "\x10\x0c\x00\x04MQTT\x04\x02\x00<\x00\x00", "\x03abcdef", "f=%41+&F=x", "8=FIX.4.2\x019=5\x0135=0\x0110=161\x01")) if method in ("POST", "PUT") else ""
    fields = [f"X-Id: {name}", "Host: " + chance.choice(("h.example", "h.example:81", "1.2.3.4", "[::1]:80"))]
    for field in ("X-A", "X-A", "X-B", "X-C", "X-D", "X-Num", "X-Ip"):
        if maybe(chance, 0.8):
            # The conversion of an invalid number is not documented.
            fields.append(f"{field}: {chance.choice(DIGITS if field == 'X-Num' else VALUES)}")
    fields.append(f"X-Json: {chance.choice(JSONS)}")
    fields.append("Cookie: " + chance.choice(("a=1; b=two; SID=x", "a=abc", "n=7; a=; b", "b=\"q\"; a=1; a=2", "a", "")))
    if maybe(chance, 0.5):
        fields.append("Authorization: " + chance.choice(("Basic dTE6cDE=", "Basic dTE6", "Bearer abc", "Basic !", "basic dTE6cDE=", "Digest x", "Bearer  two")))
    if body or method in ("POST", "PUT"):
        fields.append(f"Content-Length: {len(body)}")
    return f"{method} {chance.choice(PATHS)} HTTP/1.1\r\n" + "".join(f"{field}\r\n" for field in fields) + "\r\n" + body


def case(chance):
    """Some forty expressions, asked of a dozen requests."""
    rules = [f"http-request set-header x-v{number} {quoted('[' + shown(chance) + ']')}" for number in range(36)]
    # Rules that read all fields come first: otherwise they would see fields written by the others.
    rules.sort(key=lambda rule: "hdr_names" not in rule and "req.hdrs" not in rule and "hdr_cnt" not in rule)
    rules += [f"http-request set-header x-c{number} yes if {condition(chance)}" for number in range(16)]
    text = f"""
global
    log 127.0.0.1:@log@ local0
    nbthread 1
    tune.bufsize 65536
    tune.http.maxhdr 300
defaults
    mode http
    log global
    option httplog
    timeout connect 300ms
    timeout client 300ms
    timeout server 300ms
    timeout http-keep-alive 60ms
userlist users
    user u1 insecure-password p1
frontend f
    bind 127.0.0.1:@f@
    capture request header x-a len 10
    http-request wait-for-body time 100ms if {{ method POST PUT }}
    http-request set-var(txn.s) {chance.choice(("str(abc)", "req.hdr(x-a)", "path"))}
    http-request set-var(txn.i) {chance.choice(("int(3)", "int(-3)", "req.hdr_cnt(x-a)", "int(0)"))}
    http-request set-var(req.t) {chance.choice(("str(t)", "src", "method"))}
    http-request set-var(sess.i) {chance.choice(("int(6)", "bool(1)", "str(7)"))}
""" + "".join(f"    {rule}\n" for rule in rules) + """    default_backend origin
backend origin
    server s1 127.0.0.1:@origin@
"""
    return Case(text, {f"v{number}": ("f", [asked(chance, f"v{number}")]) for number in range(12)}, FILES)
