-- A SOCKS5 proxy (RFC 1928) for TCP connections to addresses of a map. Used by socks5.cfg.
-- Argument: a map with the allowed networks, and the ports of each.
--
-- The script reads the request and notes the address. Then weir itself connects and carries both directions. A service with a
-- socket of core.tcp could not do that: neither of them waits for its peer and for the client at once.

local networks = Map.new((...), Map._ip)

-- Replies (RFC 1928, 6).
local succeeded, not_allowed, no_command, no_address_type = 0, 2, 7, 8

local function reply(txn, code)
    -- The address that the proxy uses is not known yet: 0.0.0.0, port 0.
    txn.res:send(string.pack(">BBBBI4I2", 5, code, 0, 1, 0, 0))
end

-- Takes bytes from the client. Nil if they do not arrive within the inspection delay.
local function take(txn, count)
    local bytes = txn.req:data(0, count)
    if not bytes or #bytes < count then return nil end
    txn.req:remove(0, count)
    return bytes
end

-- The bytes of an address as text, by their type.
local function address(txn, kind)
    if kind == 1 then
        local bytes = take(txn, 4)
        return bytes and string.format("%d.%d.%d.%d", bytes:byte(1, -1))
    end
    local bytes = take(txn, 16)
    return bytes and string.format("%x:%x:%x:%x:%x:%x:%x:%x", string.unpack(">I2I2I2I2I2I2I2I2", bytes))
end

local function is_allowed(host, port)
    local ports = networks:lookup(host)
    return ports ~= nil and (" " .. ports .. " "):find(" " .. port .. " ", 1, true) ~= nil
end

core.register_action("socks5", { "tcp-req" }, function(txn)
    local head = take(txn, 2)
    if not head or head:byte(1) ~= 5 then return end
    local methods = take(txn, head:byte(2))
    if not methods then return end
    -- Only "no authentication": the rules look at the client's address.
    if not methods:find("\0", 1, true) then
        txn.res:send("\5\255")
        return
    end
    txn.res:send("\5\0")

    local request = take(txn, 4)
    if not request or request:byte(1) ~= 5 then return end
    local command, kind = request:byte(2), request:byte(4)
    if command ~= 1 then return reply(txn, no_command) end
    -- No names: the client resolves them.
    if kind ~= 1 and kind ~= 4 then return reply(txn, no_address_type) end
    local host = address(txn, kind)
    local port = host and take(txn, 2)
    if not port then return end
    port = string.unpack(">I2", port)
    if not is_allowed(host, port) then return reply(txn, not_allowed) end

    txn:set_var("txn.host", host)
    txn:set_var("txn.port", port)
    reply(txn, succeeded)
end)
