#!/usr/bin/env python3
"""Random configurations and random bytes to the packaged haproxy and to weir: every difference is a fault or has a
reason.

  PYTHONPATH=tests python3 -m reference.explore --bin target/release/weir [--kind REGEX] [--seed N] [--count M] [--seconds S] [--first K] [--show]
              [--haproxy haproxy]

A seed and a number make a case, always the same one (tests/reference/explorers has the kinds). Both programs check its
configuration; lines that both refuse are left out, and a line that only one of them refuses is a finding. Then
`differential.compare` sends the exchanges. Differences outside tests/reference/explorers/meant.py are reduced as far as possible,
and printed. `--kind keywords` only checks lines, and wants a newer `--reference`.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import difflib
import importlib
import os
import random
import re
import shutil
import sys
import time

from lib.program import Folder, run
from reference import differential
from reference.explorers import meant

KINDS = ("connections", "keywords", "proxies", "values")


def refused(binary, case, lines):
    """Whether the program accepts the lines as the configuration of a case, the lines with complaints, and its output."""
    with Folder() as folder:
        for name, content in case.FILES.items():
            folder.file(name, content)
        ports = collections.defaultdict(lambda: str(10000 + len(ports)))
        ports["folder"] = folder.path
        path = folder.file("case.cfg", re.sub(r"@(\w+)@", lambda match: ports[match[1]], "\n".join(lines)))
        status, _, said = run(binary, "-c", "-f", path, seconds=30)
    named = {int(line) - 1 for line in re.findall(r"^\[ALERT\] .*?\[" + re.escape(path) + r":(\d+)\]", said, re.M)}
    # weir reports repeated faults once, with the first places.
    for places in re.findall(r" times, first at lines ([\d, ]+)$", said, re.M):
        named |= {int(line) - 1 for line in places.split(", ")}
    return status == 0, named, said


def settle(case, options):
    """Removes refused lines. Returns the lines refused by only one of the programs.

    The reference program may stop at the first fault: whether it takes another line is seen without the faulty ones."""
    lines, suspects = case.CONFIGURATION.split("\n"), set()
    for _ in range(20):
        kept = [line if number not in suspects else "" for number, line in enumerate(lines)]
        taken, theirs, said = refused(options.reference, case, kept)
        ours_taken, ours, ours_said = refused(options.bin, case, kept)
        if taken and ours_taken:
            break
        if not theirs | ours:
            case.EXCHANGES = {}
            return {"the whole": f"neither program says which line: {said[-300:]} {ours_said[-300:]}"}
        suspects |= theirs | ours
    findings = {}
    for suspect in sorted(suspects):
        tried = [line if number not in suspects - {suspect} else "" for number, line in enumerate(lines)]
        (taken, _, said), (ours_taken, _, ours_said) = refused(options.reference, case, tried), refused(options.bin, case, tried)
        if taken != ours_taken and "is not implemented yet" not in ours_said:
            who, what = ("weir", ours_said) if taken else ("haproxy", said)
            findings[lines[suspect].strip()] = f"only {who} refuses it: {' '.join(re.findall(r'^.ALERT. .*', what, re.M)[:1])[:1000]}"
    case.CONFIGURATION = "\n".join(line for number, line in enumerate(lines) if number not in suspects)
    return findings


def differing(case, names, options, look=differential.compare):
    """The exchanges with unintended differences, with both views. Counts the reasons of the intended ones."""
    expected, found = look(case, names, options, "case")
    faults, reasons = {}, collections.Counter()
    for name in names:
        if found[name] in expected[name]:
            continue
        _, pieces = case.EXCHANGES[name]
        sent = "".join(piece for piece in pieces if isinstance(piece, str)) + (meant.LEAVES if None in pieces else "")
        excused = meant.reasons(about(case, name).CONFIGURATION, sent, expected[name], found[name], options.version)
        if excused is None:
            faults[name] = (expected[name][0], found[name])
        else:
            reasons.update(excused)
    return faults, reasons


def glance(case, names, options, label):
    """Like [`differential.compare`], with one attempt: differences of timing count as differences."""
    with Folder() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        both = [pool.submit(differential.observe, case, binary, names, folder, f"{label}-{number}")
                for number, binary in enumerate((options.reference, options.bin))]
        expected, found = both[0].result(), both[1].result()
    return {name: [expected[name]] for name in names}, found


def about(case, name):
    """The case reduced to one exchange and the proxies that it uses."""
    listener = case.EXCHANGES[name][0]
    sections = re.split(r"^(?=\S)", case.CONFIGURATION, flags=re.M)
    kept = [section for section in sections if not re.match(r"(frontend f|backend b|listen l)\d", section)
            or f"@{listener}@" in section or re.match(rf"backend b{listener[1:]}$", section.split("\n")[0])]
    return dataclasses.replace(case, CONFIGURATION="".join(kept), EXCHANGES={name: case.EXCHANGES[name]})


class Smaller:
    """Minimises a case with one differing exchange, for some seconds."""

    def __init__(self, case, name, options):
        self.name, self.options, self.end = name, options, time.monotonic() + options.patience
        self.case, self.seen = case, None

    def differs(self, case):
        """Whether the case still differs."""
        if time.monotonic() > self.end:
            return False
        try:
            if not all(refused(binary, case, case.CONFIGURATION.split("\n"))[0] for binary in (self.options.reference, self.options.bin)):
                return False
            faults, _ = differing(case, [self.name], self.options, glance)
        except (AssertionError, SystemExit, KeyError, ValueError):
            return False  # it is no configuration any more
        if faults:
            self.case, self.seen = case, faults[self.name]
        return bool(faults)

    def without(self, parts, build):
        """Removes parts that the difference does not need, many at a time first."""
        size = max(1, len(parts) // 2)
        while True:
            start = 0
            while start < len(parts):
                fewer = parts[:start] + parts[start + size:]
                if fewer and self.differs(build(fewer)):
                    parts = fewer
                else:
                    start += size
            if size == 1:
                return
            size //= 2

    def asking(self, *pieces):
        """The case with different pieces to send."""
        listener = self.case.EXCHANGES[self.name][0]
        return dataclasses.replace(self.case, EXCHANGES={self.name: (listener, list(pieces))})

    def made(self):
        """The smallest case found."""
        self.differs(about(self.case, self.name))
        pieces = self.case.EXCHANGES[self.name][1]
        self.differs(self.asking("".join(piece for piece in pieces if isinstance(piece, str))))
        # How a frontend logs stays: the reference program knows some of a request only where it is logged.
        lines = self.case.CONFIGURATION.split("\n")
        kept = {number for number, line in enumerate(lines) if re.match(r" +(option (http|tcp)log|log-format) ?", line)}
        self.without([number for number in range(len(lines)) if number not in kept], lambda numbers: dataclasses.replace(
            self.case, CONFIGURATION="\n".join(lines[number] for number in sorted({*numbers, *kept}))))
        pieces = self.case.EXCHANGES[self.name][1]
        if len(pieces) == 1:
            self.without(re.split(r"(?<=\r\n)", pieces[0]), lambda parts: self.asking("".join(parts)))
        return self.case, self.seen


def by_rule(case, faults):
    """Where each rule of a case writes a field of its own name: the first exchange in which one differs, by the rule."""
    rules = {}
    for name, (expected, found) in faults.items():
        lines = list(difflib.unified_diff(expected, found, "reference", "weir", lineterm="", n=0))[2:]
        for number in sorted(set(re.findall(r"^[-+](x-[vc]\d+): ", "\n".join(lines), re.M))):
            rule = next((line.strip() for line in case.CONFIGURATION.split("\n") if f"set-header {number} " in line), number)
            shown = [line for line in dict.fromkeys(lines) if line[1:].startswith(f"{number}: ")]
            rules.setdefault(rule, (name, shown))
    return rules


def report(title, case, name, seen):
    """Prints a finding."""
    proxies = re.split(r"^(?=frontend |listen )", case.CONFIGURATION, maxsplit=1, flags=re.M)[-1]
    print(f"DIFFERS  {title}\n" + proxies.strip("\n") + f"\n--- sent to {case.EXCHANGES[name][0]}")
    for piece in case.EXCHANGES[name][1]:
        text = repr(piece)
        print(text[:1500])
        for key in re.findall(r"/answer/([-\w]+)", text):
            print(f"    {key} is {case.ANSWERS[key]}" if key in case.ANSWERS else f"    {key} is cut")
    print("---")
    print("\n".join(list(difflib.unified_diff(*seen, "reference", "weir", lineterm="", n=0))[2:])[:4000], flush=True)


def explore(number, kind, options):
    """Runs one case; returns the number of findings, the number of exchanges, and the reasons of the intended
    differences."""
    module = importlib.import_module(f"reference.explorers.{kind}")
    if hasattr(module, "explore"):
        title = f"--kind {kind} --seed {options.seed} --first {number} --count 1"
        return module.explore(random.Random(f"{options.seed}/{kind}/{number}"), title, options)
    case = module.case(random.Random(f"{options.seed}/{kind}/{number}"))
    title = f"--kind {kind} --seed {options.seed} --first {number} --count 1"
    if options.show:
        print(case.CONFIGURATION)
    count, reasons = 0, collections.Counter()
    for line, what in settle(case, options).items():
        why = meant.refusal(line, what)
        if why:
            reasons[why] += 1
        else:
            count += 1
            print(f"DIFFERS  {title}: {line}\n    {what}", flush=True)
    names = [name for name in case.EXCHANGES if re.search(options.only, name)]
    if not names:
        return count, 0, reasons
    try:
        faults, more = differing(case, names, options)
    except AssertionError as ended:
        if "case-reference" in str(ended):
            return count, len(names), reasons + collections.Counter({"the reference program dies of it": 1})
        print(f"DIFFERS  {title}: {ended}", flush=True)
        return count + 1, len(names), reasons
    rules = by_rule(case, faults) if hasattr(module, "shown") else {}
    for rule, (name, lines) in rules.items():
        why = meant.value(rule, "\n".join(lines))
        if why:
            reasons[why] += 1
            continue
        count += 1
        print(f"DIFFERS  {title} --only '^{name}$'\n    {rule}\n    {case.EXCHANGES[name][1]!r}\n    " + "\n    ".join(lines), flush=True)
    if rules:
        return count, len(names), reasons + more
    for name, seen in list(faults.items())[:options.most]:
        smallest, smaller_seen = Smaller(case, name, options).made() if options.patience else (about(case, name), None)
        report(f"{title} --only '^{name}$'", smallest, name, smaller_seen or seen)
    for name in list(faults)[options.most:]:
        print(f"DIFFERS  {title}: {name} (too)")
    return count + len(faults), len(names), reasons + more


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--haproxy", "--reference", dest="reference", default="haproxy")
    parser.add_argument("--kind", default="", help="a regular expression that the kind of case has to match")
    parser.add_argument("--only", default="", help="a regular expression that the exchange has to match")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--count", type=int, default=1000000, help="how many cases at most")
    parser.add_argument("--seconds", type=float, default=60, help="no case begins after so many")
    parser.add_argument("--patience", type=float, default=60, help="how many seconds to spend on making one finding smaller")
    parser.add_argument("--most", type=int, default=3, help="how many findings of a case to make smaller")
    parser.add_argument("--show", action="store_true", help="print the configurations")
    options = parser.parse_args()
    options.reference = shutil.which(options.reference, path=os.environ["PATH"] + ":/usr/sbin")
    options.bin = os.path.abspath(options.bin)
    options.version = differential.version(options.reference)
    kinds = [kind for kind in KINDS if re.search(options.kind, kind) and (options.kind or kind != "keywords")]
    end, findings, exchanges, cases, reasons = time.monotonic() + options.seconds, 0, 0, 0, collections.Counter()
    for number in range(options.first, options.first + options.count):
        for kind in kinds:
            if time.monotonic() > end:
                break
            found, sent, why = explore(number, kind, options)
            findings, exchanges, cases, reasons = findings + found, exchanges + sent, cases + 1, reasons + why
    for reason, count in reasons.most_common():
        print(f"{count:6d} meant to differ: {reason}")
    print(f"explore: {exchanges} exchanges in {cases} cases of seed {options.seed}, {findings} differ without a reason")
    return 1 if findings or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
