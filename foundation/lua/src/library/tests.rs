//! Our functions against those of Lua, which are open under another name.

use std::sync::Arc;

use super::*;
use crate::{LuaHost, LuaState, MemoryBudget, RunBounds};

struct Host;

impl LuaHost for Host {
    type Target = ();
    type Wait = ();
}

/// Runs a text that raises an error if something differs.
fn check(text: &str) {
    let mut state = LuaState::new(Host, Arc::new(MemoryBudget::new(64 << 20))).unwrap();
    let raw = state.raw;
    // The original libraries first: that of strings sets the metatable of strings.
    raw.open_library(c"plain_base", ffi::luaopen_base);
    raw.open_library(c"plain_string", ffi::luaopen_string);
    raw.open_library(c"plain_table", ffi::luaopen_table);
    raw.open_library(c"plain_coroutine", ffi::luaopen_coroutine);
    raw.push_element(REGISTRY, ffi::LUA_RIDX_GLOBALS);
    let original = ["setmetatable", "xpcall"];
    for name in original {
        raw.push_bytes(name.as_bytes());
        raw.push_value_of_key(-2);
        set_field(raw, &format!("plain_{name}"));
    }
    raw.pop(1);
    for name in ["base", "string", "table", "coroutine", "math", "debug"] {
        assert!(open(raw, name));
    }
    let text = format!("{PRELUDE}{text}");
    let function = state.load(text.as_bytes(), "@test").unwrap_or_else(|error| panic!("{error}"));
    let called = state.call(function, None, RunBounds::NONE, |_| {}, |_| ());
    called.unwrap_or_else(|error| panic!("{error} {}", error.traceback));
}

/// `same(what, one, other, ...)` calls both functions with the arguments: results and errors are the same.
const PRELUDE: &str = r#"
local function show(...)
    local shown = {}
    for i = 1, select('#', ...) do
        local value = select(i, ...)
        shown[i] = type(value) == 'string' and ('%q'):format(value) or tostring(value)
    end
    return plain_table.concat(shown, ', ')
end
-- The name of a function in a message depends on the order of tables.
local function plain(shown)
    return (shown:gsub('plain_base%.', ''):gsub('plain_', ''):gsub('_G%.', ''))
end
local function same(what, one, other, ...)
    local ours, theirs = plain(show(pcall(one, ...))), plain(show(pcall(other, ...)))
    if ours ~= theirs then
        error(('%s(%s): %s, but Lua has %s'):format(what, show(...), ours, theirs))
    end
end
math.randomseed(4711)
local function pick(list) return list[math.random(#list)] end
"#;

#[test]
fn patterns_match_as_in_lua() {
    check(
        r#"
        local items = {'a', 'b', '.', '%a', '%d', '%s', '%S', '%%', '%.', '[ab]', '[^a]', '[a-c]', '[%a_]', '[]]', '[^]]', '[a-]', '[%]]',
            '%b()', '%bab', '%f[%w]', '%f[^a]', '%1', '%2', '%0', '()', '(', ')', '(a', 'b)', '(a*)', '(.-)', '^', '$', '-', '\0', '[', '%', '%f',
            '[a', '[%', '[%a-z]', '%W', '%x', '%p', '%c', '%g', '%u', '%l', '%z', 'é'}
        local suffixes = {'', '', '', '*', '+', '-', '?'}
        local letters = {'a', 'a', 'b', 'b', 'c', '1', ' ', '(', ')', '%', ']', '-', '.', '_', '\0', '\n', '\v', '\200', '^', '$'}
        local replacements = {'x', '%0', '%1', '<%1%2>', '%%', '%', '%z', '', {a = 'A', b = false, [1] = 'one'}, {},
            function(...) return select('#', ...) == 1 and ... or nil end, function() return false end, function() return {} end, 7, true}
        local function text(list, most)
            local parts = {}
            for i = 1, math.random(0, most) do parts[i] = pick(list) .. (list == items and pick(suffixes) or '') end
            return plain_table.concat(parts)
        end
        local function all(gmatch)
            return function(...)
                local found, count = {}, 0
                for one, two, three in gmatch(...) do
                    found[#found + 1] = show(one, two, three)
                    count = count + 1
                    if count > 100 then break end
                end
                return plain_table.concat(found, ';')
            end
        end
        for round = 1, 15000 do
            local subject, pattern = text(letters, 12), text(items, 5)
            local init = math.random(4) == 1 and math.random(-15, 15) or nil
            same('find', string.find, plain_string.find, subject, pattern, init)
            same('find', string.find, plain_string.find, subject, text(letters, 3), init, true)
            same('match', string.match, plain_string.match, subject, pattern, init)
            same('gmatch', all(string.gmatch), all(plain_string.gmatch), subject, pattern, init)
            local most = math.random(4) == 1 and math.random(-1, 3) or nil
            same('gsub', string.gsub, plain_string.gsub, subject, pattern, pick(replacements), most)
        end
        "#,
    );
}

#[test]
fn functions_of_strings_and_tables_fail_as_in_lua() {
    check(
        r#"
        local values = {'text', '', 0, 1, 3, -1, 1.5, '2', true, {}, rawlen, math.maxinteger, math.mininteger}
        local function some(count)
            local list = {}
            for i = 1, count do list[i] = pick(values) end
            return plain_table.unpack(list, 1, count)
        end
        for _, name in ipairs {'find', 'match', 'gmatch', 'gsub'} do
            for round = 1, 2000 do
                -- Iterators have addresses.
                if name ~= 'gmatch' or round < 0 then
                    same(name, string[name], plain_string[name], some(math.random(0, 5)))
                end
            end
        end
        for round = 1, 300 do
            same('rep', string.rep, plain_string.rep, pick {'', 'a', 'abc'}, math.random(-1, 30), pick {nil, '', ',', '--'})
        end
        same('rep', string.rep, plain_string.rep, 'abc', math.maxinteger)
        same('rep', string.rep, plain_string.rep, 'abc', 3.5)
        same('rep', string.rep, plain_string.rep, ('abc'):rep(100000), 7, 'x')
        same('rep', string.rep, plain_string.rep, 'x', 3000000)
        "#,
    );
}

#[test]
fn tables_change_as_in_lua() {
    check(
        r#"
        local function both(what, one, other, make, ...)
            local ours, theirs = make(), make()
            local function with(list, ...) return list, ... end
            local results = plain(show(pcall(one, ours, ...)):gsub(tostring(ours), 'list'))
            local expected = plain(show(pcall(other, theirs, ...)):gsub(tostring(theirs), 'list'))
            local after, wanted = {}, {}
            for i = -3, 40 do after[i + 4], wanted[i + 4] = tostring(ours[i]), tostring(theirs[i]) end
            local a, b = plain_table.concat(after, ' '), plain_table.concat(wanted, ' ')
            if results ~= expected or a ~= b then
                error(('%s(%s): %s {%s}, but Lua has %s {%s}'):format(what, show(...), results, a, expected, b))
            end
        end
        for round = 1, 5000 do
            local length = math.random(0, 12)
            local values = {}
            for i = 1, length do values[i] = math.random(100) end
            local kind = math.random(3)
            local function make()
                local list = {plain_table.unpack(values, 1, length)}
                if kind == 1 then
                    return setmetatable({}, {__index = list, __newindex = list, __len = function() return length end})
                end
                return list
            end
            local function n() return math.random(-2, 14) end
            both('insert', table.insert, plain_table.insert, make, n(), 'new')
            both('insert', table.insert, plain_table.insert, make, 'new')
            both('insert', table.insert, plain_table.insert, make, 1, 2, 3)
            both('remove', table.remove, plain_table.remove, make, n())
            both('remove', table.remove, plain_table.remove, make)
            both('move', table.move, plain_table.move, make, n(), n(), n())
            both('concat', table.concat, plain_table.concat, make, ', ', n(), n())
            both('concat', table.concat, plain_table.concat, make)
            both('sort', table.sort, plain_table.sort, make)
            both('sort', table.sort, plain_table.sort, make, function(one, other) return one > other end)
            both('sort', table.sort, plain_table.sort, make, function(one, other) return true end)
        end
        both('move', table.move, plain_table.move, function() return {1} end, 1, math.maxinteger, 2)
        both('move', table.move, plain_table.move, function() return {1} end, 0, math.maxinteger, 2)
        same('insert', table.insert, plain_table.insert, 5, 6)
        same('move', table.move, plain_table.move, {}, 1, 2, 3, 'x')
        same('sort', table.sort, plain_table.sort, {3, 'x', 1})
        same('sort', table.sort, plain_table.sort, {3, 2, 1}, 5)
        -- Long lists, also those that quicksort splits badly.
        for _, of in ipairs {function(i) return i end, function(i) return -i end, function() return math.random(50) end} do
            local list = {}
            for i = 1, 3000 do list[i] = of(i) end
            table.sort(list)
            for i = 2, #list do assert(list[i - 1] <= list[i]) end
        end
        "#,
    );
}

#[test]
fn coroutines_and_protected_calls_go_as_in_lua() {
    check(
        r#"
        local function life(of)
            local seen = {}
            local function see(...) seen[#seen + 1] = show(...) end
            local one = of.create(function(...)
                see('begins', ...)
                see(of.yield(1, 2))
                see(select('#', of.yield()))
                local kept <close> = setmetatable({}, {__close = function(_, err) see('closes', err) end})
                of.yield('last')
                error('fails')
            end)
            for i = 1, 5 do see(of.status(one), of.resume(one, i, i)) end
            see(of.close(one))
            see(of.close(of.create(print)))
            see(pcall(of.close, of.running()))
            see(pcall(of.resume, 5))
            see(pcall(of.wrap, 5))
            see(pcall(of.wrap(function() error('in it') end)))
            see(pcall(of.wrap(function() error({}) end)) == false)
            local suspended = of.create(function()
                local kept <close> = setmetatable({}, {__close = function() error('close fails') end})
                of.yield()
            end)
            of.resume(suspended)
            see(of.close(suspended))
            local inner
            local outer = of.create(function() inner = of.create(function() return of.resume(outer) end) return of.resume(inner) end)
            see(of.resume(outer))
            see(pcall(of.wrap(function() return of.close(outer) end)))
            for value in of.wrap(function() for i = 1, 3 do of.yield(i) end end) do see(value) end
            return plain(plain_table.concat(seen, '\n'))
        end
        local ours, theirs = life(coroutine), life(plain_coroutine)
        if ours ~= theirs then error(ours .. '\nbut Lua has\n' .. theirs) end
        local function protected(xpcall)
            local function handler(text) return 'handled ' .. tostring(text) end
            local yields = coroutine.wrap(function() return xpcall(function(...) return coroutine.yield(...), 'more' end, handler, 1, 2) end)
            local fails = coroutine.wrap(function() return xpcall(function() coroutine.yield() error('late', 0) end, handler) end)
            fails()
            return show(xpcall(function(...) return select('#', ...), ... end, handler, 1, nil, 3)) .. show(xpcall(error, handler, 'x'))
                .. show(pcall(xpcall)) .. show(pcall(xpcall, print)) .. show(pcall(xpcall, print, 5)) .. show(yields()) .. show(yields('a')) .. show(fails())
                .. show(xpcall(error, function(text) error(text) end, 'y')) .. show(xpcall(function() local x = nil; x() end, handler))
        end

        local ours, theirs = plain(protected(xpcall)), plain(protected(plain_xpcall))
        if ours ~= theirs then error(ours .. '\nbut Lua has\n' .. theirs) end
        local function metatables(setmetatable)
            local t = setmetatable({}, {__metatable = 'kept'})
            return show(pcall(setmetatable, t, {})) .. show(pcall(setmetatable, 5, {})) .. show(pcall(setmetatable, {})) .. show(pcall(setmetatable, {}, 5))
                .. show(getmetatable(t)) .. show(getmetatable(setmetatable(setmetatable({}, {}), nil)))
        end
        local ours, theirs = plain(metatables(setmetatable)), plain(metatables(plain_setmetatable))
        if ours ~= theirs then error(ours .. '\nbut Lua has\n' .. theirs) end
        "#,
    );
}

#[test]
fn finalizers_run_as_in_lua() {
    check(
        r#"
        local function life(setmetatable)
            local seen = {}
            local function see(...) seen[#seen + 1] = show(...) end
            local class = {__gc = function(object) see('first', object.name, getmetatable(object).__gc ~= nil) end}
            for i = 1, 5 do setmetatable({name = i}, class) end
            collectgarbage()
            -- A finalizer that changes later, one that comes too late, one that is not a function.
            local changed, late = {__gc = true}, {}
            do
                local one, two = setmetatable({name = 'changed'}, changed), setmetatable({name = 'late'}, late)
                changed.__gc = function(object) see('changed', object.name) end
                late.__gc = function(object) see('never', object.name) end
                setmetatable({}, {__gc = 5})
                setmetatable({}, {__gc = function() error('ignored') end})
            end
            collectgarbage()
            -- An object that lives on, and is finalized again.
            local count, kept = 0
            local again
            again = {__gc = function(object) count = count + 1 kept = object if count < 3 then setmetatable(object, again) end end}
            setmetatable({}, again)
            for i = 1, 6 do kept = nil collectgarbage() end
            see(count)
            -- Objects that refer to each other.
            do
                local one, two = setmetatable({name = 'one'}, class), setmetatable({name = 'two'}, class)
                one.other, two.other = two, one
            end
            collectgarbage()
            local alive = setmetatable({name = 'alive'}, class)
            collectgarbage('generational')
            for i = 1, 3 do setmetatable({name = i}, class) end
            collectgarbage() collectgarbage()
            collectgarbage('incremental')
            see(alive.name)
            return plain_table.concat(seen, '\n')
        end
        local ours, theirs = life(setmetatable), life(plain_setmetatable)
        if ours ~= theirs then error(ours .. '\nbut Lua has\n' .. theirs) end
        "#,
    );
}

#[test]
fn debug_does_not_reach_the_host() {
    check(
        r#"
        assert(not pcall(debug.sethook) and not pcall(debug.sethook, print, '', 1) and not pcall(debug.getregistry))
        local value = 1
        local function reads() return value end
        assert(debug.setupvalue(reads, 1, 2) == 'value' and reads() == 2 and debug.setupvalue(reads, 2, 2) == nil)
        assert(debug.setupvalue(coroutine.wrap(print), 1, 5) == nil and debug.setupvalue(('x'):gmatch('x'), 1, 5) == nil)
        assert(debug.getmetatable('').__index and debug.getmetatable({}) == nil and not pcall(debug.getmetatable))
        assert(debug.setmetatable(5, {__len = function() return 'five' end}) == 5 and #5 == 'five')
        debug.setmetatable(5, nil)
        "#,
    );
}

#[test]
fn the_metatable_of_files_is_not_for_scripts() {
    let mut state = LuaState::new(Host, Arc::new(MemoryBudget::unlimited())).unwrap();
    ["base", "io", "debug"].iter().for_each(|name| assert!(state.open_library(name)));
    let text = "local seen = getmetatable(io.stdout)
         assert(seen == debug.getmetatable(io.stdout) and seen.__name == 'FILE*' and seen.__index.write == io.stdout.write)
         assert(not seen.__gc and not pcall(debug.setmetatable, io.stdout, {}) and io.type(io.stdout) == 'file')";
    let function = state.load(text.as_bytes(), "@test").unwrap();
    assert_eq!(state.call(function, None, RunBounds::NONE, |_| {}, |_| ()), Ok(()));
}
