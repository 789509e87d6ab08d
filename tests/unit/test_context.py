"""What contexts do with artifacts, and the keys they give."""

from collections.abc import AsyncIterator
from pathlib import Path

from durable_adk.artifacts import FileArtifactService
from durable_adk.context import MAX_ACTIVITY_ID, Services, StepScope, ToolContext
from durable_adk.sessions import Session


async def pieces(*chunks: bytes) -> AsyncIterator[bytes]:
    """Content that comes piece by piece."""
    for chunk in chunks:
        yield chunk


def attempt(service: FileArtifactService | None = None, call: str = "c") -> ToolContext:
    """The context of one more attempt at the same call."""
    scope = StepScope(
        session=Session(id="s", app_name="app", user_id="u"),
        invocation_id="i",
        agent_name="a",
        branch=None,
        user_content=None,
        event_id="e",
        services=Services(artifacts=service),
    )
    return ToolContext(scope, function_call_id=call)


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
    assert attempt(call="c").idempotency_key == "i:c"
    long = "\U0001f600" * 500
    assert len(attempt(call=long).idempotency_key.encode()) <= MAX_ACTIVITY_ID
    assert attempt(call=long).idempotency_key == attempt(call=long).idempotency_key
    assert attempt(call=long).idempotency_key != attempt(call=long + "x").idempotency_key
