"""The memory of scripts: `tune.lua.maxmem`, and the bytes of peers that wait for them."""
import socket
import threading

import pytest

from lib.program import wait_until

RETURN = 'http-request return status 200 content-type text/plain string ok'
LIMIT = "tune.lua.maxmem 16"


def test_scripts_work_again_after_memory_was_short(world):
    world.serve("""
core.register_action("fill", {"http-req"}, function() local t = {} for i = 1, 1e8 do t[i] = string.rep("m", 1000) .. i end end)
core.register_action("keep", {"http-req"}, function(txn) for i = 1, 1e8 do txn:set_var("txn.v", string.rep("v", 4000) .. i) kept = (kept or "") .. "x" end end)
core.register_service("yes", "http", function(applet) applet:start_response() applet:send("yes") end)""",
                f"http-request use-service lua.yes if {{ path /yes }}\n    http-request lua.fill if {{ path /fill }}\n    {RETURN}", global_lines=LIMIT)
    for _ in range(4):
        assert world.ask("/fill", seconds=20).endswith("ok")
        # Both threads.
        assert all("yes" in world.ask("/yes") for _ in range(8))
    assert "out of memory error" in world.said()


def test_bodies_that_services_read_have_one_bound(world):
    if world.haproxy:
        pytest.skip("HAProxy has no bound for them")
    world.serve("""
core.register_service("read", "http", function(applet)
    local body = applet:receive()
    applet:start_response()
    applet:send(tostring(#body))
end)""", "http-request use-service lua.read", global_lines=LIMIT)
    before = world.program.resident_kb()
    length = 60_000_000
    clients = []

    def send():
        with socket.create_connection(("127.0.0.1", world.port), 20) as client:
            clients.append(client)
            try:
                client.sendall(f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n".encode())
                for _ in range(length // 1_000_000):
                    client.sendall(b"x" * 1_000_000)
            except OSError:
                pass

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert world.program.resident_kb() - before < 150_000
    # The memory of the bodies is free again.
    small = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello".encode()

    def answers():
        with socket.create_connection(("127.0.0.1", world.port), 5) as client:
            client.sendall(small)
            return b"".join(iter(lambda: client.recv(65536), b"")).endswith(b"1\r\n5\r\n0\r\n\r\n")
    assert wait_until(answers)
