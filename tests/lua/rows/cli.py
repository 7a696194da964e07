"""register_cli."""
from lua.rows import Row


def cli(name, code, want=None, sent=b"row\n", see=("client",), **options):
    return Row(name, code, want, place="cli", raw=True, sent=sent, see=see, **options)


def own(name, path, function, sent, want=None):
    """A command of its own."""
    return Row(name, "0", want, place="cli", raw=True, sent=sent, see=("client",), registration=f"core.register_cli({path}, 'usage', {function})")


ROWS = [
    cli("answer", "applet:send('hello')"),
    cli("no answer", ""),
    cli("arguments", "show(a, b, c)", sent=b"row one two\n"),
    cli("quoted arguments", "show(a, b, c)", sent=b"row 'one two' three\\ four\n"),
    cli("class", "show(tostring(applet))"),
    cli("several lines", "for i = 1, 3 do applet:send(i .. '\\n') end"),
    cli("100 kB", "applet:send(string.rep('x', 100000))"),
    cli("pause", "applet:send('a\\n') core.msleep(5) applet:send('b\\n')"),
    cli("fails", "applet:send('before\\n') error('broken')"),
    cli("binary", "applet:send('\\0\\255')"),
    cli("two commands", "applet:send('again\\n')", sent=b"row; row\n"),
    cli("then another command", "applet:send('first\\n')", sent=b"row; show cli level\n"),
    cli("getline", "show(applet:getline(), applet:getline())", sent=b"row\none\ntwo\n"),
    cli("receive: a size", "show(applet:receive(5))", sent=b"row\nabcdefg\n"),
    cli("receive: a timeout", "show(applet:receive(5, 20))"),
    cli("try_receive", "show(applet:try_receive())", sent=b"row\nabc\n"),
    cli("what it does not read are commands", "show(applet:getline())", sent=b"prompt i\nrow\none\nshow cli level\nquit\n"),
    cli("send returns", "show(applet:send('abc'), applet:send(5), applet:send(''))"),
    cli("send without a text", "show(pcall(applet.send, applet))"),
    cli("variables", "show(applet:set_var('txn.a', 5), applet:get_var('txn.a'), applet:unset_var('txn.a'), applet:get_var('txn.a'), applet:get_var('proc.number'))"),
    cli("fetches and converters", "show(applet.f:src(), applet.sf:src(), applet.c:upper('a'), applet.sc:lower('B'))"),
    cli("done", "applet:send('first\\n') core.done() applet:send('second\\n')"),
    cli("a result is not sent", "return 'text'"),
    cli("an error that is not a text", "error({})", see=("client", "log")),
    cli("fails: the log", "error('broken')", see=("client", "log")),
    cli("starts a task", "local ran core.register_task(function() ran = true end) while not ran do core.msleep(1) end show(ran)"),
    cli("a queue", "local q = core.queue() q:push(5) show(q:pop())", since="3.2"),
    own("the longest of two", "{'far'}", "function(applet, ...) applet:send('short') end) core.register_cli({'far', 'long'}, 'usage', function(applet) applet:send('long') end", b"far long\n"),
    own("a prefix of commands", "{'del'}", "function(applet, ...) applet:send(table.concat({...}, '|')) end", b"del row\n"),
    own("a prefix of commands, and such a command", "{'disable'}", "function(applet, ...) applet:send(table.concat({...}, '|')) end", b"disable server none\n"),
    own("help", "{'helped', 'words'}", "function() end", b"help helped\n"),
    cli("priv", "show(applet:get_priv())"),
    cli("a proxy", "applet:send(core.backends.b:get_name() .. '\\n')", since="3.2"),
    own("three words", "{'show', 'lua', 'words'}", "function(applet, ...) applet:send(table.concat({...}, '|')) end", b"show lua words all\n"),
    own("an abbreviated command", "{'show', 'lua', 'other'}", "function(applet, ...) applet:send(table.concat({...}, '|')) end", b"show lua oth\n"),
    own("one command of many", "{'lua', 'only'}", "function(applet) applet:send('ran') end", b"lua\n"),
    own("five words", "{'a', 'b', 'c', 'd', 'e'}", "function(applet) applet:send('ran') end", b"a b c d e\n"),
    *(Row(f"register_cli {arguments}", f"core.register_cli({arguments})", place="body") for arguments in (
        "", "{'x1'}", "{'x2'}, 'usage'", "'x3', 'usage', function() end", "{}, 'usage', function() end", "{'x4'}, 5, function() end", "{'x5'}, 'usage', 5", "{5}, 'usage', function() end", "{'x6'}, nil, function() end",
        "{'x7'}, 'usage', function() end, 1")),
    Row("register_cli twice", "core.register_cli({'twice'}, 'usage', function() end)", place="body", registration="core.register_cli({'twice'}, 'usage', function() end)"),
    *(Row(f"register_cli in {place}", "core.register_cli({'late'}, 'usage', function() end)", place=place) for place in ("init", "http-req")),
]
