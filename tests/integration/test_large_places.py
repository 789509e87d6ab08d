"""Invocations that stand where too much would have to be taken along (D10)."""

import base64
import random
import uuid
from collections.abc import AsyncGenerator

import pytest
from google.genai import types
from temporalio.client import Client

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent
from durable_adk.client.temporal_backend import TemporalBackend
from durable_adk.events import Event
from durable_adk.flows.continue_as_new import RETRY_AFTER, ContinueAsNew
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey
from durable_adk.settings import Limits
from durable_adk.tools import ToolContext
from durable_adk.wire.messages import workflow_id
from tests.conftest import MakeRunner
from tests.support.scripts import call, gist, send
from tests.support.waiting import until

pytestmark = pytest.mark.thorough

DICE = random.Random(0)
MANY = 1000
"""Of attempts to end a run: more than any test makes that does not make them for ever."""


DICE = random.Random(1)


def noise(size: int) -> str:
    """Text that cannot be compressed to less than three quarters."""
    return base64.b64encode(DICE.randbytes(size * 3 // 4)).decode()


@pytest.fixture
def rolls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Of each attempt to end a run, in this process, whether it has ended."""
    outcomes: list[bool] = []
    save = ContinueAsNew.save

    async def counted(continuing: ContinueAsNew) -> bool:
        if len(outcomes) == MANY:
            raise AssertionError("It is attempted for ever.")
        outcomes.append(False)
        outcomes[-1] = await save(continuing)
        return outcomes[-1]

    monkeypatch.setattr(ContinueAsNew, "save", counted)
    return outcomes


def often(runner: Runner) -> bool:
    """Have it continue in a new run wherever it can; whether that is one of a workflow."""
    if isinstance(runner._client.backend, TemporalBackend):
        return True
    runner._client.backend.roll_every = 1
    return False


async def runs_of(client: Client, invocation_id: str) -> int:
    """How many runs an invocation's workflow has had."""
    name = workflow_id(SessionKey("app", "u", "s"), invocation_id)
    return len([one async for one in client.list_workflows(f"WorkflowId = '{name}'")])


def responses(request: LlmRequest) -> int:
    """How many a prompt holds."""
    parts = [part for content in request.contents for part in content.parts or []]
    return sum(part.function_response is not None for part in parts)


def hold(number: int, tool_context: ToolContext) -> str:
    """A tool that makes the state large, and later small again."""
    tool_context.state[f"held{number % 2}"] = noise(600_000) if number in {2, 3} else ""
    return "ok"


class Body(BaseAgent):
    """A custom agent: its tree's state is read again by each run."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


async def test_a_run_that_could_not_end_ends_when_its_state_has_become_small(
    make_runner: MakeRunner, client: Client, rolls: list[bool]
) -> None:
    """D10: one large moment does not keep an invocation in one run; it tries again, but seldom."""
    invocation_id = uuid.uuid4().hex

    def model(request: LlmRequest) -> types.Content | str:
        taken = responses(request)
        return call("hold", number=taken) if taken < 4 + RETRY_AFTER else "done"

    agent = LlmAgent(name="a", model=ScriptedModel(replies=model), tools=[hold])
    runner = await make_runner(
        Body(name="body", sub_agents=[agent]), limits=Limits(max_history_events=1)
    )
    on_temporal = often(runner)
    events = await send(runner, invocation_id=invocation_id)
    assert gist(events[-1]) == "a text done"
    if on_temporal:

        async def has_gone_on() -> bool:
            return await runs_of(client, invocation_id) > RETRY_AFTER // 2

        await until(has_gone_on)  # the list is behind by a moment
    else:
        assert rolls[-1] is True
        assert rolls.count(False) == 1
