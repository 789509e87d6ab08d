"""Models of google-adk whose real client libraries ask a scripted server."""

from dataclasses import dataclass
from typing import Any

from anthropic import AsyncAnthropic
from google.adk.agents import LlmAgent
from google.adk.integrations.openai import OpenAILlm
from google.adk.models import BaseLlm
from google.adk.models.anthropic_llm import AnthropicLlm
from google.adk.models.lite_llm import LiteLlm

from tests.stubs.anthropic_stub import AnthropicStub
from tests.stubs.openai_stub import OpenAIStub
from tests.stubs.scripted_server import ScriptedServer

KEY = "key-7c1d"
GPT, CLAUDE = "gpt-4o", "claude-opus-4-5"
TOO_LONG = {
    "openai": "This model's maximum context length is 128000 tokens.",
    "anthropic": "prompt is too long: 208310 tokens > 200000 maximum",
}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    429: "rate_limit_error",
    500: "api_error",
    529: "overloaded_error",
}


@dataclass(frozen=True)
class Wire:
    """A model's class and the provider whose format it speaks."""

    name: str
    provider: str

    def server(self) -> ScriptedServer:
        """The provider."""
        return OpenAIStub() if self.provider == "openai" else AnthropicStub()

    def model(self, url: str) -> BaseLlm:
        """The model, whose libraries retry as they do by default."""
        if self.name == "OpenAILlm":
            return OpenAILlm(model=GPT, base_url=url, api_key=KEY)
        if self.name == "AnthropicLlm":
            return AnthropicLlm(model=CLAUDE, client=AsyncAnthropic(base_url=url, api_key=KEY))
        name = GPT if self.provider == "openai" else CLAUDE
        return LiteLlm(model=f"{self.provider}/{name}", api_base=url, api_key=KEY)

    def error(self, status: int, words: str = "no", code: str | None = None) -> Any:
        """The body of an error."""
        inner: dict[str, Any] = {"type": _TYPES[status], "message": words}
        if self.provider == "openai":
            return {"error": inner | {"code": code, "param": None}}
        return {"type": "error", "error": inner}

    def refusal(self, status: int, words: str = "no", code: str | None = None, **more: str) -> Any:
        """The entry of a script that answers with an error; `more` are headers."""
        headers = {name.replace("_", "-"): value for name, value in more.items()}
        return {"status": status, "body": self.error(status, words, code), "headers": headers}


WIRES = [
    Wire("LiteLlm", "openai"),
    Wire("LiteLlm", "anthropic"),
    Wire("AnthropicLlm", "anthropic"),
    Wire("OpenAILlm", "openai"),
]


def weather(city: str) -> dict[str, str]:
    """Look the weather of a city up."""
    return {"weather": f"rain in {city}"}


def weather_agent(wire: Wire, url: str) -> LlmAgent:
    """An agent with one tool."""
    return LlmAgent(name="forecaster", model=wire.model(url), tools=[weather])
