"""Checks of a message that may come while its session is busy (D7)."""

from collections.abc import Iterator
from typing import Any

from durable_adk.errors import SessionBusyError
from durable_adk.sessions.records import Status
from durable_adk.wire.messages import WhenBusy
from simulation.simulation import Result

FIRST, SECOND = "i1", "i2"
"""The invocation that may be active, and the message that comes."""
Outline = list[tuple[str, list[str]]]
"""Of events: the author, and the kinds of parts."""


def steered_into(result: Result) -> dict[str, str]:
    """By message that was steered into an active invocation, that invocation."""
    heard = (event for event in result.events if event["id"].endswith(".0"))
    return {
        name: event["invocationId"]
        for event in heard
        if (name := event["id"].removesuffix(".0")) != event["invocationId"]
    }


def refused(result: Result) -> dict[str, str]:
    """By invocation, the class of the error that its workflow has failed with."""
    closed = {
        run.workflow_id: run.closed
        for run in result.runs
        if run.closed is not None and not isinstance(run.closed, str)
    }
    return {
        name: command.fail_workflow_execution.failure.application_failure_info.type
        for name, command in closed.items()
        if command.HasField("fail_workflow_execution")
    }


def busy(result: Result) -> set[str]:
    """Return the messages that were refused because the session is busy."""
    told = SessionBusyError.__name__
    return {name for name, error in refused(result).items() if error == told}


def competing_message(result: Result, control: Result) -> Iterator[str]:
    """The message is delivered, runs, or is refused, and leaves nothing else behind."""
    if SECOND not in result.accepted:
        return
    heard, ran = SECOND in steered_into(result), SECOND in result.records
    told = SECOND in busy(result)
    allowed = {
        WhenBusy.STEER: heard != ran and not told,
        WhenBusy.REJECT: told != ran and not heard,
    }
    if not allowed.get(result.scenario.competing or WhenBusy.ENQUEUE, ran and not (heard or told)):
        yield f"I12: a message was heard: {heard}, ran: {ran}, was refused: {told}"
    if told and any(event["invocationId"] == SECOND for event in result.events):
        yield "I12: what was refused has events"
    if heard:
        yield from _answered(result)
    for name in result.records:
        yield from _ended(result, control, name)


def _answered(result: Result) -> Iterator[str]:
    """An invocation that gets a message answers after it, unless it was ended."""
    names = [event["id"] for event in result.events]
    later = result.events[names.index(f"{SECOND}.0") + 1 :]
    spoke = any(event["author"] != "user" and "text" in _kinds(event) for event in later)
    if result.records[FIRST].status is Status.COMPLETED and not spoke:
        yield "I12: a message was heard, and nobody answered it"


def _ended(result: Result, control: Result, name: str) -> Iterator[str]:
    status = result.records[name].status
    cancelled = any(run.cancelled_at is not None for run in result.runs if run.workflow_id == name)
    if status is Status.CANCELLED and cancelled and result.scenario.competing is WhenBusy.INTERRUPT:
        return
    if status is not Status.COMPLETED:
        yield f"I11: {name} is {status}"
    own, expected = outline(result, name), outline(control, name)
    if name not in steered_into(result).values() and own != expected:
        yield f"I2: {name} is {own}, undisturbed {expected}"


def outline(result: Result, name: str) -> Outline:
    """Return the authors of an invocation's events, and the kinds of parts."""
    own = [event for event in result.events if event["invocationId"] == name]
    return [(event["author"], _kinds(event)) for event in own]


def _kinds(event: dict[str, Any]) -> list[str]:
    return [kind for part in event.get("content", {}).get("parts", ()) for kind in part]
