"""Maps and lists: the class Map, and core.set_map and its kin."""
from lua.rows import Row

NAMES = ("int", "ip", "str", "beg", "sub", "dir", "dom", "end", "reg", "regm", "len", "bin", "bool", "found")
FOLDER = "settings.folder .. '/"


def lookup(file, method, key, want=None, **options):
    """A row with a map that is loaded by the file's body."""
    name = f"map_{file}_{method}".replace(".", "_")
    return Row(options.pop("name", f"{file} {method}: {key}"), f"{name}:lookup({key}), {name}:slookup({key})", want,
               registration=f"{name} = {name} or Map.new({FOLDER}{file}.map', Map._{method})", **options)


ROWS = [
    *(Row(f"constant {name}", f"Map._{name}, Map.{name}" if name != "end" else "Map._end, Map['end']") for name in NAMES),
    Row("class", "tostring(words)", registration=f"words = Map.new({FOLDER}words.map', Map._str)"),
    Row("members", "(function() local n = {} for k in pairs(getmetatable(words2).__index) do n[#n + 1] = k end table.sort(n) return table.concat(n, ' ') end)()",
        registration=f"words2 = Map.new({FOLDER}words.map', Map._str)"),
    lookup("words", "str", "'one'", '"1", "1"'), lookup("words", "str", "'three'", '"words of text", "words of text"'), lookup("words", "str", "'none'", 'nil, ""'),
    lookup("words", "str", "'ONE'", 'nil, ""'), lookup("words", "str", "'empty'"), lookup("words", "str", "''"), lookup("words", "str", "5"), lookup("words", "str", "nil"),
    lookup("words", "str", "{}"), lookup("words", "str", "'one', 1"), lookup("words", "str", ""),
    lookup("words", "beg", "'one more'", '"1", "1"'), lookup("words", "sub", "'a two b'", '"2", "2"'), lookup("words", "end", "'number one'", '"1", "1"'),
    lookup("words", "dir", "'/a/one/b'", '"1", "1"'), lookup("words", "dom", "'a.one.b'", '"1", "1"'), lookup("words", "dir", "'/aone'", 'nil, ""'),
    lookup("networks", "ip", "'10.1.2.3'", '"ten-one", "ten-one"'), lookup("networks", "ip", "'10.2.2.3'", '"ten", "ten"'), lookup("networks", "ip", "'2001:db8::5'", '"six", "six"'),
    lookup("networks", "ip", "'11.0.0.1'", 'nil, ""'), lookup("networks", "ip", "'rubbish'"), lookup("networks", "ip", "txn.f:src()"),
    lookup("numbers", "int", "3", '"low", "low"'), lookup("numbers", "int", "100", '"high", "high"'), lookup("numbers", "int", "0", 'nil, ""'), lookup("numbers", "int", "'3'"), lookup("numbers", "int", "'x'"),
    lookup("numbers", "int", "3.0"), lookup("numbers", "int", "3.5"),
    lookup("suffixes", "end", "'a.com'", '"commercial", "commercial"'),
    lookup("expressions", "reg", "'abc'"), lookup("expressions", "regm", "'abc'"), lookup("expressions", "reg", "'none'", 'nil, ""'), lookup("expressions", "reg", "'xb y'"),
    *(Row(f"Map.new({arguments})", f"select('#', Map.new({arguments}))", place="body") for arguments in (
        "", "'/none.map', Map._str", f"{FOLDER}words.map'", f"{FOLDER}words.map', 99", f"{FOLDER}words.map', 'str'", "5, Map._str", "nil, Map._str", f"{FOLDER}suffixes.map', Map._int",
        f"{FOLDER}words.map', Map._str, 1", "'virt@lua.map', Map._str", "'opt@/none.map', Map._str")),
    *(Row(f"Map.new in {place}", f"pcall(Map.new, {FOLDER}words.map', Map._str)", place=place) for place in ("init", "http-req", "fetch", "task")),

    # core.set_map, core.add_acl and so on: the lists of the configuration.
    Row("set_map: a new key", f"(function() local r = table.pack(core.set_map({FOLDER}words.map', '/new', 'n')) return r.n, txn.c:map('/new', {FOLDER}words.map') end)()"),
    Row("set_map: returns", f"core.set_map({FOLDER}words.map', 'one', '1')", "nothing"),
    Row("set_map: seen by the rules", f"core.set_map({FOLDER}words.map', '/seen', 'value')", raw=True, see=("got",), sent=b"GET /seen HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        frontend="http-request set-header got %[path,map({folder}/words.map)] {if}"),
    Row("set_map: seen by a Map", f"(function() core.set_map({FOLDER}words.map', 'added', 'a') return map_words_str:lookup('added') end)()"),
    Row("set_map: replaces", f"(function() core.set_map({FOLDER}words.map', 'two', 'II') local v = map_words_str:lookup('two') core.set_map({FOLDER}words.map', 'two', '2') return v end)()", '"II"'),
    Row("del_map", f"(function() core.set_map({FOLDER}words.map', 'gone', 'x') core.del_map({FOLDER}words.map', 'gone') return map_words_str:lookup('gone') end)()", "nil"),
    Row("del_map: a missing key", f"core.del_map({FOLDER}words.map', 'never')"),
    Row("add_acl", f"core.add_acl({FOLDER}paths.acl', '/c')", "nothing"),
    Row("add_acl: an address", f"core.add_acl({FOLDER}addresses.acl', '203.0.113.0/24')", "nothing"),
    Row("add_acl: not an address", f"core.add_acl({FOLDER}addresses.acl', 'rubbish')"),
    Row("add_acl: twice", f"(function() core.add_acl({FOLDER}paths.acl', '/d') return core.add_acl({FOLDER}paths.acl', '/d') end)()"),
    Row("del_acl", f"core.del_acl({FOLDER}paths.acl', '/c')", "nothing"),
    Row("del_acl: a missing key", f"core.del_acl({FOLDER}paths.acl', '/never')"),
    *(Row(f"{call}", f"core.{call}") for call in (
        "set_map('/none', 'a', 'b')", "del_map('/none', 'a')", "add_acl('/none', 'a')", "del_acl('/none', 'a')", "set_map()", "set_map('a')", "set_map('a', 'b')", "set_map('a', 'b', 'c', 'd')", "del_map()", "add_acl()",
        "add_acl('a')", "add_acl('a', 'b', 'c')", "del_acl('a')", "set_map(nil, 'a', 'b')", "set_map({}, 'a', 'b')")),
    Row("set_map: a number as value", f"(function() core.set_map({FOLDER}words.map', 'five', 5) return map_words_str:lookup('five') end)()"),
    Row("set_map: nil as value", f"core.set_map({FOLDER}words.map', 'nil', nil)"),
    *(Row(f"set_map in {place}", f"core.set_map({FOLDER}words.map', 'one', '1')", place=place) for place in ("body", "init", "task", "fetch", "converter", "http-service")),
    Row("set_map: an address that is none", f"core.set_map({FOLDER}networks.map', 'rubbish', 'x')"),
    Row("set_map: virtual", "core.set_map('virt@virtual.map', '/v', 'value')", since="3.2"),
    Row("set_map: virtual, seen by the rules", "core.set_map('virt@virtual.map', '/path', 'value')", raw=True, see=("got",), since="3.2", frontend="http-request set-header got %[path,map(virt@virtual.map)] {if}"),
]
