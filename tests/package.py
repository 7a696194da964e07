#!/usr/bin/env python3
"""The Debian package: what is in it, and what installing, upgrading, removing and purging it do, in a folder that stands for a system.

  package.py --bin target/release/weir [--only REGEX]

The package is made of the programs that are built. Nothing is installed on this machine.
"""
import os
import re
import shutil
import stat
import subprocess
import sys
import threading

from program import LeftOut, Program, ask, free_port, main, request, run, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def made(binary, folder, revision):
    """A package of a revision; its path."""
    if not shutil.which("dpkg-deb"):
        raise LeftOut("dpkg-deb is not here: this is not a Debian")
    for name in ("weir-ring", "weir-top"):
        if not os.path.exists(os.path.join(os.path.dirname(binary), name)):
            raise LeftOut(f"{name} is not built beside weir")
    done = subprocess.run([os.path.join(ROOT, "packaging", "deb", "build"), os.path.dirname(binary), folder.path, str(revision)],
                          capture_output=True, text=True, timeout=120, env=dict(os.environ, DPKG_DEB_COMPRESSOR_LEVEL="0"))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class System:
    """A folder that has a package database and nothing else."""

    def __init__(self, folder):
        if os.getuid() != 0:
            raise LeftOut("only root may install packages, in a folder too")
        self.path = os.path.join(folder.path, "system")
        for name in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"):
            os.makedirs(os.path.join(self.path, name))
        open(self.at("var/lib/dpkg/status"), "w").close()

    def at(self, name):
        return os.path.join(self.path, name)

    def dpkg(self, *words):
        """What is said; it has to go well. Maintainer scripts run here and get the folder's name."""
        done = subprocess.run(["dpkg", f"--root={self.path}", "--force-depends", "--force-script-chrootless", "--force-confdef", *words],
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr


def everything_is_where_a_distribution_has_it(binary, folder):
    system = System(folder)
    system.dpkg("-i", made(binary, folder, 1))
    for name, mode in (("usr/bin/weir", 0o755), ("usr/bin/weir-ring", 0o755), ("usr/bin/weir-top", 0o755), ("etc/weir/weir.cfg", 0o640), ("etc/logrotate.d/weir", 0o644),
                       ("etc/rsyslog.d/49-weir.conf", 0o644), ("usr/share/weir/certbot-deploy", 0o755), ("usr/lib/systemd/system/weir.service", 0o644), ("usr/lib/sysusers.d/weir.conf", 0o644),
                       ("usr/share/man/man1/weir.1.gz", 0o644), ("usr/share/man/man5/weir.cfg.5.gz", 0o644), ("usr/share/man/man1/weir-ring.1.gz", 0o644),
                       ("usr/share/man/man1/weir-top.1.gz", 0o644), ("usr/share/bash-completion/completions/weir-top", 0o644),
                       ("usr/share/zsh/vendor-completions/_weir-top", 0o644), ("usr/share/fish/vendor_completions.d/weir-top.fish", 0o644),
                       ("usr/share/bash-completion/completions/weir", 0o644), ("usr/share/zsh/vendor-completions/_weir", 0o644),
                       ("usr/share/fish/vendor_completions.d/weir.fish", 0o644),
                       ("usr/share/doc/weir/copyright", 0o644), ("usr/share/doc/weir/examples/web-site.cfg", 0o644)):
        known = os.stat(system.at(name))
        assert (stat.S_IMODE(known.st_mode), known.st_uid) == (mode, 0), (name, oct(known.st_mode), known.st_uid)
    assert run(system.at("usr/bin/weir"), "-vq")[1] == run(binary, "-vq")[1]
    # What the unit names is there.
    unit = open(system.at("usr/lib/systemd/system/weir.service")).read()
    named = re.findall(r"^Exec\w+=(/usr/\S+)", unit, re.M) + re.findall(r"file:(\S+)", unit) + re.findall(r"CONFIG=(\S+)", unit)
    assert len(named) >= 5, named
    for path in set(named):
        assert os.path.exists(system.at(path.lstrip("/"))), path
    pages = {f"{name}.{section}" for name, section in re.findall(r"man:([\w.]+)\((\d)\)", unit)}
    assert pages == {"weir.1", "weir.cfg.5"}, pages
    text = open(system.at("etc/weir/weir.cfg")).read().replace("user weir\n", "user daemon\n").replace("group weir\n", "group daemon\n")
    path = folder.file("packaged.cfg", text.replace("user weir group weir", "user daemon group daemon"))
    os.chmod(path, 0o640)
    assert run(binary, "lint", "-f", path) == (0, "", ""), run(binary, "lint", "-f", path)
    tag = re.search(r"log-tag (\S+)", text).group(1)
    assert f'isequal, "{tag}"' in open(system.at("etc/rsyslog.d/49-weir.conf")).read()


def a_changed_configuration_survives_upgrades_and_removal(binary, folder):
    system, configuration = System(folder), "etc/weir/weir.cfg"
    system.dpkg("-i", made(binary, folder, 1))
    with open(system.at(configuration), "a") as file:
        file.write("# ours\n")
    system.dpkg("-i", made(binary, folder, 2))
    assert open(system.at(configuration)).read().endswith("# ours\n")
    assert "0.1.0-2" in system.dpkg("-s", "weir")
    system.dpkg("-r", "weir")
    assert os.path.exists(system.at(configuration)) and not os.path.exists(system.at("usr/bin/weir"))
    assert os.path.isdir(system.at("var/lib/weir"))
    system.dpkg("-P", "weir")
    left = [name for name in ("etc/weir", "etc/logrotate.d/weir", "etc/rsyslog.d/49-weir.conf", "var/lib/weir", "usr/share/doc/weir")
            if os.path.exists(system.at(name))]
    assert not left, left


def an_upgrade_under_load_loses_nothing(binary, folder):
    """The files are replaced below a running master, which is told to reload as the package does it; requests go on all the time."""
    system, port = System(folder), free_port()
    system.dpkg("-i", made(binary, folder, 1))
    later = made(binary, folder, 2)
    socket = os.path.join(folder.path, "master")
    path = folder.file("load.cfg", "defaults\n    mode http\n    timeout connect 2s\n    timeout client 10s\n    timeout server 10s\n"
                       f"frontend f\n    bind 127.0.0.1:{port}\n    http-request return status 200 content-type text/plain string fine\n")
    wrong, served, over = [], [0], threading.Event()

    def client():
        while not over.is_set():
            try:
                answer = request(port)
                served[0] += 1
                if b" 200 " not in answer:
                    wrong.append(answer)
            except OSError as error:
                wrong.append(error)

    with Program(system.at("usr/bin/weir"), "-W", "-f", path, "-S", socket) as program:
        program.ready(port)
        threads = [threading.Thread(target=client) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            assert wait_until(lambda: served[0] > 50)
            system.dpkg("-i", later)
            before = ask(socket, "show proc")
            ask(socket, "reload")
            assert wait_until(lambda: "Success=1" in ask(socket, "show startup-logs") or ask(socket, "show proc") != before, 10)
            reached = served[0]
            assert wait_until(lambda: served[0] > reached + 50, 10)
            # The master runs the new file: the former one has no name any more.
            assert "(deleted)" not in os.readlink(f"/proc/{program.pid}/exe"), os.readlink(f"/proc/{program.pid}/exe")
        finally:
            over.set()
            for thread in threads:
                thread.join()
    assert not wrong, (len(wrong), served[0], wrong[:3])


def man_pages_are_clean(binary, folder):
    """As groff reads them: nothing is warned of."""
    if not shutil.which("groff"):
        raise LeftOut("groff is not installed")
    for name in ("weir.1", "weir.cfg.5", "weir-ring.1", "weir-top.1"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", os.path.join(ROOT, "packaging", "man", name)], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), (name, done.stderr[:500])


def shells_complete_options_and_words(binary, folder):
    """In bash: options, commands, words after 'explain'."""
    def completed(*words):
        quoted = " ".join(f"'{word}'" for word in words)
        name = words[0]
        script = f". {ROOT}/packaging/completion/{name}.bash; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _{name.replace('-', '_')}; echo ${{COMPREPLY[@]}}"
        return subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout.split()
    assert completed("weir", "ex") == ["explain"]
    assert completed("weir", "--fo") == ["--format"]
    assert completed("weir", "-c", "--format", "j") == ["json"]
    assert completed("weir", "explain", "retrie") == ["retries"]
    assert "lint" not in completed("weir", "-c", "")
    assert completed("weir-top", "--on") == ["--once"] and completed("weir-top", "--view", "serv") == ["servers"]
    assert completed("weir-top", "-s", f"{ROOT}/packaging/deb/bui") == [f"{ROOT}/packaging/deb/build"]


def fish_completes_the_same(binary, folder):
    """As fish itself completes a line."""
    if not shutil.which("fish"):
        raise LeftOut("fish is not installed")

    def completed(line):
        script = f"complete -e -c weir; source {ROOT}/packaging/completion/weir.fish; complete -C '{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", script], capture_output=True, text=True, env={**os.environ, "HOME": folder.path})
        assert (done.returncode, done.stderr) == (0, ""), done.stderr
        return [found.split("\t")[0] for found in done.stdout.splitlines()]
    assert completed("weir ex") == ["explain"]
    assert completed("weir --fo") == ["--format"]
    assert completed("weir -c --format j") == ["json"]
    assert completed("weir explain retrie") == ["retries"]
    assert "lint" not in completed("weir -c ")
    with open(folder.file("a-file.cfg", "")):
        assert completed(f"weir -f {folder.path}/a-fi") == [f"{folder.path}/a-file.cfg"]


if __name__ == "__main__":
    sys.exit(main("package", [sys.modules[__name__]]))
