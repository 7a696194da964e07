"""A receiver of log lines."""
import re
import socket
import threading

from lib.program import wait_until


class LogServer:
    """Receives log lines as datagrams over UDP or on a UNIX socket, until the end of the block. `raw` contains them
    unchanged, `lines` without the header (up to the process ID). `port` is the UDP port."""

    def __init__(self, path=None):
        self.raw, self.lines = [], []
        self.socket = socket.socket(socket.AF_UNIX if path else socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
        self.socket.bind(path or ("127.0.0.1", 0))
        self.port = None if path else self.socket.getsockname()[1]
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self):
        """Receives until the socket is closed."""
        while True:
            try:
                line = self.socket.recv(1 << 16).decode("latin-1")
            except OSError:
                return
            self.raw.append(line.rstrip("\n"))
            self.lines.append(re.sub(r"^<\d+>.*?\]: ", "", line).rstrip("\n"))

    def wait_for(self, pattern, seconds=5.0):
        """Waits for the first matching line and returns it with its header. On timeout, fails with the other lines."""
        def found():
            return next((line for line in list(self.raw) if re.search(pattern, line)), None)
        assert wait_until(found, seconds), f"no log line matches {pattern!r}: {self.raw}"
        return found()

    def close(self):
        """Ends the thread. Keeps the received lines."""
        try:
            self.socket.shutdown(socket.SHUT_RD)
        except OSError:
            pass
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
