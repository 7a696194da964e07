"""Results of single tests: every test program appends a line of JSON for each to the file that TESTS_RESULTS names, and a run
collects them (tests/steps.py)."""
import dataclasses
import json
import os

FILE = "TESTS_RESULTS"


@dataclasses.dataclass
class Result:
    """The result of one test. `outcome` is `ok`, `failed`, `left out` or `later` (it waits for a quiet machine); `program` is a program of many
    tests that have results of their own. `again` is the command that runs this test alone, in that folder."""
    name: str
    outcome: str
    seconds: float = 0.0
    why: str = ""
    again: tuple = ()
    folder: str = ""
    step: str = ""


def record(name, outcome, seconds=0.0, why="", again=(), folder=""):
    """Adds a result to the file, if a run collects them."""
    path = os.environ.get(FILE)
    if path:
        result = Result(name, outcome, round(seconds, 3), why, tuple(again), folder)
        with open(path, "a") as file:
            file.write(json.dumps(dataclasses.asdict(result)) + "\n")


def read(path, step=""):
    """The results of one file; empty when no test recorded one. A truncated line is skipped."""
    found = []
    try:
        with open(path) as file:
            for line in file:
                try:
                    found.append(Result(**{**json.loads(line), "step": step}))
                except (ValueError, TypeError):
                    continue
    except FileNotFoundError:
        pass
    return found
