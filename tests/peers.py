#!/usr/bin/env python3
"""Stick-tables that several instances share: weir, alone and beside other implementations of the protocol, by processes; by subject in
tests/peers.

  peers.py --bin target/release/weir [--only REGEX]
"""
import sys

from peers import connections, operators, reloads, sums, teaching
from program import main

if __name__ == "__main__":
    sys.exit(main("peers", [teaching, operators, connections, reloads, sums]))
