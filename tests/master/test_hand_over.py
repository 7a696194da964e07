"""Listening sockets passed from one process to another."""
import contextlib
import os
import re
import shutil
import socket

from lib.needs import installed
from lib.program import TERM, Program, answering, free_port, request, wait_until
from master.support import USR2, Clients, Master, talk, tcp, unix


def test_listening_sockets_are_handed_over_with_option_x(binary, folder):
    take_over([binary], [binary], folder)


def test_listening_sockets_are_taken_over_from_haproxy(binary, folder):
    take_over([installed("haproxy")], [binary], folder)


def test_listening_sockets_are_handed_over_to_haproxy(binary, folder):
    take_over([binary], [installed("haproxy")], folder)


def take_over(former, latter, folder):
    port, many = free_port(), free_port()
    name, abstract = os.path.join(folder.path, "front.sock"), f"weir-take-{os.getpid()}-{port}"
    stats = os.path.join(folder.path, "stats.sock")
    bind = f"127.0.0.1:{port}\n    bind {name}\n    bind abns@{abstract}\n    bind 127.0.0.2:{many}-{many + 299} interface lo"
    extra = f"stats socket {stats} level admin expose-fd listeners"
    one = answering(folder, port, "one", extra, bind=bind)
    two = answering(folder, port, "two", extra, bind=bind, name="b.cfg")
    with Program(*former, "-db", "-f", one) as first:
        first.ready(port)
        assert wait_until(lambda: os.path.exists(name) and os.path.exists(stats))
        kinds = [Clients(tcp(port), 2), Clients(unix(name), 2), Clients(unix("\0" + abstract.ljust(107, "\0")), 2)]
        with contextlib.ExitStack() as stack:
            for kind in kinds:
                stack.enter_context(kind)
            assert wait_until(lambda: all(sum(kind.answers.values()) > 20 for kind in kinds))
            with Program(*latter, "-db", "-f", two, "-x", stats, "-sf", str(first.pid)) as second:
                assert wait_until(lambda: all(kind.answers.get("two", 0) > 20 for kind in kinds), 10), \
                    [(kind.answers, kind.failures[:2]) for kind in kinds]
                assert first.status(10) == 0
                assert wait_until(lambda: request(many + 7, host="127.0.0.2").startswith(b"HTTP/1.1 200"))
                before = [dict(kind.answers) for kind in kinds]
                assert wait_until(lambda: all(sum(kind.answers.values()) > sum(old.values()) + 20
                                              for kind, old in zip(kinds, before)))
                for kind in kinds:
                    kind.over = True
                for kind in kinds:
                    kind.__exit__()
                assert second.process.poll() is None
        for kind in kinds:
            assert not kind.failures, kind.failures[:3]


def answers(master):
    with contextlib.suppress(OSError):
        return "worker" in master.ask("show proc")
    return False


def test_a_running_haproxy_master_is_reloaded_into_weir(binary, folder, port):
    """Replace the program file by weir and reload: the process number stays, and clients do not notice."""
    program = os.path.join(folder.path, "lb")
    config = answering(folder, port, "one")
    shutil.copy(installed("haproxy"), program)
    with Master(program, folder, config) as master:
        master.served()
        with Clients(tcp(port)) as clients:
            assert wait_until(lambda: clients.answers.get("one", 0) > 50)
            # The master re-executes itself after its start and drops queries meanwhile. Wait until it responds.
            assert wait_until(lambda: answers(master))
            os.remove(program)
            shutil.copy(binary, program)
            answering(folder, port, "two")
            master.send(USR2)
            assert wait_until(lambda: clients.answers.get("two", 0) > 50, 10), (clients.answers, clients.failures[:3])
            assert re.search(rf"{master.pid} +master +1 \[failed: 0\] .*weir", master.ask("show proc"))
            master.reload()
            assert wait_until(lambda: len(master.workers()) == 1)
        assert not clients.failures, clients.failures[:3]


def test_getsocks_is_refused_without_expose_fd_listeners(binary, folder, port):
    stats = os.path.join(folder.path, "stats.sock")
    with Program(binary, "-db", "-f", answering(folder, port, extra=f"stats socket {stats} level admin")) as program:
        program.ready(port)
        assert talk(stats, "_getsocks") == "Permission denied\n\n"


def test_listening_sockets_of_socket_activation_are_used(binary, folder):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        config = answering(folder, port)
        # Socket activation like systemd: descriptors from 3 on, and the process ID.
        script = folder.file("start", f"""#!/bin/bash
exec 3<&{listener.fileno()}
export LISTEN_FDS=1 LISTEN_PID=$$
exec {binary} -W -f {config} -S {folder.path}/master.sock
""")
        os.chmod(script, 0o755)
        with Program(script, pass_fds=[listener.fileno()]) as program:
            # Bound without SO_REUSEPORT, so only this socket can listen on the address.
            assert wait_until(lambda: request(port).startswith(b"HTTP/1.1 200"), 10)
            assert talk(f"{folder.path}/master.sock", "reload").startswith("Success=1")
            listener.close()
            assert request(port).startswith(b"HTTP/1.1 200")
            program.send(TERM)
            program.status()


def test_connections_through_sockpair_addresses_survive_reloads(binary, folder, port):
    ours, theirs = socket.socketpair()
    config = folder.file("a.cfg", f"""
defaults
    mode http
    timeout connect 2s
    timeout client 5s
    timeout server 5s
listen a
    bind 127.0.0.1:{port}
    server s sockpair@{ours.fileno()}
frontend b
    bind sockpair@{theirs.fileno()}
    http-request return status 200 content-type text/plain string "passed"
""")
    with Master(binary, folder, config, pass_fds=[ours.fileno(), theirs.fileno()]) as master:
        master.served()
        with Clients(tcp(port)) as clients:
            for _ in range(5):
                master.reload()
        assert not clients.failures and clients.answers.get("passed", 0) > 20, (clients.failures[:3], clients.answers)
