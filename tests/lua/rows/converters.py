"""Converters of Lua."""
from lua.rows import Row, request
from lua.rows.fetches import VALUES


def converter(name, function, expression, want=None, see=("got",), **options):
    """A converter of its own in a header."""
    word = "".join(char if char.isalnum() else "_" for char in name)
    return Row(name, "0", want, place="rules", raw=True, see=see, registration=f'core.register_converters("{word}", {function})',
               frontend=f"http-request set-header got [%[{expression.replace('CONVERTER', f'lua.{word}')}]] {{if}}", **options)


SHOW = "function(value) return math.type(value) or type(value) end"

ROWS = [
    *(Row(f"returns {value or 'nothing'}", f"return {value}", place="converter", raw=True, both=True) for value in VALUES if value != "txn"),
    Row("input and arguments", "value, a, b, c", '"input", "a", "b", nil', place="converter"),
    Row("number of values", "select('#', ...)", "3", place="converter"),
    *(converter(f"input {expression}", "function(value) return (math.type(value) or type(value)) .. ' ' .. tostring(value) end", f"{expression},CONVERTER", both=True)
      for expression in ("str(text)", "int(5)", "bool(true)", "bool(false)", "src", "ipv6(::1)", "bin(61ff)", "method", "str()", "req.hdr(x-two)", "var(proc.number)")),
    converter("input that is missing", SHOW, "req.hdr(none),CONVERTER"),
    converter("five arguments", "function(value, ...) return table.concat({...}, '-') end", "str(x),CONVERTER(1,2,3,4,5)"),
    converter("no arguments", "function(value, ...) return select('#', ...) end", "str(x),CONVERTER"),
    converter("empty parentheses", "function(value, ...) return select('#', ...) end", "str(x),CONVERTER()"),
    converter("twice in a chain", "function(value, a) return value .. a end", "str(x),CONVERTER(a),CONVERTER(b)"),
    converter("then another", "function(value) return 'abc' end", "str(x),CONVERTER,upper"),
    converter("an integer then another", "function(value) return 5 end", "str(x),CONVERTER,add(1)"),
    converter("binary text", "function(value) return '\\255\\0a' end", "str(x),CONVERTER,hex"),
    converter("fails", "function(value) error('broken') end", "str(x),CONVERTER", see=("got", "log")),
    converter("yields", "function(value) core.yield() return 'after' end", "str(x),CONVERTER", see=("got", "log")),
    converter("sleeps", "function(value) core.msleep(5) return 'after' end", "str(x),CONVERTER", see=("got", "log")),
    converter("a long text", "function(value) return #value end", "req.hdr(long),CONVERTER", sent=request("GET", "/", f"long: {'x' * 8000}")),
    converter("logs", "function(value) core.Info('from a converter') return value end", "str(x),CONVERTER", see=("got", "log")),
    *(Row(f"register_converters {arguments}", f"core.register_converters({arguments})", place="body") for arguments in (
        "", '"c"', '"c1", function() end', '"c2", "text"', '"c3", nil', "5, function() end", '"c4", function() end, 1')),
    Row("register_converters twice", 'core.register_converters("twice", function() end)', place="body",
        registration='core.register_converters("twice", function() end)'),
    *(Row(f"register_converters in {place}", 'core.register_converters("late", function() end)', place=place) for place in ("init", "task", "http-req", "converter")),
]
