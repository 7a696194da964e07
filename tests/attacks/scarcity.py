"""weir with little memory, few descriptors or a full disk: a scene."""
import os
import resource
import socket
import threading

from lib.origin import OK, Origin
from lib.program import Program, ask, free_port, request, wait_until

CONFIGURATION = """
global
    nbthread {threads}
    maxconn {maxconn}
    stats socket {socket} mode 600 level admin
    {extra}
defaults
    mode http
    timeout connect 1s
    timeout client 4s
    timeout server 4s
    timeout http-request 4s
    {modes}
frontend door
    bind 127.0.0.1:{door}
    http-request return status 200 content-type text/plain string "fine" if {{ path /fine }}
    use_backend second if {{ path_beg /second }}
    default_backend first
frontend hasty
    bind 127.0.0.1:{hasty}
    timeout http-request 1s
    http-request return status 200 content-type text/plain string "fine"
backend first
    server s1 127.0.0.1:{first}
backend second
    server s1 127.0.0.1:{second}
"""
# An unfinished head that fits a buffer and fills most of it.
LONG = b"GET / HTTP/1.1\r\nHost: x\r\nCookie: " + b"a" * 14_000
FINE = b"GET /fine HTTP/1.1\r\nHost: x\r\n\r\n"


class Scene:
    """weir with a scarce resource."""

    def __init__(self, binary, folder, *arguments, mode="-db", extra="", modes="", threads=2, maxconn=6000, first=9, second=9, **options):
        self.port, self.hasty, self.socket = free_port(), free_port(), os.path.join(folder.path, "cli.sock")
        text = CONFIGURATION.format(door=self.port, hasty=self.hasty, socket=self.socket, extra=extra, modes=modes, threads=threads, maxconn=maxconn, first=first, second=second)
        self.program = Program(binary, mode, "-f", folder.file("a.cfg", text), *arguments, **options)
        self.clients = []

    def __enter__(self):
        self.program.__enter__()
        self.program.ready(self.port)
        # Under a tight limit, memory for starting threads can be refused for a moment.
        assert wait_until(self.is_fine, 5), "no request is served at the start"
        return self

    def __exit__(self, *arguments):
        self.leave()
        self.program.__exit__(*arguments)

    def come(self, count, first, port=None):
        """Connects `count` clients that send the same bytes, as far as weir reads them."""
        for _ in range(count):
            client = socket.create_connection(("127.0.0.1", port or self.port), 5)
            client.setblocking(False)
            client.send(first)
            self.clients.append(client)

    def come_to_ask(self, count):
        """Adds `count` silent clients."""
        self.come(count, b"")
        return self.clients[-count:]

    def leave(self):
        while self.clients:
            self.clients.pop().close()

    def is_fine(self):
        try:
            return b" 200 " in request(self.port, FINE, 2)
        except OSError:
            return False

    def figure(self, name):
        """A line of `show info`, as a number."""
        return int(ask(self.socket, "show info").split(f"\n{name}: ")[1].split("\n")[0])

    def lives(self):
        assert self.program.status(0) is None, f"it ended: {self.program.process.communicate()[0]}"


def address_space(megabytes):
    """A `preexec_fn` that limits the address space."""
    return lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
# Writes the name of each thread that registers a destructor to run at its end.
NOTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
int __cxa_thread_atexit_impl(void (*drop)(void *), void *what, void *library) {
    char name[17] = {0};
    prctl(PR_GET_NAME, name);
    int file = open(getenv("NOTES"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    if (file < 0 || write(file, strcat(name, "\n"), strlen(name) + 1) < 0) abort();
    close(file);
    return ((int (*)(void (*)(void *), void *, void *))dlsym(RTLD_NEXT, "__cxa_thread_atexit_impl"))(drop, what, library);
}
"""
# Tables of long keys; one of them with an audience, for which changes are noted.
HOARDS = """
frontend hoard
    bind 127.0.0.1:{hoard}
    http-request track-sc0 uuid table {table} unless {{ path /fine }}
    http-request set-header x-tracked %[sc0_get_gpc0]
    http-request return status 200 content-type text/plain string "fine" if {{ path /fine }}
    http-request return status 200 hdr tracked %[sc0_get_gpc0] if {{ sc0_get_gpc0 -m found }}
    http-request return status 200 hdr tracked no
peers p
    peer {name} 127.0.0.1:{here}
    peer other 127.0.0.1:{there}
    table purging type string len 8000 size 1g store gpc0
    table refusing type string len 8000 size 1g nopurge expire 1h store gpc0"""


def hoard(port, count):
    """Sends `count` requests with distinct keys, a few hundred at a time. Returns the number of keys tracked."""
    tracked = 0
    with socket.create_connection(("127.0.0.1", port), 5) as client:
        client.settimeout(10)
        for _ in range(count // 200):
            client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
            got = b""
            while got.count(b"\r\n\r\n") < 200:
                more = client.recv(65536)
                assert more, got[-100:]
                got += more
            tracked += got.count(b"tracked: 0")
    return tracked


def answered(path, command):
    """The response to a command. Empty after 20 seconds without one."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(path)
        connection.sendall(command.encode() + b"\n")
        connection.shutdown(socket.SHUT_WR)
        try:
            return "\n" + b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        except (TimeoutError, ConnectionResetError):
            return ""


class Together(Origin):
    """A server that waits for a number of requests, then answers all of them at once."""

    def __init__(self, count):
        self.all = threading.Barrier(count)
        super().__init__(self.respond)

    def respond(self, _):
        self.all.wait()
        return OK


def open_descriptors(program):
    return len(os.listdir(f"/proc/{program.pid}/fd"))


def ask_all(clients, path):
    """Each client sends one request at the same time. All receive 200."""
    for client in clients:
        client.send(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    failed = [answer for answer in answers(clients) if not answer.startswith(b"HTTP/1.1 200 ")]
    assert not failed, f"{len(failed)} of {len(clients)} were refused: {failed[0]}"


def answers(clients):
    """The response received by each client."""
    found = []
    for client in clients:
        client.settimeout(5)
        found.append(client.recv(1000))
        client.setblocking(False)
    return found
