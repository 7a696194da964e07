"""A table of a million entries: requests while entries are shown, cleared and expire at once, and the memory held by a slow reader."""
import subprocess
import sys

import pytest

from lib.program import ROOT


@pytest.mark.timeout(600)
def test_requests_do_not_wait_for_commands_on_a_million_table_entries(binary):
    command = [sys.executable, "bench/tables.py", "--rows", "operator,expiry", "--entries", "1000000", "--most-ms", "100", f"weir={binary}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
