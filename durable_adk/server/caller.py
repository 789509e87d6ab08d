"""The sender of a request, and the sessions that the sender may access."""

import re
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Annotated, Any, cast
from urllib.parse import quote, unquote

from fastapi import Depends, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from durable_adk.errors import InvalidRequestError, PermissionDeniedError
from durable_adk.sessions.state import APP_PREFIX

USER_NAMES = ("user_id", "userId", "user")
"""Names of the user's field in paths, queries and bodies."""
_STATE_NAMES = ("state", "stateDelta", "state_delta")


SLASH = "\x1f"
"""Replaces an encoded slash in a path until its route is found; ids do not contain this
character."""


@dataclass(frozen=True)
class Caller:
    """The authenticated sender of a request.

    Without authentication, on the loopback, the sender is an operator without an id.
    """

    user_id: str | None = None
    """Id of the sender, and of the user whose sessions it may access; None if not authenticated."""
    is_operator: bool = False
    """Whether the sender may act for all users."""

    @property
    def answered_by(self) -> dict[str, str] | None:
        """Value of `adk_answered_by` for this caller; None for an anonymous one."""
        return {"user": self.user_id} if self.user_id else None

    def may_access(self, user_id: str) -> bool:
        """Return whether the sender may access a user's sessions."""
        return self.is_operator or self.user_id == user_id

    def require(self, user_id: str) -> None:
        """Check that the sender may access a user's sessions.

        Raises:
            PermissionDeniedError: It may not.
        """
        if not self.may_access(user_id):
            raise PermissionDeniedError(
                "The request names another user than the one it is authenticated as."
            )

    def require_operator(self, what: str) -> None:
        """Check that the sender is an operator.

        Raises:
            PermissionDeniedError: It is not; `what` names the action for operators.
        """
        if not self.is_operator:
            raise PermissionDeniedError(f"Only an operator may {what}.")

    def only(self, user_id: str | None) -> str | None:
        """Return the user to whose items a list is limited: the requested one, or None for all.

        Raises:
            PermissionDeniedError: The sender may not access the requested user's items.
        """
        if user_id is None:
            return None if self.is_operator else self.user_id or ""
        self.require(user_id)
        return user_id


UNAUTHENTICATED_OPERATOR = Caller(is_operator=True)
"""The sender of every request to a server without authentication."""
_STATE = "durable_adk.caller"


def identify(scope: MutableMapping[str, Any], caller: Caller) -> None:
    """Record the sender in a request's ASGI scope."""
    scope[_STATE] = caller


def identified(scope: Any) -> Caller:
    """Return the sender from a request's ASGI scope; anonymous if not authenticated."""
    return scope.get(_STATE) or Caller()


async def caller_of(request: Request) -> Caller:
    """Return the sender of a request, after checking the users that the request names.

    It is a dependency of the whole application, so it runs before every route (S1). It reads path,
    query and the top level of a JSON body, where all routes have the user and the state. A route
    that finds the user elsewhere, e.g. through an invocation, calls the methods of `Caller` itself.

    Raises:
        InvalidRequestError: Path or query contain a NUL character, which PostgreSQL rejects.
        PermissionDeniedError: The request names a user whose sessions the sender may not access, or
            changes the state that all users of an app share.
    """
    parts = request.path_params  # shared with the routes
    for name, text in parts.items():
        parts[name] = text.replace(SLASH, "/") if isinstance(text, str) else text
    named = (*request.path_params.items(), *request.query_params.multi_items())
    if wrong := [name for name, text in named if "\0" in f"{name}{text}"]:
        raise InvalidRequestError(f"{wrong[0]} holds a NUL character; remove it.")
    caller = identified(request.scope)
    if not caller.is_operator:
        fields = await _fields(request, caller)
        for named in _users_named(request, fields):
            caller.require(named)
        if _is_shared(fields):
            raise PermissionDeniedError(
                f"State with the prefix {APP_PREFIX!r} is that of all users; only an operator may "
                "set it in a request."
            )
    return caller


CurrentCaller = Annotated[Caller, Depends(caller_of)]
"""Parameter type for routes: the sender of the request."""


async def _fields(request: Request, caller: Caller) -> dict[str, Any]:
    # Bodies of anonymous senders are not read: they could fill the memory. Public routes accept no
    # user or state in a body, and these methods have no body.
    if caller.user_id is None or request.method in ("GET", "HEAD"):
        return {}
    try:
        # FastAPI caches the parsed body for the route.
        body: Any = await request.json() if await request.body() else None
    except (ValueError, RecursionError):
        return {}  # the route rejects it
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def _users_named(request: Request, fields: dict[str, Any]) -> list[str]:
    found = [request.path_params[name] for name in USER_NAMES if name in request.path_params]
    found += [text for name in USER_NAMES for text in request.query_params.getlist(name)]
    # A value that is not a text names no user; the route rejects it.
    return [*found, *(str(fields[name]) for name in USER_NAMES if fields.get(name) is not None)]


def _is_shared(fields: dict[str, Any]) -> bool:
    """Return whether a body has state of all users: in a field, or as the body of an ADK route."""
    states = [fields, *(fields.get(name) for name in _STATE_NAMES)]
    return any(
        key.startswith(APP_PREFIX)
        for state in states
        if isinstance(state, dict)
        for key in cast("dict[str, Any]", state)
    )


@dataclass(frozen=True)
class EncodedSlashes:
    """Prevents an encoded slash (``%2F``) from dividing the path.

    Ids of users and sessions may contain slashes. It precedes all other checks, so that they use
    the same path as the routing; `caller_of` restores the slashes for the route.
    """

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        raw: bytes = scope.get("raw_path") or b""
        # Otherwise a server or middleware before this one has changed the path.
        if b"%2f" in raw.lower() and unquote(raw.decode("latin-1")) == scope["path"]:
            kept = re.sub("%2f", quote(SLASH), raw.decode("latin-1"), flags=re.IGNORECASE)
            scope = {**scope, "path": unquote(kept)}
        await self.app(scope, receive, send)
