"""The tests of Rust, one item each: `pytest tests/units --cargo="-p weir-stream --lib" -k name`.

Cargo builds the programs; each program runs once, with the selected tests, and reports by libtest's JSON. `cargo test`
alone would run one program at a time, and would not notice a program without tests.
"""
import pytest

from units import cargo

pytestmark = pytest.mark.timeout(1200)


def pytest_generate_tests(metafunc):
    programs = cargo.known()
    if metafunc.function is test_in_rust:
        rows = [pytest.param(program, test, id=f"{program.name} {test}", marks=pytest.mark.xdist_group(program.name))
                for program in programs for test in program.tests]
        metafunc.parametrize("program, test", rows)
    else:
        metafunc.parametrize("program", programs, ids=lambda program: program.name)


def test_in_rust(request, program, test):
    if not program.output:
        selected = [item.callspec.params["test"] for item in request.session.items
                    if item.originalname == "test_in_rust" and item.callspec.params["program"] is program]
        program.run(selected)
    outcome, output = program.outcomes.get(test, ("failed", f"it did not report a result; the program's output:\n{program.output[-5000:]}"))
    if outcome != "ok":
        pytest.fail(output, pytrace=False)


def test_program_has_tests(program):
    assert program.tests or cargo.may_be_empty(program), "no test, or only ignored ones"
