"""A client that deletes its session and at once creates one of the same name.

The session may have a running tool, a call that waits for approval, or a queued message. The old
messages are appended to the new session, as an application does that lets users edit them.
"""

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from google.genai import types

from campaign.player import PAUSE, UNKNOWN, Player
from campaign.run_folder import RunFolder
from campaign.workload import CLEARED, GENERATION, Turn
from durable_adk.errors import AlreadyExistsError, DurableAdkError
from durable_adk.events import Event
from durable_adk.sessions import Session
from harness.journal import Line, note

T = TypeVar("T")
OWED = 3
"""Deletions in any case."""
KEPT = 6
"""Events that are appended again at most."""
MOMENTS = (0.3, 4.0)
"""Seconds after which a session is deleted: its tool runs for less than half of that."""
LATER = (0.5, 5.0)
"""Seconds after which what was under way is cancelled, should it be still."""
BEHIND = 0.2
"""Seconds until the second message is sent, which has to wait then."""


@dataclass(frozen=True)
class PartialAnswerer(Player):
    """A client that answers only every other request for approval."""

    async def _pending(self, turn: Turn) -> types.FunctionResponse | None:
        return await super()._pending(turn) if turn.number // GENERATION % 2 else None


@dataclass(frozen=True)
class SessionDeleter:
    """Deletes and creates one session, again and again."""

    folder: RunFolder
    slot: str
    player: Player
    stop: Path

    @property
    def _user(self) -> str:
        return f"user-{self.slot}"

    @property
    def _names(self) -> dict[str, Any]:
        session = f"{CLEARED}-{self.slot}"
        return {"app_name": CLEARED, "user_id": self._user, "session_id": session}

    async def go_on(self, journal: list[Line]) -> None:
        """Continue from the journal of an earlier process of this client, until told to stop."""
        dice = random.Random(f"{self.slot}/{len(journal)}")  # noqa: S311 - dice are no secrets
        sent = {line["invocation"]: False for line in journal if line["app"] == CLEARED}
        for line in journal:
            if line["invocation"] in sent and (line["type"] in ("ok", "fail")):
                sent[line["invocation"]] |= line["operation"] == "run"
        turns = [Turn.of(CLEARED, self._user, name) for name in sent]
        generation = max((turn.number // GENERATION for turn in turns), default=0)
        old = {turn: self._play(turn) for turn in turns if not sent[turn.invocation]}
        old |= {turn: self._play(None) for turn in turns if sent[turn.invocation]}
        endings: list[asyncio.Future[Any]] = [asyncio.ensure_future(asyncio.sleep(0))]
        while generation < OWED or not self.stop.exists():
            generation += 1
            kept = await self._delete(generation)
            endings.append(self._end(old, dice))
            await self._create(generation, kept)
            old = {
                turn: self._play(turn, BEHIND * number)
                for number, turn in enumerate(self._turns(generation))
            }
            await asyncio.sleep(dice.uniform(*MOMENTS))
            await endings.pop(0)
        await asyncio.gather(*endings, *old.values())
        await self._end(old, dice)

    def _turns(self, generation: int) -> list[Turn]:
        session = self._names["session_id"]
        first = generation * GENERATION + 1
        return [Turn(CLEARED, self._user, session, first + number) for number in range(2)]

    def _play(self, turn: Turn | None, after: float = 0.0) -> "asyncio.Task[None]":
        async def play() -> None:
            await asyncio.sleep(after)
            if turn is not None:
                await self.player.play(turn)

        return asyncio.create_task(play())

    def _end(
        self, old: "dict[Turn, asyncio.Task[None]]", dice: random.Random
    ) -> "asyncio.Future[Any]":
        """Cancel all invocations of a deleted session, and wait for their clients."""
        cancelling = (
            self._cancel(turn.invocation, dice.uniform(*LATER), played)
            for turn, played in old.items()
        )
        return asyncio.gather(*cancelling, *old.values())

    async def _delete(self, generation: int) -> list[Event]:
        """Delete the session; return its messages."""
        sessions = self.player.runner.session_service
        found = await _surely(lambda: sessions.get_session(**self._names))
        self._note("deleting", generation)
        await _surely(lambda: sessions.delete_session(**self._names))
        self._note("deleted", generation)
        return [event for event in found.events if _is_said(event)][-KEPT:] if found else []

    async def _create(self, generation: int, events: list[Event]) -> None:
        """Create it and append the old messages, unless a queued message has created it first."""
        sessions = self.player.runner.session_service

        async def create() -> Session | None:
            try:
                return await sessions.create_session(**self._names)
            except AlreadyExistsError:
                return await sessions.get_session(**self._names)

        session = await _surely(create)
        if session is None:
            return
        with contextlib.suppress(DurableAdkError):
            for event in events:
                self._note("kept", generation, event=event.id)
                await sessions.append_event(session, event)

    async def _cancel(self, invocation: str, after: float, played: "asyncio.Task[None]") -> None:
        """Cancel an invocation: one that waits for an answer does not notice the deletion.

        Its start may still be under way, and then it is not found. Or its client repeats the
        message in a later session, where it begins anew. So it is cancelled again when its client
        has seen it end or ask.
        """
        names = {"user_id": self._user, "session_id": self._names["session_id"]}

        async def cancel() -> None:
            with contextlib.suppress(DurableAdkError):
                await _surely(lambda: self.player.runner.cancel(**names, invocation_id=invocation))

        await asyncio.sleep(after)
        await cancel()
        await asyncio.wait({played})
        await cancel()

    def _note(self, kind: str, generation: int, **fields: str) -> None:
        what = {"app": CLEARED, "user": self._user, "session": self._names["session_id"]}
        note(self.folder.clears(self.slot), type=kind, generation=generation, **what, **fields)


async def _surely(work: Callable[[], Awaitable[T]]) -> T:
    """Do something until it is known to be done."""
    while True:
        try:
            return await work()
        except UNKNOWN:
            await asyncio.sleep(PAUSE)


def _is_said(event: Event) -> bool:
    """Whether an event is a message, or an answer in words: what a user knows of a conversation."""
    parts = (event.content and event.content.parts) or []
    return bool(parts) and all(part.text for part in parts)
