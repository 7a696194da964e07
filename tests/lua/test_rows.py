"""Every row of rows/, with the recorded observation of HAProxy 3.2 (recorded.json) and the definition of the manual.

With weir, a row passes with the line that the manual defines or with that of HAProxy, unless differences.py names what weir does instead. With
`--haproxy` the reference program has to repeat its record, so that a record is never wrong unseen."""
import pytest

from lua.differences import DIFFERENCES, UNSTABLE
from lua.record import load
from lua.rows import rows

RECORDS = load()
EVERY = [(one, "normal") for one in rows()] + [(one, "pre-3.1-bug") for one in rows() if one.both]
ENDS = (["the program ends"], ["the program hangs"])


def recorded(one, version, conversion):
    """The record of a version of HAProxy."""
    record = RECORDS[one.key]
    if version == "2.6":
        return record.get("2.6", record["3.2"])
    return record.get(conversion, record["3.2"])


def expectations(one, version, conversion):
    """The permitted observations of a row."""
    if version != "weir":
        return [recorded(one, version, conversion)]
    for key in (f"{one.key} [{conversion}]", one.key):
        if key in DIFFERENCES:
            return [DIFFERENCES[key][0]]
    permitted = [recorded(one, "3.2", conversion)]
    if one.wanted is not None and conversion == "normal":
        permitted.append(one.wanted)
    return [lines for lines in permitted if lines not in ENDS]


# A process serves all rows of an area, and some see what rows before them left.
IN_ORDER = [pytest.param(one, conversion, id=f"{one.key}-{conversion}", marks=pytest.mark.xdist_group(one.area)) for one, conversion in EVERY]


@pytest.mark.parametrize("one, conversion", IN_ORDER)
def test_row(observed, program, one, conversion):
    version = program[1]
    if version == "2.6" and (conversion != "normal" or one.key in UNSTABLE):
        pytest.skip("not in 2.6")
    lines = observed(one, conversion)
    if version != "weir" and one.key in UNSTABLE:
        return
    assert lines in expectations(one, version, conversion), one.manual


def test_rows_have_different_names():
    keys = [one.key for one in rows()]
    assert len(set(keys)) == len(keys), sorted(key for key in keys if keys.count(key) > 1)


def test_each_row_is_recorded():
    assert {one.key for one in rows()} == set(RECORDS)


def test_haproxy_does_as_the_manual_defines():
    """A row where HAProxy 3.2 departs from the manual has the reason in `manual`."""
    defined = [one for one in rows() if one.wanted is not None and one.key not in UNSTABLE]
    departing = [one.key for one in defined if not one.manual and RECORDS[one.key]["3.2"] != one.wanted]
    assert not departing
    needless = [one.key for one in defined if one.manual and RECORDS[one.key]["3.2"] == one.wanted]
    assert not needless


def test_differences_name_rows():
    every = rows()
    conversions = {f"{one.key} [pre-3.1-bug]" for one in every if one.both}
    assert {*DIFFERENCES, *UNSTABLE} <= {one.key for one in every} | conversions
    for key, (lines, reason) in DIFFERENCES.items():
        assert lines and reason, key


def test_each_row_that_ends_haproxy_has_another_expectation():
    """A row that ends or hangs HAProxy 3.2 needs a definition of the manual, or a difference."""
    open_ends = [one.key for one in rows() if RECORDS[one.key]["3.2"] in ENDS and one.wanted is None and one.key not in DIFFERENCES]
    assert not open_ends
