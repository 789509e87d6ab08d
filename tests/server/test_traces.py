"""What the traces of ADK's page have of requests, and what that may cost."""

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.models import ScriptedModel
from durable_adk.runners import InMemoryRunner
from durable_adk.server.adk import traces
from durable_adk.server.caller import UNAUTHENTICATED_OPERATOR, Caller
from durable_adk.server.services import ServerServices
from durable_adk.wire.model_request import ModelRequest
from tests.support.waiting import PATIENCE

REQUEST = "gcp.vertex.agent.llm_request"


class Rebuilding:
    """In place of a worker."""

    def __init__(self) -> None:
        self.wanted: list[str] = []
        self.hangs = False

    async def __call__(self, _: Any, key: Any, events: Sequence[str], **more: Any) -> Any:
        """Rebuild."""
        self.wanted += events
        if self.hangs:
            await asyncio.Event().wait()
        return [ModelRequest(event_id=one, agent="a") for one in events]


@pytest.fixture
def rebuilding(monkeypatch: pytest.MonkeyPatch) -> Rebuilding:
    """What rebuilds requests."""
    made = Rebuilding()
    monkeypatch.setattr(traces, "rebuilt_requests", made)
    return made


def asked(spans: Sequence[dict[str, Any]]) -> list[str]:
    """The requests in some spans."""
    return [one["attributes"][REQUEST] for one in spans if one["name"] == "call_llm"]


async def test_the_newest_calls_of_one_session_are_rebuilt_for_an_operator(
    rebuilding: Rebuilding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten, within a time for all of it, of no session if several have the id, and for no user."""
    model = ScriptedModel(replies=lambda _: "fine")
    app = App(name="app", root_agent=LlmAgent(name="a", model=model))
    async with InMemoryRunner(app=app) as runner:
        services = ServerServices(
            session_service=runner.session_service,
            client=cast("Any", None),
            task_queue=lambda name: name,
        )

        async def say(user: str) -> None:
            async for _ in runner.run_async(user_id=user, session_id="s", new_message="hi"):
                pass

        async def trace(caller: Caller = UNAUTHENTICATED_OPERATOR) -> list[str]:
            return asked(await traces.session_trace(services, caller, "app", "s"))

        await runner.session_service.create_session(app_name="app", user_id="u", session_id="s")
        for _ in range(11):
            await say("u")
        found = await trace()
        assert found[0] == "{}"
        assert len(rebuilding.wanted) == 10
        assert all('"contents"' in one for one in found[1:])
        assert set(await trace(Caller("u"))) == {"{}"}
        assert len(rebuilding.wanted) == 10
        rebuilding.hangs = True
        monkeypatch.setattr(traces, "_REBUILDING", 0.05)
        async with asyncio.timeout(PATIENCE):
            assert set(await trace()) == {"{}"}
        await runner.session_service.create_session(app_name="app", user_id="v", session_id="s")
        await say("v")
        rebuilding.wanted.clear()
        assert set(await trace()) == {"{}"}
        assert rebuilding.wanted == []


async def test_the_records_of_runs_are_read_at_once(rebuilding: Rebuilding) -> None:
    """A store that is far away is waited for once, and once for each run."""
    together = asyncio.Barrier(2)

    async def get_invocation(_: Any, name: str) -> Any:
        async with asyncio.timeout(PATIENCE):
            await together.wait()
        return SimpleNamespace(invocation_id=name, lease_owner="local")

    services = SimpleNamespace(session_service=SimpleNamespace(get_invocation=get_invocation))
    calls = [
        {"gcp.vertex.agent.event_id": f"{run}.{at}", "gcp.vertex.agent.invocation_id": run}
        for run in ("r", "s")
        for at in (1, 2)
    ]
    await traces._add_requests(
        cast("Any", services), UNAUTHENTICATED_OPERATOR, cast("Any", None), calls
    )
    assert rebuilding.wanted == ["s.2", "s.1", "r.2", "r.1"]
