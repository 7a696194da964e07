"""Modules in C as Debian ships them for Lua 5.4: they find Lua's API in the program, in each way to load a script."""
import hmac
import json
import os
import re
import subprocess

import pytest

from lib.needs import needs_root
from lib.program import Program, wait_until

RETURN = 'http-request return status 200 content-type text/plain lf-string '


def test_each_module_works(world):
    world.serve("""
local cjson, lpeg, re, socket = require("cjson"), require("lpeg"), require("re"), require("socket")
local digest, hmac, bignum, ssl = require("openssl.digest"), require("openssl.hmac"), require("openssl.bignum"), require("ssl")
local function hex(bytes) return (bytes:gsub(".", function(byte) return ("%02x"):format(byte:byte()) end)) end
local uses = {
    json = function() return cjson.encode({a = {1, 2, cjson.null, "x"}}) .. cjson.decode('{"b": [true, 1.5]}').b[2] end,
    match = function(txn)
        local name = lpeg.C(lpeg.R("az") ^ 1)
        local list = lpeg.Ct(name * ("," * name) ^ 0)
        return table.concat(list:match(txn.sf:req_fhdr("x-list")), "+") .. re.find("see 127", "[0-9]+")
    end,
    time = function() return tostring(math.abs(socket.gettime() - core.now().sec) < 60) end,
    digest = function() return hex(digest.new("sha256"):final("abc")):sub(1, 16) end,
    hmac = function() return hex(hmac.new("key", "sha1"):final("text")):sub(1, 16) end,
    number = function() return tostring(bignum.new(2) ^ 80) end,
    tls = function() return type(ssl.newcontext({mode = "client", protocol = "tlsv1_2"})) end,
    fails = function() return tostring(select(2, pcall(cjson.decode, "{"))) end,
}
for name, use in pairs(uses) do core.register_fetches(name, use) end""",
        f'{RETURN}"%[lua.json]|%[lua.match]|%[lua.time]|%[lua.digest]|%[lua.hmac]|%[lua.number]|%[lua.tls]|%[lua.fails]"')
    expected = ['{"a":[1,2,null,"x"]}1.5', "one+two5", "true", "ba7816bf8f01cfea", hmac.new(b"key", b"text", "sha1").hexdigest()[:16],
                "1208925819614629174706176", "userdata", "Expected object key string but found T_END at character 2"]
    for _ in range(6):
        assert world.ask("/", "X-List: one,two").partition("\r\n\r\n")[2].split("|") == expected


def test_a_module_makes_and_reads_large_values(world):
    world.serve("""
local cjson = require("cjson")
core.register_action("large", {"http-req"}, function(txn)
    local list = {}
    for i = 1, 20000 do
        list[i] = {id = i, name = ("n"):rep(20)}
        if i % 5000 == 0 then core.yield() end
    end
    local text = cjson.encode(list)
    core.msleep(5)
    local again = cjson.decode(text)
    txn:set_var("txn.result", #text .. " " .. #again .. " " .. again[20000].id)
end)""", f'http-request lua.large\n    {RETURN}"%[var(txn.result)]"')
    text = json.dumps([{"id": i, "name": "n" * 20} for i in range(1, 20001)], separators=(",", ":"))
    assert world.ask().endswith(f"{len(text)} 20000 20000.0")


def test_bounds_hold_in_calls_of_a_module(world):
    """The time of a function that a module calls, and the memory that a module takes."""
    world.serve("""
local cjson, lpeg = require("cjson"), require("lpeg")
local endless = lpeg.Cmt("", function() while true do end end)
local text = "[" .. ("[],"):rep(200000) .. "1]"
core.register_fetches("endless", function() return endless:match("abc") end)
core.register_fetches("greedy", function()
    local all = {}
    while true do all[#all + 1] = cjson.decode(text) end
end)
core.register_fetches("works", function() return cjson.encode({#cjson.decode("[1,2]")}) end)""",
        f"""http-request set-var(txn.x) lua.endless if {{ path /endless }}
    http-request set-var(txn.x) lua.greedy if {{ path /greedy }}
    {RETURN}"%[lua.works]" """, global_lines="tune.lua.session-timeout 300ms\n    tune.lua.burst-timeout 300ms\n    tune.lua.maxmem 64")
    # The bounds are CPU time. A busy machine gives little of it.
    assert [world.ask(path, seconds=60)[-3:] for path in ("/endless", "/greedy", "/endless", "/greedy", "/")] == ["[2]"] * 5
    said = world.said()
    assert re.search(r"Lua sample-fetch 'endless': .*(execution|burst) timeout", said), said
    assert re.search(r"Lua sample-fetch 'greedy': .*(out of memory error|timeout)", said), said


def test_modules_work_in_a_jail(world):
    """They are loaded before the process confines itself."""
    needs_root()
    os.chmod(world.folder.path, 0o755)
    path = world.file("""
local cjson, lpeg, socket, ssl = require("cjson"), require("lpeg"), require("socket"), require("ssl")
local digest = require("openssl.digest")
core.register_fetches("f", function()
    local context = ssl.newcontext({mode = "client", protocol = "any"})
    return cjson.encode({lpeg.P("a"):match("ab"), #digest.new("sha256"):final("x"), socket.gettime() > 0, type(context)})
end)""", f'{RETURN}"%[lua.f]"', global_lines=f"chroot {world.folder.path}\n    uid 65534\n    gid 65534")
    world.program = Program(world.binary, "-W", "-db", "-f", path).__enter__()
    assert wait_until(world.answers)
    assert world.ask().endswith('[2,32,true,"userdata"]')


@pytest.mark.parametrize("variables", [{}, {"LUA_CPATH": "/nowhere/?.so;;", "LUA_PATH": ";;"}, {"LUA_CPATH_5_4": "/nowhere/?.so", "LUA_PATH": "/none/?.lua"}],
                         ids=["default", "added", "replaced"])
def test_paths_are_those_of_the_system(world, variables, monkeypatch):
    """The same as in Debian's own Lua, and in HAProxy."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    _, said = world.check("print(package.path) print(package.cpath)")
    expected = subprocess.run(["lua5.4", "-e", "print(package.path) print(package.cpath)"], check=True, capture_output=True, text=True).stdout
    assert expected in said


def test_the_program_exports_the_interface_of_lua_alone(world):
    if world.haproxy:
        pytest.skip("Lua is in a library of its own")
    names = subprocess.run(["nm", "--dynamic", "--defined-only", "--format=just-symbols", world.binary], check=True, capture_output=True, text=True).stdout.split()
    others = [name for name in names if not re.match(r"lua_|luaL_|luaopen_", name)]
    # The program itself uses neither luaL_openlibs nor lua_dump.
    assert {"lua_newuserdatauv", "luaL_openlibs", "luaL_traceback", "lua_gc", "luaopen_utf8", "lua_dump", "lua_ident"} <= set(names)
    assert not others
