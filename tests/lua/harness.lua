-- The harness of the rows: loads each row's code, calls it in its place, and keeps its results as text.
-- The names below are global, so that rows can use them: show, dump, settings (addresses), and `rows` for record().

local results, current = {}, { name = "", place = "", raw = true }

local function quote(text)
  return '"' .. text:gsub('[%c"\\\127-\255]', function(byte)
    local short = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ['"'] = '\\"', ["\\"] = "\\\\" }
    return short[byte] or string.format("\\x%02x", byte:byte())
  end) .. '"'
end

local function before(a, b)
  if type(a) ~= type(b) then return type(a) < type(b) end
  if type(a) == "number" or type(a) == "string" then return a < b end
  return tostring(a) < tostring(b)
end

-- A value as text with its type: 1 and 1.0 and "1" and true differ, keys are sorted, and index 0 counts.
function dump(value, depth)
  depth = depth or 0
  if type(value) == "string" then return quote(value) end
  if type(value) == "function" or type(value) == "userdata" or type(value) == "thread" then return type(value) end
  if type(value) ~= "table" then return tostring(value) end
  local meta = getmetatable(value)
  if meta and meta.__tostring then return "<" .. tostring(value):gsub("0x%x+", "0x?") .. ">" end
  if depth > 6 then return "{...}" end
  local keys, parts = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  -- Addresses differ from run to run.
  table.sort(keys, function(a, b)
    if type(a) == "userdata" and type(b) == "userdata" then return dump(value[a], depth + 1) < dump(value[b], depth + 1) end
    return before(a, b)
  end)
  for _, key in ipairs(keys) do
    local name = type(key) == "string" and key:match("^[%a_][%w_]*$") and key or "[" .. dump(key) .. "]"
    parts[#parts + 1] = name .. "=" .. dump(value[key], depth + 1)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- Keeps values as one line of the row's results.
function show(...)
  local parts = {}
  for i = 1, select("#", ...) do parts[i] = dump((select(i, ...))) end
  results[#results + 1] = #parts == 0 and "nothing" or table.concat(parts, ", ")
end

local function finish(ok, ...)
  if ok then
    show(...)
  else
    local message = ...
    results[#results + 1] = "error: " .. (type(message) == "string" and quote(message):sub(2, -2):gsub('\\"', '"') or dump(message))
  end
end

local arguments = {
  ["converter"] = "value, a, b, c, d, e", ["http-service"] = "applet", ["tcp-service"] = "applet", ["cli"] = "applet, a, b, c, d, e",
  ["init"] = "_", ["body"] = "_", ["task"] = "_",
}
local codes, later = {}, {}

-- Compiles an expression or a block; its errors have the position `row:LINE:`.
local function compile(place, code)
  local head = "local " .. (arguments[place] or place:match("^filter") and "txn, msg, flt" or "txn, a, b, c, d, e") .. " = ...; "
  local compiled, message = load(head .. "return " .. code, "=row")
  if not compiled then compiled, message = load(head .. code, "=row") end
  if not compiled then error(message .. " in " .. code) end
  return compiled
end

-- Calls a row's code. Unless the row is raw, errors are results.
local function call(place, ...)
  -- One action serves the rules of TCP in both kinds of frontends.
  if current.place ~= place and not (place == "tcp-req" and current.place == "tcp-req-http") then return end
  if current.raw then return current.code(...) end
  finish(pcall(current.code, ...))
end

-- Declares a row. Rows of the body run now, those of init later.
function row(number, place, raw, code, registration)
  local one = { number = number, place = place, raw = raw }
  codes[number] = one
  if registration then
    local ok, message = pcall(load(registration, "=row"))
    if not ok then one.failed = "error: " .. tostring(message) end
  end
  one.code = compile(place, code)
  if place == "body" then
    current, results = one, {}
    call("body")
    one.results = results
  elseif place == "init" then
    later[#later + 1] = one
  end
end

core.register_init(function()
  for _, one in ipairs(later) do
    current, results = one, {}
    call("init")
    one.results = results
  end
end)

local function action(place)
  core.register_action("row_" .. place:gsub("%-", "_"), { place }, function(...) return call(place, ...) end)
end
for _, place in ipairs { "http-req", "http-res", "http-after-res", "tcp-req", "tcp-res" } do pcall(action, place) end

core.register_action("row_arguments", { "http-req" }, function(...) return call("arguments", ...) end, 2)

-- The row runs in a task of its own, and the action waits for it.
core.register_action("row_task", { "http-req" }, function()
  local ended = false
  core.register_task(function() call("task") ended = true end)
  while not ended do core.msleep(10) end
end)

core.register_fetches("row_fetch", function(...) return call("fetch", ...) end)
core.register_converters("row_converter", function(...) return call("converter", ...) end)
-- A program may lack the rest: then only the rows that need it fail.
pcall(function()
  core.register_service("row_http", "http", function(...) return call("http-service", ...) end)
  core.register_service("row_tcp", "tcp", function(...) return call("tcp-service", ...) end)
end)
pcall(function() core.register_cli({ "row" }, "calls the row", function(...) return call("cli", ...) end) end)

-- A filter calls the row with the transaction and the message, or with the channel in TCP.
local Filter = {}
Filter.__index = Filter
function Filter:new() return setmetatable({ line = self.line }, Filter) end
local function side(name, channel) return "filter-" .. name .. (channel:is_resp() and "-res" or "-req") end
function Filter:start_analyze(txn, channel)
  if current.place:match("payload") or current.place:match("finish") then filter.register_data_filter(self, channel) end
  return call(side("start", channel), txn, channel, self)
end
function Filter:end_analyze(txn, channel) return call(side("end", channel), txn, channel, self) end
function Filter:http_headers(txn, message) return call(side("headers", message.channel), txn, message, self) end
function Filter:http_payload(txn, message) return call(side("payload", message.channel), txn, message, self) end
function Filter:http_end(txn, message) return call(side("finish", message.channel), txn, message, self) end
function Filter:tcp_payload(txn, channel) return call(side("tcp-payload", channel), txn, channel, self) end
pcall(function()
  Filter.id, Filter.flags = "rows", filter.FLT_CFG_FL_HTX
  core.register_filter("row", Filter, function(class, arguments)
    class.line = arguments
    return class
  end)
end)

-- What became of a returned sample.
core.register_action("row_returned", { "http-req" }, function(txn)
  if current.place == "fetch" or current.place == "converter" then
    if current.raw then show(txn:get_var("txn.returned")) end
  end
end)

-- /begin?row=N selects a row, /end returns its results, /log?text logs the text. An action, so that programs without services have it.
core.register_action("control", { "http-req" }, function(txn)
  local answer, path, query = "", txn.sf:path(), txn.sf:query()
  if path == "/begin" then
    current = codes[tonumber(query:match("row=(%d+)"))]
    results = current.results or {}
    if current.failed then results = { current.failed } end
  elseif path == "/end" then
    -- HAProxy 2.6 encodes line ends in the answer.
    answer = table.concat(results, "<line>")
  else
    core.log(core.info, query)
  end
  txn:set_var("txn.answer", answer)
end)
