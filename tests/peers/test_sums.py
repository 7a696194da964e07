"""Counters of one key on several instances: the last update wins, or all are summed (`aggregate`)."""
import signal
import threading
import time

from lib.program import request, wait_until
from peers.support import Instance, Ring, assert_counted, other_implementation, request_of


def test_a_request_limit_applies_across_two_peers(binary, folder):
    """Ten requests of a client are served, by either instance; further ones get 429."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a", limit=10) as a, Instance(binary, ring, "b", limit=10) as b:
        assert wait_until(lambda: b.get("warm") or "warm" in a.entries("texts")), "they do not talk"
        size = 0
        for turn in range(10):
            (a, b)[turn % 2].get("client")
            size = assert_counted("client", turn + 1, size, a, b)
        a.get("client", b"429")
        assert_counted("client", 11, size, a, b)
        b.get("client", b"429")


def test_peer_updates_do_not_wait_for_delayed_acknowledgements(binary, folder):
    """An update right after an acknowledgement does not wait for TCP's 40 ms, whichever of the two instances connected."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a") as a, Instance(binary, ring, "b") as b:
        a.get("warm")
        assert wait_until(lambda: "warm" in b.entries("texts"), 10), "they do not talk"
        for one, other in ((a, b), (b, a)):
            times = []
            for turn in range(30):
                one.get(f"{one.port}-{turn}")
                assert wait_until(lambda: f"{one.port}-{turn}" in other.entries("texts")), turn
                other.set("texts", "back", gpc0=turn)
                began = time.monotonic()
                assert wait_until(lambda: one.entries("texts").get("back", {}).get("gpc0") == str(turn)), turn
                times.append(time.monotonic() - began)
            assert sorted(times)[15] < 0.02, times


def counted(instance, key):
    """The requests of a key, as an instance knows them: the count, a rule's count, the rate, and the bytes."""
    entry = instance.entries("texts").get(key, {})
    return tuple(int(entry.get(name, 0)) for name in ("http_req_cnt", "gpc0", "http_req_rate", "bytes_in_cnt"))


def test_aggregated_counters_of_three_peers_add_up(binary, folder):
    """`aggregate`: requests that three instances serve at the same time add up to one sum, also after one of them was
    away, was restarted or was reloaded."""
    ring = Ring(folder, "a", "b", "c")
    here = lambda name, **more: Instance(binary, ring, name, together="aggregate", **more)
    with here("a") as a, here("b") as b:
        with here("c") as c:
            def all_have(number, *instances):
                known = (number, number, number, number * len(request_of("k")))
                assert wait_until(lambda: all(counted(one, "k") == known for one in instances), 15), \
                    [counted(one, "k") for one in instances]

            for one in (a, b, c) * 10:
                one.get("k")
            all_have(30, a, b, c)
            # The stopped instance does not receive these at once.
            c.program.send(signal.SIGSTOP)
            for one in (a, b) * 5:
                one.get("k")
            all_have(40, a, b)
            c.program.send(signal.SIGCONT)
            c.get("k")
            all_have(41, a, b, c)
            # The request's end is sent, too, with the tag that its rule had set.
            time.sleep(0.2)
            b.set("texts", "k", gpc0=7, gpt0=5)
            for what, value in (("gpc0", "7"), ("gpt0", "5")):
                assert wait_until(lambda: all(one.entries("texts")["k"][what] == value for one in (a, b, c))), \
                    (what, [one.entries("texts")["k"] for one in (a, b, c)])
            b.set("texts", "k", gpc0=41)
            all_have(41, a, b, c)
            c.program.process.kill()
            c.program.process.wait()
        with here("c") as c:
            all_have(41, a, b, c)
            c.get("k")
            all_have(42, a, b, c)
            with here("a", former=a) as next_a:
                all_have(42, next_a, b, c)
                next_a.get("k")
                all_have(43, next_a, b, c)


def test_a_request_limit_applies_across_two_aggregating_peers(binary, folder):
    """When clients send to both at once, they are served up to the limit, plus the updates in flight."""
    ring = Ring(folder, "a", "b")
    with Instance(binary, ring, "a", limit=60, together="aggregate") as a, Instance(binary, ring, "b", limit=60, together="aggregate") as b:
        a.get("warm")
        assert wait_until(lambda: "warm" in b.entries("texts"), 10), "they do not talk"
        served = []

        def ask_often(one):
            for _ in range(100):
                served.append(request(one.port, request_of("k")).split()[1])
                time.sleep(0.005)

        clients = [threading.Thread(target=ask_often, args=(one,)) for one in (a, b)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        assert len(served) == 200 and 60 <= served.count(b"200") <= 66, served.count(b"200")


def test_aggregated_tables_keep_the_last_update_beside_haproxy_peers(binary, folder):
    """Together with HAProxy 2.6 and 3.2 the last update wins, as among those."""
    old, new = other_implementation("2.6"), other_implementation("3.2")
    ring = Ring(folder, "a", "b", "c")
    with Instance(binary, ring, "a", together="aggregate") as a, Instance(old, ring, "b") as b, Instance(new, ring, "c") as c:
        # Until all three are connected: otherwise the last update would overwrite the counts before it.
        a.get("warm")
        assert wait_until(lambda: "warm" in b.entries("texts") and "warm" in c.entries("texts"), 15), "they do not talk"
        size = 0
        for turn in range(6):
            (a, b, c)[turn % 3].get("k")
            size = assert_counted("k", turn + 1, size, a, b, c)
