"""The agent of the benchmarks: one tool call, then text, in every turn."""

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


def app() -> App:
    """The app."""
    agent = LlmAgent(name="g", model=capital_model(), tools=[get_capital])
    return App(name="bench", root_agent=agent)
