"""The Debian package: its contents, and the effects of installing, upgrading, removing and purging it, in a folder as a
mock system and, where debootstrap is installed, in a Debian 12 and a Debian 13.


The package contains the programs already built. Nothing is installed on this machine.
"""
import glob
import os
import re
import shutil
import stat
import subprocess

import pytest

from lib.needs import installed, needs_root
from lib.program import ROOT, Program, ask, free_port, request, run, wait_until
from master.support import Clients, tcp


def made(binary, folder, revision):
    """Builds a package of a revision. Returns its path."""
    installed("dpkg-deb")
    for name in ("weir-ring", "weir-top"):
        assert os.path.exists(os.path.join(os.path.dirname(binary), name)), f"{name} is not built beside weir"
    done = subprocess.run([os.path.join(ROOT, "packaging", "deb", "build"), os.path.dirname(binary), folder.path, str(revision)],
                          capture_output=True, text=True, timeout=120, env=dict(os.environ, DPKG_DEB_COMPRESSOR_LEVEL="0"))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


class System:
    """A folder with only a package database."""

    def __init__(self, folder):
        needs_root()
        self.path = os.path.join(folder.path, "system")
        for name in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "etc"):
            os.makedirs(os.path.join(self.path, name))
        open(self.at("var/lib/dpkg/status"), "w").close()

    def at(self, name):
        return os.path.join(self.path, name)

    def dpkg(self, *words):
        """Runs dpkg, which must succeed. Returns its output. Maintainer scripts run on this machine with the folder's name."""
        done = subprocess.run(["dpkg", f"--root={self.path}", "--force-depends", "--force-script-chrootless", "--force-confdef", *words],
                              capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr


def test_packaged_files_have_the_paths_and_modes_of_debian(binary, folder):
    system = System(folder)
    system.dpkg("-i", made(binary, folder, 1))
    for name, mode in (("usr/bin/weir", 0o755), ("usr/bin/weir-ring", 0o755), ("usr/bin/weir-top", 0o755), ("etc/weir/weir.cfg", 0o640), ("etc/logrotate.d/weir", 0o644),
                       ("etc/rsyslog.d/49-weir.conf", 0o644), ("usr/share/weir/certbot-deploy", 0o755), ("usr/lib/systemd/system/weir.service", 0o644), ("usr/lib/sysusers.d/weir.conf", 0o644),
                       ("usr/share/man/man1/weir.1.gz", 0o644), ("usr/share/man/man5/weir.cfg.5.gz", 0o644), ("usr/share/man/man1/weir-ring.1.gz", 0o644),
                       ("usr/share/man/man1/weir-top.1.gz", 0o644), ("usr/share/bash-completion/completions/weir-top", 0o644),
                       ("usr/share/zsh/vendor-completions/_weir-top", 0o644), ("usr/share/fish/vendor_completions.d/weir-top.fish", 0o644),
                       ("usr/share/bash-completion/completions/weir", 0o644), ("usr/share/zsh/vendor-completions/_weir", 0o644),
                       ("usr/share/fish/vendor_completions.d/weir.fish", 0o644),
                       ("usr/share/doc/weir/copyright", 0o644), ("usr/share/doc/weir/examples/web-site.cfg", 0o644),
                       ("usr/share/doc/weir/examples/lua/jwt.lua", 0o644),
                       ("usr/share/doc/weir/grafana/weir.json", 0o644)):
        known = os.stat(system.at(name))
        assert (stat.S_IMODE(known.st_mode), known.st_uid) == (mode, 0), (name, oct(known.st_mode), known.st_uid)
    assert run(system.at("usr/bin/weir"), "-vq")[1] == run(binary, "-vq")[1]
    # The files named by the unit exist.
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
    status, said, errors = run(binary, "lint", "-f", path)
    # Without a log daemon there is one finding, about its socket.
    findings = [] if os.path.exists("/dev/log") else ["log target '/dev/log' cannot be reached"]
    assert (status, errors, said.count("\n")) == (len(findings), "", len(findings)) and all(text in said for text in findings), (status, said, errors)
    tag = re.search(r"log-tag (\S+)", text).group(1)
    assert f'isequal, "{tag}"' in open(system.at("etc/rsyslog.d/49-weir.conf")).read()


def test_a_changed_configuration_survives_upgrades_and_removal(binary, folder):
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


def test_an_upgrade_under_load_loses_no_request(binary, folder):
    """The files are replaced under a running master, which is reloaded as the package does it; requests never fail
    meanwhile."""
    system, port = System(folder), free_port()
    system.dpkg("-i", made(binary, folder, 1))
    later = made(binary, folder, 2)
    socket = os.path.join(folder.path, "master")
    path = folder.file("load.cfg", "defaults\n    mode http\n    timeout connect 2s\n    timeout client 10s\n    timeout server 10s\n"
                       f"frontend f\n    bind 127.0.0.1:{port}\n    http-request return status 200 content-type text/plain string fine\n")
    with Program(system.at("usr/bin/weir"), "-W", "-f", path, "-S", socket) as program:
        program.ready(port)
        with Clients(tcp(port), 3) as clients:
            assert wait_until(lambda: clients.served() > 50)
            system.dpkg("-i", later)
            before = ask(socket, "show proc")
            ask(socket, "reload")
            assert wait_until(lambda: "Success=1" in ask(socket, "show startup-logs") or ask(socket, "show proc") != before, 10)
            reached = clients.served()
            assert wait_until(lambda: clients.served() > reached + 50, 10)
            # The master runs the new file: the former one is unlinked.
            assert "(deleted)" not in os.readlink(f"/proc/{program.pid}/exe"), os.readlink(f"/proc/{program.pid}/exe")
    assert not clients.failures, (clients.served(), clients.failures[:3])


def test_debug_information_is_in_separate_files_and_still_names_source_lines(binary, folder, port):
    """Where `packaging/split-debug` puts it; a profile of the program's memory names lines of the source all the same."""
    programs = [shutil.copy(os.path.join(os.path.dirname(binary), name), folder.path) for name in ("weir", "weir-ring", "weir-top")]
    for path in glob.glob(os.path.join(os.path.dirname(binary), "weir*.debug")):
        # The release is split already.
        shutil.copy(path, folder.path)
    subprocess.run([os.path.join(ROOT, "packaging", "split-debug"), *programs], check=True)
    for path in programs:
        sections = {file: set(re.findall(r"\] (\.\w+)", subprocess.run(["readelf", "--section-headers", "--wide", file], capture_output=True, text=True, check=True).stdout))
                    for file in (path, path + ".debug")}
        assert {".debug_info", ".debug_line"} <= sections[path + ".debug"] and not {".debug_info", ".debug_line"} & sections[path], (path, sections)
    assert os.path.getsize(programs[0]) < 40 << 20, os.path.getsize(programs[0])
    path = os.path.join(folder.path, "cli")
    text = (f"global\n    stats socket {path} level admin\ndefaults\n    mode http\n    timeout client 5s\nfrontend f\n    bind 127.0.0.1:{port}\n"
            "    http-request return status 200\n")
    with Program(programs[0], "-db", "-f", folder.file("a.cfg", text)) as program:
        program.ready(port)
        ask(path, "set profiling memory on")
        assert request(port).startswith(b"HTTP/1.1 200")
        shown = ask(path, "show profiling memory")
        assert re.search(r"@(data|sched|foundation|proto)/\S+\.rs:\d+ ", shown), shown


def test_the_packaged_program_loads_modules_of_debian_in_c(binary, folder):
    """They find Lua's API in the program, also without its debug information and optimized across crates."""
    subprocess.run(["dpkg-deb", "--extract", made(binary, folder, 1), folder.path], check=True)
    script = folder.file("script.lua", """
for _, name in ipairs{"cjson", "socket", "lpeg", "openssl.digest", "ssl"} do print(name .. " is a " .. type(require(name))) end
print(require("cjson").encode({require("lpeg").P("a"):match("a"), #require("openssl.digest").new("sha256"):final("x")}))
""")
    path = folder.file("a.cfg", f"global\n    tune.lua.bool-sample-conversion normal\n    lua-load {script}\ndefaults\n    mode http\n")
    _, out, errors = run(os.path.join(folder.path, "usr/bin/weir"), "-c", "-f", path)
    for name in ("cjson", "socket", "lpeg", "openssl.digest", "ssl"):
        assert f"{name} is a table" in out, out + errors
    assert "[2,32]" in out


def test_lintian_reports_no_error_or_warning(binary, folder):
    """No error and no warning, other than those that the package itself explains."""
    installed("lintian")
    done = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", made(binary, folder, 1)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout


class Debian:
    """A real Debian of a suite, made once by debootstrap; changes in it are discarded at the end. It has its own
    processes and shares the network."""

    def __init__(self, folder, suite):
        needs_root()
        installed("debootstrap")
        target = os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target"))
        self.base, self.path = os.path.join(target, "debian", suite), os.path.join(folder.path, "system")
        if not os.path.exists(os.path.join(self.base, "complete")):
            shutil.rmtree(self.base, ignore_errors=True)
            done = subprocess.run(["debootstrap", "--variant=minbase", "--include=systemd-standalone-sysusers,init-system-helpers", suite, self.base, mirror()],
                                  capture_output=True, text=True, timeout=500)
            if done.returncode != 0:
                pytest.skip(f"the mirror does not have {suite}: {done.stdout.strip().splitlines()[-1:]}")
            open(os.path.join(self.base, "complete"), "w").close()
        for name in ("system", "upper", "work"):
            os.mkdir(os.path.join(folder.path, name))
        self.mount = (f"mount -t overlay overlay -o lowerdir={self.base},upperdir={folder.path}/upper,workdir={folder.path}/work {self.path}"
                      f" && mount -t proc proc {self.path}/proc && mount --bind /dev {self.path}/dev && echo ready && exec sleep 300")

    def __enter__(self):
        self.holder = subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", self.mount], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        if self.holder.stdout.readline() != "ready\n":
            pytest.skip(f"no mounts: {self.holder.stderr.read().strip()}")
        with open(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children") as file:
            self.enter = ["nsenter", "-t", file.read().strip(), "-m", "-p", "chroot", self.path]
        return self

    def __exit__(self, *_):
        self.holder.kill()
        self.holder.communicate()

    def run(self, *command):
        """The output of a command, which has to succeed."""
        done = subprocess.run([*self.enter, *command], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"})
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def put(self, path):
        """Copies a file into the system's /tmp. Returns the path there."""
        with open(path, "rb") as file:
            subprocess.run([*self.enter, "tee", f"/tmp/{os.path.basename(path)}"], input=file.read(), stdout=subprocess.DEVNULL, check=True)
        return f"/tmp/{os.path.basename(path)}"

    def running(self):
        """The folders of processes of weir in /proc, the master's first."""
        return self.run("sh", "-c", "ls -d1v $(grep -lx weir /proc/[0-9]*/comm | xargs -n 1 dirname) 2>/dev/null || true").replace("\n", " ")

    def signal(self, name):
        """A signal to the master, which is a process of this system only."""
        self.run("sh", "-c", f"kill -{name} {self.running().split()[0].split('/')[2]}")

    def files(self):
        """All files, except those of the package manager and of the user that stays."""
        kept = r"/(proc|dev|tmp|var/lib/dpkg|var/log/dpkg\.log|var/cache|etc/(passwd|shadow|group|gshadow)-?)($|/)|/etc/\.pwd\.lock"
        return {line for line in self.run("find", "/", "-xdev").splitlines() if not re.match(kept, line)}


def mirror():
    """The package mirror configured on this machine."""
    sources = [os.path.join(place, name) for place in ("/etc/apt", "/etc/apt/sources.list.d") if os.path.isdir(place) for name in sorted(os.listdir(place))]
    for path in sources:
        if path.endswith((".list", ".sources")):
            found = re.search(r"^(?:URIs:|deb(?: \[[^]]*\])?) *(https?://\S+/debian)/?(?:\s|$)", open(path).read(), re.M)
            if found:
                return found[1]
    pytest.skip("no mirror of Debian is configured")


def test_debian_12_installs_upgrades_and_removes_the_package(binary, folder):
    whole_life(binary, folder, "bookworm")


def test_debian_13_installs_upgrades_and_removes_the_package(binary, folder):
    whole_life(binary, folder, "trixie")


def whole_life(binary, folder, suite):
    """Installed, run as its user, upgraded under load, removed and purged by a real system's own tools."""
    port, packages = free_port(), [made(binary, folder, revision) for revision in (1, 2)]
    with Debian(folder, suite) as system:
        before, first = system.files(), system.put(packages[0])
        system.run("dpkg", "-i", first)
        assert system.run("getent", "passwd", "weir").rstrip().endswith(":/var/lib/weir:/usr/sbin/nologin")
        link = "/etc/systemd/system/multi-user.target.wants/weir.service"
        assert system.run("readlink", "-f", link) == "/usr/lib/systemd/system/weir.service\n"
        assert system.run("dpkg", "-V", "weir") == ""
        assert system.run("weir", "-c", "-f", "/etc/weir/weir.cfg") == "", "the configuration that ships is valid"
        assert system.run("weir-top", "--help") and "usage" in system.run("sh", "-c", "weir-ring 2>&1; [ $? = 2 ]"), "both run here"
        system.run("sed", "-i", f"s/bind :80/bind 127.0.0.1:{port}/", "/etc/weir/weir.cfg")
        system.run("mkdir", "-p", "/run/weir")
        with Program(*system.enter, "weir", "-W", "-f", "/etc/weir/weir.cfg", "-S", "/run/weir/master.sock") as program:
            try:
                program.ready(port)
                upgraded_under_load(system, port, system.put(packages[1]))
            finally:
                system.signal("TERM")
            assert wait_until(lambda: program.status(0.1) is not None)
        system.run("dpkg", "-r", "weir")
        left = system.files() - before
        assert "/etc/weir/weir.cfg" in left and not any(name.startswith("/usr/") for name in left), left
        system.run("dpkg", "-P", "weir")
        left = system.files() - before - {"/run/weir", *(name for name in system.files() if name.startswith("/run/weir/"))}
        assert not left, left


def upgraded_under_load(system, port, package):
    """A master and its worker run in the system and answer on a port: no request is lost while the files change and the master reloads."""
    owners = system.run("sh", "-c", f"stat -c %U {system.running()}").split()
    assert owners == ["root", "weir", "weir"], (owners, "a master, its worker, and what reaches /dev/log for that")

    def replaced():
        return "deleted" not in system.run("sh", "-c", f"readlink {' '.join(f'{name}/exe' for name in system.running().split())} || true")

    with Clients(tcp(port), 3) as clients:
        assert wait_until(lambda: clients.served() > 50)
        system.run("dpkg", "--force-confold", "-i", package)
        # The signal that the package's reload sends where systemd runs.
        system.signal("USR2")
        reached = clients.served()
        assert wait_until(replaced, 15), "all run the new file"
        assert wait_until(lambda: clients.served() > reached + 50, 10)
    assert not clients.failures, (clients.served(), clients.failures[:3])
    assert "0.1.0-2" in system.run("dpkg", "-s", "weir")


def test_groff_reads_the_man_pages_without_warnings(binary, folder):
    """groff reports no warnings."""
    installed("groff")
    for name in ("weir.1", "weir.cfg.5", "weir-ring.1", "weir-top.1"):
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", os.path.join(ROOT, "packaging", "man", name)], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), (name, done.stderr[:500])


def test_bash_completes_options_and_keywords(binary, folder):
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


def test_fish_completes_options_and_keywords(binary, folder):
    """As fish itself completes a line."""
    installed("fish")

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
