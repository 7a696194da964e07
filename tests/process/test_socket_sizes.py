"""The kernel's buffer sizes of sockets: tune.rcvbuf.* and tune.sndbuf.*, read from the sockets themselves."""
import ctypes
import os
import socket

from lib.program import Program, free_port, wait_until

# The configured sizes; the kernel reports the double, for its own bookkeeping.
SIZES = {"tune.rcvbuf.client": 20_000, "tune.sndbuf.client": 21_000, "tune.rcvbuf.server": 22_000, "tune.sndbuf.server": 23_000,
         "tune.rcvbuf.frontend": 24_000, "tune.sndbuf.backend": 25_000}
REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
PIDFD_GETFD = 438


def sockets_of(pid):
    """Duplicates of the sockets that a process has open."""
    libc, process = ctypes.CDLL(None, use_errno=True), os.pidfd_open(pid)
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            copy = libc.syscall(PIDFD_GETFD, process, int(number), 0)
            if copy < 0:
                continue
            if os.readlink(f"/proc/self/fd/{copy}").startswith("socket:"):
                with socket.socket(fileno=copy) as found:
                    yield found
            else:
                os.close(copy)
    finally:
        os.close(process)


def sizes(pid, chosen):
    """The sizes for receiving and sending of those sockets."""
    buffers = (socket.SO_RCVBUF, socket.SO_SNDBUF)
    return [tuple(one.getsockopt(socket.SOL_SOCKET, buffer) // 2 for buffer in buffers) for one in sockets_of(pid) if chosen(one)]


def is_listening(one):
    return one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1


def is_datagram(one):
    return one.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_DGRAM


def test_socket_buffers_have_the_configured_sizes(binary, folder):
    """Client connections of bound, inherited and UNIX listeners, server connections over TCP and UNIX sockets, and sockets for datagrams."""
    unix, of_server, log = (os.path.join(folder.path, name) for name in ("client", "server", "log"))
    port, messages = free_port(), free_port()
    with socket.create_server(("127.0.0.1", 0)) as inherited, socket.create_server(("127.0.0.1", 0)) as inet, \
            socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        server.bind(of_server)
        server.listen()
        daemon.bind(log)
        lines = "".join(f"    {word} {size}\n" for word, size in SIZES.items())
        text = (f"global\n    nbthread 1\n{lines}"
                f"log-forward relay\n    dgram-bind 127.0.0.1:{messages}\n    log {log} local0\n"
                f"defaults\n    mode http\n    timeout connect 2s\n    timeout client 9s\n    timeout server 9s\n"
                f"frontend f\n    bind 127.0.0.1:{port}\n    bind fd@{inherited.fileno()}\n    bind unix@{unix}\n"
                f"    use_backend of_inet if {{ path /inet }}\n    default_backend of_unix\n"
                f"backend of_inet\n    server s 127.0.0.1:{inet.getsockname()[1]}\nbackend of_unix\n    server s unix@{of_server}\n")
        with Program(binary, "-db", "-f", folder.file("sizes.cfg", text), pass_fds=(inherited.fileno(),)) as program:
            program.ready(port)
            addresses = (port, inherited.getsockname()[1])
            clients = [socket.create_connection(("127.0.0.1", number)) for number in addresses]
            clients.append(socket.socket(socket.AF_UNIX))
            clients[2].connect(unix)
            for client in clients:
                client.sendall(REQUEST.replace(b"/ ", b"/inet ") if client is clients[0] else REQUEST)
            served = [listener.accept()[0] for listener in (inet, server, server)]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"<134>hello", ("127.0.0.1", messages))
            daemon.settimeout(5)
            assert b"hello" in daemon.recv(1000)

            def connections():
                return sorted(sizes(program.pid, lambda one: not is_listening(one) and not is_datagram(one)))

            # Three of clients, three to servers; the rest are of the process itself.
            asked = [SIZES[f"tune.{buffer}.{side}"] for side in ("client", "server") for buffer in ("rcvbuf", "sndbuf")]
            expected = [tuple(asked[:2])] * 3 + [tuple(asked[2:])] * 3
            assert wait_until(lambda: [pair for pair in connections() if pair in expected] == expected), connections()
            datagrams = sizes(program.pid, is_datagram)
            received, sent = SIZES["tune.rcvbuf.frontend"], SIZES["tune.sndbuf.backend"]
            assert any(pair[0] == received for pair in datagrams) and any(pair[1] == sent for pair in datagrams), datagrams
            for connection in clients + served:
                connection.close()
