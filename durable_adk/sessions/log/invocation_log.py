"""Lifecycle of an invocation in the session log: open, commit, pause, resume, close."""

from collections.abc import Sequence
from typing import Any

from durable_adk.errors import InvalidRequestError, SessionBusyError
from durable_adk.events.event import Event
from durable_adk.json_values import check_id
from durable_adk.sessions.log import invocations, pause
from durable_adk.sessions.log.entry import decode_event, entry_of
from durable_adk.sessions.log.storage import Row
from durable_adk.sessions.log.transactions import Transactions
from durable_adk.sessions.records import (
    InvocationRecord,
    QueueBounds,
    QueuePosition,
    Status,
    StoredEvent,
)
from durable_adk.sessions.session import SessionKey, checked_key


class InvocationLog(Transactions):
    """Operations of an invocation under its session's lease (D4, D7, D8)."""

    async def open_invocation(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        lease_owner: str,
        user_event: Event,
        create_session: bool = False,
        ttl: float | None = None,
        position: QueuePosition | None = None,
        steers: bool = False,
        may_reply: bool = False,
        bounds: QueueBounds | None = None,
        caller: SessionKey | None = None,
    ) -> InvocationRecord:
        """Take the session's lease and append the user's event, or take a ticket; once (D7).

        Args:
            key: The session.
            invocation_id: The invocation; `user_event` has the same id.
            lease_owner: The workflow or process that will run it.
            user_event: An event with an id and a timestamp, whose state delta is applied.
            create_session: Whether to create a missing session.
            ttl: Seconds without a commit until lease and ticket expire; None: never.
            position: Where to queue; None: take no ticket. A ticket only moves from LAST to FIRST.
            steers: Whether the active invocation may receive the message; see `deliver_message`.
            may_reply: Whether a paused invocation that waits for a message receives it instead.
            bounds: Limits of the queue.
            caller: The session without which this one, a child, is not created.

        Raises:
            SessionBusyError: Another holds the lease or is first; QueueFullError: so do too many.
            MessageAwaitedError: A paused invocation waits for the message, which has a ticket now.
            SessionNotFoundError: It, or `caller`, is missing.
            EventConflictError: The invocation id is taken, or the message was delivered already.
        """
        return await self._change(
            invocations.open_invocation,
            checked_key(*key),
            entry_of(user_event, check_id(invocation_id, "invocation_id"), key=key),
            lease_owner=lease_owner,
            create_session=create_session,
            ttl=ttl,
            position=position,
            message=user_event.to_json() if steers or may_reply else None,
            steers=steers,
            may_reply=may_reply,
            bounds=bounds,
            caller=caller,
        )

    async def commit_event(
        self,
        key: SessionKey,
        event: Event,
        *,
        invocation_id: str,
        epoch: int,
        closing: Status | None = None,
        revision: int | None = None,
        by_step: bool = False,
    ) -> int:
        """Append an event under the lease, and return its sequence number (D4).

        A repeat (same id and content, any timestamp) changes nothing and returns the first call's
        number, even if another invocation holds the lease by then. `temp:` keys of the delta are
        not stored. Values with a base are merged with those stored meanwhile (STA-19), and `event`
        receives the result.

        Args:
            key: The session.
            event: An event with an id that is not partial.
            invocation_id: The invocation that holds the lease.
            epoch: The lease's epoch.
            closing: If given, the same transaction closes the invocation with this status.
            revision: A number of events that the store is known to have had (I21).
            by_step: Whether this is an early commit; see `reserve_event`.

        Raises:
            SessionRegressedError: The session has fewer than `revision` events.
            EventConflictError: The id is taken by a different event, or reserved for the loop.
            LeaseLostError: `invocation_id` at `epoch` does not hold the session's lease (I6).
            InvalidRequestError: The event is partial, has no id, or belongs to another invocation.
            StateValueError: The event is not JSON.
            StateConflictError: A value cannot be merged with the stored one.
        """
        if closing is not None:
            _require_closed(closing)
        row = await self._change(
            invocations.commit,
            key,
            entry_of(event, invocation_id, key=key),
            invocation_id=invocation_id,
            epoch=epoch,
            closing=closing,
            revision=revision,
            by_step=by_step,
        )
        _take_merged(event, row)
        return row.seq

    async def pause_invocation(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        epoch: int,
        revision: int | None = None,
        awaits_message: bool = False,
    ) -> InvocationRecord:
        """Pause a running invocation and release its lease, so that other invocations can run (D9).

        A repeat at the same epoch changes nothing and returns the record.

        Args:
            key: The session.
            invocation_id: The running invocation.
            epoch: Its epoch.
            revision: If given, the invocation must have no event after this revision; an event
                there means that it has continued, so the pause is too late.
            awaits_message: Whether it waits for a message of the user; see `open_invocation`.

        Raises:
            LeaseLostError: The invocation does not hold the lease at this epoch, has continued, or
                the session was deleted.
        """
        return await self._change(
            pause.pause,
            key,
            invocation_id=invocation_id,
            epoch=epoch,
            revision=revision,
            awaits_message=awaits_message,
        )

    async def resume_invocation(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        lease_owner: str,
        user_event: Event | None,
        ttl: float | None = None,
    ) -> InvocationRecord:
        """Take the lease for a paused invocation and append the answer (D9).

        The invocation runs again under a new epoch. A repeat (same event id and content) changes
        nothing and returns the current record. Without an event, a call by the same lease owner
        while the invocation runs is a repeat.

        A resumption needs only the lease, not a turn in the queue: open invocations have priority
        over new ones. The ticket it takes while it waits keeps new invocations from overtaking it.

        Args:
            key: The session.
            invocation_id: The paused invocation; the answer has the same invocation id (OPEN-3).
            lease_owner: The workflow or process that will run it.
            user_event: The answer, with id and timestamp; its state delta is applied. None only
                takes the lease, so that closing events can be stored for a paused invocation.
            ttl: As for `open_invocation`.

        Raises:
            SessionBusyError: Another invocation holds the lease; see `active_invocation`.
            InvocationNotFoundError: The session or the invocation is missing.
            EventConflictError: The event's id is taken by another event.
            InvalidRequestError: The invocation is not paused, or the event belongs to another one.
            StateValueError: The delta is not JSON.
        """
        return await self._change(
            pause.resume,
            key,
            user_event and entry_of(user_event, invocation_id, key=key),
            invocation_id=invocation_id,
            lease_owner=lease_owner,
            ttl=ttl,
        )

    async def deliver_message(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        epoch: int,
        steered: str,
        scope: str | None = None,
    ) -> StoredEvent | None:
        """Deliver a queued message to the active invocation, as an event under its lease (D7).

        One transaction removes the ticket and stores the event, so the message cannot also be
        opened, withdrawn or delivered a second time. A repeat returns the same event.

        Args:
            key: The session.
            invocation_id: The invocation that receives it.
            epoch: Its epoch.
            steered: The message's own invocation id.
            scope: The event's `isolation_scope`.

        Returns:
            The event and its sequence number. The event has this invocation's id and is otherwise
            as sent; `temp:` keys of its delta are not stored. None if no such message is queued, or
            it was not sent as steering.

        Raises:
            LeaseLostError: `invocation_id` at `epoch` does not hold the session's lease (I6).
        """
        return await self._change(
            invocations.deliver_message,
            key,
            invocation_id=invocation_id,
            epoch=epoch,
            steered=steered,
            scope=scope,
        )

    async def withdraw_invocation(
        self, key: SessionKey, *, invocation_id: str, lease_owner: str, create_session: bool = False
    ) -> InvocationRecord | None:
        """Withdraw an opening whose outcome is unknown; return its record if it was stored.

        If it was not stored, later opening attempts by this lease owner are rejected, and its
        ticket is dropped. With `create_session` a missing session is created, because the rejection
        is stored with the session.

        Raises:
            EventConflictError: Another invocation received the message; see `deliver_message`.
        """
        return await self._store.write(
            lambda tables: invocations.withdraw(
                tables, key, invocation_id, lease_owner, create_session=create_session
            )
        )

    async def require_open(
        self, key: SessionKey, *, invocation_id: str, epoch: int | None = None, ended: bool = False
    ) -> None:
        """Check that an invocation may still write outside of the log, for example a file (I6).

        It need not hold the lease: a custom agent's body may run while the invocation is paused.

        Args:
            key: The session.
            invocation_id: The invocation.
            epoch: An epoch that it had.
            ended: Whether it may have ended, unless another one has taken over from it.

        Raises:
            SessionNotFoundError: The session was deleted.
            LeaseLostError: The invocation has ended, or the session was created after `epoch`.
        """
        await self._store.read(
            lambda tables: invocations.require_open(
                tables, key, invocation_id, epoch=epoch, ended=ended
            )
        )

    async def note_cancellation(self, key: SessionKey) -> bool:
        """Wake the watches of a session because one of its steps was cancelled.

        A hint, which any number of repeats may give. `Head.cancellations` tells them from other
        changes.

        Returns:
            Whether there is such a session.
        """
        return await self._change(invocations.note_cancellation, key)

    async def renew(self, key: SessionKey, *, invocation_id: str, epoch: int) -> None:
        """Restart the lease's `ttl`; does nothing if the lease is not held."""
        await self._store.write(
            lambda tables: invocations.renew(tables, key, invocation_id=invocation_id, epoch=epoch)
        )

    async def close_invocation(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        epoch: int,
        status: Status,
        error: dict[str, Any] | None = None,
        seals: Sequence[Event] = (),
        revision: int | None = None,
    ) -> InvocationRecord:
        """Close an invocation and release its lease; a repeat changes nothing.

        `seals` are the closing events. They are stored in the same transaction, so that a step that
        was presumed dead cannot add an event after them.

        Status ABANDONED is for taking over from a dead lease owner: if it returns, it can neither
        write nor close. A paused invocation, which holds no lease, can be closed here only with
        this status.

        Raises:
            LeaseLostError: Another invocation took over, the invocation is paused, or the session
                was deleted.
            InvalidRequestError: The status does not close an invocation.
            StaleSessionError: The log does not end at `revision`, for which the closing events were
                built.
        """
        _require_closed(status)
        return await self._change(
            invocations.close,
            key,
            invocation_id=invocation_id,
            epoch=epoch,
            status=status,
            error=error,
            seals=[entry_of(event, invocation_id, key=key) for event in seals],
            revision=revision,
        )

    async def close_paused(
        self,
        key: SessionKey,
        *,
        invocation_id: str,
        epoch: int,
        status: Status,
        revision: int | None = None,
        error: dict[str, Any] | None = None,
        seals: Sequence[Event] = (),
    ) -> InvocationRecord:
        """Close a paused invocation immediately, even if another invocation holds the lease.

        Its closing events are stored once the session is free, so that they do not interleave with
        another invocation's events. Until then a ticket at the head of the queue blocks new
        invocations, and the caller must retry. The ticket does not expire: if the lease owner dies,
        the next opening repeats the call.

        The first call fixes status and error. The call that stores the closing events takes a new
        epoch; repeats after that change nothing.

        Raises:
            SessionBusyError: The invocation is closed, but its closing events are not stored yet.
            LeaseLostError: The invocation is not paused at this epoch, or the session was deleted.
            StaleSessionError: The log does not end at `revision`, for which the closing events were
                built.
        """
        entries = [entry_of(event, invocation_id, key=key) for event in seals]
        try:
            return await self._change(
                pause.close,
                key,
                invocation_id=invocation_id,
                epoch=epoch,
                status=status,
                error=error,
                seals=entries,
                revision=revision,
            )
        except SessionBusyError:
            self._changes.announce(key)  # only the status has changed
            raise


def _require_closed(status: Status) -> None:
    if not status.closed:
        raise InvalidRequestError(f"An invocation is not closed as {status.value!r}.")


def _take_merged(event: Event, row: Row) -> None:
    if event.actions.state_read:
        event.actions.state_delta |= decode_event(row.body).actions.state_delta
        event.actions.state_read = {}
