"""Errors of scripts when a configuration is loaded, by `-c`. HAProxy's text is a line; the words of every program are in the last column."""
import pytest

from lib.program import Folder, run

CONFIGURATION = """
global
    {conversion}
    {global_lines}
defaults
    mode http
    timeout connect 1s
    timeout client 1s
    timeout server 1s
frontend f
    bind 127.0.0.1:1
    {frontend}
"""

# Name, the script, the lines of the frontend, the status, and the words of the diagnostic.
CASES = [
    ("an empty script", "", "", 0, ()),
    ("a syntax error", "local x = = 1", "", 1, ("script.lua", "1", "unexpected symbol near '='")),
    ("a syntax error on a later line", "local a = 1\n\nend", "", 1, ("script.lua", "3", "near 'end'")),
    ("a runtime error", "error('broken')", "", 1, ("script.lua", "1", "broken")),
    ("a runtime error on a later line", "local a = 1\nlocal b = nil\nb()", "", 1, ("script.lua", "3", "attempt to call a nil value (local 'b')")),
    ("an error with a table", "error({})", "", 1, ()),
    ("an error with nil", "error(nil)", "", 1, ()),
    ("os.exit is not a load error", "local x = os.exit", "", 0, ()),
    ("require of a missing module", "require('no_such_module')", "", 1, ("no_such_module", "not found")),
    ("core.done in the body", "core.done() error('after')", "", None, ()),
    ("a task with an error is not run", "core.register_task(function() error('broken') end)", "", 0, ()),
    ("an init with an error is not run", "core.register_init(function() error('broken') end)", "", 0, ()),
    ("an init that logs", "core.register_init(function() core.Info('init ran') end)", "", 0, ()),
    ("an action", "core.register_action('a', {'http-req'}, function() end)", "http-request lua.a", 0, ()),
    ("an unknown action", "", "http-request lua.none", 1, ("lua.none",)),
    ("an action in another ruleset", "core.register_action('a', {'http-res'}, function() end)", "http-request lua.a", 1, ("lua.a",)),
    ("an action of http-after-res", "core.register_action('a', {'http-after-res'}, function() end)", "http-after-response lua.a", 0, ()),
    ("an action without its arguments", "core.register_action('a', {'http-req'}, function() end, 2)", "http-request lua.a one", 1, ("2",)),
    ("an action with its arguments", "core.register_action('a', {'http-req'}, function() end, 2)", "http-request lua.a one two if { path / }", 0, ()),
    ("an action with too many arguments", "core.register_action('a', {'http-req'}, function() end, 1)", "http-request lua.a one two", 1, ("two",)),
    ("a fetch", "core.register_fetches('f', function() return 'x' end)", "http-request set-header x %[lua.f]", 0, ()),
    ("an unknown fetch", "", "http-request set-header x %[lua.none]", 1, ("lua.none",)),
    ("a fetch with six arguments", "core.register_fetches('f', function() return 'x' end)", "http-request set-header x %[lua.f(1,2,3,4,5,6)]", None, ()),
    ("a fetch with thirteen arguments", "core.register_fetches('f', function() return 'x' end)", "http-request set-header x %[lua.f(1,2,3,4,5,6,7,8,9,10,11,12,13)]", None, ()),
    ("a converter", "core.register_converters('c', function(v) return v end)", "http-request set-header x %[path,lua.c]", 0, ()),
    ("an unknown converter", "", "http-request set-header x %[path,lua.none]", 1, ("lua.none",)),
    ("a service", "core.register_service('s', 'http', function() end)", "http-request use-service lua.s", 0, ()),
    ("an unknown service", "", "http-request use-service lua.none", 1, ("lua.none",)),
    ("a service of HTTP in tcp-request", "core.register_service('s', 'http', function() end)", "tcp-request content use-service lua.s", 1, ("tcp-request",)),
    ("a service of TCP in http-request", "core.register_service('s', 'tcp', function() end)", "http-request use-service lua.s", 1, ("use-service",)),
    ("one action twice", "for i = 1, 2 do core.register_action('a', {'http-req'}, function() end) end", "http-request lua.a", 0, ()),
    ("one service twice", "for i = 1, 2 do core.register_service('s', 'http', function() end) end", "http-request use-service lua.s", 0, ()),
    ("a name with a space", "core.register_action('a b', {'http-req'}, function() end)", "", 0, ()),
    ("a map that is missing", "Map.new('/none.map', Map._str)", "", 1, ("/none.map",)),
    ("a command of the CLI that exists", "core.register_cli({'show', 'info'}, 'usage', function() end)", "", None, ()),
    ("a filter", "local F = {} F.__index = F function F:new() return setmetatable({}, F) end core.register_filter('f', F, function(f) return f end)", "filter lua.f", 0, ()),
    ("a filter without new", "core.register_filter('f', {}, function(f) return f end)", "filter lua.f", None, ()),
    ("an unknown filter", "", "filter lua.none", 1, ("lua.none",)),
    ("globals of an earlier script", "assert(from_first == 5)", "", 0, ()),
    ("the proxies in init", "core.register_init(function() assert(core.frontends.f) end)", "", 0, ()),
    ("msleep in the body", "core.msleep(5)", "", 0, ()),
    ("a stack overflow", "local function f() return 1 + f() end f()", "", 1, ("stack overflow",)),
]


def check(binary, script, frontend="", load="lua-load {folder}/script.lua", conversion="tune.lua.bool-sample-conversion normal"):
    """The status and the diagnostics."""
    with Folder() as folder:
        if script is not None:
            folder.file("script.lua", script)
        folder.file("first.lua", "from_first = 5")
        lines = "lua-load {folder}/first.lua\n    ".replace("{folder}", folder.path) + load.replace("{folder}", folder.path)
        path = folder.file("lua.cfg", CONFIGURATION.format(conversion=conversion, global_lines=lines, frontend=frontend))
        status, out, errors = run(binary, "-c", "-f", path)
        return status, (out + errors).replace(folder.path, "FOLDER")


# What HAProxy does where the manual gives no status, or where HAProxy departs from it (core.done does nothing in the body). Another program may decide.
HAPROXY = {
    "core.done in the body": 1, "a fetch with six arguments": 0, "a fetch with thirteen arguments": 1, "a filter without new": 0,
    # It ends with a fault.
    "a command of the CLI that exists": -11,
}


@pytest.fixture
def settled(program):
    """The value of tune.lua.bool-sample-conversion, where the version has it."""
    return "" if program[1] == "2.6" else "tune.lua.bool-sample-conversion normal"


@pytest.mark.parametrize("name, script, frontend, status, tells", CASES, ids=[case[0] for case in CASES])
def test_scripts(program, settled, name, script, frontend, status, tells):
    if program[1] == "2.6" and "http-after-res" in script:
        pytest.skip("not in 2.6")
    found, text = check(program[0], script, frontend, conversion=settled)
    if status is not None:
        assert found == status, text
    elif program[1] != "weir":
        assert found == HAPROXY[name], text
    for word in tells:
        assert word in text, text


def test_an_init_with_an_error_ends_the_start(program, settled):
    with Folder() as folder:
        script = folder.file("script.lua", "core.register_init(function() error('broken') end)")
        path = folder.file("lua.cfg", CONFIGURATION.format(conversion=settled, global_lines=f"lua-load {script}", frontend="").replace("127.0.0.1:1", f"unix@{folder.path}/s"))
        status, out, errors = run(program[0], "-db", "-f", path)
    assert status == 1 and "broken" in out + errors, out + errors


@pytest.mark.parametrize("load, status, tells", [
    ("lua-load {folder}/none.lua", 1, ("none.lua",)), ("lua-load", 1, ("lua-load",)), ("lua-load {folder}", 1, ()), ("lua-load-per-thread {folder}/script.lua", 0, ()),
    ("lua-load-per-thread {folder}/none.lua", 1, ("none.lua",)), ("lua-prepend-path {folder}/?.lua\n    lua-load {folder}/script.lua", 0, ()),
    ("lua-prepend-path {folder}/?.so cpath\n    lua-load {folder}/script.lua", 0, ()), ("lua-prepend-path {folder}/?.lua nothing", 1, ("lua-prepend-path",)),
    ("tune.lua.maxmem 16\n    lua-load {folder}/script.lua", 0, ()), ("tune.lua.forced-yield 100\n    lua-load {folder}/script.lua", 0, ()),
    ("tune.lua.session-timeout 1s\n    tune.lua.service-timeout 1s\n    tune.lua.task-timeout 1s\n    lua-load {folder}/script.lua", 0, ()),
    ("tune.lua.maxmem x", 1, ("maxmem",)), ("tune.lua.session-timeout x", 1, ("session-timeout",)),
], ids=lambda value: value.replace("\n    ", "; ") if isinstance(value, str) else "")
def test_lines(program, settled, load, status, tells):
    found, text = check(program[0], "local x = 1", load=load, conversion=settled)
    assert found == status, text
    for word in tells:
        assert word in text, text


def test_script_arguments(program, settled):
    """`lua-load FILE one two` gives `...`."""
    if program[1] == "2.6":
        pytest.skip("not in 2.6")
    found, text = check(program[0], "local a, b = ... assert(a == 'one' and b == 'two', tostring(a))", load="lua-load {folder}/script.lua one two", conversion=settled)
    assert found == 0, text


def test_a_module_beside_the_script(program, settled):
    found, text = check(program[0], "require('first')", load="lua-prepend-path {folder}/?.lua\n    lua-load {folder}/script.lua", conversion=settled)
    assert found == 0, text


def test_a_script_that_allocates_more_than_maxmem(program, settled):
    found, text = check(program[0], "local t = string.rep('x', 64 * 1024 * 1024)", load="tune.lua.maxmem 16\n    lua-load {folder}/script.lua", conversion=settled)
    assert found == 1 and "memory" in text, text


def test_a_conversion_that_is_not_chosen_warns(program):
    if program[1] == "2.6":
        pytest.skip("not in 2.6")
    found, text = check(program[0], "", conversion="")
    assert found == 0 and "tune.lua.bool-sample-conversion" in text, text


def test_a_conversion_after_a_script_is_refused(program):
    if program[1] == "2.6":
        pytest.skip("not in 2.6")
    found, text = check(program[0], "", load="lua-load {folder}/script.lua\n    tune.lua.bool-sample-conversion normal", conversion="")
    assert "tune.lua.bool-sample-conversion" in text, (found, text)
