"""An agent that has a remote one below it, in google-adk's environment.

Arguments: `ask`, the URL of the remote agent's card, and messages; it writes what was said as JSON.
`use` is the same with the remote agent as a tool.
Or `work`, that URL, the address of Temporal, the file of a session store and a task queue; it
serves the agent as app `here` until it is killed.
"""

import asyncio
import json
import sys
import warnings

warnings.simplefilter("ignore")

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent  # noqa: E402

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
    asyncio.run({"ask": ask, "use": use, "work": work}[sys.argv[1]](*sys.argv[2:]))
