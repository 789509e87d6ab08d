"""What the sender of a message is told of it."""

from typing import Any

import pytest

from durable_adk.activities.user_code import plugin_hooks
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.errors import EventConflictError
from durable_adk.models import ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.runners import InMemoryRunner


class Counting(BasePlugin):
    """Changes the state when a message comes."""

    async def on_user_message_callback(self, *, invocation_context: Any, **_: Any) -> None:
        """See base class."""
        invocation_context.state["messages"] = 1


async def test_state_that_a_plugin_of_an_earlier_release_changed_fails_no_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its worker keeps no digest of what was sent; who asks with the same id later is refused."""
    monkeypatch.setattr(plugin_hooks, "with_digests", lambda _, sent: sent.custom_metadata)
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["done"]))
    app = App(name="app", root_agent=agent, plugins=[Counting(name="counting")])
    async with InMemoryRunner(app=app) as runner:
        await runner.session_service.create_session(app_name="app", user_id="u", session_id="s")

        async def send(**delta: int) -> list[str]:
            events = runner.run_async(
                user_id="u",
                session_id="s",
                invocation_id="i",
                new_message="hi",
                state_delta=dict(delta),
            )
            return [event.text async for event in events]

        assert await send(own=1) == ["done"]
        with pytest.raises(EventConflictError, match="another state_delta"):
            await send(own=2)
