"""Tasks and init."""
from lua.rows import Row

ROWS = [
    Row("a task runs", "5", "5", place="task"),
    Row("a task in the body of a file", "0", ['"task"'], place="rules", raw=True, registration="""
core.register_task(function() while not task_wanted do core.msleep(5) end task_result = "task" end)
core.register_action("task_result", {"http-req"}, function() task_wanted = true while not task_result do core.msleep(5) end show(task_result) end)""",
        frontend="http-request lua.task_result {if}"),
    Row("register_task returns", "core.register_task(function() end)"),
    Row("register_task: arguments", "(function() local got core.register_task(function(...) got = {n = select('#', ...), ...} end, 1, 'a', {x = 2}, true) "
        "while not got do core.msleep(5) end return got end)()", '{[1]=1, [2]="a", [3]={x=2}, [4]=true, n=4}', since="3.2"),
    Row("register_task: five arguments", "core.register_task(function() end, 1, 2, 3, 4, 5)", since="3.2"),
    Row("register_task: nil among the arguments", "(function() local got core.register_task(function(...) got = {n = select('#', ...), ...} end, nil, 2) "
        "while not got do core.msleep(5) end return got end)()", since="3.2"),
    *(Row(f"register_task({arguments})", f"core.register_task({arguments})") for arguments in ("", "5", "nil", "'x'", "{}")),
    *(Row(f"register_task in {place}", "core.register_task(function() end)", place=place) for place in ("body", "init", "task", "fetch", "converter", "http-service", "tcp-req")),
    Row("a task starts a task", "(function() local done core.register_task(function() done = 7 end) while not done do core.msleep(5) end return done end)()", "7", place="task"),
    Row("order of two tasks", "(function() local t = {} core.register_task(function() t[#t + 1] = 'a' end) core.register_task(function() t[#t + 1] = 'b' end) "
        "while #t < 2 do core.msleep(5) end return t end)()"),
    Row("a task runs after its action pauses", "(function() local ran core.register_task(function() ran = true end) local before = ran core.msleep(5) return before, ran end)()", "nil, true"),
    Row("what a task returns is lost", "(function() local ran core.register_task(function() ran = true return 5 end) core.msleep(5) return ran end)()", "true"),
    Row("register_init", "init_ran", "true", registration="core.register_init(function() init_ran = true end)"),
    Row("register_init: order", "init_order", '{[1]="a", [2]="b"}', registration="""
init_order = {}
core.register_init(function() init_order[#init_order + 1] = "a" end)
core.register_init(function() init_order[#init_order + 1] = "b" end)"""),
    Row("register_init: arguments", "init_count", "0", registration="core.register_init(function(...) init_count = select('#', ...) end)"),
    Row("register_init: sees the proxies", "init_proxies", "true", registration="core.register_init(function() init_proxies = core.backends.b ~= nil end)"),
    Row("the body does not see the proxies", "body_proxies", registration="body_proxies = type(core.backends)"),
    *(Row(f"register_init({arguments})", f"core.register_init({arguments})", place="body") for arguments in ("", "5", "nil", "function() end, 1")),
    *(Row(f"register_init in {place}", "core.register_init(function() end)", place=place) for place in ("init", "http-req", "task")),
]
