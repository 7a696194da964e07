"""Generators for tests/reference/test_explore.py, one file a kind of case: `case(chance)` makes one from a source of chance.

A case has the form of a file of tests/reference/exchanges: a configuration, exchanges, files. The same chance makes the same
case, so a seed is a test. `messages` has the messages of several kinds, `values` their expressions, `meant` the
intended differences.
"""
from dataclasses import dataclass, field


@dataclass
class Case:
    """One configuration and its exchanges, under the names that `differential.compare` reads."""

    CONFIGURATION: str
    EXCHANGES: dict
    FILES: dict = field(default_factory=dict)
    # The servers' answers, by their names in paths.
    ANSWERS: dict = field(default_factory=dict)
    DIFFERENT: dict = field(default_factory=dict)
    # Also compare the requests at the servers.
    RECORD: bool = True


def maybe(chance, probability):
    """True with this probability."""
    return chance.random() < probability


def some(chance, things, most):
    """A random selection of up to this number of items, in any order."""
    return chance.sample(things, chance.randint(0, min(most, len(things))))


def term(chance, acls):
    """One term of a condition. Predefined ACLs stand without braces."""
    denied = "!" if maybe(chance, 0.2) else ""
    acl = chance.choice(acls)
    return denied + (acl if acl.isupper() else f"{{ {acl} }}")


def quoted(text):
    """One word of a configuration that has this text."""
    return "'" + text.replace("'", "'\\''") + "'"
