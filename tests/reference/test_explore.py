"""Random expressions of one seed to both programs. Longer runs, other kinds and other seeds are made by hand (`make explore`)."""
import os
import subprocess
import sys

import pytest

from lib.program import ROOT


@pytest.mark.timeout(400)
def test_random_expressions_of_one_seed_have_the_same_values_as_in_haproxy(binary):
    command = [sys.executable, "-m", "reference.explore", "--bin", binary, "--kind", "values", "--count", "12", "--seconds", "120", "--patience", "0"]
    done = subprocess.run(command, cwd=os.path.join(ROOT, "tests"), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
