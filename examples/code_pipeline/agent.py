"""Code that is written, reviewed and refactored, one agent after the other.

Each agent leaves its answer in the state under its `output_key`, in the same commit as the answer
itself; the next agent's instruction names it in braces.
"""

import os

from durable_adk.agents import LlmAgent, SequentialAgent

from . import stand_in  # noqa: TID252  # so that the folder can be copied as it is

GEMINI = "gemini-2.5-flash" if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys() else ""

writer = LlmAgent(
    name="writer",
    model=GEMINI or stand_in.writer,
    description="Writes a first version.",
    instruction="Write the Python function that the user asks for. Answer with the code alone.",
    output_key="code",
)
reviewer = LlmAgent(
    name="reviewer",
    model=GEMINI or stand_in.reviewer,
    description="Finds what could be better.",
    instruction="""Review this code. Answer with at most five findings, one a line, each with
what is wrong and what to do about it; or with "No findings.".
<code>{code}</code>""",
    output_key="findings",
)
refactorer = LlmAgent(
    name="refactorer",
    model=GEMINI or stand_in.refactorer,
    description="Applies the review.",
    instruction="""Rewrite this code so that none of the findings is true any more, and it still
does what it did. Answer with the code alone.
<code>{code}</code>
<findings>{findings}</findings>""",
    output_key="refactored_code",
)

root_agent = SequentialAgent(
    name="code_pipeline",
    description="Writes a Python function, reviews it, and applies the review.",
    sub_agents=[writer, reviewer, refactorer],
)
