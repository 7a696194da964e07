-- Answers the http-01 challenges of ACME (RFC 8555, 8.3) with the files of a folder. Used by acme.cfg.
-- Argument: the folder, such as that of `certbot certonly --webroot`.

local folder = ...

-- Longer tokens and files are not of a challenge.
local longest_token, longest_file = 128, 1024

local function content(path)
    -- The characters of base64url, as tokens have them: no dot and no slash leads out of the folder.
    local token = path:match("^/%.well%-known/acme%-challenge/([%w_-]+)$")
    if not token or #token > longest_token then return nil end
    local file = io.open(folder .. "/" .. token, "rb")
    if not file then return nil end
    local text = file:read(longest_file + 1)
    file:close()
    return text and #text <= longest_file and text or nil
end

core.register_service("acme", "http", function(applet)
    -- A path of another form, such as that of an absolute URL, is nil.
    local text = content(applet.path or "")
    applet:set_status(text and 200 or 404)
    text = text or "no such challenge\n"
    applet:add_header("content-type", "text/plain")
    applet:add_header("content-length", #text)
    applet:start_response()
    if applet.method ~= "HEAD" then applet:send(text) end
end)
