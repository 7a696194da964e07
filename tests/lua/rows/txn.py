"""The class TXN: private data, variables, logs, done, and the stream's settings."""
from lua.rows import HELLO, Row, request

REPLY = '{status = 400, reason = "Bad", headers = {["content-type"] = {"text/html"}, ["x-list"] = {"a", "b"}}, body = "body"}'


def set_and_get(value, name="txn.value"):
    """Code that stores a value and reads it again."""
    return f'(function() local r = txn:set_var("{name}", {value}) return r, txn:get_var("{name}") end)()'


ROWS = [
    Row("class", "tostring(txn)"),
    Row("members", '(function() local n = {} for k, v in pairs(txn) do n[k] = type(v) end return n end)()'),
    Row("metatable", "type(getmetatable(txn).__index)"),
    *(Row(f"attribute {name}", f"type(txn.{name})", '"table"') for name in ("c", "sc", "f", "sf", "req", "res", "http")),
    Row("attribute http in TCP", "type(txn.http)", place="tcp-req", sent=b"x\n"),
    *(Row(f"attribute {name} outside filters", f"type(txn.{name})", '"nil"') for name in ("http_req", "http_res")),
    Row("attribute that does not exist", "txn.nothing", "nil"),
    Row("a new attribute", "(function() txn.mine = 5 return txn.mine end)()"),
    Row("get_headers", "txn:get_headers()", manual="Not a member of TXN."),

    # Private data.
    Row("get_priv: nothing stored", "txn:get_priv()", "nil"),
    Row("priv: text", '(function() txn:set_priv("x") return txn:get_priv() end)()', '"x"'),
    Row("priv: table", "(function() local t = {1, 2} txn:set_priv(t) return rawequal(txn:get_priv(), t) end)()", "true"),
    Row("priv: function", "(function() txn:set_priv(function() return 7 end) return txn:get_priv()() end)()", "7"),
    Row("priv: replaced", "(function() txn:set_priv(1) txn:set_priv(2) return txn:get_priv() end)()", "2"),
    Row("priv: nil", "(function() txn:set_priv(1) txn:set_priv(nil) return txn:get_priv() end)()"),
    Row("priv: false", "(function() txn:set_priv(false) return txn:get_priv() end)()", "false"),
    Row("set_priv returns", "txn:set_priv(1)"),
    Row("set_priv without argument", "txn:set_priv()"),
    Row("set_priv with two arguments", "txn:set_priv(1, 2)"),
    Row("get_priv with an argument", "txn:get_priv(1)"),
    Row("priv: from the request to the response", "0", ['"kept"'], place="rules", raw=True, registration="""
core.register_action("priv_set", {"http-req"}, function(txn) txn:set_priv("kept") end)
core.register_action("priv_get", {"http-res"}, function(txn) show(txn:get_priv()) end)""",
        frontend="http-request lua.priv_set {if}\nhttp-response lua.priv_get {if}"),
    Row("priv: from an action to a fetch", "0", place="rules", raw=True, registration="""
core.register_action("priv_put", {"http-req"}, function(txn) txn:set_priv("kept") end)
core.register_fetches("priv_read", function(txn) show(txn:get_priv()) return "" end)""",
        frontend="http-request lua.priv_put {if}\nhttp-request set-header got %[lua.priv_read] {if}"),
    Row("priv: not in the next request of the connection", "show(txn:get_priv()) txn:set_priv(5)", ["nil", "nil"], raw=True,
        sent=request().replace(b"Connection: close\r\n", b"") + request()),

    # Variables: values and types.
    *(Row(f"variable: {value}", set_and_get(value), want, both=True) for value, want in [
        ('"text"', 'true, "text"'), ('""', 'true, ""'), ("5", "true, 5"), ("-5", "true, -5"), ("0", "true, 0"), ("math.maxinteger", "true, 9223372036854775807"),
        ("math.mininteger", "true, -9223372036854775808"), ("true", None), ("false", None), ("nil", None), ("1.0", None), ("1.5", None), ("-0.5", None), ("2^53", None),
        ("1e300", None), ("0/0", None), ("{}", None), ("function() end", None), ("txn", None), ('"a\\0b"', 'true, "a\\x00b"'), ('"\\255"', 'true, "\\xff"'),
        ('"12"', 'true, "12"')]),
    Row("variable: 10,000 bytes", '(function() local r = txn:set_var("txn.long", string.rep("x", 10000)) return r, #txn:get_var("txn.long") end)()', "true, 10000"),
    Row("variable: 100,000 bytes", '(function() local r = txn:set_var("txn.long", string.rep("x", 100000)) local v = txn:get_var("txn.long") return r, v and #v end)()'),
    *(Row(f"variable: scope {scope}", set_and_get("5", f"{scope}.value"), want) for scope, want in [
        ("proc", "true, 5"), ("sess", "true, 5"), ("txn", "true, 5"), ("req", "true, 5"), ("res", None), ("check", None), ("nothing", None), ("ptxn", None), ("psess", None)]),
    Row("variable: res in a response", set_and_get("5", "res.value"), "true, 5", place="http-res"),
    Row("variable: req in a response", set_and_get("5", "req.value"), place="http-res"),
    *(Row(f"variable: name {name!r}", set_and_get("5", name)) for name in (
        "", "value", "txn.", "txn", ".", "txn.a-b", "txn.a b", "txn.a.b.c", "TXN.a", "txn.A", "txn.0", "txn.\\195\\169", "txn." + "a" * 300)),
    Row("variable: names are case-sensitive", '(function() txn:set_var("txn.Case", 1) return txn:get_var("txn.case") end)()'),
    Row("get_var: unset", 'txn:get_var("txn.unset")', "nil"),
    Row("get_var: known from a rule", 'txn:get_var("txn.known")', '"known"'),
    Row("get_var: without argument", "txn:get_var()"),
    Row("get_var: nil", "txn:get_var(nil)"),
    Row("get_var: two arguments", 'txn:get_var("txn.known", 1)'),
    Row("get_var: with a dot", 'txn.get_var("txn.known")'),
    Row("set_var: without value", 'txn:set_var("txn.value")'),
    Row("set_var: without arguments", "txn:set_var()"),
    Row("set_var: five arguments", 'txn:set_var("txn.value", 1, true, 1)'),
    Row("set_var: a number as name", "txn:set_var(5, 1)"),
    *(Row(f"set_var: ifexist {flag}, {name}", f'(function() local r = txn:set_var("txn.{name}", 5, {flag}) return r, txn:get_var("txn.{name}") end)()', want)
      for flag, name, want in [("true", "known", "true, 5"), ("true", "never_defined_1", None), ("false", "never_defined_2", "true, 5"),
                               ("nil", "never_defined_3", "true, 5"), ("0", "never_defined_4", None), ('"x"', "never_defined_5", None)]),
    Row("set_var: ifexist in proc", '(function() local r = txn:set_var("proc.never_defined", 5, true) return r, txn:get_var("proc.never_defined") end)()', "false, nil"),
    Row("set_var: ifexist in proc for a known one", '(function() local r = txn:set_var("proc.number", 8, true) local v = txn:get_var("proc.number") '
        'txn:set_var("proc.number", 7) return r, v end)()', "true, 8"),
    Row("unset_var", '(function() txn:set_var("txn.value", 1) local r = txn:unset_var("txn.value") return r, txn:get_var("txn.value") end)()'),
    Row("unset_var: unset", 'txn:unset_var("txn.unset")'),
    Row("unset_var: a bad name", 'txn:unset_var("nothing.unset")'),
    Row("unset_var: without argument", "txn:unset_var()"),
    *(Row(f"set_var seen by a rule: {value}", f'txn:set_var("txn.seen", {value})', raw=True, both=True, see=("got",),
          frontend="http-request set-header got [%[var(txn.seen)]] {if}") for value in ('"text"', "5", "true", "false", "nil", "1.5", "2.0", '"a\\0b"')),
    Row("set_var seen as integer", 'txn:set_var("txn.seen", 5)', raw=True, see=("got",), frontend="http-request set-header got %[var(txn.seen),add(1)] {if}"),
    Row("set_var seen as boolean", 'txn:set_var("txn.seen", true)', raw=True, both=True, see=("got",),
        frontend="http-request set-header got matched if { var(txn.seen) -m bool } { var(proc.row) -m str N }"),
    *(Row(f"get_var of {expression}", "0", place="rules", raw=True, both=True, registration=f"""
core.register_action("get_made{number}", {{"http-req"}}, function(txn) show(txn:get_var("txn.made")) end)""",
          frontend=f"http-request set-var(txn.made) {expression} {{if}}\nhttp-request lua.get_made{number} {{if}}")
      for number, expression in enumerate(("bool(true)", "bool(false)", "int(5)", "str(text)", "src", "ipv6(::1)", "bin(61ff00)", "method", "req.hdr_cnt(x-two)", "req.hdr(none)",
                                           "str()", "always_true", "path", "ipv4(1.2.3.4)", "req.hdr_ip(x-one)", "url_param(q)", "int(-9223372036854775808)"))),

    # Logs.
    *(Row(f"{name}", f'txn:{name}("text")', ["nothing", f"log: {level} text"], see=("log",))
      for name, level in (("Debug", "debug"), ("Info", "info"), ("Warning", "warning"), ("Alert", "alert"))),
    *(Row(f"log at {level}", f'txn:log({level}, "text")', see=("log",)) for level in ("core.emerg", "core.err", "core.debug", "8", "-1", '"info"')),
    Row("deflog", 'txn:deflog("text")', see=("log",)),
    Row("deflog without a text", "txn:deflog()"),
    Row("deflog with a number", "txn:deflog(5)", see=("log",)),
    Row("log without a text", "txn:log(core.info)"),
    Row("log without arguments", "txn:log()"),
    Row("Info without a text", "txn:Info()"),
    Row("Info with two texts", 'txn:Info("a", "b")'),
    Row("Info with a table", "txn:Info({})"),
    Row("Info with a dot", 'txn.Info("a")'),
    *(Row(f"Info in {place}", 'txn:Info("text")', place=place, see=("log",)) for place in ("http-res", "fetch")),
    Row("Info where the frontend has no log", 'txn:Info("text")', place="tcp-req", sent=b"x\n", see=("log",)),

    # done.
    Row("done", "show(1) txn:done() show(2)", raw=True, see=("client", "server", "stream")),
    Row("done in pcall", "show(pcall(txn.done, txn)) show(2)", ["client: ", "server: nothing"], raw=True, see=("client", "server"),
        manual="It terminates the transaction. HAProxy 3.2 and 2.6 end."),
    Row("done with a table", f"txn:done({REPLY})", raw=True, see=("client", "server", "stream")),
    Row("done with an empty table", "txn:done({})", raw=True, see=("client", "server")),
    Row("done with a reply", "local r = txn:reply() r:set_status(404) r:set_body('gone') txn:done(r)", raw=True, see=("client", "server")),
    *(Row(f"done with {reply}", f"txn:done({reply})", raw=True, see=("client", "log")) for reply in (
        "nil", "5", '"text"', "true", "{status = 204}", "{status = 304}", '{status = 204, body = "x"}', "{status = 99}", "{status = 100}", "{status = 103}", "{status = 600}",
        "{status = 999}", "{status = 1000}", "{status = -1}", '{status = "404"}', '{status = "x"}', "{status = 404.0}", "{status = 404.5}", '{status = 299, reason = "Own reason"}',
        '{reason = ""}', '{reason = "only reason"}', '{reason = "a\\r\\nx: y"}', "{reason = 5}", "{reason = {}}", '{body = ""}', "{body = 5}", "{body = {}}", "{body = true}",
        '{body = "a\\0b\\255"}', '{headers = {x = "text"}}', '{headers = {x = {}}}', '{headers = {x = {1, 2.5}}}', '{headers = {x = {"a", "b"}}}', '{headers = {x = {[0] = "zero", "one"}}}',
        '{headers = {[1] = {"a"}}}', '{headers = {X_Y = {"a"}}}', '{headers = {["X-Mixed"] = {"a"}}}', '{headers = {["a b"] = {"c"}}}', '{headers = {x = {"a\\r\\ny: z"}}}',
        '{headers = {x = {"a\\nb"}}}', '{headers = {[""] = {"a"}}}', '{headers = {["content-length"] = {"3"}}, body = "12345"}',
        '{headers = {["transfer-encoding"] = {"chunked"}}, body = "12345"}', '{headers = {["connection"] = {"close"}}}', '{headers = {["date"] = {"today"}}}',
        '{headers = "text"}', "{headers = 5}", '{headers = {x = {true}}}', '{headers = {x = {{}}}}', '{other = 5}', "{status = 302, headers = {location = {'/x'}}}",
        "{status = 101}", "{status = 200, body = string.rep('x', 10000)}", "{status = 200, body = string.rep('x', 20000)}", "{headers = {x = {string.rep('y', 20000)}}}")),
    Row("done with two arguments", "txn:done({}, 1)", raw=True, see=("client", "log")),
    Row("done for HEAD", "txn:done({status = 200, body = 'body'})", raw=True, see=("client",), sent=request("HEAD")),
    Row("done for HTTP/1.0", "txn:done({status = 200, body = 'body'})", raw=True, see=("client",), sent=request(version="1.0")),
    Row("done with a body unread", "txn:done({status = 200, body = 'body'})", raw=True, see=("client",), sent=request("POST", "/", body=b"x" * 100)),
    Row("done, then the next request", "txn:done({status = 200, body = txn.f:path()})", raw=True, see=("client",),
        sent=request(path="/1").replace(b"Connection: close\r\n", b"") + request(path="/2")),
    *(Row(f"done in {place}", "show(1) txn:done() show(2)", place=place, raw=True, see=("client",)) for place in ("tcp-req-http", "fetch")),
    *(Row(f"{name} in http-after-res", f"show(1) {call} show(2)", ["1", HELLO], place="http-after-res", raw=True, see=("client",), manual="Not defined; HAProxy 3.2 ends.")
      for name, call in (("done", "txn:done()"), ("done with a reply", "txn:done({status = 404, body = 'lua'})"))),
    *(Row(f"done with a reply in {place}", "txn:done({status = 404, body = 'lua'})", place=place, raw=True, see=("client", "log"))
      for place in ("http-res", "tcp-req-http", "fetch")),
    Row("done in TCP", "show(1) txn:done() show(2)", place="tcp-req", raw=True, sent=b"question\n", see=("client", "peer"), peer=(("read", 4), b"answer\n")),
    Row("done after data in TCP", "txn.res:send('bye\\n') txn:done()", place="tcp-req", raw=True, sent=b"question\n", see=("client",)),
    Row("done in a TCP response", "show(1) txn:done() show(2)", place="tcp-res", raw=True, sent=b"question\n", see=("client",), peer=(("read", 4), b"answer\n")),

    # Settings of the stream.
    *(Row(f"set_loglevel({level})", f"txn:set_loglevel({level})", see=("stream",)) for level in ("0", "3", "7", "core.warning")),
    *(Row(f"set_loglevel({level})", f"txn:set_loglevel({level})") for level in ("8", "-2", '"info"', "nil", "", "1, 2", "6.0", "6.5")),
    Row("set_loglevel(-1)", "txn:set_loglevel(-1)", ["nothing"], see=("log",), since="3.2"),
    *(Row(f"{name}({value})", f"txn:{name}({value})", want) for name in ("set_tos", "set_mark", "set_priority_class", "set_priority_offset")
      for value, want in (("5", "nothing"), ("0", "nothing"), ("-5", None), ("100000000", None), ('"5"', None), ('"x"', None), ("nil", None), ("", None), ("1, 2", None))),
    *(Row(f"{name}({value})", f"txn:{name}({value})", "nothing", since="3.2") for name in ("set_fc_tos", "set_fc_mark") for value in ("5", "0")),
    *(Row(f"set_priority_class({value}) as fetched", f"(function() txn:set_priority_class({value}) return txn.f:prio_class() end)()", want)
      for value, want in (("5", "5"), ("-5", "-5"), ("2047", "2047"), ("5000", "2047"), ("-5000", "-2047"))),
    *(Row(f"set_priority_offset({value}) as fetched", f"(function() txn:set_priority_offset({value}) return txn.f:prio_offset() end)()", want)
      for value, want in (("5", "5"), ("-5", "-5"), ("524287", "524287"), ("600000", "524287"), ("-600000", "-524287"))),
]
