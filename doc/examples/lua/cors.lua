-- Cross-origin resource sharing: pages of other origins may use this site. Used by cors.cfg.
-- Argument: a map with the allowed origins and the methods of each.

local origins = Map.new((...), Map._str)

local headers = "authorization, content-type"
-- Seconds for which browsers keep the answer to a preflight.
local max_age = "600"

core.register_action("cors-request", { "http-req" }, function(txn)
    local origin = txn.sf:req_fhdr("origin")
    local methods = origins:lookup(origin)
    if methods then txn:set_var("txn.origin", origin) end
    if txn.sf:method() ~= "OPTIONS" or txn.sf:req_fhdr("access-control-request-method") == "" then return end

    -- A preflight ends here. Another origin gets no permission, and its browser sends no request then.
    local reply = txn:reply{ status = 204 }
    if methods then
        reply:add_header("access-control-allow-methods", methods)
        reply:add_header("access-control-allow-headers", headers)
        reply:add_header("access-control-max-age", max_age)
    end
    reply:add_header("vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
    txn:done(reply)
end)

-- In 'http-after-response', so that error pages have the headers, too: a script of a page can read their status.
core.register_action("cors-response", { "http-after-res" }, function(txn)
    local origin = txn:get_var("txn.origin")
    txn.http:res_del_header("access-control-allow-origin")
    txn.http:res_del_header("access-control-allow-credentials")
    if origin then
        txn.http:res_add_header("access-control-allow-origin", origin)
        txn.http:res_add_header("access-control-allow-credentials", "true")
    end
    -- Without an origin, too: a cache would give that response to the pages of all origins.
    txn.http:res_add_header("vary", "Origin")
end)
