"""Fetches of Lua: where they stand, their arguments and their types."""
from lua.rows import Row, request

VALUES = ('"text"', '""', '"5"', "5", "-5", "0", "1.0", "1.5", "true", "false", "nil", "{}", "function() end", "txn", '"a\\0b"', '"\\255\\254"', "2^53", "math.maxinteger",
          "math.mininteger", "1e300", "0/0", 'string.rep("x", 10000)', '"a", "b"', "")


def fetch(name, function, rule, want=None, see=("got",), **options):
    """A fetch of its own in a rule of the frontend."""
    word = "".join(char if char.isalnum() else "_" for char in name)
    return Row(name, "0", want, place="rules", raw=True, see=see, registration=f'core.register_fetches("{word}", {function})',
               frontend=rule.replace("FETCH", f"lua.{word}"), **options)


SERVER = "http-request set-header got [%[FETCH]] {if}"

ROWS = [
    # The sample of a returned value.
    *(Row(f"returns {value or 'nothing'}", f"return {value}", place="fetch", raw=True, both=True) for value in VALUES),
    *(Row(f"in a log-format: returns {value or 'nothing'}", "0", place="rules", raw=True, both=True, see=("got",),
          registration=f'core.register_fetches("value{number}", function(txn) return {value} end)',
          frontend=f"http-request set-header got [%[lua.value{number}]] {{if}}") for number, value in enumerate(VALUES) if "x" not in value),
    *(Row(f"type of a returned {value}", "0", place="rules", raw=True, both=True, see=("got",),
          registration=f'core.register_fetches("typed{number}", function(txn) return {value} end)',
          frontend=f"http-request set-var(txn.typed{number}) lua.typed{number} {{if}}\nhttp-request set-header got %[var(txn.typed{number}),add(1)] {{if}}\n"
                   f"http-request set-header is-bool 1 if {{ var(proc.row) -m str N }} {{ var(txn.typed{number}) -m bool }}")
      for number, value in enumerate(("5", '"5"', "true", "false", '"text"'))),

    # Arguments.
    Row("arguments", "a, b, c", '"a", "b", nil', place="fetch"),
    Row("number of values", "select('#', ...)", "3", place="fetch"),
    fetch("no arguments", "function(txn, ...) return select('#', ...) end", SERVER, see=("got",)),
    fetch("empty parentheses", "function(txn, ...) return select('#', ...) end", SERVER.replace("FETCH", "FETCH()"), see=("got",)),
    fetch("an empty argument", "function(txn, a, b) return '<' .. tostring(a) .. '><' .. tostring(b) .. '>' end", SERVER.replace("FETCH", "FETCH(,x)")),
    fetch("five arguments", "function(txn, ...) return table.concat({...}, '-') end", SERVER.replace("FETCH", "FETCH(1,2,3,4,5)")),
    fetch("quoted arguments", "function(txn, a) return a end", "http-request set-header got %[FETCH('a,b')] {if}"),
    fetch("arguments are text", "function(txn, a) return math.type(a) or type(a) end", SERVER.replace("FETCH", "FETCH(5)")),

    # Where they stand.
    fetch("set-header", "function(txn) return 'a b' end", SERVER),
    fetch("an acl", "function(txn) return 'yes' end", "acl is_yes FETCH -m str yes\nhttp-request set-header got matched if is_yes { var(proc.row) -m str N }"),
    fetch("a condition with an integer", "function(txn) return 12 end", "http-request set-header got matched if { FETCH -m int gt 10 } { var(proc.row) -m str N }"),
    fetch("a converter after it", "function(txn) return 'abc' end", SERVER.replace("FETCH", "FETCH,upper,bytes(1)")),
    fetch("the headers of the request", "function(txn) return txn.http:req_get_headers()['x-two'][1] end", SERVER),
    fetch("fetches of HAProxy", "function(txn) return txn.sf:path() .. txn.sf:method() end", SERVER),
    fetch("a variable", "function(txn) return txn:get_var('txn.known') end", SERVER),
    fetch("sets a variable", "function(txn) txn:set_var('txn.made', 5) return '' end", SERVER + "\nhttp-request set-header made %[var(txn.made)] {if}"),
    fetch("in a response rule", "function(txn) return tostring(txn.sf:status()) end", "http-response set-header got [%[FETCH]] {if}", see=("client",)),
    fetch("in tcp-request content", "function(txn) return txn.sf:src() end",
          "tcp-request content set-var(sess.source) FETCH {if}\nhttp-request set-header got %[var(sess.source)] {if}"),
    fetch("in an HTTP log", "function(txn) return 'logged' end", "http-request set-var(txn.x) FETCH {if}\nhttp-request set-header got %[var(txn.x)] {if}"),
    fetch("yields", "function(txn) core.yield() return 'after' end", SERVER, see=("got", "log")),
    fetch("sleeps", "function(txn) core.msleep(5) return 'after' end", SERVER, see=("got", "log")),
    fetch("fails", "function(txn) error('broken') end", SERVER, see=("got", "log")),
    fetch("fails without a text", "function(txn) error() end", SERVER, see=("got", "log")),
    fetch("returns a path of the request", "function(txn) return txn.f:path() end", SERVER, sent=request(path="/a%20b")),
    fetch("a socket", "function(txn) return tostring(pcall(core.tcp)) end", SERVER),
    fetch("txn:done", "function(txn) txn:done() return 'after' end", SERVER, see=("got", "client", "log")),

    # Registration.
    *(Row(f"register_fetches {arguments}", f"core.register_fetches({arguments})", place="body") for arguments in (
        "", '"f"', '"f1", function() end', '"f2", "text"', '"f3", nil', "5, function() end", '"f4", function() end, 1', '"", function() end',
        '"f 5", function() end', "nil, function() end", '"f6", {}')),
    Row("register_fetches twice", 'core.register_fetches("twice", function() end)', place="body", registration='core.register_fetches("twice", function() end)'),
    *(Row(f"register_fetches in {place}", 'core.register_fetches("late", function() end)', place=place) for place in ("init", "task", "http-req", "fetch")),
    Row("a fetch of Lua is not in txn.f before the next start", "type(txn.f.row_fetch), type(txn.f['lua.row_fetch'])"),
]
