"""The class core: constants, logs, dates, addresses, strings, maps and lists, variables, pauses."""
from lua.rows import Row

LEVELS = {"emerg": 0, "alert": 1, "crit": 2, "err": 3, "warning": 4, "notice": 5, "info": 6, "debug": 7}

# Outside Lua's loggers: a log line of core.log is the same in each context.
EVERYWHERE = ("body", "init", "task", "http-req", "http-res", "tcp-req", "fetch", "converter", "http-service")

ROWS = [
    *(Row(f"level {name}", f"core.{name}", str(value)) for name, value in LEVELS.items()),
    Row("level silent", "core.silent", "-1", since="3.2"),
    Row("constants can be changed", "(function() core.emerg = 9; local x = core.emerg; core.emerg = 0; return x end)()"),
    Row("tostring", "type(core), getmetatable(core)"),

    # Logs.
    *(Row(f"log at {name}", f'core.log(core.{name}, "text")', ["nothing", f"log: {name} text"], see=("log",)) for name in LEVELS),
    *(Row(f"core.{name}", f'core.{name}("text")', ["nothing", f"log: {level} text"], see=("log",))
      for name, level in (("Debug", "debug"), ("Info", "info"), ("Warning", "warning"), ("Alert", "alert"))),
    *(Row(f"log in {place}", 'core.log(core.info, "text")', "nothing", place=place) for place in EVERYWHERE),
    Row("log a number", 'core.log(core.info, 12)', see=("log",)),
    Row("log a float", 'core.log(core.info, 1.5)', see=("log",)),
    Row("log nil", 'core.log(core.info, nil)'),
    Row("log true", 'core.log(core.info, true)'),
    Row("log a table", 'core.log(core.info, {})'),
    Row("log without a text", "core.log(core.info)"),
    Row("log without arguments", "core.log()"),
    Row("log with too many arguments", 'core.log(core.info, "a", "b")'),
    Row("log with level 8", 'core.log(8, "text")', see=("log",)),
    Row("log with level -1", 'core.log(-1, "text")', see=("log",)),
    Row("log with level 100", 'core.log(100, "text")', see=("log",)),
    Row("log with a level as text", 'core.log("6", "text")', see=("log",)),
    Row("log with a level as name", 'core.log("info", "text")', see=("log",)),
    Row("log with a float as level", 'core.log(6.0, "text")', see=("log",)),
    Row("log with a fraction as level", 'core.log(6.5, "text")', see=("log",)),
    Row("log a line end", 'core.log(core.info, "a\\nb")', see=("log",)),
    Row("log control characters", 'core.log(core.info, "a\\1\\27\\127\\200b")', see=("log",)),
    Row("log a NUL", 'core.log(core.info, "a\\0b")', see=("log",)),
    Row("log a percent sign", 'core.log(core.info, "100%s %d %n")', see=("log",)),
    Row("log an empty text", 'core.log(core.info, "")', see=("log",)),
    Row("log a long text", 'core.log(core.info, string.rep("x", 500))', see=("log",)),
    Row("core.Info without a text", "core.Info()"),
    Row("core.Info with nil", "core.Info(nil)"),
    Row("core.Info with a number", "core.Info(5)", see=("log",)),
    Row("core.Info as method", 'core:Info("text")', see=("log",)),
    Row("core.Info with two arguments", 'core.Info("a", "b")', see=("log",)),
    Row("print", 'print("printed")', "nothing"),

    # Information and time.
    Row("get_info", "type(core.get_info())", '"table"'),
    Row("get_info: keys are names", 'type(core.get_info().Name), type(core.get_info().Version), core.get_info().Nbthread'),
    Row("get_info: types of values", 'math.type(core.get_info().Maxconn), type(core.get_info().Uptime), math.type(core.get_info().Pid)'),
    Row("get_info: maxconn", 'core.get_info().Maxconn'),
    Row("get_info: process number", 'core.get_info().Process_num'),
    Row("get_info: an array?", "#core.get_info()"),
    Row("get_info with an argument", "type(core.get_info(1))"),
    *(Row(f"get_info in {place}", "type(core.get_info())", place=place) for place in ("body", "init", "fetch", "converter")),
    Row("now", "(function() local t = core.now() return math.type(t.sec), math.type(t.usec), t.usec >= 0 and t.usec < 1000000 end)()",
        '"integer", "integer", true'),
    Row("now: keys", "(function() local n = 0 for k in pairs(core.now()) do n = n + 1 end return n end)()", "2"),
    Row("now: near os.time", "math.abs(core.now().sec - os.time()) <= 1", "true"),
    Row("now: stays while Lua runs",
        "(function() local a = core.now() local s = 0 for i = 1, 100 do s = s + i end local b = core.now() return a.sec == b.sec and a.usec == b.usec end)()",
        "true"),
    Row("now: moves with a pause",
        "(function() local a = core.now() core.msleep(20) local b = core.now() return (b.sec - a.sec) * 1000000 + b.usec - a.usec >= 19000 end)()", "true"),
    Row("now with an argument", "type(core.now(1))"),
    *(Row(f"now in {place}", "type(core.now().sec)", '"number"', place=place) for place in ("body", "init", "fetch", "converter", "http-service")),

    # Dates: the examples of the manual, and texts that are not dates.
    *(Row(f"{name}: {text}", f'core.{name}("{text}")', want) for name, text, want in [
        ("http_date", "Sun, 06 Nov 1994 08:49:37 GMT", "784111777"), ("http_date", "Sunday, 06-Nov-94 08:49:37 GMT", "784111777"),
        ("http_date", "Sun Nov  6 08:49:37 1994", "784111777"), ("imf_date", "Sun, 06 Nov 1994 08:49:37 GMT", "784111777"),
        ("rfc850_date", "Sunday, 06-Nov-94 08:49:37 GMT", "784111777"), ("asctime_date", "Sun Nov  6 08:49:37 1994", "784111777"),
        ("imf_date", "Sunday, 06-Nov-94 08:49:37 GMT", "nil"), ("rfc850_date", "Sun Nov  6 08:49:37 1994", "nil"),
        ("asctime_date", "Sun, 06 Nov 1994 08:49:37 GMT", "nil"), ("http_date", "", "nil"), ("http_date", "yesterday", "nil"),
        ("http_date", "Sun, 06 Nov 1994 08:49:37", None), ("http_date", "Sun, 06 Nov 1994 08:49:37 UTC", None),
        ("http_date", "Sun, 06 Nov 1994 08:49:37 GMT ", None), ("http_date", " Sun, 06 Nov 1994 08:49:37 GMT", None),
        ("http_date", "sun, 06 nov 1994 08:49:37 gmt", None), ("http_date", "Mon, 06 Nov 1994 08:49:37 GMT", None),
        ("http_date", "Sun, 31 Feb 1994 08:49:37 GMT", None), ("http_date", "Sun, 06 Nov 1994 24:00:00 GMT", None),
        ("http_date", "Sun, 06 Nov 1994 08:49:60 GMT", None), ("http_date", "Thu, 01 Jan 1970 00:00:00 GMT", "0"),
        ("http_date", "Wed, 31 Dec 1969 23:59:59 GMT", None), ("rfc850_date", "Wednesday, 19-Jan-00 03:14:08 GMT", None),
        ("rfc850_date", "Tuesday, 19-Jan-38 03:14:08 GMT", None), ("http_date", "Thu, 29 Feb 2024 12:00:00 GMT", "1709208000"),
    ]),
    *(Row(f"http_date: {text}", f'core.http_date("{text}")', want, manual="An integer with the seconds of the epoch; HAProxy cuts it to 32 bits.")
      for text, want in [("Tue, 19 Jan 2038 03:14:08 GMT", "2147483648"), ("Fri, 31 Dec 9999 23:59:59 GMT", "253402300799")]),
    *(Row(f"{name} without argument", f"core.{name}()") for name in ("http_date", "imf_date", "rfc850_date", "asctime_date")),
    Row("http_date of a number", "core.http_date(784111777)"),
    Row("http_date of nil", "core.http_date(nil)"),
    Row("http_date of a table", "core.http_date({})"),
    Row("http_date with two arguments", 'core.http_date("Sun, 06 Nov 1994 08:49:37 GMT", 1)'),

    # Addresses.
    *(Row(f"parse_addr {text!r}", f"type(core.parse_addr({text}))", want) for text, want in [
        ('"127.0.0.1"', '"userdata"'), ('"127.0.0.1/8"', '"userdata"'), ('"aaaa::1234/32"', '"userdata"'), ('"::1"', '"userdata"'), ('"rubbish"', '"nil"'),
        ('""', '"nil"'), ('"127.0.0.1/33"', '"nil"'), ('"::1/129"', '"nil"'), ('"127.0.0.1/255.0.0.0"', None), ('"127.1"', None), ('"localhost"', None),
        ('"*"', None), ('"127.0.0.1:80"', None), ('"[::1]"', None), ('" 127.0.0.1"', None), ('"127.0.0.1/"', None), ('"127.0.0.1/-1"', None), ("5", None),
        ("nil", None), ("{}", None), ("", None), ("true", None), ('"127.0.0.1", 1', None)]),
    Row("parse_addr: tostring", 'tostring(core.parse_addr("127.0.0.1"))'),
    Row("parse_addr: metatable", 'getmetatable(core.parse_addr("127.0.0.1"))'),
    *(Row(f"match_addr {a} {b}", f'core.match_addr(core.parse_addr("{a}"), core.parse_addr("{b}"))', want) for a, b, want in [
        ("127.0.0.1/32", "127.0.0.0/8", "true"), ("127.0.0.0/8", "127.0.0.1/32", "true"), ("127.0.0.1", "127.0.0.1", "true"),
        ("127.0.0.1", "127.0.0.2", "false"), ("10.0.0.0/8", "127.0.0.0/8", "false"), ("0.0.0.0/0", "127.0.0.1", "true"),
        ("::1", "::1", "true"), ("2001:db8::1", "2001:db8::/32", "true"), ("2001:db9::1", "2001:db8::/32", "false"), ("::1", "127.0.0.1", None),
        ("::ffff:127.0.0.1", "127.0.0.1", None), ("10.1.2.3/8", "10.9.9.9/8", "true"), ("10.1.2.3/8", "10.9.9.9/16", None), ("::/0", "::1", "true")]),
    Row("match_addr with text", 'core.match_addr("127.0.0.1", "127.0.0.0/8")'),
    Row("match_addr with nil", 'core.match_addr(core.parse_addr("rubbish"), core.parse_addr("127.0.0.1"))'),
    Row("match_addr with one argument", 'core.match_addr(core.parse_addr("127.0.0.1"))'),
    Row("match_addr without arguments", "core.match_addr()"),
    Row("match_addr with another userdata", 'core.match_addr(txn[0], core.parse_addr("127.0.0.1"))'),

    # Strings.
    *(Row(f"tokenize {arguments}", f"core.tokenize({arguments})", want) for arguments, want in [
        ('"This function is useful, for tokenizing an entry.", "., ", true',
         '{[1]="This", [2]="function", [3]="is", [4]="useful", [5]="for", [6]="tokenizing", [7]="an", [8]="entry"}'),
        ('"a,b,c", ","', '{[1]="a", [2]="b", [3]="c"}'), ('"a,,c", ","', '{[1]="a", [2]="", [3]="c"}'), ('"a,,c", ",", true', '{[1]="a", [2]="c"}'),
        ('"a,,c", ",", false', '{[1]="a", [2]="", [3]="c"}'), ('"a,,c", ",", nil', None), ('",a,", ","', '{[1]="", [2]="a", [3]=""}'),
        ('",a,", ",", true', '{[1]="a"}'), ('"", ","', None), ('"", ",", true', "{}"), ('"abc", ""', None), ('"abc", "b"', '{[1]="a", [2]="c"}'),
        ('"a;b,c", ",;"', '{[1]="a", [2]="b", [3]="c"}'), ('"a\\0b,c", ","', None), ('"a,b", "\\0,"', None), ('123, "2"', None), ('"abc", 2', None),
        ('"a,b"', None), ('', None), ('nil, ","', None), ('"a,b", ",", 1', None), ('"a,,b", ",", 0', None), ('"a,,b", ",", "x"', None),
        ('"a,b", ",", true, 1', None), ('{}, ","', None), ('string.rep("a,", 3), ","', None), ('"\\255\\254,\\253", ","', None)]),
    Row("tokenize a thousand words", '#core.tokenize(string.rep("a,", 1000), ",")'),
    Row("tokenize a long text", '#core.tokenize(string.rep("a", 100000), ",")[1]'),
    *(Row(f"tokenize in {place}", 'core.tokenize("a b", " ")', '{[1]="a", [2]="b"}', place=place) for place in ("body", "init", "fetch", "converter")),

    # Concat.
    Row("concat", '(function() local c = core.concat() c:add("a") c:add("b") return c:dump() end)()', '"ab"'),
    Row("concat: empty", "core.concat():dump()", '""'),
    Row("concat: add returns", '(function() return core.concat():add("a") end)()'),
    Row("concat: dump twice", '(function() local c = core.concat() c:add("a") local x = c:dump() c:add("b") return x, c:dump() end)()', '"a", "ab"'),
    Row("concat: binary", '(function() local c = core.concat() c:add("\\0\\255") return c:dump() end)()', '"\\x00\\xff"'),
    Row("concat: numbers", "(function() local c = core.concat() c:add(1) c:add(2.5) return c:dump() end)()"),
    Row("concat: nil", "core.concat():add(nil)"),
    Row("concat: table", "core.concat():add({})"),
    Row("concat: without argument", "core.concat():add()"),
    Row("concat: two arguments", '(function() local c = core.concat() c:add("a", "b") return c:dump() end)()'),
    Row("concat: with a dot", 'core.concat().add("a")'),
    Row("concat: a large one", '(function() local c = core.concat() for i = 1, 20000 do c:add("#####") end return #c:dump() end)()', "100000"),
    Row("concat: tostring", "tostring(core.concat())"),
    Row("concat: with an argument", 'core.concat("a"):dump()'),
    *(Row(f"concat in {place}", '(function() local c = core.concat() c:add("a") return c:dump() end)()', '"a"', place=place)
      for place in ("body", "init", "fetch", "converter", "http-service")),

    # Process-wide variables.
    Row("get_var", 'core.get_var("proc.number")', "7", since="3.2"),
    Row("get_var: unset", 'core.get_var("proc.unset")', since="3.2"),
    Row("get_var: another scope", 'core.get_var("txn.known")', since="3.2"),
    Row("get_var: sess", 'core.get_var("sess.known")', since="3.2"),
    Row("get_var: no scope", 'core.get_var("number")', since="3.2"),
    Row("get_var: no argument", "core.get_var()", since="3.2"),
    Row("get_var: number", "core.get_var(5)", since="3.2"),
    *(Row(f"get_var in {place}", 'core.get_var("proc.number")', "7", place=place, since="3.2") for place in ("init", "fetch", "converter", "task")),
    Row("get_var in the body", 'core.get_var("proc.number")', place="body", since="3.2"),

    # Scope and threads.
    Row("thread", "core.thread", "0"),
    *(Row(f"thread in {place}", "core.thread", "0", place=place) for place in ("body", "init", "task", "fetch", "converter", "http-service", "tcp-req")),
    Row("set_nice", "core.set_nice(10)", "nothing"),
    Row("set_nice: too high", "core.set_nice(100000)"),
    Row("set_nice: too low", "core.set_nice(-100000)"),
    Row("set_nice: a text", 'core.set_nice("x")'),
    Row("set_nice: nothing", "core.set_nice()"),
    Row("set_nice in a task", "core.set_nice(10)", "nothing", place="task"),
    Row("set_nice in the body", "core.set_nice(10)", place="body"),

    # Pauses.
    Row("yield", "core.yield()", "nothing"),
    Row("yield with values", "core.yield(1, 2)"),
    Row("sleep 0", "core.sleep(0)", "nothing", manual="HAProxy 3.2 loops in the script until its watchdog ends the process; 2.6 returns."),
    Row("msleep", "core.msleep(5)", "nothing"),
    Row("msleep: at least that long", "(function() local a = core.now() core.msleep(30) local b = core.now() "
        "return (b.sec - a.sec) * 1000 + (b.usec - a.usec) / 1000 >= 29 end)()", "true"),
    Row("sleep: at least that long", "(function() local a = core.now() core.sleep(1) local b = core.now() "
        "return (b.sec - a.sec) * 1000 + (b.usec - a.usec) / 1000 >= 999 end)()", "true"),
    Row("msleep: a fraction", "core.msleep(1.5)"),
    Row("msleep: a whole float", "core.msleep(1.0)"),
    Row("msleep: a text", 'core.msleep("1")'),
    Row("msleep: a word", 'core.msleep("x")'),
    Row("msleep: nil", "core.msleep(nil)"),
    Row("msleep: nothing", "core.msleep()"),
    Row("msleep: two arguments", "core.msleep(1, 2)"),
    Row("msleep: negative", "core.msleep(-1)", "nothing", manual="As for `sleep 0`."),
    Row("sleep: nothing", "core.sleep()"),
    Row("sleep: a text", 'core.sleep("x")'),
    *(Row(f"{name} in {place}", f"core.{name}({argument})", place=place, peer=(b"answer\n", "eof")) for name, argument in (("yield", ""), ("msleep", "5"))
      for place in ("body", "init", "task", "http-res", "tcp-req", "tcp-req-http", "tcp-res", "http-service", "tcp-service")),
    *(Row(f"{name} in {place}", f"core.{name}({argument}) show('after')", place=place, raw=True, see=("client", "log"))
      for name, argument in (("yield", ""), ("msleep", "5"), ("sleep", "1")) for place in ("fetch", "converter", "http-after-res")),
    Row("sleep in the body", "core.sleep(1)", place="body"),
    Row("sleep in init", "core.sleep(1)", place="init"),
    Row("msleep in a coroutine", "(function() local c = coroutine.wrap(function() core.msleep(5) return 5 end) return c() end)()"),
    Row("yield in a coroutine", "(function() local c = coroutine.create(function() core.yield() return 5 end) return coroutine.resume(c) end)()"),
    Row("coroutines of the script", "(function() local c = coroutine.wrap(function() coroutine.yield(1) coroutine.yield(2) return 3 end) return c(), c(), c() end)()",
        "1, 2, 3"),
    Row("coroutine.yield outside a coroutine", "coroutine.yield(1) show('after')", raw=True, see=("client",)),
    Row("msleep in table.sort", "table.sort({2, 1}, function(a, b) core.msleep(5) return a < b end)"),
    Row("msleep in a metamethod", "setmetatable({}, {__index = function() core.msleep(5) return 5 end}).x"),
    Row("msleep in gsub", '("a"):gsub("a", function() core.msleep(5) return "b" end)'),
    Row("msleep in pcall", "pcall(core.msleep, 1)"),
    Row("msleep in an iterator", "(function() local n = 0 for i in function(_, i) core.msleep(5) i = (i or 0) + 1 if i < 4 then return i end end do n = n + i end return n end)()"),
    Row("core.wait in an action: woken after its time", "core.wait(5)", since="3.2", manual="core.wait is not in the text of the manual that was at hand."),
    Row("core.wait in a fetch", "core.wait(5) show('after')", since="3.2", place="fetch", raw=True, see=("client", "log")),

    # done: a return from any depth.
    Row("done in an action", 'show(1) local function deep() core.done() end deep() show(2)', "1", raw=True, see=()),
    Row("done in pcall", 'show(pcall(core.done, 5)) show(2)', raw=True),
    Row("done in a coroutine", 'show(coroutine.resume(coroutine.create(function() core.done(5) end))) show(2)', raw=True),
    Row("done in a fetch", 'core.done("value")', '"value"', place="fetch", raw=True),
    Row("done in a fetch: integer", "core.done(5)", "5", place="fetch", raw=True),
    Row("done in a fetch: nothing", "core.done()", place="fetch", raw=True),
    Row("done in a converter", 'core.done(value .. "!")', '"input!"', place="converter", raw=True),
    Row("done with the code of an action", "core.done(act.DENY)", raw=True, see=("client",)),

    # The functions of the language.
    *(Row(f"library {name}", f"type({name})") for name in
      ("table", "io", "os", "string", "math", "utf8", "package", "debug", "coroutine", "bit32", "require", "dofile", "loadfile", "load", "collectgarbage")),
    Row("_VERSION", "_VERSION"),
    Row("os.getenv", 'os.getenv("HOME") ~= nil, os.getenv("NOT_SET")'),
    Row("os.execute", "os.execute()"),
    Row("io.popen", 'io.popen("echo hello"):read("a")'),
    Row("io.popen in the body", 'io.popen("echo hello"):read("a")', place="body"),
    Row("integers and floats", "1 == 1.0, 1, 1.0, 7 // 2, 7 / 2, 2^53, math.maxinteger"),
    Row("globals are shared by files and places", "harness_global", "nil"),
    Row("a global of the body", "a_global", "5", registration="a_global = 5"),
]
