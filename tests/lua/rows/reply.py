"""The class Reply."""
from lua.rows import Row


def built(steps):
    """Code that builds a reply and shows it."""
    return f"(function() local r = txn:reply() {steps} return r.status, r.reason, r.headers, r.body end)()"


ROWS = [
    Row("default", built(""), None),
    Row("default status", "txn:reply().status", "200"),
    Row("default reason", "txn:reply().reason", '"OK"'),
    Row("default headers", "txn:reply().headers", "{}"),
    Row("default body", "txn:reply().body", manual="Empty by default."),
    *(Row(f"from {table}", f"(function() local r = txn:reply({table}) return r.status, r.reason, r.headers, r.body end)()") for table in (
        "{}", "{status = 404}", '{status = 404, reason = "Own"}', '{status = "404"}', "{status = 99}", "{status = 1000}", "{status = {}}", '{reason = "Own"}', "{reason = 5}",
        '{body = "text"}', "{body = 5}", "{body = {}}", '{headers = {x = {"a"}}}', '{headers = {x = "a"}}', '{headers = {X = {"a"}, x = {"b"}}}', '{headers = 5}',
        '{other = 5}', "nil", "5", '"text"', "{status = 200}, 5", "{status = 418}", "{status = 299}", '{headers = {x = {}}}', '{headers = {x = {5, true}}}')),
    Row("set_status", built("r:set_status(404)"), None),
    Row("set_status: reason of the status", "(function() local r = txn:reply() r:set_status(404) return r.reason end)()", '"Not Found"'),
    Row("set_status: own reason", "(function() local r = txn:reply() r:set_status(404, 'Own') return r.status, r.reason end)()", '404, "Own"'),
    *(Row(f"set_status({arguments})", built(f"r:set_status({arguments})")) for arguments in ("", '"404"', '"x"', "404.0", "404.5", "nil", "99", "100", "600", "404, 5", "404, nil", "404, 'a', 'b'", "{}")),
    Row("set_status returns", "txn:reply():set_status(404)"),
    Row("add_header", built("r:add_header('x', 'a')")),
    Row("add_header: two values", "(function() local r = txn:reply() r:add_header('x', 'a') r:add_header('x', 'b') return r.headers end)()", '{x={[1]="a", [2]="b"}}'),
    Row("add_header: names and case", built("r:add_header('X', 'a') r:add_header('x', 'b')")),
    *(Row(f"add_header({arguments})", built(f"r:add_header({arguments})")) for arguments in ("", "'x'", "'x', 5", "5, 'x'", "'x', nil", "'x', {}", "'x', 'a', 'b'", "'', 'a'")),
    Row("add_header returns", "txn:reply():add_header('x', 'a')"),
    Row("del_header", "(function() local r = txn:reply() r:add_header('x', 'a') r:del_header('x') return r.headers end)()", "{}"),
    Row("del_header: another case", built("r:add_header('X', 'a') r:del_header('x')")),
    Row("del_header: missing", built("r:del_header('x')")),
    *(Row(f"del_header({arguments})", built(f"r:del_header({arguments})")) for arguments in ("", "5", "nil", "'x', 'y'")),
    Row("set_body", "(function() local r = txn:reply() r:set_body('text') return r.body end)()", '"text"'),
    *(Row(f"set_body({arguments})", built(f"r:set_body({arguments})")) for arguments in ("", "5", "nil", "{}", "'a', 'b'", "''")),
    Row("fields can be set", built("r.status = 404 r.body = 'x' r.headers.y = {'z'}")),
    Row("metatable", "type(getmetatable(txn:reply()).__index)"),
    Row("in a fetch", "type(txn:reply())", place="fetch"),
    Row("in TCP", "type(txn:reply())", place="tcp-req", sent=b"x\n"),
    Row("used twice", "local r = txn:reply{status = 404} show(r.status) r:set_status(405) txn:done(r)", raw=True, see=("client",)),
    Row("sent", "local r = txn:reply() r:set_status(400, 'Bad request') r:add_header('content-type', 'text/html') r:add_header('cache-control', 'no-cache') "
        "r:add_header('cache-control', 'no-store') r:set_body('<html>') txn:done(r)", raw=True, see=("client",)),
]
