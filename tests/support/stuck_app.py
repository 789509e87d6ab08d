"""An agent whose tools keep a worker from its work.

What a tool does once only it notes in the folder that variable `FOLDER` names.
"""

import contextlib
import os
import re
import threading
import uuid
from pathlib import Path

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.tools import FunctionTool

FOLDER = "STUCK_FOLDER"
HANGS = "hangs-"
LET_GO = threading.Event()
"""Ends what hangs in this process."""


def hangs() -> str:
    """Never come back; the folder has a note for each thread that has begun."""
    (Path(os.environ[FOLDER]) / f"{HANGS}{uuid.uuid4().hex}").touch()
    LET_GO.wait(300)
    return "let go"


def fine() -> str:
    """Come back at once."""
    return "fine"


def works() -> str:
    """Take longer than a worker has when it ends, at the first worker only."""
    if not is_second("works"):
        LET_GO.wait(300)
    return "worked"


async def blocks() -> str:
    """Block the event loop of the first worker."""
    if not is_second("blocks"):
        LET_GO.wait(300)
    return "not blocked"


def freezes() -> str:
    """Keep the interpreter of the first worker to itself, as no wait does."""
    if not is_second("freezes"):
        re.match("(a+)+$", "a" * 60 + "b")
    return "not frozen"


def is_second(name: str) -> bool:
    """Whether another process has been here before."""
    return first_process(name) != os.getpid()


def first_process(name: str) -> int:
    """The id of the process that was the first to come here; it is recorded."""
    note = Path(os.environ[FOLDER]) / name
    own = note.with_name(f"{name}-{uuid.uuid4().hex}")
    own.write_text(str(os.getpid()))
    with contextlib.suppress(FileExistsError):
        note.hardlink_to(own)  # whole at once: others may read it at any moment
    own.unlink()
    return int(note.read_text())


def reply(request: LlmRequest) -> str | list[types.Part]:
    """Call what the message names, as often as it says."""
    last = request.contents[-1].parts or []
    if last[0].function_response is not None:
        return f"{(last[0].function_response.response or {})['result']}"
    name, _, count = (last[0].text or "").partition(" ")
    asked = types.Part(function_call=types.FunctionCall(name=name, args={}))
    return [asked] * int(count or 1)


root_agent = LlmAgent(
    name="stuck_app",
    model=ScriptedModel(replies=reply),
    tools=[FunctionTool(hangs, timeout=1.0), fine, works, blocks, freezes],
)
app = App(name="stuck_app", root_agent=root_agent)
