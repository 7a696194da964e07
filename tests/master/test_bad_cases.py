"""Failures around a reload, and the service that continues."""
import contextlib
import os
import shutil
import subprocess

from lib.needs import needs_root
from lib.origin import Server
from lib.program import answering, connects, free_port, request, run, wait_until
from master.support import IS_ROOT, Master


def test_a_reload_with_an_unreadable_configuration_keeps_the_former_worker(binary, folder, port):
    config = answering(folder, port)

    def directory():
        os.mkdir(config)

    def pipe():
        os.mkfifo(config)

    def unreadable():
        folder.file("a.cfg", "frontend f\n")
        os.chmod(config, 0)
        if IS_ROOT:
            os.remove(config)
            os.symlink(config, config)

    with Master(binary, folder, config) as master:
        master.served()
        first = master.current()
        for make, words in ((lambda: None, "No such file or directory"), (directory, "listener"),
                            (pipe, "can be read once only"), (unreadable, "Cannot open configuration file")):
            with contextlib.suppress(FileNotFoundError):
                os.remove(config)
            make()
            answer = master.ask("reload")
            assert answer.startswith("Success=0\n") and words in answer, (words, answer)
            assert master.workers() == [first] and request(port).startswith(b"HTTP/1.1 200")
            with contextlib.suppress(OSError):
                os.rmdir(config)
        with contextlib.suppress(FileNotFoundError):
            os.remove(config)
        answering(folder, port)
        master.reload()


def test_a_reload_with_a_port_in_use_keeps_the_former_worker(binary, folder, port):
    with Server() as other:
        config = answering(folder, port)
        with Master(binary, folder, config) as master:
            master.served()
            answering(folder, port, bind=f"127.0.0.1:{port}\n    bind 127.0.0.1:{other.port}")
            answer = master.ask("reload")
            assert answer.startswith("Success=0\n") and "Address already in use" in answer and str(other.port) in answer, answer
            assert request(port).startswith(b"HTTP/1.1 200") and len(master.workers()) == 1


def test_an_unwritable_pid_file_is_reported(binary, folder):
    config = answering(folder, free_port())
    for path, why in (("/nonexistent/pid", "No such file or directory"), ("/dev/full", "No space left on device")):
        status, _, err = run(binary, "-W", "-p", path, "-f", config)
        assert status == 1 and f"Cannot create pidfile {path}: {why}" in err, err


def processes_of(uid):
    """The processes of a user."""
    return subprocess.run(["ps", "-o", "pid=", "-u", str(uid)], capture_output=True, text=True).stdout.split()


def test_a_reload_that_cannot_fork_keeps_the_former_worker(binary, folder, port):
    needs_root()
    config = answering(folder, port, extra="nbthread 1")
    os.chmod(folder.path, 0o777)
    master = Master(binary, folder, config)
    with open(master.log, "a"):
        os.chmod(master.log, 0o666)
    words = " ".join(f"'{word}'" for word in master.command)
    # As a user without other processes, with a process limit for exactly one start.
    for most in range(3, 12):
        master.command = ["setpriv", "--reuid=65533", "--regid=65533", "--clear-groups", "bash", "-c",
                          f"ulimit -u {most}; exec {words}"]
        master.__enter__()
        wait_until(lambda: "Loading success." in master.said() or master.process.poll() is not None, 10)
        if "Loading success." in master.said():
            break
        master.__exit__()
        # Wait for the processes of this attempt to end, because they count against the limit of the next one.
        assert wait_until(lambda: not processes_of(65533), 10)
    try:
        first = master.served().current()
        answer = master.ask("reload")
        assert answer.startswith("Success=0\n") and "Cannot fork" in answer, answer
        assert request(port).startswith(b"HTTP/1.1 200") and master.workers() == [first]
        assert "[failed: 1]" in master.ask("show proc")
    finally:
        master.__exit__()


def test_a_reload_without_the_program_file_keeps_the_former_worker(binary, folder):
    own, port = os.path.join(folder.path, "weir"), free_port()
    shutil.copy(binary, own)
    with Master(own, folder, answering(folder, port)) as master:
        master.served()
        os.rename(own, own + ".away")
        answer = master.ask("reload")
        assert "Failed to reexecute the master process" in answer or answer == "", answer
        assert "Failed to reexecute the master process" in master.said()
        assert request(port).startswith(b"HTTP/1.1 200") and "Pid:" in master.ask("@1 show info")
        os.rename(own + ".away", own)
        master.reload()
        assert request(port).startswith(b"HTTP/1.1 200")
