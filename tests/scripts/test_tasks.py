"""Tasks: functions that run beside the traffic."""
import re
import time

from lib.program import wait_until

RETURN = 'http-request return status 200 content-type text/plain lf-string '


def test_tasks_run_beside_the_traffic_and_start_others(world):
    world.serve("""
local order = {}
core.register_task(function(...)
    order[#order + 1] = select("#", ...) .. tostring((...))
    core.msleep(1)
    core.register_task(function(name) order[#order + 1] = name end, "inner")
end, nil, 2)
core.register_fetches("order", function() return table.concat(order, " ") end)
core.register_action("own", {"http-req"}, function(txn)
    local seen
    core.register_task(function() core.yield() seen = core.now().sec > 0 end)
    txn:set_var("txn.before", tostring(seen))
    while seen == nil do core.msleep(1) end
    txn:set_var("txn.after", tostring(seen))
end)""", f'http-request lua.own\n    {RETURN}"%[var(txn.before)] %[var(txn.after)] %[lua.order]"')
    assert wait_until(lambda: world.ask().endswith("nil true 2nil inner"))


def test_a_task_that_fails_is_reported_and_ends_alone(world):
    world.serve("""
core.register_task(function() core.msleep(1) error("broken") end)
core.register_task(function() while true do core.msleep(1) ticks = (ticks or 0) + 1 end end)
core.register_fetches("ticks", function() return ticks end)""", f'{RETURN}"%[lua.ticks]"')
    assert wait_until(lambda: int(world.ask().split()[-1]) > 20)
    assert re.search(r"Lua task: \[state-id \d\] runtime error: \S+/script.lua:2: broken from ", world.said())


def test_a_task_that_computes_lets_requests_pass(world):
    world.serve("""
core.register_task(function() while true do end end)
core.register_fetches("yes", function() return "yes" end)""", f'{RETURN}"%[lua.yes]"')
    for _ in range(20):
        assert world.ask().endswith("yes")


def test_many_actions_that_compute_let_others_pass(world):
    if world.haproxy:
        return
    world.serve("""core.register_action("spin", {"http-req"}, function() while true do end end)""",
                "http-request lua.spin if { path /spin }\n    http-request return status 200",
                global_lines="tune.lua.burst-timeout 20s\n    tune.lua.session-timeout 20s")
    spinning = [world.connect("/spin") for _ in range(16)]
    times = []
    for _ in range(50):
        began = time.monotonic()
        assert world.ask().startswith("HTTP/1.1 200")
        times.append(time.monotonic() - began)
    for client in spinning:
        client.close()
    # A tick of each of them would be 4 ms or more.
    assert sorted(times)[25] < 0.03, times


def test_the_number_of_tasks_is_bounded(world):
    if world.haproxy:
        return
    world.serve("""
core.register_action("flood", {"http-req"}, function()
    for _ = 1, 9000 do core.register_task(function() core.msleep(600000) end) end
end)""", "http-request lua.flood if { path /flood }\n    http-request return status 200")
    for _ in range(4):
        assert world.ask("/flood").startswith("HTTP/1.1 200")
    assert world.ask().startswith("HTTP/1.1 200")
    assert "Lua task: [state-id" in (said := world.said()) and "too many tasks" in said


def test_functions_wait_for_queues(world):
    world.serve("""
local jobs, sums = core.queue(), core.queue()
for _ = 1, 3 do
    core.register_task(function() while true do local job = jobs:pop_wait() core.yield() job.answers:push(job.number * 2) end end)
end
core.register_action("ask", {"http-req"}, function(txn)
    local answers, sum = core.queue(), 0
    for number = 1, 20 do jobs:push({number = number, answers = answers}) end
    for _ = 1, 20 do sum = sum + answers:pop_wait() end
    txn:set_var("txn.sum", sum)
end)""", f'http-request lua.ask\n    {RETURN}"%[var(txn.sum)]"')
    for _ in range(10):
        assert world.ask().endswith("\r\n\r\n420")


def test_wait_ends_at_an_alarm_or_at_its_time(world):
    if world.haproxy:
        return
    world.serve("""
core.register_action("ask", {"http-req"}, function(txn)
    local one, two, began = core.queue(), core.queue(), core.now()
    core.register_task(function() core.msleep(50) two:push("late") end)
    while two:size() == 0 do
        one:alarm()
        two:alarm()
        core.wait(5000)
    end
    txn:set_var("txn.item", two:pop())
    txn:set_var("txn.soon", core.now().sec - began.sec < 3)
    local before = core.now()
    core.wait(20)
    txn:set_var("txn.quick", core.now().sec - before.sec < 3)
    -- An alarm that rang before the wait counts.
    one:alarm()
    one:push(1)
    core.wait()
end)""", f'http-request lua.ask\n    {RETURN}"%[var(txn.item)] %[var(txn.soon)] %[var(txn.quick)]"')
    for _ in range(5):
        assert world.ask().endswith("\r\n\r\nlate 1 1")
