"""Files beside the conversation, and what is remembered across conversations."""

from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, ParallelAgent, RunConfig, SequentialAgent
from durable_adk.models import LlmRequest
from durable_adk.tools import ToolContext, load_artifacts, preload_memory
from tests.scenarios.parts import instruction, last, shown, speaker, thinker
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call, calls


def note(value: str) -> types.Part:
    """A text as an artifact."""
    return types.Part(inline_data=types.Blob(data=value.encode(), mime_type="text/plain"))


async def save(file: str, value: str, tool_context: ToolContext) -> int:
    """Save a file."""
    return await tool_context.save_artifact(file, note(value))


async def read(file: str, tool_context: ToolContext) -> str:
    """Read a file."""
    found = await tool_context.load_artifact(file)
    listed = await tool_context.list_artifacts()
    return f"{found.inline_data.data.decode() if found else None} of {listed}"


@scenario(
    "CTX-9 ART-3 ART-6 TRAP-41",
    says(
        "go",
        *("a call save", "a response save") * 2,
        "a call read",
        "a response read",
        "a text read=>{'result': \"two of ['note.txt']\"}",
    ),
)
def a_file_has_versions() -> BaseAgent:
    """A save that is run again after a crash makes no other version."""
    script = [
        call("save", file="note.txt", value="one"),
        call("save", file="note.txt", value="two"),
        call("read", file="note.txt"),
    ]

    def reply(request: LlmRequest) -> Any:
        turns = sum(content.role == "model" for content in request.contents)
        return [*script, last(request)][turns]

    return thinker("a", reply, tools=[save, read])


@scenario(
    "ART-4 ART-6 FLW-45",
    says("save", "a call save,save", "a response save,save", "a text saved"),
    says(
        "read",
        "a call read",
        "a response read",
        "a text read=>{'result': \"mine of ['user:b.txt']\"}",
        place="u/t",
    ),
    says(
        "read",
        "a call read",
        "a response read",
        "a text read=>{'result': 'None of []'}",
        place="v/s",
    ),
)
def files_of_a_session_and_of_a_user() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        said = last(request)
        if said == "save":
            both = (("a.txt", "here"), ("user:b.txt", "mine"))
            return calls(*(("save", {"file": file, "value": value}) for file, value in both))
        if said == "read":
            return call("read", file="user:b.txt")
        return "saved" if "save=>" in said else said

    return thinker("a", reply, tools=[save, read])


@scenario(
    "AGT-13 CTX-9 STA-16",
    says("go", "writer delta", "writer text text of the writer", "reader text got the draft"),
)
def a_callback_saves_what_an_instruction_shows() -> BaseAgent:
    async def before(callback_context: Any) -> None:
        await callback_context.save_artifact("draft.txt", note("the draft"))

    writer = speaker("writer", "text of the writer", before_agent_callback=before)
    reader = thinker(
        "reader", lambda r: f"got {instruction(r)}", instruction="{artifact.draft.txt}"
    )
    return SequentialAgent(name="seq", sub_agents=[writer, reader])


@scenario(
    "CTX-9 AGT-33 TRAP-41",
    says(
        "go",
        "a call save",
        "a response save",
        "a text done",
        "b call save",
        "b response save",
        "b text done",
        "last text A B",
    ),
    side_by_side=True,
)
def branches_save_side_by_side() -> BaseAgent:
    def saver(name: str) -> BaseAgent:
        return speaker(
            name, call("save", file=f"{name}.txt", value=name.upper()), "done", tools=[save]
        )

    par = ParallelAgent(name="par", sub_agents=[saver("a"), saver("b")])
    words = "{artifact.a.txt} {artifact.b.txt}"
    return SequentialAgent(
        name="seq", sub_agents=[par, thinker("last", instruction, instruction=words)]
    )


def _upload(text: str) -> types.Content:
    file = types.Blob(data=b"\x00\x01\x02", mime_type="image/png")
    return types.Content(role="user", parts=[types.Part(text=text), types.Part(inline_data=file)])


@scenario(
    "RUN-22 TOL-25",
    says(
        _upload("what is this?"),
        *("a call load_artifacts", "a response load_artifacts", "a text 3 bytes"),
        run_config=RunConfig(save_input_blobs_as_artifacts=True),
    ),
    says("again", "a text a file was in the message"),
)
def an_uploaded_file_is_kept_and_loaded() -> BaseAgent:
    def reply(request: LlmRequest) -> Any:
        parts = [part for content in request.contents for part in content.parts or []]
        blobs = [part.inline_data.data for part in parts if part.inline_data]
        if blobs:
            return f"{len(blobs[0])} bytes"
        if any(part.function_call for part in parts):
            return "a file was in the message"
        return call("load_artifacts", artifact_names=["artifact_i1_1"])

    return thinker("a", reply, tools=[load_artifacts])


async def _remember(callback_context: Any) -> None:
    await callback_context.add_session_to_memory()


@scenario(
    "MEM-1 MEM-4 MEM-5 TOL-26",
    says("my parrot is green", "a text noted"),
    says(
        "what colour is my parrot?",
        *(
            "a call recall",
            "a response recall",
            "a text recall=>{'result': ['my parrot is green']}",
        ),
        place="u/t",
    ),
    says(
        "what colour is my parrot?",
        *("a call recall", "a response recall", "a text recall=>{'result': []}"),
        place="v/s",
    ),
)
def another_session_is_remembered() -> BaseAgent:
    """By its own user."""

    async def recall(query: str, tool_context: ToolContext) -> list[str]:
        """Search the memory."""
        found = await tool_context.search_memory(query)
        return [memory.content.parts[0].text for memory in found.memories]

    def reply(request: LlmRequest) -> Any:
        said = last(request)
        if "=>" in said:
            return said
        return call("recall", query="parrot") if said.endswith("?") else "noted"

    return thinker("a", reply, tools=[recall], after_agent_callback=_remember)


@scenario(
    "MEM-3 TOL-26",
    says("my parrot is green", "a text user:my parrot is green"),
    says("my parrot?", "a text remembers", place="u/t"),
)
def a_memory_is_shown_before_it_is_asked_for() -> BaseAgent:
    def reply(request: LlmRequest) -> str:
        told = f"{request.config.system_instruction} {request.contents}"
        return "remembers" if "is green" in told and "my parrot?" in told else shown(request)

    return thinker("a", reply, tools=[preload_memory], after_agent_callback=_remember)
