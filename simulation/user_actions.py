"""Checks of scenarios in which a user deletes a session, or denies a call (I15, I16)."""

from collections.abc import Iterator

from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.errors import EventConflictError, InvocationCancelledError, LeaseLostError
from simulation.busy_session import outline, refused
from simulation.simulation import Result
from simulation.stored_events import calls, responses

GONE = {error.__name__ for error in (LeaseLostError, InvocationCancelledError, EventConflictError)}
FIRST = "i1"
"""The invocation that was under way, or had ended, when its session was deleted."""


def asks(result: Result) -> bool:
    """Whether the user was asked for an approval."""
    return any(call["name"] == REQUEST_CONFIRMATION for call in calls(result.events))


def denied(result: Result) -> Iterator[str]:
    """A call that was denied has not run afterwards, on whatever release (I16).

    It may have run before, on a release that does not ask, by a worker that died of it.
    """
    about = {
        call["id"]: call["args"]["originalFunctionCall"]["id"]
        for call in calls(result.events)
        if call["name"] == REQUEST_CONFIRMATION
    }
    for seq, event in enumerate(result.events, start=1):
        ran = {run.call_id for run in result.ledger.runs if run.revision >= seq}
        for response in responses([event]):
            refused = response["response"].get("confirmed") is False
            if refused and about.get(response["id"]) in ran:
                yield f"I16: {about[response['id']]} was denied, and ran"


def cleared(result: Result, control: Result) -> Iterator[str]:
    """The new session has what it was given and what came after; the old run has ended."""
    kept = result.cleared or []
    for event in result.events:
        if event["id"] not in kept and event["invocationId"] not in result.records:
            yield f"I15: {event['id']} is of a session that was deleted"
    for name in result.records.keys() - {FIRST}:
        if (own := outline(result, name)) != (expected := outline(control, FIRST)):
            yield f"I2: {name} is {own}, undisturbed {expected}"
    if FIRST not in result.records:
        yield from _ended(result)


def _ended(result: Result) -> Iterator[str]:
    """Check how the run of a deleted session ends: with an error of `GONE`, cancelled, or before.

    Or its message was taken for one of the new session before it was opened there.
    """
    error = refused(result).get(FIRST, "")
    if error not in ("", *GONE):
        yield f"I11: the run of the deleted session has ended with {error}"
