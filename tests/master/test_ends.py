"""Shutdown of masters and workers."""
import signal

from lib.program import TERM, USR1, answering, connects, free_port, wait_until
from master.support import Master, alive, finished, slow_client


def test_signals_end_the_workers_and_then_the_master(binary, folder):
    for number, status in ((TERM, 0), (USR1, 0), (signal.SIGINT, 130)):
        port = free_port()
        with Master(binary, folder, answering(folder, port)) as master:
            master.served()
            worker = master.current()
            master.send(number)
            assert master.status() == status and not alive(worker), master.said()
            assert "Exiting Master process..." in master.said()
            assert f"All workers exited. Exiting... ({status})" in master.said()


def test_workers_finish_their_requests_and_exit_when_the_master_is_killed(binary, folder, port):
    config = answering(folder, port)
    with Master(binary, folder, config) as master, slow_client(master, port) as (slow, worker):
        master.process.kill()
        assert wait_until(lambda: not connects(port)), "it takes nothing new"
        assert finished(slow).startswith(b"HTTP/1.1 200"), "it finishes its requests"
        assert wait_until(lambda: not alive(worker))
        assert "The master is gone" in master.said()
