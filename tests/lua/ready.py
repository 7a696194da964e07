"""The rows that run with weir, too."""
import re

# The areas, and the names of their rows.
AREAS = {
    "core": re.compile(r"(http|imf|rfc850|asctime)_date|(parse|match)_addr|concat|set_nice|get_(info|var)|core\.wait(?! in a fetch)|done|(yield|m?sleep) in (the )?(body|init|task)"),
    "members": re.compile(""),
    "events": re.compile(r"^(?!ACME)"),
    # The report of a wait in a fetch or a converter is that of all waits.
    **dict.fromkeys(("sockets", "httpclient"), re.compile(r"^(?!(connect|get) in (fetch|converter)$)")),
    **dict.fromkeys(("channel", "filters", "services", "tasks", "reply", "txn", "http", "actions", "errors", "fetches", "converters", "regex", "queues", "maps", "patterns", "proxies", "sticktables", "cli"), re.compile("")),
}

# Columns of statistics: those of 3.5, and HAProxy 3.2 adds some of other objects. tests/scripts compares them with `show stat`.
COLUMNS = {f"{kind}: get_stats, names" for kind in ("proxy", "server", "listener")} | {"server: get_stats with an argument too many"}


def is_ready(one):
    """Whether weir has all parts of Lua that a row needs."""
    if one.area not in AREAS or one.name in COLUMNS:
        return False
    return bool(AREAS[one.area].search(one.name))
