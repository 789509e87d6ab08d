"""One very long invocation: what its steps cost at the beginning and at the end.

``python -m benchmarks.long --steps 10000 --agent loop`` runs one invocation of so many tool calls
and prints how often its workflow continued as new, how large the cursors were, what a step has cost
in history, and how long the last tenth of the steps took next to the first. Ratios and counts only.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncGenerator
from pathlib import Path

from google.genai import types
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from durable_adk.agents import BaseAgent, InvocationContext, LlmAgent, LoopAgent
from durable_adk.apps import App
from durable_adk.client import connect, workflow_id
from durable_adk.embedded import TemporalServer
from durable_adk.events import Event
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SessionKey, SqliteSessionService
from durable_adk.tools import ToolContext
from durable_adk.wire.run_config import RunConfig
from durable_adk.worker import WorkerOptions, worker

QUEUE, INVOCATION = "bench-long", "long"
STEPS = int(os.environ.get("LONG_STEPS", "10000"))
KEY = SessionKey("long", "u", "s")


def work(tool_context: ToolContext) -> dict[str, object]:
    """The n-th tool call; the last one ends the run."""
    count = tool_context.state.get("count", 0) + 1
    tool_context.state["count"] = count
    tool_context.actions.escalate = count >= STEPS or None
    tool_context.actions.skip_summarization = True  # a step is one model call and one tool call
    return {"count": count, "note": "x" * 200}


def _reply(request: LlmRequest) -> types.Content:
    del request
    call = types.FunctionCall(id=uuid.uuid4().hex, name="work", args={})  # some models name them
    return types.Content(role="model", parts=[types.Part(function_call=call)])


def _worker_agent(name: str) -> LlmAgent:
    return LlmAgent(
        name=name, model=ScriptedModel(replies=_reply), tools=[work], include_contents="none"
    )


class Foreman(BaseAgent):
    """A custom agent that has its sub-agent work until all is done."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        while ctx.session.state.get("count", 0) < STEPS:
            async for event in self.sub_agents[0].run_async(ctx):
                event.actions.escalate = None
                yield event


def app(kind: str) -> App:
    """A loop of two agents, or the same by a custom agent."""
    if kind == "custom":
        return App(name="long", root_agent=Foreman(name="top", sub_agents=[_worker_agent("one")]))
    pair = [_worker_agent("one"), _worker_agent("two")]
    return App(name="long", root_agent=LoopAgent(name="top", sub_agents=pair))


async def serve(address: str, store: str, kind: str) -> None:
    """The worker process."""
    sessions = SqliteSessionService(store)
    options = WorkerOptions(task_queue=QUEUE, sandboxed=False)
    serving = worker(
        await connect(address), apps=[app(kind)], session_service=sessions, options=options
    )
    async with serving:
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await sessions.close()


async def histories(client: Client) -> tuple[list[int], list[int], list[int]]:
    """Of the runs in order: events, bytes, and the bytes of the cursors between them."""
    name = workflow_id(KEY, INVOCATION)
    runs = [run async for run in client.list_workflows(f"WorkflowId = '{name}'")]
    runs.sort(key=lambda run: run.start_time)
    events, sizes, cursors = [], [], []
    for run in runs:
        history = await client.get_workflow_handle(name, run_id=run.run_id).fetch_history()
        events.append(len(history.events))
        sizes.append(sum(event.ByteSize() for event in history.events))
        last = history.events[-1]
        if last.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
            cursor = last.workflow_execution_continued_as_new_event_attributes.input
            cursors.append(sum(len(payload.data) for payload in cursor.payloads))
    return events, sizes, cursors


async def _measure(client: Client, store: str, kind: str) -> None:
    sessions = SqliteSessionService(store)
    times: list[float] = []
    async with Runner(
        app=app(kind),
        session_service=sessions,
        client=client,
        task_queue=QUEUE,
        auto_create_session=True,
    ) as runner:
        run = runner.run_async(
            user_id="u",
            session_id="s",
            new_message="go",
            invocation_id=INVOCATION,
            run_config=RunConfig(max_llm_calls=0),
        )
        async for event in run:
            if event.get_function_responses():
                times += [time.monotonic()]
    await sessions.close()
    events, sizes, cursors = await histories(client)
    tenth = len(times) // 10
    ratio = (times[-1] - times[-tenth]) / (times[tenth] - times[0])
    print(f"{kind}: {len(times)} tool calls in {len(events)} runs of the workflow")
    print(f"history events a run: at most {max(events)}; a tool call: {sum(events) / STEPS:.1f}")
    print(f"bytes of history a run: at most {max(sizes):,}; a tool call: {sum(sizes) / STEPS:,.0f}")
    print(f"bytes of a cursor: at most {max(cursors, default=0)}")
    print(f"time of the last tenth of the steps to the first: {ratio:.2f}")


async def main(kind: str) -> None:
    """Measure one kind of agent."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store = str(folder / "sessions.db")
        async with TemporalServer.start(data_dir=folder, headless=True) as server:
            command = [sys.executable, "-m", "benchmarks.long", "--serve", server.address, store]
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own, and it has to be there
                [*command, "--agent", kind],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "LONG_STEPS": str(STEPS)},
            )
            assert process.stdout is not None
            await asyncio.to_thread(process.stdout.readline)
            try:
                await _measure(await connect(server.address), store, kind)
            finally:
                assert process.stdin is not None
                process.stdin.close()
                await asyncio.to_thread(process.wait, 30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--agent", choices=["loop", "custom"], default="loop")
    parser.add_argument("--serve", nargs=2, metavar=("ADDRESS", "STORE"))
    given = parser.parse_args()
    STEPS = given.steps if given.serve is None else STEPS
    os.environ["LONG_STEPS"] = str(STEPS)
    asyncio.run(serve(*given.serve, given.agent) if given.serve else main(given.agent))
