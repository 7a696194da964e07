"""HTTP/2 bodies over a long round-trip time. The receive window grows until it does not limit the throughput."""
from http2.far_peers import BODY, CONFIGURATION, FLIGHTS_S, FarRelay, answer, best_of_three, fetched
from lib.program import free_port


def test_http2_bodies_take_at_most_five_extra_round_trips(folder, origin, start):
    """4 MB at 100 ms, up and down: at most five round trips more than without the delay. A window that grew step by
    step took eight; a fixed one of 64 kB would take 64."""
    door, near = free_port(), free_port()
    relay, origin.answer = FarRelay(door), answer
    start(CONFIGURATION.format(door=door, near=near, relay_to_door=relay.port, origin=origin.port), near, door)
    sent = folder.file("body", "")
    with open(sent, "wb") as file:
        file.write(BODY)
    put = ["--http2-prior-knowledge", "-T", sent]
    _, direct = fetched(*put, f"http://127.0.0.1:{door}/")
    most = direct + 1.25 * FLIGHTS_S
    got, upload = best_of_three(most, *put, f"http://127.0.0.1:{relay.port}/")
    assert got == b"%d" % len(BODY), got
    got, download = best_of_three(most, f"http://127.0.0.1:{near}/")
    assert got == BODY, len(got)
    print(f"       4 MB at 100 ms: up {upload:.2f} s, down {download:.2f} s; {direct:.2f} s without the distance, flights {FLIGHTS_S:.2f} s")
    assert upload < most and download < most
