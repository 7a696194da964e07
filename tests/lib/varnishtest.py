"""Runs VTC scripts with varnishtest against one load-balancer program; collects them as tests.

A script counts as passed only if it ran and succeeded; a skip (its own `feature cmd` said no) does not count. Scripts
of type `broken` are left out, as in the suite's own runner.
"""
import concurrent.futures
import dataclasses
import os
import re
import shutil
import signal
import subprocess
import time

import pytest

from lib.folders import fresh_folder


class File(pytest.File):
    """A script of our own."""

    def collect(self):
        yield Script.from_parent(self, name=self.path.stem)


class Script(pytest.Item):
    """A script of our own as one test. A skip is a failure: our scripts never need to skip."""

    def runtest(self):
        folder = self.path.parent
        result = Runner(os.path.abspath(self.config.getoption("bin")), str(folder)).run(self.path.name)
        if result.outcome != "pass":
            raise Failed(f"{result.why}\n{result.log}")

    def repr_failure(self, excinfo, style=None):
        return str(excinfo.value) if isinstance(excinfo.value, Failed) else super().repr_failure(excinfo, style)

    def reportinfo(self):
        return self.path, None, self.name


class Failed(Exception):
    """The reason and the log of a failed script."""


@dataclasses.dataclass
class Result:
    """The result of one script: `pass`, `fail` or `skip`, the reason, and the time it took."""
    outcome: str
    why: str
    seconds: float
    log: str = ""


def kind(path):
    """The script's declared type (`default`, `slow`, `bug`, `broken`, `devel`)."""
    match = re.search(r"^#REGTEST_TYPE=(\w+)", open(path, errors="replace").read(), re.M)
    return match.group(1) if match else "default"


def scripts(tree, under, only=""):
    """The paths of the scripts in a folder of the tree, sorted, those of type `broken` left out."""
    names = sorted(os.path.relpath(os.path.join(folder, name), tree)
                   for folder, _, files in os.walk(os.path.join(tree, under)) for name in files if name.endswith(".vtc"))
    return [n for n in names if re.search(only, n) and kind(os.path.join(tree, n)) != "broken"]


def run_in_session(command, timeout, **options):
    """`subprocess.run` with everything captured; kills processes that the command leaves behind.

    varnishtest does not end the programs of a script that failed early: they are found by their session.
    """
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors="replace", start_new_session=True, **options) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired as late:
            end_session(process.pid)
            late.stdout, late.stderr = process.communicate()
            raise
        end_session(process.pid)
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def end_session(leader):
    """Kills every process of a session."""
    for folder in os.listdir("/proc"):
        try:
            with open(f"/proc/{folder}/stat") as file:
                session = int(file.read().rpartition(")")[2].split()[3])
            if session == leader:
                os.kill(int(folder), signal.SIGKILL)
        except (OSError, ValueError, IndexError):
            continue  # no process, or none any more


class Runner:
    """Runs scripts with a program, the root of the scripts' relative paths, and a time limit."""

    def __init__(self, program, tree, arguments="-dM", timeout=10, said=()):
        # Scripts that rely on a default that has changed: the script, the line, and the addition to the line.
        self.said = {name: (line, more) for name, line, more in said}
        self.program = os.path.abspath(shutil.which(program) or program)
        self.tree, self.arguments, self.timeout = tree, arguments, timeout
        self.varnishtest = shutil.which("varnishtest")
        assert self.varnishtest, "varnishtest is not installed"
        assert os.access(self.program, os.X_OK), f"{self.program} does not exist: make trial, or --bin PATH"

    def run(self, name):
        """Runs one script in a folder of its own."""
        folder = fresh_folder("vt.")
        environment = dict(os.environ, HAPROXY_PROGRAM=self.program, TMPDIR=folder, HAPROXY_ARGS=self.arguments)
        start = time.monotonic()
        try:
            script = self.completed(name, folder) if name in self.said else name
            done = run_in_session([self.varnishtest, "-b", str(2 << 20), "-k", "-t", str(self.timeout), "-L", script],
                                  self.timeout * 3 + 20, cwd=self.tree, env=environment)
            output, status = done.stdout + done.stderr, done.returncode
        except subprocess.TimeoutExpired as late:
            output, status = str(late.stdout), 2
        seconds = time.monotonic() - start
        log = output + "".join(open(os.path.join(d, "LOG"), errors="replace").read()
                               for d, _, files in os.walk(folder) if "LOG" in files)
        shutil.rmtree(folder, ignore_errors=True)
        if "SKIPPING test" in log or re.search(r"\b[1-9]\d* tests? skipped", output) or status == 77:
            return Result("skip", "skipped by its `feature` condition", seconds)
        if status == 0:
            return Result("pass", "", seconds)
        return Result("fail", reason(log, status), seconds, log)

    def completed(self, name, folder):
        """The script with its defaults made explicit, in a file of that folder."""
        line, more = self.said[name]
        with open(os.path.join(self.tree, name)) as file:
            text = file.read()
        if text.count(line) != 1:
            raise ValueError(f"{name} does not have the line {line!r} once")
        path = os.path.join(folder, os.path.basename(name))
        with open(path, "w") as file:
            file.write(text.replace(line, line + more))
        return path

    def run_all(self, names, jobs):
        """Runs scripts, `jobs` at a time. Returns the results by name."""
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            return dict(zip(names, pool.map(self.run, names)))


def reason(log, status):
    """The most informative line of a failed script's log: a panic, an alert of the program, or an error of varnishtest."""
    for pattern in (r"panicked at.*", r"\[ALERT\].*", r"^-{4}.*"):
        match = re.search(pattern, log, re.M)
        if match:
            return match.group(0)[:220]
    return f"exit status {status}"
