"""Place and time of checks: workers do not wake for each other's checks, many workers cost no more than one,
simultaneous checks drift apart."""
import os
import re
import time

from checks.support import Scene
from lib.origin import Server
from lib.program import TERM, wait_until


def activity(scene, name):
    """A figure of `show activity`, summed over the workers."""
    line = next(line for line in scene.ask("show activity").splitlines() if line.startswith(name + ":"))
    return int(re.findall(r"\d+", line)[0])


def sleeps(pid):
    """How often the threads of a process went to sleep."""
    total = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii") as file:
            total += int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", file.read(), re.M)[1])
    return total


def hundred(server, inter="1s"):
    """A backend with a hundred servers that are checked."""
    servers = "\n".join(f"    server s{number} 127.0.0.1:{server.port} check inter {inter}" for number in range(100))
    return f"backend b\n    option tcp-check\n    tcp-check expect string x\n{servers}\n"


def answer(connection):
    """The expected answer of these checks."""
    connection.sendall(b"x")


def own_memory(pid):
    """Private memory of a process, in bytes."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return int(re.search(r"^RssAnon:\s+(\d+)", file.read(), re.M)[1]) * 1024


def test_a_check_between_its_runs_takes_less_than_a_kilobyte(binary, folder):
    """5,000 servers with sleeping checks, compared with the same servers without checks."""
    server, count = Server(answer), 5000

    def measure(name, words):
        servers = "\n".join(f"    server s{number} 127.0.0.1:{server.port} weight 10 {words}" for number in range(count))
        # The allocator must not keep free memory of the start, which checks would reuse.
        at_once = dict(os.environ, MIMALLOC_PURGE_DELAY="0")
        with Scene(binary, folder, f"backend b\n{servers}\n", "nbthread 1", name=f"{name}.cfg", env=at_once) as scene:
            assert scene.ask("show servers state b").count("127.0.0.1") == count
            return own_memory(scene.program.pid)

    without = measure("without", "")
    each = (measure("with", "check inter 24h") - without) / count
    assert 100 < each < 1024, each


def test_workers_wake_only_for_their_own_checks_r87_r95(binary, folder):
    """With 8 workers and 100 checks a second, threads sleep as often as the checks require, not once for each worker."""
    server = Server(answer)
    with Scene(binary, folder, hundred(server), "nbthread 8") as scene:
        assert wait_until(lambda: activity(scene, "check_started") >= 100, 10)
        pid = scene.program.pid
        checks, slept = activity(scene, "check_started"), sleeps(pid)
        time.sleep(3)
        slept, checks = sleeps(pid) - slept, activity(scene, "check_started") - checks
    # A timer, an established connection, its data, a check that moves; with a shared queue it was 8 and more.
    assert checks > 150 and slept < 3 * checks + 100, (checks, slept)


def test_frequent_checks_use_no_shared_wait_queue_r53(binary, folder):
    """Servers that are checked every 10 ms on two workers: the founding measurement waited for the lock of a wait queue that all threads share. Here a
    check sleeps in its worker's own; workers meet only where a check moves."""
    server = Server(answer)
    servers = "backend b\n" + "\n".join(f"    server s{number} 127.0.0.1:{server.port} check inter 10ms" for number in range(200))
    with Scene(binary, folder, servers, "nbthread 2") as scene:
        assert wait_until(lambda: activity(scene, "check_started") >= 2000, 20)
        # Each migrated check was sent in a message, and may have woken a worker.
        met = activity(scene, "wake_remote") + activity(scene, "messages")
        moved, started = activity(scene, "check_adopted"), activity(scene, "check_started")
    assert met <= 2 * moved + 50, (met, moved)
    assert moved < started / 10, (moved, started)


def test_checks_on_8_workers_cost_no_more_than_on_one_r91(binary, folder):
    """Processor time of a hundred checks a second on 8 workers, beside the same on one."""
    server = Server(answer)

    def cost(workers):
        with Scene(binary, folder, hundred(server), f"nbthread {workers}", name=f"w{workers}.cfg") as scene:
            assert wait_until(lambda: activity(scene, "check_started") >= 100, 10)
            before, checks = scene.program.cpu_seconds(), activity(scene, "check_started")
            time.sleep(4)
            return (scene.program.cpu_seconds() - before) / (activity(scene, "check_started") - checks)
    one, eight = cost(1), cost(8)
    # A shared queue cost 5 per cent of 48 processors for a hundred checks a second: 24 ms a check.
    assert eight < 2 * one + 0.0003, (one, eight)


def test_checks_of_added_servers_are_spread_over_their_interval_r94(binary, folder):
    """Checks of servers that are added at the same time begin at any moment of their interval, and on more than one worker after a while."""
    moments = []

    def note(connection):
        moments.append(time.monotonic())
        answer(connection)
    server = Server(note)
    sections = "backend b\n    option tcp-check\n    tcp-check expect string x\n"
    with Scene(binary, folder, sections, "nbthread 4\n    spread-checks 0") as scene:
        for number in range(40):
            scene.ask(f"add server b/s{number} 127.0.0.1:{server.port} check inter 2s")
        begun = time.monotonic()
        scene.ask(";".join(f"enable server b/s{number}; enable health b/s{number}" for number in range(40)))
        assert wait_until(lambda: len(moments) >= 120, 12), len(moments)
        line = next(line for line in scene.ask("show activity").splitlines() if line.startswith("check_started:"))
        each = [int(word) for word in re.findall(r"\d+", line.split("[", 1)[1])]
    in_tenths = [0] * 10
    for moment in moments:
        in_tenths[int((moment - begun) / 0.2) % 10] += 1
    assert max(in_tenths) <= len(moments) / 3, in_tenths
    assert sum(each) >= 120, each


def test_a_reload_during_a_check_keeps_the_server_up(binary, folder):
    """The former process ends without waiting for its checks, and neither it nor the new one reports a failed server."""
    begun = []

    def slow(connection):
        begun.append(time.monotonic())
        connection.settimeout(3)
        if connection.recv(100):
            time.sleep(0.7)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
    server = Server(slow)
    sections = f"backend b\n    option httpchk\n    option log-health-checks\n    timeout check 2s\n    server s 127.0.0.1:{server.port} check inter 2s fall 1\n"
    with Scene(binary, folder, sections) as former:
        assert wait_until(lambda: begun)
        former.expect("b", "s", check_status="L7OK")
        count = len(begun)
        assert wait_until(lambda: len(begun) > count)
        # A check runs now.
        with Scene(binary, folder, sections, arguments=("-sf", str(former.program.pid)), name="new.cfg") as scene:
            left = time.monotonic()
            assert former.program.status(5) == 0 and time.monotonic() - left < 1.5
            said = former.program.process.communicate()[0]
            assert "DOWN" not in said, said
            scene.expect("b", "s", status="UP", check_status="L7OK")
            scene.program.send(TERM)
            assert scene.program.status() is not None
            said = scene.program.process.communicate()[0]
    assert "DOWN" not in said, said
