-- Checks the bearer token of a request, and gives its claims to the application as headers. Used by jwt.cfg.
-- Arguments: the algorithm, the issuer, the audience.
--
-- The rule in front of the action verifies the signature, since converters of a script cannot load the file of a key.

local algorithm, issuer, audience = ...

-- Claims and their headers.
local passed = { ["$.sub"] = "x-user", ["$.scope"] = "x-scope" }
-- Clocks may differ by so many seconds.
local leeway = 30

-- Whether a claim is the audience, or a list with it. A list has the form of JSON here.
local function is_audience(claim)
    if claim == audience then return true end
    return claim:sub(1, 1) == "[" and claim:find('"' .. audience .. '"', 1, true) ~= nil
end

-- The reason why a token is refused, or nil.
local function fault(txn, token)
    if token == "" then return "no token" end
    -- The algorithm is ours, never that of the token: "none" and a public key as a secret do not work.
    if txn.sc:jwt_header_query(token, "$.alg") ~= algorithm then return "wrong algorithm" end
    if txn:get_var("txn.verdict") ~= 1 then return "invalid signature" end
    local claim = function(name) return txn.sc:jwt_payload_query(token, name) end
    local seconds = function(name) return tonumber(txn.c:jwt_payload_query(token, name, "int")) end
    local now = core.now().sec
    local ends, begins = seconds("$.exp"), seconds("$.nbf")
    if not ends or ends + leeway < now then return "expired" end
    if claim("$.nbf") ~= "" and (begins or math.huge) - leeway > now then return "not valid yet" end
    if claim("$.iss") ~= issuer then return "wrong issuer" end
    if not is_audience(claim("$.aud")) then return "wrong audience" end
    for name in pairs(passed) do
        -- A line end in a claim would be a header of its own.
        if claim(name):find("%c") then return "invalid claim" end
    end
end

core.register_action("jwt", { "http-req" }, function(txn)
    local token = txn.sf:http_auth_bearer()
    local reason = fault(txn, token)
    if reason then
        -- RFC 6750, 3.1: a request without a token gets no error code.
        local challenge = 'Bearer realm="api"'
        if token ~= "" then challenge = challenge .. ', error="invalid_token", error_description="' .. reason .. '"' end
        txn:done{ status = 401, headers = { ["www-authenticate"] = { challenge }, ["content-type"] = { "text/plain" } }, body = reason .. "\n" }
        return
    end
    for name, header in pairs(passed) do
        txn.http:req_del_header(header)
        local value = txn.sc:jwt_payload_query(token, name)
        if value ~= "" then txn.http:req_set_header(header, value) end
    end
    txn:set_var("txn.verified", true)
end)
