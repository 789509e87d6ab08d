"""Where a conversation is held that is recorded."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from google.genai import types
from temporalio.client import Client

from durable_adk.apps import App
from durable_adk.errors import DurableAdkError
from durable_adk.runners import Runner

USER = {"user_id": "u", "session_id": "s"}


@dataclass
class Stage:
    """One session, and who speaks in it."""

    client: Client
    app: App
    runner: Runner
    queue: str
    _speaking: asyncio.Task[None] | None = None

    async def send(self, text: str, *, fails: bool = False, **options: Any) -> None:
        """Say something, and hear what comes of it."""
        message = types.Content(role="user", parts=[types.Part(text=text)])
        try:
            await self._hear(message, **options)
        except DurableAdkError:
            if not fails:
                raise

    async def begin(self, text: str) -> None:
        """Say something, and do not wait."""
        self._speaking = asyncio.create_task(self.send(text, fails=True))

    async def answer(self, response: dict[str, Any]) -> None:
        """Answer what is asked, and hear what comes of it."""
        (pending,) = await self.runner.pending(**USER)
        answer = types.FunctionResponse(id=pending.call_id, name=pending.name, response=response)
        await self._hear(types.Content(role="user", parts=[types.Part(function_response=answer)]))

    async def steer_in_tool(self, text: str) -> None:
        """Say something that the run is to hear, once a tool is called."""
        while not await self._called():
            await asyncio.sleep(0.05)
        await self.send(text, when_busy="steer")

    async def cancel_in_tool(self) -> None:
        """Cancel, once a tool is called."""
        while not (called := await self._called()):
            await asyncio.sleep(0.05)
        await self.runner.cancel(**USER, invocation_id=called)
        if self._speaking is not None:
            with suppress(asyncio.CancelledError):
                await self._speaking

    async def ended(self) -> None:
        """Wait for the end of all that has begun."""
        for handle in await self._handles():
            with suppress(Exception):  # how it ends is in the history
                await handle.result()

    async def histories(self) -> list[dict[str, Any]]:
        """Of every run, with its workflow's id."""
        await self.ended()
        return [
            {"id": handle.id, "history": (await handle.fetch_history()).to_json_dict()}
            for handle in await self._handles()
        ]

    async def _handles(self) -> list[Any]:
        await asyncio.sleep(0.3)  # the list of workflows comes a little later
        runs = [run async for run in self.client.list_workflows(f"TaskQueue = '{self.queue}'")]
        runs.sort(key=lambda run: (run.start_time, run.id))
        return [self.client.get_workflow_handle(run.id, run_id=run.run_id) for run in runs]

    async def _called(self) -> str | None:
        session = await self.runner.session_service.get_session(app_name=self.app.name, **USER)
        events = session.events if session else []
        return next((one.invocation_id for one in events if one.get_function_calls()), None)

    async def _hear(self, message: types.Content, **options: Any) -> None:
        async for _ in self.runner.run_async(**USER, new_message=message, **options):
            pass
