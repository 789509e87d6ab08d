"""Three researchers at the same time, and one who makes a brief of what they found.

The researchers run side by side and do not see each other's events. Each has a tool, and leaves its
findings in the state; the editor runs when all three are done. When a worker is killed, only what
had not been committed is looked up again.
"""

import os

from durable_adk.agents import LlmAgent, ParallelAgent, SequentialAgent

from . import stand_in, tools  # noqa: TID252  # so that the folder can be copied as it is

GEMINI = "gemini-2.5-flash" if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys() else ""

climate_researcher = LlmAgent(
    name="climate_researcher",
    model=GEMINI or stand_in.climate_researcher,
    instruction="Look up the climate of the city the user asks about; tell it in a sentence.",
    tools=[tools.get_climate],
    output_key="climate",
)
cost_researcher = LlmAgent(
    name="cost_researcher",
    model=GEMINI or stand_in.cost_researcher,
    instruction="Look up what the city the user asks about costs; tell it in a sentence.",
    tools=[tools.get_costs],
    output_key="costs",
)
sights_researcher = LlmAgent(
    name="sights_researcher",
    model=GEMINI or stand_in.sights_researcher,
    instruction="Look up the sights of the city the user asks about; tell them in a sentence.",
    tools=[tools.get_sights],
    output_key="sights",
)
editor = LlmAgent(
    name="editor",
    model=GEMINI or stand_in.editor,
    instruction="""Make a brief for a traveller of these findings, and of nothing else. Say last
whether you would go, and why.
<climate>{climate}</climate>
<costs>{costs}</costs>
<sights>{sights}</sights>""",
    output_key="brief",
)

root_agent = SequentialAgent(
    name="parallel_research",
    description="Researches a city.",
    sub_agents=[
        ParallelAgent(
            name="researchers",
            sub_agents=[climate_researcher, cost_researcher, sights_researcher],
        ),
        editor,
    ],
)
