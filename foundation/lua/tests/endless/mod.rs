//! Scripts that compute for ever, by the place where they do.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Ends the process if a script does not end.
pub(crate) struct Watchdog(Sender<()>);

impl Watchdog {
    /// Watches until it is dropped.
    pub(crate) fn new(text: &'static str) -> Self {
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            if receiver.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
                eprintln!("no end: {text}");
                std::process::abort();
            }
        });
        Watchdog(sender)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// All places.
pub(crate) fn everywhere() -> impl Iterator<Item = &'static str> {
    [YIELDING, CALLBACKS, CATCHING, COROUTINES, FINALIZERS, SLOW_CALLS, LONG_CALLS].concat().into_iter()
}

/// Places where a coroutine can yield to other tasks.
pub(crate) const YIELDING: &[&str] = &[
    "while true do end",
    "local function again() return again() end again()",
    "goto again ::again:: goto again",
    "for i = 1, math.huge do end",
    "while true do pcall(function() while true do end end) end",
    "while true do pcall(error) end",
    "while true do xpcall(function() while true do end end, print) end",
    "while true do local ok, text = pcall(string.rep) end",
    "for _ in function() while true do end end do end",
    "return setmetatable({}, {__index = function() while true do end end}).x",
    "return setmetatable({}, {__lt = function() while true do end end}) < {}",
    "return setmetatable({}, {__eq = function() while true do end end}) == {}",
    "return #setmetatable({}, {__len = function() while true do end end})",
    "return setmetatable({}, {__concat = function() while true do end end}) .. 'x'",
    "setmetatable({}, {__newindex = function() while true do end end}).x = 1",
    "setmetatable({}, {__call = function() while true do end end})()",
    "do local x <close> = setmetatable({}, {__close = function() while true do end end}) end",
    "local x <close> = setmetatable({}, {__close = function() while true do end end}) while true do end",
];

/// Functions of C that call functions of the script: a coroutine cannot yield in them.
const CALLBACKS: &[&str] = &[
    "table.sort({1, 2, 3}, function() while true do end end)",
    "while true do pcall(table.sort, {1, 2, 3}, function() while true do end end) end",
    "table.sort(setmetatable({}, {__len = function() return 2^31 - 2 end, __index = function() return 1 end}))",
    "table.sort(setmetatable({}, {__len = function() return 2^31 - 2 end}), rawequal)",
    "string.gsub('aaa', 'a', function() while true do end end)",
    "string.gsub('aaa', 'a', setmetatable({}, {__index = function() while true do end end}))",
    "tostring(setmetatable({}, {__tostring = function() while true do end end}))",
    "for _ in pairs(setmetatable({}, {__pairs = function() while true do end end})) do end",
    "load(function() while true do end end)",
    "load(function() return ' ' end)",
    "load(coroutine.wrap(function() while true do coroutine.yield(' ') end end))",
    "table.concat(setmetatable({}, {__index = function() return '' end}), '', 1, 2^53)",
    // Each element is a call of C, and nothing grows.
    "table.concat(setmetatable({}, {__index = table.concat}), '', 1, math.maxinteger)",
    "table.unpack(setmetatable({}, {__index = function() while true do end end}), 1, 5)",
    "table.move(setmetatable({}, {__index = function() end}), 1, 2^53, 1, {})",
];

/// Places that catch the error of the end.
const CATCHING: &[&str] = &[
    "xpcall(function() while true do end end, function() while true do end end)",
    "while true do xpcall(function() while true do end end, function() while true do end end) end",
    "xpcall(error, function() while true do end end)",
    "xpcall(function() while true do end end, coroutine.wrap(function() while true do end end))",
    "getmetatable('').__call = function() while true do end end
     xpcall(function() while true do end end, pcall)",
    "local function again() xpcall(function() while true do end end, again) end while true do again() end",
    "local function deep(n) if n > 0 then pcall(deep, n - 1) end while true do end end while true do deep(50) end",
    "local function never() pcall(never) while true do end end never()",
    "while true do
         pcall(function()
             local x <close> = setmetatable({}, {__close = function() while true do end end})
             while true do end
         end)
     end",
    "local function closes()
         local x <close> = setmetatable({}, {__close = function() pcall(function() while true do end end) while true do end end})
         local y <close> = setmetatable({}, {__close = function() while true do end end})
         error('x')
     end
     while true do pcall(closes) end",
];

/// Coroutines of the script.
const COROUTINES: &[&str] = &[
    "coroutine.wrap(function() while true do end end)()",
    "local one = coroutine.create(function() while true do pcall(function() while true do end end) end end)
     while true do coroutine.resume(one) end",
    "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    "coroutine.resume(coroutine.create(function() while true do end end)) while true do end",
    "pcall(coroutine.wrap(function() while true do end end)) while true do end",
    "while true do pcall(coroutine.wrap(function() while true do end end)) end",
    "while true do coroutine.resume(coroutine.create(function() coroutine.resume(coroutine.create(function() while true do end end)) end)) end",
    "local function nest(depth)
         while true do
             local one = coroutine.create(function() if depth > 0 then nest(depth - 1) end while true do end end)
             coroutine.resume(one)
         end
     end
     nest(100)",
    "local function nest(depth)
         while true do pcall(coroutine.wrap(function() if depth > 0 then nest(depth - 1) end while true do end end)) end
     end
     nest(20)",
    // Coroutines that run for a few instructions, so that none comes to the end of a count.
    "local one = coroutine.wrap(function() while true do coroutine.yield() end end) while true do one() end",
    "while true do coroutine.wrap(function() end)() end",
    "for _ in coroutine.wrap(function() while true do coroutine.yield(1) end end) do end",
    "while true do coroutine.close(coroutine.create(print)) end",
    "local one = coroutine.create(function()
         local x <close> = setmetatable({}, {__close = function() while true do end end})
         coroutine.yield()
     end)
     coroutine.resume(one)
     coroutine.close(one)",
    "while true do
         local one = coroutine.create(function()
             local x <close> = setmetatable({}, {__close = function() while true do end end})
             local y <close> = setmetatable({}, {__close = function() while true do end end})
             coroutine.yield()
         end)
         coroutine.resume(one)
         pcall(coroutine.close, one)
     end",
    "coroutine.wrap(function()
         local x <close> = setmetatable({}, {__close = function() while true do end end})
         error('x')
     end)()",
    "local one = coroutine.running() while true do coroutine.resume(coroutine.create(function() coroutine.resume(one) end)) end",
    "coroutine.wrap(function() table.sort({1, 2, 3}, function() coroutine.wrap(function() while true do end end)() end) end)()",
    "coroutine.wrap(function() xpcall(function() while true do end end, function() while true do end end) while true do end end)()",
];

/// Finalizers.
const FINALIZERS: &[&str] = &[
    "setmetatable({}, {__gc = function() while true do end end}) collectgarbage() while true do end",
    "while true do setmetatable({}, {__gc = function() while true do end end}) end",
    "while true do setmetatable({}, {__gc = function() pcall(function() while true do end end) while true do end end}) collectgarbage() end",
    "local class = {__gc = true}
     setmetatable({}, class)
     class.__gc = function() while true do end end
     collectgarbage() while true do end",
    "debug.setmetatable({}, {__gc = function() while true do end end}) collectgarbage() while true do end",
    "local class = {} class.__gc = function(x) setmetatable(x, class) end setmetatable({}, class) while true do collectgarbage() end",
    "setmetatable({}, {__gc = function() coroutine.wrap(function() while true do end end)() end}) collectgarbage() while true do end",
    "setmetatable({}, {__gc = function() (('a'):rep(50)):find(('a?'):rep(50) .. ('a'):rep(51)) end}) collectgarbage() while true do end",
    "setmetatable({}, {__mode = 'k', __gc = function() while true do end end}) while true do local x = {} end",
];

/// Loops of calls that take milliseconds.
const SLOW_CALLS: &[&str] = &[
    "while true do string.rep('x', 1000000) end",
    "while true do pcall(string.rep, 'x', 10000000) end",
    "local s = ('x'):rep(1000000) while true do local t = s .. 'y' end",
    "local s = ('x'):rep(1000000) while true do s:upper() end",
    "local s = ('x'):rep(1000000) while true do s:find('y', 1, true) end",
    "local s = ('x'):rep(1000000) while true do utf8.len(s) end",
    "local s = ('x'):rep(300000) while true do s:byte(1, 100000) end",
    "local t = {} for i = 1, 100000 do t[i] = i end while true do table.concat(t) end",
    "local t = {} for i = 1, 100000 do t[i] = i end while true do table.sort(t) end",
    "local t = {} for i = 1, 100000 do t[i] = i end while true do pcall(table.unpack, t) end",
    "local s = 'return {' .. ('1,'):rep(100000) .. '}' while true do load(s) end",
    "local s = ('x'):rep(1000000) while true do string.format('%s%s', s, s) end",
    "while true do collectgarbage() end",
];

/// One call that takes for ever.
const LONG_CALLS: &[&str] = &[
    "return (('a'):rep(50)):find(('a?'):rep(50) .. ('a'):rep(51))",
    "return (('a'):rep(100000)):find('.-.-.-.-b')",
    "return (('a'):rep(100000)):match('(.*)(.*)(.*)(.*)b')",
    "return (('a'):rep(100000)):gsub('.-.-.-.-b', '')",
    "for _ in (('a'):rep(100000)):gmatch('.-.-.-.-b') do end",
    "while true do pcall(string.find, ('a'):rep(100000), '.-.-.-.-b') end",
    "return (('('):rep(300000)):find('%b()')",
    "return (('a'):rep(300000)):find('a*b')",
    "return (('a'):rep(300000)):find('(a*)%1b')",
    "return (('ab'):rep(300000)):find('[%a]+%d')",
    "return (''):rep(math.maxinteger) .. (''):rep(100, '') .. (function() while true do end end)()",
    "local s, t = ('x'):rep(1000000), {} for i = 1, 20000 do t[i] = s end table.sort(t)",
    "return table.move({}, 1, math.maxinteger - 1, 2)",
    "return table.move({}, 1, math.maxinteger - 1, 1, {})",
    "return table.move({}, -2^53, 2^53, 1)",
    "table.insert(setmetatable({}, {__len = function() return 2^53 end}), 1, 'x')",
    "table.remove(setmetatable({}, {__len = function() return 2^53 end}), 1)",
    "local t = {} for i = 1, 300 do t[i] = '' end
     return table.concat(setmetatable({}, {__index = function(_, i) return '' end}), '', 1, math.maxinteger)",
];
