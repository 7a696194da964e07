"""How many tests `cargo test` ran, target by target. A target that runs none proves nothing, and says `ok`."""
import dataclasses
import os
import re
import subprocess


@dataclasses.dataclass
class Target:
    """What one test program did."""
    name: str
    ran: int = 0
    skipped: int = 0


TARGET = re.compile(r" +Running (?:unittests )?(?P<source>\S+) \((?P<program>\S+)\)")
DOCUMENTATION = re.compile(r" +Doc-tests (?P<crate>\S+)")
RESULT = re.compile(r"test result: \w+\. (?P<passed>\d+) passed; (?P<failed>\d+) failed; (?P<ignored>\d+) ignored; "
                    r"\d+ measured; (?P<filtered>\d+) filtered out")
# What cargo says while it builds.
PROGRESS = re.compile(r" +(Compiling|Checking|Finished|Fresh|Blocking|Updating|Locking|Downloading|Downloaded|Dirty) ")


def targets_of(lines, show=lambda line: None):
    """The targets whose tests ran, in order; `show` gets each line that a reader wants to see."""
    targets = []
    for line in lines:
        if match := TARGET.match(line):
            program = re.sub(r"-[0-9a-f]{16}$", "", os.path.basename(match["program"]))
            targets.append(Target(f"{program} ({match['source']})"))
        elif match := DOCUMENTATION.match(line):
            # Examples in documentation are no target of their own.
            targets.append(Target(f"{match['crate']} (documentation)"))
        elif match := RESULT.match(line):
            targets[-1].ran += int(match["passed"]) + int(match["failed"])
            targets[-1].skipped += int(match["ignored"]) + int(match["filtered"])
            if int(match["failed"]):
                show(line)
        elif line.strip() and not PROGRESS.match(line) and not re.fullmatch(r"running \d+ tests?|\.+", line.strip()):
            show(line)
    return [target for target in targets if not target.name.endswith("(documentation)")]


def cargo_test(arguments, only="", cwd=None, **env):
    """Runs `cargo test`, with the tests whose path has `only` in it; whether it succeeded, and what each target did."""
    command = ["cargo", "test", *arguments, *([only] if only else []), "--", "--quiet"]
    with subprocess.Popen(command, cwd=cwd, env=dict(os.environ, **env), text=True, errors="replace",
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        targets = targets_of(process.stdout, lambda line: print(line, end="", flush=True))
    return process.returncode == 0, targets


def without_tests(targets, may_be_empty=(), show=print):
    """The targets that ran nothing, which `show` hears of; those whose name matches one of `may_be_empty` may."""
    empty = [target for target in targets if target.ran == 0 and not any(re.search(name, target.name) for name in may_be_empty)]
    for target in empty:
        show(f"FAILED {target.name}: not one test ran ({target.skipped} were left out)")
    return empty


# What cargo and its test programs print, as this file reads it.
SAMPLE = """\
   Compiling weir-sync v0.1.0 (/weir/foundation/sync)
    Finished `test` profile [unoptimized] target(s) in 1.20s
     Running unittests src/lib.rs (target/debug/deps/weir_sync-0123456789abcdef)

running 3 tests
...
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 2 filtered out; finished in 0.00s

     Running tests/queue_loom.rs (target/debug/deps/queue_loom-0123456789abcdef)

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 5 filtered out; finished in 0.00s

     Running tests/queue.rs (target/debug/deps/queue-0123456789abcdef)

running 2 tests
.F
thread 'x' panicked at tests/queue.rs:1:1
test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

   Doc-tests weir_sync

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


def check():
    """That the sample is read as it is meant."""
    shown = []
    targets = targets_of(SAMPLE.splitlines(), shown.append)
    assert [(target.name, target.ran, target.skipped) for target in targets] == [
        ("weir_sync (src/lib.rs)", 3, 2), ("queue_loom (tests/queue_loom.rs)", 0, 5), ("queue (tests/queue.rs)", 2, 1)], targets
    assert len(shown) == 3 and shown[1].startswith("thread"), shown
    assert [target.name for target in without_tests(targets, (), shown.append)] == ["queue_loom (tests/queue_loom.rs)"]
    assert not without_tests(targets, ["loom"]) and not targets_of([])


if __name__ == "__main__":
    check()
