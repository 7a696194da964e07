"""The class Queue."""
from lua.rows import Row


def queue(name, code, want=None, **options):
    return Row(name, f"(function() local q = core.queue() {code} end)()", want, since="3.2", **options)


ROWS = [
    queue("class", "return tostring(q)"),
    queue("members", "local n = {} for k, v in pairs(q) do n[#n + 1] = tostring(k) end table.sort(n) return table.concat(n, ' ')"),
    queue("empty", "return q:size(), q:pop()", "0, nil"),
    queue("push and pop", "return q:push('a'), q:push(5), q:size(), q:pop(), q:pop(), q:pop(), q:size()", 'true, true, 2, "a", 5, nil, 0'),
    queue("any type", "q:push({1}) q:push(true) q:push(1.5) q:push(print) return q:pop(), q:pop(), q:pop(), type(q:pop())", '{[1]=1}, true, 1.5, "function"'),
    queue("false", "q:push(false) return q:size(), q:pop()", "1, false"),
    queue("the same table", "local t = {} q:push(t) return rawequal(q:pop(), t)", "true"),
    queue("push nil", "return pcall(q.push, q, nil)"),
    queue("push nothing", "return pcall(q.push, q)"),
    queue("push two", "return pcall(q.push, q, 1, 2)"),
    queue("pop with an argument", "return pcall(q.pop, q, 1)"),
    queue("size with an argument", "return pcall(q.size, q, 1)"),
    queue("a thousand", "for i = 1, 1000 do q:push(i) end local s = 0 for i = 1, 1000 do s = s + q:pop() end return s", "500500"),
    queue("pop_wait with an item", "q:push(5) return q:pop_wait()", "5", place="task"),
    queue("pop_wait waits", "core.register_task(function() core.msleep(20) q:push('late') end) return q:pop_wait()", '"late"', place="task"),
    queue("pop_wait in an action with an item", "q:push(5) return q:pop_wait()"),
    queue("pop_wait in an action waits", "core.register_task(function() core.msleep(20) q:push('late') end) return q:pop_wait()"),
    queue("pop_wait in a fetch", "q:push(5) return pcall(q.pop_wait, q)", place="fetch"),
    queue("two consumers", "local t = {} for i = 1, 2 do core.register_task(function() t[#t + 1] = q:pop_wait() end) end core.msleep(5) q:push(1) q:push(2) core.msleep(20) table.sort(t) return t", "{[1]=1, [2]=2}",
          manual="Each item goes to one consumer; in HAProxy 3.2 one of two waiting tasks loses its item."),
    queue("in a service", "q:push(5) return q:pop()", "5", place="http-service"),
    queue("alarm", "return type(q.alarm)"),
    *(Row(f"core.queue in {place}", "core.queue():size()", "0", place=place, since="3.2") for place in ("body", "init", "task", "fetch", "converter")),
    Row("core.queue with an argument", "core.queue(1):size()", since="3.2"),
]
