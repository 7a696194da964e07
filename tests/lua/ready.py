"""The rows that run with weir, too."""
import re

# The areas, and the names of their rows.
AREAS = {
    "core": re.compile(r"(http|imf|rfc850|asctime)_date|(parse|match)_addr|concat|set_nice"),
    "regex": re.compile(""), "queues": re.compile(""),
}

# Tasks, services, filters, commands, and members that wait.
LACKING_PLACES = {"task", "http-service", "tcp-service", "cli"}
LACKING_MEMBERS = re.compile(r"register_(task|service|filter|cli)|event_sub|core\.(done|wait)|pop_wait")


def is_ready(one):
    """Whether weir has all parts of Lua that a row needs."""
    if one.area not in AREAS or one.place in LACKING_PLACES or one.place.startswith("filter"):
        return False
    return bool(AREAS[one.area].search(one.name)) and not LACKING_MEMBERS.search(one.code + one.registration)
