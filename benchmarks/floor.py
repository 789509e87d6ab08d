"""FLOOR: what a tool turn costs on Temporal when nothing is committed.

A bare workflow with the three activities of a tool turn (model, tool, model) that pass values of the
size ours pass, on a worker with the same settings. Whatever we cost above it is the price of the
session store and of the loop.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from durable_adk.worker import WorkerOptions, workflow_runner

CALL = {"role": "model", "parts": [{"functionCall": {"name": "get_capital", "args": {"c": "F"}}}]}
TEXT = {"role": "model", "parts": [{"text": "It is Paris."}]}


@activity.defn
async def floor_model(step: dict[str, Any]) -> dict[str, Any]:
    """Answer with a call, then with text."""
    return {"event": {"id": step["event_id"], "content": TEXT if step["turn"] else CALL}}


@activity.defn
async def floor_tool(step: dict[str, Any]) -> dict[str, Any]:
    """Answer the call."""
    response = {"functionResponse": {"name": "get_capital", "response": {"result": "Paris"}}}
    return {"event": {"id": step["event_id"], "content": {"role": "user", "parts": [response]}}}


@workflow.defn(name="Floor")
class FloorWorkflow:
    """Model, tool, model."""

    @workflow.run
    async def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run one tool turn."""
        step = {"key": [request["app"], request["user"], request["session"]], "agent": "g"}
        for number, (function, turn) in enumerate(
            [(floor_model, 0), (floor_tool, 0), (floor_model, 1)]
        ):
            last = await workflow.execute_activity(
                function,
                {**step, "event_id": f"{workflow.info().workflow_id}.{number}", "turn": turn},
                start_to_close_timeout=timedelta(seconds=150),
                heartbeat_timeout=timedelta(seconds=2),
                summary="g",
            )
        return {"status": "completed", "last": last}


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
        max_concurrent_workflow_tasks=options.max_concurrent,
        max_concurrent_local_activities=options.max_concurrent,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    ):
        yield
