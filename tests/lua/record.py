"""Writes recorded.json: what HAProxy 3.2 does with each row, and 2.6 where that differs.

    cd tests && python3 -m lua.record --haproxy PATH --older PATH [--area NAME]

Review the difference in git: a recorded line is an expectation for weir."""
import argparse
import json
import os
import sys
import time

from lua.differences import UNSTABLE
from lua.rows import rows
from lua.world import World

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded.json")


def load():
    """The records by the row's key: {"3.2": lines, "2.6": lines where they differ, "pre-3.1-bug": lines where they differ}."""
    try:
        with open(RECORDED) as file:
            return json.load(file)
    except FileNotFoundError:
        return {}


def save(records):
    """Writes the records, a row a line."""
    lines = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in sorted(records.items()))
    with open(RECORDED, "w") as file:
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


def observe(binary, version, every, conversion="normal"):
    """The observations of all rows, in turn."""
    found = {}
    for group in dict.fromkeys(one.group for one in every):
        chosen = [one for one in every if one.group == group]
        found.update(observe_group(binary, version, chosen, conversion))
    return found


def observe_group(binary, version, chosen, conversion):
    """The observations of rows that share a process."""
    found = {}
    with World(binary, version, chosen, conversion) as world:
        for one in chosen:
            start = time.monotonic()
            found[one.key] = world.run(one)
            if (spent := time.monotonic() - start) > 1.5:
                print(f"{spent:.1f} s: {version} {one.key}", file=sys.stderr)
            if found[one.key] == ["the program ends"]:
                print(f"{version} ends: {one.key}", file=sys.stderr)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--haproxy", required=True)
    parser.add_argument("--older")
    parser.add_argument("--area")
    options = parser.parse_args()
    every = [one for one in rows() if one.area == options.area or not options.area]
    records = load()
    keys = {one.key for one in rows()}
    for key in list(records):
        if key not in keys or any(key == one.key for one in every):
            del records[key]
    for key, lines in observe(options.haproxy, "3.2", every).items():
        records[key] = {"3.2": lines}
    passes = [("pre-3.1-bug", options.haproxy, [one for one in every if one.both], "pre-3.1-bug")]
    if options.older:
        passes.append(("2.6", options.older, every, "normal"))
    for name, binary, chosen, conversion in passes:
        if not chosen:
            continue
        for key, lines in observe(binary, "2.6" if name == "2.6" else "3.2", chosen, conversion).items():
            if lines != records[key]["3.2"] and key not in UNSTABLE:
                records[key][name] = lines
    for one in every:
        if one.wanted is not None and not one.manual and records[one.key]["3.2"] != one.wanted:
            print(f"{one.key}: wanted {one.wanted}, 3.2 has {records[one.key]['3.2']}", file=sys.stderr)
    save(records)


if __name__ == "__main__":
    main()
