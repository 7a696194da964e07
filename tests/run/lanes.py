"""Steps side by side: those that keep processors busy yield to those that mostly wait.

Each step is a separate process; its output goes to a file that is printed at the end. Builds run at a lower priority,
so a test that waits gets a processor as soon as it is ready, and builds fill the time between.
"""
import dataclasses
import os
import signal
import subprocess
import time

# How many steps of each kind run at once, and how nice they are. One cargo keeps all processors busy; two would only take twice the memory.
BUILD, TEST = "build", "test"
AT_ONCE = {BUILD: 1, TEST: 2}
NICE = {BUILD: 10, TEST: 0}


@dataclasses.dataclass
class Step:
    """One step: its name, its prerequisites, its kind, the cargo profile that it builds (two builds of one profile
    would wait for each other), and its command."""
    name: str
    needs: tuple
    kind: str
    profile: str
    command: list


@dataclasses.dataclass
class Row:
    """The outcome of a step: seconds, seconds of processors, and `ok`, `FAILED` or why it did not run."""
    name: str
    seconds: float
    processors: float
    result: str


@dataclasses.dataclass
class Running:
    """A step that runs."""
    step: Step
    process: subprocess.Popen
    lane: tuple
    log: str
    began: float



def start(step, lane, folder, env):
    """Starts a step in its own process group, but in this session, because the scheduler compares priorities only within a session."""
    log = os.path.join(folder, step.name.replace(" ", "-") + ".log")
    with open(log, "wb") as output:
        process = subprocess.Popen(step.command, env=env, stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, process_group=0, preexec_fn=lambda: os.nice(NICE[step.kind]))
    return Running(step, process, lane, log, time.monotonic())


def end(running):
    """Reaps an ended step, prints its output, and returns its row. None while it runs."""
    pid, status, usage = os.wait4(running.process.pid, os.WNOHANG)
    if pid == 0:
        return None
    running.process.returncode = os.waitstatus_to_exitcode(status)
    result = "ok" if running.process.returncode == 0 else "FAILED"
    row = Row(running.step.name, time.monotonic() - running.began, usage.ru_utime + usage.ru_stime, result)
    with open(running.log, errors="replace") as output:
        print(f"=== {row.name}: {result}, {row.seconds:.0f} s, {row.processors:.0f} s of processors\n{output.read()}", end="", flush=True)
    return row


def run(steps, folder, env):
    """Runs all steps. Returns the rows in the order of completion."""
    rows, waiting, running = [], list(steps), []
    free = {kind: list(range(count)) for kind, count in AT_ONCE.items()}
    known = {step.name for step in steps}
    try:
        while waiting or running:
            results = {row.name: row.result for row in rows}
            for step in list(waiting):
                missing = [name for name in step.needs if name in known and results.get(name) not in (None, "ok")]
                if missing:
                    waiting.remove(step)
                    rows.append(Row(step.name, 0, 0, f"not run: {missing[0]} failed"))
                elif (free[step.kind] and all(name not in known or results.get(name) == "ok" for name in step.needs)
                      and not (step.profile and any(one.step.profile == step.profile for one in running))):
                    waiting.remove(step)
                    print(f"    {step.name} begins", flush=True)
                    running.append(start(step, (step.kind, free[step.kind].pop(0)), folder, env))
            for one in list(running):
                if row := end(one):
                    running.remove(one)
                    free[one.lane[0]].append(one.lane[1])
                    rows.append(row)
            time.sleep(0.05)
    finally:
        # Nothing is left behind when the run ends early.
        for one in running:
            os.killpg(one.process.pid, signal.SIGTERM)
            one.process.wait()
    return rows
