"""The rows that run with weir, too."""
import re

from lua.rows import AREAS

# Members of 3.5 that weir lacks; a member that is missing is nil.
MISSING = {"events": re.compile(r"^ACME")}

# Columns of statistics: those of 3.5, and HAProxy 3.2 adds some of other objects. tests/scripts compares them with `show stat`.
COLUMNS = {f"{kind}: get_stats, names" for kind in ("proxy", "server", "listener")} | {"server: get_stats with an argument too many"}

# The rate depends on the rows before, and HAProxy finds the server in the first call only.
RATES = {f"{fetches}:srv_sess_rate('b/s')" for fetches in ("f", "sf")}


def is_ready(one):
    """Whether weir has all parts of Lua that a row needs."""
    missing = MISSING.get(one.area)
    return one.area in AREAS and one.name not in COLUMNS | RATES and not (missing and missing.search(one.name))
