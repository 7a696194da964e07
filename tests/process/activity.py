"""Counters of the scheduler."""
import re

from lib.program import ask


def figure(path, name):
    """The sum of a line of `show activity` over the workers."""
    return int(re.search(rf"^{name}: (\d+)", ask(path, "show activity"), re.M)[1])
