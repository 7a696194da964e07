-- Calls members of the API that the bytes of INPUT choose, with arguments that they choose, in every context. Results become arguments of
-- later calls, also in other runs, where their stream has ended. Nothing happens any more once the bytes are used up.

local position, unpack, pcall, type, tostring = 0, table.unpack, pcall, type, tostring
local getmetatable, sort, pairs, next, rawequal, rawget, byte_of = getmetatable, table.sort, pairs, next, rawequal, rawget, string.byte

local function byte()
    position = position + 1
    return byte_of(INPUT, position) or 0
end

local function is_used_up()
    return position >= #INPUT
end

-- Objects and results, the last ones.
local pool, next_place = {}, 1
local function keep(value)
    if value ~= nil then
        pool[next_place] = value
        next_place = next_place % 48 + 1
    end
end

local cycle = {}
cycle.self, cycle[1] = cycle, cycle
local step

-- Makers of arguments.
local makers = {
    function() return nil end,
    function() return true end,
    function() return false end,
    function() return 0 end,
    function() return 1 end,
    function() return -1 end,
    function() return byte() end,
    function() return -byte() end,
    function() return 2 ^ 31 end,
    function() return 2 ^ 53 + 1 end,
    function() return 1e308 end,
    function() return -1e308 end,
    function() return 0.5 end,
    function() return 0 / 0 end,
    function() return 1 / 0 end,
    function() return -1 / 0 end,
    function() return math.mininteger end,
    function() return math.maxinteger end,
    function() return math.maxinteger // byte() end,
    function() return "" end,
    function() return "0" end,
    function() return "a\0b" end,
    function() return "a: b\r\nc: d\r\n\r\n" end,
    function() return "GET / HTTP/1.1\r\n\r\n" end,
    function() return ("x"):rep(byte() * 300) end,
    function() return "127.0.0.1:8001" end,
    function() return "127.0.0.1" end,
    function() return "http://127.0.0.1:8001/" .. ("y"):rep(byte()) end,
    function() return "txn.v" .. byte() % 4 end,
    function() return "proc.v" end,
    function() return "sess.v" end,
    function() return "%[src]" end,
    function() return "(a*)*b|[^" end,
    function() return "^(a+)$" end,
    function() return "\\1" end,
    function() return "%f[%w]+" end,
    function() return "*l" end,
    function() return "*a" end,
    function() return "m.map" end,
    function() return "a.acl" end,
    function() return "web" end,
    function() return "s" end,
    function() return "host" end,
    function() return "\xff\xfe\x80" end,
    function() return INPUT:sub(position, position + byte() % 32) end,
    function() return {} end,
    function() return { 1, 2, 3, nil, 5 } end,
    function() return { a = "b", [1] = "c", [true] = 1, [2.5] = {} } end,
    function() return { url = "http://127.0.0.1:8001/", headers = { a = { "b", "c" }, d = "e" }, body = "f", timeout = byte() } end,
    function() return { url = "x", headers = cycle, body = cycle } end,
    function() return { status = byte() * 3, headers = { ["x-a"] = { "b" } }, body = "c", reason = "d\r\n" } end,
    function() return { { "src", 1 }, cycle } end,
    function() return { { "gpc0", "gt", byte() }, { "use", "eq", "x" } } end,
    function() return cycle end,
    function() return setmetatable({}, { __index = function() error("no index") end, __len = function() return -1 end }) end,
    function() return setmetatable({}, { __index = function(_, key) return key end, __len = function() return math.maxinteger end }) end,
    function() return setmetatable({}, { __tostring = function() return cycle end, __name = 5, __metatable = false }) end,
    function() return setmetatable({}, { __pairs = function() return function() return 1, 1 end end, __eq = error }) end,
    function() return setmetatable({ "x" }, { __gc = function() pcall(step) end, __close = function() pcall(step) end, __mode = "kv" }) end,
    function() return setmetatable({}, { __concat = step, __call = step, __lt = step, __unm = step }) end,
    function() return setmetatable({}, getmetatable(pool[byte() % 48 + 1])) end,
    function() return function(...) pcall(step) return ... end end,
    function() return function() error(cycle) end end,
    function() return coroutine.create(function(...) pcall(step) return ... end) end,
    function() return coroutine.wrap(function() step() coroutine.yield(1) step() end) end,
    function() return pool end,
    function() return step end,
    function() return error end,
}

local function value()
    local number = byte()
    if number < 128 then
        return pool[number % 48 + 1]
    end
    local made, result = pcall(makers[number % #makers + 1])
    if made then return result end
end

-- Libraries without access to files, processes and the values of other functions.
local globals = { core, core, core, core, core, core, act, Map, Regex, string, table, utf8, math, coroutine }
local plain = { setmetatable, getmetatable, rawset, rawget, rawlen, rawequal, next, pairs, ipairs, select, tostring, tonumber, type, error, assert, pcall, xpcall }
-- Members that are made when a script first uses them, and those of objects that do not list them.
local names = {}
for name in ([[
add_acl asctime_date concat del_acl del_map disable_legacy_mailers get_info get_patref get_var http_date imf_date
match_addr parse_addr queue rfc850_date set_map set_nice proxies frontends backends event_sub register_cli
register_filter wait wake_time new f c sf sc http req res servers listeners name uuid puid stktable web s host method
path qs version headers length status reason body add add_bulk add_header agent_disable agent_enable agent_force_down
agent_force_up append check_disable check_enable check_force_down check_force_nolb check_force_up close commit connect
connect_ssl data del del_header delete dump dup exec forward get get_addr get_cap get_cur_sess get_in_len get_mailers
get_maxconn get_mode get_name get_out_len get_pend_conn get_priv get_proxy get_puid get_rid get_srv_act get_srv_bck
get_stats get_trackers get_uuid get_weight getline getpeername getsockname giveup head info input insert is_backup
is_draining is_dynamic is_full is_map is_resp line lookup match may_recv output pause pop pop_wait post prepare prepend
purge push put receive remove reply resume send set set_addr set_body set_drain set_maint set_maxconn set_priv set_ready
set_status set_var set_weight setoption settimeout shut_bcksess shut_sess size sleep slookup start_response stop sub
tracking try_receive type unset_var use
]]):gmatch('%S+') do names[#names + 1] = name end
local known = {}

-- The names that an object has, by its class.
local function members(object)
    if type(object) == "function" then return {} end
    local class = tostring(object)
    for _, library in pairs(globals) do
        if rawequal(library, object) then class = object end
    end
    if known[class] then return known[class] end
    local found, is_found = {}, {}
    local function add(name)
        if type(name) == "string" and not is_found[name] then
            is_found[name] = true
            found[#found + 1] = name
        end
    end
    local listed = {}
    local function list(from)
        if type(from) ~= "table" then return end
        for name in next, from do listed[#listed + 1] = type(name) == "string" and name or nil end
    end
    list(object)
    local has, metatable = pcall(getmetatable, object)
    list(has and type(metatable) == "table" and rawget(metatable, "__index"))
    -- The order of a table depends on the addresses in it.
    sort(listed)
    for index = 1, #listed do add(listed[index]) end
    for index = 1, #names do
        local works, member = pcall(function() return object[names[index]] end)
        if works and member ~= nil then add(names[index]) end
    end
    if type(class) == "string" and not class:find("^HAProxy class") then return found end
    known[class] = found
    return found
end

local function is_of_the_api(object)
    if object == core or object == act or object == Map or object == Regex then return true end
    local has, name = pcall(tostring, object)
    return has and type(name) == "string" and name:sub(1, 13) == "HAProxy class"
end

-- Values of a type, or objects of a class, that an error asks for.
local texts = { "x-a", "b", "txn.v1", "127.0.0.1", "http-req", "m.map", "^(a+)$", "path", "s", "hash", "http://127.0.0.1:8001/", "1", "\0" }
local function expected(kind)
    if kind == "string" then return texts[byte() % #texts + 1] end
    if kind == "number" or kind == "integer" then return (byte() - 64) // 8 end
    if kind == "boolean" then return byte() < 128 end
    if kind == "function" then return step end
    if kind == "table" then return { texts[byte() % #texts + 1] } end
    for _, object in pairs(pool) do
        local has, name = pcall(tostring, object)
        if has and name == "HAProxy class " .. kind then return object end
    end
    return value()
end

-- Changes the arguments of a call as its error asks for. False if the error is of another kind.
local function mend(arguments, error, own)
    if type(error) ~= "string" then return false end
    local count = error:match("needs at least (%d+)") or error:match("needs between (%d+)") or error:match("needs (%d+)")
    if count and tonumber(count) < 8 then
        count = tonumber(count) + own
        if count == arguments.n then count = count - own end
        for index = arguments.n + 1, count do arguments[index] = value() end
        arguments.n = count
        return true
    end
    local index, kind = error:match("bad argument #(%d+).*%((%w+) expected")
    index = tonumber(index)
    if not index or index > 8 then return false end
    arguments[index], arguments.n = expected(kind), math.max(arguments.n, index)
    return true
end

-- Whether calls have a limit of time. While the configuration is read they do not, so that a library would compute for ever.
local is_limited = false

local depth = 0

function step()
    if is_used_up() or depth > 20 then return end
    depth = depth + 1
    local number = byte()
    local object
    if number < 96 then
        object = globals[number % #globals + 1]
    elseif number < 104 then
        object = plain[byte() % #plain + 1]
    else
        object = pool[number % 48 + 1]
    end
    if not is_limited and not is_of_the_api(object) then object = core end
    local is_known, list = pcall(members, object)
    local member, count, own = object, byte() % 6, false
    if is_known and #list > 0 then
        local _, got = pcall(function() return object[list[byte() % #list + 1]] end)
        member, own = got, number >= 104
    end
    local arguments = { n = count }
    for index = 1, count do
        arguments[index] = value()
    end
    if own and byte() < 240 then
        table.insert(arguments, 1, object)
        arguments.n = count + 1
    end
    local results = { true, member, n = 2 }
    if type(member) == "function" or type(member) == "table" then
        for _ = 1, 1 + byte() % 8 do
            results = table.pack(pcall(member, unpack(arguments, 1, arguments.n)))
            if results[1] or not mend(arguments, results[2], own and 1 or 0) then break end
        end
    end
    for index = 2, results.n do
        keep(results[index])
    end
    depth = depth - 1
end

-- A run: some calls with the objects of its arguments.
local function run(...)
    local given = table.pack(...)
    for index = 1, given.n do
        keep(given[index])
    end
    for _, field in pairs({ "f", "sf", "c", "sc", "http", "req", "res" }) do
        local has, object = pcall(function() return given[1][field] end)
        if has then keep(object) end
    end
    depth = 0
    for _ = 1, 1 + byte() % 12 do
        step()
    end
    return pool[byte() % 48 + 1]
end

local places = { "http-req", "http-res", "http-after-res", "tcp-req", "tcp-res" }
core.register_action("act", places, run, 2)
core.register_action("late", { "http-after-res" }, run, 0)
core.register_fetches("fetch", run)
core.register_converters("convert", run)
core.register_service("web", "http", function(applet)
    run(applet)
    applet:set_status(200)
    applet:start_response()
    applet:send("x")
    run(applet)
end)
core.register_service("raw", "tcp", function(applet)
    run(applet)
    applet:send("x")
    run(applet)
end)
core.register_init(function()
    run(core.proxies.web, core.backends.web)
    is_limited = true
end)
core.register_task(run, cycle, 1)
run(Map, Regex)
