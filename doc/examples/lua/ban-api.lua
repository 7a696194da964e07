-- Takes a list of banned networks from an HTTP API, again and again. Used by ban-api.cfg.
-- Arguments: the URL, the seconds between requests, and the file of the list that the rules use.
--
-- The answer has an address or a network in each line. The list changes at once, or not at all: without a complete and valid
-- answer, the old one stays.

local url, pause, path = ...

-- Longer lists are refused.
local most = 100000

-- The networks of an answer, or nil and the reason.
local function read(response)
    if response.status ~= 200 then return nil, "status " .. response.status end
    -- A connection that broke off leaves a shorter body.
    local length = response.headers["content-length"]
    if not length or tonumber(length[0]) ~= #response.body then return nil, "incomplete" end
    local networks = {}
    for line in response.body:gmatch("[^\r\n]+") do
        networks[#networks + 1] = line
        if #networks > most then return nil, "more than " .. most .. " lines" end
    end
    return networks
end

local function update()
    local networks, reason = read(core.httpclient():get{ url = url, timeout = 5000 })
    if not networks then return reason end
    local list = core.get_patref(path)
    list:prepare()
    -- Lines that are not an address or a network fail here.
    local added, message = list:add_bulk(networks)
    if not added then
        list:giveup()
        return message
    end
    list:commit()
end

core.register_task(function()
    -- With a state for each thread, the first one does it for all: lists belong to the process.
    if core.thread > 1 then return end
    while true do
        local ok, reason = pcall(update)
        if reason then core.Warning("ban list of " .. url .. " not updated: " .. tostring(reason)) end
        core.msleep(math.floor(pause * 1000))
    end
end)
