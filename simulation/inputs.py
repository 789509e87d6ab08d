"""What clients may do in a scenario beside sending messages."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from durable_adk.flows.requests import REQUEST_CONFIRMATION
from simulation.scenario import Input

if TYPE_CHECKING:
    from simulation.run import Run
    from simulation.simulation import Simulation


def _first(simulation: "Simulation") -> "Run":
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
RIVAL = Input(
    name="rival",
    ready=lambda simulation: bool(simulation.server.runs),
    give=lambda simulation: simulation.send("hello", simulation.scenario.rival),
    anywhere=True,
)
"""Another message, which may find its session busy."""


def confirmed(answer_id: str) -> Input:
    """The user approves the call, as soon as the request is stored."""
    return _answer(answer_id, REQUEST_CONFIRMATION, {"confirmed": True})


def responded(answer_id: str, call: str) -> Input:
    """What a long-running call was to come to."""
    return _answer(answer_id, call, {"response": {"came": True}})


def _answer(answer_id: str, name: str, answer: dict[str, Any]) -> Input:
    def give(simulation: "Simulation") -> None:
        call_id = next(_calls(simulation, name))
        argument = {"call_id": call_id, "answer_id": answer_id, **answer}
        simulation.server.signal(simulation.server.runs[0], "answer", argument)

    return Input(
        name=f"answer {answer_id}",
        ready=lambda simulation: _open(simulation) and next(_calls(simulation, name), "") != "",
        give=give,
        anywhere=True,
    )


def _calls(simulation: "Simulation", name: str) -> Iterator[str]:
    for body in simulation.bodies():
        if f'"name":"{name}"' in body and '"functionCall"' in body:
            parts = json.loads(body)["content"]["parts"]
            yield from (p["functionCall"]["id"] for p in parts if "functionCall" in p)
