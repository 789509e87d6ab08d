"""Every scenario in every mode (issue 3: how it is proven)."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack

import pytest
from temporalio.client import Client

from durable_adk.agents import LlmAgent
from durable_adk.embedded import TemporalServer
from durable_adk.tools import AgentTool
from tests.scenarios.catalogue import BY_NAME, SCENARIOS
from tests.scenarios.modes import InProcess, Killed, Mode, OnTemporal, World, played
from tests.scenarios.outcome import Outcome, check_chunks, check_log, check_script, check_tools
from tests.scenarios.scenario import Scenario
from tests.support import seeds

pytestmark = pytest.mark.replayed

MODES = ("in_process", "temporal", "uncached", "rolled", "killed", "batched", "batched_killed")
QUICK = {"in_process": len(SCENARIOS), "temporal": len(SCENARIOS), "killed": 8}
"""How many of each mode's scenarios are part of `make test`."""

SHARES = {
    "temporal": 4,
    "uncached": 8,
    "rolled": 8,
    "killed": 8,
    "batched": 4,
    "batched_killed": 8,
}
"""Of how many scenarios a mode plays one; and, killed, those of `make test`."""


def _marks(mode: str, index: int) -> list[pytest.MarkDecorator]:
    quick = index < QUICK.get(mode, 0)
    sampled = mode in SHARES and not (quick and mode == "killed")
    return [
        *([] if quick else [pytest.mark.thorough]),
        *([pytest.mark.sampled(SHARES[mode])] if sampled else []),
    ]


PAIRS = [
    pytest.param(mode, scenario, id=f"{mode}-{scenario.name}", marks=_marks(mode, index))
    for mode in MODES
    for index, scenario in enumerate(SCENARIOS)
]


class Suite:
    """The outcomes of the selected tests, which are all being played."""

    def __init__(self, modes: Mapping[str, Mode], selected: Sequence[tuple[str, Scenario]]) -> None:
        self._modes = modes
        self._turns = {name: asyncio.Semaphore(mode.at_once) for name, mode in modes.items()}
        self._began = time.monotonic()
        self.seconds: dict[str, float] = {}
        """When each mode was done."""
        # What the others are compared with is played for each of them.
        chosen = dict.fromkeys([*((MODES[0], one) for _, one in selected), *selected])
        self._tasks = {
            (mode, one.name): asyncio.create_task(self._play(mode, one)) for mode, one in chosen
        }

    async def outcome(self, mode: str, scenario: Scenario) -> Outcome:
        """What a scenario came to."""
        return await self._tasks[mode, scenario.name]

    async def _play(self, mode: str, scenario: Scenario) -> Outcome:
        length = 0
        if mode != MODES[0]:
            length = len((await self.outcome(MODES[0], scenario)).stored["u/s"])
        async with self._turns[mode]:
            outcome = await played(self._modes[mode], scenario, length)
        self.seconds[mode] = time.monotonic() - self._began
        return outcome

    async def close(self) -> None:
        """Give up what has not been asked for."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


@pytest.fixture(scope="module")
def seed() -> int:
    """What the moments of the kills are drawn from."""
    return seeds.SEED or 0


@pytest.fixture(scope="module")
async def suite(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    server: TemporalServer,
    client: Client,
    seed: int,
) -> AsyncIterator[Suite]:
    """The suite; what it took is said at the end."""
    specs = [getattr(item, "callspec", None) for item in request.session.items]
    params = [spec.params for spec in specs if spec and "scenario" in spec.params]
    selected = [(one["mode"], one["scenario"]) for one in params if "mode" in one]
    scenarios = list({scenario.name: scenario for _, scenario in selected}.values())
    folders = {mode: tmp_path_factory.mktemp(f"scenarios-{mode}") for mode in MODES}
    worlds = {mode: World(client, server.address, folder) for mode, folder in folders.items()}
    modes: dict[str, Mode] = {
        "in_process": InProcess(folders["in_process"]),
        "temporal": OnTemporal(worlds["temporal"], scenarios, cache=1000),
        "uncached": OnTemporal(worlds["uncached"], scenarios, cache=0),
        "rolled": OnTemporal(worlds["rolled"], scenarios, cache=1000, history=1),
        "killed": Killed(worlds["killed"], seed=seed),
        "batched": OnTemporal(worlds["batched"], scenarios, cache=1000, steps=20),
        "batched_killed": Killed(worlds["batched_killed"], seed=seed, steps=20),
    }
    async with AsyncExitStack() as stack:
        for name in dict.fromkeys([MODES[0], *(name for name, _ in selected)]):
            await stack.enter_async_context(modes[name])
        suite = Suite(modes, selected)
        stack.push_async_callback(suite.close)
        yield suite
    took = ", ".join(f"{mode} after {seconds:.1f} s" for mode, seconds in suite.seconds.items())
    _tell(request.config, f"\nScenarios: {took}; {seeds.VARIABLE}={seed}")


def _tell(config: pytest.Config, line: str) -> None:
    """Show a line also when all is well."""
    capture = config.pluginmanager.get_plugin("capturemanager")
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if capture is not None and reporter is not None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(line)


def tools_of(scenario: Scenario) -> list[str]:
    """Names of the tools that write into the ledger."""
    agents = scenario.app().root_agent.walk()
    tools = [one.static_tools() for one in agents if isinstance(one, LlmAgent)]
    return [name for own in tools for name, tool in own.items() if not isinstance(tool, AgentTool)]


@pytest.mark.parametrize(("mode", "scenario"), PAIRS)
async def test_a_conversation_does_not_depend_on_how_it_is_run(
    mode: str, scenario: Scenario, suite: Suite, seed: int
) -> None:
    """D14, I1 to I4, I9, I10: the events, the state and the errors are those of the script.

    They are the same in process, on Temporal, with every task replayed or with a new run of the
    workflow before every model call (D10), with several steps in one activity, and with the worker
    killed after an event; nothing is lost, doubled or left open, and no call gets a second key.
    """
    print(f"{seeds.VARIABLE}={seed}")  # noqa: T201  # shown with a failure
    outcome = await suite.outcome(mode, scenario)
    reference = await suite.outcome(MODES[0], scenario)
    print(*outcome.interrupted)  # noqa: T201
    check_script(outcome)
    check_log(outcome)
    check_chunks(outcome)
    check_tools(outcome, tools_of(scenario))
    for place in scenario.places:
        if scenario.side_by_side:
            assert outcome.branches(place) == reference.branches(place)
        else:
            assert outcome.log(place) == reference.log(place)
    assert outcome.state == reference.state
    assert outcome.statuses == reference.statuses
    assert [heard.error for heard in outcome.heard] == [heard.error for heard in reference.heard]
    assert len(outcome.interrupted) == (mode in ("killed", "batched_killed"))


def test_there_are_enough_scenarios() -> None:
    """Issue 3: at least 60, each under a name of its own."""
    assert len(BY_NAME) == len(SCENARIOS) >= 60


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_scenario_makes_the_same_app_every_time(scenario: Scenario) -> None:
    """D6: another process, which knows only its name, makes the same agents."""
    first, second = scenario.make(), scenario.make()
    assert first is not second
    assert scenario.app().manifest() == (scenario.app().manifest())
