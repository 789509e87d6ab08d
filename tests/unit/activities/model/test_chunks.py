"""Chunks of a model's answer, in one step."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pytest

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.effects import EffectPerformer
from durable_adk.activities.model import chunks
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry
from durable_adk.models import LlmResponse
from durable_adk.partials import PartialChannel, PartialEvent, chunks as kept
from durable_adk.sessions import InMemorySessionService, SessionKey
from durable_adk.wire.effect import Attempt
from durable_adk.wire.messages import user_content
from durable_adk.wire.run_config import RunConfig, StreamingMode
from durable_adk.wire.steps import ModelStep, OpenStep
from tests.support.streams import Piece, StreamingModel, brief, thought

KEY = SessionKey("app", "u", "s")
SSE = RunConfig(streaming_mode=StreamingMode.SSE)


class Recorder(PartialChannel):
    """Keeps what is published, as it is."""

    def __init__(self) -> None:
        self.published: list[PartialEvent] = []

    def publish(
        self, partial: PartialEvent, earlier: Iterable[PartialEvent] = (), *, again: bool = False
    ) -> None:
        self.published.append(partial)

    def subscribe(self, key: SessionKey, invocation_id: str) -> Any:
        raise NotImplementedError


def counting(callback_context: Any, llm_response: LlmResponse) -> None:
    callback_context.state["seen"] = callback_context.state.get("seen", 0) + 1


class Repeats(Recorder):
    """Lets the model continue once its fourth chunk was published again."""

    def __init__(self) -> None:
        super().__init__()
        self.earlier: Iterable[PartialEvent] = ()
        self.enough = asyncio.Event()

    def publish(
        self, partial: PartialEvent, earlier: Iterable[PartialEvent] = (), *, again: bool = False
    ) -> None:
        super().publish(partial)
        if again and partial.index == 3:
            self.earlier = earlier
            self.enough.set()


async def ask(
    channel: PartialChannel | None,
    *,
    attempt: int = 1,
    config: Any = SSE,
    pieces: Sequence[Piece] = ("a ", "b"),
) -> Any:
    """The result of one step of an agent that says two chunks."""
    model = StreamingModel(turns=[[*pieces, "a b"]])
    agent = LlmAgent(name="a", model=model, after_model_callback=counting)
    registry = AppRegistry([App(name="app", root_agent=agent)])
    deps = Dependencies(registry=registry, sessions=InMemorySessionService(), partials=channel)
    effects = EffectPerformer(deps)
    await effects.perform(
        OpenStep(
            key=KEY,
            invocation_id="e-1",
            lease_owner="h",
            event_id="e-1.0",
            timestamp=1.0,
            message=user_content("hi"),
            create_session=True,
        )
    )
    step = ModelStep(
        key=KEY, invocation_id="e-1", revision=1, run_start=1, agent="a", event_id="e-1.1",
        attempt_timeout=60, run_config=config,
    )  # fmt: skip
    return await effects.perform(step, Attempt(number=attempt))


async def test_a_chunk_says_where_it_belongs() -> None:
    """DUR-8: session, invocation, event, attempt, index, and what the step has read."""
    channel = Recorder()
    result = await ask(channel, attempt=3)
    first, second = channel.published
    assert (first.key, first.invocation_id, first.revision) == (KEY, "e-1", 1)
    assert [(one.attempt, one.index) for one in (first, second)] == [(3, 0), (3, 1)]
    assert first.event.id == second.event.id == result.event.id == "e-1.1"


async def test_chunks_share_nothing_with_the_whole() -> None:
    """FLW-77, TRAP-4: their actions are empty and their own; the delta is the whole event's."""
    channel = Recorder()
    result = await ask(channel)
    assert result.event.actions.state_delta == {"seen": 3}
    actions = [one.event.actions for one in channel.published]
    assert [one.state_delta for one in actions] == [{}, {}]
    assert len({id(one) for one in [*actions, result.event.actions]}) == 3


async def test_chunks_are_merged_for_those_who_lack_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as no viewer comes, looking for one costs the same however many chunks are kept."""
    merged, merge = list[str](), kept.KeptChunks.__iter__

    def counted(self: kept.KeptChunks) -> Iterator[PartialEvent]:
        for one in merge(self):
            merged.append(one.event.text)
            yield one

    monkeypatch.setattr(kept.KeptChunks, "__iter__", counted)
    monkeypatch.setattr(chunks, "_REPEAT", 0.001)
    channel = Repeats()
    await ask(channel, pieces=[thought("Hm."), "a ", "b", thought("So."), channel.enough])
    assert merged == []
    assert [brief(one.event) for one in channel.earlier] == ["~(Hm.)", "~a b"]
    assert brief(channel.published[-1].event) == "~(So.)"


async def test_without_a_channel_callbacks_run_all_the_same() -> None:
    """FLW-75: whether somebody could watch changes nothing of what is stored."""
    watched, unwatched = await ask(Recorder()), await ask(None)
    assert unwatched == watched


async def test_without_streaming_there_are_no_chunks() -> None:
    """FLW-76: not even of a model that sends some unasked."""
    channel = Recorder()
    result = await ask(channel, config=None)
    assert channel.published == []
    assert result.event.actions.state_delta == {"seen": 1}
