"""HTTP/2 clients that violate the protocol: each receives the matching error and loses its connection, memory stays
within bounds, and other clients are served meanwhile.
"""
import contextlib
import multiprocessing
import os
import signal
import socket
import time

from attacks import scarcity
from attacks.http2 import ENDLESS, FLOODS, LARGE, RAPID, REQUEST, SILENT, Scene, flood_on, read_to_the_end, send, send_without_end
from lib.http2 import CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, RESET, SETTINGS, WINDOW, frame, frames
from lib.latency import requests, threads
from lib.origin import Server
from lib.program import wait_until


def test_http2_floods_end_with_the_expected_goaway_code(binary, folder):
    """A flooding client gets a GOAWAY and loses its connection; other clients get their answers."""
    with Scene(binary, folder) as scene:
        for name, (pieces, code) in FLOODS.items():
            before = scene.glitches()
            found = send(scene.client(), pieces())
            assert found == code or (code is None and found not in (None, 0)), f"{name}: ended with {found}"
            assert scene.glitches() > before, f"{name}: not counted"
            scene.is_well()
        assert scene.grown_kb() < 16_000, f"{scene.grown_kb()} kB"


def test_http2_floods_add_at_most_5_ms_to_requests_of_other_clients(binary, folder):
    """Three clients flood, lose their connections, and come back at once, by each way in turn: 99 of 100 requests of a
    well-behaved client take at most 5 ms longer. Time spent waiting for a processor is subtracted, and the best of up
    to four rounds counts. Closed connections leave no memory behind."""
    fork = multiprocessing.get_context("fork")
    with Scene(binary, folder) as scene:
        tasks = threads(scene.program.pid)

        def percentile():
            spent = requests(scene.port, 200, tasks, "/fine")
            return spent[int(len(spent) * 0.99)]
        calm = min(percentile() for _ in range(3))
        for name in FLOODS:
            found, streams = [], fork.Value("q", 0)
            while not found or min(found) > calm + 5 and len(found) < 4:
                is_over = fork.Event()
                attackers = [fork.Process(target=flood_on, args=(scene.port, name, streams, is_over), daemon=True) for _ in range(3)]
                for attacker in attackers:
                    attacker.start()
                found.append(percentile())
                is_over.set()
                for attacker in attackers:
                    attacker.join()
            assert min(found) < calm + 5, f"{name}: {found} ms, {calm} ms without"
            assert streams.value > 10_000 or name != RAPID, f"only {streams.value} streams were reset"
            scene.is_well()
        assert scene.grown_kb() < 16_000, f"{scene.grown_kb()} kB"


def test_a_refused_http2_connection_is_freed_as_soon_as_its_client_closes(binary, folder):
    """A connection closed for misbehaviour is drained, however many bytes are queued on it. When the client leaves, the
    connection does not linger for the time allowed for reading the code."""
    fine = frame(77, 0, 0, bytes(16_000))
    with Scene(binary, folder) as scene:
        def descriptors():
            return len(os.listdir(f"/proc/{scene.program.pid}/fd"))
        time.sleep(0.2)
        before, stays = descriptors(), []
        for _ in range(5):
            client = scene.client()
            # The kernel takes more of a connection at once after it was read fast.
            for _ in range(400):
                client.sendall(fine)
            time.sleep(0.1)
            scene.program.send(signal.SIGSTOP)
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.send(frame(WINDOW, 0, 0, b"\x7f\xff\xff\xff") + fine * 55)
            client.shutdown(socket.SHUT_WR)
            time.sleep(0.1)
            begun = time.monotonic()
            scene.program.send(signal.SIGCONT)
            assert wait_until(lambda: descriptors() <= before)
            stays.append(time.monotonic() - begun)
        assert sorted(stays)[2] < 0.7, f"it stayed for {stays} s"
        scene.is_well()


def test_hpack_bombs_get_431_and_leave_no_memory(binary, folder):
    """References to one large field, and short codes of long values: a small head that would expand to a large one is
    refused, without leaving memory behind."""
    with Scene(binary, folder) as scene:
        large = b"\x40\x01x\x7f\xa1\x1e" + b"y" * 4000
        # Five bits are a zero: 12,000 bytes become 19,200.
        coded = b"\x00\x01x\xff\xe1\x5c" + bytes(12_000)
        for number in range(30):
            client = scene.client(frame(HEADERS, 5, 1, REQUEST + large) + frame(HEADERS, 5, 3, REQUEST + b"\xbe" * 8000) + frame(HEADERS, 5, 5, REQUEST + coded))
            status = {}
            for kind, _, stream, payload in frames(client):
                status |= {stream: payload} if kind == HEADERS else {}
                if 5 in status:
                    break
            assert all(b"431" in status.get(stream, b"") for stream in (3, 5)), f"client {number} was answered {status}"
        assert scene.grown_kb() < 8_000, f"{scene.grown_kb()} kB for 30 clients"
        scene.is_well()


def test_http2_streams_with_closed_windows_hold_at_most_their_responses(binary, folder):
    """Many streams request large answers and keep their windows closed: each holds at most its answer, and ends with
    the client's timeout."""
    with Scene(binary, folder, timeout="2s") as scene:
        closed = frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0")
        asked = b"".join(frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, LARGE) for number in range(100))
        for _ in range(5):
            scene.client(closed + asked)
        time.sleep(0.5)
        scene.is_well()
        assert scene.grown_kb() < 500 * 140, f"{scene.grown_kb()} kB for 500 streams"
        # The streams' own timeout ends them, one by one.
        ends = [kind for kind, *_ in frames(scene.clients[0], 4) if kind in (RESET, GOAWAY)]
        assert len(ends) >= 100, f"{len(ends)} streams ended"
        scene.is_well()


def test_unfinished_http2_requests_hold_little_and_do_not_block_other_streams(binary, folder):
    """Streams without END_STREAM hold little memory, and other streams of the connection are served."""
    with Scene(binary, folder) as scene:
        begun = b"".join(frame(HEADERS, END_HEADERS, 2 * number + 1, SILENT) + frame(DATA, 0, 2 * number + 1, b"some") for number in range(99))
        for _ in range(5):
            client = scene.client(begun + frame(HEADERS, END_STREAM | END_HEADERS, 301, REQUEST))
            assert any(kind == DATA and stream == 301 for kind, _, stream, _ in frames(client, 1)), "the last is answered"
        assert scene.grown_kb() < 500 * 20, f"{scene.grown_kb()} kB for 500 streams"
        scene.is_well()


def test_unfinished_http2_header_blocks_end_with_timeout_http_request(binary, folder):
    """An unfinished header block holds only the bytes received so far, and `timeout http-request` ends its connection."""
    with Scene(binary, folder) as scene:
        unfinished = frame(HEADERS, END_STREAM, 1, REQUEST) + frame(CONTINUATION, 0, 1, b"\x00\x01x\x7f\xa1\x4d" + b"y" * 5000)
        clients = [scene.client(unfinished) for _ in range(300)]
        time.sleep(1)
        scene.is_well()
        assert scene.grown_kb() < 300 * 20, f"{scene.grown_kb()} kB for 300 clients"
        begun = time.monotonic()
        for client in clients:
            assert not any(kind == HEADERS for kind, *_ in frames(client, 8)), "an answer"
        assert time.monotonic() - begun < 10, "they are still there"
        scene.is_well()


def test_http2_streams_with_one_byte_windows_hold_little_memory(binary, folder):
    """A thousand streams that read byte by byte leave the rest of their answers in the kernel, and each gets the bytes
    that its window allows."""
    with Scene(binary, folder, timeout="60s") as scene:
        narrow = frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\x01")
        asked = b"".join(frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, ENDLESS) for number in range(100))
        more = b"".join(frame(WINDOW, 0, 2 * number + 1, b"\0\0\0\x01") for number in range(100))
        clients = [scene.client(narrow + asked) for _ in range(10)]
        for client in clients:
            taken = {}
            for kind, _, stream, payload in frames(client, 5):
                if kind != DATA:
                    continue
                assert len(payload) <= 1, f"{len(payload)} bytes at once"
                taken[stream] = taken.get(stream, 0) + len(payload)
                if len(taken) == 100 and set(taken.values()) <= {1, 2, 3} and sum(taken.values()) in (100, 200):
                    client.sendall(more)
                if sum(taken.values()) == 300:
                    break
            assert set(taken.values()) == {3} and len(taken) == 100, taken
        # A buffer of 16 kB each, and the stream.
        assert scene.grown_kb() < 1000 * 24, f"{scene.grown_kb()} kB for 1000 streams"
        scene.is_well()


def test_responses_for_closed_http2_windows_stay_in_the_kernel(binary, folder):
    """Streams with closed windows leave their servers' data in the kernel."""
    with Scene(binary, folder) as scene:
        closed = frame(SETTINGS, 0, 0, b"\0\x04\0\0\0\0")
        asked = b"".join(frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, ENDLESS) for number in range(50))
        for _ in range(4):
            scene.client(closed + asked)
        time.sleep(1)
        scene.is_well()
        assert scene.grown_kb() < 200 * 20, f"{scene.grown_kb()} kB for 200 streams"


def test_a_slow_http2_reader_does_not_make_memory_grow(binary, folder):
    """Output that never drains completely takes only the memory of the bytes still queued, however many were sent
    before."""
    with Scene(binary, folder) as scene:
        wide = b"\0\x04\x7f\xff\xff\xff"
        client = scene.client(frame(SETTINGS, 0, 0, wide) + frame(WINDOW, 0, 0, b"\x7f\0\0\0"))
        client.sendall(frame(HEADERS, END_STREAM | END_HEADERS, 1, ENDLESS))
        most = 0
        for _ in range(400):
            # A little at a time: the bytes that the client has not read yet fill the kernel's buffers.
            for _ in range(16):
                client.recv(8192)
            time.sleep(0.001)
            most = max(most, scene.grown_kb())
        assert most < 2_000, f"{most} kB"
        scene.is_well()


def test_one_byte_data_frames_hold_less_memory_than_the_bytes_sent(binary, folder):
    """Each frame costs its sender ten bytes and takes less than that in memory."""
    with Scene(binary, folder) as scene:
        body = frame(DATA, 0, 1, b"x") * 50_000
        for _ in range(20):
            client = scene.client(frame(HEADERS, END_HEADERS, 1, b"\x83\x86\x04\x07/silent"))
            client.sendall(body)
        time.sleep(1)
        scene.is_well()
        assert scene.grown_kb() < 20 * len(body) // 1024, f"{scene.grown_kb()} kB for 20 times {len(body)} bytes"


def test_http2_streams_that_exhaust_memory_do_not_abort_the_process(binary, folder):
    """When memory runs out for 20,000 streams with heads of 3 kB, or with unread answers, nothing aborts: some streams
    are refused, and all clients are served afterwards."""
    endless, silent = Server(send_without_end), Server(read_to_the_end)
    value = b"b" * 3000
    # A literal field that no table keeps.
    field = b"\x00\x03x-a\x7f" + bytes([(len(value) - 127) & 127 | 128, (len(value) - 127) >> 7]) + value
    heads, answers = b"\x82\x86\x04\x01/" + field, b"\x82\x86\x04\x07/second"
    for megabytes, block in ((90, heads), (120, heads), (90, answers)):
        own = scarcity.Scene(binary, folder, maxconn=8000, first=silent.port, second=endless.port, preexec_fn=scarcity.address_space(megabytes))
        streams = b"".join(frame(HEADERS, END_STREAM | END_HEADERS, 1 + 2 * number, block) for number in range(100))
        with own as scene:
            for _ in range(200):
                client = socket.create_connection(("127.0.0.1", scene.port), 5)
                client.setblocking(False)
                client.send(PREFACE + frame(SETTINGS) + streams)
                scene.clients.append(client)
            assert wait_until(lambda: scene.figure("PoolFailed") > 0), f"{megabytes} MB were enough"
            time.sleep(0.3)
            scene.lives()
            scene.leave()
            assert wait_until(scene.is_fine, 20), f"nobody is served after {megabytes} MB were used up"
            scene.lives()
    endless.close()
    silent.close()
