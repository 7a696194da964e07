"""Each exchange beside the reference program: the packaged one, or that of `--haproxy PROGRAM`."""
import functools
import importlib
import pkgutil

import pytest

from reference import differential, exchanges

SUBJECTS = {module.name: importlib.import_module(f"reference.exchanges.{module.name}") for module in pkgutil.iter_modules(exchanges.__path__)}
EXCHANGES = [pytest.param(subject, name, id=f"{subject}/{name}", marks=pytest.mark.xdist_group(subject))
             for subject, module in SUBJECTS.items() for name in differential.names_of(module)]


@pytest.fixture(scope="session")
def faults(request, binary):
    """The faults of a subject's exchanges, as far as this run selected them: one process of each program has all of them."""
    both = differential.programs(binary, request.config.getoption("haproxy") or "haproxy")

    @functools.cache
    def of(subject):
        selected = [item.callspec.params["name"] for item in request.session.items
                    if getattr(item, "callspec", None) and item.callspec.params.get("subject") == subject]
        return differential.faults_of(SUBJECTS[subject], selected, both)
    return of


@pytest.mark.parametrize("subject, name", EXCHANGES)
def test_exchange_has_the_same_result_as_with_haproxy(faults, subject, name):
    fault = faults(subject)[name]
    assert not fault, fault
