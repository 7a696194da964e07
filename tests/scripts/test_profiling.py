"""`show profiling tasks`: the cost of scripts by function, by line, and by call that blocks its thread."""
import re
import threading

import pytest

from lib.program import ask as command

RETURN = 'http-request return status 200 content-type text/plain lf-string '


def profiled(world, script, rules):
    """Starts a script, and measures. Returns a function for the tables."""
    cli = f"{world.folder.path}/cli"
    world.serve(script, rules, global_lines=f"insecure-fork-wanted\n    stats socket {cli} level admin")
    world.ask("/before")
    assert "Lua" not in command(cli, "show profiling tasks").replace("Lua task", "")
    command(cli, "set profiling tasks on")
    # A worker that sleeps notices the change when it wakes.
    for _ in range(8):
        world.ask("/before")
    command(cli, "set profiling tasks on")
    for _ in range(8):
        world.ask("/before")

    def tables():
        text = command(cli, "show profiling tasks bytime")
        parts = re.split(r"^(Lua [^:]+):\n", text, flags=re.M)
        return {title: [line.strip() for line in lines.splitlines()[1:] if line] for title, lines in zip(parts[1::2], parts[2::2])}
    return tables


def test_functions_lines_and_blocking_calls_are_named(world):
    if world.haproxy:
        pytest.skip("HAProxy has no such tables")
    world.folder.file("data.txt", "one\n")
    path = f"{world.folder.path}/data.txt"
    tables = profiled(world, f"""
core.register_action("slow", {{"http-req"}}, function(txn)
    local sum = 0
    for i = 1, 3000000 do
        sum = sum + i % 7
    end
    local kept = {{}}
    for i = 1, 1000 do kept[i] = ("x"):rep(100) .. i end
end)
core.register_fetches("reads", function(txn)
    local file = assert(io.open("{path}"))
    local text = file:read("l")
    file:close()
    return text
end)
core.register_action("runs", {{"http-req"}}, function(txn)
    os.execute("sleep 0.2")
end)
core.register_task(function() while true do core.msleep(20) end end)
""", f"""http-request lua.slow if {{ path /slow }}
    http-request lua.runs if {{ path /runs }}
    {RETURN}"%[lua.reads]" """)
    for _ in range(4):
        assert world.ask("/slow").endswith("one")
    world.ask("/runs")
    shown = tables()
    script = f"{world.folder.path}/script.lua"
    functions, lines, blocking = (shown[title] for title in ("Lua functions", "Lua lines, sampled", "Lua calls that block their thread"))

    def of(rows, start, line):
        found = [row for row in rows if row.startswith(start) and row.endswith(f" <- {script}:{line}")]
        assert len(found) == 1, (start, line, rows)
        return found[0]
    slow = of(functions, "function 'slow'", 2)
    assert int(slow.split(" <- ")[0].split()[-1]) > 400_000, slow
    assert "sample-fetch 'reads'" in of(functions, "sample-fetch 'reads'", 10)
    of(functions, "function 'runs'", 16)
    of(functions, "task", 19)
    assert re.search(rf" <- {re.escape(script)}:[45]$", lines[0]), lines
    assert re.match(r"os.execute +1 +[2-9]\d\d\.\dms ", of(blocking, "os.execute", 17)), blocking
    for name, line in (("io.open", 11), ("file:read", 12), ("file:close", 13)):
        of(blocking, name, line)


def test_errors_of_measured_calls_are_those_of_lua(world):
    """They name the function and the position of the script, with and without measuring."""
    script = """
core.register_fetches("errors", function(txn)
    local errors = {}
    for _, bad in ipairs{function() io.open({}) end, function() io.open("/", "z") end, function() io.lines("/nowhere") end,
                         function() io.stdout.read(5) end, function() os.rename("a") end, function() loadfile({}) end} do
        errors[#errors + 1] = select(2, pcall(bad))
    end
    return table.concat(errors, "|")
end)"""
    rules = f'{RETURN}"%[lua.errors]"'
    if world.haproxy:
        world.serve(script, rules)
    else:
        profiled(world, script, rules)
    at = f"{world.folder.path}/script.lua"
    assert world.ask().partition("\r\n\r\n")[2].split("|") == [
        f"{at}:4: bad argument #1 to 'open' (string expected, got table)",
        f"{at}:4: bad argument #2 to 'open' (invalid mode)",
        f"{at}:4: cannot open file '/nowhere' (No such file or directory)",
        f"{at}:5: bad argument #1 to 'read' (FILE* expected, got number)",
        f"{at}:5: bad argument #2 to 'rename' (string expected, got no value)",
        f"{at}:5: bad argument #1 to 'loadfile' (string expected, got table)"]


def test_time_spent_waiting_for_the_shared_state_is_shown(world):
    if world.haproxy:
        pytest.skip("HAProxy has no such tables")
    tables = profiled(world, """
core.register_fetches("long", function(txn)
    local sum = 0
    for i = 1, 4000000 do sum = sum + i % 7 end
    return sum
end)
core.register_action("short", {"http-req"}, function(txn) end)""", f"""http-request lua.short
    {RETURN}"%[lua.long]" if {{ path /long }}
    {RETURN}"short" """)
    clients = [threading.Thread(target=world.ask, args=("/long",)) for _ in range(12)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    waits = {row.split(" <- ")[0].split()[1]: row.split()[-4] for row in tables()["Lua functions"]}
    assert set(waits) == {"'long'", "'short'"}
    # Runs on one thread wait for those on the other one, unless each thread has its own state.
    assert world.load != "lua-load" or any(re.fullmatch(r"[\d.]+m?s", wait) for wait in waits.values()), waits
