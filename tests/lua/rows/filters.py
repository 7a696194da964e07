"""Filters, and the class HTTPMessage, which only they see."""
from lua.rows import Row, request

POST = request("POST", "/path?q=1", "X-One: 1", "X-Two: a, b", "X-Two: c", body=b"hello world")
CHUNKED = request("POST", "/", "Transfer-Encoding: chunked", body=b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", length=False)


def head(name, code, want=None, place="filter-headers-req", see=(), **options):
    return Row(name, code, want, place=place, see=see, **dict(dict(sent=POST), **options))


def payload(name, code, want=None, place="filter-payload-req", see=("server",), **options):
    """A row that acts once, on the first data."""
    return Row(name, f"if not flt.acted then flt.acted = true show((function() {code} end)()) end", want, place=place, raw=True, see=see, **dict(dict(sent=POST), **options))


NAMES = ("CONTINUE", "WAIT", "ERROR")
CHANGES = ("add_header('x-new', 'v')", "set_header('x-two', 'v')", "del_header('x-two')", "rep_header('x-two', 'a, (b)', '\\\\1')", "rep_value('x-two', 'b', 'B')",
           "set_method('PUT')", "set_path('/new')", "set_query('n=1')", "set_uri('/new?n=1')")

ROWS = [
    *(Row(f"filter.{name}", f"filter.{name}", want) for name, want in (("CONTINUE", "1"), ("WAIT", "0"), ("ERROR", "-1"), ("FLT_CFG_FL_HTX", None))),
    Row("members of filter", "(function() local n = {} for k in pairs(filter) do n[#n + 1] = k end table.sort(n) return table.concat(n, ' ') end)()"),
    *(Row(f"filter.{call} outside a filter", f"filter.{call}") for call in ("wake_time(10)", "register_data_filter(txn.req)", "unregister_data_filter(txn.req)", "wake_time()")),

    # The arguments of the callbacks.
    head("headers: txn and message", "tostring(txn), tostring(msg), tostring(msg.channel), type(flt)"),
    head("headers: http_req and http_res", "type(txn.http_req), type(txn.http_res)"),
    head("headers: members of HTTPMessage", "(function() local n = {} for k in pairs(getmetatable(msg).__index) do n[#n + 1] = k end table.sort(n) return table.concat(n, ' ') end)()"),
    head("arguments of the line", "flt.line", '{[1]="first", [2]="second"}'),
    head("start: channel", "msg:is_resp(), type(flt)", "false, \"table\"", place="filter-start-req"),
    head("start of the response: channel", "msg:is_resp()", "true", place="filter-start-res"),
    head("end: channel", "msg:is_resp()", "false", place="filter-end-req"),
    head("finish: message", "msg:eom()", "true", place="filter-finish-req"),
    head("one object for each stream", "(function() local new = flt.seen == nil flt.seen = true return new end)()", ["true", "true"], sent=[POST, POST]),

    # HTTPMessage, request.
    head("get_stline", "msg:get_stline()", '{method="POST", uri="/path?q=1", version="HTTP/1.1"}'),
    head("get_headers", "msg:get_headers()['x-two']", '{[0]="a, b", [1]="c"}'),
    head("is_resp", "msg:is_resp()", "false"),
    head("may_recv", "msg:may_recv()"),
    head("is_full", "msg:is_full()", "false"),
    head("eom", "msg:eom()"),
    head("input and output", "msg:input(), msg:output()"),
    head("body in headers", "msg:body()"),
    *(head(f"{call}", f"msg:{call}", see=("server",)) for call in CHANGES),
    *(head(f"{call.partition('(')[0]} of a response", f"msg:{call}", place="filter-headers-res", see=("client",)) for call in CHANGES),
    *(head(f"pcall {call}", f"pcall(msg.{call})") for call in ("add_header, msg", "add_header, msg, 'x'", "add_header, msg, 'x', nil", "set_header, msg", "del_header, msg", "rep_header, msg", "set_method, msg",
                                                                "set_path, msg", "set_query, msg", "set_uri, msg", "set_status, msg", "get_stline, msg, 1", "get_headers, msg, 1", "body, msg, 'x'",
                                                                "insert, msg", "forward, msg", "send, msg", "set, msg", "append, msg", "prepend, msg", "eom, msg, 1", "get_stline, {}")),
    head("set_status of a request", "pcall(msg.set_status, msg, 404)", see=("server",)),

    # HTTPMessage, response.
    head("response: get_stline", "msg:get_stline()", place="filter-headers-res"),
    head("response: get_headers", "msg:get_headers()['x-list']", '{[0]="a, b", [1]="c"}', place="filter-headers-res"),
    head("response: is_resp", "msg:is_resp()", "true", place="filter-headers-res"),
    *(head(f"response: set_status({arguments})", f"msg:set_status({arguments})", place="filter-headers-res", see=("client",)) for arguments in ("404", "404, 'Own'", "99", "1000")),

    # The payload.
    payload("body", "return msg:body()", ['"hello world"'], see=()),
    payload("body: offset", "return msg:body(6)", ['"world"'], see=()),
    payload("body: offset and length", "return msg:body(0, 5)", ['"hello"'], see=()),
    payload("body: negative offset", "return msg:body(-5)", ['"world"'], see=()),
    payload("body: length -1", "return msg:body(0, -1)", ['"hello world"'], see=()),
    payload("body: out of range", "return pcall(msg.body, msg, 100)", see=()),
    payload("input", "return msg:input(), msg:output()", see=()),
    payload("eom in the payload", "return msg:eom()", see=()),
    payload("body: chunked", "return msg:body()", see=(), sent=CHUNKED),
    payload("set: same length", "return msg:set('HELLO', 0, 5)"),
    payload("set: a chunked body grows", "return msg:set('much longer than before')", sent=CHUNKED),
    payload("set: a body with a length grows", "return msg:set('much longer than before')"),
    payload("insert: chunked", "return msg:insert('<')", sent=CHUNKED),
    payload("append: chunked", "return msg:append('>')", sent=CHUNKED),
    payload("prepend: chunked", "return msg:prepend('<')", sent=CHUNKED),
    payload("remove: chunked", "return msg:remove(0, 6)", sent=CHUNKED),
    payload("send: chunked", "return msg:send('first ')", sent=CHUNKED),
    payload("forward: chunked", "return msg:forward(5), msg:body()", sent=CHUNKED),
    payload("set: too much", "return msg:set(string.rep('x', 20000))", sent=CHUNKED, see=()),
    payload("response: body", "return msg:body()", ['"hello"'], place="filter-payload-res", see=()),
    payload("response: set", "return msg:set('HELLO')", ["5"], place="filter-payload-res", see=()),
    payload("response: a length, and another body", "return msg:set('longer body')", place="filter-payload-res", see=("client",)),
    payload("unregister", "filter.unregister_data_filter(flt, msg.channel) return true"),
    payload("sleep in a filter", "core.msleep(5) return true", see=("client", "log")),

    # What callbacks return.
    *(Row(f"headers return {name}", f"show('called') return filter.{name}", place="filter-headers-req", raw=True, see=("client", "server", "log"), sent=request())
      for name in ("CONTINUE", "ERROR")),
    *(Row(f"headers of the response return {name}", f"show('called') return filter.{name}", place="filter-headers-res", raw=True, see=("client", "log"), sent=request())
      for name in ("CONTINUE", "ERROR")),
    Row("headers wait once", "if not flt.waited then flt.waited = true filter.wake_time(20) show('wait') return filter.WAIT end show('go') return filter.CONTINUE", ['"wait"', '"go"'],
        place="filter-headers-req", raw=True, sent=request()),
    *(Row(f"{place} returns ERROR", "show('called') return filter.ERROR", place=place, raw=True, see=("client", "log"), sent=POST)
      for place in ("filter-start-req", "filter-payload-req", "filter-payload-res", "filter-finish-req", "filter-end-req")),
    *(Row(f"{place} fails", "show('called') error('broken')", place=place, raw=True, see=("client", "log"), sent=POST)
      for place in ("filter-start-req", "filter-headers-req", "filter-headers-res", "filter-payload-req", "filter-finish-req", "filter-end-req")),
    Row("headers return nothing", "show('called')", place="filter-headers-req", raw=True, see=("server",), sent=request()),
    Row("payload returns a number of bytes", "show(msg:body()) return 3", place="filter-payload-req", raw=True, see=("server", "log"), sent=request("POST", "/", body=b"abc")),

    # TCP.
    Row("TCP: data", "local d = msg:data() if d and not flt.acted then flt.acted = true show(d) end", ['"x\\n"', "peer: x\\n"], place="filter-tcp-payload-req", raw=True, see=("peer",), sent=b"x\n", peer=("line", b"y\n")),
    Row("TCP: set", "if not flt.acted then flt.acted = true show(msg:set('changed\\n')) end", place="filter-tcp-payload-req", raw=True, see=("peer",), sent=b"x\n", peer=("line", b"y\n")),
    Row("TCP: the response", "if not flt.acted then flt.acted = true show(msg:append('z\\n')) end", place="filter-tcp-payload-res", raw=True, see=("client",), sent=b"x\n", peer=("line", b"y\n")),
    Row("TCP: ERROR", "if not flt.acted then flt.acted = true show('called') end return filter.ERROR", place="filter-tcp-payload-req", raw=True, sent=b"x\n", peer=("line", b"y\n")),

    # Registration.
    *(Row(f"register_filter {arguments}", f"core.register_filter({arguments})", place="body") for arguments in (
        "", '"f"', '"f", {}', '"f1", {}, function() end', '"f2", 5, function() end', '"f3", {}, 5', "5, {}, function() end", '"f4", {}, function() end, 1', 'nil, {}, function() end')),
    *(Row(f"register_filter in {place}", 'core.register_filter("late", {}, function() end)', place=place) for place in ("init", "http-req")),
]
