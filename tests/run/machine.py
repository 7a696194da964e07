"""The machine that tests see: an empty home, and a PATH with the commands of the packages that packaging/setup names.

Everything else on a developer's machine (caches, other versions, programs in /usr/local) is hidden, so a test that
takes it for granted fails here and not on a fresh machine. On a system without dpkg the PATH stays.
"""
import functools
import glob
import os
import re
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SETUP = os.path.join(ROOT, "packaging", "setup")
FOLDERS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# Required by the README beside Debian's essential packages.
ASSUMED = ("apt", "git", "make", "sudo")
# The tools of a Rust toolchain, which lie in one folder.
RUST = ("cargo", "rustc", "rustdoc", "rustup", "rustfmt", "cargo-fmt", "cargo-clippy", "clippy-driver")
# Variables that tests inherit: access to the package registries, and nothing of a home.
INHERITED = re.compile(r"LANG|LC_\w+|TERM|TMPDIR|USER|LOGNAME|PIP_\w+|CARGO_\w+|RUST\w+|GOPROXY|GOFLAGS|GO(NO)?SUMDB|GOPRIVATE"
                       r"|SSL_CERT_\w+|\w+_CA_BUNDLE|(?i:https?|no|all)_proxy|SOURCE_DATE_EPOCH")


def named(*purposes):
    """The (package, command or path) pairs that packaging/setup names for these purposes."""
    listed = subprocess.run([SETUP, "--list", *purposes], capture_output=True, text=True, check=True).stdout
    return [tuple(line.split("\t")) for line in listed.splitlines()]


@functools.cache
def installed():
    """Debian's installed packages by name: whether each is essential or required, and alternatives of packages that it depends on."""
    listed = subprocess.run(["dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Essential}\t${Priority}\t${Pre-Depends}, ${Depends}\t${Provides}\n"],
                            capture_output=True, text=True, check=True).stdout
    packages, provided = {}, {}
    for line in listed.splitlines():
        status, name, essential, priority, depends, provides = line.split("\t")
        if not status.startswith("ii"):
            continue
        packages[name] = (essential == "yes" or priority == "required",
                          [[names(one) for one in either.split("|")] for either in depends.split(",") if either.strip()])
        for one in filter(None, map(names, provides.split(","))):
            provided.setdefault(one, []).append(name)
    return packages, provided


def names(dependency):
    """The name in a dependency: without its version and its architecture."""
    return re.sub(r"[(:].*", "", dependency).strip()


def closure(roots):
    """The installed packages among these, with their dependencies."""
    packages, provided = installed()
    found, waiting = set(), list(roots)
    while waiting:
        name = waiting.pop()
        for one in [name] if name in packages else provided.get(name, []):
            if one not in found:
                found.add(one)
                waiting += [other for either in packages[one][1] for other in either]
    return found


def commands(packages):
    """The commands of packages by name, with those that Debian's alternatives choose among them."""
    listed = subprocess.run(["dpkg", "-L", *sorted(packages)], capture_output=True, text=True).stdout.splitlines()
    folders = {"/sbin", "/bin", "/usr/sbin", "/usr/bin"}
    found = {os.path.basename(path): path for path in listed if os.path.dirname(path) in folders}
    real = {os.path.realpath(path) for path in listed}
    for folder in ("/usr/sbin", "/usr/bin"):
        for entry in os.scandir(folder):
            chosen = entry.is_symlink() and os.readlink(entry.path).startswith("/etc/alternatives/")
            if chosen and os.path.realpath(entry.path) in real:
                found[entry.name] = entry.path
    return found


def visible(purposes, path):
    """The commands that tests see, by name: of the essential packages, of those that the purposes name, and Rust's."""
    pairs, toolchain = named(*purposes), shutil.which("cargo", path=path)
    essential = [name for name, (is_essential, _) in installed()[0].items() if is_essential]
    found = commands(closure([*essential, *ASSUMED, *(package for package, _ in pairs)]))
    for _, command in pairs:
        if command.startswith("/"):
            # Commands in a folder of their own.
            for folder in map(os.path.dirname, glob.glob(command)):
                found |= {entry.name: entry.path for entry in os.scandir(folder) if folder.endswith("/bin")}
        elif command not in found and (other := shutil.which(command, path=path)):
            # A command that a machine has from elsewhere, and that setup therefore does not install.
            found[command] = other
    for name in RUST:
        if toolchain and os.path.exists(tool := os.path.join(os.path.dirname(toolchain), name)):
            found[name] = tool
    return found


def environment(folder, purposes, inherited=os.environ):
    """The environment of tests, with a home and a folder of commands below this one."""
    path = os.pathsep.join([inherited.get("PATH", ""), *FOLDERS])
    kept = {name: value for name, value in inherited.items() if INHERITED.fullmatch(name)}
    home = os.path.join(folder, "home")
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(home)
    old = os.path.expanduser("~")
    kept |= {"HOME": home, "RUSTUP_HOME": inherited.get("RUSTUP_HOME", os.path.join(old, ".rustup")),
             "CARGO_HOME": inherited.get("CARGO_HOME", os.path.join(old, ".cargo")), "PATH": path}
    if shutil.which("dpkg-query"):
        found = visible(purposes, path)
        if "cc" in found and "ccache" in found:
            # Called by the compiler's name, ccache looks for the compiler in CCACHE_PATH. cargo sees no other environment than without it.
            kept |= {"CCACHE_PATH": os.path.dirname(found["cc"]), "CCACHE_DIR": os.path.join(folder, "ccache")}
            found["cc"] = found["ccache"]
        kept["PATH"] = linked(os.path.join(folder, "-".join(["commands", *purposes])), found)
    return kept


def linked(folder, commands):
    """A folder of links to commands."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, target in commands.items():
        os.symlink(target, os.path.join(folder, name))
    return folder
