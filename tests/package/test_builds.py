"""Requirements that builds of their own prove, each in a folder of its own in the build folder. `make shipped` makes them."""
import os
import re
import shutil
import subprocess

import pytest

from lib.needs import installed
from lib.program import ROOT, TARGET, TERM, Program, answering, request

pytestmark = [pytest.mark.release, pytest.mark.timeout(7200)]


def cargo(name, *words, root=ROOT, **env):
    """Runs cargo with a build folder of this name, and returns the folder. Fails with the output of cargo."""
    folder = os.path.join(TARGET, "builds", name)
    done = subprocess.run(["cargo", *words], cwd=root, env=dict(os.environ, CARGO_TARGET_DIR=folder, **env), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    return folder


# The files of the scheduler with the rare parts of a wake and a run.
WAKES = ["sched/src/profile.rs", "sched/src/queues.rs", "sched/src/worker/current.rs", "sched/src/worker/run.rs", "sched/src/worker/tasks.rs"]


def test_outlined_cold_paths_make_wakes_smaller_and_cheaper_r16(binary, folder):
    """With all of it inlined, a program of tasks that wake each other is larger and executes more instructions."""
    valgrind = installed("valgrind")
    copy = os.path.join(folder.path, "copy")
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for file in filter(None, files):
        if os.path.isfile(os.path.join(ROOT, file)):
            os.makedirs(os.path.dirname(os.path.join(copy, file)), exist_ok=True)
            shutil.copy(os.path.join(ROOT, file), os.path.join(copy, file))

    def cost():
        built = cargo("wakes", "build", "--locked", "--release", "-p", "weir-sched", "--example", "switch", root=copy, RUSTFLAGS="--cfg=rustix_use_libc")
        switch = os.path.join(built, "release", "examples", "switch")
        code = int(subprocess.run(["size", switch], capture_output=True, text=True, check=True).stdout.split()[6])
        counts = os.path.join(folder.path, "counts")
        ran = subprocess.run([valgrind, "--tool=callgrind", f"--callgrind-out-file={counts}", switch, "simulated"], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr[-1000:]
        return code, int(re.search(r"Collected : (\d+)", ran.stderr)[1])
    shipped = cost()
    changed = 0
    for file in WAKES:
        text = open(os.path.join(copy, file)).read()
        text, count = re.subn(r"#\[cold\](\s+#\[inline\(never\)\])?", "#[inline(always)]", text)
        changed += count
        with open(os.path.join(copy, file), "w") as out:
            out.write(text)
    assert changed >= 10, changed
    inlined = cost()
    assert shipped[0] < inlined[0] and shipped[1] * 1.02 < inlined[1], f"{shipped} bytes and instructions, {inlined} when all is inlined"


def test_no_supported_compiler_or_optimization_level_warns_r28(binary, folder):
    """Warnings are errors: with the oldest compiler that is promised, with each other release that is installed, and at each level."""
    promised = re.search(r'^rust-version = "([\d.]+)"$', open(os.path.join(ROOT, "Cargo.toml")).read(), re.M)[1]
    listed = subprocess.run([installed("rustup"), "toolchain", "list"], capture_output=True, text=True, check=True).stdout
    toolchains = re.findall(r"^(\d\S*)", listed, re.M)

    def version(*toolchain):
        return subprocess.run(["rustc", *toolchain, "--version"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    if not any(re.match(rf"{re.escape(promised)}(\.\d+)?-", toolchain) for toolchain in toolchains):
        pytest.skip(f"program rustc {promised}")
    for toolchain in toolchains:
        if version(f"+{toolchain}") != version():
            cargo("compilers", f"+{toolchain}", "check", "--locked", "--workspace", RUSTFLAGS="-D warnings")
    for level in "123":
        cargo("levels", "build", "--locked", "-p", "weir-sched", "--lib", RUSTFLAGS="-D warnings", CARGO_PROFILE_DEV_OPT_LEVEL=level)


def test_lock_statistics_are_printed_at_exit_r82(binary, folder, port):
    """A build that counts locks prints a block for each label when the process ends. Each lock was released, and waits add up."""
    built = cargo("locks", "build", "--locked", "-p", "weir", "--features", "lock-statistics")
    with Program(os.path.join(built, "debug", "weir"), "-db", "-f", answering(folder, port, extra="nbthread 2")) as program:
        program.ready(port)
        for _ in range(20):
            assert request(port).startswith(b"HTTP/1.1 200")
        program.send(TERM)
        assert program.status() is not None
        said = program.process.communicate()[0]
    blocks = re.findall(r"^Stats about Lock (\w+):\n((?:\t.*\n?)+)", said, re.M)
    assert "TASK_RQ" in dict(blocks) and len(blocks) > 1, said
    for label, block in blocks:
        assert re.search(r"^\tshare of run time: \d+\.\d{3} %$", block, re.M), said
        modes = re.findall(r"^\t(\w+) lock : (\d+)\n\t\1 unlock: (\d+) \((-?\d+)\)\n\twait time for \1 : ([\d.]+) msec\n"
                           r"\twait time for \1/lock: ([\d.]+) nsec$", block, re.M)
        assert {"write", "read"} <= {mode for mode, *_ in modes} and any(int(locks) for _, locks, *_ in modes), (label, block)
        for mode, locks, unlocks, difference, waited_ms, each_ns in modes:
            assert locks == unlocks and difference == "0", (label, block)
            # Both are rounded to three digits.
            assert abs(float(waited_ms) * 1e6 - float(each_ns) * int(locks)) <= 501 + int(locks) / 1000, (label, mode, block)
