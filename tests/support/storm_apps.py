"""An app whose runs have a long history before they wait."""

from pathlib import Path

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.context.activity import ToolContext
from durable_adk.models import ScriptedModel
from tests.support.chaos_apps import Traces
from tests.support.scripts import call

STORM = "storm"
"""The app's name."""
LOOKS = 8
"""Tool calls before the one that waits."""


def storm_app(folder: Path) -> App:
    """The app, with its traces in `folder`."""
    traces = Traces(folder)

    def look() -> str:
        """Look."""
        return "seen"

    async def patient(tool_context: ToolContext) -> str:
        """Wait for the gate."""
        traces.note("patient", tool_context.idempotency_key)
        await traces.through_gate()
        return "through"

    replies = [*([call("look")] * LOOKS), call("patient"), "Done."]
    model = ScriptedModel(replies=replies)
    return App(name=STORM, root_agent=LlmAgent(name="asker", model=model, tools=[look, patient]))
