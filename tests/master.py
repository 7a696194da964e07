#!/usr/bin/env python3
"""Master and workers as real processes: start, reload, hand-over, ends, the master's command line.

  master.py --bin target/release/weir [--only REGEX]

Each check is a function of a module in `masters/`; its name begins with the requirements that it proves. Checks that
need root, or the packaged haproxy, are left out without them, and reported.
"""
import sys

from masters import (as_installed, bad_cases, command_line, ends, failed_starts, hand_over, limits, processes, reloads, signals,
                     starting, walk)
from program import main

SUBJECTS = [starting, as_installed, failed_starts, reloads, ends, bad_cases, command_line, hand_over, signals, limits, processes, walk]

if __name__ == "__main__":
    sys.exit(main("master", SUBJECTS))
