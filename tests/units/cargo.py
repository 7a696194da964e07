"""Programs of Rust's tests: built by cargo, listed, and run."""
import dataclasses
import functools
import json
import os
import re
import shutil
import subprocess

from lib.program import ROOT

# The variable that names the file with the built programs.
BUILT = "TESTS_BUILT_BY_CARGO"
# Documentation's examples are text.
KINDS = ("--lib", "--bins", "--tests")
# Programs without tests of their own: wrappers around a library, and programs that only a build with `--cfg loom` has.
EMPTY = re.compile(r"weir-tidy/.*\(program\)|weir-fuzz|.*loom")
LONGEST_S = 1000


@dataclasses.dataclass(eq=False)
class Program:
    """A program of tests: its name, path, the folder of its crate, and its tests. After a run `outcomes` has each test's outcome and output."""
    name: str
    path: str
    folder: str
    tests: list
    # Whether the program has other tests.
    is_partial: bool = False
    outcomes: dict = dataclasses.field(default_factory=dict)
    output: str = ""

    def environment(self):
        """The variables that cargo sets, and the one that permits JSON from libtest."""
        return os.environ | {"CARGO_MANIFEST_DIR": self.folder, "LD_LIBRARY_PATH": compiler_libraries(), "RUSTC_BOOTSTRAP": "1"}

    def list(self, path):
        """Lists the tests that are not ignored and contain this text in their path."""
        def listed(*options):
            said = subprocess.run([self.path, "--list", "--format", "terse", *options], cwd=self.folder, env=self.environment(), capture_output=True, text=True)
            return re.findall(r"^(.+): test$", said.stdout, re.M)

        ignored = set(listed("--ignored"))
        self.tests = [name for name in listed() if name not in ignored and path in name]
        self.is_partial = bool(path)

    def run(self, selected):
        """Runs these tests, in threads of one process as cargo does."""
        exact = ["--exact", *selected] if self.is_partial or len(selected) < len(self.tests) else []
        alone = ["--test-threads", "1"] if len(selected) == 1 else []
        try:
            done = subprocess.run([self.path, "-Z", "unstable-options", "--format", "json", *alone, *exact], cwd=self.folder, env=self.environment(),
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LONGEST_S)
            self.output = f"{done.stdout}(exit status {done.returncode})"
        except subprocess.TimeoutExpired as late:
            self.output = (late.stdout or b"").decode(errors="replace") + f"\nstill ran after {LONGEST_S} s"
        self.outcomes = dict(read(self.output))


def read(output):
    """The outcome and the output of each test, from libtest's events. A test's output may precede an event on the same line."""
    for line in output.splitlines():
        _, begins, rest = line.partition('{ "type": "test", ')
        if begins:
            try:
                event = json.loads(begins + rest)
            except ValueError:
                continue
            if event["event"] in ("ok", "failed"):
                yield event["name"], (event["event"], event.get("stdout", ""))


@functools.cache
def compiler_libraries():
    """The folder of the compiler's libraries: the tests of a procedural macro are linked to them."""
    return subprocess.run(["rustc", "--print", "target-libdir"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def build(arguments, path, file):
    """Builds test programs, and writes the list of programs and of tests with `path` in their path to a file. Returns whether it succeeded. A
    warning in our crates is a failure, except in builds that omit code."""
    command = ["cargo", "test", "--no-run", "--locked", "--message-format", "json", *([] if any(kind in arguments for kind in (*KINDS, "--test")) else KINDS),
               *arguments]
    programs, ok = [], True
    may_warn = "loom" in os.environ.get("RUSTFLAGS", "")
    env = dict(os.environ)
    if "--workspace" in arguments:
        # Clippy compiles our crates here: a pass of its own would check all crates once more.
        assert shutil.which("clippy-driver"), "clippy is not installed: rustup component add clippy"
        env["RUSTC_WORKSPACE_WRAPPER"] = shutil.which("clippy-driver")
    with subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            message = json.loads(line) if line.startswith("{") else {}
            if message.get("reason") == "compiler-message":
                print(message["message"]["rendered"], end="", flush=True)
                ok &= may_warn or message["message"]["level"] != "warning" or not message["manifest_path"].startswith(ROOT + os.sep)
            if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
                crate, target = crate_of(message["package_id"]), message["target"]
                name = crate if "lib" in target["kind"] else f"{crate}/{target['name']}" + " (program)" * ("bin" in target["kind"])
                programs.append(Program(name, message["executable"], os.path.dirname(message["manifest_path"]), []))
    for program in programs:
        program.list(path)
    # The largest first, so that none of them runs alone in the end.
    programs.sort(key=lambda program: -len(program.tests))
    with open(file, "w") as out:
        json.dump([dataclasses.asdict(program) for program in programs], out)
    return ok and process.returncode == 0 and bool(programs)


def crate_of(package_id):
    """The name in cargo's id of a package: `path+file:///weir/data/tls#weir-tls@0.1.0`, or `...#0.1.0` where the folder has the name."""
    path, _, last = package_id.partition("#")
    return last.partition("@")[0] if "@" in last else path.rpartition("/")[2]


@functools.cache
def known():
    """The built programs."""
    with open(os.environ[BUILT]) as file:
        return [Program(**row) for row in json.load(file)]


def may_be_empty(program):
    """Whether the program needs no tests in this build."""
    return "loom" not in os.environ.get("RUSTFLAGS", "") and EMPTY.fullmatch(program.name) is not None
