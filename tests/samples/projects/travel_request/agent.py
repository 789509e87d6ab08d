"""People in a graph: one is asked for data, one twice by the same node, and one has to approve."""

from google.adk import Context, Workflow
from google.adk.events import RequestInput
from google.adk.workflow import node
from pydantic import BaseModel


class Trip(BaseModel):
    city: str
    days: int


def greet(node_input: str) -> dict[str, str]:
    return {"wish": node_input}


def ask_trip(node_input: dict[str, str]) -> RequestInput:
    return RequestInput(
        interrupt_id="trip",
        message=f"Where to, and for how long? You said: {node_input['wish']}",
        payload=node_input,
        response_schema=Trip,
    )


@node(rerun_on_resume=True)
async def ask_guests(ctx: Context, node_input: Trip):
    for question in ("adults", "children"):
        if question not in ctx.resume_inputs:
            yield RequestInput(interrupt_id=question, message=f"How many {question}?")
            return
    beds = ctx.resume_inputs["adults"] + ctx.resume_inputs["children"]
    ctx.state["price"] = 50 * node_input.days * beds
    yield {"city": node_input.city, "beds": beds}


def is_expensive(price: int) -> bool:
    return price > 500


@node(require_confirmation=is_expensive)
def book(ctx: Context, node_input: dict, price: int) -> str:
    ctx.state["booked"] = node_input["city"]
    return f"{node_input['city']}, {node_input['beds']} beds, {price} euros"


root_agent = Workflow(
    name="travel_request",
    edges=[("START", greet, ask_trip, ask_guests, book)],
)
