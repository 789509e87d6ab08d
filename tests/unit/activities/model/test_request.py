"""The request of one model call."""

import asyncio
from typing import Any

import pytest
from google.genai import types

from durable_adk.activities.model.request import build_request
from durable_adk.agents import LlmAgent
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.context.activity import CallbackContext
from durable_adk.context.step_scope import Services, StepScope
from durable_adk.errors import InstructionError, ToolError
from durable_adk.models import ScriptedModel
from durable_adk.sessions import Session
from durable_adk.tools import BaseTool, BaseToolset


def scope(services: Services) -> StepScope:
    """The scope of a step of agent a."""
    return StepScope(
        session=Session(id="s", app_name="app", user_id="u", state={"word": "hi"}),
        invocation_id="e-1",
        agent_name="a",
        branch=None,
        user_content=None,
        event_id="e-1.1",
        services=services,
    )


def agent(**fields: str) -> LlmAgent:
    """An agent with instructions."""
    return LlmAgent(name="a", model=ScriptedModel(replies=[]), **fields)


@pytest.mark.parametrize("field", ["instruction", "global_instruction"])
async def test_an_instruction_is_filled_from_state_and_artifacts(field: str) -> None:
    """AGT-13: `{artifact.file}` is the latest version's text."""
    where = scope(Services(artifacts=InMemoryArtifactService()))
    for text in ("old", "new"):
        await CallbackContext(where).save_artifact("note", types.Part(text=text))
        where.event_id += "x"
    request = await build_request(agent(**{field: "{word}, {artifact.note}!"}), where)
    assert str(request.config.system_instruction).startswith("hi, new!")


async def test_an_instruction_that_needs_artifacts_fails_without_a_service() -> None:
    """AGT-13: the error says so, as ADK's ValueError."""
    with pytest.raises(InstructionError, match="no artifact service") as raised:
        await build_request(agent(instruction="{artifact.note}"), scope(Services()))
    assert isinstance(raised.value, ValueError)


class Preparing(BaseToolset):
    """A toolset, or the tool that it has, that raises when it is to change the request."""

    def __init__(self, error: BaseException, *, by_tool: bool) -> None:
        super().__init__()
        self.error = error
        self.by_tool = by_tool

    async def get_tools(self, readonly_context: Any = None) -> list[BaseTool]:
        tool = BaseTool(name="t", description="A tool.")
        tool.process_llm_request = self._raise
        return [tool] if self.by_tool else []

    async def process_llm_request(self, **given: Any) -> None:
        if not self.by_tool:
            await self._raise(**given)

    async def _raise(self, **_: Any) -> None:
        raise self.error


@pytest.mark.parametrize("by_tool", [True, False])
@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(1), asyncio.CancelledError()])
async def test_a_tool_that_raises_while_it_prepares_the_request_fails_the_run(
    error: BaseException, *, by_tool: bool
) -> None:
    """F12: and never the worker, whose event loop for all user code a SystemExit would end."""
    preparing = LlmAgent(
        name="a", model=ScriptedModel(replies=[]), tools=[Preparing(error, by_tool=by_tool)]
    )
    with pytest.raises(ToolError, match=r"no|SystemExit|CancelledError"):
        await build_request(preparing, scope(Services()))
