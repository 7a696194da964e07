"""Private keys under a passphrase: the program that knows it, authorities that sign, and keys that come by the runtime API."""
import os
import socket
import subprocess

from lib.program import ask, free_port
from lib.tls import CONFIGURATION, Authority, World, ask_over, connect, frontend, openssl, refused

SCHEMES = {
    "aes": ["pkcs8", "-topk8", "-v2", "aes-256-cbc"],
    "scrypt": ["pkcs8", "-topk8", "-scrypt", "-scrypt_N", "1024"],
    "des3": ["pkcs8", "-topk8", "-v2", "des3"],
    "traditional": ["ec", "-aes128"],
}


def encrypt(folder, file, scheme, passphrase):
    """The certificate of a file with its key under a passphrase, in a new file; its path."""
    text = open(file).read()
    key = folder.path + "/encrypting"
    said = openssl(*scheme, "-in", file, "-out", key, "-passout", f"pass:{passphrase}")
    assert os.path.exists(key), said
    begin = text.index("-----BEGIN PRIVATE") if "-----BEGIN PRIVATE" in text else text.index("-----BEGIN EC PRIVATE")
    path = f"{file}.{len(scheme)}.{passphrase}"
    with open(path, "w") as out:
        out.write(text[:begin] + open(key).read())
    os.unlink(key)
    return path


def _program(folder, name, text):
    path = folder.file(name, "#!/bin/sh\n" + text)
    os.chmod(path, 0o755)
    return path


def served(world, authority, name="one.example"):
    return b"1 " + name.encode() in ask_over(connect(world.port, authority, name=name))


def test_encrypted_keys_of_each_scheme_are_served(binary, folder):
    """The program runs once for each passphrase, with the file first and its own arguments after it; its error output
    reaches weir's."""
    authority = Authority(folder)
    asked = folder.path + "/asked"
    ask_program = _program(folder, "ask", f'echo "$@" >> {asked}\ncase $1 in *.other) echo other;; *) printf secret;; esac\n')
    for kind in ("ec", "rsa"):
        schemes = dict(SCHEMES, traditional=["rsa", "-traditional", "-aes128"] if kind == "rsa" else SCHEMES["traditional"])
        files = [encrypt(folder, authority.issue(f"{name}.{kind}.example", kind=kind), scheme, "secret") for name, scheme in schemes.items()]
        last = encrypt(folder, authority.issue(f"last.{kind}.example", kind=kind), SCHEMES["aes"], "other")
        open(asked, "w").close()
        line = "ssl " + " ".join(f"crt {file}" for file in [*files, last])
        with World(binary, folder, frontend(line), extra=f"ssl-passphrase-cmd {ask_program} a 'b  c'") as world:
            for name in [*schemes, "last"]:
                assert served(world, authority, f"{name}.{kind}.example"), name
        assert open(asked).read() == f"{files[0]} a b  c\n{last} a b  c\n"


def test_encrypted_keys_in_separate_files_are_decrypted(binary, folder):
    """`.key` files, keys of a store, and those of servers."""
    authority = Authority(folder)
    site = authority.issue("one.example")
    key = encrypt(folder, site, SCHEMES["aes"], "secret")
    certificate = folder.file("apart.pem", open(site).read().split("-----BEGIN PRIVATE")[0])
    text = open(key).read()
    folder.file("apart.pem.key", text[text.index("-----BEGIN ENCRYPTED"):])
    extra = f"ssl-passphrase-cmd {_program(folder, 'ask', 'echo secret')}"
    with World(binary, folder, frontend(f"ssl crt {certificate}"), extra=extra) as world:
        assert served(world, authority)
    sections = (f"crt-store s\n    load crt {certificate} key {certificate}.key alias site\n"
                + frontend(f"ssl crt @s/site verify required ca-file {authority.certificate}", "%[ssl_c_s_dn(CN)]"))
    inner = free_port()
    sections += f"\nfrontend outer\n    bind 127.0.0.1:{inner}\n    use_backend b\nbackend b\n    server s 127.0.0.1:@port@ ssl verify none crt {key}"
    with World(binary, folder, sections, extra=extra) as world:
        with socket.create_connection(("127.0.0.1", inner), 5) as client:
            said = ask_over(client)
        assert said.endswith(b"one.example"), said


def test_a_key_that_cannot_be_decrypted_is_an_error(binary, folder):
    """Each message has the file, the setting for the program, and the remedy."""
    site = Authority(folder).issue("one.example")
    key = encrypt(folder, site, SCHEMES["aes"], "secret")
    said = refused(binary, folder, f"ssl crt {key}")
    assert f"the private key of '{key}' is encrypted: 'ssl-passphrase-cmd' in the global section names a program" in said, said
    faults = {
        "exit 3": "exited with status 3.",
        "kill -9 $$": "was ended:",
        "true": "printed nothing.",
        "echo": "printed nothing.",
        "while :; do echo word; done": "printed more than 1024 bytes.",
        "printf 'secret '": "printed a passphrase that does not open",
        "echo wrong": "printed a passphrase that does not open",
    }
    for number, (text, why) in enumerate(faults.items()):
        ask_program = _program(folder, f"ask{number}", text + "\n")
        said = refused(binary, folder, f"ssl crt {key}", extra=f"ssl-passphrase-cmd {ask_program}")
        assert why in said and key in said, (text, said)
        if "printed a passphrase" not in why:
            assert f"'ssl-passphrase-cmd' [{folder.path}/refused.cfg:4] gives no passphrase: '{ask_program}'" in said, said
    said = refused(binary, folder, f"ssl crt {key}", extra="ssl-passphrase-cmd /nowhere/ask")
    assert "'/nowhere/ask' cannot be run: No such file or directory." in said, said
    said = refused(binary, folder, f"ssl crt {key}", extra="ssl-passphrase-cmd")
    assert "'ssl-passphrase-cmd' expects a program." in said, said
    slow = CONFIGURATION.format(log=514, extra=f"ssl-passphrase-cmd {_program(folder, 'slow', 'exec sleep 60')}", defaults="",
                                sections=frontend(f"ssl crt {key}").replace("@port@", "1"))
    done = subprocess.run([binary, "-c", "-f", folder.file("slow.cfg", slow)], capture_output=True, timeout=40)
    assert done.returncode == 1 and b"was ended after 10 seconds." in done.stderr, done
    old = encrypt(folder, site, ["pkcs8", "-topk8", "-v1", "PBE-SHA1-3DES"], "secret")
    said = refused(binary, folder, f"ssl crt {old}", extra=f"ssl-passphrase-cmd {_program(folder, 'ask', 'echo secret')}")
    assert "is encrypted in a way that is not supported" in said and "openssl pkcs8 -topk8 -v2 aes-256-cbc" in said, said


def test_ca_sign_pass_decrypts_the_key_of_ca_sign_file(binary, folder):
    """`ca-sign-pass` decrypts the key of `ca-sign-file`; when it is set, no other passphrase is tried."""
    authority = Authority(folder)
    site = authority.issue("one.example")
    plain = folder.file("signer.pem", open(authority.certificate).read() + open(authority.key).read())
    signer = encrypt(folder, plain, SCHEMES["aes"], "secret")
    line = f"ssl crt {site} generate-certificates ca-sign-file {signer}"
    with World(binary, folder, frontend(f"{line} ca-sign-pass secret")) as world:
        assert served(world, authority, "forged.example")
    with World(binary, folder, frontend(line), extra=f"ssl-passphrase-cmd {_program(folder, 'ask', 'echo secret')}") as world:
        assert served(world, authority, "forged.example")
    said = refused(binary, folder, f"{line} ca-sign-pass wrong")
    assert f"'ca-sign-pass' : the passphrase does not open the private key of '{signer}'." in said, said
    assert "'ca-sign-pass'" in refused(binary, folder, "ssl ca-sign-pass")


def test_ssl_passphrase_cmd_runs_before_the_chroot(binary, folder):
    """The program and the key are outside of the chroot, and the new user cannot read them."""
    if os.geteuid() != 0:
        return
    authority = Authority(folder)
    key = encrypt(folder, authority.issue("one.example"), SCHEMES["aes"], "secret")
    os.chmod(key, 0o600)
    os.mkdir(folder.path + "/root")
    ask_program = _program(folder, "ask", "[ $(id -u) = 0 ] && echo secret\n")
    os.chmod(ask_program, 0o700)
    extra = f"ssl-passphrase-cmd {ask_program}\n    chroot {folder.path}/root\n    user nobody"
    with World(binary, folder, frontend(f"ssl crt {key}"), extra=extra) as world:
        assert served(world, authority)


def test_encrypted_keys_can_be_set_by_the_runtime_api(binary, folder):
    """A known passphrase opens a key at run time. The program does not run: its files may be out of reach, and its user
    too."""
    authority = Authority(folder)
    site = authority.issue("one.example")
    asked = folder.path + "/asked"
    ask_program = _program(folder, "ask", f"echo >> {asked}\necho secret\n")
    first = encrypt(folder, site, SCHEMES["aes"], "secret")
    cli = folder.path + "/cli"
    extra = f"stats socket {cli} level admin\n    ssl-passphrase-cmd {ask_program}"

    def send(file):
        # The traditional form has an empty line, which would end the payload.
        return ask(cli, f"set ssl cert {first} <<%END%\n{open(file).read()}\n%END%\n")

    with World(binary, folder, frontend(f"ssl crt {first}"), extra=extra) as world:
        second = authority.issue("two.example")
        said = send(encrypt(folder, second, SCHEMES["traditional"], "secret"))
        assert "Transaction created" in said, said
        assert "Success!" in ask(cli, f"commit ssl cert {first}")
        assert served(world, authority, "two.example")
        said = send(encrypt(folder, site, SCHEMES["aes"], "other"))
        assert "no passphrase that is known opens it" in said and "openssl pkey -in KEY -out KEY" in said, said
        assert "Transaction created" in send(site)
        assert open(asked).read() == "\n"
    with World(binary, folder, frontend(f"ssl crt {site}"), extra=f"stats socket {cli} level admin") as world:
        said = ask(cli, f"set ssl cert {site} <<\n{open(first).read()}\n")
        assert "is encrypted" in said and "openssl pkey -in KEY -out KEY" in said, said
