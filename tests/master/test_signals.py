"""Signals: inherited dispositions do not matter, and only the named processes are signalled."""
import os
import signal
import subprocess

from lib.program import Program, answering, connects, free_port, run, wait_until
from master.support import USR2, Master, Service, alive, field


def test_signals_work_despite_inherited_dispositions_and_masks(binary, folder):
    """As started by a shell in the background, by nohup, or by a runner that handles signals itself."""
    everything = {signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD, signal.SIGUSR1, signal.SIGUSR2,
                  signal.SIGPIPE, signal.SIGTTIN, signal.SIGTTOU}

    def ignore():
        for number in everything:
            signal.signal(number, signal.SIG_IGN)

    def block():
        signal.pthread_sigmask(signal.SIG_BLOCK, everything)

    def close():
        os.closerange(0, 3)

    for prepare in (ignore, block, close):
        for number, status in ((signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, -signal.SIGTERM), (signal.SIGUSR1, 0)):
            port = free_port()
            with Service([binary, "-db", "-f", answering(folder, port)], folder, preexec_fn=prepare) as service:
                assert wait_until(lambda: connects(port)), (prepare, service.said())
                service.process.send_signal(number)
                assert service.process.wait(10) == status, (prepare, number, service.process.poll())
        port = free_port()
        command = [binary, "-W", "-f", answering(folder, port), "-p", f"{folder.path}/pid"]
        with Service(command, folder, preexec_fn=prepare) as service:
            assert wait_until(lambda: connects(port)) and wait_until(service.workers), prepare
            first = service.workers()[0]
            service.process.send_signal(USR2)
            assert wait_until(lambda: service.workers() not in ([], [first])), prepare
            # The master notices the exit of its children.
            assert wait_until(lambda: not alive(first), 15), (prepare, service.said())
            assert wait_until(lambda: ignored(service.process.pid) == {signal.SIGPIPE}), (prepare, ignored(service.process.pid))
            os.kill(next(worker for worker in service.workers() if worker != first), signal.SIGKILL)
            assert service.process.wait(10) == 137, prepare


def ignored(pid):
    """The signals that a process ignores, without the two reserved ones of the C library."""
    bits = int(field(pid, "SigIgn")[0], 16)
    return {number for number in range(1, 65) if bits >> (number - 1) & 1} - {32, 33}


def test_sigterm_ends_a_worker_that_still_reads_its_configuration(binary, folder):
    """Signals that its master waits for are not blocked in it: it ends at once, and never serves."""
    config = answering(folder, free_port())
    with open(config, "a") as file:
        for number in range(30_000):
            file.write(f"backend b{number}\n    server s{number} 127.0.0.1:9 weight 10\n")
    with Master(binary, folder, config) as master:
        assert wait_until(master.workers), master.said()
        os.kill(master.current(), signal.SIGTERM)
        assert master.status() == 143 and "Loading success." not in master.said(), master.said()


def test_wrong_process_ids_for_option_sf_do_no_harm(binary, folder, port):
    config = answering(folder, port)
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        # Process IDs are below 2^22. An invalid process ID is refused before anything happens. 0 would mean this process group.
        with Program(binary, "-db", "-f", config, "-sf", "4194305", "2147483647") as program:
            program.ready(port)
        for word in ("12x", "2147483648", "4294967296", "99999999999999999999", "0"):
            status, _, said = run(binary, "-db", "-f", config, "-sf", word)
            assert status == 1 and f"'{word}'" in said, (word, status, said)
    finally:
        assert sleeper.poll() is None
        sleeper.kill()
        sleeper.wait()
