from enum import Enum

from google.adk.agents import LlmAgent
from google.adk.examples import Example
from google.adk.planners import PlanReActPlanner
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.example_tool import ExampleTool
from google.genai import types
from pydantic import BaseModel, Field


class Pace(str, Enum):
    SLOW = "slow"
    FAST = "fast"


class Wish(BaseModel):
    city: str = Field(description="The city to visit.")
    days: int = Field(description="How many days.")
    pace: Pace = Pace.SLOW


class Stop(BaseModel):
    time: str = Field(description="Like 09:30.")
    place: str


class Day(BaseModel):
    number: int
    stops: list[Stop] = Field(default_factory=list)


class Itinerary(BaseModel):
    city: str
    days: list[Day]
    remark: str | None = None


def opening_hours(place: str) -> dict:
    """The opening hours of a place."""
    return {"place": place, "opens": "10:00"}


planner_agent = LlmAgent(
    name="itinerary_planner",
    model="gemini-2.5-flash",
    description="Makes an itinerary for a wish.",
    instruction="You make an itinerary as JSON for the wish that you get as JSON.",
    input_schema=Wish,
    output_schema=Itinerary,
    output_key="itinerary",
    generate_content_config=types.GenerateContentConfig(temperature=0.1),
    disallow_transfer_to_parent=True,
    disallow_transfer_to_peers=True,
)

hours_agent = LlmAgent(
    name="hours",
    model="gemini-2.5-flash",
    description="Knows when places open.",
    instruction="You say when places open, in one sentence.",
    tools=[opening_hours],
)

root_agent = LlmAgent(
    name="concierge",
    model="gemini-2.5-flash",
    instruction="You are the concierge. Have itineraries made and opening hours looked up.",
    planner=PlanReActPlanner(),
    tools=[
        AgentTool(agent=planner_agent),
        AgentTool(hours_agent, skip_summarization=False),
        ExampleTool(
            [
                Example(
                    input=types.UserContent(parts=[types.Part(text="A day in Bergen.")]),
                    output=[types.ModelContent(parts=[types.Part(text="With pleasure.")])],
                )
            ]
        ),
    ],
)
