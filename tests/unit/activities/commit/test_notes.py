"""What steps write down for when they are asked for again."""

import itertools
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EffectPerformer
from durable_adk.agents import BaseAgent, InvocationContext
from durable_adk.apps import App, AppRegistry
from durable_adk.errors import StoreUnavailableError
from durable_adk.events import Event
from durable_adk.plugins import BasePlugin
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.wire.messages import user_content
from durable_adk.wire.steps import FunctionStep, HookStep, OpenStep, Step

KEY = SessionKey("app", "u", "s")
NUMBERS = itertools.count()


def draw(what: str = "") -> str:
    """Draw a number."""
    return f"{what}{next(NUMBERS)}"


class Draws(BaseAgent):
    """A custom agent in whose module the function is."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=await ctx.step(draw))


class Stamps(BasePlugin):
    """A plugin that changes each event, and speaks before each run."""

    async def before_run_callback(self, **_: Any) -> Any:
        """Speak."""
        return user_content(draw())

    async def on_event_callback(self, *, event: Event, **_: Any) -> Any:
        """Change it."""
        return event.model_copy(update={"content": user_content(draw())})


async def opened() -> EffectPerformer:
    """Effects over a session with the open invocation e-1."""
    app = App(name="app", root_agent=Draws(name="a"), plugins=[Stamps(name="stamps")])
    effects = EffectPerformer(
        Dependencies(registry=AppRegistry([app]), sessions=InMemorySessionService())
    )
    await effects.perform(
        OpenStep(
            key=KEY, invocation_id="e-1", lease_owner="h", event_id="e-1.0", timestamp=1.0,
            message=user_content("hi"), create_session=True, prepared=True,
        )
    )  # fmt: skip
    return effects


def fields(event_id: str = "e-1.1") -> dict[str, Any]:
    """Those that all steps have."""
    return {
        "key": KEY, "invocation_id": "e-1", "revision": 1, "run_start": 1, "agent": "a",
        "event_id": event_id, "attempt_timeout": 10,
    }  # fmt: skip


def at(timestamp: float) -> Event:
    """An event that the loop is about to commit."""
    return Event(
        id="e-1.1", author="a", invocation_id="e-1", timestamp=timestamp, content=user_content("x")
    )


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (FunctionStep(**fields(), function="draw"), FunctionStep(**fields(), function="draw")),
        (
            HookStep(**fields(), hook="before_run_callback"),
            HookStep(**fields(), hook="before_run_callback"),
        ),
        (
            HookStep(**fields(), hook="on_event_callback", event=at(1.0)),
            HookStep(**fields(), hook="on_event_callback", event=at(2.0)),
        ),
    ],
)
async def test_a_step_that_is_asked_for_again_gives_what_it_gave(first: Step, second: Step) -> None:
    """I7, I10: a workflow that was reset has forgotten it; its clock says something else."""
    effects = await opened()
    result = await effects.perform(first)
    assert result.value or result.event
    assert await effects.perform(second) == result


@pytest.mark.parametrize(
    "other",
    [
        FunctionStep(**fields("e-1.2"), function="draw", args=["a"]),
        FunctionStep(**fields(), function="draw", args=["b"]),
        FunctionStep(**fields(), function="draw", kwargs={"what": "a"}),
    ],
)
async def test_no_step_is_given_what_another_one_gave(other: FunctionStep) -> None:
    """I7: a body that waits for two at once may come to them in another order."""
    effects = await opened()
    result = await effects.perform(FunctionStep(**fields(), function="draw", args=["a"]))
    assert await effects.perform(other) != result


async def test_a_store_that_is_away_for_a_moment_keeps_the_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """F16: the function is not run again for it."""
    effects = await opened()
    write = effects.deps.sessions.note

    async def away(*_: Any, **__: Any) -> str:
        monkeypatch.setattr(effects.deps.sessions, "note", write)
        raise StoreUnavailableError

    monkeypatch.setattr(effects.deps.sessions, "note", away)
    step = FunctionStep(**fields(), function="draw")
    assert await effects.perform(step) == await effects.perform(step)
