"""A conversation as a person reads it on a terminal (semantics RUN-31)."""

import json
from collections.abc import Iterable

from durable_adk.events.event import Event

MAX_VALUE = 200
"""Characters shown of a call's arguments or of a response."""


def show(event: Event, *, verbose: bool) -> None:
    """Print what an event says; chunks are left out, as the whole answer repeats them.

    Args:
        event: The event.
        verbose: Also print calls, responses and other parts.
    """
    if event.partial:
        return
    for line in _said(event, verbose=verbose):
        print(f"{event.author} > {line}")  # noqa: T201  # printing is what this is for


def _said(event: Event, *, verbose: bool) -> Iterable[str]:
    if event.text:
        yield event.text
    if event.error_code:
        yield f"[error {event.error_code}: {event.error_message}]"
    if not verbose:
        return
    for part in event.parts:
        if call := part.function_call:
            yield f"[calls {call.name}: {_short(call.args)}]"
        elif response := part.function_response:
            yield f"[{response.name} answered: {_short(response.response)}]"
        elif part.text is None:
            kinds = ", ".join(sorted(part.model_dump(exclude_none=True)))
            yield f"[{kinds}]"


def _short(value: object) -> str:
    text = json.dumps(value or {}, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_VALUE else f"{text[:MAX_VALUE]}..."
