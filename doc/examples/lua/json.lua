-- A decoder for JSON (RFC 8259), for scripts that load it with require("json"). Lists and objects become tables, null becomes nil.
--
--   local value, reason = json.decode(text)     nil and a reason if the text is not valid

local json = {}

-- Deeper texts are refused: each level is a call.
local deepest = 50

local escapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }
local words = { ["true"] = true, ["false"] = false }

local function fail(at, expected)
    error({ reason = expected .. " expected at " .. at }, 0)
end

local function skip(text, at)
    return text:find("[^ \t\r\n]", at) or #text + 1
end

-- A character behind "\u", which may be the first half of a pair. Returns the position behind it.
local function unicode(text, at)
    local code = tonumber(text:match("^%x%x%x%x", at) or fail(at, "four digits"), 16)
    at = at + 4
    if code >= 0xD800 and code < 0xDC00 then
        local low = tonumber(text:match("^\\u(%x%x%x%x)", at) or fail(at, "second half of a pair"), 16)
        if low < 0xDC00 or low > 0xDFFF then fail(at, "second half of a pair") end
        return utf8.char(0x10000 + (code - 0xD800) * 0x400 + low - 0xDC00), at + 6
    end
    if code >= 0xDC00 and code <= 0xDFFF then fail(at, "first half of a pair") end
    return utf8.char(code), at
end

local function string_at(text, at)
    local parts = {}
    at = at + 1
    while true do
        local stop = text:find('[%c"\\]', at) or fail(#text + 1, '"')
        parts[#parts + 1] = text:sub(at, stop - 1)
        local byte, kind = text:sub(stop, stop), text:sub(stop + 1, stop + 1)
        if byte == '"' then return table.concat(parts), stop + 1 end
        if byte == "\127" then
            parts[#parts + 1], at = byte, stop + 1
        elseif byte ~= "\\" then
            fail(stop, '"')
        elseif kind == "u" then
            parts[#parts + 1], at = unicode(text, stop + 2)
        else
            parts[#parts + 1], at = escapes[kind] or fail(stop, "escape"), stop + 2
        end
    end
end

local function number_at(text, at)
    local whole = text:match("^-?%d+", at)
    if not whole or whole:find("^-?0%d") then fail(at, "value") end
    local stop = at + #whole
    stop = stop + #(text:match("^%.%d+", stop) or "")
    stop = stop + #(text:match("^[eE][+-]?%d+", stop) or "")
    return tonumber(text:sub(at, stop - 1)), stop
end

local value_at

-- The entries of a list or an object, up to the byte that closes it.
local function entries(text, at, close, entry)
    at = skip(text, at + 1)
    if text:sub(at, at) == close then return at + 1 end
    while true do
        at = skip(text, entry(at))
        local byte = text:sub(at, at)
        if byte == close then return at + 1 end
        if byte ~= "," then fail(at, "',' or '" .. close .. "'") end
        at = skip(text, at + 1)
    end
end

local function list_at(text, at, depth)
    local list, count = {}, 0
    return list, entries(text, at, "]", function(from)
        local value, stop = value_at(text, from, depth)
        count = count + 1
        list[count] = value
        return stop
    end)
end

local function object_at(text, at, depth)
    local object = {}
    return object, entries(text, at, "}", function(from)
        if text:sub(from, from) ~= '"' then fail(from, "name") end
        local name, stop = string_at(text, from)
        stop = skip(text, stop)
        if text:sub(stop, stop) ~= ":" then fail(stop, "':'") end
        object[name], stop = value_at(text, skip(text, stop + 1), depth)
        return stop
    end)
end

function value_at(text, at, depth)
    local byte = text:sub(at, at)
    if depth == deepest and byte:find("[[{]") then fail(at, "less depth") end
    if byte == "{" then return object_at(text, at, depth + 1) end
    if byte == "[" then return list_at(text, at, depth + 1) end
    if byte == '"' then return string_at(text, at) end
    local word = text:match("^%l+", at)
    if word == "null" then return nil, at + 4 end
    if word and words[word] ~= nil then return words[word], at + #word end
    return number_at(text, at)
end

function json.decode(text)
    local ok, value, at = pcall(function()
        return value_at(text, skip(text, 1), 0)
    end)
    if not ok then return nil, type(value) == "table" and value.reason or value end
    if skip(text, at) <= #text then return nil, "end expected at " .. at end
    return value
end

return json
