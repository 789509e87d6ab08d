"""A headline that is cut until the critic has nothing left to say.

The loop ends when an agent escalates. The refiner's model does that by calling `exit_loop`; if it
never does, `max_iterations` ends the loop.
"""

import os

from durable_adk.agents import LlmAgent, LoopAgent, SequentialAgent
from durable_adk.tools import exit_loop

from . import stand_in  # noqa: TID252  # so that the folder can be copied as it is

GEMINI = "gemini-2.5-flash" if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys() else ""

drafter = LlmAgent(
    name="drafter",
    model=GEMINI or stand_in.drafter,
    instruction="Make a headline of what the user tells you. Answer with the headline alone.",
    output_key="headline",
)
critic = LlmAgent(
    name="critic",
    model=GEMINI or stand_in.critic,
    instruction="""A headline has at most eight words, and none that it can do without.
If this is one, answer "Good."; else name one word to leave out, and say why.
<headline>{headline}</headline>""",
    output_key="criticism",
)
refiner = LlmAgent(
    name="refiner",
    model=GEMINI or stand_in.refiner,
    instruction="""If the criticism is "Good.", call exit_loop and say nothing. Else do what it
asks for, and answer with the new headline alone.
<headline>{headline}</headline>
<criticism>{criticism}</criticism>""",
    tools=[exit_loop],
    output_key="headline",
)

root_agent = SequentialAgent(
    name="refinement_loop",
    description="Makes a good headline.",
    sub_agents=[
        drafter,
        LoopAgent(name="polish", sub_agents=[critic, refiner], max_iterations=8),
    ],
)
