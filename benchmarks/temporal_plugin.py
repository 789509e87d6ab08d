"""Temporal's own plugin for google-adk: ``python -m benchmarks.temporal_plugin ADDRESS QUEUE -``.

Runs in ``.venv/peers``. Its Runner is workflow code, and its session ends with the workflow.
"""

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.google_adk import GoogleAdkPlugin, TemporalModel
from temporalio.google_adk.workflow import activity_as_tool
from temporalio.worker import Worker
from temporalio.workflow import ActivityConfig

with workflow.unsafe.imports_passed_through():
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LLMRegistry, LlmRequest, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    from benchmarks import task

TIMEOUT = timedelta(seconds=150)


class CapitalModel(BaseLlm):
    """The model of all systems; the plugin makes one for each call by its name."""

    @classmethod
    def supported_models(cls) -> list[str]:
        """See base class."""
        return ["capital"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See base class."""
        del stream
        yield LlmResponse(content=task.reply(llm_request.contents))


@activity.defn
async def get_capital(country: str) -> str:
    """Return the capital of a country."""
    return task.get_capital(country)


@workflow.defn(name="Plugin")
class PluginWorkflow:
    """One turn."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> None:
        """Run it."""
        agent = LlmAgent(
            name="g",
            model=TemporalModel("capital", ActivityConfig(start_to_close_timeout=TIMEOUT)),
            tools=[activity_as_tool(get_capital, start_to_close_timeout=TIMEOUT)],
        )
        runner = InMemoryRunner(agent=agent, app_name="bench")
        session = await runner.session_service.create_session(app_name="bench", user_id="u")
        content = types.Content(role="user", parts=[types.Part(text=request["message"])])
        whose = {"user_id": "u", "session_id": session.id}
        async for _ in runner.run_async(**whose, new_message=content):
            pass


async def serve(address: str, queue: str) -> None:
    """Work until the input ends."""
    LLMRegistry.register(CapitalModel)
    client = await Client.connect(address, plugins=[GoogleAdkPlugin()])
    workflows, activities = [PluginWorkflow], [get_capital]
    async with Worker(client, task_queue=queue, workflows=workflows, activities=activities):
        await task.answer()


if __name__ == "__main__":
    logging.getLogger("google_adk").setLevel(logging.ERROR)  # it misses token counts
    asyncio.run(serve(*sys.argv[1:3]))
