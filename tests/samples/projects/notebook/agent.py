from typing import Any, Optional

from google.adk.agents import Agent
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.save_files_as_artifacts_plugin import SaveFilesAsArtifactsPlugin
from google.adk.tools import ToolContext, load_artifacts, load_memory
from google.genai import types


class CountInvocationPlugin(BasePlugin):
    """Counts the runs of agents and the requests to models."""

    def __init__(self) -> None:
        super().__init__(name="count_invocation")
        self.agent_count = 0
        self.llm_request_count = 0

    async def before_agent_callback(
        self, *, agent: BaseAgent, callback_context: CallbackContext
    ) -> None:
        self.agent_count += 1
        print(f"[Plugin] Agents run: {self.agent_count}")

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> None:
        self.llm_request_count += 1
        print(f"[Plugin] Requests to models: {self.llm_request_count}")


async def write_note(title: str, text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Writes a note into a file."""
    part = types.Part.from_bytes(data=text.encode("utf-8"), mime_type="text/plain")
    version = await tool_context.save_artifact(filename=f"{title}.txt", artifact=part)
    return {"status": "saved", "version": version}


async def read_note(title: str, tool_context: ToolContext) -> str:
    """Reads a note."""
    part = await tool_context.load_artifact(f"{title}.txt")
    if not part or not part.inline_data:
        return f"There is no note {title}; there are {await tool_context.list_artifacts()}."
    return part.inline_data.data.decode("utf-8")


async def remember_session(callback_context: CallbackContext) -> Optional[types.Content]:
    await callback_context._invocation_context.memory_service.add_session_to_memory(
        callback_context._invocation_context.session
    )
    return None


root_agent = Agent(
    model="gemini-2.5-flash",
    name="notebook",
    instruction="You keep notes. For what was said in earlier talks use load_memory.",
    tools=[write_note, read_note, load_artifacts, load_memory],
    after_agent_callback=remember_session,
)

app = App(
    name="notebook",
    root_agent=root_agent,
    plugins=[CountInvocationPlugin(), SaveFilesAsArtifactsPlugin()],
    events_compaction_config=EventsCompactionConfig(compaction_interval=20, overlap_size=1),
)
