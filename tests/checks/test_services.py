"""Checks of real servers: databases of the distribution, where they are installed."""
import os
import pwd
import socket
import subprocess

import pytest

from checks.support import Scene, serving
from lib.needs import installed
from lib.origin import Server
from lib.program import free_port


def owned(folder, name):
    """A folder for a server that refuses to run as root, and the user to run it as."""
    path = os.path.join(folder.path, name)
    os.mkdir(path)
    if os.geteuid() != 0:
        return path, {}
    nobody = pwd.getpwnam("nobody")
    os.chown(path, nobody.pw_uid, nobody.pw_gid)
    return path, {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def checked(option, port):
    """A backend with one server, checked by an option."""
    return f"\nbackend b\n    {option}\n    timeout check 3s\n    server s 127.0.0.1:{port} check inter 300ms fall 1 rise 1\n"


def test_option_redis_check_with_a_redis_server(binary, folder):
    server = installed("redis-server")
    port = free_port()
    path, who = owned(folder, "redis")
    command = [server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", path]
    with Scene(binary, folder, checked("option redis-check", port)) as scene:
        scene.expect("b", "s", status="DOWN", check_status="L4CON")
        with serving(port, *command, **who):
            scene.expect("b", "s", status="UP", check_status="L7OK", last_chk="Redis server is ok")
        scene.expect("b", "s", status="DOWN", check_status="L4CON")
    # A server with a password reports an error, but '+PONG' could still follow (HAProxy 3.2 waits, too).
    with serving(port, *command, "--requirepass", "secret", **who), \
            Scene(binary, folder, checked("option redis-check", port), name="password.cfg") as scene:
        scene.expect("b", "s", status="DOWN", check_status="L7TOUT")


def test_option_pgsql_check_with_postgresql(binary, folder):
    # By its own path: the server looks for its files beside itself.
    server = os.path.realpath(installed("postgres"))
    prepare = os.path.join(os.path.dirname(server), "initdb")
    port = free_port()
    path, who = owned(folder, "postgres")
    data = os.path.join(path, "data")
    done = subprocess.run([prepare, "-D", data, "-U", "checker", "-A", "trust", "--no-sync"], capture_output=True, text=True, **who)
    assert done.returncode == 0, done.stderr
    with open(os.path.join(data, "pg_hba.conf"), "w") as file:
        file.write("host all stranger 127.0.0.1/32 reject\nhost all all 127.0.0.1/32 trust\n")
    command = [server, "-D", data, "-p", str(port), "-k", path, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
    with serving(port, *command, **who):
        with Scene(binary, folder, checked("option pgsql-check user checker", port)) as scene:
            scene.expect("b", "s", status="UP", check_status="L7OK", last_chk="PostgreSQL server is ok", seconds=20)
        with Scene(binary, folder, checked("option pgsql-check user stranger", port), name="stranger.cfg") as scene:
            scene.expect("b", "s", status="DOWN", check_status="L7RSP", seconds=20)


def test_last_chk_shows_why_a_check_failed(binary, folder):
    """The `last_chk` of HAProxy 2.6 and 3.2: a server's own message goes only to the logs, the reason for a failure
    goes to both."""
    def saying(text, first=False):
        def serve(connection):
            if first or connection.recv(4096):
                connection.sendall(text)
            # A check with a result resets the connection.
            while connection.recv(4096):
                pass
        return Server(serve)

    greeting = b"\x09" + b"3.23\0" + bytes(30)
    answers = [
        ("ldap-check", saying(bytes.fromhex("300c02010161070a010004000400")), ("UP", "L7OK", "")),
        ("ldap-check", saying(bytes.fromhex("300c02010161070a013104000400")),
         ("DOWN", "L7STS", "See RFC: http://tools.ietf.org/html/rfc4511#section-4.1.9")),
        ("ldap-check", Server(lambda connection: connection.recv(4096)), ("DOWN", "L7RSP", "Not LDAPv3 protocol")),
        ("mysql-check", saying(len(greeting).to_bytes(3, "little") + b"\0" + greeting, first=True), ("UP", "L7OK", "")),
        ("ssl-hello-chk", saying(b"There is no TLS here."), ("DOWN", "L6RSP", "")),
    ]
    sections = "".join(f"\nbackend b{at}\n    option {option}\n    timeout check 3s\n    server s 127.0.0.1:{server.port} check inter 300ms fall 1 rise 1\n"
                       for at, (option, server, _) in enumerate(answers))
    with Scene(binary, folder, sections) as scene:
        for at, (option, _, (status, check_status, last)) in enumerate(answers):
            scene.expect(f"b{at}", "s", status=status, check_status=check_status, last_chk=last, seconds=20)
    for _, server, _ in answers:
        server.close()


def test_option_mysql_check_with_mariadb(binary, folder):
    server, prepare = installed("mariadbd"), installed("mariadb-install-db")
    port = free_port()
    path, who = owned(folder, "mysql")
    data = os.path.join(path, "data")
    done = subprocess.run([prepare, "--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"],
                          capture_output=True, text=True, **who)
    assert done.returncode == 0, done.stdout + done.stderr
    command = [server, "--no-defaults", f"--datadir={data}", f"--socket={path}/socket", f"--port={port}", "--bind-address=127.0.0.1",
               "--skip-name-resolve"]
    with serving(port, *command, **who):
        with Scene(binary, folder, checked("option mysql-check", port)) as scene:
            scene.expect("b", "s", status="UP", check_status="L7OK", seconds=20)
        with Scene(binary, folder, checked("option mysql-check user root", port), name="root.cfg") as scene:
            scene.expect("b", "s", status="UP", check_status="L7OK", seconds=20)
        with Scene(binary, folder, checked("option mysql-check user stranger", port), name="stranger.cfg") as scene:
            # Access denied.
            scene.expect("b", "s", status="DOWN", check_status="L7STS", check_code="1045", seconds=20)


def test_option_ldap_check_with_slapd(binary, folder):
    server = installed("slapd")
    schema = "/etc/ldap/schema/core.schema"
    assert os.path.exists(schema), "slapd has no schema"
    port = free_port()
    path, who = owned(folder, "slapd")

    def command(name, more):
        text = f'include {schema}\n{more}database ldif\nsuffix "dc=test"\nrootdn "cn=a,dc=test"\ndirectory {path}\n'
        return [server, "-h", f"ldap://127.0.0.1:{port}", "-d", "0", "-f", folder.file(name, text)]
    with Scene(binary, folder, checked("option ldap-check", port)) as scene:
        scene.expect("b", "s", status="DOWN", check_status="L4CON")
        with serving(port, *command("slapd.conf", ""), **who):
            scene.expect("b", "s", status="UP", check_status="L7OK")
        scene.expect("b", "s", status="DOWN", check_status="L4CON")
        # A server that refuses anonymous binds.
        with serving(port, *command("closed.conf", "disallow bind_anon\n"), **who):
            scene.expect("b", "s", status="DOWN", check_status="L7STS")


def test_option_smtpchk_with_opensmtpd(binary, folder):
    server = installed("smtpd")
    with socket.socket(socket.AF_UNIX) as control:
        if os.geteuid() != 0 or control.connect_ex("/var/run/smtpd.sock") == 0:
            pytest.skip("OpenSMTPD runs as root, and once on a machine")
    port = free_port()
    text = f'listen on 127.0.0.1 port {port} hostname mail.test\naction "drop" relay\nmatch from local for any action "drop"\n'
    command = [server, "-d", "-f", folder.file("smtpd.conf", text)]
    with Scene(binary, folder, checked("option smtpchk EHLO check.test", port)) as scene:
        scene.expect("b", "s", status="DOWN", check_status="L4CON")
        with serving(port, *command):
            scene.expect("b", "s", status="UP", check_status="L7OK", check_code="221")
        scene.expect("b", "s", status="DOWN", check_status="L4CON")
