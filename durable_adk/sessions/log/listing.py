"""Paged listings of sessions and invocations.

Sessions are ordered by their last update, oldest first. A session that is updated during paging
moves towards the end: it may appear twice but is never skipped. In a listing that starts with the
newest it moves to the beginning, so later pages may lack it.
"""

import base64
import binascii
import json
import time
from collections.abc import AsyncGenerator, Collection
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import canonical, check_id
from durable_adk.sessions.log.entry import session_copy
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.storage import (
    InvocationPosition,
    InvocationsByTime,
    Page,
    Position,
    owners,
)
from durable_adk.sessions.log.transactions import Transactions
from durable_adk.sessions.records import InvocationRecord, ListSessionsResponse, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.sql.tables import Tables

PAGE = 500
"""Invocations held in memory at a time when all are scanned."""
_BATCH = 200
"""Maximum number of sessions read per query."""
_FEW = 20
"""The same where the size counts, because the state of all these sessions is read."""


class Listed(NamedTuple):
    """One session of a listing."""

    key: SessionKey
    head: Head
    states: list[dict[str, str] | None]
    """State of each owner, in the order of `owners`."""

    @property
    def size(self) -> int:
        """Characters of the state as JSON."""
        return sum(len(text) for state in self.states if state for text in state.values())


@dataclass(frozen=True, kw_only=True)
class Listing:
    """A validated request for a listing; see `SessionLog.list_sessions`."""

    app_name: str
    user_id: str | None
    limit: int | None
    after: Position | None
    since: float | None
    newest_first: bool = False
    max_size: int | None = None

    def read(self, tables: Tables) -> list[Listed]:
        """Read the sessions, with at least one more if there is a next page."""
        wanted = None if self.limit is None else self.limit + 1
        size = _BATCH if self.max_size is None else _FEW
        page = Page(
            limit=size if wanted is None else min(size, wanted),
            after=self.after,
            since=self.since,
            newest_first=self.newest_first,
        )
        found = list[Listed]()
        while True:
            heads = tables.heads(self.app_name, self.user_id, page)
            states = tables.states({one for key, _ in heads for one in owners(key)})
            found += [
                Listed(key, head, [states.get(one) for one in owners(key)]) for key, head in heads
            ]
            enough = wanted is not None and len(found) >= wanted
            if enough or len(heads) < page.limit or self._fitting(found) < len(found):
                return found
            page = replace(page, after=_of(found[-1]))

    def response(self, found: list[Listed]) -> ListSessionsResponse:
        """Build the caller's response from the result of `read`."""
        shown = found[: self._fitting(found)][: self.limit]
        more = len(found) > len(shown)
        return ListSessionsResponse(
            sessions=[session_copy(one.key, one.head, *one.states) for one in shown],
            next_page_token=self._token(_of(shown[-1])) if more else None,
        )

    def _fitting(self, found: list[Listed]) -> int:
        """Return how many of the sessions fit into a page by their size: at least one."""
        size = 0
        for count, one in enumerate(found):
            size += one.size
            if count and self.max_size is not None and size > self.max_size:
                return count
        return len(found)

    def _token(self, position: Position) -> str:
        text = canonical([_mark(self.app_name, self.user_id, position), *position])
        return base64.urlsafe_b64encode(text.encode()).decode()


def _of(listed: Listed) -> Position:
    return Position(listed.head.update_time, listed.key.user_id, listed.key.session_id)


def _mark(app_name: str, user_id: str | None, position: Position) -> str:
    """Return the checksum that ties a page token to its listing.

    It is not access control: a token is only a position among sessions that its user may list.
    """
    return sha256(canonical([app_name, user_id, *position]).encode()).hexdigest()[:16]


def position_of(token: str | None, app_name: str, user_id: str | None) -> Position | None:
    """Return the position in a page token.

    Raises:
        InvalidRequestError: The token is invalid.
    """
    if token is None:
        return None
    try:
        mark, *fields = json.loads(base64.urlsafe_b64decode(token.encode("ascii")))
        position = _checked(*fields)
    except (ValueError, TypeError, binascii.Error) as error:
        raise InvalidRequestError("page_token is not one that list_sessions gave.") from error
    if mark != _mark(app_name, user_id, position):
        raise InvalidRequestError("page_token was given for another app or user, or was changed.")
    return position


def _checked(update_time: Any, user_id: Any, session_id: Any) -> Position:
    ids = check_id(user_id, "user_id"), check_id(session_id, "session_id")
    return Position(float(update_time), *ids)


class InvocationRecords(Transactions):
    """Reads the records of invocations."""

    async def get_invocation(self, key: SessionKey, invocation_id: str) -> InvocationRecord | None:
        """Return the record of an invocation; None if it was never opened."""
        return await self._store.read(lambda tables: tables.invocation(key, invocation_id))

    async def active_invocation(self, key: SessionKey) -> InvocationRecord | None:
        """Return the invocation that holds the session's lease, unless the lease has expired."""
        return await self._store.read(lambda tables: active(tables, key))

    async def invocations_by_time(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        session_id: str | None = None,
        statuses: Collection[Status] = (),
        limit: int = 50,
        beyond: InvocationPosition | None = None,
        oldest_first: bool = False,
    ) -> list[tuple[SessionKey, InvocationRecord]]:
        """Return invocations by the time of their last status change, newest first.

        Args:
            app_name: Name of the app.
            user_id: Restricts them to one user.
            session_id: Restricts them to sessions with this id.
            statuses: Restricts them to invocations with one of these; empty: all.
            limit: Maximum number of them.
            beyond: The position of the last one of the previous page.
            oldest_first: Oldest first; an invocation that changes between pages is not missed then,
                even if it changes from one of the statuses to another.

        Raises:
            InvalidRequestError: An id is invalid, or the limit is below 1.
        """
        if limit < 1:
            raise InvalidRequestError(f"limit is {limit}; pass 1 or more.")
        wanted = InvocationsByTime(
            app_name=check_id(app_name, "app_name"),
            user_id=None if user_id is None else check_id(user_id, "user_id"),
            session_id=None if session_id is None else check_id(session_id, "session_id"),
            statuses=frozenset(statuses),
            limit=limit,
            beyond=beyond,
            oldest_first=oldest_first,
        )
        return await self._store.read(lambda tables: tables.invocations_by_time(wanted))

    async def count_invocations(
        self, *, app_name: str, user_id: str | None = None
    ) -> dict[Status, int]:
        """Count the invocations of an app, or of one of its users, by status.

        Those of agents that run as tools (`session.CHILD_PREFIX`) are excluded.
        """
        return await self._store.read(lambda tables: tables.count_invocations(app_name, user_id))

    async def count_events(self, key: SessionKey, record: InvocationRecord) -> int:
        """Count the events of an invocation."""
        return await self._store.read(lambda tables: tables.count_events(key, record))

    async def sessions_with(self, invocation_id: str) -> list[SessionKey]:
        """Return the sessions with an invocation of this id, opened or queued.

        An id that clients chose may be in several sessions.
        """
        return await self._store.read(lambda tables: tables.sessions_with(invocation_id))

    async def all_invocations(
        self,
        *,
        app_name: str,
        user_id: str | None = None,
        session_id: str | None = None,
        statuses: Collection[Status] = (),
        page: int = PAGE,
    ) -> AsyncGenerator[tuple[SessionKey, InvocationRecord]]:
        """Yield all matching invocations, oldest first; see `invocations_by_time`.

        One that matches all the time is not missed. One that changes meanwhile moves to the end,
        and is yielded only as it was first read.
        """
        last: InvocationPosition | None = None
        seen = set[tuple[SessionKey, str]]()
        while True:
            found = await self.invocations_by_time(
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                statuses=statuses,
                limit=page,
                beyond=last,
                oldest_first=True,
            )
            for key, record in found:
                if (key, record.invocation_id) not in seen:
                    seen.add((key, record.invocation_id))
                    yield key, record
            if len(found) < page:
                return
            last = InvocationPosition.of(*found[-1])


def active(tables: Tables, key: SessionKey) -> InvocationRecord | None:
    """Return the invocation that holds an unexpired lease."""
    head = tables.head(key)
    invocation_id = head and head.active(time.time())
    return tables.invocation(key, invocation_id) if invocation_id else None
