"""What encrypting payloads costs a tool turn: ``python -m benchmarks.encryption``.

Two clients of one server, one with keys and one without, each with a worker of its own; turns of
both alternate, so that both see the same machine.
"""

import asyncio
import statistics
import tempfile
import time
import uuid
from contextlib import AsyncExitStack
from pathlib import Path

from google.genai import types
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.encryption import EncryptionCodec, Key, KeyRing
from durable_adk.models import LlmRequest, ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.wire.converter import data_converter, encrypted
from durable_adk.worker import WorkerOptions, worker

TURNS = 40


def capital(country: str) -> dict[str, str]:
    """Look a capital up."""
    return {"capital": "Paris", "of": country}


def reply(request: LlmRequest) -> object:
    """A call, and then an answer."""
    last = (request.contents[-1].parts or [])[-1]
    if last.function_response:
        return "It is Paris."
    called = types.FunctionCall(name="capital", args={"country": "France"})
    return types.Content(role="model", parts=[types.Part(function_call=called)])


async def runner_with(stack: AsyncExitStack, folder: Path, address: str, name: str) -> Runner:
    """A runner and its worker."""
    codec = EncryptionCodec(keys=KeyRing([Key.new()]))
    converter = encrypted(data_converter, codec) if name == "encrypted" else data_converter
    client = await connect(address, data_converter=converter)
    store = SqliteSessionService(folder / f"{name}.db")
    stack.push_async_callback(store.close)
    agent = LlmAgent(name="a", model=ScriptedModel(replies=reply), tools=[capital])
    app = App(name="app", root_agent=agent)
    options = WorkerOptions(task_queue=name)
    await stack.enter_async_context(
        worker(client, apps=[app], session_service=store, options=options)
    )
    runner = Runner(
        app=app, client=client, task_queue=name, session_service=store, auto_create_session=True
    )
    return await stack.enter_async_context(runner)


async def turn(runner: Runner, client: Client, queue: str) -> tuple[float, int]:
    """Milliseconds of a turn in a new session, and bytes of its history."""
    began = time.perf_counter()
    whose = {"user_id": "u", "session_id": uuid.uuid4().hex}
    events = [event async for event in runner.run_async(**whose, new_message="Capital?")]
    took = (time.perf_counter() - began) * 1000
    assert len(events) == 3
    (newest,) = [one async for one in client.list_workflows(f"TaskQueue = '{queue}'", limit=1)]
    history = await client.get_workflow_handle(newest.id).fetch_history()
    return took, sum(event.ByteSize() for event in history.events)


async def main() -> None:
    """Measure, and print."""
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = await stack.enter_async_context(TemporalServer.start(data_dir=folder))
        client = await connect(server.address)
        runners = {
            name: await runner_with(stack, folder, server.address, name)
            for name in ("plain", "encrypted")
        }
        found: dict[str, list[tuple[float, int]]] = {name: [] for name in runners}
        for number in range(TURNS + 5):
            for name, runner in runners.items():
                measured = await turn(runner, client, name)
                if number >= 5:
                    found[name].append(measured)
    times = {name: statistics.median(took for took, _ in one) for name, one in found.items()}
    sizes = {name: statistics.median(size for _, size in one) for name, one in found.items()}
    for name in found:
        print(f"{name}: {times[name]:.1f} ms, history of {sizes[name]:.0f} bytes")
    print(
        f"ratio: {times['encrypted'] / times['plain']:.2f} in time, "
        f"{sizes['encrypted'] / sizes['plain']:.2f} in size"
    )


if __name__ == "__main__":
    asyncio.run(main())
