"""Errors in each context: the answer to the client, and the log line."""
from lua.rows import ERROR_500, HELLO, Row, request

ERRORS = {
    "error with a text": "error('broken')", "error with level 0": "error('broken', 0)", "error with level 2": "(function() error('broken', 2) end)()", "error with a table": "error({code = 5})",
    "error with nil": "error(nil)", "error without arguments": "error()", "error with a number": "error(5)", "error with true": "error(true)",
    "a nil value is called": "local x = nil; x()", "a field of nil": "local x = nil; return x.y", "arithmetic on a text": "return 'a' + 1", "a comparison": "return 1 < 'a'",
    "a concatenation": "return 'a' .. nil", "stack overflow": "local function f() return 1 + f() end return f()", "assert": "assert(false, 'asserted')", "an error of HAProxy": "txn.f:hdr(5)" ,
    "an error in a nested function": "local function inner() error('deep') end local function outer() inner() end outer()", "a table with __tostring": "error(setmetatable({}, {__tostring = function() return 'as text' end}))",
    "an error with a line end": "error('a\\nb')", "a long error": "error(string.rep('x', 5000))", "an error in a coroutine": "coroutine.wrap(function() error('inside') end)()",
    "os.exit": "os.exit(1)", "debug.traceback": "error(debug.traceback('trace'))", "string.rep of a terabyte": "return #string.rep('x', 1 << 40)", "an endless pattern": "error(('a'):rep(5))",
    "require of a missing module": "require('no_such_module')", "a goto without label": "load('goto nowhere')()", "load of bad syntax": "error((select(2, load('x = = 1'))))",
}
PLACES = ("http-req", "http-res", "http-after-res", "tcp-req-http", "fetch", "converter", "http-service")
SOME = ("error with a text", "error with a table", "error with nil", "a nil value is called", "stack overflow")

ROWS = [
    *(Row(f"{name} in an action", code, raw=True, see=("client", "log") if name != "a long error" else ("client",)) for name, code in ERRORS.items() if name not in ("os.exit", "stack overflow")),
    *(Row(f"{name} in {place}", ERRORS[name], place=place, raw=True, see=("client", "log")) for place in PLACES[1:] for name in SOME if name != "stack overflow"),
    # Like any error.
    *(Row(f"stack overflow in {place}", ERRORS["stack overflow"], {"fetch": ["nil", HELLO], "converter": ["nil", HELLO], "http-service": [ERROR_500]}.get(place, [HELLO]), place=place,
          raw=True, see=("client",), manual="A runtime error as any. HAProxy 3.2 and 2.6 end in their watchdog.") for place in PLACES),
    *(Row(f"{name} in {place}", ERRORS[name], place=place, raw=True, see=("client", "log"), sent=b"x\n", peer=(("read", 1), b"answer\n"))
      for place in ("tcp-req", "tcp-res", "tcp-service") for name in SOME[:3]),
    Row("error in a task that an action started", "core.register_task(function() error('broken') end) core.msleep(20)", raw=True, see=("client", "log")),
    Row("error in a task after a pause", "core.register_task(function() core.msleep(5) error('broken') end) core.msleep(20)", raw=True, see=("log",)),
    Row("error with nil in a task", "core.register_task(function() error() end) core.msleep(20)", raw=True, see=("log",)),
    Row("error in the CLI", "error('broken')", place="cli", raw=True, sent=b"row\n", see=("client", "log")),
    Row("error after a change of the request", "txn.http:req_set_header('x', '1') error('broken')", raw=True, see=("server", "log")),
    Row("error after a pause", "core.msleep(5) error('broken')", raw=True, see=("client", "log")),
    Row("the rules after a failed action run", "error('broken')", raw=True, see=("server",)),
    Row("the action works again after an error", "failed_once = not failed_once; if failed_once then error('broken') end show('fine')", ["\"fine\""], raw=True, sent=[request()] * 2),
    Row("pcall: message", "pcall(error, 'broken')", 'false, "broken"'),
    Row("pcall: table", "select(2, pcall(error, {code = 5})).code", "5"),
    Row("pcall: of a function of HAProxy", "pcall(txn.get_var, txn)"),
    Row("xpcall: traceback", "(function() local ok, t = xpcall(function() error('x') end, debug.traceback) return ok, (t:match('^[^\\n]*')) end)()", 'false, "row:1: x"'),
    Row("error position", "(function() local ok, m = pcall(function() error('x') end) return m end)()", '"row:1: x"'),

    # Objects in the wrong hands: the first argument of methods.
    *(Row(f"self: {call}", f"pcall({call})") for call in (
        "txn.get_var, nil, 'txn.x'", "txn.get_var, {}, 'txn.x'", "txn.get_var, txn.f, 'txn.x'", "txn.get_var, 'txn', 'txn.x'", "txn.f.path, nil", "txn.f.path, {}", "txn.f.path, txn", "txn.f.path",
        "txn.c.lower, nil, 'A'", "txn.c.lower, {}, 'A'", "txn.http.req_get_headers, {}", "txn.http.req_get_headers, nil", "txn.req.input, {}", "txn.req.input, nil", "txn.done, {}", "txn.reply, {}", "txn.reply",
        "core.tcp().close, {}", "core.tcp().close, nil", "core.concat().add, {}, 'x'", "core.httpclient().get, {}, {}", "txn.set_priv, {}, 1", "txn.log, {}, 1, 'x'", "txn.Info, {}, 'x'",
        "setmetatable({}, getmetatable(txn)).get_var, setmetatable({}, getmetatable(txn)), 'txn.x'", "txn.get_var, setmetatable({[0] = io.stdout}, getmetatable(txn)), 'txn.x'")),
]
