"""Runs that are closed when their reader leaves."""

from durable_adk.agents import LlmAgent
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from durable_adk.utils.context_utils import Aclosing


async def test_a_run_is_closed_when_its_reader_leaves() -> None:
    """Its generator gives nothing more."""
    async with InMemoryRunner(LlmAgent(name="a", model=ScriptedModel(replies=["x"]))) as runner:
        where = {"user_id": "u", "session_id": "s"}
        await runner.session_service.create_session(app_name=runner.app_name, **where)
        async with Aclosing(runner.run_async(**where, new_message="hi")) as run:
            assert (await anext(run)).text == "x"
        assert [event async for event in run] == []
