"""Tries to reach other users' sessions, files, memories and calls (I18).

Each attempt goes through the public API or Temporal's, under the probe's own user and with foreign
ids taken from journals. The outcome of each is written down.
"""

import asyncio
import random
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from google.genai import types
from temporalio.client import Client, WorkflowFailureError
from temporalio.service import RPCError

from campaign.run_folder import RunFolder
from campaign.tools import REPORT, code_of
from campaign.worker_main import QUEUE
from campaign.workload import CLEARED, PREFIX, Turn
from durable_adk.artifacts import BaseArtifactService
from durable_adk.errors import DurableAdkError, InvalidRequestError, TransientError
from durable_adk.memory import BaseMemoryService
from durable_adk.runners import Runner
from durable_adk.sessions.session import CHILD_PREFIX
from durable_adk.workflows.invocation import TYPE_NAME
from harness.journal import note, notes

EVERY = 2.0
"""Seconds between two rounds."""
PATIENCE = 20.0
"""Seconds until an attempt is abandoned."""
OWED = 3
"""Rounds in which a client has tried all ways in vain, in any case."""
_UNKNOWN = (TransientError, RPCError, TimeoutError, OSError)


@dataclass(frozen=True)
class AccessProbe:
    """A client that makes the attempts."""

    folder: RunFolder
    slot: str
    user: str
    runners: dict[str, Runner]
    """By app."""
    artifacts: BaseArtifactService
    memory: BaseMemoryService
    client: Client

    async def run(self, over: asyncio.Event, owed: int) -> None:
        """Try all ways on one foreign turn after another.

        Args:
            over: Set when there is nothing else to do.
            owed: How often each way has to have been in vain in any case.
        """
        dice = random.Random(self.slot)  # noqa: S311 - dice are no secrets
        while not (over.is_set() and self._in_vain() >= owed):
            await asyncio.sleep(EVERY)
            turns = self._foreign()
            if turns:
                await self._round(dice.choice(turns))

    def _foreign(self) -> list[Turn]:
        """Return the turns of other users that have yielded an event."""
        own = self.folder.journal(self.slot)
        lines = [line for path in self.folder.journals if path != own for line in notes(path)]
        found = {
            Turn(*(line[name] for name in Turn._fields))
            for line in lines
            if line["type"] == "event"
        }
        return sorted(turn for turn in found if turn.user not in (self.user, PREFIX))

    def _in_vain(self) -> int:
        """How often the rarest way was in vain, at what stays there."""
        tries = notes(self.folder.tries(self.slot))
        known = Counter(
            line["way"]
            for line in tries
            if line["type"] in ("refused", "nothing") and line["app"] != CLEARED
        )
        return min(known[way] for way in WAYS)

    async def _round(self, turn: Turn) -> None:
        for way, attempt in WAYS.items():
            what: dict[str, Any] = {**turn._asdict(), "invocation": turn.invocation}
            what |= {"way": way, "as_user": self.user}
            try:
                async with asyncio.timeout(PATIENCE):
                    given = await attempt(self, turn)
            except _UNKNOWN as error:
                what |= {"type": "unknown", "error": repr(error)[:300]}
            except DurableAdkError as error:
                what |= {"type": "refused", "error": error.error_type}
            else:
                what |= {"type": "given", "given": repr(given)} if given else {"type": "nothing"}
            note(self.folder.tries(self.slot), **what)

    # ----- the ways

    async def attach(self, turn: Turn) -> Any:
        """Follow a foreign invocation."""
        feed = self.runners[turn.app].run_async(**self._at(turn), invocation_id=turn.invocation)
        async with aclosing(feed) as events:
            return [event.id async for event in events]

    async def answer(self, turn: Turn) -> Any:
        """Answer a pending call of another user."""
        runner = self.runners[turn.app]
        waiting = await runner.pending(user_id=turn.user, session_id=turn.session)
        call = waiting[0].call_id if waiting else "adk-guessed"
        name = waiting[0].name if waiting else "adk_request_confirmation"
        response = types.FunctionResponse(id=call, name=name, response={"confirmed": True})
        message = types.Content(role="user", parts=[types.Part(function_response=response)])
        async with aclosing(runner.run_async(**self._at(turn), new_message=message)) as events:
            return [event.id async for event in events]

    async def session(self, turn: Turn) -> Any:
        """Read a foreign session."""
        sessions = self.runners[turn.app].session_service
        found = await sessions.get_session(app_name=turn.app, **self._at(turn))
        # A rewind creates a missing session, as in ADK: an own one, without events.
        return found and found.events

    async def pending(self, turn: Turn) -> Any:
        """List the pending calls of a foreign session."""
        return await self.runners[turn.app].pending(**self._at(turn))

    async def attempts(self, turn: Turn) -> Any:
        """List the model attempts of a foreign invocation."""
        name = turn.invocation
        return await self.runners[turn.app].attempts(**self._at(turn), invocation_id=name)

    async def cancel(self, turn: Turn) -> Any:
        """Cancel a foreign invocation."""
        name = turn.invocation
        return await self.runners[turn.app].cancel(**self._at(turn), invocation_id=name)

    async def rewind(self, turn: Turn) -> Any:
        """Rewind a foreign session."""
        runner, name = self.runners[turn.app], turn.invocation
        await runner.rewind_async(**self._at(turn), rewind_before_invocation_id=name)
        return "rewound"

    async def artifact(self, turn: Turn) -> Any:
        """Load a foreign file, by its session's name."""
        at: dict[str, Any] = {"app_name": turn.app, **self._at(turn)}
        return await self.artifacts.list_artifact_keys(**at) or await self.artifacts.load_artifact(
            **at, filename=REPORT
        )

    async def reference(self, turn: Turn) -> Any:
        """Load a foreign file through a file of one's own that refers to it."""
        uri = (
            f"artifact://apps/{turn.app}/users/{turn.user}/sessions/{turn.session}"
            f"/artifacts/{REPORT}/versions/0"
        )
        own: dict[str, Any] = {"app_name": turn.app, "user_id": self.user, "session_id": "own"}
        part = types.Part(file_data=types.FileData(file_uri=uri))
        await self.artifacts.save_artifact(**own, filename="link", artifact=part)
        return await self.artifacts.load_artifact(**own, filename="link")

    async def search(self, turn: Turn) -> Any:
        """Search for memories of a foreign session."""
        query = f"{code_of(turn.session)} {turn.word}"
        found = await self.memory.search_memory(app_name=turn.app, user_id=self.user, query=query)
        return [one.text for one in found.memories if _is_of(turn, one.text)]

    async def tool_run(self, turn: Turn) -> Any:
        """Start a run with the state of another session, which only the runtime may start (S3)."""
        forged = {
            "app": turn.app,
            "user": self.user,
            "session": f"forged-{uuid.uuid4().hex}",
            "message": "look",
            "toolRun": {"agent": self._root(turn), "caller": list(turn[:3])},
        }
        return await self._start(forged)

    async def kept_name(self, turn: Turn) -> Any:
        """Create a session whose name is reserved for such runs."""
        name = f"{CHILD_PREFIX}{uuid.uuid4().hex}"
        return await self._start(
            {"app": turn.app, "user": self.user, "session": name, "message": "look"}
        )

    async def _start(self, request: dict[str, Any]) -> Any:
        """Start a workflow by hand, as any client of Temporal may; its result.

        Raises:
            InvalidRequestError: It was refused.
        """
        name = f"forged-{uuid.uuid4().hex}"
        try:
            return await self.client.execute_workflow(TYPE_NAME, request, id=name, task_queue=QUEUE)
        except WorkflowFailureError as failure:
            if getattr(failure.cause, "type", "") != InvalidRequestError.__name__:
                raise TimeoutError(repr(failure.cause)) from failure  # nobody knows
            raise InvalidRequestError(str(failure.cause)) from failure

    def _root(self, turn: Turn) -> str:
        return self.runners[turn.app].app.root_agent.name

    def _at(self, turn: Turn) -> dict[str, Any]:
        """The foreign session's name under our own user's."""
        return {"user_id": self.user, "session_id": turn.session}


def _is_of(turn: Turn, text: str) -> bool:
    """Whether a memory is of a session; our own ones share words like ``word`` with the query."""
    return code_of(turn.session) in text or turn.word in text


WAYS: dict[str, Callable[[AccessProbe, Turn], Awaitable[Any]]] = {
    way.__name__: way
    for way in (
        *(AccessProbe.attach, AccessProbe.answer, AccessProbe.session, AccessProbe.pending),
        *(AccessProbe.attempts, AccessProbe.cancel, AccessProbe.rewind),
        *(AccessProbe.artifact, AccessProbe.reference, AccessProbe.search),
        *(AccessProbe.tool_run, AccessProbe.kept_name),
    )
}
"""All ways, by name."""
