"""What the workflow's side of the port decides by."""

from dataclasses import dataclass
from typing import cast

import pytest
from temporalio import workflow

from durable_adk.flows.runtime import Inbox
from durable_adk.workflows.status import StatusDisplay
from durable_adk.workflows.temporal_runtime import TemporalRuntime


@dataclass
class History:
    """As much of `workflow.info()` as is asked for."""

    events: int = 3
    suggested: bool = False

    def is_continue_as_new_suggested(self) -> bool:
        return self.suggested

    def get_current_history_length(self) -> int:
        return self.events

    def get_current_history_size(self) -> int:
        return 100


@pytest.mark.thorough
def test_the_history_is_as_long_as_it_was_at_the_last_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """D10, I13: a task that is completed beside a local activity makes it no longer.

    A replay has what follows the activity in the task before, where the history is shorter.
    """
    history = History()
    monkeypatch.setattr(workflow, "info", lambda: cast("workflow.Info", history))
    runtime = TemporalRuntime(Inbox(), StatusDisplay(list))
    history.events, history.suggested = 10_000, True
    assert runtime.fullness() < 1
    runtime.look()
    assert runtime.fullness() > 1
