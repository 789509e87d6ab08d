"""The agents of the benchmarks: one tool call, then text, in every turn."""

from typing import Any

from google.genai import types

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.models import ScriptedModel

TURNS = 500


def get_capital(country: str) -> str:
    """Return the capital of a country."""
    del country
    return "Paris"


def capital_model() -> ScriptedModel:
    """A model that has the tool called and then answers, turn after turn."""
    call = types.FunctionCall(name="get_capital", args={"country": "France"})
    return ScriptedModel(replies=[types.Part(function_call=call), "It is Paris."] * TURNS)


def apps() -> list[App]:
    """The app, and one that shows the model the current turn only: its request does not grow."""
    return [
        App(name="bench", root_agent=_agent()),
        App(name="short", root_agent=_agent(include_contents="none")),
    ]


def _agent(**fields: Any) -> LlmAgent:
    return LlmAgent(name="g", model=capital_model(), tools=[get_capital], **fields)
