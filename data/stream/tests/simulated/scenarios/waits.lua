
local waits = { }

function waits.sleep(number)
    core.msleep(number % 40)
end

function waits.yield(number)
    for _ = 1, number % 5 do core.yield() end
end

-- Some sockets are left to the collector, or closed late.
function waits.socket(number)
    local socket = core.tcp()
    socket:settimeout(number % 3 + 1)
    local host, port = ECHO:match("(.*):(.*)")
    if not socket:connect(host, tonumber(port)) then error("no connection") end
    for count = 1, number % 3 + 1 do
        local line = "line " .. number .. ("x"):rep(number % 7 * 300) .. count
        if not socket:send(line .. "\n") then error("not sent") end
        local answer = number % 2 == 0 and socket:receive("*l") or socket:receive(#line + 1)
        if answer ~= line and answer ~= line .. "\n" then error("not received") end
    end
    if number % 4 > 0 then socket:close() end
end

function waits.request(number)
    local response = core.httpclient():get({ url = "http://" .. WEB .. "/" .. number, timeout = 2000 })
    if response.status ~= 200 or response.body ~= "hello" then error("no page") end
end

function waits.queue(number)
    local queue = core.queue()
    core.register_task(function()
        core.msleep(number % 20)
        queue:push(number)
    end)
    local value
    repeat
        core.msleep(3)
        value = queue:pop()
    until value
    if value ~= number then error("not pushed") end
end

function waits.computation(number)
    local text = ""
    for count = 1, number % 300 do text = text .. count end
end

local kinds = { "sleep", "yield", "socket", "request", "queue", "computation" }

-- Waits as a number asks for. True if each wait ended well.
local function wait(number)
    for step = 0, number % 4 do
        local kind = kinds[(number // 4 + step * 5) % #kinds + 1]
        if not pcall(waits[kind], number + step) then return false end
    end
    return true
end

local seen = 0

-- Both directions of a stream, with other waits in each.
core.register_action("wait", { "http-req", "http-res", "tcp-res" }, function(txn)
    seen = seen + 1
    local number = (tonumber(txn:get_var("txn.id")) or 0) * 7 + seen
    txn:set_priv({ number })
    if not wait(number) then txn:set_var("txn.wrong", 1) end
    if txn:get_priv()[1] ~= number then txn:set_var("txn.wrong", 1) end
end)

-- The first line of a channel. A read of one byte more waits for it.
local function first_line(channel)
    local line = channel:line()
    while line and not line:find("\n") do
        local longer = channel:line(0, #line + 1)
        if longer == line then return nil end
        line = longer
    end
    return line
end

-- The first line of a session.
core.register_action("peek", { "tcp-req" }, function(txn)
    local line = first_line(txn.req)
    local number = line and tonumber(line:match("^(%d+) %d+ %d+ %d\n"))
    if not number then
        txn:set_var("txn.wrong", 1)
    elseif not wait(number) or txn.req:data(0, #line) ~= line then
        txn:set_var("txn.wrong", 1)
    end
end)

local LINE = #"GET /0/u000000/000000 HTTP/1.1\r\n\r\n"

-- The bytes of a body, from this offset on.
local function pattern(way, id, offset, length)
    local lines = { }
    for line = offset // LINE, (offset + length) // LINE do
        lines[#lines + 1] = ("GET /0/%s%06d/%06d HTTP/1.1\r\n\r\n"):format(way, id, line % 1000000)
    end
    local start = offset % LINE
    return table.concat(lines):sub(start + 1, start + length)
end

-- Sends a body in pieces, with a few waits between them.
local function send(applet, id, length)
    local sent, pieces = 0, 0
    while sent < length do
        local piece = pattern("d", id, sent, math.min(length - sent, 1 + (id * 7 + pieces * 977) % 5000))
        applet:send(piece)
        sent, pieces = sent + #piece, pieces + 1
        if pieces % 3 == 0 and pieces < 10 then core.msleep(id % 15) end
    end
end

-- Receives a body with this function. True if its bytes are right. Nil if there is nothing more.
local function receive(id, length, take)
    local received, pieces = 0, 0
    while received < length do
        local piece = take(length - received, pieces)
        if not piece or piece == "" then break end
        if piece ~= pattern("u", id, received, #piece) then return false end
        received, pieces = received + #piece, pieces + 1
        if pieces % 3 == 0 and pieces < 10 then core.msleep(id % 15) end
    end
    return length == math.huge or received == length
end

core.register_service("web", "http", function(applet)
    local id, length, delay = applet.path:match("^/(%d+)/%a+/(%d+)/(%d+)$")
    id, length = tonumber(id), tonumber(length)
    local is_right = receive(id, math.huge, function(_, pieces)
        if id % 2 == 0 then return applet:receive(1 + (id + pieces * 733) % 4000) end
        return applet:getline()
    end)
    core.msleep(tonumber(delay))
    is_right = wait(id) and is_right
    applet:set_status(is_right and 200 or 500)
    if is_right then applet:add_header("x-from", "service") end
    applet:add_header("x-id", tostring(id))
    if id % 3 == 0 then applet:add_header("content-length", tostring(length)) end
    applet:start_response()
    send(applet, id, length)
end)

core.register_service("raw", "tcp", function(applet)
    local line = applet:getline()
    local id, up, down, early = (line or ""):match("^(%d+) (%d+) (%d+) (%d)\n$")
    if not id then return end
    id, up, down = tonumber(id), tonumber(up), tonumber(down)
    if not wait(id) then return end
    if early == "1" then send(applet, id, down) end
    local is_right = receive(id, up, function(left, pieces)
        return applet:receive(math.min(left, 1 + (id + pieces * 733) % 4000))
    end)
    if is_right and early == "0" then send(applet, id, down) end
end)
