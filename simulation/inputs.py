"""What clients may do in a scenario beside sending messages."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from simulation.scenario import Input

if TYPE_CHECKING:
    from simulation.simulation import Simulation
    from simulation.workflow_run import WorkflowRun


def _first(simulation: "Simulation") -> "WorkflowRun":
    return simulation.server.newest(simulation.server.runs[0])


def _open(simulation: "Simulation") -> bool:
    return _first(simulation).closed is None


CANCEL = Input(
    name="cancel",
    ready=_open,
    give=lambda simulation: simulation.server.cancel(simulation.server.runs[0]),
    optional=True,
)
TERMINATE = Input(
    name="terminate",
    ready=_open,
    give=lambda simulation: simulation.server.terminate(simulation.server.runs[0]),
    optional=True,
)


TERMINATE_FROZEN = Input(
    name="terminate frozen",
    ready=_open,
    give=lambda simulation: simulation.server.terminate(simulation.server.runs[0], frozen=True),
    optional=True,
)
"""Its workers are frozen at that moment, and wake up when all is over (F8)."""
NEXT_MESSAGE = Input(
    name="next message",
    ready=lambda simulation: not _open(simulation),
    give=lambda simulation: simulation.send("hello"),
)
COMPETING_MESSAGE = Input(
    name="competing",
    ready=lambda simulation: bool(simulation.server.runs),
    give=lambda simulation: simulation.send("hello", simulation.scenario.competing),
    anywhere=True,
)
"""Another message, which may find its session busy."""
RESET = Input(
    name="reset",
    ready=_open,
    give=lambda simulation: simulation.server.reset(simulation.server.runs[0]),
    optional=True,
)
"""An operator resets the workflow."""
DEPLOY = Input(
    name="deploy",
    ready=_open,
    give=lambda simulation: simulation.deploy(),
    optional=True,
)
"""One worker is replaced by one of the next release; the other one when it dies."""
CLEAR = Input(
    name="clear",
    ready=_open,
    give=lambda simulation: simulation.clear(),
    optional=True,
)
"""The user deletes the session and creates it again, with the messages that were in it."""
AFTER_CLEAR = Input(
    name="message after",
    ready=lambda simulation: simulation.cleared is not None,
    give=lambda simulation: simulation.send("hello"),
)
CANCEL_CLEARED = Input(
    name="cancel after",
    ready=lambda simulation: simulation.cleared is not None and _open(simulation),
    give=CANCEL.give,
)
"""The user who deletes a session also cancels its waiting invocations."""


def confirmed(answer_id: str, *, says: bool = True, of: str = "i1") -> Input:
    """The user approves the call, or denies it, as soon as the request is stored."""
    return _answer(answer_id, REQUEST_CONFIRMATION, {"confirmed": says}, of)


def responded(answer_id: str, call: str) -> Input:
    """What a long-running call was to come to."""
    return _answer(answer_id, call, {"response": {"came": True}}, "i1")


def _answer(answer_id: str, name: str, answer: dict[str, Any], of: str) -> Input:
    """An answer to a call of an invocation."""

    def run(simulation: "Simulation") -> "WorkflowRun | None":
        runs = reversed(simulation.server.runs)
        return next((run for run in runs if run.workflow_id == of), None)

    def ready(simulation: "Simulation") -> bool:
        asked = run(simulation)
        is_open = asked is not None and asked.closed is None
        return is_open and next(_calls(simulation, name, of), "") != ""

    def give(simulation: "Simulation") -> None:
        call_id = next(_calls(simulation, name, of))
        argument = {"call_id": call_id, "answer_id": answer_id, **answer}
        if (asked := run(simulation)) is not None:
            simulation.server.signal(asked, "answer", argument)

    return Input(name=f"answer {answer_id}", ready=ready, give=give, anywhere=True)


def _calls(simulation: "Simulation", name: str, of: str) -> Iterator[str]:
    for body in simulation.bodies():
        if f'"name":"{name}"' in body and '"functionCall"' in body:
            event = json.loads(body)
            parts = event["content"]["parts"] if event["invocationId"] == of else []
            yield from (p["functionCall"]["id"] for p in parts if "functionCall" in p)
