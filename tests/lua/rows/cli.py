"""register_cli."""
from lua.rows import Row


def cli(name, code, want=None, sent=b"row\n", **options):
    return Row(name, code, want, place="cli", raw=True, sent=sent, see=("client",), **options)


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
    cli("then another command", "applet:send('first\\n')", sent=b"row; show version\n"),
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
