"""The request of one model call."""

import pytest
from google.genai import types

from durable_adk.activities.request import build_request
from durable_adk.agents import LlmAgent
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.context import CallbackContext, Services, StepScope
from durable_adk.errors import InstructionError
from durable_adk.models import ScriptedModel
from durable_adk.sessions import Session


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
