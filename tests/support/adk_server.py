"""google-adk's own server, with an agent that the tests serve too; run in its environment."""

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from typing import Any

import uvicorn
from google.adk.agents import LlmAgent
from google.adk.cli.fast_api import get_fast_api_app
from google.adk.cli.utils.base_agent_loader import BaseAgentLoader
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types


def add(a: int, b: int) -> int:
    """Add numbers."""
    return a + b


def reply(contents: list[types.Content]) -> types.Content:
    """Call the tool, and then say what it returned."""
    parts = contents[-1].parts or []
    if any(part.function_response for part in parts):
        return types.Content(role="model", parts=[types.Part(text="It is three.")])
    call = types.FunctionCall(name="add", args={"a": 1, "b": 2})
    return types.Content(role="model", parts=[types.Part(function_call=call)])


class Scripted(BaseLlm):
    """Says what `reply` returns."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer."""
        yield LlmResponse(content=reply(llm_request.contents))


class Loader(BaseAgentLoader):
    """Loads the one agent."""

    def __init__(self) -> None:
        self._agent = LlmAgent(
            name="root",
            model=Scripted(model="scripted"),
            description="Adds.",
            instruction="Add.",
            tools=[add],
        )

    def load_agent(self, agent_name: str) -> Any:
        """See base class."""
        if agent_name != "app":
            raise ValueError(f"no agent {agent_name}")
        return self._agent

    def list_agents(self) -> list[str]:
        """See base class."""
        return ["app"]


async def main(folder: str) -> None:
    """Serve at a free port, and print it."""
    app = get_fast_api_app(
        agents_dir=folder,
        agent_loader=Loader(),
        session_service_uri="memory://",
        artifact_service_uri="memory://",
        memory_service_uri="memory://",
        web=True,
    )
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)  # noqa: T201 - for the test
    await uvicorn.Server(uvicorn.Config(app, log_level="warning")).serve(sockets=[listener])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
