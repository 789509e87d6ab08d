"""Opening an invocation once more, after an attempt whose outcome is unknown."""

import pytest

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EffectPerformer
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry
from durable_adk.errors import InvocationCancelledError, SessionBusyError
from durable_adk.models import ScriptedModel
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.wire.messages import WhenBusy, user_content
from durable_adk.wire.steps import OpenStep

KEY = SessionKey("app", "u", "s")


class Alive(Dependencies):
    """Dependencies whose lease owners all live."""

    async def is_alive(self, lease_owner: str) -> bool:
        """They do."""
        del lease_owner
        return True


def step(invocation_id: str, when_busy: WhenBusy) -> OpenStep:
    """A message of a workflow of its own."""
    lease_owner = TemporalLeaseOwner(namespace="n", workflow_id=invocation_id, first_run_id="r")
    return OpenStep(
        key=KEY,
        invocation_id=invocation_id,
        lease_owner=str(lease_owner),
        event_id=f"{invocation_id}.0",
        timestamp=1.0,
        message=user_content("hi"),
        create_session=True,
        when_busy=when_busy,
    )


def living() -> EffectPerformer:
    """What opens messages of one app."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["one"]))
    registry = AppRegistry([App(name="app", root_agent=agent)])
    return EffectPerformer(Alive(registry=registry, sessions=InMemorySessionService()))


@pytest.mark.parametrize("when_busy", [WhenBusy.REJECT, WhenBusy.ENQUEUE])
async def test_what_was_refused_is_refused_by_every_attempt(when_busy: WhenBusy) -> None:
    """D7, I12: its sender learns that the session was busy, and of no cancellation.

    What was withdrawn by a cancellation, before anybody opened it, stays so.
    """
    effects = living()
    sessions = effects.deps.sessions
    await effects.perform(step("first", WhenBusy.ENQUEUE))
    late = step("late", when_busy)
    with pytest.raises(SessionBusyError, match="active"):
        await effects.perform(late)
    if when_busy is WhenBusy.ENQUEUE:
        await sessions.withdraw_invocation(KEY, invocation_id="late", lease_owner=late.lease_owner)
    error = SessionBusyError if when_busy is WhenBusy.REJECT else InvocationCancelledError
    with pytest.raises(error):
        await effects.perform(late)


async def test_a_run_does_not_wait_for_what_it_began_under_another_id() -> None:
    """I11: a workflow that was reset draws another id, and is the owner that it would wait for."""
    effects = living()
    first = step("first", WhenBusy.ENQUEUE)
    await effects.perform(first)
    again = step("again", WhenBusy.ENQUEUE).model_copy(update={"lease_owner": first.lease_owner})
    opened = await effects.perform(again)
    assert opened.record is not None
    assert opened.record.status is Status.RUNNING
    record = await effects.deps.sessions.get_invocation(KEY, "first")
    assert record is not None
    assert record.status is Status.ABANDONED
