"""A graph with all that the page shows of one: a join, a question, a graph in it, attempts."""

from functools import partial
from typing import Any

from anyio import Path
from pydantic import BaseModel

from durable_adk import Workflow
from durable_adk.events import Event, RequestInput
from durable_adk.workflow import DEFAULT_ROUTE, JoinNode, RetryConfig, node
from tests.support.waiting import until


class Guest(BaseModel):
    """A part of an answer."""

    name: str
    age: int


class Booking(BaseModel):
    """An answer that is an object with objects in it."""

    guests: list[Guest]
    breakfast: bool


async def hotel(node_input: str) -> int:
    """Return a price, once the file `priced` is there."""
    await until(partial(Path("priced").exists))
    return 90


def flight(node_input: str) -> int:
    """Return a price."""
    return 120


def total(node_input: dict[str, int]) -> Event:
    """Add the prices."""
    price = sum(node_input.values())
    return Event(output=price, state={"price": price})


def ask(price: int) -> RequestInput:
    """Ask a person."""
    return RequestInput(message=f"Pay {price} euros?", response_schema=bool)


def decide(node_input: bool) -> Event:
    """Return the answer as the route."""
    return Event(output=node_input, route=node_input)


def guests(node_input: Any) -> RequestInput:
    """Ask for an object."""
    return RequestInput(message="Who comes?", response_schema=Booking)


def book(ctx: Any, node_input: dict[str, Any]) -> str:
    """Fail at first."""
    if ctx.attempt_count == 1:
        raise ValueError("The line is busy.")
    return f"Booked for {node_input['guests'][0]['name']}."


def stop(price: int) -> str:
    """End."""
    return "Nothing was booked."


booking = Workflow(
    name="booking",
    edges=[
        (
            "START",
            guests,
            node(book, retry_config=RetryConfig(max_attempts=2, initial_delay=0, jitter=0)),
        )
    ],
)
root_agent = Workflow(
    name="trip",
    edges=[
        ("START", (flight, hotel), JoinNode(name="offers"), total, ask, decide),
        (decide, {True: booking, DEFAULT_ROUTE: stop}),
    ],
)
