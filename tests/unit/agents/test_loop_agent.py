"""How often a loop runs its agents."""

import pytest

from durable_adk.agents import LlmAgent, LoopAgent
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from tests.support.scripts import gist, send


@pytest.mark.parametrize(("limit", "rounds"), [(-1, 0), (0, 0), (1, 1), (2, 2)])
async def test_a_loop_keeps_to_its_number_of_rounds(limit: int, rounds: int) -> None:
    """TRAP-32: 0 means none, and so does less, as in ADK."""
    speaker = LlmAgent(name="a", model=ScriptedModel(replies=lambda _: "hi"))
    loop = LoopAgent(name="loop", max_iterations=limit, sub_agents=[speaker])
    async with InMemoryRunner(loop) as runner:
        assert [gist(event) for event in await send(runner)] == ["a text hi"] * rounds
