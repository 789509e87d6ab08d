"""Where a conversation is held that is recorded."""

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from google.genai import types
from temporalio.client import Client, WorkflowExecution, WorkflowExecutionStatus

from durable_adk.activities.invocation.take_over import NOTIFIED
from durable_adk.apps import App
from durable_adk.errors import DurableAdkError
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, Status
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from tests.support.waiting import until

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
        except (DurableAdkError, LookupError):  # the tool's own, where it was raised
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

    async def steer_in_tool(self, text: str, done: threading.Event) -> None:
        """Say something that the run is to hear, once a tool is called, which then may end."""
        called = await until(self._called)
        sending = asyncio.create_task(self.send(text, when_busy="steer"))
        told = {"invocation_id": called, "kind": NOTIFIED}
        key = SessionKey(self.app.name, USER["user_id"], USER["session_id"])
        await until(lambda: self.runner.session_service.read_notes(key, **told))
        done.set()
        await sending

    async def cancel_in_tool(self) -> None:
        """Cancel, once a tool is called."""
        called = await until(self._called)
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
        runs = await until(self._listed)
        return [self.client.get_workflow_handle(run.id, run_id=run.run_id) for run in runs]

    async def _listed(self) -> list[WorkflowExecution]:
        """All workflow runs, or none while the list, which comes later, lacks one."""
        runs = [run async for run in self.client.list_workflows(f"TaskQueue = '{self.queue}'")]
        runs.sort(key=lambda run: (run.start_time, run.id))
        last = {run.id: run.status for run in runs}
        named = (TemporalLeaseOwner.parse(owner) for owner in await self._lease_owners())
        known = {owner.workflow_id for owner in named if owner is not None}
        follows = WorkflowExecutionStatus.CONTINUED_AS_NEW in last.values()
        return [] if follows or not known <= last.keys() else runs

    async def _lease_owners(self) -> list[str]:
        service = self.runner.session_service
        found = await service.invocations_by_time(app_name=self.app.name, statuses=set(Status))
        return [record.lease_owner for _, record in found]

    async def _called(self) -> str | None:
        session = await self.runner.session_service.get_session(app_name=self.app.name, **USER)
        events = session.events if session else []
        return next((one.invocation_id for one in events if one.get_function_calls()), None)

    async def _hear(self, message: types.Content, **options: Any) -> None:
        async for _ in self.runner.run_async(**USER, new_message=message, **options):
            pass
