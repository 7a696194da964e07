-- Follows a registry of services: the servers of a backend are the instances that it lists. Used by registry.cfg.
-- Arguments: the URL, the seconds between requests, and the backend.
--
-- The answer is that of Consul, /v1/health/service/NAME?passing: a list with Service.Address and Service.Port. Instances take the
-- slots of a 'server-template'. Those that stay keep their slot, the others make room. Without a valid answer, and with an empty
-- one, all servers stay.

local json = require("json")
local url, pause, name = ...

-- The instances of an answer as a set of "address port", or nil and the reason.
local function read(response)
    if response.status ~= 200 then return nil, "status " .. response.status end
    local list, reason = json.decode(response.body)
    if type(list) ~= "table" then return nil, reason or "not a list" end
    local instances = {}
    for _, entry in ipairs(list) do
        local service = type(entry) == "table" and entry.Service
        local address, port = type(service) == "table" and service.Address, type(service) == "table" and service.Port
        -- core.parse_addr also takes networks.
        if type(address) ~= "string" or not address:find("^[%x.:]+$") or not core.parse_addr(address) then return nil, "invalid address" end
        if math.type(port) ~= "integer" or port < 1 or port > 65535 then return nil, "invalid port" end
        instances[address .. " " .. port] = true
    end
    if not next(instances) then return nil, "no instances" end
    return instances
end

-- Slots by name, and what each has: "address port", or false.
local slots = {}

local function apply(instances)
    local servers, free = core.backends[name].servers, {}
    for slot, server in pairs(servers) do
        if slots[slot] and instances[slots[slot]] then
            instances[slots[slot]] = nil
        else
            if slots[slot] ~= false then server:set_maint() end
            slots[slot] = false
            free[#free + 1] = slot
        end
    end
    for instance in pairs(instances) do
        local slot = table.remove(free)
        if not slot then return "more instances than servers" end
        local address, port = instance:match("^(%S+) (%d+)$")
        local message = servers[slot]:set_addr(address, tonumber(port))
        -- The message is one of success or of failure. A server with its old address stays in maintenance.
        if servers[slot]:get_addr() ~= address .. ":" .. port then return message end
        servers[slot]:set_ready()
        slots[slot] = instance
    end
end

local function update()
    local instances, reason = read(core.httpclient():get{ url = url, headers = { accept = { "application/json" } }, timeout = 5000 })
    return reason or apply(instances)
end

core.register_task(function()
    -- With a state for each thread, the first one does it for all: servers belong to the process.
    if core.thread > 1 then return end
    while true do
        local ok, reason = pcall(update)
        if reason then core.Warning("servers of " .. name .. ": " .. tostring(reason)) end
        core.msleep(math.floor(pause * 1000))
    end
end)
