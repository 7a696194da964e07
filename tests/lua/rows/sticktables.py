"""The class StickTable."""
from lua.rows import Row

T, S, I = "core.backends.spare.stktable", "core.backends.strings.stktable", "core.backends.integers.stktable"
FILL = 'http-request sc-inc-gpc0(0) {if}'
TRACK = "http-request track-sc0 src table spare {if}\nhttp-request sc-inc-gpc0(0) {if}\nhttp-request sc-set-gpt0(0) 7 {if}"


def filled(name, code, want=None, **options):
    """A row after a request that is in the table."""
    word = "".join(char if char.isalnum() else "_" for char in name)
    return Row(name, "0", want, place="rules", raw=True, registration=f'core.register_action("{word}", {{"http-req"}}, function(txn) show((function() {code} end)()) end)',
               frontend=f"{TRACK}\nhttp-request lua.{word} {{if}}", **options)


ROWS = [
    Row("class", f"tostring({T})"),
    Row("members", f"(function() local n = {{}} for k in pairs(getmetatable({T}).__index) do n[#n + 1] = k end table.sort(n) return table.concat(n, ' ') end)()"),
    Row("info", f"(function() local i = {T}:info() i.used = nil return i end)()", '{data={conn_rate=10000, gpc0=-1, gpt0=-1}, expire=60000, length=4, nopurge=false, size=1024, type="ip"}'),
    Row("info: strings", f"{S}:info()"),
    Row("info: integers", f"{I}:info()"),
    Row("info: an argument", f"{T}:info(1)"),
    Row("info: with a dot", f"{T}.info()"),
    Row("lookup: missing", f"{T}:lookup('192.0.2.77')"),
    Row("lookup: not a key", f"{T}:lookup('rubbish')"),
    Row("lookup: missing text", f"{S}:lookup('none')"),
    Row("lookup: missing integer", f"{I}:lookup('5')"),
    *(Row(f"lookup({arguments})", f"{T}:lookup({arguments})") for arguments in ("", "nil", "5", "{}", "'127.0.0.1', 1")),
    filled("lookup", f"local e = {T}:lookup('127.0.0.1') return e.gpt0, type(e.gpc0), type(e.conn_rate), type(e.use), type(e.expire)"),
    filled("lookup: names", f"local n = {{}} for k, v in pairs({T}:lookup('127.0.0.1')) do n[k] = math.type(v) or type(v) end return n"),
    filled("dump", f"local n = {{}} for k, v in pairs({T}:dump()) do n[k] = type(v) end return n"),
    filled("dump: an entry", f"return {T}:dump()['127.0.0.1'].gpt0", "7"),
    filled("info: used", f"return {T}:info().used", "1"),
    *(filled(f"dump: filter {number}", f"local n = 0 for k in pairs({T}:dump({arguments})) do n = n + 1 end return n", want) for number, (arguments, want) in enumerate([
        ("{{'gpt0', 'eq', 7}}", "1"), ("{{'gpt0', 'eq', 8}}", "0"), ("{{'gpt0', 'ne', 8}}", "1"), ("{{'gpt0', 'gt', 6}}", "1"), ("{{'gpt0', 'ge', 7}}", "1"), ("{{'gpt0', 'lt', 7}}", "0"),
        ("{{'gpt0', 'le', 7}}", "1"), ("{{'gpt0', 'eq', 7}, {'gpc0', 'ge', 1}}", "1"), ("{{'gpt0', 'eq', 7}, {'gpc0', 'eq', 1000}}", "0"), ("{}", "1")])),
    *(Row(f"dump({arguments})", f"{T}:dump({arguments})") for arguments in (
        "5", "nil", "{{'none', 'eq', 1}}", "{{'gpc0', 'xx', 1}}", "{{'gpc0', 'eq'}}", "{{'gpc0', 'eq', 'x'}}", "{'gpc0', 'eq', 1}", "{{'gpc0', 'eq', 1}, {'gpc0', 'eq', 1}, {'gpc0', 'eq', 1}, {'gpc0', 'eq', 1}, {'gpc0', 'eq', 1}}", "{}, 1")),
    Row("dump: an empty table", f"{S}:dump()", "{}"),
    *(Row(f"info in {place}", f"{S}:info().type", '"string"', place=place) for place in ("init", "task", "fetch", "http-service")),
]
