"""Releases that change agents while invocations are open (D6, F35, I13, I20).

The outcomes here are the table in docs/know/durability.md, "Deploys".
"""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.worker._workflow import _WorkflowWorker

from durable_adk.activities import attempt
from durable_adk.agents import LlmAgent
from durable_adk.apps import App
from durable_adk.errors import RunError
from durable_adk.models import ScriptedModel
from durable_adk.runners import Runner
from durable_adk.sessions import SqliteSessionService
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker
from tests.support.deploy_apps import Gate, Version
from tests.support.deploy_places import AT_ONCE, Place
from tests.support.scripts import call
from tests.support.waiting import PATIENCE, forever, until

pytestmark = pytest.mark.thorough

MOMENTS = ("tool", "model", "paused", "continued")
"""In a tool; between two turns; while an approval is waited for; after the workflow continued as
new, between two turns."""
AGENT_HOOKS = ("before_agent_callback", "after_agent_callback")
STEP_HOOKS = (
    "before_model_callback",
    "after_model_callback",
    "before_tool_callback",
    "after_tool_callback",
)
RUN_HOOKS = ("before_run_callback", "on_event_callback", "after_run_callback")
ALL_HOOKS = (*RUN_HOOKS, *AGENT_HOOKS, *STEP_HOOKS)
PAUSED = [
    "first call work",
    "first call adk_request_confirmation",
    "first error of work",
    "user response adk_request_confirmation",
]
"""What an approval adds before the tool runs."""
WORKED = ["first call work", "first response work", "first call work", "first response work"]
OLD = [*WORKED, "first text old small", "second text old small"]
GONE = "line error AgentNotFoundError"


@dataclass(frozen=True, kw_only=True)
class Change:
    """What a deploy changes, and what becomes of the invocations that are open."""

    before: Mapping[str, Any] = field(default_factory=dict[str, Any])
    after: Mapping[str, Any]
    log: list[str] = field(default_factory=lambda: OLD)
    """What the session says at the end."""
    at: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Where that depends on the moment of the deploy."""
    added: tuple[str, ...] = ()
    """Hooks of the new release that have run; none of them: only the old one's."""
    fails: bool = False
    moments: tuple[str, ...] = MOMENTS


def at_first(tool: str, rest: list[str]) -> dict[str, list[str]]:
    """By moment: the first call finds the new release, or only what comes after it."""
    first = ["first call work", f"first {tool} work"]
    later = ["first call work", "first response work"]
    return {
        "tool": [*first, *rest],
        "paused": [*first, *rest],
        "model": [*later, *rest],
        "continued": [*later, *rest],
    }


CHANGES = {
    "prompt": Change(
        after={"prompt": "new"},
        log=[*WORKED, "first text new small", "second text new small"],
    ),
    "model": Change(
        after={"model": "large"}, log=[*WORKED, "first text old large", "second text old large"]
    ),
    "tool removed": Change(
        after={"tools": ()},
        at=at_first("error of", ["first call work", "first error of work", *OLD[4:]]),
    ),
    "tool added": Change(after={"tools": ("work", "more")}),
    "tool given less time": Change(before={"timeout": 600.0}, after={"timeout": 0.001}),
    "tool at most once": Change(after={"contract": "at_most_once"}),
    "tool at least once": Change(
        before={"contract": "at_most_once"},
        after={"contract": "at_least_once"},
        at={"tool": ["first call work", "first error of work", *OLD[2:]]},
    ),
    "limits": Change(after={"tool_seconds": 0.001}),
    "callbacks added": Change(after={"callbacks": AGENT_HOOKS + STEP_HOOKS}, added=STEP_HOOKS),
    "callbacks removed": Change(
        before={"callbacks": AGENT_HOOKS + STEP_HOOKS},
        after={"callbacks": ()},
        log=["first delta", *OLD],
    ),
    "plugin added": Change(after={"plugin": ALL_HOOKS}, added=STEP_HOOKS),
    "plugin removed": Change(
        before={"plugin": ALL_HOOKS},
        after={"plugin": ()},
        log=["model delta", "line delta", "first delta", *OLD],
    ),
    "agent inserted": Change(after={"agents": ("first", "between", "second")}),
    "agents reordered": Change(
        before={"agents": ("first", "second", "third")},
        after={"agents": ("first", "third", "second")},
        log=[*OLD, "third text old small"],
    ),
    "next agent removed": Change(
        before={"agents": ("first", "second", "third")},
        after={"agents": ("first", "third")},
        log=[*OLD[:5], GONE],
        fails=True,
    ),
    "running agent renamed": Change(
        after={"agents": ("erste", "second")}, at=at_first("error of", [GONE]), fails=True
    ),
    "rounds of a loop": Change(
        before={"root": "loop"},
        after={"root": "loop", "rounds": 1},
        log=[*OLD, *OLD],
        moments=("tool", "model", "continued"),
    ),
    "parallel agent added": Change(
        before={"root": "parallel"},
        after={"root": "parallel", "agents": ("first", "second", "third")},
        log=["first call work", "second text old small", *OLD[1:5]],
    ),
    "kind of agent": Change(after={"root": "parallel"}),
    "output key": Change(before={"output_key": "a"}, after={"output_key": "b"}),
}


@dataclass(frozen=True)
class Case:
    """A change at a moment."""

    client: Client
    folder: Path
    change: Change
    moment: str
    grace: timedelta = AT_ONCE
    """0: what the old release had under way is lost."""
    left: asyncio.Event | None = None
    """Set once the old release takes no more workflow tasks: then its tool may end."""

    async def check(self) -> None:
        """Deploy while it runs; it ends as documented, and replays over both releases."""
        gate = Gate({"continued": "model"}.get(self.moment, self.moment))
        old = Version(gate=gate, asks=self.moment == "paused", **self.change.before)
        new = old.changed(**self.change.after)
        often = self.moment == "continued"
        async with Place.opened(self.client, self.folder) as place:
            async with (
                asyncio.TaskGroup() as group,
                place.worker(old.app(), self.grace, limits=old.limits(often=often)) as runner,
            ):
                await place.start(runner)
                await (place.waits(runner) if old.asks else gate.reached())
                if self.left is not None:
                    group.create_task(_open_after(self.left, gate))
            gate.open()
            async with place.worker(new.app(), limits=new.limits(often=often)) as runner:
                if old.asks:
                    await place.approve(runner)
                if self.change.fails:
                    with pytest.raises(WorkflowFailureError):
                        await place.end()
                else:
                    assert await place.end() == "completed", self.moment
                self._check_log(await place.log(runner))
                self._check_marks(await place.marks(runner))
            if self.moment == "continued":
                await until(lambda: _has_gone_on(place))
            await place.replay(old.app(), new.app())
            assert (len(await place.histories()) > 1) == (self.moment == "continued")

    def _check_log(self, found: list[str]) -> None:
        expected = list(self.change.at.get(self.moment, self.change.log))
        if self.moment == "paused":
            at = expected.index("first call work")
            expected[at : at + 1] = PAUSED
        if self.change.before.get("root") == "parallel":
            # Between lanes there is no order.
            found, expected = sorted(found, key=_author), sorted(expected, key=_author)
        assert [line for line in found if line != "user text go"] == expected, self.moment

    def _check_marks(self, found: list[str]) -> None:
        given = [*self.change.after.get("callbacks", ()), *self.change.after.get("plugin", ())]
        for hook in given:
            assert (f"{hook} ran" in found) == (hook in self.change.added), (self.moment, hook)
        if "output_key" in self.change.after:
            assert "b" in found


async def _has_gone_on(place: Place) -> bool:
    """Whether Temporal's list, which is behind by a moment, has the workflow's next run."""
    return len(await place.histories()) > 1


async def _open_after(event: asyncio.Event, gate: Gate) -> None:
    await event.wait()
    gate.open()


def _author(line: str) -> str:
    return line.split(maxsplit=1)[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CHANGES)
async def test_a_deploy_in_mid_flight_has_the_documented_outcome(
    name: str, client: Client, tmp_path: Path
) -> None:
    """D6, I13, I20: no hang, no non-determinism; histories replay over both releases."""
    change = CHANGES[name]
    cases = [Case(client, tmp_path, change, moment) for moment in change.moments]
    await asyncio.gather(*(case.check() for case in cases))


@pytest.mark.parametrize("name", ["prompt", "tool removed", "running agent renamed"])
async def test_what_ends_in_the_grace_of_the_old_release_is_its_own(
    name: str, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D6, I20: a worker that is stopped lets its tool end; only what follows is new."""
    left, run = asyncio.Event(), _WorkflowWorker.run

    async def noted(polling: _WorkflowWorker) -> None:
        await run(polling)
        left.set()

    monkeypatch.setattr(_WorkflowWorker, "run", noted)
    change = CHANGES[name]
    log = change.at.get("model", change.log)
    graceful = replace(change, at={"tool": log})
    grace = timedelta(seconds=PATIENCE)
    await Case(client, tmp_path, graceful, "tool", grace, left).check()


async def test_a_step_that_comes_to_a_worker_without_its_agent_is_given_back(
    client: Client, tmp_path: Path
) -> None:
    """D6, I20: so old workers that are still there during a deploy end no run of the new ones."""
    gate = Gate("tool")
    new = Version(gate=gate, agents=("first", "second", "third"))
    old = new.changed(agents=("first", "second"))
    async with Place.opened(client, tmp_path) as place:
        async with place.worker(new.app(), AT_ONCE) as runner:
            await place.start(runner)
            await gate.reached()
        gate.open()
        async with place.worker(old.app(), AT_ONCE):
            await until(lambda: _given_back(place.handle()))
        async with place.worker(new.app()) as runner:
            assert await place.end() == "completed"
            assert (await place.log(runner))[1:] == [*OLD, "third text old small"]


@pytest.mark.parametrize("most", [5, 6])
async def test_a_tool_outlives_more_deploys_than_workers_that_may_be_lost(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """F12, I20: it runs again after each, up to so many of one build in a row."""
    monkeypatch.setattr(attempt, "MAX_LOST", 3)
    runs: list[int] = []

    async def long() -> str:
        """Take longer than a release."""
        runs.append(len(runs))
        if len(runs) <= 5:
            await forever()
        return "done"

    agent = LlmAgent(name="a", model=ScriptedModel(replies=[call("long"), "end"]), tools=[long])
    app, queue = App(name="app", root_agent=agent), f"test-{uuid.uuid4().hex}"
    limits = Limits(max_worker_exits=most)
    options = WorkerOptions(task_queue=queue, graceful_shutdown=AT_ONCE, limits=limits)
    store = SqliteSessionService(tmp_path / "s.db")
    runner = Runner(app=app, session_service=store, client=client, task_queue=queue)
    told = asyncio.create_task(runner.run_debug("go", quiet=True))
    for release in range(1, 6):
        async with worker(client, apps=[app], session_service=store, options=options):
            await until(lambda release=release: len(runs) == release)
    async with worker(client, apps=[app], session_service=store, options=options):
        if most > 5:
            assert [event.text for event in await told][-1] == "end"
        else:
            with pytest.raises(RunError, match="5 workers of one build in a row were shut down"):
                await told
    await store.close()


async def _given_back(handle: WorkflowHandle[Any, Any]) -> bool:
    """Whether a worker did not know the agent of a step."""
    pending = (await handle.describe()).raw_description.pending_activities
    return any("no agent 'third'" in activity.last_failure.message for activity in pending)
