"""Scripts in rules and expressions: actions, fetches, converters, their objects, errors and bounds."""
import os
import re
import select
import threading
import time

import pytest

from lib.log import LogServer
from lib.needs import needs_root
from lib.origin import Origin, end_with_reset
from lib.program import Program, run, wait_until

RETURN = 'http-request return status 200 content-type text/plain lf-string '


def test_an_action_reads_and_changes_a_request(world):
    world.serve("""
core.register_action("label", {"http-req"}, function(txn, one, two)
    txn.http:req_set_header("x-label", txn.sf:req_fhdr("host") .. txn.sf:path() .. one .. two)
    txn.http:req_add_header("x-many", "a")
    txn.http:req_add_header("x-many", "b")
    txn.http:req_del_header("x-gone")
    txn.http:req_rep_header("x-old", "(.)(.)", "\\\\2\\\\1")
    txn.http:req_rep_value("x-list", "^b$", "B")
    txn.http:req_set_method("PUT")
    txn.http:req_set_path("/new")
    txn.http:req_set_query("q=1")
end, 2)""", f"http-request lua.label 1 'two words'\n    {RETURN}"
        '"%[req.hdr(x-label)]|%[req.hdr_cnt(x-many)]|%[req.fhdr(x-gone)]|%[req.fhdr(x-old)]|%[req.fhdr(x-list)]|%[path]|%[query]"')
    answer = world.ask("/a?b", "X-Gone: 1", "X-Old: ab", "X-List: a,b,c")
    assert answer.endswith("shop.test/a1two words|2||ba|a,B,c|/new|q=1"), answer


def test_all_headers_are_a_table_from_index_0(world):
    world.serve("""
core.register_fetches("headers", function(txn)
    local found = {}
    for name, values in pairs(txn.http:req_get_headers()) do
        -- HAProxy hides the header Connection.
        if name ~= "connection" then found[#found + 1] = name .. "=" .. values[0] .. (values[1] and "," .. values[1] or "") end
    end
    table.sort(found)
    return table.concat(found, " ")
end)""", f'{RETURN}"%[lua.headers]"')
    assert world.ask("/", "A: 1", "a: 2", "B: 3").endswith("a=1,2 b=3 host=shop.test")


def test_responses_are_changed(world):
    world.serve("""
core.register_action("after", {"http-after-res"}, function(txn)
    txn.http:res_set_status(299, "Fine")
    txn.http:res_set_header("x-res", "1")
    txn.http:res_del_header("x-gone")
end)""", "http-request return status 200 hdr x-gone 1 hdr x-stays 2\n    http-after-response lua.after")
    answer = world.ask()
    assert re.match(r"HTTP/1.1 299 Fine\r\n", answer) and "x-res: 1" in answer and "x-stays: 2" in answer and "x-gone" not in answer


def test_fetches_and_converters_take_arguments(world):
    world.serve("""
core.register_fetches("join", function(txn, ...) return txn.sf:method() .. table.concat({...}, "-") end)
core.register_fetches("number", function() return 41 end)
core.register_fetches("yes", function() return true end)
core.register_fetches("nothing", function() return nil end)
core.register_converters("wrap", function(text, left, right) return (left or "<") .. text .. (right or ">") end)
core.register_converters("count", function(text) return #text end)
""", f"""http-request deny deny_status 401 if {{ path /yes }} {{ lua.yes -m bool }}
    http-request deny deny_status 404 if {{ path,lua.wrap -m str </no> }}
    http-request deny deny_status 405 if {{ path /nothing }} {{ lua.nothing -m bool }}
    {RETURN}"%[lua.join(a,b c,'d,e')]|%[lua.number,add(1)]|%[path,lua.wrap]|%[path,lua.wrap([,])]|%[path,lua.count,mul(2)]|%[lua.nothing]" """)
    assert world.ask("/abc").endswith("GETa-b c-d,e|42|</abc>|[/abc]|8|0")
    assert [world.ask(path).split()[1] for path in ("/yes", "/no", "/nothing")] == ["401", "404", "200"]


@pytest.mark.parametrize("conversion, kinds", [("normal", "boolean number string"), ("pre-3.1-bug", "number number string")])
def test_values_of_samples_have_types(world, conversion, kinds):
    world.serve("""
core.register_fetches("kinds", function(txn)
    return type(txn.f:ssl_fc()) .. " " .. type(txn.f:src_port()) .. " " .. type(txn.f:src())
        .. "|" .. type(txn.f:req_fhdr("none")) .. "|" .. type(txn.sf:req_fhdr("none")) .. "|" .. math.type(txn.f:src_port())
end)""", f'{RETURN}"%[lua.kinds]"', conversion=conversion)
    assert world.ask().endswith(f"{kinds}|nil|string|integer")


def test_converters_of_the_language_are_methods(world):
    world.serve("""
core.register_fetches("converted", function(txn)
    return table.concat({txn.sc:upper("aBc"), txn.sc:field("a,b,c", 2, ","), txn.sc:hex("a'b"), txn.sc:field("a'b'c", 2, "'"),
        txn.sc:base64("x)y")}, " ")
end)""", f'{RETURN}"%[lua.converted]"')
    assert world.ask().endswith("ABC b 612762 b eCl5")


def test_variables_are_shared_with_rules(world):
    world.serve("""
core.register_action("vars", {"http-req"}, function(txn)
    txn:set_var("txn.number", 5)
    txn:set_var("req.text", "abc")
    txn:set_var("txn.flag", true)
    txn:set_var("txn.copy", txn:get_var("txn.given") .. "!")
    txn:set_var("txn.known", "seen", true)
    txn:set_var("proc.never_used", "unseen", true)
    txn:unset_var("txn.gone")
    txn:set_var("txn.absent", tostring(txn:get_var("txn.none")) .. tostring(txn:get_var("txn.gone")) .. tostring(txn:get_var("proc.never_used")))
end)""", f"""http-request set-var(txn.given) str(given)
    http-request set-var(txn.gone) str(gone)
    http-request set-var(txn.known) str(known)
    http-request lua.vars
    {RETURN}"%[var(txn.number),add(1)]|%[var(req.text)]|%[var(txn.flag)]|%[var(txn.copy)]|%[var(txn.known)]|%[var(txn.absent)]" """)
    assert world.ask().endswith("6|abc|1|given!|seen|nilnilnil")


def test_an_action_waits_and_goes_on(world):
    world.serve("""
core.register_action("slow", {"http-req"}, function(txn)
    local before = core.now()
    core.msleep(120)
    core.yield()
    local after = core.now()
    local passed = (after.sec - before.sec) * 1000 + (after.usec - before.usec) / 1000
    txn.http:req_set_header("x-slow", (passed >= 118 and passed < 3000) and "yes" or tostring(passed))
end)""", f'http-request lua.slow if {{ path /slow }}\n    {RETURN}"%[req.hdr(x-slow)]"')
    answers = []
    clients = [threading.Thread(target=lambda: answers.append(world.ask("/slow"))) for _ in range(20)]
    began = time.monotonic()
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert [answer.partition("\r\n\r\n")[2] for answer in answers] == ["yes"] * 20
    assert time.monotonic() - began < 2, "they wait at the same time"


def test_a_client_that_leaves_ends_the_wait(world):
    world.serve("""
core.register_action("slow", {"http-req"}, function(txn) core.sleep(2) went_on = true end)
core.register_fetches("went", function() return tostring(went_on) end)""",
        f'http-request lua.slow if {{ path /slow }}\n    {RETURN}"%[lua.went]"')
    clients = [world.connect("/slow") for _ in range(5)]
    time.sleep(0.2)
    for client in clients:
        end_with_reset(client)
        client.close()
    time.sleep(2.2)
    assert [world.ask()[-3:] for _ in range(8)] == ["nil"] * 8


def test_a_reply_of_a_script(world):
    world.serve("""
core.register_action("reply", {"http-req"}, function(txn)
    local reply = txn:reply{status = 418, headers = {["x-a"] = {"1", "2"}, ["x-b"] = "3"}, body = "short"}
    reply:add_header("x-c", "4")
    reply:add_header("x-c", "5")
    reply:del_header("x-b")
    txn:done(reply)
    went_on = true
end)
core.register_action("built", {"http-req"}, function(txn)
    local reply = txn:reply()
    reply:set_status(201, "Made")
    reply:set_body("built")
    txn:done(reply)
end)
core.register_fetches("went", function() return tostring(went_on) end)""", f"""http-request lua.reply if {{ path /reply }}
    http-request lua.built if {{ path /built }}
    {RETURN}"%[lua.went]" """)
    answer = world.ask("/reply")
    assert answer.startswith("HTTP/1.1 418 ") and answer.endswith("\r\n\r\nshort") and "content-length: 5" in answer
    assert sorted(re.findall(r"x-(\w: \d)", answer)) == ["a: 1", "a: 2", "c: 4", "c: 5"]
    assert world.ask("/built").startswith("HTTP/1.1 201 Made\r\n") and world.ask("/built").endswith("built")
    assert [world.ask()[-3:] for _ in range(4)] == ["nil"] * 4, "nothing runs behind done"


def test_results_of_actions(world):
    world.serve("""
for name, result in pairs(act) do
    if type(result) == "number" and name ~= "YIELD" then core.register_action(name, {"http-req"}, function() return result end) end
end
core.register_action("many", {"http-req"}, function() return 1, 2, 3 end)
core.register_action("text", {"http-req"}, function() return "x" end)
""", "\n    ".join(f"http-request lua.{name} if {{ path /{name} }}" for name in
               ("CONTINUE", "STOP", "ERROR", "DENY", "INVALID", "text", "many")) + "\n    http-request return status 299\n")
    results = {name: (world.ask(f"/{name}").split() + ["", "closed"])[1] for name in ("CONTINUE", "STOP", "ERROR", "DENY", "INVALID", "text", "many")}
    assert results == {"CONTINUE": "299", "STOP": "503", "ERROR": "500", "DENY": "403",
                       "INVALID": "400", "text": "299", "many": "500"}


def test_an_error_is_reported_and_the_rules_go_on(world):
    world.serve("""
core.register_action("bad", {"http-req"}, function(txn)
    local nothing
    nothing.field = 1
end)
core.register_action("table", {"http-req"}, function(txn) error({}) end)
core.register_action("deep", {"http-req"}, function(txn) local function deeper() return 1 + deeper() end deeper() end)
core.register_fetches("bad", function(txn) error("bad fetch") end)
core.register_converters("bad", function(text) error("bad converter") end)""",
        f"""http-request lua.bad if {{ path /bad }}
    http-request lua.table if {{ path /table }}
    http-request lua.deep if {{ path /deep }}
    {RETURN}"%[lua.bad]%[path,lua.bad]done" """)
    # HAProxy's watchdog ends the process where the stack overflows.
    paths = ("/bad", "/table", "/") if world.haproxy else ("/bad", "/table", "/deep", "/")
    assert [world.ask(path)[-4:] for path in paths] == ["done"] * len(paths)
    said = world.said()
    assert re.search(r"Lua function 'bad': \[state-id \d\] runtime error: \S+/script.lua:4: attempt to index a nil value \(local 'nothing'\) from ", said), said
    assert "Lua function 'table': " in said and "unknown runtime error" in said
    assert world.haproxy or re.search(r"Lua function 'deep': .*(stack overflow|execution timeout)", said)
    assert re.search(r"Lua sample-fetch 'bad': \[state-id \d\] runtime error: \S+:8: bad fetch", said)
    assert re.search(r"Lua \S+ 'bad': \[state-id \d\] runtime error: \S+:9: bad converter", said)


ENDLESS = ["while true do end", "while true do pcall(function() while true do end end) end", "table.sort({1, 2, 3}, function() while true do end end)",
           "string.gsub('aaa', 'a', function() while true do end end)"]


@pytest.mark.parametrize("code", ENDLESS)
def test_an_endless_action_ends_and_others_go_on(world, code):
    if world.haproxy:
        pytest.skip("HAProxy does not end all of them")
    world.serve(f'core.register_action("loop", {{"http-req"}}, function(txn) {code} end)',
                f'http-request lua.loop if {{ path /loop }}\n    {RETURN}"done"',
                global_lines="tune.lua.session-timeout 600ms\n    tune.lua.burst-timeout 200ms")
    answers = []
    looping = threading.Thread(target=lambda: answers.append(world.ask("/loop")))
    began = time.monotonic()
    looping.start()
    others = [world.ask() for _ in range(50)]
    looping.join()
    assert answers[0].endswith("done") and time.monotonic() - began < 5
    assert all(answer.endswith("done") for answer in others)
    assert "Lua function 'loop': " in (said := world.said()) and "execution timeout" in said, said


def test_the_watchdog_waits_for_the_limit_of_a_script(world):
    """A call that cannot pause ends at its own limit, which may be longer than the watchdog's patience with others."""
    if world.haproxy:
        pytest.skip("its watchdog ends the process")
    world.serve('core.register_fetches("loop", function(txn) while true do end end)', f'{RETURN}"%[lua.loop]done"',
                global_lines="tune.lua.session-timeout 1600ms\n    tune.lua.burst-timeout 1600ms")
    assert world.ask().endswith("done")
    assert "Lua sample-fetch 'loop': " in (said := world.said()) and "execution timeout" in said, said


def test_memory_is_bounded(world):
    if world.haproxy:
        pytest.skip("HAProxy counts otherwise")
    world.serve("""
core.register_action("grow", {"http-req"}, function(txn) local all = {} while true do all[#all + 1] = string.rep("x", 1000) .. #all end end)
""", f'http-request lua.grow if {{ path /grow }}\n    {RETURN}"done"', global_lines="tune.lua.maxmem 16")
    for _ in range(3):
        assert world.ask("/grow").endswith("done")
    assert world.said().count("out of memory error") == 3


def test_objects_of_an_ended_stream_are_errors(world):
    if world.haproxy:
        pytest.skip("HAProxy may crash")
    world.serve("""
core.register_action("keep", {"http-req"}, function(txn) kept, fetches, heads = txn, txn.f, txn.http end)
core.register_fetches("use", function(txn)
    if kept == nil then return "none" end
    local function text(...) local ok, message = pcall(...) return tostring(ok) .. ":" .. tostring(message):match("[^:]*$") end
    return text(kept.get_var, kept, "txn.a") .. "|" .. text(fetches.path, fetches) .. "|" .. text(heads.req_get_headers, heads)
end)""", f'http-request lua.keep if {{ path /keep }}\n    {RETURN}"%[lua.use]"')
    for _ in range(8):
        world.ask("/keep")
    answers = {world.ask().partition("\r\n\r\n")[2] for _ in range(8)} - {"none"}
    assert answers == {"|".join(["false:the object belongs to a stream that has ended"] * 3)}


@pytest.mark.parametrize("value", ["a\\r\\nx-evil: 1", "a\\nb", "a\\0b"])
def test_headers_cannot_be_injected(world, value):
    if world.haproxy:
        pytest.skip("HAProxy forwards them")
    world.serve(f"""
core.register_action("inject", {{"http-req"}}, function(txn)
    local found = {{}}
    for _, edit in ipairs({{"req_set_header", "req_add_header"}}) do found[#found + 1] = tostring(pcall(txn.http[edit], txn.http, "x-a", "{value}")) end
    found[#found + 1] = tostring(pcall(txn.http.req_set_path, txn.http, "/a b"))
    found[#found + 1] = tostring(pcall(txn.http.req_set_method, txn.http, "GET /x HTTP/1.1\\r\\n"))
    found[#found + 1] = tostring(pcall(txn.http.req_set_header, txn.http, "a b", "x"))
    txn:set_var("txn.found", table.concat(found, " "))
end)""", f'http-request lua.inject\n    {RETURN}"%[var(txn.found)]|%[req.hdr(x-a)]|%[path]"')
    assert world.ask().endswith("false false false false false||/")


def test_tcp_rules_run_actions(world):
    world.serve("""
core.register_action("look", {"tcp-req"}, function(txn)
    txn:set_var("txn.port", txn.f:dst_port())
    core.msleep(10)
    if txn.sf:req_payload(0, 4) == "evil" then return act.DENY end
end)
core.register_fetches("port", function(txn) return txn:get_var("txn.port") end)""", f"""tcp-request inspect-delay 2s
    tcp-request content accept if {{ always_false }}
    tcp-request content lua.look
    {RETURN}"%[lua.port]" """)
    assert world.ask().endswith(str(world.port))


def test_arguments_of_the_line_and_core_values(world):
    world.serve("""
local one, two = ...
local threads = core.thread
core.register_fetches("facts", function(txn)
    local parts = core.tokenize("a,b;;c", ",;")
    local kept = core.tokenize("a,b;;c", ",;", true)
    return table.concat({one, two, #parts, #kept, kept[3], core.info, core.emerg, core.silent, math.type(core.now().sec)}, " ")
        .. " " .. (threads > 0 and "own" or "shared")
end)
core.register_init(function() ready = "ran" end)
core.register_fetches("ready", function() return ready end)""", f'{RETURN}"%[lua.facts] %[lua.ready]"')
    kind = "own" if world.load == "lua-load-per-thread" else "shared"
    assert world.ask().endswith(f"first second 4 3 c 6 0 -1 integer {kind} ran")


def test_messages_of_scripts_are_printed_without_a_logger(world):
    world.serve("""
core.Debug("debug text") core.Info("info text") core.Warning("warning text") core.Alert("alert text")
core.log(core.notice, "notice text")
core.register_action("say", {"http-req"}, function(txn) txn:Warning("of a stream") txn:log(core.err, "an error") end)""",
        f'http-request lua.say\n    {RETURN}"done"')
    world.ask()
    said = world.said()
    assert "debug text" not in said
    for level in ("info", "warning", "alert", "notice"):
        assert re.search(rf"\[{level}\] \d{{3}}/\d{{6}} \(\d+\) : {level} text", said), said
    assert "of a stream" in said and "an error" in said


LOAD_ERRORS = [
    ("x = = 1", "error in Lua file '{path}': {path}:1: unexpected symbol near '='"),
    ("\nerror('boom')", "Lua runtime error: {path}:2: boom"),
    ("core.nonexist()", "Lua runtime error: {path}:1: attempt to call a nil value (field 'nonexist')"),
    ("core.register_action('a', 'http-req', print)", "Lua runtime error: {path}:1: register_action: second argument must be a table of strings"),
    ("core.register_action('a', {'no'}, print)", "Lua action environment 'no' is unknown. 'tcp-req', 'tcp-res', 'http-req', 'http-res' or 'http-after-res' are expected."),
    ("core.register_action('a', {'http-req'}, 5)", "Lua runtime error: {path}:1: bad argument #3 to 'register_action' (function expected, got number)"),
    ("core.register_action('a')", "Lua runtime error: {path}:1: 'register_action' needs between 3 and 4 arguments"),
    ("require('none')", "module 'none' not found:"),
]


def test_the_body_and_init_functions_sleep(world):
    """The documentation has both among the places of core.sleep and core.msleep. HAProxy 3.2 goes on at once."""
    began = time.monotonic()
    world.serve("""
core.msleep(200)
coroutine.wrap(function() core.msleep(200) core.yield() end)()
core.register_init(function() core.msleep(200) core.yield() core.wait(100) core.wait() end)
core.register_fetches("f", function() return "awake" end)""", f'{RETURN}"%[lua.f]"')
    assert world.haproxy or time.monotonic() - began >= 0.7
    assert world.ask().endswith("awake")


@pytest.mark.parametrize("script, message", LOAD_ERRORS, ids=[script for script, _ in LOAD_ERRORS])
def test_errors_of_loading_have_a_place(world, script, message):
    code, said = world.check(script)
    assert code == 1 and f"parsing [{world.folder.path}/weir.cfg:" in said, said
    assert message.replace("{path}", f"{world.folder.path}/script.lua") in said, said


@pytest.mark.parametrize("libraries, found", [("all", "table table table"), ("none", "nil nil nil"), ("string,math", "nil table nil")])
def test_only_chosen_libraries_are_open(world, libraries, found):
    if world.haproxy:
        pytest.skip("a word of 3.5")
    world.serve('core.register_fetches("found", function() return type(os) .. " " .. type(string) .. " " .. type(io) end)', f'{RETURN}"%[lua.found]"',
                global_lines=f"tune.lua.openlibs {libraries}")
    assert world.ask().endswith(found)


def test_modules_are_found_in_prepended_paths(world):
    world.folder.file("greeting.lua", 'return {text = "hello"}')
    world.serve("""
local greeting = require("greeting")
core.register_fetches("greeting", function() return greeting.text end)""", f'{RETURN}"%[lua.greeting]"',
        global_lines=f"lua-prepend-path {world.folder.path}/?.lua")
    assert world.ask().endswith("hello")


def test_a_worker_with_a_master_in_a_jail_runs_scripts(world):
    """The files are read before the process confines itself."""
    needs_root()
    os.chmod(world.folder.path, 0o755)
    path = world.file('core.register_fetches("f", function() return "from the jail" end)', f'{RETURN}"%[lua.f]"',
                      global_lines=f"chroot {world.folder.path}\n    uid 65534\n    gid 65534")
    world.program = Program(world.binary, "-W", "-db", "-f", path).__enter__()
    assert wait_until(world.answers)
    assert world.ask().endswith("from the jail")
    assert run(world.binary, "-c", "-f", path)[0] == 0


SLOW_FETCHES = """
core.register_fetches("slow", function(txn) local stop = os.clock() + 0.7 while os.clock() < stop do end return "slow" end)
core.register_fetches("quick", function(txn) return "quick" end)"""


@pytest.mark.parametrize("world", ["lua-load"], indirect=True)
@pytest.mark.parametrize("rules", [
    "http-request return status 200 content-type text/plain lf-string %[lua.quick] if {{ path /quick }}\n    {ends}",
    "http-request return status 200 content-type text/plain string quick if {{ path /quick }} {{ lua.quick -m str quick }}\n    {ends}",
    "use_backend %[lua.quick] if {{ path /quick }}\n    {ends}\nbackend quick\n    http-request return status 200 content-type text/plain string quick",
    "redirect prefix /quick if {{ path /quick }} {{ lua.quick -m str quick }}\n    {ends}",
], ids=["an action", "a condition", "use_backend", "redirect"])
def test_rules_wait_for_the_shared_state_as_tasks(world, rules):
    """A slow fetch holds up the rules that use its state, and not the other streams of their threads."""
    if world.haproxy:
        pytest.skip("HAProxy's threads wait for its lock")
    ends = 'http-request return status 200 content-type text/plain string done if !{ path /quick }\n    default_backend done\nbackend done\n    http-request return status 200 content-type text/plain string done'
    world.serve(held_fetches(world), "http-request set-var(txn.slow) lua.slow if { path /slow }\n    " + rules.format(ends=ends), global_lines=PATIENCE)
    quick_streams_wait(world)


@pytest.mark.parametrize("world", ["lua-load"], indirect=True)
@pytest.mark.parametrize("lines", [
    "use-server quick if { lua.quick -m str quick }", "use-server %[lua.quick] if TRUE", "use-server quick if { str(x),lua.same -m str x }",
    "force-persist if { lua.quick -m str quick }\n    cookie c insert", "stick-table type string size 10\n    stick on lua.quick",
    "stick-table type string size 10\n    stick match path if { lua.quick -m str quick }", "stick-table type string size 10\n    stick store-response lua.quick", "balance hash lua.quick",
])
def test_the_choice_of_a_server_waits_for_the_shared_state_as_a_task(world, lines):
    """No call of its rules fails while the state is busy for long."""
    if world.haproxy:
        return
    with Origin(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nquick") as origin:
        world.serve(f"{held_fetches(world)}\ncore.register_converters('same', function(value) return value end)", f"""
    http-request set-var(txn.slow) lua.slow if {{ path /slow }}
    http-request return status 200 content-type text/plain string done if !{{ path /quick }}
    default_backend b
backend b
    {lines}
    server first 127.0.0.1:{origin.port}
    server quick 127.0.0.1:{origin.port}""", global_lines=PATIENCE)
        quick_streams_wait(world, others=0)


# The fetch below computes until the test lets it end, also on a machine that stalls.
PATIENCE = "tune.lua.burst-timeout 30s\n    tune.lua.session-timeout 30s"


def held_fetches(world):
    """A fetch that computes until there is a file, and one that returns at once."""
    return f"""
core.register_fetches("slow", function(txn)
    io.open("{world.folder.path}/began", "w"):close()
    while not io.open("{world.folder.path}/end") do end
    return "slow"
end)
core.register_fetches("quick", function(txn) return "quick" end)"""


def quick_streams_wait(world, others=16):
    """Streams that use the shared state wait for a slow fetch, and the others of their threads do not."""
    slow = [world.connect("/slow", seconds=20)]
    assert wait_until(lambda: os.path.exists(f"{world.folder.path}/began"))
    quick = [world.connect("/quick", seconds=20) for _ in range(8)]
    time.sleep(0.1)
    others = [world.connect("/other", seconds=20) for _ in range(others)]
    # One thread computes; the other one, with streams that wait for the state, goes on.
    readable = lambda clients: select.select(clients, [], [], 0)[0]
    assert wait_until(lambda: len(readable(others)) >= min(2, len(others)))
    assert not readable(slow + quick)
    world.folder.file("end", "")
    answers = [b"".join(iter(lambda client=client: client.recv(65536), b"")) for client in slow + quick + others]
    assert all(answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 302")) for answer in answers), answers
    assert sum(b"quick" in answer for answer in answers) == 8
    assert "calls have failed" not in world.said()


@pytest.mark.parametrize("world", ["lua-load"], indirect=True)
def test_log_lines_try_the_shared_state_for_a_moment(world):
    """A log line cannot wait. Its fetch fails, and the log counts such calls."""
    if world.haproxy:
        pytest.skip("as above")
    with LogServer() as logs:
        world.serve(SLOW_FETCHES, f'log 127.0.0.1:{logs.port} local0\n    log-format "%[lua.quick] %HP"\n    http-request set-var(txn.slow) lua.slow if {{ path /slow }}\n    {RETURN}"done"')
        slow = [world.connect("/slow") for _ in range(4)]
        time.sleep(0.1)
        for _ in range(20):
            assert world.ask("/other").endswith("done")
        assert all(b"".join(iter(lambda client=client: client.recv(65536), b"")).endswith(b"done") for client in slow)
        assert logs.wait_for(r"quick /"), logs.lines
        failed = [line for line in logs.lines if line.startswith("- /")]
        assert not failed or any("calls have failed so far" in line for line in logs.lines), logs.lines
