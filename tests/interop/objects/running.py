"""Runs objects of google-adk in process."""

from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.genai import types

from durable_adk.events import Event
from durable_adk.runners import InMemoryRunner
from tests.adk.scripted import ScriptedModel


def call(name: str, /, **args: Any) -> types.Part:
    """A reply of a model that calls a tool."""
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


def llm(name: str, *replies: Any, **fields: Any) -> LlmAgent:
    """An agent of google-adk with a script."""
    return LlmAgent(name=name, model=ScriptedModel(replies=list(replies)), **fields)


async def heard(runnable: Any, *messages: str) -> list[Event]:
    """The events of an agent or app of google-adk, for each message in turn."""
    made = InMemoryRunner(app=runnable) if isinstance(runnable, App) else InMemoryRunner(runnable)
    async with made as runner:
        return [
            event
            for message in messages or ["hello"]
            for event in await runner.run_debug(message, quiet=True)
        ]


def texts(events: list[Event]) -> list[str]:
    """What the agents said."""
    return [f"{event.author}: {event.text}" for event in events if event.text]
