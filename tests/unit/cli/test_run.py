"""The options of ``durable-adk run``."""

import pytest
from typer.testing import CliRunner

import durable_adk.cli.run as module
from durable_adk.cli.program import app
from durable_adk.wire.messages import WhenBusy


@pytest.mark.parametrize("wanted", list(WhenBusy))
def test_what_a_busy_session_means_is_up_to_the_caller(wanted, monkeypatch):
    """D7: --when-busy is passed on unchanged; by default a message waits."""
    asked = []

    async def send(self, message):
        asked.append((self.when_busy, message))

    monkeypatch.setattr(module.Chat, "run", send)
    for options in ([], ["--when-busy", wanted.value]):
        done = CliRunner().invoke(app, ["run", "examples/capital_agent", "hi", *options])
        assert done.exit_code == 0, done.output
    assert asked == [(WhenBusy.ENQUEUE, "hi"), (wanted, "hi")]
    refused = CliRunner().invoke(app, ["run", "x", "hi", "--when-busy", "sometimes"])
    assert refused.exit_code == 2
