"""The options of ``durable-adk run``."""

import pytest
from typer.testing import CliRunner

from durable_adk.cli import run
from durable_adk.cli.program import app
from durable_adk.wire.messages import WhenBusy


@pytest.mark.parametrize("wanted", list(WhenBusy))
def test_what_a_busy_session_means_is_up_to_the_caller(wanted, monkeypatch):
    """D7: --when-busy is handed on as it is; without it a message waits."""
    asked = []

    async def hold(self, message):
        asked.append((self.when_busy, message))

    monkeypatch.setattr(run.Conversation, "hold", hold)
    for options in ([], ["--when-busy", wanted.value]):
        done = CliRunner().invoke(app, ["run", "examples/capital_agent", "hi", *options])
        assert done.exit_code == 0, done.output
    assert asked == [(WhenBusy.ENQUEUE, "hi"), (wanted, "hi")]
    refused = CliRunner().invoke(app, ["run", "x", "hi", "--when-busy", "sometimes"])
    assert refused.exit_code == 2
