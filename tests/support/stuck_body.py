"""A custom agent whose body blocks its workflow, in the process that is the first to come to it."""

import os
import threading
from collections.abc import AsyncGenerator

from google.genai import types

from durable_adk.agents import BaseAgent, InvocationContext
from durable_adk.apps import App
from durable_adk.events import Event
from tests.support.stuck_app import FOLDER, first_process


def waits() -> None:
    """Block, where the guard of an agent's body does not look; not when histories are replayed."""
    if FOLDER in os.environ and first_process("body") == os.getpid():
        threading.Event().wait(300)


class Blocking(BaseAgent):
    """It says so once it is through."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        waits()
        content = types.Content(role="model", parts=[types.Part(text="not blocked")])
        yield Event(author=self.name, content=content)


app = App(name="stuck_body", root_agent=Blocking(name="blocking"))
