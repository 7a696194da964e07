"""The manual's fetches and log formats, a row of the tables each. `--haproxy PROGRAM` holds that program to its column, too."""
import pytest

from fetches.walk import cases, observe, reference

EVERY = cases()


@pytest.fixture(scope="module")
def ours(binary):
    """weir's result for every case: one process evaluates all of them."""
    return observe(binary, EVERY)


@pytest.fixture(scope="module")
def theirs(request):
    """HAProxy's, where it is compared."""
    haproxy = request.config.getoption("haproxy")
    return reference(haproxy, EVERY) if haproxy else [case.reference for case in EVERY]


@pytest.mark.xdist_group("walk")
@pytest.mark.parametrize("case", EVERY, ids=lambda case: f"{case.where} {case.place} {case.message}: {case.what}")
def test_fetch_or_format_has_the_value_of_its_row(ours, theirs, case):
    assert ours[case.number] == case.expected
    assert theirs[case.number] == case.reference
