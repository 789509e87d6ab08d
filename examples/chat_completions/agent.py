"""An agent that asks a model by OpenAI's chat completions, through `model.py`."""

import os

from pydantic import SecretStr

from durable_adk.agents import LlmAgent

from .model import ChatCompletions  # noqa: TID252  # so that the folder can be copied as it is


def weather(city: str) -> dict[str, str]:
    """Tell the weather in a city."""
    return {"city": city, "weather": "sunny" if len(city) % 2 else "rainy"}


root_agent = LlmAgent(
    name="chat_completions",
    # Without a key, "offline": no LLM, just enough to try the runtime.
    model=ChatCompletions(
        model=os.environ.get("OPENAI_MODEL", "gpt-5-mini"),
        base_url=os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1"),
        api_key=SecretStr(os.environ["OPENAI_API_KEY"]),
    )
    if "OPENAI_API_KEY" in os.environ
    else "offline",
    instruction="Answer in one sentence. Look the weather up.",
    tools=[weather],
)
