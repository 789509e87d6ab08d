"""Playing one turn to its end as a client does, and noting each thing sent and seen."""

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.genai import types
from temporalio.service import RPCError

from campaign.tools import signed_in
from campaign.workload import SIGN_IN, Turn
from durable_adk.errors import DurableAdkError, InvalidRequestError, TransientError
from durable_adk.events import Event
from durable_adk.json_values import canonical
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, Status
from harness.journal import note

PATIENCE = 20.0
"""Seconds until a client stops waiting and asks again."""
PAUSE = 0.3
"""Seconds until it does."""
UNKNOWN = (TransientError, RPCError, TimeoutError, OSError)
"""Errors after which the outcome of a request is unknown."""


def digest(event: Event) -> str:
    """All of an event, in short."""
    dumped = canonical(event.model_dump(mode="json", exclude_none=True))
    return hashlib.sha256(dumped.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Player:
    """A client of one app."""

    runner: Runner
    journal: Path

    async def play(self, turn: Turn) -> str:
        """Send a turn until its outcome is known: ``ok``, or the name of its error."""
        attempt = 0
        while True:
            attempt += 1
            try:
                async with asyncio.timeout(PATIENCE):
                    await self._once(turn, attempt)
            except UNKNOWN as error:
                # Whether it has happened is not known: the same is sent again, under the same id.
                self._note(turn, "run", "info", attempt, error=repr(error)[:300])
            except Exception as error:  # noqa: BLE001 - also what a tool has raised
                name = getattr(error, "error_type", type(error).__name__)
                said = str(error)[:300]
                self._note(turn, "run", "fail", attempt, error=name, message=said)
                return name
            else:
                self._note(turn, "run", "ok", attempt)
                return "ok"
            await asyncio.sleep(PAUSE)

    async def _once(self, turn: Turn, attempt: int) -> None:
        later = asyncio.create_task(self._cancel_later(turn, attempt))
        try:
            await self._follow(turn, "run", attempt, turn.message)
            while True:
                if (pending := await self._pending(turn)) is not None:
                    await self._answer(turn, attempt, pending)
                elif await self._runs_on(turn):
                    # An earlier answer was accepted, and its sender did not learn of it.
                    await self._follow(turn, "run", attempt, None)
                else:
                    return
        finally:
            later.cancel()
            await asyncio.gather(later, return_exceptions=True)

    async def _follow(
        self, turn: Turn, operation: str, attempt: int, message: types.Content | str | None
    ) -> None:
        self._note(turn, operation, "invoke", attempt)
        options: dict[str, Any] = (
            {}
            if operation == "answer"
            else {"invocation_id": turn.invocation, "when_busy": turn.when_busy}
        )
        events: AsyncGenerator[Event, None] = self.runner.run_async(
            user_id=turn.user, session_id=turn.session, new_message=message, **options
        )
        async with aclosing(events):
            async for event in events:
                seen = {"event": event.id, "digest": digest(event)}
                self._note(turn, operation, "event", attempt, **seen)

    async def _pending(self, turn: Turn) -> types.FunctionResponse | None:
        """The answer to what waits in this turn; None: nothing does."""
        waiting = await self.runner.pending(user_id=turn.user, session_id=turn.session)
        for call in waiting:
            if call.invocation_id == turn.invocation:
                answer = signed_in(turn) if turn.app == SIGN_IN else _decided(turn)
                return answer.model_copy(update={"id": call.call_id, "name": call.name})
        return None

    async def _runs_on(self, turn: Turn) -> bool:
        sessions, key = self.runner.session_service, SessionKey(*turn[:3])
        record = await sessions.get_invocation(key, turn.invocation)
        return record is not None and record.status is Status.RUNNING

    async def _answer(self, turn: Turn, attempt: int, answer: types.FunctionResponse) -> None:
        message = types.Content(role="user", parts=[types.Part(function_response=answer)])
        try:
            await self._follow(turn, "answer", attempt, message)
            self._note(turn, "answer", "ok", attempt)
        except InvalidRequestError as error:
            # An attempt with an unknown outcome has answered; the result is in the store.
            self._note(turn, "answer", "info", attempt, error=repr(error)[:300])
            await self._follow(turn, "run", attempt, None)

    async def _cancel_later(self, turn: Turn, attempt: int) -> None:
        if turn.cancelled_after is None:
            return
        await asyncio.sleep(turn.cancelled_after)
        self._note(turn, "cancel", "invoke", attempt)
        with contextlib.suppress(*UNKNOWN, DurableAdkError):
            reached = await self.runner.cancel(
                user_id=turn.user, session_id=turn.session, invocation_id=turn.invocation
            )
            self._note(turn, "cancel", "ok", attempt, reached=reached)

    def _note(self, turn: Turn, operation: str, kind: str, attempt: int, **fields: Any) -> None:
        names = {**turn._asdict(), "invocation": turn.invocation, "attempt": attempt}
        note(self.journal, operation=operation, type=kind, **names, **fields)


def _decided(turn: Turn) -> types.FunctionResponse:
    return types.FunctionResponse(response={"confirmed": turn.approves})
