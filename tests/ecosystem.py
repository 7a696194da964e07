#!/usr/bin/env python3
"""Third-party programs for HAProxy, run against weir: their displays and their changes; by subject in tests/ecosystem.

  ecosystem.py --bin target/release/weir [--only REGEX]

The programs are packages of Debian, haproxyadmin is one of PyPI, installed in an environment of its own. Tests of
missing programs are left out.
"""
import sys

from ecosystem import clusters, data_plane, logs, operators, renewals
from program import main

if __name__ == "__main__":
    sys.exit(main("ecosystem", [operators, logs, clusters, renewals, data_plane]))
