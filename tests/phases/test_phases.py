"""Each case of this folder's tables. `--haproxy PROGRAM` plays them with that program, too, and fails where it differs."""
import pytest

from lib.program import Folder
from phases import bodies, http2, retries, sizes, timeouts
from phases.scenes import is_wrong, play_all

CASES = [case for module in (bodies, http2, retries, sizes, timeouts) for case in module.CASES]


@pytest.fixture(scope="module")
def outcomes(binary, request):
    """The outcomes of all cases, played concurrently, with weir and with the reference program if given."""
    programs = [binary, *filter(None, [request.config.getoption("haproxy")])]
    found = []
    for program in programs:
        with Folder() as folder:
            found.append(play_all(program, CASES, folder, "phases.cfg"))
    return found


@pytest.mark.xdist_group("phases")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_case_has_the_expected_outcome(outcomes, case):
    for outcome in (each[case.name] for each in outcomes):
        *seen, took = outcome
        expected = [case.client_sees, case.server_sees, case.logged]
        assert not is_wrong(case, outcome), f"client, server, log: {' ~ '.join(seen)}, not {' ~ '.join(expected)}; {took:.2f} s, at least {case.least}"
