#!/usr/bin/env python3
"""Health checks of a running weir and their consequences; by subject in tests/health.

  health.py --bin target/release/weir [--only REGEX]
"""
import sys

from health import agents, consequences, dialogues, hard_times, http2, mails, programs, services, spreading, words
from program import main

if __name__ == "__main__":
    sys.exit(main("health checks", [programs, agents, mails, consequences, dialogues, hard_times, spreading, services, http2, words]))
