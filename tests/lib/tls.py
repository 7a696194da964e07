"""TLS peers of other implementations: curl, openssl and Python."""
import http.client
import os
import shutil
import socket
import ssl
import subprocess

from lib.origin import Origin, read_all
from lib.program import Program, free_port, run

CONFIGURATION = """
global
    log 127.0.0.1:{log} local0
    {extra}
defaults
    mode http
    log global
    timeout connect 2s
    timeout client 3s
    timeout server 3s
    log-format "line %ST %tsc %ft %sslv %sslc"
    {defaults}
{sections}
"""

ANSWER = 'http-request return status 200 content-type text/plain lf-string "{}"'


def openssl(*arguments, stdin=b""):
    """Runs openssl. Returns both outputs."""
    done = subprocess.run(["openssl", *arguments], input=stdin, capture_output=True, timeout=20)
    return (done.stderr + done.stdout).decode(errors="replace")


class Authority:
    """A certificate authority, in a folder."""

    def __init__(self, folder, name="authority"):
        self.folder, self.name = folder, name
        self.certificate, self.key = self.path("pem"), self.path("own-key")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key,
                "-out", self.certificate, "-days", "30", "-subj", f"/CN={name}")

    def path(self, ending):
        return os.path.join(self.folder.path, f"{self.name}.{ending}")

    def issue(self, name, file=None, kind="ec", days=30, key_apart=False, extension=None):
        """A certificate for a name with its key, in one file or two; the file's path."""
        file = os.path.join(self.folder.path, file or f"{name.replace('*', 'any')}.pem")
        os.makedirs(os.path.dirname(file), exist_ok=True)
        key, request, signed = self.path("k"), self.path("r"), self.path("c")
        curve = ["-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" else []
        openssl("req", "-newkey", "rsa:2048" if kind == "rsa" else "ec", *curve, "-nodes", "-keyout", key, "-out", request,
                "-subj", f"/O=tests/CN={name}", "-addext", f"subjectAltName=DNS:{name}", *(["-addext", extension] if extension else []))
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-out", signed,
                "-days", str(days), "-copy_extensions", "copy")
        with open(file, "w") as out:
            out.write(open(signed).read())
            if not key_apart:
                out.write(open(key).read())
        if key_apart:
            shutil.copy(key, file + ".key")
        return file


class Log:
    """The receiver of the program's log."""

    def __init__(self):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def line(self, seconds=5):
        self.socket.settimeout(seconds)
        return self.socket.recv(65536).decode(errors="replace").split("]: ", 1)[-1].strip()


class World:
    """A running program with sections of a test, and its log."""

    def __init__(self, binary, folder, sections, extra="", defaults=""):
        self.log = Log()
        self.port = free_port()
        sections = sections.replace("@port@", str(self.port))
        text = CONFIGURATION.format(log=self.log.port, extra=extra, defaults=defaults, sections=sections)
        self.file = folder.file("a.cfg", text)
        self.program = Program(binary, "-f", self.file)

    def __enter__(self):
        self.program.__enter__()
        self.program.ready(self.port)
        # The probe whether it listens left a line.
        self.log.line()
        return self

    def __exit__(self, *arguments):
        self.program.__exit__(*arguments)


def connect(port, authority=None, name="one.example", own=None, seconds=5, version=None, ciphers=None):
    """A TLS connection; certificates are verified only with an authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority:
        context.load_verify_locations(authority.certificate)
    else:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if own:
        context.load_cert_chain(own)
    context.set_alpn_protocols(["http/1.1"])
    if version:
        context.minimum_version = context.maximum_version = version
    if ciphers:
        context.set_ciphers(ciphers)
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), seconds), server_hostname=name)


def get_over(port, authority):
    """Sends a request over a new connection. Returns the complete response."""
    with connect(port, authority) as connection:
        return ask_over(connection)


def ask_over(connection, text=b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"):
    """Sends a request. Returns the response up to EOF."""
    connection.sendall(text)
    return read_all(connection)


def frontend(line, answer="%[ssl_fc] %[ssl_fc_sni]", more=""):
    return f"frontend f\n    bind 127.0.0.1:@port@ {line}\n    {more}\n    " + ANSWER.format(answer)


def refused(binary, folder, line, defaults="", extra="", sections=None):
    """The error messages for a configuration that is refused."""
    text = CONFIGURATION.format(log=514, extra=extra, defaults=defaults, sections=(sections or frontend(line)).replace("@port@", "1"))
    status, _, said = run(binary, "-c", "-f", folder.file("refused.cfg", text))
    assert status == 1, (status, said)
    return said


def sized(request):
    """The answer to `/100`: the length of the request's body in eight digits, and 100 bytes."""
    size = int(request.path[1:] or 0)
    return f"HTTP/1.1 200 OK\r\nContent-Length: {size + 8}\r\n\r\n{len(request.body):08}".encode() + b"x" * size


class SecureServer(Origin):
    """A TLS server: an origin, or with `serve=` one of another protocol. With an authority it requires certificates of clients. `names`
    lists the server names of all handshakes, and each connection has its own as `sni`. `refused` lists the errors of failed handshakes.
    `identities` lists the other ones: whether the session was resumed, its identifier, the handshake's first Finished message."""

    def __init__(self, certificate, authority=None, answer=sized, **options):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.context.sni_callback = self.named
        if authority:
            self.context.load_verify_locations(authority.certificate)
            self.context.verify_mode = ssl.CERT_REQUIRED
        self.names, self.refused, self.identities = [], [], []
        super().__init__(answer, **options)

    def named(self, connection, name, _):
        """Notes the server name of a handshake."""
        connection.sni = name
        self.names.append(name)

    def one(self, connection):
        with connection:
            try:
                secure = self.context.wrap_socket(connection, server_side=True)
            except OSError as error:
                self.refused.append(str(error))
                return
        self.identities.append((secure.session_reused, secure.session.id.hex(), secure.get_channel_binding("tls-unique").hex()))
        super().one(secure)


def backwards(connection):
    """Serves a connection: all its bytes in reverse order, after the last one."""
    connection.sendall(read_all(connection)[::-1])


def backend(line):
    return f"listen f\n    bind 127.0.0.1:@port@\n    http-reuse always\n    server s 127.0.0.1:{line}"


def get(port, path="/", body=None):
    """The status and the body of a plaintext request."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    client.request("POST" if body else "GET", path, body)
    response = client.getresponse()
    return response.status, response.read()
