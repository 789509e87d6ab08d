"""Ids for the function calls of an event.

A call's id is its idempotency key and the name under which it is answered, so it must be unique.
Providers omit ids or repeat them.
"""

import uuid
from collections.abc import Callable

from google.genai import types

from durable_adk.wire.steps import ModelStep

ID_PREFIX = "adk-"
"""Prefix of ids that this package assigned; they are removed before a provider sees the call."""
_NAMESPACE = uuid.UUID("6f1c1c6e-2d0e-5a55-9a5f-5c1c0d3f8e11")


class CallIds:
    """Assigns unique ids to the calls of one event.

    An id is derived from the event's id and the call's position, so every attempt and every replay
    assigns the same one (FLW-40, TRAP-19, F15). Positions continue across chunks: a streamed
    response gets the same ids as the complete one (FLW-74).
    """

    def __init__(
        self,
        event_id: str,
        *,
        has_call: Callable[[str], bool] = frozenset[str]().__contains__,
        own: bool = False,
        repeats: bool = False,
    ) -> None:
        """Start with the first call of an event.

        Args:
            event_id: The event's id.
            has_call: Returns whether an earlier call has this id. Some providers restart their
                numbering with every response.
            own: Whether to replace every id that the provider assigned. On a branch, a sibling may
                receive the same provider id at the same moment, unseen from here.
            repeats: Whether a repeated id of the provider means the same call: chunks repeat a call
                while it is being written.
        """
        self._event_id = event_id
        self._has_call = has_call
        self._own = own
        self._repeats = repeats
        self._given: dict[str, str] = {}
        self._taken: list[str] = []

    @classmethod
    def of_step(
        cls, step: ModelStep, has_call: Callable[[str], bool], *, repeats: bool = False
    ) -> "CallIds":
        """Return the ids for the event of a model step; see `__init__` for `has_call`."""
        own = step.branch is not None
        return cls(step.event_id, has_call=has_call, own=own, repeats=repeats)

    def give(self, calls: list[types.FunctionCall]) -> None:
        """Assign ids to the next calls, in place."""
        shown = dict(self._given) if self._repeats else {}  # within one chunk, different calls
        for call in calls:
            sent = call.id or ""
            if sent in shown:
                call.id = shown[sent]
                continue
            if self._own or not call.id or self._has_call(call.id) or call.id in self._taken:
                name = f"{self._event_id}/{len(self._taken)}"
                call.id = f"{ID_PREFIX}{uuid.uuid5(_NAMESPACE, name)}"
            self._taken.append(call.id)
            self._given.setdefault(sent or call.id, call.id)
