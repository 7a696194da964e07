-- Lets only browsers pass: a page with a script gives them a cookie. Used by bot-challenge.cfg.
-- Arguments: a file with a secret in base64, and the seconds for which a cookie holds.
--
-- The page has a ticket, an expiry date signed for this client. Its script looks for a number whose hash with the ticket begins
-- with zeros, which takes a browser less than a second, and sends ticket and number back as a cookie. Nothing is stored here.

local path, seconds = ...
local file = assert(io.open(path))
local secret = file:read("a"):gsub("%s", "")
file:close()
assert(#secret >= 40, path .. ": a secret of at least 30 bytes in base64 expected")

-- Hexadecimal zeros at the beginning of the hash: each one more takes a browser 16 times as long.
local zeros = "000"

local page = [[
<!doctype html><meta charset="utf-8"><title>One moment</title><p>Checking your browser.</p><noscript>This page needs JavaScript.</noscript>
<script>
(async () => {
  const ticket = "TICKET", zeros = "ZEROS";
  for (let number = 0; ; number++) {
    const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(ticket + "." + number)));
    if (Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("").startsWith(zeros)) {
      document.cookie = "challenge=" + ticket + "." + number + "; Path=/; Secure; SameSite=Lax";
      return location.reload();
    }
  }
})();
</script>
]]

-- The signature of an expiry date, which holds for one address and one browser.
local function sign(txn, ends)
    local text = ends .. "\n" .. txn.sf:src() .. "\n" .. txn.sf:req_fhdr("user-agent")
    return txn.sc:hex(txn.c:hmac(text, "sha256", secret))
end

local function is_valid(txn, cookie)
    local ends, signature, number = cookie:match("^(%d+)%.(%x+)%.(%d+)$")
    if not ends or #cookie > 120 or tonumber(ends) < core.now().sec then return false end
    -- A comparison that takes the same time for all wrong signatures.
    txn:set_var("txn.signature", sign(txn, ends))
    if not txn.c:secure_memcmp(signature, "txn.signature") then return false end
    return txn.sc:hex(txn.c:sha2(cookie, 256)):sub(1, #zeros) == zeros
end

core.register_action("bot-challenge", { "http-req" }, function(txn)
    if is_valid(txn, txn.sf:req_cook("challenge")) then
        txn:set_var("txn.browser", true)
        return
    end
    local ends = string.format("%d", core.now().sec + seconds)
    local body = page:gsub("TICKET", ends .. "." .. sign(txn, ends)):gsub("ZEROS", zeros)
    txn:done{
        status = 403,
        headers = { ["content-type"] = { "text/html; charset=utf-8" }, ["cache-control"] = { "no-store" } },
        body = body,
    }
end)
