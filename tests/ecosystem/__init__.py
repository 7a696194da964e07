"""Programs that others wrote for HAProxy, against weir, by subject; `tests/ecosystem.py` makes the checks."""
