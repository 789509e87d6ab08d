"""Listings of sessions, page by page.

The order is that of the last update, oldest first. A session that is updated while somebody turns
pages moves towards the end: it may be seen twice, and is never left out.
"""

import base64
import binascii
import json
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, NamedTuple

from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import canonical, check_id
from durable_adk.sessions._copies import session_copy
from durable_adk.sessions._head import Head
from durable_adk.sessions._tables import Page, Position, Tables, owners
from durable_adk.sessions.records import ListSessionsResponse
from durable_adk.sessions.session import SessionKey

_BATCH = 200
"""Sessions read at once where all are wanted."""


class Listed(NamedTuple):
    """A session as it was found."""

    key: SessionKey
    head: Head
    states: list[dict[str, str] | None]
    """Of its owners."""


@dataclass(frozen=True, kw_only=True)
class Listing:
    """Which sessions are wanted; see `BaseSessionService.list_sessions`."""

    app_name: str
    user_id: str | None
    limit: int | None
    after: Position | None
    since: float | None

    @classmethod
    def of(
        cls,
        app_name: str,
        user_id: str | None,
        *,
        limit: int | None,
        page_token: str | None,
        updated_since: float | None,
    ) -> "Listing":
        """The listing that a caller asks for.

        Raises:
            InvalidRequestError: It cannot be had.
        """
        if limit is not None and limit < 1:
            raise InvalidRequestError(f"limit is {limit}; pass 1 or more, or None for all.")
        app_name = check_id(app_name, "app_name")
        user_id = None if user_id is None else check_id(user_id, "user_id")
        after = None if page_token is None else _position(page_token, app_name, user_id)
        return cls(
            app_name=app_name, user_id=user_id, limit=limit, after=after, since=updated_since
        )

    def read(self, tables: Tables) -> list[Listed]:
        """The sessions, and one more than the limit if there is one."""
        wanted = None if self.limit is None else self.limit + 1
        size = _BATCH if wanted is None else wanted
        page, found = Page(limit=size, after=self.after, since=self.since), list[Listed]()
        while True:
            heads = tables.heads(self.app_name, self.user_id, page)
            states = tables.states({one for key, _ in heads for one in owners(key)})
            found += [
                Listed(key, head, [states.get(one) for one in owners(key)]) for key, head in heads
            ]
            if wanted is not None or len(heads) < size:
                return found
            page = replace(page, after=_of(found[-1]))

    def response(self, found: list[Listed]) -> ListSessionsResponse:
        """What `read` has found, for the caller."""
        shown = found[: self.limit]
        more = len(found) > len(shown)
        return ListSessionsResponse(
            sessions=[session_copy(one.key, one.head, *one.states) for one in shown],
            next_page_token=self._token(_of(shown[-1])) if more else None,
        )

    def _token(self, position: Position) -> str:
        text = canonical([_mark(self.app_name, self.user_id, position), *position])
        return base64.urlsafe_b64encode(text.encode()).decode()


def _of(listed: Listed) -> Position:
    return Position(listed.head.update_time, listed.key.user_id, listed.key.session_id)


def _mark(app_name: str, user_id: str | None, position: Position) -> str:
    """By which a token is known as one of this listing.

    It keeps nobody out: a token only says where to go on, among sessions that its user may list.
    """
    return sha256(canonical([app_name, user_id, *position]).encode()).hexdigest()[:16]


def _position(token: str, app_name: str, user_id: str | None) -> Position:
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
