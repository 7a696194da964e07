"""The start of masters and the roles of their processes: threads, files, environment, identity."""
import os
import re
import signal
import sys

from lib.needs import needs_root
from lib.program import TERM, Program, answering, connects, free_port, request, run, wait_until
from master.support import Master, alive, field, many_patterns, talk


def test_r117_r142_the_master_has_one_thread_and_memory_independent_of_the_configuration(binary, folder):
    sizes = []
    for count in (1, 4000):
        port = free_port()
        config = answering(folder, port, name=f"{count}.cfg")
        with open(config, "a") as file:
            file.write(f"# {'x' * 100}\n" * (10 * count))
            for number in range(count):
                file.write(f"backend b{number}\n    server s{number} 127.0.0.1:9 weight 10\n")
        with Master(binary, folder, config) as master:
            master.served()
            assert os.listdir(f"/proc/{master.pid}/task") == [str(master.pid)]
            # The memory of the configuration text is returned to the kernel soon after the start.
            bound = sizes[0][0] + 1500 if sizes else sys.maxsize
            wait_until(lambda: master.resident_kb() < bound, 3)
            wait_until(lambda: not sizes or master.descriptors() == sizes[0][1])
            sizes.append((master.resident_kb(), master.descriptors()))
    (small, few), (large, many) = sizes
    assert few == many and large - small < 1500, sizes


def test_r156_r157_the_pid_file_of_a_daemon_has_the_pid_of_the_master(binary, folder, port):
    pid_file = os.path.join(folder.path, "pid")
    config = answering(folder, port)
    status, _, err = run(binary, "-W", "-D", "-p", pid_file, "-f", config)
    assert status == 0, err
    with open(pid_file) as file:
        master = int(file.read())
    try:
        assert connects(port)
        assert field(master, "PPid") == ["1"] or int(field(master, "PPid")[0]) != os.getpid()
        with open(f"/proc/{master}/task/{master}/children") as children:
            worker = int(children.read())
        assert field(worker, "PPid") == [str(master)]
    finally:
        os.kill(master, TERM)
    assert wait_until(lambda: not alive(master))


def test_r127_r135_a_failed_first_start_exits_with_1_and_the_error(binary, folder):
    bad = folder.file("bad.cfg", "frontend f\n    nonsense\n")
    for words in (["-W"], ["-W", "-D"], ["-Ws"]):
        status, _, err = run(binary, *words, "-f", bad)
        assert status == 1 and "bad.cfg:2]" in err and "nonsense" in err, (words, status, err)
        assert "Failed to load worker" in err, err


def test_r135_a_crash_of_the_worker_ends_the_master_with_its_status(binary, folder):
    for number, status in ((signal.SIGSEGV, 139), (signal.SIGKILL, 137)):
        port = free_port()
        with Master(binary, folder, answering(folder, port)) as master:
            master.served()
            os.kill(master.current(), number)
            assert master.status() == status, master.said()
            assert f"exited with code {status}" in master.said()
            assert "exit-on-failure: killing every processes with SIGTERM" in master.said()


def test_r141_option_S_without_a_master_is_a_warning(binary, folder, port):
    config = answering(folder, port)
    with Program(binary, "-db", "-S", os.path.join(folder.path, "m"), "-f", config) as program:
        program.ready(port)
        program.send(TERM)
        program.status()
        assert "a master CLI socket was defined, but master-worker mode (-W) is not enabled" in program.process.stdout.read()
    assert run(binary, "-dW", "-db", "-S", os.path.join(folder.path, "m"), "-f", config)[0] == 1


def test_r143_variables_of_the_old_wait_mode_are_absent_from_the_environment(binary, folder):
    config = answering(folder, free_port(), extra=f"setenv COLOUR blue\n    presetenv PATH none\n    stats socket {folder.path}/cli")
    with Master(binary, folder, config) as master:
        master.served().reload()
        shown = master.ask("show env")
        assert "COLOUR=blue\n" in shown and "PATH=none" not in shown, shown
        assert "WAIT_ONLY" not in shown and "HAPROXY_PROCESSES" not in shown, shown
        assert master.ask("show env COLOUR") == "COLOUR=blue\n\n"
        assert "HAPROXY_MWORKER=1\n" in master.ask("@1 show env")
        assert re.fullmatch(r"HAPROXY_CLI=unix@\S+;sockpair@\d+\n\n", master.ask("@1 show env HAPROXY_CLI"))
        assert "HAPROXY_PROCESSES" not in master.ask("@1 show env")


def test_haproxy_cli_in_a_worker_lists_its_runtime_api_sockets(binary, folder):
    port = free_port()
    told = 'http-request return status 200 content-type text/plain lf-string "%[env(HAPROXY_CLI)] ${HAPROXY_CLI}"'
    config = answering(folder, port, extra=f"stats socket {folder.path}/cli", frontend=told)
    with Master(binary, folder, config) as master:
        master.served()
        for _ in range(2):
            shown = master.ask("@1 show env HAPROXY_CLI").strip().removeprefix("HAPROXY_CLI=")
            assert re.fullmatch(r"unix@\S+;sockpair@\d+", shown), shown
            assert request(port).endswith(f"\r\n\r\n{shown} {shown}".encode()), request(port)
            master.reload()
    # Another port, because killed workers may still answer on the old one.
    port = free_port()
    config = answering(folder, port, extra=f"stats socket {folder.path}/cli", frontend=told)
    with Program(binary, "-db", "-f", config) as program:
        program.ready(port)
        assert request(port).endswith(f"\r\n\r\nunix@{folder.path}/cli unix@{folder.path}/cli".encode()), request(port)


def test_r145_r193_the_master_cli_answers_once_the_pid_file_exists(binary, folder, port):
    pid_file = os.path.join(folder.path, "pid")
    config = answering(folder, port)
    with Master(binary, folder, config, "-p", pid_file) as master:
        assert wait_until(lambda: os.path.exists(pid_file), 10)
        assert talk(master.socket, "show version").startswith("3.5"), "no window at all"
        assert "Pid:" in talk(master.socket, "@1 show info")
        # A reload during the first load waits for its completion.
        assert master.ask("reload").startswith("Success=1\n")
        assert connects(port)


def test_r150_notices_of_a_configuration_file_are_printed_once(binary, folder):
    config = answering(folder, free_port(), extra='.notice "said by the file"')
    with Master(binary, folder, config) as master:
        logs = master.served().ask("show startup-logs")
        assert logs.count("said by the file") == 1, logs
        assert master.reload().count("said by the file") == 1


def test_r151_r152_the_worker_refuses_invalid_lines_that_the_master_skipped(binary, folder):
    for text, place in (("global\n    daemons\n", "a.cfg:2]"), ("peer x\n    y\n", "a.cfg:1]"),
                        ("global\n    pidfile\n", "a.cfg:2]")):
        status, _, err = run(binary, "-W", "-f", folder.file("a.cfg", text))
        worker = re.search(r"Failed to load worker \((\d+)\)", err)
        assert status == 1 and worker and place in err, err
        assert re.search(rf"\[ALERT\] +\({worker.group(1)}\) : config : .*{re.escape(place)}", err), err
        assert err.count(place) == 1, err


def test_r153_a_second_pidfile_line_is_reported_once_and_ignored(binary, folder):
    pid_file = os.path.join(folder.path, "p")
    config = answering(folder, free_port(), extra=f"pidfile {pid_file}\n    pidfile /other")
    with Master(binary, folder, config) as master:
        master.served()
        assert master.said().count("'pidfile' already specified") == 1
        with open(pid_file) as file:
            assert int(file.read()) == master.pid


def test_r155_nbthread_is_refused_after_a_non_global_section(binary, folder, port):
    with Master(binary, folder, answering(folder, port, extra="nbthread 2")) as master:
        master.served()
        assert "Nbthread: 2\n" in master.ask("@1 show info")
    late = answering(folder, port) + ""
    with open(late, "a") as file:
        file.write("global\n    nbthread 2\n")
    status, _, err = run(binary, "-W", "-f", late)
    assert status == 1 and "'nbthread' not allowed if a non-global section was previously defined" in err, err


def test_program_sections_are_refused_in_favour_of_the_service_manager(binary, folder):
    status, _, err = run(binary, "-W", "-f", folder.file("a.cfg", "program x\n    command sleep 1\n"))
    assert status == 1 and "'program' is not supported any more; let the service manager start other programs" in err, err


def test_r158_r161_only_the_worker_changes_its_user_and_root(binary, folder, port):
    needs_root()
    jail = os.path.join(folder.path, "jail")
    os.mkdir(jail)
    config = answering(folder, port, extra=f"uid 65534\n    gid 65534\n    chroot {jail}\n    nbthread 2")
    with Master(binary, folder, config, extra_groups=[4, 24]) as master:
        master.served()
        worker = master.current()
        assert field(master.pid, "Uid") == ["0"] * 4 and field(master.pid, "Groups") == ["4", "24"] and os.readlink(f"/proc/{master.pid}/root") == "/"
        for task in os.listdir(f"/proc/{worker}/task"):
            assert field(f"{worker}/task/{task}", "Uid") == ["65534"] * 4
            assert field(f"{worker}/task/{task}", "Gid") == ["65534"] * 4
            assert field(f"{worker}/task/{task}", "Groups") == []
            assert field(f"{worker}/task/{task}", "CapEff") == ["0" * 16]
        assert os.readlink(f"/proc/{worker}/root") == jail
        # A reload has all privileges that the worker dropped.
        master.reload()
        assert request(port).startswith(b"HTTP/1.1 200")


def test_r160_setcap_capabilities_are_kept_by_all_worker_threads_only(binary, folder):
    needs_root()
    config = answering(folder, free_port(), frontend="log stdout format raw daemon",
                       extra="uid 65534\n    nbthread 2\n    setcap cap_net_admin,cap_net_bind_service")
    with Master(binary, folder, config) as master:
        master.served()
        worker = master.current()
        held = {open(f"/proc/{worker}/task/{task}/comm").read().strip(): field(f"{worker}/task/{task}", "CapEff")[0]
                for task in os.listdir(f"/proc/{worker}/task")}
        assert {int(bits, 16) for name, bits in held.items() if name.startswith("worker")} == {0x1400}, held
        assert all(int(bits, 16) in (0, 0x1400) for bits in held.values()), held
        assert field(worker, "CapPrm") == ["0000000000001400"]
        assert int(field(master.pid, "CapEff")[0], 16) > 0x1400


def test_r159_privileged_settings_are_checked_after_the_change_of_identity(binary, folder):
    needs_root()
    text = "backend b\n    source 0.0.0.0 usesrc client\n    server s 127.0.0.1:9\n"
    for cap, serves in (("", False), ("setcap cap_net_raw", True)):
        port = free_port()
        config = answering(folder, port, extra=f"uid 65534\n    {cap}", name="t.cfg")
        with open(config, "a") as file:
            file.write(text)
        with Program(binary, "-db", "-f", config) as program:
            if serves:
                program.ready(port)
            else:
                assert program.status() == 1
                assert "requires full privileges" in program.process.stdout.read()


def test_tune_renice_sets_priorities_for_startup_and_for_runtime(binary, folder, port):
    needs_root()
    patterns = many_patterns(folder)
    for words, reading, serving in (("tune.renice.startup 7", 7, 0), ("tune.renice.runtime -3", 0, -3),
                                    ("tune.renice.startup 7\n    tune.renice.runtime 2", 7, 2)):
        config = answering(folder, port, extra=f"uid 65534\n    nbthread 2\n    {words}", frontend=f"acl a path_reg -f {patterns}")
        with Master(binary, folder, config, preexec_fn=ordinary_niceness) as master:
            # The worker is reading its pattern file.
            assert wait_until(lambda: master.workers()), master.said()
            worker = master.current()
            assert wait_until(lambda: niceness(worker) == reading), niceness(worker)
            # Other tasks run before a task of priority 7.
            master.served(seconds=60)
            threads = [int(thread) for thread in os.listdir(f"/proc/{worker}/task")]
            assert len(threads) > 2 and {niceness(thread) for thread in threads} == {serving}, master.said()
            assert niceness(master.pid) == 0, "it is about the worker"


def test_a_forbidden_tune_renice_priority_is_reported(binary, folder, port):
    needs_root()
    config = answering(folder, port, extra="tune.renice.startup 5\n    tune.renice.runtime -5")
    with Program("setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", binary, "-db", "-f", config,
                 preexec_fn=ordinary_niceness) as program:
        program.ready(port)
        assert niceness(program.pid) == 5
        program.send(TERM)
        program.status()
        said = program.process.stdout.read()
        assert "'tune.renice.runtime': cannot give the process the priority -5" in said and "it stays at 5" in said, said


def ordinary_niceness():
    """Before a program starts: resets its priority to the default, whatever this process has."""
    os.setpriority(os.PRIO_PROCESS, 0, 0)


def niceness(thread):
    """The priority of a thread, -20 to 19."""
    return os.getpriority(os.PRIO_PROCESS, thread)


def forbidden(pid):
    """Whether a process is barred from creating others, and whether all its threads are barred from gaining privileges
    by executing files."""
    with open(f"/proc/{pid}/limits") as limits:
        processes = next(line.split()[2:4] for line in limits if line.startswith("Max processes"))
    gains = {field(f"{pid}/task/{task}", "NoNewPrivs")[0] for task in os.listdir(f"/proc/{pid}/task")}
    assert len(gains) == 1, gains
    return processes == ["0", "0"], gains == {"1"}


def test_r158_only_the_worker_is_barred_from_forking_and_gaining_privileges(binary, folder):
    identity = "uid 65534\n    gid 65534\n    " if os.geteuid() == 0 else ""
    # The log writer thread starts before the workers.
    logs = "log stdout format raw daemon"
    for words, expected in (("", (True, True)), ("insecure-fork-wanted", (False, True)), ("insecure-setuid-wanted", (True, False)),
                            ("insecure-fork-wanted\n    insecure-setuid-wanted", (False, False)),
                            ("insecure-fork-wanted\n    no insecure-fork-wanted", (True, True))):
        port = free_port()
        config = answering(folder, port, extra=f"{identity}nbthread 2\n    {words}", frontend=logs)
        with Master(binary, folder, config) as master:
            before, first = forbidden(os.getpid()), master.served().current()
            assert forbidden(first) == expected, (words, forbidden(first))
            assert forbidden(master.pid) == before
            master.reload()
            assert wait_until(lambda: master.current() != first and forbidden(master.current()) == expected)
            assert request(port).startswith(b"HTTP/1.1 200")


def test_a_process_without_a_master_is_barred_from_forking_and_gaining_privileges(binary, folder):
    for words, expected in (("", (True, True)), ("insecure-fork-wanted", (False, True)), ("insecure-setuid-wanted", (True, False))):
        port, pid_file = free_port(), os.path.join(folder.path, "pid")
        config = answering(folder, port, extra=f"nbthread 2\n    {words}")
        with Program(binary, "-db", "-f", config) as program:
            program.ready(port)
            assert wait_until(lambda: forbidden(program.pid) == expected), (words, forbidden(program.pid))
        # With a daemon, the start is complete when the command returns.
        status, _, err = run(binary, "-D", "-p", pid_file, "-f", config)
        assert status == 0, err
        with open(pid_file) as file:
            daemon = int(file.read())
        try:
            assert forbidden(daemon) == expected
            # A successor is not its child.
            with Program(binary, "-db", "-f", config, "-sf", str(daemon)) as program:
                program.ready(port)
                assert wait_until(lambda: not alive(daemon))
                assert request(port).startswith(b"HTTP/1.1 200")
        finally:
            if alive(daemon):
                os.kill(daemon, TERM)


def test_tracing_and_memory_profiling_start_without_a_new_thread(binary, folder, port):
    needs_root()
    path = os.path.join(folder.path, "cli")
    config = answering(folder, port, extra=f"uid 65534\n    nbthread 2\n    stats socket {path} level admin")
    with Master(binary, folder, config) as master:
        worker = master.served().current()
        threads = len(os.listdir(f"/proc/{worker}/task"))
        assert forbidden(worker) == (True, True)
        talk(path, "set profiling memory on")
        for sink in ("stdout", "stderr"):
            before = master.said().count("[01|h1|")
            talk(path, f"trace h1 sink {sink}; trace h1 verbosity complete; trace h1 start now")
            assert request(port).startswith(b"HTTP/1.1 200")
            assert wait_until(lambda: "|h1|" in master.said()[before:]), sink
        talk(path, "trace 0")
        assert "@data/" in talk(path, "show profiling memory")
        assert "@data/" in talk(path, "show profiling memory"), "more than once"
        assert len(os.listdir(f"/proc/{worker}/task")) == threads
