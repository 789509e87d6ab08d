"""Filling a template in an instruction provider."""

import pytest
from google.genai import types

from durable_adk.agents import InvocationContext, LlmAgent
from durable_adk.agents.readonly_context import ReadonlyContext
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from durable_adk.sessions import Session
from durable_adk.tools import ToolContext
from durable_adk.utils.instructions_utils import inject_session_state
from tests.support.scripts import send


async def test_a_provider_fills_its_template() -> None:
    """AGT-13: as the runtime does where the instruction is a text."""

    async def provider(context: ReadonlyContext) -> str:
        return await inject_session_state("{greeting} {name?}!", context)

    model = ScriptedModel(replies=["x"])
    async with InMemoryRunner(LlmAgent(name="a", model=model, instruction=provider)) as runner:
        await send(runner, state_delta={"greeting": "Hi"})
    assert "Hi !" in str(model.requests[0].config.system_instruction)


async def test_files_are_those_of_the_session() -> None:
    """Where there is no service, the error says so."""
    artifacts = InMemoryArtifactService()
    session = Session(id="s", app_name="app", user_id="u")
    invocation = InvocationContext(invocation_id="i", session=session, artifact_service=artifacts)
    await ToolContext(invocation, function_call_id="c").save_artifact("f", types.Part(text="yes"))
    assert await inject_session_state("{artifact.f}", ReadonlyContext(invocation)) == "yes"
    without = InvocationContext(invocation_id="i", session=session)
    with pytest.raises(ValueError, match="no artifact service"):
        await inject_session_state("{artifact.f}", ReadonlyContext(without))


async def test_a_service_whose_load_takes_no_version_serves() -> None:
    """Those written for older releases of ADK are asked for the latest without naming a version."""

    class Older(InMemoryArtifactService):
        async def load_artifact(
            self, *, app_name: str, user_id: str, session_id: str, filename: str
        ):  # pyright: ignore[reportIncompatibleMethodOverride]: it is older
            return types.Part(text=f"{filename} of {app_name}/{user_id}/{session_id}")

    session = Session(id="s", app_name="app", user_id="u")
    invocation = InvocationContext(invocation_id="i", session=session, artifact_service=Older())
    filled = await inject_session_state("{artifact.f}", ReadonlyContext(invocation))
    assert filled == "f of app/u/s"
