-- The JA4 fingerprint of a TLS client, as a fetch: lua.ja4. Used by ja4.cfg.
--
-- It names the program, not its user: browsers, libraries and malware differ in their hello. The form is that of FoxIO's
-- technical details, such as t13d1516h2_8daaf6152771_02713d6af862. It needs tune.ssl.capture-buffer-size.

-- Versions of TLS by their number in the hello.
local versions = { [0x0304] = "13", [0x0303] = "12", [0x0302] = "11", [0x0301] = "10", [0x0300] = "s3" }
local server_name, alpn = "0000", "0010"

-- The numbers of 16 bits of a text, in hexadecimal digits.
local function numbers(text)
    local list = {}
    for high, low in (text or ""):gmatch("(.)(.)") do
        list[#list + 1] = string.format("%02x%02x", high:byte(), low:byte())
    end
    return list
end

-- The first 12 digits of a hash.
local function short(txn, text)
    if text == "" then return "000000000000" end
    return txn.sc:hex(txn.c:sha2(text, 256)):sub(1, 12):lower()
end

local function highest(txn)
    local version = txn.f:ssl_fc_protocol_hello_id() or 0
    local offered = numbers(txn.f:ssl_fc_supported_versions_bin(1))
    if #offered > 0 then version = 0 end
    for _, number in ipairs(offered) do version = math.max(version, tonumber(number, 16)) end
    return versions[version] or "00"
end

-- The first and the last character of the protocol. JA4 takes the client's first one; a fetch has the chosen one.
local function protocol(txn)
    local name = txn.sf:ssl_fc_alpn()
    if name == "" then return "00" end
    return name:sub(1, 1) .. name:sub(-1)
end

core.register_fetches("ja4", function(txn)
    -- The argument 1 leaves out the random values of GREASE (RFC 8701).
    local ciphers = numbers(txn.f:ssl_fc_cipherlist_bin(1))
    local extensions = numbers(txn.f:ssl_fc_extlist_bin(1))
    if #ciphers == 0 then return "" end

    local has_name, hashed = "i", {}
    for _, extension in ipairs(extensions) do
        if extension == server_name then has_name = "d" end
        if extension ~= server_name and extension ~= alpn then hashed[#hashed + 1] = extension end
    end
    table.sort(ciphers)
    table.sort(hashed)
    local text = table.concat(hashed, ",")
    local schemes = numbers(txn.f:ssl_fc_sigalgs_bin(1))
    if #schemes > 0 then text = text .. "_" .. table.concat(schemes, ",") end

    local head = string.format("t%s%s%02d%02d%s", highest(txn), has_name, math.min(#ciphers, 99), math.min(#extensions, 99), protocol(txn))
    return head .. "_" .. short(txn, table.concat(ciphers, ",")) .. "_" .. short(txn, text)
end)
