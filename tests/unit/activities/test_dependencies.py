"""What a step may still store outside of the log when its invocation has ended."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.genai import types

from durable_adk.activities.dependencies import Dependencies
from durable_adk.agents import LlmAgent
from durable_adk.apps import App, AppRegistry
from durable_adk.artifacts import FileArtifactService
from durable_adk.context.activity import ToolContext
from durable_adk.context.step_scope import Services
from durable_adk.errors import LeaseLostError, SessionNotFoundError
from durable_adk.events import Event
from durable_adk.memory import InMemoryMemoryService, MemoryEntry
from durable_adk.sessions import InMemorySessionService, SessionKey, Status
from durable_adk.wire.steps import FunctionStep, HookStep, ToolStep

KEY = SessionKey("app", "u", "s")
CHILD = KEY.child("call")


class Saving:
    """A step of an invocation, or of the agent that a call of it uses, and how either ends."""

    def __init__(self, folder: Path) -> None:
        self.sessions = InMemorySessionService()
        self.files = FileArtifactService(folder)
        self.memory = InMemoryMemoryService()
        self.folder = folder
        self.deps = Dependencies(
            registry=AppRegistry([App(name="app", root_agent=LlmAgent(name="a", model="m"))]),
            sessions=self.sessions,
            services=Services(artifacts=self.files, memory=self.memory),
        )

    async def open(self, key: SessionKey = KEY) -> int:
        """Open invocation e-1 in a session, and return its epoch."""
        message = Event(id="e-1.0", invocation_id="e-1", author="user", timestamp=1.0)
        opened = await self.sessions.open_invocation(
            key, invocation_id="e-1", lease_owner="h", user_event=message, create_session=True
        )
        return opened.epoch

    async def context(self, kind: type[ToolStep] = ToolStep, key: SessionKey = KEY) -> ToolContext:
        """The context of a step, which belongs to the invocation in `KEY`."""
        epoch = await self.open()
        owner = None
        if key != KEY:
            epoch, owner = await self.open(key), KEY
        named = {ToolStep: {"call_id": "c", "tool": "t"}, FunctionStep: {"function": "f"}}
        step = kind(
            key=key, invocation_id="e-1", revision=1, run_start=1, agent="a", event_id="e-1.1",
            attempt_timeout=10, epoch=epoch, artifact_owner=owner,
            **named.get(kind, {"hook": "on_run_error_callback"}),
        )  # fmt: skip
        _, scope = await self.deps.scope(step)
        return ToolContext(scope, function_call_id="c")

    async def end(self, how: str) -> None:
        """End the invocation in `KEY`, without the step."""
        if how not in ("deleted", "made anew"):
            record = await self.sessions.get_invocation(KEY, "e-1")
            assert record is not None
            await self.sessions.close_invocation(
                KEY, invocation_id="e-1", epoch=record.epoch, status=Status(how)
            )
            return
        await self.sessions.delete_session(**named(KEY))
        if how == "made anew":
            await self.open()

    def left(self) -> list[Path]:
        """What the folder of the artifacts has."""
        return [path for path in self.folder.rglob("*") if path.is_file()]


def named(key: SessionKey) -> dict[str, str]:
    """A session as the store's calls name it."""
    return key._asdict()


@pytest.mark.parametrize("key", [KEY, CHILD])
@pytest.mark.parametrize("how", ["abandoned", "failed", "deleted", "made anew"])
async def test_what_comes_after_the_end_is_not_saved(
    tmp_path: Path, key: SessionKey, how: str
) -> None:
    """I6: no version, content or memory of an attempt that was taken over from is left."""
    saving = Saving(tmp_path)
    context = await saving.context(key=key)
    started = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal started
        started += 1
        yield b"before"
        await saving.end(how)
        yield b"after"

    refused = pytest.raises((LeaseLostError, SessionNotFoundError))
    assert await context.save_artifact("kept", types.Part(text="in time")) == 0
    before = saving.left()
    with refused:
        await context.save_artifact_stream("user:late", chunks())
    with refused:
        await context.save_artifact("user:late", types.Part(text="late"))
    with refused:
        await context.add_memory(memories=[MemoryEntry(content=types.UserContent("late"))])
    assert (saving.left(), started) == (before, 1)
    found = await saving.memory.search_memory(app_name="app", user_id="u", query="late")
    assert found.memories == []


async def test_who_may_save_without_the_lease(tmp_path: Path) -> None:
    """A custom body runs on while its invocation is paused, and a plugin sees the end."""
    saving, part = Saving(tmp_path), types.Part(text="x")
    body = await saving.context(FunctionStep)
    plugin = await saving.context(HookStep)
    await saving.sessions.pause_invocation(KEY, invocation_id="e-1", epoch=1)
    assert await body.save_artifact("a", part) == 0
    await saving.sessions.resume_invocation(
        KEY, invocation_id="e-1", lease_owner="h", user_event=None
    )
    assert await body.save_artifact("a", part) == 1
    await saving.end("failed")
    assert await plugin.save_artifact("b", part) == 0
