"""The runtime API, a row of commands.tsv each. `--haproxy PROGRAM` sends the same lines to that program: it has to answer
the same, unless the row has a reason for the difference."""
import itertools

import pytest

from cli.commands import rows, shown, unwalked, walk
from reference.differential import version

SECTIONS = {section: list(group) for section, group in itertools.groupby(rows(), lambda row: row.section)}


@pytest.mark.parametrize("section", SECTIONS)
def test_answers_match_commands_tsv(request, binary, section):
    table, haproxy = SECTIONS[section], request.config.getoption("haproxy")
    answers = walk(binary, table)
    wrong = [f"{row.level}: {row.sent}\n    wanted   {row.answer}\n    answered {shown(answers[row.number])}, commands.tsv:{row.number}"
             for row in table if not row.holds(answers[row.number])]
    if haproxy:
        theirs, branch = walk(haproxy, table), version(haproxy)
        wrong += [f"{row.level}: {row.sent}\n    HAProxy answers {shown(theirs[row.number])}, commands.tsv:{row.number}"
                  for row in table if row.holds(theirs[row.number]) == (row.version == branch)]
    assert not wrong, "\n".join(wrong)


def test_every_command_has_a_row_in_commands_tsv(binary):
    assert unwalked(binary, rows()) == []
