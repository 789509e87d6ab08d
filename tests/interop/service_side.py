"""google-adk's programs over our stores, in a process of its environment.

Each line of JSON that it reads is answered by one.
"""

import asyncio
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.artifacts import (  # noqa: E402
    BaseArtifactService,
    InMemoryArtifactService,
)
from google.adk.errors._stale_session_error import StaleSessionError  # noqa: E402
from google.adk.errors.already_exists_error import AlreadyExistsError  # noqa: E402
from google.adk.errors.session_not_found_error import SessionNotFoundError  # noqa: E402
from google.adk.events.event import Event  # noqa: E402
from google.adk.events.event_actions import EventActions  # noqa: E402
from google.adk.memory import BaseMemoryService, InMemoryMemoryService  # noqa: E402
from google.adk.memory.memory_entry import MemoryEntry  # noqa: E402
from google.adk.models import BaseLlm, LlmRequest, LlmResponse  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions import BaseSessionService, InMemorySessionService  # noqa: E402
from google.adk.sessions.base_session_service import GetSessionConfig  # noqa: E402
from google.adk.sessions.session import Session  # noqa: E402
from google.adk.tools import ToolContext, load_memory  # noqa: E402
from google.genai import types  # noqa: E402
from pydantic import Field  # noqa: E402

from durable_adk.interop.stored_services import (  # noqa: E402
    DurableArtifactService,
    DurableMemoryService,
    DurableSessionService,
)

OWNER = {"app_name": "shop", "user_id": "anna"}
SESSION = {**OWNER, "session_id": "s1"}


class Model(BaseLlm):
    """Answers from a script, in order, and notes what it was asked."""

    model: str = "scripted"
    answers: list[types.Part]
    asked: list[list[str]] = Field(default_factory=list)

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        self.asked.append([part.text or "-" for part in parts])
        yield LlmResponse(content=types.Content(role="model", parts=[self.answers.pop(0)]))


async def order(size: int, tool_context: ToolContext) -> dict[str, Any]:
    """Order shoes."""
    tool_context.state["size"] = size
    tool_context.state["user:name"] = "Anna"
    tool_context.state["app:sold"] = {"n": 1}
    tool_context.state["temp:x"] = 1
    version = await tool_context.save_artifact("bill.txt", types.Part(text="one pair"))
    await tool_context.save_artifact("user:card.txt", types.Part(text="gold"))
    return {"version": version}


def called(name: str, **arguments: Any) -> types.Part:
    """A part with a call."""
    return types.Part(function_call=types.FunctionCall(name=name, args=arguments))


async def talk(runner: Runner, *messages: str) -> None:
    """Send messages."""
    for message in messages:
        content = types.Content(role="user", parts=[types.Part(text=message)])
        async for _ in runner.run_async(user_id="anna", session_id="s1", new_message=content):
            pass


def seen(session: Session) -> dict[str, Any]:
    """A session without what differs from run to run."""
    names = dict[str, str]()
    value = session.model_dump(mode="json", exclude={"last_update_time"}, exclude_none=True)
    for event in value["events"]:
        for name in ("id", "timestamp", "invocation_id"):
            del event[name]
        event["long_running_tool_ids"] = sorted(event.get("long_running_tool_ids", []))
        for part in event.get("content", {}).get("parts", []):
            for call in (part.get("function_call"), part.get("function_response")):
                for entry in (call or {}).get("response", {}).get("result", {}).get("memories", []):
                    del entry["id"], entry["timestamp"]
                if call:
                    call["id"] = names.setdefault(call["id"], f"call {len(names)}")
    return value


async def conversation(
    sessions: BaseSessionService, artifacts: BaseArtifactService, memory: BaseMemoryService
) -> dict[str, Any]:
    """What google-adk's runner makes of a conversation with these services."""
    model = Model(
        answers=[
            called("order", size=42),
            types.Part(text="Ordered."),
            called("load_memory", query="shoes"),
            types.Part(text="You ordered shoes."),
        ]
    )
    agent = LlmAgent(name="seller", model=model, tools=[order, load_memory], output_key="said")
    services = {"artifact_service": artifacts, "memory_service": memory}
    runner = Runner(app_name="shop", agent=agent, session_service=sessions, **services)
    await sessions.create_session(**SESSION, state={"begun": True, "user:tier": 1})
    await talk(runner, "I want shoes.")
    session = await sessions.get_session(**SESSION)
    assert session is not None
    await memory.add_session_to_memory(session)
    await talk(runner, "What did I order?")
    session = await sessions.get_session(**SESSION)
    assert session is not None
    listed = await sessions.list_sessions(app_name="shop")
    bill = await artifacts.load_artifact(**SESSION, filename="bill.txt")
    card = await artifacts.load_artifact(**OWNER, session_id=None, filename="user:card.txt")
    return {
        "session": seen(session),
        "listed": [one.id for one in listed.sessions],
        "user": await sessions.get_user_state(**OWNER),
        "files": sorted(await artifacts.list_artifact_keys(**SESSION)),
        "contents": [one and one.text for one in (bill, card)],
        "versions": await artifacts.list_versions(**SESSION, filename="bill.txt"),
        "asked": model.asked,
    }


async def converse(folder: str, url: str) -> list[Any]:
    """The same conversation over google-adk's services and over ours."""
    ours = DurableSessionService(url)
    memory = DurableMemoryService(f"sqlite:///{folder}/memory.db")
    artifacts = DurableArtifactService(Path(folder) / "artifacts")
    pairs = [(ours, BaseSessionService), (memory, BaseMemoryService)]
    assert all(isinstance(*pair) for pair in [*pairs, (artifacts, BaseArtifactService)])
    theirs = [InMemorySessionService(), InMemoryArtifactService(), InMemoryMemoryService()]
    found = [await conversation(*theirs), await conversation(ours, artifacts, memory)]
    await ours.close()
    await memory.close()
    return found


async def go_on(url: str) -> list[list[str]]:
    """What the model is asked when google-adk continues with a session."""
    sessions = DurableSessionService(url)
    model = Model(answers=[types.Part(text="Gladly.")])
    agent = LlmAgent(name="seller", model=model)
    runner = Runner(app_name="shop", agent=agent, session_service=sessions)
    await talk(runner, "Once more.")
    await sessions.close()
    return model.asked


async def raised(work: Any) -> str:
    """The name and module of what is raised."""
    try:
        await work
    except (StaleSessionError, AlreadyExistsError, SessionNotFoundError) as error:
        return type(error).__name__
    return ""


def said(text: str, **fields: Any) -> Event:
    """An event with a text."""
    content = types.Content(role="user", parts=[types.Part(text=text)])
    return Event(author="user", invocation_id="e-1", content=content, **fields)


async def calls(url: str) -> dict[str, Any]:
    """What single calls return and raise."""
    sessions = DurableSessionService(url)
    first = await sessions.create_session(**SESSION)
    late = await sessions.get_session(**SESSION)
    plain = Session(id="s1", **OWNER)
    assert late is not None
    event = said("one", actions=EventActions(state_delta={"temp:t": 1, "k": None}), timestamp=5.0)
    await sessions.append_event(first, event)
    await sessions.append_event(first, event)
    found = {
        "stale": await raised(sessions.append_event(late, said("x"))),
        "stale without a revision": await raised(sessions.append_event(plain, said("x"))),
        "taken": await raised(sessions.create_session(**SESSION)),
        "missing": await raised(sessions.append_event(Session(id="s2", **OWNER), said("x"))),
        "in memory": (first.state, len(first.events)),
    }
    plain.events = [event]
    await sessions.append_event(plain, said("two", timestamp=6.0))
    config = GetSessionConfig(num_recent_events=1)
    recent = await sessions.get_session(**SESSION, config=config)
    since = await sessions.get_session(**SESSION, config=GetSessionConfig(after_timestamp=6.0))
    assert recent is not None
    assert since is not None
    found["recent"] = [len(recent.events), len(since.events), recent.state]
    await sessions.delete_session(**SESSION)
    found["deleted"] = await sessions.get_session(**SESSION)
    await sessions.close()
    return found


async def memories(folder: str) -> dict[str, Any]:
    """What single calls of the memory and artifact services do."""
    memory = DurableMemoryService(f"sqlite:///{folder}/memory.db")
    await memory.add_events_to_memory(**OWNER, events=[said("red shoes")], session_id="s1")
    entry = MemoryEntry(content=types.Content(parts=[types.Part(text="blue hats")]))
    await memory.add_memory(**OWNER, memories=[entry], custom_metadata={"by": "hand"})
    hats = (await memory.search_memory(**OWNER, query="hats")).memories
    await memory.delete_memory(**OWNER, memory_id=hats[0].id)
    left = [
        (await memory.search_memory(**OWNER, query=word)).memories for word in ("shoes", "hats")
    ]
    await memory.close()
    artifacts = DurableArtifactService(f"{folder}/artifacts")
    mine = {**OWNER, "filename": "a.txt"}
    await artifacts.save_artifact(**mine, artifact={"text": "x"}, custom_metadata={"m": 1})
    version = await artifacts.get_artifact_version(**mine)
    keys = await artifacts.list_artifact_keys(**OWNER)
    await artifacts.delete_artifact(**mine)
    return {
        "hats": [hats[0].custom_metadata, len(hats)],
        "left": [len(one) for one in left],
        "version": version and [version.version, version.custom_metadata],
        "keys": keys,
        "deleted": await artifacts.load_artifact(**mine),
    }


WORK = {"converse": converse, "go_on": go_on, "calls": calls, "memories": memories}


def main() -> None:
    """Answer until the input ends; what google-adk prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with asyncio.Runner() as runner:
        for line in sys.stdin:
            given = json.loads(line)
            told = runner.run(WORK[given.pop("work")](**given))
            print(json.dumps(told), file=answers, flush=True)


if __name__ == "__main__":
    main()
