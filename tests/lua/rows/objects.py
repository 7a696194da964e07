"""The classes Fetches and Converters: names, types, arguments."""
from lua.rows import Row, request

# Fetches by their name in Lua. The same call is made with txn.f and with txn.sf.
FETCHES = [
    "always_true()", "always_false()", "act_conn()", "base()", "base32()", "baseq()", "be_id()", "be_name()", "be_conn()", "be_sess_rate()", "bin('61ff')", "bool('true')",
    "bool('false')", "capture_req_method()", "capture_req_uri()", "capture_req_ver()", "capture_req_hdr(0)", "connslots('b')", "cook('a')", "cook_cnt()", "cook_val('a')",
    "dst()", "dst_conn()", "dst_is_local()", "env('HOME')", "env('NOT_SET')", "fc_http_major()", "fc_rcvd_proxy()", "fc_pp_authority()", "fe_id()", "fe_name()",
    "fe_conn()", "fe_defbe()", "hdr('x-one')", "hdr('none')", "hdr_cnt('x-two')", "hdr_val('x-one')", "hdr_ip('x-one')", "http_first_req()", "http_auth_type()",
    "int(5)", "int('7')", "ipv4('1.2.3.4')", "ipv6('::1')", "str('text')", "meth('GET')", "method()", "nbsrv('b')", "path()", "pathq()", "query()", "prio_class()", "prio_offset()",
    "proc()", "queue('b')", "avg_queue('b')", "nbproc()", "req_body()", "req_body_len()", "req_body_size()", "req_body_param('a')", "req_cook('a')", "req_cook_cnt('a')",
    "req_fhdr('x-two')", "req_fhdr('x-two', 1)", "req_fhdr('x-two', -1)", "req_fhdr('X-TWO')", "req_fhdr_cnt('x-two')", "req_hdr('x-two', 1)", "req_hdr('x-two', -2)", "req_hdr('x-two', 5)",
    "req_hdr()", "req_hdr_cnt()", "req_hdr_names()", "req_hdr_names(',')", "req_hdrs()", "req_hdrs_bin()", "req_len()", "req_proto_http()", "req_ver()", "req_rdp_cookie()",
    "req_ssl_hello_type()", "req_ssl_sni()", "req_payload(0, 3)", "res_comp()", "sc0_conn_cnt()", "sc_conn_cnt(0)", "sc_tracked(0)", "so_id()", "so_name()", "src()",
    "src_is_local()", "srv_conn('b/s')", "srv_id()", "srv_is_up('b/s')", "srv_iweight('b/s')", "srv_weight('b/s')", "srv_name()", "srv_sess_rate('b/s')", "srv_uweight('b/s')", "ssl_fc()", "ssl_fc_sni()",
    "ssl_fc_protocol()", "ssl_c_used()", "ssl_c_verify()", "ssl_bc()", "status()", "stopping()", "table_cnt('spare')", "table_avl('spare')", "unique_id()", "url()", "url32()",
    "urlp('q')", "urlp('none')", "urlp_val('r')", "url_param('q')", "url_ip()", "url_port()", "var('txn.known')", "var('proc.number')", "var('txn.unset')", "wait_end()",
    "bc_http_major()", "fc_err()", "fc_err_str()", "hostname() ~= nil", "date() > 0", "rand(1)", "uuid(4) ~= nil", "thread()", "src_port() > 0",
    "dst_port() > 0", "cpu_calls() > 0", "lat_ns_tot() >= 0", "internal_htx_used() ~= nil", "be_server_timeout()", "fe_client_timeout()", "cur_server_timeout()", "last_rule_line() ~= nil",
]

# Wrong arguments.
WRONG = [
    "nothing()", "hdr(5)", "hdr(nil)", "hdr({})", "hdr('x-one', 'y')", "hdr('x-one', 1, 2)", "path(5)", "path('x')", "path(nil)", "int()", "int('x')", "int(nil)", "int(5.5)",
    "bool('perhaps')", "bool(true)", "str()", "str(5)", "str('a', 'b')", "str(nil)", "env()", "env(5)", "var()", "var('nothing')", "var('nothing.x')", "var(5)", "srv_conn()", "srv_conn('b')",
    "srv_conn('none/s')", "nbsrv('none')", "nbsrv()", "table_cnt('none')", "table_cnt()", "sc_conn_cnt()", "sc_conn_cnt('x')", "sc_conn_cnt(99)", "ipv4('x')", "bin('6')", "bin('xx')",
    "meth()", "meth('x')", "req_body_param()", "req_payload()", "req_payload(0)", "req_payload(-1, 2)", "req_payload(0, 0)", "req_hdr('x-two', 'x')", "http_auth()", "http_auth('none')",
    "capture_req_hdr()", "capture_req_hdr(9)", "unique_id(1)", "rand(-1)", "status(1)",
]

# Converters with their results for text and typed input: c and sc.
CONVERTERS = [
    "add(5, 3)", "add('5', 3)", "add('x', 3)", "sub(5, 3)", "mul(5, 3)", "div(7, 2)", "div(7, 0)", "mod(7, 2)", "mod(7, 0)", "neg(5)", "cpl(5)", "xor(5, 3)", "or(5, 3)", "and(5, 3)",
    "even(4)", "odd(4)", "not(0)", "bool(5)", "bool(0)", "base64('text')", "base64('\\0\\255')", "b64dec('dGV4dA==')", "b64dec('!')", "ub64enc('a?')", "ub64dec('YT8')", "bytes('abcdef', 1)",
    "bytes('abcdef', 1, 2)", "bytes('abcdef', 10)", "concat('a', '<', 'txn.known', '>')", "crc32('text')", "crc32c('text')", "djb2('text')", "sdbm('text')", "wt6('text')", "xxh32('text')", "xxh64('text')",
    "xxh3('text')", "cut_crlf('a\\r\\nb')", "date", "digest('x', 'sha256')", "sha1('x')", "sha2('x')", "sha2('x', 512)", "hmac('x', 'sha256', 'a2V5')", "field('a,b,c', 2, ',')", "field('a,b,c', -1, ',')",
    "field('a,b,c', 9, ',')", "word('a,b,c', 2, ',')", "word(',a,,b', 2, ',')", "hex('ab')", "hex2i('ff')", "htonl(1)", "be2hex('\\1\\2', '-', 1)", "be2dec('\\1\\2', '-', 1)", "http_date(0)", "http_date(784111777)", "utime(784111777, '%Y')",
    "ltime(784111777, '%H') ~= nil", "iif('x', 'yes', 'no')", "iif(0, 'yes', 'no')", "iif(1, 'yes', 'no')", "iif(true, 'yes', 'no')", "ipmask('10.1.2.3', 8)", "ipmask('10.1.2.3', '255.0.0.0')",
    "ipmask('2001:db8::1', 8, 32)", "json('a\"b')", "json('\\255', 'utf8')", "json_query('{\"a\":{\"b\":5}}', '$.a.b')", "json_query('{\"a\":true}', '$.a')", "json_query('x', '$.a')", "language('fr,en;q=0.5', 'en;fr')", "language('de', 'en')", "length('text')",
    "length('')", "lower('TeXt')", "upper('TeXt')", "ltrim('  x', ' ')", "rtrim('x  ', ' ')", "map", "mqtt_is_valid('x')", "nbsrv('b')", "param('a=1&b=2', 'b')", "port_only('host:80')", "host_only('host:80')",
    "regsub('abcb', 'b', 'x')", "regsub('abcb', 'b', 'x', 'g')", "regsub('aBc', 'b', 'x', 'i')", "rfc7239_is_valid('for=1.2.3.4')", "rfc7239_field('for=1.2.3.4', 'for')", "secure_memcmp('known', 'txn.known')", "set_var('v', 'txn.converted')",
    "srv_is_up('b/s')", "strcmp('known', 'txn.known')", "strcmp('a', 'txn.known')", "table_conn_cnt('127.0.0.1', 'spare')", "in_table('127.0.0.1', 'spare')", "url_dec('a%20b+c')", "url_dec('a%2', 1)", "url_enc('a b/')",
    "unset_var('x', 'txn.known')", "when('x', 'normal')", "x509_v_err_str(10)", "has_ctl('a\\1')", "jwt_header_query('eyJhbGciOiJIUzI1NiJ9.e30.x', '$.alg')", "jwt_payload_query('eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJ4In0.x', '$.iss')",
]

WRONG_CONVERTERS = [
    "nothing('x')", "lower()", "lower(nil)", "lower({})", "lower(true)", "lower(5)", "lower(1.5)", "lower('x', 'y')", "add()", "add(5)", "add(5, 'x')", "add(5, nil)", "add(5, 1, 2)", "add(true, 1)", "add(nil, 1)", "add(1.5, 1)",
    "bytes('x')", "bytes('x', 'y')", "bytes('x', -1)", "bytes('x', 0, -1)", "field('x')", "field('a,b', 0, ',')", "field('a,b', 'x', ',')", "word('a', 0, ',')", "sha2('x', 100)", "sha2('x', 'y')", "digest('x', 'none')", "hmac('x', 'sha256')",
    "regsub('a', '(', 'x')", "regsub('a')", "json('x', 'none')", "json_query('x', 'no')", "ipmask('x', 8)", "ipmask('1.2.3.4', 99)", "concat('a')", "strcmp('a')", "strcmp('a', 'nothing.x')", "iif('x')", "map('x')", "map('x', '/none')", "url_dec('x', 'y')",
    "base64()", "b64dec(5)", "hex2i('xyz')", "table_conn_cnt('x', 'none')", "in_table('x')", "date('x')", "http_date('x')", "utime(1)", "crc32('x', 9)",
]

BODY = request("POST", "/path?q=1&r=2", "X-One: 1", "X-Two: a", "X-Two: b", "Cookie: a=b; c=d", "Content-Type: application/x-www-form-urlencoded", body=b"a=1&b=2")


def split(call):
    """The call and the lines behind it."""
    name, _, rest = call.partition(" ")
    return (name, rest) if rest.startswith((">", "~", "=")) else (call, "")


ROWS = [
    Row("Fetches: class", "tostring(txn.f), tostring(txn.sf), tostring(txn.c), tostring(txn.sc)"),
    Row("Fetches: dots become underscores", "type(txn.f['req.hdr']), type(txn.f.req_hdr)", '"nil", "function"'),
    *(Row(f"f:{call}", f"txn.f:{call}", both=True, sent=BODY) for call in FETCHES),
    *(Row(f"sf:{call}", f"txn.sf:{call}", both=True, sent=BODY) for call in FETCHES if not split(call)[1]),
    *(Row(f"f:{call}", f"txn.f:{call}") for call in WRONG),
    *(Row(f"sf:{call}", f"txn.sf:{call}") for call in ("nothing()", "hdr(5)", "path(5)", "int()", "var('nothing.x')", "nbsrv('none')")),
    *(Row(f"f:{call} in a response", f"txn.f:{call}", place="http-res", both=True) for call in (
        "status()", "path()", "req_hdr('x-one')", "hdr('x-list')", "res_hdr('x-list')", "res_hdr('x-list', 2)", "res_fhdr('x-list')", "res_hdr_cnt('x-list')", "res_body()",
        "res_len()", "res_ver()", "srv_id()", "srv_name()", "be_name()", "bc_http_major()", "method()", "src()", "capture_res_ver()", "res_hdrs()", "res_comp()")),
    *(Row(f"f:{call} in TCP", f"(function() txn.req:data(0, 7) return txn.f:{call} end)()", place="tcp-req", sent=b"abcdef\n") for call in (
        "src()", "dst()", "path()", "method()", "req_len()", "req_payload(0, 3)", "fe_name()", "be_name()", "status()", "wait_end()", "var('proc.number')", "payload(0, 2)", "hdr('x')")),
    *(Row(f"f:{call} in a fetch", f"txn.f:{call}", place="fetch") for call in ("path()", "req_hdr('x-one')", "src()", "status()", "res_hdr('x')")),
    *(Row(f"f:{call} in a service", f"applet.f:{call}", place="http-service") for call in ("path()", "req_hdr('x-one')", "method()", "src()", "fe_name()", "be_name()", "status()", "var('proc.number')", "ssl_fc()")),
    *(Row(f"sf:{call} in a service", f"applet.sf:{call}", place="http-service") for call in ("path()", "src()", "ssl_fc()", "req_hdr('none')")),
    *(Row(f"f:{call} in a service of TCP", f"applet.f:{call}", place="tcp-service", sent=b"x\n") for call in ("src()", "fe_name()", "path()", "var('proc.number')", "ssl_fc()")),
    *(Row(f"c:{call}", f"txn.c:{call}", both=True) for call in CONVERTERS if "(" in call),
    *(Row(f"sc:{call}", f"txn.sc:{call}", both=True) for call in CONVERTERS if "(" in call and "~=" not in call),
    *(Row(f"c:{call}", f"txn.c:{call}") for call in WRONG_CONVERTERS),
    *(Row(f"sc:{call}", f"txn.sc:{call}") for call in ("nothing('x')", "lower()", "lower(nil)", "add(5)", "add(5, 'x')")),
    Row("c: `and` and `or` and `not` by index", "txn.c['and'](txn.c, 5, 3), txn.c['or'](txn.c, 5, 3), txn.c['not'](txn.c, 0)", both=True),
    Row("c in a service", "applet.c:upper('a'), applet.sc:length('abc')", '"A", "3"', place="http-service"),
    Row("c in TCP", "txn.c:upper('a')", '"A"', place="tcp-req", sent=b"x\n"),
]
ROWS = [one for one in ROWS if not any(word in one.code for word in (":and(", ":or(", ":not("))]
