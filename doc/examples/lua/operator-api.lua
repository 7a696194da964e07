-- A REST API for operators: the servers of all backends as JSON, and changes of their weight and state. Used by operator-api.cfg.
-- Argument: a file with the token, in hexadecimal digits, that callers send as 'Authorization: Bearer TOKEN'.
--
--   GET /servers                              the servers of all backends
--   PUT /servers/BACKEND/SERVER/weight        the body is a weight: 0 to 256, or a percentage of the configured one such as 50%
--   PUT /servers/BACKEND/SERVER/state         the body is ready, drain or maint

local path = ...
local file = assert(io.open(path))
local token = file:read("a"):gsub("%s", "")
file:close()
assert(token:find("^%x+$") and #token >= 32, path .. ": a token of at least 32 hexadecimal digits expected")

local states = { ready = "set_ready", drain = "set_drain", maint = "set_maint" }

local function text(value)
    return '"' .. tostring(value):gsub('[%c"\\]', function(byte) return string.format("\\u%04x", byte:byte()) end) .. '"'
end

local function answer(applet, status, body)
    applet:set_status(status)
    applet:add_header("content-type", "application/json")
    applet:add_header("cache-control", "no-store")
    applet:add_header("content-length", #body)
    applet:start_response()
    -- A response to HEAD has no body.
    if applet.method ~= "HEAD" then applet:send(body) end
end

local function fail(applet, status, reason)
    answer(applet, status, '{"error":' .. text(reason) .. "}\n")
end

local function listed()
    local backends = {}
    for name, backend in pairs(core.backends) do
        local servers = {}
        for server_name, server in pairs(backend.servers) do
            servers[#servers + 1] = string.format('{"name":%s,"address":%s,"state":%s,"weight":%d,"sessions":%d}', text(server_name),
                text(server:get_addr()), text(server:get_stats().status), server:get_weight(), server:get_cur_sess())
        end
        backends[#backends + 1] = string.format('{"name":%s,"servers":[%s]}', text(name), table.concat(servers, ","))
    end
    return '{"backends":[' .. table.concat(backends, ",") .. "]}\n"
end

-- Changes a server. Returns the reason why it cannot.
local function change(server, what, value)
    if what == "state" then
        if not states[value] then return "ready, drain or maint expected" end
        server[states[value]](server)
    else
        return server:set_weight(value)
    end
end

core.register_service("operator-api", "http", function(applet)
    -- A comparison that takes the same time for all wrong tokens.
    applet:set_var("txn.token", token)
    local header = applet.headers["authorization"]
    local given = header and header[0]:match("^[Bb]earer +(%x+)$") or ""
    if not applet.c:secure_memcmp(given, "txn.token") then return fail(applet, 401, "wrong token") end

    if applet.path == "/servers" then
        if applet.method ~= "GET" and applet.method ~= "HEAD" then return fail(applet, 405, "GET expected") end
        return answer(applet, 200, listed())
    end

    local backend_name, server_name, what = applet.path:match("^/servers/([^/]+)/([^/]+)/(%l+)$")
    local backend = core.backends[backend_name or ""]
    local server = backend and backend.servers[server_name]
    if not server or what ~= "weight" and what ~= "state" then return fail(applet, 404, "no such server") end
    if applet.method ~= "PUT" then return fail(applet, 405, "PUT expected") end
    local value = applet:receive(100):gsub("%s+$", "")
    local reason = change(server, what, value)
    if reason then return fail(applet, 400, reason) end
    core.log(core.notice, "operator API: " .. what .. " of " .. backend_name .. "/" .. server_name .. " is " .. value)
    answer(applet, 200, "{}\n")
end)
