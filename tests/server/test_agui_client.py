"""AG-UI's own client, which checks the order of events, also across a SIGKILL of the server."""

import asyncio
import json
import signal
from typing import Any

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.tools import FunctionTool
from tests.server.test_server_kills import started, terminal
from tests.support.http_server import placed
from tests.support.packages import install_packages
from tests.support.required import has_program
from tests.support.streams import StreamingModel, a_call
from tests.support.waiting import PATIENCE

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.sampled(6),
    pytest.mark.skipif(not has_program("npm"), reason="needs Node.js and npm"),
]
__all__ = ["terminal"]


def refund(amount: int) -> str:
    """Give money back."""
    return f"refunded {amount}"


class FrontEnd:
    """A process of AG-UI's client."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders, self._told = process.stdin, process.stdout

    def order(self, url: str, run_id: str, **more: Any) -> None:
        """Have it run the agent."""
        order = {"url": f"{url}/agui/app", "runId": run_id, **more}
        self._orders.write(json.dumps(order).encode() + b"\n")

    async def told(self) -> dict[str, Any]:
        """What it has printed next: a piece of text, or all that it has after a run."""
        return json.loads(await self._told.readline())

    async def after_run(self) -> dict[str, Any]:
        """What it has after a run."""
        while "text" in (told := await self.told()):
            pass
        return told


async def test_a_front_end_resumes_a_run_when_its_server_is_killed(
    client, server, terminal, tmp_path
):
    """SIGKILL amid the answer: the same resume, to another server, shows all of it once."""
    folder = await install_packages("agui", tmp_path)
    gate = asyncio.Event()
    asks = a_call("refund", amount=5)
    turns = [[asks, asks], ["It ", gate, "is ", "done.", "It is done."]]
    tool = FunctionTool(refund, require_confirmation=True)
    agent = LlmAgent(name="clerk", model=StreamingModel(turns=turns), tools=[tool])
    process = await asyncio.create_subprocess_exec(
        "node",
        str(folder / "client.js"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        async with placed(client, tmp_path, agent) as place, asyncio.timeout(4 * PATIENCE):
            (first, here), (_, there) = [await started(terminal, place, server) for _ in range(2)]
            front_end = FrontEnd(process)
            front_end.order(here, "run-1", say="Refund me.")
            asked = await front_end.after_run()
            (interrupt,) = asked["pendingInterrupts"]
            answer = {
                "interruptId": interrupt["id"],
                "status": "resolved",
                "payload": {"approved": True},
            }
            front_end.order(here, "run-2", resume=[answer])
            assert await front_end.told() == {"text": "It "}
            first.send_signal(signal.SIGKILL)
            cut = await front_end.after_run()
            gate.set()
            front_end.order(there, "run-2", resume=[answer])
            done = await front_end.after_run()
    finally:
        process.kill()
        await process.wait()
    assert asked["types"][-1] == "RUN_FINISHED"
    assert cut["error"]
    assert done.get("error") is None
    assert done["pendingInterrupts"] == []
    told = [(one["role"], one.get("content")) for one in done["messages"]]
    assert told == [
        ("user", "Refund me."),
        ("assistant", None),
        ("tool", '{"result": "refunded 5"}'),
        ("assistant", "It is done."),
    ]
