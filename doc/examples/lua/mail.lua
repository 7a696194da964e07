-- Sends mails about changes of servers, in place of the built-in ones. Used by mail.cfg.
--
-- The lines 'email-alert' and the section 'mailers' stay: the script reads them (Lua API, "Proxy.get_mailers"). Each mail goes to all
-- mail servers of the section. A delivery that failed is logged and not repeated: the next change sends another mail.

core.disable_legacy_mailers()

-- Mails that wait. With more, new ones are dropped, as while a mail server hangs and many servers fail.
local most = 100
local waiting = core.queue()

-- The level of each state, as in the log. 'email-alert level' is the highest one of mails.
local levels = { STOPPED = core.alert, STOPPING = core.notice, STARTING = core.notice, RUNNING = core.notice }
local words = { STOPPED = "DOWN", STOPPING = "stopping", STARTING = "starting", RUNNING = "UP" }

-- A text in one line: the description of a check has bytes of the server.
local function clean(text)
    return (tostring(text):gsub("%c", " "):sub(1, 500))
end

local function compose(server, settings, at)
    local state, name = server.state, server.proxy_name .. "/" .. server.name
    local lines = { "Server " .. name .. " is " .. words[state.new_state] .. ".", "", "Before: " .. (words[state.old_state] or state.old_state) }
    if state.cause ~= "" then lines[#lines + 1] = "Cause: " .. clean(state.cause) end
    if state.check then
        local reason = state.check.reason
        lines[#lines + 1] = "Check: " .. clean(reason.desc) .. (reason.code and ", code " .. reason.code or "")
        lines[#lines + 1] = "Duration: " .. state.check.duration .. " ms"
    end
    return table.concat({
        "From: " .. settings.smtp_from,
        "To: " .. settings.smtp_to,
        "Subject: [weir] Server " .. name .. " is " .. words[state.new_state],
        "Date: " .. os.date("!%a, %d %b %Y %H:%M:%S +0000", at),
        "",
        table.concat(lines, "\r\n"),
    }, "\r\n")
end

-- Sends a line, and waits for the reply of SMTP with this code (RFC 5321, 4.2).
local function say(socket, line, code)
    if line then assert(socket:send(line .. "\r\n")) end
    local reply
    repeat
        reply = assert(socket:receive("*l"))
    until reply:sub(4, 4) ~= "-"
    if reply:sub(1, 3) ~= code then error("'" .. clean(reply) .. "' to " .. (line or "the connection"):match("^%w+"), 0) end
end

local function deliver(address, mail)
    local socket = core.tcp()
    socket:settimeout(mail.seconds)
    local host, port = address:match("^(.*):(%d+)$")
    assert(socket:connect(host, tonumber(port)))
    say(socket, nil, "220")
    say(socket, "HELO " .. mail.host_name, "250")
    say(socket, "MAIL FROM:<" .. mail.from .. ">", "250")
    say(socket, "RCPT TO:<" .. mail.to .. ">", "250")
    say(socket, "DATA", "354")
    -- A dot at the beginning of a line is doubled (RFC 5321, 4.5.2).
    say(socket, (mail.text:gsub("\r\n%.", "\r\n..")) .. "\r\n.", "250")
    socket:send("QUIT\r\n")
    socket:close()
end

-- The handler only queues: the next event waits until it returns.
local function note(_, server, _, at)
    local settings = core.backends[server.proxy_name]:get_mailers()
    if not settings or (levels[server.state.new_state] or core.debug) > settings.log_level then return end
    if waiting:size() >= most then return core.Warning("mail: more than " .. most .. " mails wait, one is dropped") end
    waiting:push{
        from = settings.smtp_from, to = settings.smtp_to, host_name = settings.smtp_hostname, servers = settings.mailservers,
        seconds = settings.mailservers_timeout / 1000, text = compose(server, settings, at),
    }
end

-- With a state for each thread, the first one sends all mails.
if core.thread <= 1 then
    core.event_sub({ "SERVER_STATE" }, note)
    core.register_task(function()
        while true do
            local mail = waiting:pop_wait()
            for name, address in pairs(mail.servers) do
                local sent, reason = pcall(deliver, address, mail)
                if not sent then core.Warning("mail: " .. name .. " (" .. address .. "): " .. tostring(reason)) end
            end
        end
    end)
end
