-- Asks an authorization service about each request. Used by forward-auth.cfg.
-- Arguments: the URL of the service, and the seconds for which a permission is kept.
--
-- A status of 200 to 299 permits the request. Any other answer below 500 goes to the client. The rule behind the action denies all
-- requests without a permission, so an error of this script or of the service lets nothing pass.

local url, keep = ...
keep = tonumber(keep)

-- Headers that the service decides on, and those of its answer that the application may trust.
local asked = { "authorization", "cookie" }
local answered = { "remote-user", "remote-groups", "remote-email" }
-- Headers of a refusal that the client gets.
local refused = { "content-type", "location", "set-cookie", "www-authenticate" }

-- Permissions by request. With `most` new ones, the older ones are dropped: there are never more than twice as many.
local most = 1000
local young, old, count = {}, {}, 0

local function remember(key, permission)
    if count >= most then young, old, count = {}, young, 0 end
    if not young[key] then count = count + 1 end
    young[key] = permission
end

local function recall(key)
    local found = young[key] or old[key]
    return found and core.now().sec < found.ends and found or nil
end

-- The values of a header, which begin at 0, as an ordinary list.
local function values(headers, name)
    local list = {}
    for index = 0, 99 do
        list[#list + 1] = headers[name] and headers[name][index]
    end
    return list
end

core.register_action("forward-auth", { "http-req" }, function(txn)
    local headers = txn.http:req_get_headers()
    local request = {
        ["x-forwarded-method"] = { txn.sf:method() },
        ["x-forwarded-host"] = { txn.sf:req_fhdr("host") },
        ["x-forwarded-uri"] = { txn.sf:pathq() },
        ["x-forwarded-for"] = { txn.sf:src() },
    }
    for _, name in ipairs(asked) do request[name] = values(headers, name) end

    -- The key stands for everything that the service sees. No header contains a zero byte.
    local parts = { txn.sf:method(), txn.sf:req_fhdr("host"), txn.sf:pathq(), txn.sf:src() }
    for _, name in ipairs(asked) do
        parts[#parts + 1] = #request[name] .. "\0" .. table.concat(request[name], "\0")
    end
    local key = txn.c:sha2(table.concat(parts, "\0"), 256)

    local permission = recall(key)
    if not permission then
        local response = core.httpclient():get{ url = url, headers = request, timeout = 2000 }
        if response.status >= 500 then return end
        if response.status // 100 ~= 2 then
            local reply = {}
            for _, name in ipairs(refused) do reply[name] = values(response.headers, name) end
            txn:done{ status = response.status, headers = reply, body = response.body }
            return
        end
        permission = { ends = core.now().sec + keep, headers = {} }
        for _, name in ipairs(answered) do permission.headers[name] = values(response.headers, name) end
        remember(key, permission)
    end

    for _, name in ipairs(answered) do
        -- What the client claims to be does not count.
        txn.http:req_del_header(name)
        for _, value in ipairs(permission.headers[name]) do txn.http:req_add_header(name, value) end
    end
    txn:set_var("txn.permitted", true)
end)
