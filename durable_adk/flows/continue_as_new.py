"""Continue-as-new: a new workflow run, before the history of this one is too long (D10).

Every branch regularly reaches a safe point, at which none of its steps is running: before each
model call, after each event and before each step of a custom agent's body, and while it waits for
an answer. Once the history is long, branches stop at their safe points. Once all of them have
stopped or wait, the loop writes its checkpoint, and continues from it in a new workflow run.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence

from durable_adk.context.journal import Entry, Journal
from durable_adk.errors import DurableAdkError, PayloadTooLargeError
from durable_adk.flows.agent_scope import AgentScope, Branch
from durable_adk.flows.runtime import Runtime
from durable_adk.flows.state import LoopState
from durable_adk.json_values import canonical
from durable_adk.wire.checkpoint import (
    Checkpoint,
    Cursor,
    PendingState,
    ReadJournalStep,
    SaveCheckpointStep,
    SaveJournalStep,
    digest,
    packed,
    unpacked,
)
from durable_adk.wire.messages import check_size
from durable_adk.wire.steps import Ending

MAX_OUTCOMES = 1000
"""Number of latest answers whose repeats the next workflow run recognises."""
SEVERAL = 4.0
"""How full a history must be before busy branches wait for each other; a single one never waits."""
PART_BYTES = 500_000
"""Size of a part of a journal before packing, which may make random data a third larger."""
MAX_CHECKPOINT_BYTES = 1_500_000
"""A packed checkpoint is the result of an activity; Temporal's own limit is 2 MiB (1c)."""
RETRY_AFTER = 20
"""Number of steps before a checkpoint that was too large is packed again.

Packing 2 MB takes 0.1 s, also at each replay: too much for every safe point. Once in twenty steps
it is negligible. The run then continues as new some hundred events late, of the thousands that its
history may have.
"""


class ContinueAsNew:
    """Decides when the invocation continues in a new workflow run, and writes the checkpoint."""

    def __init__(self, state: LoopState) -> None:
        self._state = state
        self._parked: list[asyncio.Future[None]] = []
        self._sleeping = 0
        """Number of busy branches that do nothing but wait for a time that is in their position."""
        self._saving = False
        self._progress = 0
        """Steps since the workflow run began; negative after a checkpoint was too large."""
        self.cursor: asyncio.Future[Cursor] = asyncio.get_running_loop().create_future()
        """Set when this workflow run is over, to where the next one continues."""

    def progressed(self) -> None:
        """Record that the invocation has progressed: no workflow run ends before it has."""
        self._progress += 1

    async def safe_point(
        self, body: Journal | None = None, *, branch: Branch | None = None
    ) -> None:
        """Stop here if it is time to continue as new: no step of this branch is running.

        Args:
            branch: The branch. One whose cancellation a step has swallowed ends here: whatever has
                cancelled it waits for its end, and the workflow run for both.
            body: Journal of the body that reaches this point. It is not a safe point while a
                sub-agent's run is suspended at an event that the body has yielded on.

        Raises:
            DurableAdkError: The checkpoint could not be written.
            CancelledError: The branch was cancelled.
        """
        if branch is not None:
            self._state.require_active(branch)
        due = self._saving or self._is_due()  # a sleeping branch may wake up meanwhile
        if not due or (body is not None and body.sub_runs):
            return
        parked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._parked.append(parked)
        self._state.runtime.inbox.wake()
        try:
            await parked  # until the workflow run ends, or the branch is cancelled
        finally:
            self._parked.remove(parked)

    async def sleep(self, seconds: float) -> None:
        """Sleep; meanwhile the invocation may continue as new.

        A safe point has to follow at once, and the position has to say when the branch continues.

        Raises:
            CancelledError: The branch is cancelled.
        """
        self._sleeping += 1
        if self._is_due():
            self._state.runtime.inbox.wake()
        try:
            await asyncio.sleep(max(seconds, 0.0))
        finally:
            self._sleeping -= 1

    @property
    def is_ready(self) -> bool:
        """Whether all branches have stopped or wait."""
        busy = self._state.branches.busy - self._sleeping
        # A released branch has not run yet, so it is still in the list. Counting it would make the
        # run ready again at once, for ever.
        stopped = sum(not parked.done() for parked in self._parked)
        return stopped == busy and (busy > 0 or self._is_due())

    def _is_due(self) -> bool:
        tangled = any(journal.tangled for journal in self._state.journals.values())
        if tangled or self._progress <= 0:
            return False
        several = self._state.branches.busy - self._sleeping > 1
        return self._state.runtime.fullness() >= (SEVERAL if several else 1.0)

    async def save(self) -> bool:
        """Write checkpoints until nothing changes meanwhile; return whether the run is over now."""
        self._saving = True
        try:
            return await self._saved()
        finally:
            self._saving = False

    async def _saved(self) -> bool:
        state = self._state
        number, written, stored = state.checkpoint.number + 1, None, ""
        try:
            if state.reads_state:
                # The next run reads the state again.
                check_size(canonical(state.session.state), "The state")
            bodies = await self._save_journals()
            while (step := self._step(number, bodies)) != written:
                stored = await state.runtime.perform(step)
                written = step
        except PayloadTooLargeError:
            self._progress = -RETRY_AFTER
            self._release()
            return False
        if state.runtime.cancelled():
            return False
        self.cursor.set_result(
            Cursor(
                app=state.key.app_name,
                user=state.key.user_id,
                session=state.key.session_id,
                invocation_id=state.invocation_id,
                checkpoint=number,
                digest=stored,
            )
        )
        return True

    def _step(self, number: int, bodies: dict[str, str | None]) -> SaveCheckpointStep:
        self._state.runtime.inbox.drain()
        text = saved(self._state, number, bodies).to_json()
        checkpoint = packed(text)
        check_size(checkpoint, "What the invocation has to take along", MAX_CHECKPOINT_BYTES)
        return SaveCheckpointStep(
            key=self._state.key,
            invocation_id=self._state.invocation_id,
            number=number,
            digest=digest(text),
            checkpoint=checkpoint,
        )

    async def _save_journals(self) -> dict[str, str | None]:
        """Write what bodies have received; all branches are stopped, so nothing is added.

        Returns:
            The last part of each journal. If the checkpoint proves too large, this run continues,
            and writes other parts the next time, after those of the runs before.
        """
        bodies = dict(self._state.checkpoint.bodies)
        parts = [
            (name, packed(json.dumps([name, part])))
            for name, journal in self._state.journals.items()
            for part in _parts(journal.fresh)
        ]
        for name, part in parts:
            check_size(part, "What a custom agent's body was given at once", MAX_CHECKPOINT_BYTES)
            step = SaveJournalStep(
                key=self._state.key,
                invocation_id=self._state.invocation_id,
                body=name,
                part=part,
                before=bodies[name],
            )
            bodies[name] = await self._state.runtime.perform(step)
        return bodies

    def _release(self) -> None:
        """Let stopped branches continue: this workflow run does not end yet."""
        for parked in self._parked:
            if not parked.done():
                parked.set_result(None)

    def fail(self, error: DurableAdkError) -> None:
        """Let stopped branches raise an error, which ends the invocation."""
        for parked in self._parked:
            if not parked.done():
                parked.set_exception(error)

    # ----- the journals of custom agents' bodies

    def open_journal(self, scope: AgentScope) -> Journal | None:
        """Return the journal of a body that begins or is rebuilt; None without continue-as-new."""
        state = self._state
        if not state.runtime.rolls:
            return None
        name = scope.position.body
        if name is None:
            state.checkpoint.counters.bodies += 1
            name = f"body-{state.checkpoint.counters.bodies}"
            state.checkpoint.bodies[name] = None
            scope.position.body = name
        journal = Journal(name, scope.ctx.agent_name, state.session, state.past.pop(name, ()))
        journal.on_tangled = self._release
        state.journals[name] = journal
        return journal

    def close_journal(self, scope: AgentScope) -> None:
        """Drop the journal of a body that has ended."""
        if scope.journal is not None:
            self._state.journals.pop(scope.journal.name, None)
            self._state.checkpoint.bodies.pop(scope.journal.name, None)
            scope.position.body = None


def saved(state: LoopState, number: int, bodies: dict[str, str | None] | None = None) -> Checkpoint:
    """Return the checkpoint to write: with values known only now, without obsolete ones."""
    checkpoint = state.checkpoint
    return checkpoint.model_copy(
        update={
            "number": number,
            "bodies": checkpoint.bodies if bodies is None else bodies,
            "local_state": state.local_state(),
            "pending": _still_needed(state, checkpoint.pending),
        }
    )


def _still_needed(state: LoopState, pending: PendingState) -> PendingState:
    """Return the pending calls and answers that the next workflow run needs."""
    latest = dict(list(pending.outcomes.items())[-MAX_OUTCOMES:])
    kept = {*latest, *(answer.answer_id or "" for answer in pending.unread)}
    branches = state.branches
    return pending.model_copy(
        update={
            "waiting": [
                call
                for call in pending.waiting
                if call.branch in branches.ids and call.branch not in branches.stopped
            ],
            # Only branches beside the answered one need these.
            "delivered": pending.delivered if len(branches.ids) > 1 else set[str](),
            "outcomes": latest,
            "delivered_messages": set(sorted(pending.delivered_messages)[-MAX_OUTCOMES:]),
            "digests": {
                name: pending.digests[name] for name in sorted(kept) if name in pending.digests
            },
        }
    )


def _parts(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the entries in order, in parts of at most `PART_BYTES` unless one alone is larger."""
    parts: list[list[Entry]] = []
    size = PART_BYTES
    for entry in entries:
        length = len(json.dumps(entry))
        if size + length > PART_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(entry)
        size += length
    return parts


async def past_entries(
    runtime: Runtime, cursor: Cursor, bodies: Mapping[str, str | None]
) -> dict[str, list[Entry]] | Ending:
    """Return all earlier runs' entries by journal, or the ending if the invocation has ended."""
    past: dict[str, list[Entry]] = {name: [] for name in bodies}
    parts: list[str] = []
    left = [part for part in bodies.values() if part is not None]
    while left:
        page = await runtime.perform(
            ReadJournalStep(key=cursor.key, invocation_id=cursor.invocation_id, parts=left)
        )
        if page.ending is not None:
            return page.ending
        parts += page.parts
        left = page.next
    for text in reversed(parts):  # of each journal the last one was read first
        name, entries = json.loads(unpacked(text))
        past[name] += entries
    return past
