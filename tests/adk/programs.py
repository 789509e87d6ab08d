"""Short programs that come to something else than with google-adk, as declared.

They are written with ADK's names only, so that google-adk runs them by the same lines (`alias`).
"""

import asyncio
import io
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.agents.context_cache_config import ContextCacheConfig
from durable_adk.apps import App, ResumabilityConfig
from durable_adk.artifacts import FileArtifactService
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse, ScriptedModel
from durable_adk.plugins import BasePlugin
from durable_adk.runners import InMemoryRunner
from durable_adk.tools.base_toolset import BaseToolset
from tests.support.scripts import call
from tests.support.waiting import forever

TURNS = 10
"""Of the event loop: a cancellation that is passed on has arrived by then."""

PLACE = {"app_name": "app", "user_id": "u", "session_id": "s"}


class Noting(BaseLlm):
    """Says a word after a chunk, and notes what it is asked."""

    model: str = "noting"
    asked: list[Any]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Respond."""
        self.asked.append(llm_request)
        yield LlmResponse(content=said("wo", "model"), partial=True)
        yield LlmResponse(content=said("word", "model"))


def said(text: str, role: str = "user") -> types.Content:
    """A text."""
    return types.Content(role=role, parts=[types.Part(text=text)])


async def run(
    agent: LlmAgent, message: types.Content | None = None, **fields: Any
) -> tuple[list[Any], InMemoryRunner]:
    """The events that a message leads to, and the runner."""
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, **fields))
    await runner.session_service.create_session(**PLACE)
    place = {name: value for name, value in PLACE.items() if name != "app_name"}
    events = runner.run_async(**place, new_message=message or said("hi"))
    return [event async for event in events], runner


async def no_model(_: Path) -> Any:
    """The model of an agent that has none."""
    try:
        return LlmAgent(name="a").canonical_model.model
    except ValueError as error:
        return type(error).__name__


async def cached_contexts(_: Path) -> Any:
    """Whether the model is told how to cache contexts."""
    model = Noting(asked=[])
    await run(LlmAgent(name="a", model=model), context_cache_config=ContextCacheConfig())
    return getattr(model.asked[0], "cache_config", None) is not None


async def files_of_artifacts(folder: Path) -> Any:
    """The names in a folder, before one is saved."""
    service = FileArtifactService(folder)
    names = await service.list_artifact_keys(**PLACE)
    await service.save_artifact(**PLACE, filename="a.txt", artifact=types.Part(text="a"))
    return names


async def chunks_that_nobody_asked_for(_: Path) -> Any:
    """The chunks that come without `StreamingMode.SSE`."""
    events, _ = await run(LlmAgent(name="a", model=Noting(asked=[])))
    return sum(bool(event.partial) for event in events)


async def classes_of_contents(_: Path) -> Any:
    """The class of the message in a model's request."""
    model = Noting(asked=[])
    await run(LlmAgent(name="a", model=model), types.UserContent(parts=[types.Part(text="hi")]))
    return type(model.asked[0].contents[0]).__name__


async def a_close_that_is_cancelled(_: Path) -> Any:
    """Whether the `close` of a toolset is cancelled with the runner's."""
    began, let_go, cancelled = asyncio.Event(), asyncio.Event(), []

    class Slow(BaseToolset):
        async def get_tools(self, readonly_context: Any = None) -> list[Any]:
            return []

        async def close(self) -> None:
            began.set()
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                cancelled.append(self)
                raise

    agent = LlmAgent(name="a", model=ScriptedModel(replies=["hi"]), tools=[Slow()])
    closing = asyncio.create_task(InMemoryRunner(app=App(name="app", root_agent=agent)).close())
    await began.wait()
    closing.cancel()
    for _ in range(TURNS):
        await asyncio.sleep(0)
    let_go.set()
    with suppress(asyncio.CancelledError):
        await closing
    return bool(cancelled)


async def a_run_that_is_cancelled(_: Path) -> Any:
    """The error codes of the events that are stored, and how many a plugin sees."""
    began, seen = asyncio.Event(), []

    async def wait() -> None:
        """Wait."""
        began.set()
        await forever()

    class Seeing(BasePlugin):
        async def on_event_callback(self, *, invocation_context: Any, event: Any) -> None:
            seen.append(event)

    agent = LlmAgent(name="a", model=ScriptedModel(replies=[call("wait")]), tools=[wait])
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[Seeing(name="seeing")]))
    await runner.session_service.create_session(**PLACE)
    place = {name: value for name, value in PLACE.items() if name != "app_name"}

    async def follow() -> None:
        async for _ in runner.run_async(**place, new_message=said("hi")):
            pass

    following = asyncio.create_task(follow())
    await began.wait()
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following
    await runner.close()
    session = await runner.session_service.get_session(**PLACE)
    assert session
    codes = [event.error_code for event in session.events if event.error_code]
    return {"stored": codes, "seen": [event.error_code for event in seen]}


async def debugging(_: Path) -> Any:
    """The lines that are printed."""
    runner = InMemoryRunner(agent=LlmAgent(name="a", model=ScriptedModel(replies=["word"])))
    with redirect_stdout(io.StringIO()) as printed:
        await runner.run_debug("hi")
    return printed.getvalue().splitlines()


async def ends_of_agents(_: Path) -> Any:
    """The events that only say that an agent has ended, in an app that is resumable."""
    agent = LlmAgent(name="a", model=ScriptedModel(replies=["word"]))
    config = ResumabilityConfig(is_resumable=True)
    events, _ = await run(agent, resumability_config=config)
    return sum(bool(event.actions.end_of_agent) for event in events)


PROGRAMS: Mapping[str, Callable[[Path], Awaitable[Any]]] = {
    program.__name__: program
    for program in (
        no_model,
        cached_contexts,
        files_of_artifacts,
        chunks_that_nobody_asked_for,
        classes_of_contents,
        a_close_that_is_cancelled,
        a_run_that_is_cancelled,
        debugging,
        ends_of_agents,
    )
}
"""By name."""
