"""Reports that are kept as artifacts, version by version.

An artifact is a named file. It belongs to the session, or with a name that begins with `user:` to
the user, in all sessions. Saving a name again makes a new version; the event of the tool that saved
it says which. A tool that is killed while it saves runs again, and makes no second version.
"""

import os

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.tools import ToolContext
from durable_adk.tools.load_artifacts_tool import load_artifacts_tool

from . import stand_in  # noqa: TID252  # so that the folder can be copied as it is

GEMINI = "gemini-2.5-flash" if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys() else ""
REPORT = "report.md"
SIGNATURE = "user:signature.txt"

SALES = {
    "april": {"kettles": 110, "lamps": 64},
    "may": {"kettles": 87, "lamps": 92},
    "june": {"kettles": 95, "lamps": 120},
}


def get_sales(month: str) -> dict[str, object]:
    """Find how many pieces of each product were sold in a month."""
    sold = SALES.get(month.lower())
    return {"month": month, "sold": sold} if sold else {"error": f"No sales are known of {month}."}


async def save_report(text: str, tool_context: ToolContext) -> dict[str, object]:
    """Keep a report as the next version of the report."""
    version = await tool_context.save_artifact(REPORT, types.Part(text=text))
    return {"name": REPORT, "version": version}


async def list_versions(tool_context: ToolContext) -> dict[str, object]:
    """List the titles of the report's versions, oldest first."""
    latest = await tool_context.get_artifact_version(REPORT)
    count = latest.version + 1 if latest else 0
    reports = [await tool_context.load_artifact(REPORT, version) for version in range(count)]
    return {"titles": [part.text.partition("\n")[0] for part in reports if part and part.text]}


async def set_signature(text: str, tool_context: ToolContext) -> dict[str, object]:
    """Keep the line that the user's reports end with, in this session and all others."""
    version = await tool_context.save_artifact(SIGNATURE, types.Part(text=text))
    return {"name": SIGNATURE, "version": version}


root_agent = LlmAgent(
    name="report_artifacts",
    model=GEMINI or stand_in.reporter,
    description="Writes reports and keeps them.",
    instruction=f"""Write reports in Markdown: look the sales up, write a title and a line for each
product, save the report, then tell its version. To show a report, load it first. Each report ends
with this line, if there is one: <signature>{{artifact.{SIGNATURE}?}}</signature>""",
    tools=[get_sales, save_report, list_versions, set_signature, load_artifacts_tool],
)
