"""A story, written by a flow of agents that is plain Python.

`StoryFlow` is a custom agent: its body runs the other agents, in an order that no workflow agent
knows, and decides by what they have written to the state. The body is replayed after a crash, so it
does no I/O; everything that thinks or acts is an agent, and none that has finished runs again.
"""

import os
from collections.abc import AsyncGenerator

from google.genai import types

from durable_adk.agents import (
    BaseAgent,
    InvocationContext,
    LlmAgent,
    LoopAgent,
    SequentialAgent,
)
from durable_adk.events import Event

from . import stand_in  # noqa: TID252  # so that the folder can be copied as it is

GEMINI = "gemini-2.5-flash" if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys() else ""


class StoryFlow(BaseAgent):
    """Draft, revise, check; brighten what came out too dark; publish."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        writer, workshop, checks, brightener = self.sub_agents
        for agent in (writer, workshop, checks):
            async for event in agent.run_async(ctx):
                yield event
        # An event is committed before `yield` returns, so the state already has what it changed.
        if "dark" in ctx.session.state["tone"].lower():
            async for event in brightener.run_async(ctx):
                yield event
        story = types.Part(text=ctx.session.state["story"])
        yield Event(author=self.name, content=types.Content(role="model", parts=[story]))


writer = LlmAgent(
    name="writer",
    model=GEMINI or stand_in.writer,
    instruction="Write a story of three sentences about what the user asks for. Only the story.",
    output_key="story",
)
critic = LlmAgent(
    name="critic",
    model=GEMINI or stand_in.critic,
    instruction="Name the one thing this story lacks most, in a sentence: <story>{story}</story>",
    output_key="criticism",
)
reviser = LlmAgent(
    name="reviser",
    model=GEMINI or stand_in.reviser,
    instruction="Add one sentence to this story, for what the critic says it lacks, and answer "
    "with all of it: <story>{story}</story> <criticism>{criticism}</criticism>",
    output_key="story",
)
grammar_check = LlmAgent(
    name="grammar_check",
    model=GEMINI or stand_in.grammar_check,
    instruction="Answer with this story, its spelling corrected: <story>{story}</story>",
    output_key="story",
)
tone_check = LlmAgent(
    name="tone_check",
    model=GEMINI or stand_in.tone_check,
    instruction="Is this story bright or dark? Answer in that one word: <story>{story}</story>",
    output_key="tone",
)
brightener = LlmAgent(
    name="brightener",
    model=GEMINI or stand_in.brightener,
    instruction="Give this story a comforting end; answer with all of it: <story>{story}</story>",
    output_key="story",
)

root_agent = StoryFlow(
    name="story_flow",
    description="Writes a short story.",
    sub_agents=[
        writer,
        LoopAgent(name="workshop", sub_agents=[critic, reviser], max_iterations=2),
        SequentialAgent(name="checks", sub_agents=[grammar_check, tone_check]),
        brightener,
    ],
)
