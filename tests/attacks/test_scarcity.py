"""Clients that take all memory, all buffers or all descriptors: they are refused or wait, the process survives, and
other clients are served afterwards."""
import os
import resource
import socket
import subprocess
import time

from attacks.scarcity import FINE, HOARDS, LONG, NOTER, Scene, Together, address_space, answered, answers, ask_all, hoard, open_descriptors
from lib.origin import Origin
from lib.program import Folder, ask, free_port, heard, request, wait_until


def test_clients_that_exhaust_memory_do_not_abort_the_process(binary, folder):
    """With no memory left for the heads of 5,000 clients nothing aborts: clients wait, the runtime API responds, and
    all are served afterwards."""
    # The program and its libraries take about 30 of these.
    for megabytes in (100, 115, 130):
        with Folder() as own, Scene(binary, own, preexec_fn=address_space(megabytes)) as scene:
            scene.come(5000, LONG)
            time.sleep(0.5)
            scene.lives()
            assert scene.figure("PoolFailed") > 0, f"{megabytes} MB were enough"
            scene.leave()
            # 5,000 connections end first, on a machine that has other things to do.
            assert wait_until(scene.is_fine, 20), f"nobody is served after {megabytes} MB were used up"
            # And once more: memory lent during the shortage was returned.
            scene.come(2000, LONG)
            time.sleep(0.2)
            scene.leave()
            assert wait_until(scene.is_fine)
            scene.lives()


def test_unfinished_tls_records_that_exhaust_memory_do_not_abort_the_process(binary, folder):
    """With no memory left for the unfinished records of 6,000 clients of TLS nothing aborts, and others are served."""
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30",
                    "-subj", "/CN=x", "-keyout", f"{folder.path}/a.pem.key", "-out", f"{folder.path}/a.pem"], check=True, capture_output=True)
    secure, plain = free_port(), FINE
    modes = f"\nfrontend secure\n    bind 127.0.0.1:{secure} ssl crt {folder.path}/a.pem\n"
    # A handshake message one kilobyte below the size of a record, without its end.
    begun = b"\x16\x03\x01\x3f\xff\x01\x00\x3f\xfb\x03\x03" + b"a" * 13_000
    with Scene(binary, folder, modes=modes, maxconn=8000, preexec_fn=address_space(70)) as scene:
        scene.come(6000, begun, secure)
        time.sleep(0.3)
        scene.lives()
        assert scene.figure("PoolFailed") > 0, "there was enough"
        assert wait_until(lambda: b" 200 " in request(scene.port, plain, 2), 10), "no request is served meanwhile"
        scene.leave()
        assert wait_until(scene.is_fine, 20)


def test_idle_server_connections_are_closed_while_memory_is_short(binary, folder):
    """While memory is short, half of the idle server connections are closed each second."""
    count = 40
    server = Together(count)
    with Scene(binary, folder, "-m", "24", extra="tune.pool-low-fd-ratio 100", first=server.port, threads=1) as scene:
        base = open_descriptors(scene.program)
        scene.come(count, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers(scene.clients))
        idle = lambda: open_descriptors(scene.program) - base
        scene.leave()
        # As many as the purge of the pool leaves in a second or so.
        assert wait_until(lambda: 0 < idle() <= count) and idle() > count / 2, idle()
        scene.come(2000, LONG)
        held = lambda: idle() - int(scene.figure("CurrConns"))
        assert wait_until(lambda: held() <= 2, 8), f"{held()} are kept"


def test_workers_register_thread_destructors_only_at_startup(binary, folder):
    """The C library aborts when it lacks memory to register a thread's destructor: a serving worker registers no new
    ones."""
    source, library, notes = folder.file("noter.c", NOTER), os.path.join(folder.path, "noter.so"), os.path.join(folder.path, "notes")
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, source, "-ldl"], check=True)
    noted = lambda: [line for line in open(notes).read().split() if line.startswith("worker-")]
    options = {"extra": "log 127.0.0.1:9 local0", "modes": "log global\n    option httplog", "first": Origin().port}
    with Scene(binary, folder, env=dict(os.environ, LD_PRELOAD=library, NOTES=notes), **options) as scene:
        assert wait_until(lambda: len(set(noted())) == 2), "nothing was noted at the start"
        before = noted()
        # Answered by a server and here, refused, unfinished; by both workers.
        for head in (FINE, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"nonsense\r\n\r\n", LONG) * 10:
            with socket.create_connection(("127.0.0.1", scene.port), 5) as client:
                client.sendall(head)
                heard(client, 0.05)
        assert ask(scene.socket, "show sess all; show stat")
        assert noted() == before, f"noted while it served: {noted()[len(before):]}"


def test_the_process_stays_within_the_memory_limit_of_option_m(binary, folder):
    """`-m`: the process hardly exceeds its limit, whatever maxconn and the clients demand; waiting clients are served
    once memory is free."""
    with Scene(binary, folder, "-m", "24") as scene:
        rest = scene.program.resident_kb()
        assert scene.figure("Memmax_MB") == 24
        scene.come(5000, LONG)
        time.sleep(0.5)
        grown = scene.program.resident_kb() - rest
        assert 8_000 < grown < 30_000, f"{grown} kB more"
        scene.lives()
        late = socket.create_connection(("127.0.0.1", scene.port), 2)
        late.sendall(FINE)
        scene.leave()
        late.settimeout(3)
        assert late.recv(100).startswith(b"HTTP/1.1 200 ")
        late.close()
        assert wait_until(scene.is_fine)


def test_stick_tables_purge_or_refuse_entries_when_memory_runs_out(binary, folder):
    """With `-m`, or without free address space, tables of 10^9 entries purge or refuse entries. Other clients are served, and `clear table` frees
    the memory."""
    for words, options in ((["-m", "24"], {}), ([], {"preexec_fn": address_space(160)})):
        for table in ("purging", "refusing"):
            port = free_port()
            modes = HOARDS.format(hoard=port, table=f"p/{table}", name="me", here=free_port(), there=free_port())
            with Folder() as own, Scene(binary, own, *words, extra="localpeer me", modes=modes, **options) as scene:
                used = lambda: int(ask(scene.socket, f"show table p/{table}").split("used:")[1].split()[0])
                rest, count = scene.program.resident_kb(), 20_000
                tracked = hoard(port, count)
                scene.lives()
                assert used() < count * 0.9, f"{used()} entries fit: there was enough"
                if table == "purging":
                    assert tracked == count, f"{tracked} of {count} were tracked"
                else:
                    assert used() <= tracked < count * 0.9, f"{tracked} were tracked, {used()} are there"
                assert used() > 500, used()
                if words:
                    grown = scene.program.resident_kb() - rest
                    assert 6_000 < grown < 24_000, f"{grown} kB more"
                assert scene.figure("PoolFailed") > 0
                if words:
                    # A quarter of the limit is left to the others.
                    scene.come(100, b"GET /fine HTTP/1.1\r\nHost: x\r\n")
                    assert scene.is_fine(), "no request is served meanwhile"
                    scene.leave()
                ask(scene.socket, f"clear table p/{table}")
                assert wait_until(lambda: scene.program.resident_kb() - rest < 8_000, 10), "memory is kept"
                assert wait_until(scene.is_fine) and hoard(port, 200) == 200
                scene.lives()


def test_streams_beyond_tune_buffers_limit_wait_or_get_500(binary, folder):
    """`tune.buffers.limit`: streams wait their turn for a buffer, on any worker; a stream that times out gets 500."""
    with Scene(binary, folder, extra="tune.buffers.limit 40\n    tune.buffers.reserve 2") as scene:
        # 40 fit, on workers that take some of them at a time. The heads are too long to be held elsewhere.
        scene.come(60, LONG)
        # The last bytes may not have been received yet. The clients that wait here have a second, the others four.
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", scene.hasty), 2) as hasty:
                hasty.sendall(FINE)
                answer = hasty.recv(100)
            if not answer.startswith(b"HTTP/1.1 200 "):
                break
            time.sleep(0.05)
        assert answer.startswith(b"HTTP/1.1 500 "), answer
        late = socket.create_connection(("127.0.0.1", scene.port), 2)
        late.sendall(FINE)
        early = heard(late, 0.3)
        assert early == b"", f"there was a buffer left: {early}"
        # An operator does not wait with them: the heads are given up after four seconds.
        asked = time.monotonic()
        assert scene.figure("PoolFailed") > 0
        assert time.monotonic() - asked < 1.5
        scene.leave()
        late.settimeout(3)
        assert late.recv(100).startswith(b"HTTP/1.1 200 ")
        late.close()
        assert wait_until(scene.is_fine)


def test_the_runtime_api_responds_while_clients_hold_all_buffers(binary, folder):
    """While clients hold all buffers, commands of the runtime API are answered, also through the master."""
    modes = "timeout client 1h\n    timeout http-request 1h"
    master = os.path.join(folder.path, "master.sock")
    for name, arguments in (("alone", ("-db",)), ("worker", ("-W", "-S", master))):
        with Folder() as own, Scene(binary, own, *arguments[1:], mode=arguments[0], extra="tune.buffers.limit 40\n    tune.buffers.reserve 2", modes=modes, threads=1) as scene:
            scene.come(60, LONG)
            assert wait_until(lambda: b" 500 " in request(scene.hasty, FINE), 20), f"{name}: there are buffers left"
            for command, answer in (("show info", "\nName: "), ("show sess", "0x"), ("set server first/s1 state maint", "\n")):
                assert answer in answered(scene.socket, command), f"{name}: {command}"
            if name == "worker":
                assert "\nName: " in answered(master, "@1 show info"), "by the master"
            # The commands took no buffer from other clients.
            assert b" 500 " in request(scene.hasty, FINE), f"{name}: somebody was served"
            scene.leave()
            assert wait_until(scene.is_fine, 20), f"{name}: no request is served afterwards"
            scene.lives()


def test_show_pools_reports_memory_in_use(binary, folder):
    """`show pools` reports within about a second how many buffers clients hold, and their return."""
    def lent(scene, pool):
        """The total over all workers; checks that it is the sum of their figures."""
        lines = ask(scene.socket, f"show pools match {pool} detailed 1").split("\n")[1:4]
        first, *parts = [int(line.split(" used ")[0].split()[-1]) for line in lines]
        assert first == sum(parts), lines
        return first

    # Where buffers are limited, heads of that length stay in theirs; elsewhere they move to blocks of their size.
    for extra, pool, least in (("tune.buffers.limit 1000", "buffer", 20), ("", "buffer_fit", 20 * len(LONG))):
        with Folder() as own, Scene(binary, own, extra=extra) as scene:
            scene.come(20, LONG)
            assert wait_until(lambda: lent(scene, pool) >= least), lent(scene, pool)
            scene.leave()
            assert wait_until(lambda: lent(scene, pool) < least / 4), lent(scene, pool)


def test_idle_connections_are_closed_to_free_descriptors_for_other_servers(binary, folder):
    """Without a descriptor left for a server, idle connections to other servers are closed to free one: no client gets
    503."""
    count = 30
    for threads in (1, 2):
        first, second = Together(count), Origin()
        extra = "tune.pool-low-fd-ratio 100\n    tune.pool-high-fd-ratio 100"
        with Folder() as own, Scene(binary, own, extra=extra, threads=threads, maxconn=100, first=first.port, second=second.port) as scene:
            base = open_descriptors(scene.program)
            scene.come(count, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers(scene.clients))
            assert wait_until(lambda: open_descriptors(scene.program) >= base + 2 * count - 2)
            most = open_descriptors(scene.program) + 5
            resource.prlimit(scene.program.pid, resource.RLIMIT_NOFILE, (most, most))
            for client in scene.clients:
                client.send(b"GET /second HTTP/1.1\r\nHost: x\r\n\r\n")
            failed = [answer for answer in answers(scene.clients) if not answer.startswith(b"HTTP/1.1 200 ")]
            assert not failed, f"{threads} workers: {len(failed)} of {count} were refused: {failed[0]}"


def test_idle_server_connections_are_closed_to_free_descriptors_for_clients(binary, folder):
    """Without a free descriptor for a new client, one idle server connection is closed for each: no client waits for a timeout."""
    count = 30
    for threads in (1, 2):
        first = Together(count)
        with Folder() as own, Scene(binary, own, threads=threads, maxconn=200, first=first.port) as scene:
            scene.come(count, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers(scene.clients))
            most = open_descriptors(scene.program)
            resource.prlimit(scene.program.pid, resource.RLIMIT_NOFILE, (most, most))
            before = time.monotonic()
            more = scene.come_to_ask(count // 2)
            ask_all(more, b"/fine")
            took = time.monotonic() - before
            # An accepting worker that only waits tries again each 100 ms.
            assert took < 1, f"{threads} workers: {took:.1f} s for {len(more)} clients"


def test_private_server_connections_are_closed_to_free_descriptors(binary, folder):
    """`http-reuse never`: without a free descriptor, server connections kept for the next request of another client are closed; that request gets a
    new connection."""
    count = 30
    for threads in (1, 2):
        first, second = Origin(), Origin()
        extra = "tune.pool-low-fd-ratio 100\n    tune.pool-high-fd-ratio 1"
        with Folder() as own, Scene(binary, own, extra=extra, modes="http-reuse never", threads=threads, maxconn=200, first=first.port, second=second.port) as scene:
            base = open_descriptors(scene.program)
            ask_all(scene.come_to_ask(count), b"/")
            # Those of the clients themselves, and one to the server for each: the ratio, which is about the pool, takes none of them.
            assert wait_until(lambda: open_descriptors(scene.program) >= base + 2 * count - 2), "they are not kept"
            others = scene.come_to_ask(count)
            assert wait_until(lambda: open_descriptors(scene.program) >= base + 3 * count - 2)
            most = open_descriptors(scene.program) + 5
            resource.prlimit(scene.program.pid, resource.RLIMIT_NOFILE, (most, most))
            ask_all(others, b"/second")
            # The clients of the closed connections are served again.
            ask_all(scene.clients[:count], b"/")


def test_pool_fd_ratios_limit_the_idle_server_connections(binary, folder):
    """Above `tune.pool-low-fd-ratio` server connections are not kept after use; above `tune.pool-high-fd-ratio` idle ones are closed for new ones."""
    count = 30
    few = "tune.pool-low-fd-ratio 20\n    tune.pool-high-fd-ratio 25"
    for extra, low, high in ((few, 0, 15), ("", count, count), ("tune.pool-low-fd-ratio 0", 0, 0)):
        first = Together(count)
        with Folder() as own, Scene(binary, own, extra=extra, threads=1, maxconn=60, first=first.port) as scene:
            base = open_descriptors(scene.program)
            scene.come(count, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert all(answer.startswith(b"HTTP/1.1 200 ") for answer in answers(scene.clients))
            time.sleep(0.1)
            kept = open_descriptors(scene.program) - base - count
            # The first client may still have been connected.
            assert low - 2 <= kept <= high, f"'{extra}': {kept} are kept"
