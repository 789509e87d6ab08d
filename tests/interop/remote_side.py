"""An agent that has a remote one below it, in google-adk's environment.

Arguments: `ask`, the URL of the remote agent's card, and messages; it writes what was said as JSON.
`use` is the same with the remote agent as a tool. `answer` gets a response for each
of some messages, and says both to the remote agent by google-adk's runner and by ours.
Or `work`, that URL, the address of Temporal, the file of a session store and a task queue; it
serves the agent as app `here` until it is killed.
"""

import asyncio
import json
import sys
import warnings
from typing import Any

warnings.simplefilter("ignore")

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent  # noqa: E402
from google.adk.runners import InMemoryRunner as GoogleRunner  # noqa: E402
from google.genai import types  # noqa: E402

from durable_adk.agents import LlmAgent  # noqa: E402
from durable_adk.apps import App  # noqa: E402
from durable_adk.client import connect  # noqa: E402
from durable_adk.models import ScriptedModel  # noqa: E402
from durable_adk.runners import InMemoryRunner  # noqa: E402
from durable_adk.sessions import SqliteSessionService  # noqa: E402
from durable_adk.tools.agent_tool import AgentTool  # noqa: E402
from durable_adk.worker import WorkerOptions, worker  # noqa: E402
from tests.support.scripts import call  # noqa: E402


def agent_over(card: str, turns: int = 1) -> LlmAgent:
    """An agent that hands each message to the remote one."""
    remote = RemoteA2aAgent(name="remote", description="Knows.", agent_card=card)
    transfer = call("transfer_to_agent", agent_name="remote")
    model = ScriptedModel(replies=[transfer] * turns)
    return LlmAgent(name="root", model=model, sub_agents=[remote])


def agent_with_tool(card: str) -> LlmAgent:
    """An agent that has the remote one as a tool."""
    remote = RemoteA2aAgent(name="remote", description="Knows.", agent_card=card)
    model = ScriptedModel(replies=[call("remote", request="one"), "It said so."])
    return LlmAgent(name="root", model=model, tools=[AgentTool(remote)])


async def use(card: str, message: str) -> None:
    """Write what the tool returns, and what is made of it."""
    async with InMemoryRunner(agent_with_tool(card)) as runner:
        events = await runner.run_debug(message, quiet=True)
    results = [one.response for event in events for one in event.get_function_responses()]
    _write(json.dumps([*results, events[-1].text]))


async def ask(card: str, *messages: str) -> None:
    """Write what the agents say to each message."""
    async with InMemoryRunner(agent_over(card, len(messages))) as runner:
        events = [
            event for message in messages for event in await runner.run_debug(message, quiet=True)
        ]
    texts = [(event.author, event.text or event.error_message) for event in events]
    _write(json.dumps([f"{author}: {text}" for author, text in texts if text]))


async def answer(card: str, answers: str) -> None:
    """Write the names of what is asked after each message, and what is said to each response."""
    found: list[list[str | None]] = []
    for kind in (GoogleRunner, InMemoryRunner):
        for text, response in json.loads(answers).items():
            runner: Any = kind(
                agent=RemoteA2aAgent(name="remote", agent_card=card), app_name="near"
            )
            found.append(await _answered(runner, text, response))
    _write(json.dumps(found))


async def _answered(runner: Any, text: str, response: dict[str, Any]) -> list[str | None]:
    ids = {"user_id": "u", "session_id": "s"}
    await runner.session_service.create_session(app_name="near", **ids)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    first = [event async for event in runner.run_async(**ids, new_message=message)]
    (call,) = [one for event in first for one in event.get_function_calls()]
    given = types.FunctionResponse(id=call.id, name=call.name, response=response)
    message = types.Content(role="user", parts=[types.Part(function_response=given)])
    events = [event async for event in runner.run_async(**ids, new_message=message)]
    whole = [event.content for event in events if event.content and not event.partial]
    return [call.name, *(part.text for content in whole for part in content.parts or ())]


async def work(card: str, address: str, file: str, queue: str) -> None:
    """Serve the agent."""
    app = App(name="here", root_agent=agent_over(card))
    async with worker(
        await connect(address),
        apps=[app],
        session_service=SqliteSessionService(file),
        options=WorkerOptions(task_queue=queue),
    ):
        _write("ready")
        await asyncio.Event().wait()


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(
        {"ask": ask, "use": use, "answer": answer, "work": work}[sys.argv[1]](*sys.argv[2:])
    )
