"""The demo."""

import re

import pytest

from tests.support.bounds import bounded, keeps
from tests.support.commands import Terminal
from tests.support.waiting import until_true

pytestmark = pytest.mark.thorough


@pytest.fixture
def terminal(tmp_path):
    opened = Terminal(tmp_path)
    yield opened
    opened.close()


@bounded
@pytest.mark.parametrize("columns", ["40", "200"])
def test_the_demo_shows_a_takeover(terminal, columns):
    """A worker is killed inside the tool, another finishes, and the records show no loss."""
    done = terminal.run("demo", COLUMNS=columns, DURABLE_ADK_DEMO_SECONDS="1.5")
    assert done.returncode == 0, done.stdout + done.stderr
    for number, what in ((3, "model"), (3, "tool"), (6, "events"), (0, "duplicates"), (1, "trips")):
        assert re.search(rf"^ +{number}  {what}", done.stdout, re.MULTILINE)
    assert "offline" in done.stdout
    assert "SIGKILL" in done.stdout
    takeover = re.search(r"([\d.]+) s  to takeover", done.stdout)
    assert takeover
    keeps(float(takeover[1]), 10, "a demo's takeover")
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= min(int(columns), 100)
    assert lines[-1] == "durable-adk web examples/capital_agent"
    assert done.stderr == ""
    until_true(lambda: not terminal.processes())
