"""Checks of master and workers as real processes, by subject; `tests/master.py` makes them."""
