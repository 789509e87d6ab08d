"""One real Temporal server for all tests, and runners in each way an app can run."""

import gc
import logging
import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, core as hypothesis_core, settings
from hypothesis.internal.conjecture import providers
from temporalio.client import Client
from temporalio.worker._workflow import _WorkflowWorker

from durable_adk.agents import BaseAgent
from durable_adk.apps import App
from durable_adk.client import connect
from durable_adk.embedded import TemporalServer
from durable_adk.embedded.server import DYNAMIC_CONFIG
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService, SqliteSessionService
from durable_adk.worker import WorkerOptions, worker
from tests.support import bounds, s3 as s3_support, sampling, seeds
from tests.support.made_tables import tables_copied
from tests.support.postgres import Databases, running
from tests.support.redis import RedisServer, running as redis_running
from tests.support.replay import began, replay_all

PROPERTIES: dict[str, Any] = {
    # A process may be kept from running: slow is not wrong.
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
    # The same examples at every run, unless a seed is given (tests/support/seeds.py).
    "derandomize": seeds.SEED is None,
    "database": None,
    "print_blob": True,
}
settings.register_profile("all", settings.get_profile("default"), **PROPERTIES)
settings.load_profile("all")
settings.register_profile("quick", max_examples=20, **PROPERTIES)
hypothesis_core.global_force_seed = seeds.SEED
if seeds.SEED is None:
    # Hypothesis also tries the constants of modules that have been imported: with each change of
    # the code, and each test that ran before, its examples would be others.
    pytest.MonkeyPatch().setattr(providers, "_get_local_constants", providers.Constants)
MakeRunner = Callable[..., Awaitable[Runner]]
FIRST = (
    *("interop", "server", "samples", "simulation", "scenarios", "adk", "mutants", "chaos", "e2e"),
    "integration",
)
"""Folders whose files take longest. Begun last, they would leave the other processes idle."""
ELSEWHERE = ("adk", "interop", "samples")
"""Folders whose tests need google-adk's environment, too: `make test` leaves them to the others."""
RUNNERS = {"local": 3, "temporal-uncached": 12, "temporal-ahead": 6}
"""Of so many tests run in process, or with the cache at zero, CI takes one, `make test` none."""
GRAPHS = ("graph", "called_nodes", "item_batches")
"""Modules whose tests run with `AHEAD`, too."""
AHEAD = 20
"""Steps in one activity."""
SAMPLED = {
    "adk/test_catalogue.py": 2,
    "e2e/test_examples.py": 2,
    "integration/sessions": 3,
    "integration/test_activity_tools.py": 2,
    "integration/test_bad_input.py": 2,
    "integration/test_plugins.py": 2,
    "interop/test_conversations.py": 4,
    "interop/test_copied_sessions.py": 2,
}
"""Of so many tests of a folder or a file the gate takes one: what they show, others show, too."""
QUARTERED = ("integration", "server", "simulation")
"""Folders of whose `thorough` tests it takes one in four, unless a mark gives another share."""
_HERE = Path(__file__).parent
REPLAYED = 6
"""A run replays at its end what one in so many tests began: all take a twelfth of its CPU time."""
REPLAYING = 900.0
"""Seconds for them."""

BLOCKED = 20.0
"""Seconds after which a workflow of a test's process is taken for blocked."""

PARTITIONS = {
    "matching.numTaskqueueReadPartitions": 1,
    "matching.numTaskqueueWritePartitions": 1,
}
"""Instead of four for each task queue. Most tests make one, and the server spends a sixth less of
its CPU time on them. Servers that tests start by themselves have four, as users' have."""

# For Temporal servers, which are started for a test or two: a tenth of their CPU time.
os.environ.setdefault("GOGC", "400")


# What is collected lives as long as the tests: modules, and thousands of tests.
gc.disable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Say where `make_runner` runs an app, unless the test says it."""
    marks = metafunc.definition.iter_markers("parametrize")
    if "make_runner" in metafunc.fixturenames and all(
        "make_runner" not in m.args[0] for m in marks
    ):
        graphs = any(word in metafunc.module.__name__ for word in GRAPHS)
        runners = ["local", "temporal", "temporal-uncached", *(["temporal-ahead"] * graphs)]
        metafunc.parametrize("make_runner", runners, indirect=True)


def pytest_collection_finish() -> None:
    """Spare the garbage collector what lives as long as the tests.

    Looking through all of it takes half a second, on a busy machine four times as long; a workflow
    that is stopped for two seconds is taken for blocked.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def pytest_report_header() -> str:
    """Say how to take the same tests again, and draw the same in them."""
    return f"sample and seed: {_drawn()}"


def _drawn() -> str:
    seed = "" if seeds.SEED is None else f" {seeds.VARIABLE}={seeds.SEED}"
    return f"{sampling.VARIABLE}={sampling.SAMPLE}{seed}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Say it below what failed: the first lines may be far away."""
    if exitstatus == pytest.ExitCode.TESTS_FAILED:
        terminalreporter.write_line(f"To draw the same again: {_drawn()}")
    if bounds.ASKED:
        terminalreporter.write_line("\n".join(bounds.report()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have `make test` run an app on Temporal only, and each property with fewer examples."""
    items.sort(key=_place_in_line)
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker(pytest.mark.property)
        if _is_slow(item):
            item.add_marker(pytest.mark.thorough)
        callspec = getattr(item, "callspec", None)
        runner = callspec and callspec.params.get("make_runner")
        if runner in RUNNERS:
            item.add_marker(pytest.mark.thorough)
            item.add_marker(pytest.mark.sampled(RUNNERS[runner]))
        for place, of in SAMPLED.items():
            if f"{_place(item)}/".startswith(f"{place}/"):
                item.add_marker(pytest.mark.sampled(of))
        if _is_quartered(item):
            item.add_marker(pytest.mark.sampled(4))
    if any("::" in argument for argument in config.args):
        return  # what is named is taken
    spared = {item for item in items if not _is_taken(item)}
    config.hook.pytest_deselected(items=list(spared))
    items[:] = [item for item in items if item not in spared]


def _is_slow(item: pytest.Item) -> bool:
    """Whether its folder says so: `ELSEWHERE`, and stores and commands in their own processes."""
    folder, *inner = _place(item).split("/")[:-1]
    return folder in ELSEWHERE or (folder == "integration" and bool(inner))


def _is_quartered(item: pytest.Item) -> bool:
    alone = item.get_closest_marker("sampled") is None
    return alone and _folder(item) in QUARTERED and item.get_closest_marker("thorough") is not None


def _place(item: pytest.Item) -> str:
    """Return its file, from this folder on."""
    return str(item.path).removeprefix(f"{_HERE}/")  # not by pathlib: thousands take seconds


def _folder(item: pytest.Item) -> str:
    return _place(item).partition("/")[0]


def _is_taken(item: pytest.Item) -> bool:
    shares = (mark.args[0] for mark in item.iter_markers("sampled"))
    taken = all(sampling.is_taken(item.name, share) for share in shares)
    return taken or item.nodeid in seeds.TAKEN


def _place_in_line(item: pytest.Item) -> int:
    """The number of its folder in `FIRST`; the others, unit tests above all, come last."""
    folder = _folder(item)
    return FIRST.index(folder) if folder in FIRST else len(FIRST)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(
    item: pytest.Item, nextitem: pytest.Item | None
) -> Generator[None, object, object]:
    """Note whose histories begin; give a process's last test the time for replaying them."""
    began(item.nodeid, all_replayed=item.get_closest_marker("replayed") is not None)
    if nextitem is None:
        # Before its own, if it has one: the closest counts.
        item.add_marker(pytest.mark.timeout(REPLAYING), append=False)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape what cannot be sent to another process: some tests log lone surrogates."""
    report = yield
    report.sections = [
        (name, text.encode(errors="backslashreplace").decode()) for name, text in report.sections
    ]
    return report


_broken = set[str]()
"""Tests that failed in set-up, at their end, or with their process."""


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what running a test again does not mend."""
    if report.failed and report.when != "call":
        _broken.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have `make test-all` not try again if there was such a failure."""
    if _broken and session.exitstatus == pytest.ExitCode.TESTS_FAILED:
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


@pytest.fixture(autouse=True)
def loggers() -> Iterator[None]:
    """Undo `durable_adk.log.configure`: a command that runs in this process sets up its logs."""
    loggers = [logging.getLogger(name) for name in ("", "durable_adk", "temporalio.activity")]
    root, levels, before = loggers[0], [one.level for one in loggers], set(loggers[0].handlers)
    yield
    logging.captureWarnings(capture=False)
    for handler in set(root.handlers) - before:
        if type(handler) is logging.StreamHandler:  # not pytest's own, which differ by phase
            root.removeHandler(handler)
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.fixture(scope="session", autouse=True)
async def _tables(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[None]:
    """A SQLite store has its tables from the start."""
    async with tables_copied(tmp_path_factory.mktemp("tables")):
        yield


@pytest.fixture(scope="session", autouse=True)
def _sandbox() -> Iterator[None]:
    """Workers of this process have none unless a test asks for it: it takes CPU time.

    Those with the cache at zero have it, and so have the processes that tests start.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(WorkerOptions.__init__.__kwdefaults__, "sandboxed", False)
        yield


@pytest.fixture(scope="session", autouse=True)
def _late_is_not_blocked() -> Iterator[None]:
    """A workflow of this process is interrupted when it does not yield for much longer than usual.

    Beside three others the process itself may be kept from running for the SDK's two seconds. Its
    interruption is raised wherever the thread is then, also where Python cannot raise: in what is
    called when an object is collected, so that the test fails with an unraisable exception.
    """
    make = _WorkflowWorker.__init__

    def patient(self: _WorkflowWorker, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._deadlock_timeout_seconds = BLOCKED

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_WorkflowWorker, "__init__", patient)
        yield


@pytest.fixture(scope="session")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[TemporalServer]:
    """The embedded server, tuned as users get it but for `PARTITIONS`."""
    async with AsyncExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in PARTITIONS.items():
                patch.setitem(DYNAMIC_CONFIG, name, value)
            folder = tmp_path_factory.mktemp("temporal")
            starting = TemporalServer.start(data_dir=folder, headless=True)
            running = await stack.enter_async_context(starting)
        yield running


@pytest.fixture(scope="session")
async def client(server: TemporalServer) -> AsyncIterator[Client]:
    """A client; at the end histories that the tests made are replayed, see `REPLAYED` (F42)."""
    connected = await connect(server.address)
    yield connected
    await replay_all(connected, of=REPLAYED)


@pytest.fixture(scope="session")
async def postgres() -> AsyncIterator[Databases]:
    """A real PostgreSQL, for as long as the tests run."""
    async with running() as databases:
        yield databases


@pytest.fixture(scope="session")
async def postgres_url(postgres: Databases) -> str:
    """A database that tests share, each with an app of its own."""
    return await postgres.make()


@pytest.fixture(scope="session")
async def redis_server() -> AsyncIterator[RedisServer]:
    """A real Redis, for as long as the tests run."""
    async with redis_running() as server:
        yield server


@pytest.fixture
async def sessions(tmp_path: Path) -> AsyncIterator[SqliteSessionService]:
    """An empty SQLite store."""
    service = SqliteSessionService(tmp_path / "sessions.db")
    yield service
    await service.close()


@pytest.fixture
async def make_runner(
    request: pytest.FixtureRequest, tmp_path: Path, client: Client
) -> AsyncIterator[MakeRunner]:
    """Make a runner for an agent: in process, on Temporal, and on Temporal with the cache at zero.

    The last replays the workflow from its history at every single task. Graphs are run with steps
    ahead of the loop, too.
    """
    async with AsyncExitStack() as stack:

        async def make(agent: BaseAgent, **options: object) -> Runner:
            fields = {name: options.pop(name) for name in App.model_fields if name in options}
            if request.param == "temporal-ahead":
                fields.setdefault("steps_per_activity", AHEAD)
            app = App(name="app", root_agent=agent, **fields)
            if request.param == "local":
                runner = Runner(app=app, session_service=InMemorySessionService(), **options)
                return await stack.enter_async_context(runner)
            service = SqliteSessionService(tmp_path / f"{uuid.uuid4().hex}.db")
            stack.push_async_callback(service.close)
            queue = f"test-{uuid.uuid4().hex}"
            limits = {"limits": options.pop("limits")} if "limits" in options else {}
            cache = 0 if request.param == "temporal-uncached" else 1000
            worker_options = WorkerOptions(
                task_queue=queue, max_cached_workflows=cache, sandboxed=cache == 0, **limits
            )
            stores = {name: store for name, store in options.items() if name.endswith("_service")}
            await stack.enter_async_context(
                worker(
                    client, apps=[app], session_service=service, options=worker_options, **stores
                )
            )
            runner = Runner(
                app=app, session_service=service, client=client, task_queue=queue, **options
            )
            return await stack.enter_async_context(runner)

        yield make


@pytest.fixture(scope="session")
def s3_server() -> Iterator[s3_support.S3]:
    """An S3 server over HTTP."""
    with s3_support.running() as server:
        yield server


@pytest.fixture
def s3(s3_server: s3_support.S3, monkeypatch: pytest.MonkeyPatch) -> Iterator[s3_support.S3]:
    """The same, where the environment says how to reach it and nothing goes wrong."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    yield s3_server
    s3_server.arm()
