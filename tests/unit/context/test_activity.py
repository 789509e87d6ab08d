"""What contexts do with artifacts, and the keys they give."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.genai import types

from durable_adk.artifacts import FileArtifactService
from durable_adk.context.activity import MAX_ACTIVITY_ID, CallbackContext, ToolContext
from durable_adk.context.step_scope import Services, StepScope
from durable_adk.errors import StoreUnavailableError
from durable_adk.sessions import Session


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    """Content that comes piece by piece."""
    for chunk in chunks:
        yield chunk


def attempt(
    service: FileArtifactService | None = None,
    *,
    call: str | None = "c",
    invocation: str = "i",
    user: str = "u",
    save_key: str = "",
    created: int = 0,
) -> ToolContext:
    """The context of one more attempt at the same call."""
    scope = StepScope(
        session=Session(id="s", app_name="app", user_id=user),
        invocation_id=invocation,
        agent_name="a",
        branch=None,
        user_content=None,
        event_id="e",
        services=Services(artifacts=service),
        created_epoch=created,
    )
    return ToolContext(scope, function_call_id=call, save_key=save_key)


class Hesitant(FileArtifactService):
    """Does not answer at first, though it has done what it was asked for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.asked: Counter[str] = Counter()

    async def save_artifact(self, **given: Any) -> int:
        """See the base class."""
        saved = await super().save_artifact(**given)
        self._hesitate("save")
        return saved

    async def save_artifact_stream(self, **given: Any) -> int:
        """See the base class."""
        self._hesitate("stream")
        return await super().save_artifact_stream(**given)

    async def load_artifact(self, **given: Any) -> types.Part | None:
        """See the base class."""
        self._hesitate("load")
        return await super().load_artifact(**given)

    def _hesitate(self, what: str) -> None:
        self.asked[what] += 1
        if self.asked[what] <= 2:
            raise StoreUnavailableError


async def test_a_tool_waits_for_a_store_that_is_away_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRAP-41: what is saved again is the same version; chunks that are used up are not sent."""
    monkeypatch.setattr("durable_adk.retrying.PAUSE", 0.0)
    service = Hesitant(tmp_path)
    context = attempt(service)
    part = types.Part(text="one")
    assert await context.save_artifact("a", part) == 0
    assert await context.save_artifact("a", part) == 1
    assert await context.load_artifact("a", version=0) == part
    assert service.asked == {"save": 4, "load": 3}
    with pytest.raises(StoreUnavailableError):
        await context.save_artifact_stream("a", pieces(b"x"))
    assert service.asked["stream"] == 1


async def test_it_waits_for_some_seconds_and_a_callback_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store that stays away is left to the step, which is retried."""
    service = Hesitant(tmp_path)
    monkeypatch.setattr("durable_adk.retrying.SERVICE_TIMEOUT", -1.0)
    with pytest.raises(StoreUnavailableError):
        await attempt(service).load_artifact("a")
    callback = CallbackContext(attempt(service)._scope)
    with pytest.raises(StoreUnavailableError):
        await callback.load_artifact("a")
    assert service.asked["load"] == 2


async def test_a_stream_is_saved_once_by_all_attempts_of_a_step(tmp_path: Path) -> None:
    """TRAP-41, CTX-9: its version rides on the event, and another save is another version."""
    service = FileArtifactService(tmp_path)
    for _ in range(2):
        context = attempt(service)
        assert await context.save_artifact_stream("a", pieces(b"one ", b"two")) == 0
        assert await context.save_artifact_stream("a", pieces(b"x"), mime_type="a/b") == 1
        assert context.actions.artifact_delta == {"a": 1}
    reader = await attempt(service).open_artifact("a", version=0)
    assert reader is not None
    assert b"".join([chunk async for chunk in reader]) == b"one two"
    latest = await attempt(service).open_artifact("a")
    assert latest is not None
    assert (latest.version, latest.size, latest.mime_type) == (1, 1, "a/b")
    assert await attempt(service).open_artifact("b") is None


def test_a_key_has_room_in_temporal_whatever_the_call_is_named() -> None:
    """DUR-9: providers put what they like into a call's id, and Temporal takes 1,000 bytes."""
    long = "\U0001f600" * 500
    assert len(attempt(call=long).idempotency_key.encode()) <= MAX_ACTIVITY_ID
    assert attempt(call=long).idempotency_key == attempt(call=long).idempotency_key
    assert attempt(call=long).idempotency_key != attempt(call=long + "x").idempotency_key


def test_calls_of_the_same_ids_have_keys_of_their_own() -> None:
    """DUR-9: clients choose ids of invocations, and models those of calls."""
    like = {"invocation": "i", "call": "c:d", "user": "u"}
    others = [{"invocation": "i:c", "call": "d"}, {"user": "bob"}, {"created": 1}, {}]
    assert len({attempt(**like | other).idempotency_key for other in others}) == 4


async def test_a_call_and_a_callback_save_versions_of_their_own(tmp_path: Path) -> None:
    """TRAP-41: a call may have the name of a hook as its id."""
    service = FileArtifactService(tmp_path)
    part = types.Part(text="one")
    assert await attempt(service, call="on_event_callback").save_artifact("a", part) == 0
    callback = attempt(service, call=None, save_key="on_event_callback")
    assert await callback.save_artifact("a", part) == 1
