"""FLOOR: what a tool turn costs on Temporal when nothing is committed.

A workflow written by hand with the three activities of a tool turn (model, tool, model): the same
scripted model, the same function tool, the conversation passed by value, on a worker with the same
settings. Whatever we cost above it is the price of the session store and of the loop.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from google.genai import types

    from benchmarks.agent import capital_model, get_capital
    from durable_adk.models import LlmRequest
    from durable_adk.tools import FunctionTool
    from durable_adk.worker import WorkerOptions
    from durable_adk.workflows.runner import workflow_runner

_TOOL = FunctionTool(get_capital)
_MODEL = capital_model()


class Turn(BaseModel):
    """What a hand-written workflow passes to its activities: the conversation itself."""

    contents: list[types.Content]


@activity.defn
async def floor_model(turn: Turn) -> types.Content:
    """Ask the model."""
    request = LlmRequest(model=_MODEL.model, contents=turn.contents)
    request.append_tools([_TOOL])
    async for response in _MODEL.generate_content_async(request):
        if response.content:
            return response.content
    raise RuntimeError("no answer")


@activity.defn
async def floor_tool(turn: Turn) -> types.Content:
    """Run the call of the last content."""
    call = (turn.contents[-1].parts or [])[0].function_call
    assert call is not None
    result = await _TOOL.run_async(args=call.args or {}, tool_context=None)  # type: ignore[arg-type]
    answer = types.FunctionResponse(name=call.name, response={"result": result})
    return types.Content(role="user", parts=[types.Part(function_response=answer)])


@workflow.defn(name="Floor")
class FloorWorkflow:
    """Model, tool, model."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one tool turn."""
        message = types.Content(role="user", parts=[types.Part(text=request["message"])])
        contents = [message]
        for function in (floor_model, floor_tool, floor_model):
            contents.append(
                await workflow.execute_activity(
                    function,
                    Turn(contents=contents),
                    start_to_close_timeout=timedelta(seconds=150),
                    heartbeat_timeout=timedelta(seconds=2),
                    summary="g",
                )
            )
        return {"status": "completed", "text": (contents[-1].parts or [])[0].text}


@asynccontextmanager
async def floor_worker(client: Client, options: WorkerOptions) -> AsyncGenerator[None]:
    """A worker for FLOOR with the settings of ours."""
    async with Worker(
        client,
        task_queue=options.task_queue,
        workflows=[FloorWorkflow],
        activities=[floor_model, floor_tool],
        workflow_runner=workflow_runner(sandboxed=options.sandboxed),
        max_concurrent_activities=options.max_concurrent,
        max_concurrent_workflow_tasks=options.max_concurrent_workflow_tasks,
        max_concurrent_local_activities=options.max_concurrent,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        yield
