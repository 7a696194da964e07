"""The program as a process: command line, exit statuses, signals, pid file, identity, hand-over, idle memory.


All tests also pass with the packaged haproxy, beside which they were written, except those of idle memory, names for numbers, the placement of
threads, lost messages and addresses, the last segment, the layout of ring files, the files in a core and separate measurements.
"""
import fcntl
import grp
import io
import itertools
import os
import pwd
import re
import resource
import signal
import socket
import struct
import subprocess
import tarfile
import threading
import time

import pytest

from attacks.http2 import REQUEST, SILENT, Scene, answer, goaway
from lib import ring
from lib.http2 import DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, PREFACE, SETTINGS, frame, frames
from lib.origin import Server
from lib.program import ANSWERING, HUP, INT, TERM, USR1, Program, answering, ask, connects, free_port, request, run, wait_until


def test_a_valid_configuration_exits_0_and_an_invalid_one_1(binary, folder):
    good, bad = answering(folder, free_port()), folder.file("bad.cfg", "frontend f\n    nonsense\n")
    assert run(binary, "-c", "-f", good)[0] == 0
    status, out, err = run(binary, "-c", "-f", bad)
    assert status == 1, status
    assert "[ALERT]" in err and "bad.cfg:2]" in err and "nonsense" in err, err
    assert "valid" in "".join(run(binary, "-c", "-V", "-f", good)[1:])


def test_an_absent_configuration_file_is_an_error(binary, folder):
    status, _, err = run(binary, "-f", os.path.join(folder.path, "absent.cfg"))
    assert status == 1 and "absent.cfg" in err, (status, err)


def test_warnings_are_fatal_with_dW(binary, folder):
    path = folder.file("warn.cfg", "frontend f\n    bind 127.0.0.1:1\n    mode http\n    http-request return status 200\n")
    assert run(binary, "-c", "-f", path)[0] == 0, "missing timeouts are only a warning"
    assert run(binary, "-c", "-dW", "-f", path)[0] == 1


def test_the_version_is_printed(binary, folder):
    status, out, _ = run(binary, "-v")
    assert status == 0 and "version" in out.lower(), out
    status, long, _ = run(binary, "-vv")
    assert status == 0 and len(long) > len(out), long


def test_output_that_cannot_be_written_does_not_change_the_status(binary, folder):
    """Each command ends on a full disk as it does elsewhere, without a panic."""
    config = answering(folder, free_port())
    with open("/dev/full", "wb") as full:
        for words, status in ((["-vv"], 0), (["-h"], 0), (["-dKall", "-c", "-f", config], 0), (["explain", "maxconn"], 0),
                              (["explain", "nonsense"], 1), (["-nonsense"], 1), (["lint"], 2)):
            for out, err in ((full, subprocess.PIPE), (subprocess.PIPE, full), (full, full)):
                done = subprocess.run([binary, *words], stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=10)
                assert done.returncode == status and b"panicked" not in (done.stdout or b"") + (done.stderr or b""), (words, done)


def test_option_cc_evaluates_versions_features_and_tls_library(binary, folder):
    assert run(binary, "-cc", "version_atleast(2.6)")[0] == 0
    assert run(binary, "-cc", "!version_atleast(2.6)")[0] == 1
    assert run(binary, "-cc", "streq(a,")[0] not in (0, None)
    # Conditions on the TLS library have the same result as in an HAProxy built with AWS-LC.
    for holds in ("feature(OPENSSL_AWSLC) && openssl_version_atleast(1.1.1)", "ssllib_name_startswith(AWS-LC)",
                  "openssl_version_before(3)", "awslc_api_atleast(1)"):
        assert run(binary, "-cc", holds)[0] == 0, holds


def test_clients_rejected_or_without_a_server_get_eof_instead_of_a_reset(binary, folder):
    """With `defer-accept` the client's data have arrived when the connection is accepted; they are read before the close, which would otherwise be
    a reset."""
    port, rejecting = free_port(), free_port()
    text = ("defaults\n    mode tcp\n    timeout client 2s\n    timeout server 2s\n    timeout connect 2s\n"
            f"frontend nowhere\n    bind 127.0.0.1:{port} defer-accept\n"
            f"frontend rejecting\n    bind 127.0.0.1:{rejecting} defer-accept\n    tcp-request content reject\n")
    with Program(binary, "-db", "-f", folder.file("a.cfg", text)):
        for number in (port, rejecting):
            wait_until(lambda: connects(number))
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", number), 5) as connection:
                    connection.sendall(b"who is there?")
                    assert connection.recv(1) == b""


def test_several_files_and_a_folder_are_read_in_order(binary, folder):
    port = free_port()
    os.mkdir(os.path.join(folder.path, "conf.d"))
    folder.file("conf.d/1.cfg", "defaults\n    mode http\n    timeout connect 1s\n    timeout client 1s\n    timeout server 1s\n")
    folder.file("conf.d/2.cfg", f"frontend f\n    bind 127.0.0.1:{port}\n    default_backend b\n")
    folder.file("conf.d/.hidden.cfg", "nonsense\n")
    folder.file("conf.d/readme.txt", "nonsense\n")
    last = folder.file("last.cfg", "backend b\n    http-request return status 418\n")
    with Program(binary, "-db", "-f", os.path.join(folder.path, "conf.d"), "-f", last) as program:
        program.ready(port)
        assert request(port).startswith(b"HTTP/1.1 418"), request(port)


def test_option_C_changes_the_working_folder_before_files_are_read(binary, folder):
    port = free_port()
    answering(folder, port)
    with Program(binary, "-db", "-C", folder.path, "-f", "a.cfg") as program:
        program.ready(port)


def test_sigterm_and_sigint_end_the_process_at_once(binary, folder):
    for number in (TERM, INT):
        port = free_port()
        with Program(binary, "-db", "-f", answering(folder, port)) as program:
            program.ready(port)
            held = socket.create_connection(("127.0.0.1", port))
            held.sendall(b"GET / HT")
            program.send(number)
            assert program.status() in (0, -number, 128 + number), program.status()
            held.close()


def test_sigusr1_stops_listening_and_waits_for_open_requests(binary, folder):
    port = free_port()
    with Program(binary, "-db", "-f", answering(folder, port)) as program:
        program.ready(port)
        held = socket.create_connection(("127.0.0.1", port))
        held.sendall(b"GET / HTTP/1.1\r\n")
        time.sleep(0.05)
        program.send(USR1)
        assert wait_until(lambda: not connects(port)), "it still accepts"
        assert program.status(0.2) is None, "it left a request behind"
        held.sendall(b"Host: x\r\n\r\n")
        answer = held.recv(4096)
        assert b"200" in answer and b"connection: close" in answer.lower(), answer
        assert program.status() == 0


def test_hard_stop_after_limits_the_soft_stop(binary, folder):
    port = free_port()
    with Program(binary, "-db", "-f", answering(folder, port, extra="hard-stop-after 200ms")) as program:
        program.ready(port)
        held = socket.create_connection(("127.0.0.1", port))
        held.sendall(b"GET / HTTP/1.1\r\n")
        time.sleep(0.05)
        program.send(USR1)
        assert program.status(3) is not None, "it waits for ever"
        held.close()


def test_sighup_does_not_end_the_process(binary, folder):
    port = free_port()
    with Program(binary, "-db", "-f", answering(folder, port)) as program:
        program.ready(port)
        program.send(HUP)
        assert program.status(0.2) is None
        assert b"200" in request(port)


def test_sighup_logs_the_server_states_of_each_proxy(binary, folder, port, heard):
    """Each proxy's report begins with a line of its own, in its logs only, as with HAProxy 3.2."""
    config = folder.file("hup.cfg", f"defaults\n mode http\n log 127.0.0.1:{heard.getsockname()[1]} format raw local0\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n"
                         f"frontend f\n bind 127.0.0.1:{port}\n default_backend b\nbackend b\n server s 127.0.0.1:1\n")
    with Program(binary, "-V", "-db", "-f", config) as program:
        program.ready(port)
        program.send(HUP)
        lines = []
        while len(lines) < 5:
            line = heard.recv(4096).decode().strip()
            lines += [line.split(" Conn:")[0]] if "SIGHUP" in line else []
        assert lines == ["SIGHUP received, dumping servers states for proxy f.", "SIGHUP: Proxy f has no servers.",
                         "SIGHUP received, dumping servers states for proxy b.", "SIGHUP: Server b/s is UP.",
                         "SIGHUP: Proxy b has 1 active servers and 0 backup servers available."], lines
        program.send(TERM)
        said = program.process.communicate(timeout=10)[0]
        # A start by hand with -V names the addresses.
        assert f"for frontend f: listening at [127.0.0.1:{port}]." in said, said
        assert "SIGHUP: Server b/s is UP." in said and "for proxy" not in said, said


def test_a_daemon_writes_its_pid_file_and_leads_its_own_session(binary, folder):
    port, pidfile = free_port(), os.path.join(folder.path, "pid")
    status, _, err = run(binary, "-D", "-p", pidfile, "-f", answering(folder, port))
    assert status == 0, err
    pid = int(open(pidfile).read().split()[0])
    try:
        assert wait_until(lambda: connects(port))
        assert os.getsid(pid) == pid, "it is not the leader of a session of its own"
    finally:
        os.kill(pid, TERM)
    assert wait_until(lambda: not os.path.exists(f"/proc/{pid}"))


def test_option_sf_replaces_the_old_process(binary, folder):
    port = free_port()
    old_file, new_file = answering(folder, port, "old"), answering(folder, port, "new", name="b.cfg")
    with Program(binary, "-db", "-f", old_file) as old:
        old.ready(port)
        with Program(binary, "-db", "-f", new_file, "-sf", str(old.pid)) as new:
            assert old.status() == 0, "the old one stays"
            new.ready(port)
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
            assert answer.endswith(b"new"), answer


def test_a_port_in_use_is_an_error_with_the_address(binary, folder):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        status, _, err = run(binary, "-db", "-f", answering(folder, port))
        assert status == 1 and f"127.0.0.1:{port}" in err, (status, err)


def segments_mb(binary):
    """The address space that the segments of a program take, in MB (ELF, program headers)."""
    with open(binary, "rb") as file:
        head = file.read(64)
        (start,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        file.seek(start)
        table = file.read(size * count)
    # Kind, offset, address, physical address, length in the file, length in memory; kind 1 is loaded.
    headers = (struct.unpack_from("<IIQQQQQ", table, at) for at in range(0, len(table), size))
    return max(address + length for kind, _, _, address, _, _, length in headers if kind == 1) / (1 << 20)


def test_weir_starts_under_any_memory_limit_from_60_to_400_mb(binary, folder):
    """Under no limit from 60 to 400 MB reservations leave too little for the stacks of threads. A program that was built for debugging
    takes most of 60 MB of address space itself."""
    port = free_port()
    config = answering(folder, port, extra="nbthread 2")
    least = {"data": 0, "as": segments_mb(binary) + 25}
    for limit, megabytes in itertools.product(("data", "as"), range(60, 401, 10)):
        if megabytes < least[limit]:
            continue
        with Program("prlimit", f"--{limit}={megabytes << 20}", binary, "-db", "-f", config) as program:
            try:
                program.ready(port)
            except AssertionError as ended:
                raise AssertionError(f"{limit} of {megabytes} MB: {ended}") from None
            assert request(port).startswith(b"HTTP/1.1 200"), (limit, megabytes)


def test_a_start_without_enough_memory_exits_with_status_1(binary, folder):
    """The error is the last line and the status is 1, not a signal, under each limit between the size of the program and enough memory."""
    port = free_port()
    config = answering(folder, port, extra="nbthread 2")
    least, failed = int(segments_mb(binary)), []
    for megabytes in range(least, least + 40):
        with Program("prlimit", f"--as={megabytes << 20}", binary, "-db", "-f", config) as program:
            if not wait_until(lambda: program.process.poll() is not None or connects(port)) or connects(port):
                break
            text = program.process.communicate()[0]
            # With less memory the dynamic loader fails.
            if "[ALERT]" in text:
                failed.append((megabytes, program.process.returncode, text))
    assert failed and all(status == 1 for _, status, _ in failed), failed


def test_the_runtime_api_socket_exists_before_the_first_listener(binary, folder):
    """While another process holds the port of a listener, the socket of the runtime API already exists; a failed start removes it."""
    port, path = free_port(), f"{folder.path}/admin"
    config = answering(folder, port, extra=f"stats socket {path} level admin")
    for gets_the_port in (True, False):
        former = subprocess.Popen(["sleep", "60"])
        with socket.create_server(("127.0.0.1", port)) as held, Program(binary, "-db", "-f", config, "-sf", str(former.pid)) as program:
            assert wait_until(lambda: os.path.exists(path)), program.process.communicate()
            if gets_the_port:
                held.close()
                program.ready(port)
                assert "Pid: " in ask(path, "show info")
                program.send(INT)
            assert program.status() is not None
        former.kill()
        former.wait()
        if gets_the_port:
            os.unlink(path)
        else:
            assert not os.path.exists(path)


def test_a_frontend_stays_paused_while_one_of_its_addresses_is_in_use(binary, folder):
    """Clients of its other address are refused, not left in the backlog of a paused listener; both serve once it is
    free again."""
    lost, kept = free_port(), free_port()
    config = answering(folder, lost, extra="noreuseport", bind=f"127.0.0.1:{kept},127.0.0.1:{lost}")
    with Program(binary, "-db", "-f", config) as program:
        program.ready(lost)
        program.send(signal.SIGTTOU)
        assert wait_until(lambda: not connects(lost) and not connects(kept))
        with socket.create_server(("127.0.0.1", lost)):
            program.send(signal.SIGTTIN)
            said = iter(program.process.stdout.readline, "")
            assert any("resume" in line.lower() for line in said)
            assert not connects(kept)
        program.send(signal.SIGTTIN)
        assert wait_until(lambda: connects(kept) and connects(lost))
        assert all(request(port).startswith(b"HTTP/1.1 200") for port in (lost, kept))


def test_uid_gid_and_chroot_are_applied(binary, folder):
    if os.geteuid() != 0:
        return
    port = free_port()
    with Program(binary, "-db", "-f", answering(folder, port, extra=f"uid 65534\n    gid 65534\n    chroot {folder.path}")) as program:
        program.ready(port)
        assert wait_until(lambda: os.readlink(f"/proc/{program.pid}/root") == folder.path)
        for task in os.listdir(f"/proc/{program.pid}/task"):
            status = open(f"/proc/{program.pid}/task/{task}/status").read()
            assert re.search(r"^Uid:\s+65534\s+65534\s", status, re.M) and re.search(r"^Gid:\s+65534\s+65534\s", status, re.M), status
            assert not re.search(r"^Groups:.*\b0\b", status, re.M), "it kept root's group"


def test_uid_and_gid_accept_names_with_a_warning(binary, folder):
    """`uid` with a name warns, and weir runs as that user. The packaged haproxy continues as root."""
    if os.geteuid() != 0:
        return
    port, nobody = free_port(), pwd.getpwnam("nobody")
    config = answering(folder, port, extra="uid nobody\n    gid nogroup\n    chroot /")
    said = run(binary, "-c", "-f", config)[2]
    assert "'uid' : string 'nobody' is not a number" in said and "'gid' : string 'nogroup' is not a number" in said, said
    with Program(binary, "-db", "-f", config) as program:
        program.ready(port)
        wanted = rf"^Uid:\s+{nobody.pw_uid}\s+{nobody.pw_uid}\s"
        assert wait_until(lambda: re.search(wanted, open(f"/proc/{program.pid}/status").read(), re.M))
        gid = grp.getgrnam("nogroup").gr_gid
        assert re.search(rf"^Gid:\s+{gid}\s+{gid}\s", open(f"/proc/{program.pid}/status").read(), re.M)


def test_threads_run_on_the_processors_of_cpu_map(binary, folder):
    """A range without an end reaches to the last thread, and to the last processor."""
    processors = sorted(os.sched_getaffinity(0))
    if processors[:2] != [0, 1]:
        pytest.skip("the first two processors are not ours")

    def allowed(words):
        port = free_port()
        with Program(binary, "-db", "-f", answering(folder, port, extra=f"nbthread 3\n    {words}")) as program:
            program.ready(port)
            names = {}
            # Connections are accepted before the last worker runs.
            assert wait_until(lambda: names.update({open(f"/proc/{program.pid}/task/{task}/comm").read().strip(): task for task in os.listdir(f"/proc/{program.pid}/task")}) or "worker-2" in names and "worker-0" in names and "worker-1" in names)
            return [sorted(os.sched_getaffinity(int(names[f"worker-{number}"]))) for number in range(3)]

    every, but_the_first = processors, processors[1:]
    assert allowed("") == [every, every, every]
    assert allowed("cpu-map 1/1 0\n    cpu-map 1/2- 1-") == [[0], but_the_first, but_the_first]
    assert allowed("cpu-map 1/2- 0") == [every, [0], [0]]
    assert allowed("cpu-map 1/1- 1-") == [but_the_first, but_the_first, but_the_first]


def test_messages_on_an_unread_stderr_are_dropped_and_counted(binary, folder):
    """When standard error is read again, a message has the number of dropped ones; the process never waits for a reader."""
    port, path = free_port(), f"{folder.path}/admin"
    config = answering(folder, port, extra=f"stats socket {path} level admin")
    with Program(binary, "-db", "-f", config) as program:
        program.ready(port)
        fcntl.fcntl(program.process.stdout, fcntl.F_SETPIPE_SZ, 16384)
        began = time.monotonic()
        for _ in range(400):
            assert ask(path, "disable frontend f;enable frontend f") == "\n\n"
        assert time.monotonic() - began < 5, "the process does not wait for a reader"
        said = os.read(program.process.stdout.fileno(), 65536).decode()
        assert "were dropped" not in said
        # The pipe has space again. The next message is preceded by the number of lost ones.
        assert ask(path, "disable frontend f;enable frontend f") == "\n\n"
        last = os.read(program.process.stdout.fileno(), 65536).decode()
        lost = re.search(r" (\d+) messages were dropped: standard error was not read\.\n", last)
        told = len(re.findall(r"(?:Paused|Resumed) frontend f\.\n", said + last))
        assert lost and int(lost[1]) > 0 and told > 2 and int(lost[1]) + told == 802, (lost and lost[0], told)
        assert last.index("were dropped") < last.index("Paused frontend f."), last


def test_set_dumpable_libs_keeps_the_program_files_in_the_core(binary, folder):
    if os.geteuid() != 0:
        return
    port = free_port()
    small = lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, resource.RLIM_INFINITY))
    for words, limit, owner, whole in (("no set-dumpable", "0", 0, False), ("set-dumpable", "unlimited", 65534, False),
                                       ("set-dumpable libs", "unlimited", 65534, True)):
        file = answering(folder, port, extra=f"uid 65534\n    gid 65534\n    {words}")
        with Program(binary, "-db", "-f", file, preexec_fn=small) as program:
            program.ready(port)
            status = f"/proc/{program.pid}/status"
            assert wait_until(lambda: re.search(r"^Uid:\s+65534\s", open(status).read(), re.M), 20), words
            with open(f"/proc/{program.pid}/limits") as limits:
                assert re.search(rf"^Max core file size\s+{limit}\s", limits.read(), re.M), words
            # Only a process with its user's own privileges may be dumped.
            assert wait_until(lambda: os.stat(f"/proc/{program.pid}/mem").st_uid == owner), words
            kept = archive_in_memory(program.pid)
            assert bool(kept) == whole, words
            if whole:
                with open(binary, "rb") as own:
                    assert kept[os.path.realpath(binary).lstrip("/")] == own.read()
                assert any("libc.so" in name for name in kept), list(kept)


def archive_in_memory(pid):
    """The files of an archive (tar) that a process keeps in its memory."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for begin, end in re.findall(r"^([0-9a-f]+)-([0-9a-f]+) rw\S+ 0+ 00:00 0", maps.read(), re.M):
            memory.seek(int(begin, 16))
            try:
                content = memory.read(int(end, 16) - int(begin, 16))
            except OSError:
                continue
            for found in re.finditer(rb"ustar", content):
                at = found.start() - 257
                try:
                    tarfile.TarInfo.frombuf(content[at:at + 512], tarfile.ENCODING, "strict")
                except (tarfile.HeaderError, UnicodeError):
                    continue
                with tarfile.open(fileobj=io.BytesIO(content[at:at + (256 << 20)])) as archive:
                    return {member.name: archive.extractfile(member).read() for member in archive}
    return {}


def test_maxconn_follows_the_descriptor_limit(binary, folder):
    port, path = free_port(), os.path.join(folder.path, "cli")
    file = answering(folder, port, extra=f"stats socket {path} level admin")
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (500, 500))
    with Program(binary, "-db", "-f", file, preexec_fn=limit) as program:
        program.ready(port)
        info = ask(path, "show info")
        maxconn = int(re.search(r"^Maxconn: (\d+)$", info, re.M).group(1))
        assert 150 <= maxconn <= 250, info


def test_show_info_has_the_memory_totals_of_show_pools(binary, folder):
    """`show info` has the totals of `show pools`, which include the buffers of waiting uploads."""
    port, path = free_port(), os.path.join(folder.path, "cli")
    frontend = "http-request wait-for-body time 30s"
    with Program(binary, "-db", "-f", answering(folder, port, extra=f"stats socket {path} level admin\n    nbthread 2", frontend=frontend)) as program:
        program.ready(port)

        def figures():
            info, pools = ask(path, "show info"), ask(path, "show pools")
            of_info = tuple(int(re.search(rf"^Pool{name}_bytes: (\d+)$", info, re.M)[1]) for name in ("Alloc", "Used"))
            return of_info, tuple(int(number) for number in re.search(r"(\d+) bytes allocated, (\d+) used", pools).groups())
        before = figures()[0][1]
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(200)]
        for client in held:
            client.sendall(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nbegin")
        # The figures are those of the last second.
        assert wait_until(lambda: figures()[0][1] > before + 200 * 1000, 8), (before, figures())
        assert wait_until(lambda: figures()[0] == figures()[1], 8), figures()
        for client in held:
            client.close()
        assert wait_until(lambda: figures()[0][1] < before + 100 * 1000, 8), (before, figures())


def test_a_low_descriptor_limit_is_reported_with_a_maxconn_that_fits(binary, folder):
    """The process starts with a lower maxconn and one warning. A configured maxconn that does not fit makes the start fail, and the message has one
    that fits."""
    port = free_port()
    for extra, files, said in (("", 500, "The limit of open files (500) allows "), ("", 4000, None), ("maxconn 50", 500, None), ("ulimit-n 500", 500, None)):
        file = answering(folder, port, extra=extra or "nbthread 1")
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
        with Program(binary, "-db", "-f", file, preexec_fn=limit) as program:
            program.ready(port)
            program.send(TERM)
            out = program.process.communicate(timeout=10)[0]
        assert out.count("The limit of open files") == (said is not None) and (said or "") in out, (extra, files, out)
    file = answering(folder, port, extra="maxconn 5000\n    nbthread 1")
    words = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups"] if os.geteuid() == 0 else []
    limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))
    os.chmod(folder.path, 0o777)
    with Program(*words, binary, "-db", "-f", file, preexec_fn=limit) as program:
        assert program.status() == 1
        out = program.process.communicate(timeout=10)[0]
    fitting = int(re.search(r"weir does not start\. Raise the limit .* or set 'maxconn' to (\d+) at most", out)[1])
    assert 50 < fitting < 150, out
    file = answering(folder, port, extra=f"maxconn {fitting}\n    nbthread 1")
    with Program(*words, binary, "-db", "-f", file, preexec_fn=limit) as program:
        program.ready(port)


def test_running_out_of_descriptors_does_not_end_the_process(binary, folder):
    port = free_port()
    with Program(binary, "-db", "-f", answering(folder, port)) as program:
        program.ready(port)
        used = max(int(fd) for fd in os.listdir(f"/proc/{program.pid}/fd"))
        resource.prlimit(program.pid, resource.RLIMIT_NOFILE, (used + 10, used + 10))
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(40)]
        time.sleep(0.2)
        assert program.status(0) is None, "it ended"
        for connection in held:
            connection.close()
        assert b"200" in request(port), "it no longer serves"


def test_a_log_target_that_never_reads_does_not_delay_traffic(binary, folder):
    port, path = free_port(), os.path.join(folder.path, "log")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as target:
        target.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        target.bind(path)  # nobody receives
        text = ANSWERING.format(bind=f"127.0.0.1:{port}", frontend="", text="x", extra=f"log {path} local0").replace("frontend f", "frontend f\n    log global\n    option httplog")
        with Program(binary, "-db", "-f", folder.file("log.cfg", text)) as program:
            program.ready(port)
            start = time.monotonic()
            with socket.create_connection(("127.0.0.1", port)) as connection:
                for _ in range(500):
                    connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                    answer = b""
                    while not answer.endswith(b"x"):
                        answer += connection.recv(4096)
            assert time.monotonic() - start < 3, "traffic waited for the log"


RING = """
global
    stats socket {folder}/cli level admin
    {extra}
defaults
    mode http
    log ring@r local0
    log-format %HP
    option dontlognull
    timeout connect 2s
    timeout client 10s
    timeout server 10s
frontend f
    bind 127.0.0.1:{port}
    http-request return status 200 content-type text/plain string x
ring r
    format raw
    {ring}
"""


def with_ring(folder, port, ring, extra="maxconn 100"):
    return folder.file("ring.cfg", RING.format(folder=folder.path, port=port, ring=ring, extra=extra))


def keep_asking(port, first, count, heard=None):
    """Sends requests for /<number> on one connection. Adds the time of each response to `heard`."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for number in range(first, first + count):
            connection.sendall(b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n" % number)
            answer = b""
            while not answer.endswith(b"\r\n\r\nx"):
                received = connection.recv(4096)
                if not received:
                    return
                answer += received
            if heard is not None:
                heard.append((time.monotonic(), number))


def test_a_killed_process_leaves_its_log_messages_in_the_ring_file(binary, folder):
    """R111: `kill -9` in mid-traffic loses no message that is older than a millisecond, and the next start keeps the file."""
    port, path = free_port(), os.path.join(folder.path, "ring.bin")
    config = with_ring(folder, port, f"size 4m\n    backing-file {path}")
    for round_ in range(3):
        with Program(binary, "-db", "-f", config) as program:
            program.ready(port)
            heard = [[] for _ in range(4)]

            def client(index):
                try:
                    keep_asking(port, (index + 1) * 1_000_000, 1_000_000, heard[index])
                except OSError:
                    pass

            clients = [threading.Thread(target=client, args=(index,)) for index in range(4)]
            for thread in clients:
                thread.start()
            assert wait_until(lambda: all(len(each) > 200 for each in heard), 20)
            killed = time.monotonic()
            os.kill(program.pid, 9)
            for thread in clients:
                thread.join()
        kept = {int(text[1:]) for text in ring.messages(path) if text[1:].isdigit()}
        old = {number for each in heard for when, number in each if when < killed - 0.001}
        assert len(old) > 600 and old <= kept, (round_, len(old), sorted(old - kept)[:5])
    # The file of the previous process is kept next to it.
    assert os.path.getsize(path + ".bak") == os.path.getsize(path)


def test_log_lines_reach_ring_watchers_with_the_requested_terminator(binary, folder):
    """R97, R115: lines logged to a ring reach all watchers, each with the terminator it requested."""
    port = free_port()
    with Program(binary, "-db", "-f", with_ring(folder, port, "size 32k")) as program:
        program.ready(port)
        cli = os.path.join(folder.path, "cli")
        keep_asking(port, 1, 2)
        assert wait_until(lambda: ask(cli, "show events r") == "/1\n/2\n\n")
        assert ask(cli, "show events r -0") == "/1\0/2\0\n"
        assert ask(cli, "show events r -n") == "\n"
        with socket.socket(socket.AF_UNIX) as watcher:
            watcher.connect(cli)
            watcher.sendall(b"show events r -wn\n")
            listed = lambda: "r          : type=buffer, 0 dropped" in ask(cli, "show events")
            assert wait_until(listed)
            time.sleep(0.1)  # until it watches
            keep_asking(port, 3, 2)
            seen = b""
            while seen.count(b"\n") < 2:
                seen += watcher.recv(4096)
            assert seen == b"/3\n/4\n", seen


def test_log_servers_over_tcp_get_messages_without_delaying_requests(binary, folder):
    """A server that reads gets every message, framed; servers that never read, close at once or send garbage cost
    nothing."""
    reading, sleeping = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
    lying = Server(lambda connection: connection.sendall(b"\xff" * 1000))
    port, dead = free_port(), free_port()
    servers = [("octet-count", reading.getsockname()[1]), ("legacy", sleeping.getsockname()[1]), ("legacy", lying.port)]
    text = ""
    for index, (proto, place) in enumerate(servers):
        text += f"ring r{index}\n    format raw\n    server s 127.0.0.1:{place} log-proto {proto}\n"
    text += f"ring r3\n    format raw\n    server s 127.0.0.1:{dead}\n"
    config = RING.format(folder=folder.path, port=port, ring="size 1m", extra="maxconn 100")
    config = config.replace("    log-format", "".join(f"    log ring@r{index} local0\n" for index in range(4)) + "    log-format")
    with Program(binary, "-db", "-f", folder.file("servers.cfg", config + text)) as program:
        program.ready(port)
        start = time.monotonic()
        keep_asking(port, 0, 3000)
        assert time.monotonic() - start < 6, "traffic waited for a log server"
        connection = reading.accept()[0]
        connection.settimeout(10)
        received = b""
        while received.count(b" /") < 3000:
            received += connection.recv(65536)
        expected = b"".join(b"%d /%d" % (len(b"/%d" % number), number) for number in range(3000))
        assert received == expected, (received[:80], received[-80:])
        # The dead one's ring is full: messages without room are counted.
        listing = ask(os.path.join(folder.path, "cli"), "show events")
        dropped = int(re.search(r"r3 +: type=buffer, (\d+) dropped", listing).group(1))
        assert dropped > 0, listing
    lying.close()


def test_messages_logged_before_a_soft_stop_reach_the_log_server(binary, folder):
    """Messages logged just before a soft stop are still sent, and watchers of events do not delay it."""
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as server:
        ring_lines = f"server s 127.0.0.1:{server.getsockname()[1]}"
        with Program(binary, "-db", "-f", with_ring(folder, port, ring_lines)) as program:
            program.ready(port)
            connection = server.accept()[0]
            watcher = socket.socket(socket.AF_UNIX)
            watcher.connect(os.path.join(folder.path, "cli"))
            watcher.sendall(b"show events r -w\n")
            keep_asking(port, 0, 300)
            program.send(USR1)
            received = b"".join(iter(lambda: connection.recv(65536), b""))
            requests = [line for line in received.split(b"\n") if line.startswith(b"/")]
            assert requests == [b"/%d" % number for number in range(300)], received[-80:]
            assert program.status() == 0
            watcher.close()


RELAY = """
global
    stats socket {folder}/cli level admin expose-fd listeners
    {extra}
log-forward f
    bind 127.0.0.1:{port}
    dgram-bind 127.0.0.1:{port}
    dgram-bind uxdg@{folder}/log
    maxconn 100
    timeout client 10s
{targets}
"""


def relaying(folder, port, targets, extra="maxconn 200", name="relay.cfg"):
    text = "".join(f"    log {target}\n" for target in targets)
    return folder.file(name, RELAY.format(folder=folder.path, port=port, targets=text, extra=extra))


def figure(folder, name):
    """A line of `show info`."""
    return int(re.search(rf"^{name}: (\d+)$", ask(os.path.join(folder.path, "cli"), "show info"), re.M)[1])


def test_relayed_syslog_messages_reach_every_target(binary, folder, port, heard):
    """Messages received over TCP, UDP and a UNIX socket are sent over UDP, TCP, a UNIX socket, to a ring and to standard output; each is counted."""
    local = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    local.bind(os.path.join(folder.path, "local"))
    with socket.create_server(("127.0.0.1", 0)) as server:
        targets = [f"127.0.0.1:{heard.getsockname()[1]} local0", f"tcp@127.0.0.1:{server.getsockname()[1]} format short local0",
                   f"{folder.path}/local format raw local0", "ring@buf0 format raw local0", "stdout format raw local0"]
        # One worker, because several would reorder messages received over different sockets.
        with Program(binary, "-db", "-f", relaying(folder, port, targets, "nbthread 1")) as program:
            program.ready(port)
            with socket.create_connection(("127.0.0.1", port)) as sender:
                sender.sendall(b"<134>tcp\n")
                assert heard.recv(100) == b"<134>tcp\n"
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"<134>udp", ("127.0.0.1", port))
                assert heard.recv(100) == b"<134>udp\n"
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"<134>unix", os.path.join(folder.path, "log"))
                assert heard.recv(100) == b"<134>unix\n"
            connection = server.accept()[0]
            connection.settimeout(10)
            received = b""
            while received.count(b"\n") < 3:
                received += connection.recv(1000)
            assert received == b"<6>tcp\n<6>udp\n<6>unix\n", received
            assert [local.recv(100) for _ in range(3)] == [b"tcp\n", b"udp\n", b"unix\n"]
            shown = ask(os.path.join(folder.path, "cli"), "show events buf0")
            assert shown.split() == ["tcp", "udp", "unix"], shown
            assert (figure(folder, "CumRecvLogs"), figure(folder, "DroppedLogs")) == (3, 0)
            assert re.search(r"ring#1 +: type=buffer, 0 dropped", ask(os.path.join(folder.path, "cli"), "show events"))
            program.send(USR1)
            assert program.status() == 0
            assert "tcp\nudp\nunix\n" in program.process.communicate()[0]


def test_stalled_log_targets_do_not_delay_syslog_senders(binary, folder, port, heard):
    """A server that reads nothing, one that is down and a socket without a reader cost messages, which are counted, and
    no time."""
    dead = free_port()
    full = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    full.bind(os.path.join(folder.path, "full"))
    with socket.create_server(("127.0.0.1", 0)) as sleeping:
        targets = [f"{folder.path}/full local0", f"tcp@127.0.0.1:{sleeping.getsockname()[1]} local0", f"tcp@127.0.0.1:{dead} local0",
                   f"127.0.0.1:{dead} local0", f"127.0.0.1:{heard.getsockname()[1]} format raw local0"]
        with Program(binary, "-db", "-f", relaying(folder, port, targets)) as program:
            program.ready(port)
            start = time.monotonic()
            with socket.create_connection(("127.0.0.1", port)) as sender:
                for number in range(5000):
                    sender.sendall(b"<134>%d%s\n" % (number, b" x" * 100))
                    # One at a time. The last target receives each message, even if other targets fail.
                    assert heard.recv(300).startswith(b"%d " % number)
            assert time.monotonic() - start < 6, "senders waited for a target"
            assert figure(folder, "CumRecvLogs") == 5000
            assert figure(folder, "DroppedLogs") > 5000, "the unix socket and the ring of the dead server were full"


def test_a_reload_loses_no_syslog_message_of_a_reconnecting_sender(binary, folder, port, heard):
    """The next process takes the listening sockets over; the former delivers the messages received so far and ends
    while senders are connected."""
    targets = [f"127.0.0.1:{heard.getsockname()[1]} format raw local0"]
    with Program(binary, "-db", "-f", relaying(folder, port, targets)) as old:
        old.ready(port)
        sender = socket.create_connection(("127.0.0.1", port))
        sender.sendall(b"<134>first\n")
        assert heard.recv(100) == b"first\n"
        sender.sendall(b"<134>second\n")
        with Program(binary, "-db", "-f", relaying(folder, port, targets), "-sf", str(old.pid)) as new:
            assert heard.recv(100) == b"second\n"
            assert old.status() == 0, "a connected sender holds it up"
            assert sender.recv(1) == b"", "the connection ends with it"
            with socket.create_connection(("127.0.0.1", port)) as sender:
                sender.sendall(b"<134>third\n")
                assert heard.recv(100) == b"third\n"
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"<134>fourth", ("127.0.0.1", port))
                assert heard.recv(100) == b"fourth\n"
            assert new.status(0) is None


def test_a_reload_with_option_x_loses_no_syslog_datagram(binary, folder, port, heard):
    """Datagrams come all the time while one process after the other takes the sockets over: each arrives, once."""
    targets = [f"127.0.0.1:{heard.getsockname()[1]} format raw local0"]
    numbers, received, over = 0, set(), threading.Event()

    def receive():
        while not (over.is_set() and len(received) == numbers):
            try:
                number = int(heard.recv(100))
            except TimeoutError:
                return
            assert number not in received, "twice"
            received.add(number)

    receiver = threading.Thread(target=receive, daemon=True)
    receiver.start()
    config = relaying(folder, port, targets)
    cli = os.path.join(folder.path, "cli")
    sender, local = (socket.socket(family, socket.SOCK_DGRAM) for family in (socket.AF_INET, socket.AF_UNIX))
    with Program(binary, "-db", "-f", config) as first:
        first.ready(port)
        former, programs = first, []
        try:
            for _ in range(3):
                following = Program(binary, "-db", "-f", config, "-x", cli, "-sf", str(former.pid)).__enter__()
                programs.append(following)
                while former.status(0) is None:
                    assert following.status(0) is None, following.process.communicate()[0]
                    for _ in range(5):
                        sender.sendto(b"<134>%d" % numbers, ("127.0.0.1", port))
                        local.sendto(b"<134>%d" % (numbers + 1), os.path.join(folder.path, "log"))
                        numbers += 2
                    time.sleep(0.001)
                assert former.status() == 0
                former = following
            numbers += 1
            over.set()
            sender.sendto(b"<134>%d" % (numbers - 1), ("127.0.0.1", port))
            receiver.join(15)
            assert numbers > 30 and len(received) == numbers, (numbers, len(received), sorted(set(range(numbers)) - received)[:9])
        finally:
            for program in programs:
                program.__exit__()


def test_an_idle_http1_connection_takes_at_most_510_bytes(binary, start, port, origin):
    """An idle HTTP/1 connection costs at most 510 resident bytes."""
    if "haproxy" in os.path.basename(binary):
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    text = (f"global\n    nbthread 1\n    maxconn 4000\ndefaults\n    mode http\n    timeout connect 2s\n    timeout client 60s\n    timeout server 60s\n"
            f"listen l\n    bind 127.0.0.1:{port}\n    http-reuse always\n    server s 127.0.0.1:{origin.port}\n")

    def one():
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        answer = b""
        while not answer.endswith(b"ok"):
            more = connection.recv(4096)
            assert more, answer
            answer += more
        return connection

    program = start(text, port)
    held = [one() for _ in range(200)]
    time.sleep(0.3)
    before = program.resident_kb()
    held += [one() for _ in range(3000)]
    time.sleep(0.3)
    each = (program.resident_kb() - before) * 1024 / 3000
    print(f"       {each:.0f} bytes for each idle connection")
    assert each <= 510, f"{each:.0f} bytes each"
    for connection in held:
        connection.close()


def test_idle_http2_connections_and_waiting_streams_take_little_memory(binary, folder):
    """A plaintext HTTP/2 connection holds at most 2,000 resident bytes after a request; a stream that waits for its server holds 1,900, including
    the server connection."""
    if "haproxy" in os.path.basename(binary):
        return
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    port, silent = free_port(), socket.create_server(("127.0.0.1", 0), backlog=4096)
    text = (f"global\n    nbthread 1\n    maxconn 4000\ndefaults\n    mode http\n    timeout connect 2s\n    timeout client 60s\n    timeout server 60s\n"
            f"listen l\n    bind 127.0.0.1:{port}\n    http-request return status 200 content-type text/plain string ok if {{ path /fine }}\n"
            f"    server s 127.0.0.1:{silent.getsockname()[1]}\n")

    def one(streams, block):
        connection = socket.create_connection(("127.0.0.1", port), 5)
        connection.sendall(PREFACE + frame(SETTINGS))
        for number in range(streams):
            connection.sendall(frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, block))
        assert block != REQUEST or answer(connection) == b"ok"
        return connection

    def wait_for(connections, streams):
        """Servers' connections of that many streams."""
        return [silent.accept()[0] for _ in range(connections * streams)]

    def each(program, connections, streams, block):
        held, servers = [one(streams, block) for _ in range(connections // 5)], []
        if block == SILENT:
            servers += wait_for(connections // 5, streams)
        time.sleep(0.5)
        before = program.resident_kb()
        for _ in range(10):
            held += [one(streams, block) for _ in range(connections // 10)]
            # A connection keeps a request's buffers for 200 ms.
            time.sleep(0.25)
        if block == SILENT:
            servers += wait_for(connections, streams)
        # A stream shrinks its buffers after 200 ms, too.
        time.sleep(0.5)
        size = (program.resident_kb() - before) * 1024 / connections / streams
        for connection in held + servers:
            connection.close()
        return size

    with Program(binary, "-db", "-f", folder.file("idle.cfg", text)) as program:
        program.ready(port)
        idle = each(program, 1500, 1, REQUEST)
        print(f"       {idle:.0f} bytes for each idle connection of HTTP/2")
        assert idle <= 2000, f"{idle:.0f} bytes each"
    with Program(binary, "-db", "-f", folder.file("idle.cfg", text)) as program:
        program.ready(port)
        waiting = each(program, 10, 100, SILENT)
        print(f"       {waiting:.0f} bytes for each stream of HTTP/2 that waits, and its connection to a server")
        assert waiting <= 1900, f"{waiting:.0f} bytes each"


def test_the_last_data_and_the_fin_leave_in_one_segment(binary, folder):
    """A response of weir itself, one with a length, one that ends with its connection, and TCP data: the FIN is in the segment of the last data."""
    answers = {b"/length": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", b"/close": b"HTTP/1.0 200 OK\r\n\r\nok"}
    ours, http, tcp = free_port(), free_port(), free_port()

    def close_after_answer(connection):
        # Delay the response until the connection is closed, so that both arrive at once.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        connection.sendall(answers[connection.recv(65536).split()[1]])

    server = Server(close_after_answer)
    text = (f"defaults\n    timeout connect 2s\n    timeout client 9s\n    timeout server 9s\n"
            f"frontend ours\n    mode http\n    bind 127.0.0.1:{ours}\n    http-request return status 200\n"
            f"listen http\n    mode http\n    bind 127.0.0.1:{http}\n    server s 127.0.0.1:{server.port}\n"
            f"listen tcp\n    mode tcp\n    bind 127.0.0.1:{tcp}\n    server s 127.0.0.1:{server.port}\n")
    with Program(binary, "-db", "-f", folder.file("last.cfg", text)) as program:
        program.ready(ours)
        for port, path in ((ours, "/"), (http, "/length"), (http, "/close"), (tcp, "/length")):
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
                answer = b"".join(iter(lambda: connection.recv(4096), b""))
                segments = received_segments(connection)
            assert b" 200 " in answer, (port, path, answer)
            # The answer to our SYN, the acknowledgement of our request, and the last one.
            assert segments <= 3, (port, path, segments)


def received_segments(connection):
    """Number of segments received on a TCP connection (`tcpi_segs_in` of TCP_INFO, tcp(7))."""
    return struct.unpack_from("I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192), 140)[0]


def watched(folder, port, path, words=""):
    """A configuration with two workers, a socket for administrators and these words."""
    extra = f"nbthread 2\n    stats socket {path} level admin\n    {words}"
    return answering(folder, port, extra=extra)


def test_the_watchdog_names_a_stuck_worker_and_ends_the_process(binary, folder):
    """The watchdog logs a warning after the configured time and ends the process after a second; both messages name the task and its source line."""
    port, path = free_port(), os.path.join(folder.path, "cli")
    words = "warn-blocked-traffic-after 20ms\n    profiling.tasks on"
    with Program(binary, "-db", "-f", watched(folder, port, path, words)) as program:
        program.ready(port)
        assert ask(path, "expert-mode on; debug dev loop 100").strip() == "", "busy for a moment"
        assert b"200" in request(port), "and back"
        busy = threading.Thread(target=lambda: ask(path, "expert-mode on; debug dev loop 20000"), daemon=True)
        busy.start()
        time.sleep(0.2)
        # The other worker still responds, and shows its last known state.
        threads = ask(path, "show threads")
        assert re.search(r"^> Thread \d : act=1 ", threads, re.M), threads
        assert re.search(r"^ +1/\d +loops=\d+ ctxsw=\d+ stuck=1 ", threads, re.M), threads
        assert threads.count("curr_task=cli session@control/process/src/cli_server.rs:") == 2, threads
        status = program.status(20)
        said = program.process.communicate()[0]
    assert status == -6, (status, said)
    work = r"in 'cli session@control/process/src/cli_server.rs:\d+', woken at \S+\.rs:\d+ and has not run another task for"
    # A moment is long enough to be warned about only on a machine that has the time.
    assert 1 <= len(re.findall(r"\[WARNING\] .*Thread \d computes " + work, said)) <= 2, said
    assert re.search(r"\[ALERT\] .*Thread \d computes " + work + r" 1\d{3} ms.*the process ends", said), said
    assert "Where it is stuck:" in said and "keep_busy" in said, said


def test_profiling_shows_cpu_time_and_memory_by_waker(binary, folder):
    """R73, R74, R75, R77, R178: tasks and memory, measured while traffic flows."""
    port, path = free_port(), os.path.join(folder.path, "cli")
    with Program(binary, "-db", "-f", watched(folder, port, path)) as program:
        program.ready(port)
        status = ask(path, "show profiling status")
        assert status.startswith("Per-task CPU profiling              : auto-off "), status
        ask(path, "set profiling tasks on")
        ask(path, "set profiling memory on")
        # A worker that sleeps begins when it wakes up for the next connection.
        for _ in range(40):
            assert b"200" in request(port)
        text = ask(path, "show profiling tasks")
        head, columns, *lines = text.rstrip("\n").split("\n")
        assert re.fullmatch(r"Tasks activity over \d+\.\d{3} sec till 0\.000 sec ago:", head), text
        assert columns.split() == ["function", "calls", "cpu_tot", "cpu_avg", "lkw_avg", "lkd_avg", "mem_avg", "lat_avg"], text
        measured = [line for line in lines if re.match(r"  (connection|accept) +\d+ +\S+[mun]s ", line)]
        assert any("<- poll@sched/src/worker.rs:" in line and line.endswith(" io_wakeup") for line in measured), text
        assert any(line.endswith(" task_spawn") for line in measured), text
        # R75: tasks woken by the poller have a latency.
        latencies = [line.split(" <- ")[0].split()[-1] for line in measured if "io_wakeup" in line]
        assert latencies and all(re.fullmatch(r"[\d.]+[mun]s", latency) for latency in latencies), text
        counts = [int(line[2:37].split()[-1]) for line in lines]
        assert counts == sorted(counts, reverse=True), text
        assert sum(counts[:2]) >= 20, text
        one = ask(path, "show profiling tasks aggr 1").rstrip("\n").split("\n")
        assert len(one) == 3 and "<-" not in one[2], one
        memory = ask(path, "show profiling memory 5").rstrip("\n").split("\n")
        assert len(memory) == 11 and memory[-1].split("|")[1].startswith(" <- Total; Delta_calls="), memory
        lines = ask(path, "show profiling memory").rstrip("\n").split("\n")[5:]
        assert all(line.index("|") == 53 for line in lines), lines
        assert any(re.search(r"\| \w+@(data|sched|foundation|proto)/\S+\.rs:\d+ malloc\(\d+\) .*\[via connection\]", line) for line in lines), lines
        # R80: nothing is counted for a null address.
        assert not [line for line in lines if "NULL" in line or " 0x0 " in line or "@:" in line], lines
        ask(path, "set profiling tasks off")
        ask(path, "set profiling memory off")
        first = ask(path, "show profiling memory").split("\n")[5:]
        request(port)
        assert ask(path, "show profiling memory").split("\n")[5:] == first, "it goes on"


def test_http2_clients_get_goaway_at_a_soft_stop(binary, folder):
    """A soft stop: an idle client gets a GOAWAY and is closed, a waiting client gets a GOAWAY and its answer, and then
    the process ends."""
    asked = frame(HEADERS, END_STREAM | END_HEADERS, 1, SILENT)
    answered = frame(HEADERS, END_STREAM | END_HEADERS, 1, REQUEST)
    with Scene(binary, folder) as scene:
        waiting, idle = scene.client(asked), scene.client(answered)
        server = scene.silent.accept()[0]
        assert answer(idle) == b"fine"
        scene.program.send(USR1)
        assert goaway(idle) == 0
        server.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        seen = list(frames(waiting))
        assert any(kind == DATA and payload == b"ok" for kind, _, _, payload in seen), seen
        assert any(kind == GOAWAY for kind, *_ in seen), seen
        assert scene.program.status(5) == 0
