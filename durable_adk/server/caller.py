"""The sender of a request, and the sessions that it may reach."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Annotated, Any, cast

from fastapi import Depends, Request

from durable_adk.errors import InvalidRequestError, PermissionDeniedError
from durable_adk.sessions.state import APP_PREFIX

USER_NAMES = ("user_id", "userId", "user")
"""How routes name the user in paths, queries and bodies."""
_STATE_NAMES = ("state", "stateDelta", "state_delta")


SLASH = "\x1f"
"""Stands for an encoded slash in a path until its route is found; ids have no such character."""


@dataclass(frozen=True)
class Caller:
    """The authenticated sender of a request.

    Without authentication, on the loopback, it is an operator without an id.
    """

    user_id: str | None = None
    """Also the id of the user whose sessions it may reach; None: nobody was identified."""
    is_operator: bool = False
    """Whether it may act for all users."""

    @property
    def answered_by(self) -> dict[str, str] | None:
        """Value of `adk_answered_by` for this caller; None for an anonymous one."""
        return {"user": self.user_id} if self.user_id else None

    def may_reach(self, user_id: str) -> bool:
        """Whether it may reach a user's sessions."""
        return self.is_operator or self.user_id == user_id

    def require(self, user_id: str) -> None:
        """Check that it may reach a user's sessions.

        Raises:
            PermissionDeniedError: It may not.
        """
        if not self.may_reach(user_id):
            raise PermissionDeniedError(
                "The request names another user than the one it is authenticated as."
            )

    def require_operator(self, what: str) -> None:
        """Check that it is an operator.

        Raises:
            PermissionDeniedError: It is not; `what` says what only operators may do.
        """
        if not self.is_operator:
            raise PermissionDeniedError(f"Only an operator may {what}.")

    def only(self, user_id: str | None) -> str | None:
        """Return whose items a list may have: the user who is asked for, or None for all users.

        Raises:
            PermissionDeniedError: It may not reach the user who is asked for.
        """
        if user_id is None:
            return None if self.is_operator else self.user_id or ""
        self.require(user_id)
        return user_id


ANYBODY = Caller(is_operator=True)
"""The sender of every request to a server without authentication."""
_STATE = "durable_adk.caller"


def identify(scope: MutableMapping[str, Any], caller: Caller) -> None:
    """Record the sender of the request of an ASGI scope."""
    scope[_STATE] = caller


def identified(scope: Any) -> Caller:
    """Return the sender of the request of an ASGI scope; anonymous if not authenticated."""
    return scope.get(_STATE) or Caller()


async def caller_of(request: Request) -> Caller:
    """Return the sender of a request, once what it names was checked.

    A dependency of the whole application, so it stands before every route (S1). It reads path,
    query and the top level of a JSON body, where all routes name the user and take state. A route
    that finds the user elsewhere, by an invocation for example, asks `Caller` itself.

    Raises:
        InvalidRequestError: Path or query have a NUL character, which PostgreSQL does not take.
        PermissionDeniedError: The request names a user whom its sender may not reach, or changes
            the state that an app's users share.
    """
    parts = request.path_params  # routes read the same object
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
"""The type of a route's argument that is to be the sender."""


async def _fields(request: Request, caller: Caller) -> dict[str, Any]:
    # Unknown senders could fill the memory. Public routes take no user or state in a body,
    # and these methods take none at all.
    if caller.user_id is None or request.method in ("GET", "HEAD"):
        return {}
    try:
        # FastAPI has parsed it, or the route finds it parsed.
        body: Any = await request.json() if await request.body() else None
    except (ValueError, RecursionError):
        return {}  # the route refuses it
    return cast("dict[str, Any]", body) if isinstance(body, dict) else {}


def _users_named(request: Request, fields: dict[str, Any]) -> list[str]:
    found = [request.path_params[name] for name in USER_NAMES if name in request.path_params]
    found += [text for name in USER_NAMES for text in request.query_params.getlist(name)]
    # What is no text names no user, and the route refuses it.
    return [*found, *(str(fields[name]) for name in USER_NAMES if fields.get(name) is not None)]


def _is_shared(fields: dict[str, Any]) -> bool:
    """Whether a body has state of all users: in a field, or as a whole, as a route of ADK's."""
    states = [fields, *(fields.get(name) for name in _STATE_NAMES)]
    return any(
        key.startswith(APP_PREFIX)
        for state in states
        if isinstance(state, dict)
        for key in cast("dict[str, Any]", state)
    )
