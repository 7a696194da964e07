"""The class HTTP."""
from lua.rows import GET, Row, request

FIELDS = '{host={[0]="shop.test"}, ["x-one"]={[0]="1"}, ["x-two"]={[0]="a", [1]="b"}}'


def change(call, want=None, see=("server",), **options):
    """A row with a call that changes the request."""
    return Row(options.pop("name", call), f"txn.http:{call}", want, see=see, **options)


def answer(call, want=None, **options):
    """A row with a call that changes the response."""
    return Row(f"{options.pop('name', call)}", f"txn.http:{call}", want, place="http-res", see=("client",), **options)


REQUEST_ONLY = ("req_get_headers()", "req_add_header('x', 'a')", "req_del_header('x-one')", "req_set_header('x', 'a')", "req_rep_header('x-two', '.*', 'c')",
                "req_rep_value('x-two', '.*', 'c')", "req_set_method('PUT')", "req_set_path('/new')", "req_set_query('n=1')", "req_set_uri('/new?n=1')")
RESPONSE_ONLY = ("res_get_headers()", "res_add_header('x', 'a')", "res_del_header('x-list')", "res_set_header('x', 'a')", "res_rep_header('x-list', '.*', 'c')",
                 "res_rep_value('x-list', '.*', 'c')", "res_set_status(404)")

ROWS = [
    Row("class", "tostring(txn.http)"),
    Row("members", "(function() local n = {} for k in pairs(getmetatable(txn.http).__index) do n[#n + 1] = k end table.sort(n) return table.concat(n, ' ') end)()"),
    Row("req_get_headers: without Connection", "txn.http:req_get_headers()", FIELDS),
    Row("req_get_headers: index 0", 'txn.http:req_get_headers()["x-two"][0], txn.http:req_get_headers()["x-two"][1], #txn.http:req_get_headers()["x-two"]', '"a", "b", 1'),
    Row("req_get_headers: lower case", 'txn.http:req_get_headers()["X-One"], txn.http:req_get_headers()["x-one"][0]', 'nil, "1"'),
    Row("req_get_headers: commas are kept", 'txn.http:req_get_headers()["x-two"]', '{[0]="a, b"}', sent=request("GET", "/", "X-Two: a, b")),
    Row("req_get_headers: cookies", 'txn.http:req_get_headers()["cookie"]', sent=request("GET", "/", "Cookie: a=1; b=2", "Cookie: c=3")),
    Row("req_get_headers: an empty value", 'txn.http:req_get_headers()["x-empty"]', '{[0]=""}', sent=request("GET", "/", "X-Empty:")),
    Row("req_get_headers: a body's length", "txn.http:req_get_headers()", sent=request("POST", "/", body=b"abc")),
    Row("req_get_headers: a chunked body", "txn.http:req_get_headers()", sent=request("POST", "/", "Transfer-Encoding: chunked", body=b"3\r\nabc\r\n0\r\n\r\n", length=False)),
    Row("req_get_headers: HTTP/1.0", "txn.http:req_get_headers()", sent=b"GET / HTTP/1.0\r\nX: 1\r\n\r\n"),
    Row("req_get_headers: a copy", '(function() txn.http:req_get_headers()["x-one"][0] = "changed" return txn.http:req_get_headers()["x-one"][0] end)()', '"1"'),
    Row("req_get_headers: an argument", "txn.http:req_get_headers(1)"),
    Row("req_get_headers: in a fetch", 'txn.http:req_get_headers()["x-one"][0]', '"1"', place="fetch"),
    Row("req_get_headers: with a dot", "txn.http.req_get_headers()"),
    Row("res_get_headers", "txn.http:res_get_headers()", '{["content-length"]={[0]="5"}, ["server-says"]={[0]="hello"}, ["x-list"]={[0]="a, b", [1]="c"}}', place="http-res"),

    # Each member in the wrong ruleset.
    *(Row(f"{call.partition('(')[0]} in a response", f"txn.http:{call}", place="http-res", see=("client", "log")) for call in REQUEST_ONLY),
    *(Row(f"{call.partition('(')[0]} in a request", f"txn.http:{call}", see=("server", "log")) for call in RESPONSE_ONLY),
    *(Row(f"{call.partition('(')[0]} in http-after-res", f"txn.http:{call}", place="http-after-res", see=("client", "log")) for call in RESPONSE_ONLY),
    *(Row(f"{call.partition('(')[0]} in tcp-request content", f"txn.http and txn.http:{call}", place="tcp-req-http", see=("server", "log"))
      for call in ("req_get_headers()", "req_set_header('x', 'a')")),
    Row("req_add_header in a fetch", "txn.http:req_add_header('x', 'a')", place="fetch", see=("server", "log")),

    # The request.
    change("req_add_header('x-new', 'v')"),
    change("req_add_header('x-one', '2')"),
    change("req_add_header('X-UPPER', 'v')"),
    change("req_add_header('x-new', '')"),
    change("req_add_header('x-new', 5)"),
    change("req_add_header('x-new', 1.5)"),
    change("req_add_header('', 'v')"),
    change("req_add_header('a b', 'v')"),
    change("req_add_header('x-new', 'a\\r\\nx-injected: 1')", manual="Not defined. weir refuses line ends in a value."),
    change("req_add_header('x-new\\r\\nx-injected', '1')", manual="Not defined. weir refuses line ends in a name."),
    change("req_add_header('x-new', 'a\\0b')", manual="Not defined. weir refuses a NUL in a value."),
    change("req_add_header('x-new', '\\255')"),
    change("req_add_header('x-new', string.rep('v', 20000))", see=("client", "log")),
    change("req_add_header('host', 'other.test')"),
    change("req_add_header('content-length', '5')"),
    change("req_add_header('connection', 'close')"),
    *(change(call, see=()) for call in ("req_add_header()", "req_add_header('x')", "req_add_header('x', nil)", "req_add_header('x', {})", "req_add_header('x', true)",
                                        "req_add_header(nil, 'v')", "req_add_header('x', 'a', 'b')", "req_set_header()", "req_set_header('x')", "req_set_header('x', nil)",
                                        "req_set_header('x', 'a', 'b')", "req_del_header()", "req_del_header(nil)", "req_del_header('a', 'b')", "req_rep_header()",
                                        "req_rep_header('x')", "req_rep_header('x', '.*')", "req_rep_header('x-one', '(', 'y')", "req_rep_header('x-one', '.*', nil)",
                                        "req_rep_value('x')", "req_set_method()", "req_set_method(nil)", "req_set_method('GET', 1)", "req_set_path()", "req_set_path(nil)",
                                        "req_set_path(5)", "req_set_query()", "req_set_query(nil)", "req_set_uri()", "req_set_uri(nil)", "req_set_uri({})")),
    change("req_del_header('x-two')"),
    change("req_del_header('X-TWO')"),
    change("req_del_header('missing')"),
    change("req_del_header('host')"),
    change("req_set_header('x-two', 'one')"),
    change("req_set_header('X-Two', 'one')"),
    change("req_set_header('x-new', 'v')"),
    change("req_set_header('host', 'other.test')"),
    change("req_set_header('host', '')"),
    change("req_rep_header('x-two', 'a', 'c')"),
    change("req_rep_header('x-two', '^(.)$', '<\\\\1>')"),
    change("req_rep_header('x-one', '(1)', '\\\\1\\\\1\\\\2')"),
    change("req_rep_header('x-two', 'a, (b)', '\\\\1')", sent=request("GET", "/", "X-Two: a, b", "X-Two: c")),
    change("req_rep_header('x-one', 'none', 'y')"),
    change("req_rep_header('X-TWO', 'A', 'c')"),
    change("req_rep_header('missing', '.*', 'y')"),
    change("req_rep_header('x-one', '.*', '')"),
    change("req_rep_value('x-two', 'a', 'c')", sent=request("GET", "/", "X-Two: a, b, a", "X-Two: a")),
    change("req_rep_value('x-two', '^.$', '<\\\\0>')", sent=request("GET", "/", "X-Two: a, b, a")),
    *(change(f"req_set_method({method})") for method in ("'POST'", "'post'", "''", "'A B'", "'PURGE'", "5", "'HEAD'", "'CONNECT'", "'G\\r\\nX'")),
    *(change(f"req_set_path({path})") for path in ("'/new'", "'new'", "''", "'/new?x=1'", "'/a b'", "'/%20'", "'*'", "'/\\255'", "'/a#b'")),
    *(change(f"req_set_query({query})") for query in ("'n=1'", "''", "'?n=1'", "'a b'", "'n=1&m=2'")),
    *(change(f"req_set_uri({uri})") for uri in ("'/new?n=1'", "'http://other.test/new'", "''", "'new'", "'*'", "'/a b'", "5")),
    change("req_set_query('n=1')", name="req_set_query: a path without a query", sent=request(path="/plain")),
    change("req_set_query('')", name="req_set_query: removes nothing without a query", sent=request(path="/plain")),
    change("req_set_path('/new')", name="req_set_path: an absolute URI", sent=request(path="http://shop.test/old?q=1")),
    change("req_set_path('/new')", name="req_set_path: the asterisk", sent=request("OPTIONS", "*")),
    Row("changes are seen by fetches", "(function() txn.http:req_set_path('/new') txn.http:req_set_header('x-one', '2') return txn.f:path(), txn.f:req_hdr('x-one') end)()",
        '"/new", "2"'),
    Row("methods can be called on a kept http object", "(function() local h = txn.http h:req_set_header('x', '1') return h:req_get_headers().x end)()", '{[0]="1"}'),

    # The response.
    answer("res_add_header('x-new', 'v')"),
    answer("res_add_header('x-list', 'd')"),
    answer("res_add_header('x-new', 5)"),
    answer("res_add_header('x-new', 'a\\r\\nx-injected: 1')", manual="Not defined. weir refuses line ends in a value."),
    answer("res_add_header('content-length', '3')"),
    answer("res_add_header('set-cookie', 'a=1')"),
    answer("res_add_header('x-new', string.rep('v', 20000))"),
    answer("res_del_header('x-list')"),
    answer("res_del_header('X-List')"),
    answer("res_del_header('content-length')"),
    answer("res_set_header('x-list', 'one')"),
    answer("res_set_header('x-new', '')"),
    answer("res_rep_header('x-list', 'a, (b)', '\\\\1')"),
    answer("res_rep_header('x-list', '.*', '')"),
    answer("res_rep_value('x-list', 'b', 'B')"),
    *(answer(f"res_set_status({arguments})") for arguments in (
        "404", "404, 'Own'", "299", "599", "600", "999", "1000", "99", "100", "101", "204", "304", "0", "-1", "'404'", "'x'", "404.0", "404.5", "404, ''", "404, 5", "404, nil", "404, 'a', 'b'",
        "nil", "", "404, 'a\\r\\nx: y'")),
    answer("res_set_status(404)", name="res_set_status: to an answer with a body", answer=b"HTTP/1.1 500 Oops\r\nContent-Length: 3\r\n\r\nabc"),
    Row("res_set_status as fetched", "(function() txn.http:res_set_status(404) return txn.f:status() end)()", "404", place="http-res"),
]
