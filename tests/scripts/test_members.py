"""Members of the API that do not wait: maps, patterns, proxies, servers, listeners, tables, variables of the process."""
import csv
import io
import socket

import pytest

from lib.program import ask, free_port, run, wait_until

RETURN = 'http-request return status 200 content-type text/plain lf-string '
SHOWN = f'{RETURN}"%[lua.shown]"'


def serve(world, body, rules="", **options):
    """Serves the text that a body of Lua returns, at each request. It has `show`, which makes one text of its arguments."""
    script = """
function show(...)
    local texts = table.pack(...)
    for i = 1, texts.n do texts[i] = tostring(texts[i]) end
    return table.concat(texts, " ")
end
"""
    head, _, body = body.rpartition("----")
    lines = options.pop("global_lines", "")
    world.cli = f"{world.folder.path}/cli"
    return world.serve(f'{script}{head}\ncore.register_fetches("shown", function(txn)\n{body}\nend)', f"{SHOWN}\n{rules}",
                       global_lines=f"stats socket {world.cli} level admin\n    {lines}", **options)


def body(world):
    """The text of a request."""
    return world.ask().partition("\r\n\r\n")[2]


def statistics(world, proxy, name):
    """The columns of `show stat` that an object has."""
    for row in csv.DictReader(io.StringIO(ask(world.cli, "show stat").removeprefix("# "))):
        if (row["pxname"], row["svname"]) == (proxy, name):
            # Behind the dash, HAProxy has columns of modules.
            columns = list(row)[:list(row).index("-")] if world.haproxy else [column for column in row if column != "-"]
            return {column: row[column] for column in columns if column and row[column]}
    raise AssertionError(f"{proxy}/{name} is not there")


BACKEND = """
backend b
    id 52
    stick-table type string len 20 size 100 expire 1m store gpc0,gpt0
    server s1 127.0.0.1:1 weight 10 maxconn 20 id 53
    server s2 127.0.0.2:1 backup
    server s3 127.0.0.3:1 track s4
    server s4 127.0.0.4:1 check inter 1h disabled
"""


@pytest.mark.parametrize("code, proxy, name", [
    ("core.frontends.f", "f", "FRONTEND"), ("core.backends.b", "b", "BACKEND"), ("core.proxies.l", "l", "BACKEND"),
    ("core.backends.b.servers.s1", "b", "s1"), ("core.backends.b.servers.s4", "b", "s4"), ("core.proxies.l.listeners.plain", "l", "plain"),
])
def test_statistics_are_those_of_show_stat(world, code, proxy, name):
    serve(world, f"""
local rows = {{}}
for column, value in pairs({code}:get_stats()) do rows[#rows + 1] = column .. "=" .. tostring(value) end
return table.concat(rows, "\\r\\n")""", f"{BACKEND}\nlisten l\n    option socket-stats\n    bind 127.0.0.1:{free_port()} name plain")
    # Counts of the frontend's own requests differ, and ages.
    moving = {"scur", "smax", "stot", "bin", "bout", "lastchg", "lastsess", "rate", "rate_max", "req_rate", "req_rate_max", "req_tot", "conn_rate", "conn_rate_max", "conn_tot",
              "hrsp_2xx", "hrsp_4xx", "ereq", "h1req", "h1sess", "dcon", "comp_byp", "wrew", "downtime", "reqbin", "resbout", "h1_open_conns", "h1_total_connections", "h1_total_streams", "h1_open_streams",
              "h1_open_connections", "intercepted", "h1_bytes_in", "h1_bytes_out"}
    got = dict(line.split("=", 1) for line in body(world).split("\r\n"))
    expected = statistics(world, proxy, name)
    same = {column for column in expected if column not in moving}
    assert len(same) >= 15
    assert {column: got.get(column) for column in same} == {column: expected[column] for column in same}
    if not world.haproxy:
        # HAProxy 3.2 has columns of the object before.
        assert set(got) == set(expected)


def test_proxies_and_servers_are_listed_in_their_order(world):
    serve(world, """
local names = {}
for name, proxy in pairs(core.proxies) do names[#names + 1] = name .. ":" .. proxy:get_cap() .. ":" .. proxy:get_mode() .. ":" .. proxy:get_uuid() end
for name, server in pairs(core.backends.b.servers) do names[#names + 1] = name .. ":" .. server:get_puid() .. ":" .. server:get_addr() end
for name, listener in pairs(core.frontends.f.listeners) do names[#names + 1] = name .. ":" .. tostring(listener) end
return table.concat(names, " ")""", f"{BACKEND}\nlisten l\n    mode tcp\n    bind 127.0.0.1:{free_port()}")
    assert body(world) == ("f:frontend:http:2 b:backend:http:52 l:proxy:tcp:4 s1:53:127.0.0.1:1 s2:2:127.0.0.2:1 s3:3:127.0.0.3:1 s4:4:127.0.0.4:1 "
                           "sock-1:HAProxy class Listener")


def test_changes_of_servers_are_those_of_operators(world):
    serve(world, """
local s, m = core.backends.b.servers.s1, core.backends.b.servers.s2
local steps = {show(s:set_weight("50%")), show(s:get_weight()), show(s:set_weight("x")), show(s:set_maxconn("7")), show(s:get_maxconn())}
m:set_maint() steps[#steps + 1] = m:get_stats().status .. core.backends.b:get_srv_bck()
m:set_ready() m:set_drain() steps[#steps + 1] = m:get_stats().status .. show(m:is_draining())
m:set_ready() steps[#steps + 1] = m:get_stats().status .. core.backends.b:get_srv_bck()
m:check_force_down() steps[#steps + 1] = m:get_stats().status
return table.concat(steps, "|")""", BACKEND)
    assert body(world) == "nil|5|Empty weight string empty or preceded by garbage|nil|7|MAINT0|DRAINtrue|no check1|DOWN"
    assert ask(world.cli, "get weight b/s1") == "5 (initial 10)\n\n"
    assert " s2 127.0.0.2 0 " in ask(world.cli, "show servers state b")


def test_an_address_is_changed(world):
    serve(world, """
local s = core.backends.b.servers.s1
return show(s:set_addr("127.0.0.9", 99)) .. "|" .. show(s:set_addr("x")) .. "|" .. show(s:set_addr("127.0.0.1", "x"))""", BACKEND)
    assert body(world) == ("IP changed from '127.0.0.1' to '127.0.0.9', port changed from '1' to '99' by 'Lua script'|Invalid addr 'x'|"
                           "problem converting port 'x' to an int")
    assert wait_until(lambda: " s1 127.0.0.9 " in ask(world.cli, "show servers state b"))


def test_trackers_and_tracked_servers(world):
    serve(world, """
local servers = core.backends.b.servers
local trackers = servers.s4:get_trackers()
return show(servers.s3:tracking():get_name(), servers.s1:tracking(), #trackers, trackers[1]:get_name(), trackers[1]:get_proxy():get_name(), #servers.s1:get_trackers())""", BACKEND)
    assert body(world) == "s4 nil 1 s3 b 0"


def test_a_deleted_server_is_an_error_and_never_another_one(world):
    serve(world, """local kept
----
kept = kept or core.backends.b.servers.new
return kept == nil and "none" or show(pcall(kept.get_name, kept)) .. "|" .. show(pcall(kept.set_weight, kept, "3")) .. "|" .. show(core.backends.b.servers.new ~= nil)""", BACKEND)
    assert "New server registered" in ask(world.cli, "add server b/new 127.0.0.7:1")
    assert body(world).startswith("true new")
    assert "Server deleted" in ask(world.cli, "set server b/new state maint; del server b/new")
    ask(world.cli, "add server b/other 127.0.0.8:1")
    before = ask(world.cli, "get weight b/other")
    # With a state for each thread, only that of the first request has the object.
    got = set()

    def asks():
        """Several clients at once reach both threads."""
        clients = [world.connect() for _ in range(8)]
        for client in clients:
            with client:
                got.add(b"".join(iter(lambda client=client: client.recv(65536), b"")).decode("latin-1").partition("\r\n\r\n")[2])
        return got - {"none"}

    assert wait_until(asks)
    got -= {"none"}
    if world.haproxy:
        # It returns nil.
        assert got == {"true nil|true nil|false"}
    else:
        assert len(got) == 1 and got.copy().pop().count("the server was deleted") == 2, got
    assert ask(world.cli, "get weight b/other") == before


def test_a_frontend_is_paused_and_resumed(world):
    serve(world, """
local g = core.frontends.g
local steps = {show(g:pause()), g:get_stats().status, show(g:pause()), show(g:resume()), g:get_stats().status, show(g:stop()), g:get_stats().status}
return table.concat(steps, "|")""", f"\nfrontend g\n    bind 127.0.0.1:{free_port()}")
    assert body(world) == "|PAUSED|||OPEN||STOP"


def test_maps_are_loaded_and_changed_by_scripts(world):
    path = world.folder.file("words.map", "/a one\n10.0.0.0/8 net\n")
    other = world.folder.file("networks.map", "10.0.0.0/8 ten\n10.1.0.0/16 finer\n")
    serve(world, f"""
local networks, words = Map.new("{other}", Map._ip), Map.new("{path}", Map._beg)
----
local steps = {{show(words:lookup("/abc")), show(words:lookup("x")), show(words:slookup("x")), show(networks:lookup("10.1.2.3"))}}
core.set_map("{path}", "/a", "changed") core.set_map("{path}", "/new", "added")
steps[#steps + 1] = show(words:lookup("/a"), words:lookup("/new"), txn.sc:map("/new", "{path}"))
core.del_map("{path}", "/new")
steps[#steps + 1] = show(words:lookup("/new"))
return table.concat(steps, "|")""", f"\nbackend b\n    http-request set-header x %[path,map({path})]")
    expected = "one|nil||finer|changed added added|nil"
    if world.haproxy:
        pytest.skip("HAProxy has no converter with a file here")
    assert body(world) == expected
    assert "/a changed" in ask(world.cli, f"show map {path}") and "/new" not in ask(world.cli, f"show map {path}")


@pytest.mark.parametrize("script, message", [
    ("Map.new('/none.map')", "'new': failed to open pattern file </none.map>"), ("Map.new()", "'new' needs at least 1 argument."),
    ("Map.new('FOLDER/bad.map', Map._ip)", "'new': 'x' is not a valid IPv4 or IPv6 address at line 2 of file 'FOLDER/bad.map'."),
    ("Map.new('FOLDER/bad.map', 99)", "'new' needs a valid match method."),
])
def test_maps_that_cannot_be_loaded_are_errors(world, script, message):
    world.folder.file("bad.map", "10.0.0.0/8 ten\nx y\n")
    code, said = world.check(script.replace("FOLDER", world.folder.path))
    assert code == 1 and message.replace("FOLDER", world.folder.path) in said, said


def test_a_list_of_patterns_is_changed_for_the_rules(world):
    path = world.folder.file("paths.acl", "/a\n")
    world.serve(f"""
core.register_action("change", {{"http-req"}}, function(txn)
    if txn.sf:path() == "/add" then core.add_acl("{path}", "/new") else core.del_acl("{path}", "/new") end
end)""", f"""http-request lua.change if {{ path /add /del }}
    http-request deny if {{ path -f {path} }}
    {RETURN}"passed" """)
    answers = [world.ask(path).split()[1] for path in ("/new", "/add", "/new", "/del", "/new")]
    assert answers == ["200", "200", "403", "200", "200"]


def test_a_prepared_version_of_patterns_is_seen_after_its_commit(world):
    serve(world, """
local live, next = core.get_patref("virt@words"), core.get_patref("virt@words")
live:purge() live:add("a", "1")
next:prepare() next:add("b", "2")
local before = show(live.a, live.b, next.b)
next:set("b", "3")
local committed = show(next:commit(), live.a, live.b)
local names = {}
for key, value in pairs(live) do names[#names + 1] = key .. "=" .. value end
next:prepare() next:add("c", "4") next:giveup()
return table.concat({before, committed, table.concat(names, ","), show(live.c, live:del("b"), live:del("b")), show(live:set("x", "1")), show(live:set("x", "1", true), live.x)}, "|")""",
          "\nbackend b\n    http-request set-header x %[path,map(virt@words)]")
    if world.haproxy:
        pytest.skip("HAProxy 3.2 does not show its own entries before a commit")
    assert body(world) == "1 nil 2|true nil 3|b=3|nil true false|nil entry not found|true 1"
    assert "curr_ver=1" in ask(world.cli, "show map")


def test_tables_are_read(world):
    serve(world, """
local t = core.backends.b.stktable
local e = t:lookup("key")
local function count(filter) local n = 0 for key in pairs(t:dump(filter)) do n = n + 1 end return n end
return table.concat({show(t:info().type, t:info().size, t:info().used, t:info().expire, t:info().data.gpc0), show(e.gpc0 > 0, e.gpt0, e.use, e.expire > 50000), show(t:lookup("none")),
    show(count(), count({{"gpt0", "eq", 7}}), count({{"gpt0", "gt", 7}})), show(t:dump({{"none", "eq", 1}})), show(t:dump()["key"].gpt0)}, "|")""",
          f"{BACKEND}", mode="http")
    ask(world.cli, "set table b key key data.gpc0 5 data.gpt0 7")
    assert body(world) == ("string 100 1 60000 -1|true 7 0 true|nil|1 1 0|nil Filter table data column not present in stick table (entry #1)|7")


@pytest.mark.parametrize("entries, fits", [(500, True), (8000, False)])
def test_a_table_is_dumped_within_the_memory_of_scripts(world, entries, fits):
    if world.haproxy:
        pytest.skip("HAProxy bounds the memory of all states")
    serve(world, """
local n = 0
for key, entry in pairs(core.backends.big.stktable:dump()) do n = n + 1 end
return show(n)""", "\nbackend big\n    stick-table type integer size 100k store gpc0", global_lines="tune.lua.maxmem 1")
    for first in range(0, entries, 100):
        ask(world.cli, ";".join(f"set table big key {key} data.gpc0 1" for key in range(first, first + 100)))
    assert body(world) == (str(entries) if fits else "")
    assert "memory" in world.said() or fits


def test_variables_and_facts_of_the_process(world):
    serve(world, """
local ok, message = pcall(core.get_var, "txn.x")
return show(core.get_var("proc.number"), core.get_var("proc.none"), math.type(core.get_var("proc.number")), ok, core.get_info().Nbthread, core.get_info().Name)""",
          global_lines="set-var proc.number int(3)")
    assert body(world) == "3 nil integer false 2 HAProxy"


def test_init_functions_see_and_change_the_process(world):
    path = world.folder.file("words.map", "a 1\n")
    serve(world, f"""local said = {{}}
core.register_init(function()
    local b = core.backends.b
    b.servers.s1:set_weight("5") b.servers.s4:set_maint() b.servers.s2:set_maint()
    core.set_map("{path}", "b", "2")
    said = {{b:get_name(), b.servers.s1:get_weight(), b.servers.s2:get_stats().status, b.stktable:info().type, core.get_info().Nbthread, core.get_var("proc.number"), core.frontends.f:get_stats().status}}
end)
----
return table.concat(said, " ") .. " " .. show(core.backends.b.servers.s1:get_weight(), core.backends.b.servers.s2:get_stats().status)""",
          f"http-request set-header x %[path,map({path})]\n{BACKEND}", global_lines="set-var proc.number int(3)")
    assert body(world) == "b 5 MAINT string 2 3 OPEN 5 MAINT"
    assert " b 2\n" in ask(world.cli, f"show map {path}")


def test_an_init_function_that_fails_ends_the_start(world):
    path = world.file('core.register_init(function() error("boom " .. core.frontends.f:get_name()) end)', SHOWN.replace("lua.shown", "path"))
    code, out, errors = run(world.binary, "-db", "-f", path)
    assert code == 1 and "script.lua:1: boom f" in out + errors, out + errors


def test_settings_of_mails(world):
    serve(world, """
local m = core.backends.m:get_mailers()
return show(m.log_level, m.mailservers.m1, m.mailservers.m2, m.mailservers_timeout, m.smtp_hostname, m.smtp_from, m.smtp_to, m.track_server_health, core.backends.b:get_mailers())""",
          f"{BACKEND}\nmailers ms\n    timeout mail 20s\n    mailer m1 192.0.2.1:25\n    mailer m2 [2001:db8::1]:587\nbackend m\n    email-alert mailers ms\n    email-alert from a@b\n    email-alert to c@d\n"
          "    email-alert level notice\n    email-alert myhostname me\n    option log-health-checks")
    assert body(world) == "5 192.0.2.1:25 2001:db8::1:587 20000 me a@b c@d true"


def test_queues_pass_values_in_their_order(world):
    serve(world, """
local q = core.queue()
for i = 1, 1000 do q:push(i) end
local sum = 0
for i = 1, 999 do sum = sum + q:pop() end
q:push("text") q:push(false)
return show(sum, q:size(), q:pop(), q:pop(), q:pop(), q:pop(), q:size(), pcall(q.push, q, nil))""")
    assert body(world) == "499500 3 1000 text false nil 0 false unexpected argument"


def test_regular_expressions_have_groups(world):
    serve(world, r"""
local ok, regex = Regex.new("(a+)(b)?(c)", false)
local found, groups = regex:match("xAAc")
return show(ok, regex:exec("abc"), regex:exec("b"), found, groups[1], groups[2], Regex.new("(", true))""")
    assert body(world).startswith("true true false true AAc AA false regex '(' is invalid")


@pytest.mark.parametrize("script, mails", [("", True), ("core.disable_legacy_mailers()", False)])
def test_a_script_takes_over_the_mails(world, script, mails):
    with socket.create_server(("127.0.0.1", 0)) as receiver:
        receiver.settimeout(3 if mails else 1.5)
        serve(world, f"""{script}
----
return core.backends.b:get_stats().status""", f"""
mailers ms
    mailer m1 127.0.0.1:{receiver.getsockname()[1]}
backend b
    email-alert mailers ms
    email-alert from a@b
    email-alert to c@d
    email-alert level notice
    server s 127.0.0.1:{free_port()} check inter 100ms fall 1""")
        assert wait_until(lambda: body(world) == "DOWN")
        try:
            receiver.accept()[0].close()
            came = True
        except TimeoutError:
            came = False
        assert came == mails
