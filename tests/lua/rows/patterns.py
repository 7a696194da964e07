"""The class Patref."""
from lua.rows import Row

FOLDER = "settings.folder .. '/"


def patref(name, code, want=None, file="virt@virtual.map", **options):
    return Row(name, f"(function() local p = core.get_patref('{file}') p:purge() {code} end)()", want, since="3.2", **options)


ROWS = [
    Row("exists", "type(core.get_patref)", '"function"', since="3.2"),
    Row("get_patref", "type(core.get_patref('virt@virtual.map')), tostring(core.get_patref('virt@virtual.map'))", since="3.2"),
    Row("get_patref: a list", f"core.get_patref({FOLDER}paths.acl'):is_map(), core.get_patref({FOLDER}words.map'):is_map()", "false, true", since="3.2"),
    Row("get_patref: unknown", "core.get_patref('none')", since="3.2"),
    *(Row(f"get_patref({arguments})", f"core.get_patref({arguments})", since="3.2") for arguments in ("", "nil", "5", "{}")),
    *(Row(f"get_patref in {place}", "type(core.get_patref('virt@virtual.map'))", place=place, since="3.2") for place in ("body", "init", "task", "fetch", "converter")),
    patref("get_name", "return p:get_name()", '"virt@virtual.map"'),
    patref("members", "local n = {} for k, v in pairs(getmetatable(p)) do n[k] = type(v) end return n"),
    patref("add", "return p:add('a', '1'), p.a", 'true, "1"'),
    patref("add: without a value", "return p:add('a')"),
    patref("add: twice", "p:add('a', '1') p:add('a', '2') return p.a"),
    patref("set", "p:add('a', '1') return p:set('a', '2'), p.a", 'true, "2"'),
    patref("set: missing", "return p:set('a', '2')"),
    patref("set: missing, forced", "return p:set('a', '2', true), p.a", 'true, "2"'),
    patref("del", "p:add('a', '1') return p:del('a'), p.a", "true, nil"),
    patref("del: missing", "return p:del('a')", "false"),
    patref("purge", "p:add('a', '1') p:purge() return p.a", "nil"),
    patref("index: missing", "return p.none"),
    patref("pairs", "p:add('a', '1') p:add('b', '2') local n = {} for k, v in pairs(p) do n[k] = v end return n", '{a="1", b="2"}'),
    patref("add_bulk", "return p:add_bulk({a = '1', b = '2'}), p.a, p.b", 'true, "1", "2"'),
    patref("add_bulk: an array", "return (pcall(p.add_bulk, p, {'a', 'b'}))", "false", manual="For a map, the table has pairs of keys and values; HAProxy 3.2 may end."),
    patref("add_bulk: not a table", "return (pcall(p.add_bulk, p, 5))", "false", manual="A wrong argument is an error; HAProxy 3.2 ends."),
    patref("prepare: not seen before the commit", "p:add('a', '1') p:prepare() p:add('b', '2') local q = core.get_patref('virt@virtual.map') local seen = q.b return seen, p:commit(), q.a, q.b",
           'nil, true, nil, "2"'),
    patref("giveup", "p:add('a', '1') p:prepare() p:add('b', '2') p:giveup() return p.a, p.b", '"1", nil', manual="It gets back to the live entries; in HAProxy 3.2 the object then finds none."),
    patref("commit without prepare", "return p:commit()"),
    patref("prepare twice", "p:prepare() return p:prepare()"),
    patref("a list: add", "return p:add('/z'), p:is_map()", file="virt@list.acl", frontend="http-request set-header got 1 if { path -f virt@list.acl } { var(proc.row) -m str N }"),
    patref("a list: bulk", "return p:add_bulk({'/path', '/y'}), p['/path']", see=("got",), file="virt@list2.acl",
           frontend="http-request set-header got 1 if { path -f virt@list2.acl } { var(proc.row) -m str N }"),
    patref("event_sub", "local t = {} local s = p:event_sub({'PAT_REF_ADD', 'PAT_REF_DEL'}, function(event) t[#t + 1] = event end) p:add('a', '1') p:del('a') core.msleep(20) s:unsub() "
           "p:add('b', '1') core.msleep(20) return t", '{[1]="PAT_REF_ADD", [2]="PAT_REF_DEL"}'),
    patref("event_sub: all", "local t = {} p:event_sub({'PAT_REF'}, function(event, data, sub, when) t[#t + 1] = {event, type(data), type(when)} end) p:set('a', '1', true) p:purge() p:prepare() p:commit() "
           "core.msleep(20) return t"),
]
