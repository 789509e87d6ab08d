"""A worker of the campaign, as the spawner starts it: with RUN_DIR, TEMPORAL and STORE."""

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from temporalio import activity, client as clients, worker as workers

from campaign.apps import make_apps
from campaign.journaled_store import ADDED, JournaledSessionService
from campaign.run_folder import RunFolder
from campaign.stores import converter, shared
from campaign.tools import task
from campaign.workload import QUEUED
from durable_adk.client import connect
from durable_adk.log import configure
from durable_adk.settings import Limits
from durable_adk.wire.checkpoint import Checkpoint
from durable_adk.wire.steps import ToolStep
from durable_adk.worker import WorkerOptions, worker
from harness.journal import note, notes

QUEUE = "campaign"
LIMITS = Limits(
    max_history_events=30,
    model_attempts=100,
    max_queued_per_session=QUEUED,
    heartbeat_timeout=2.0,  # a frozen worker has to be replaced while it is frozen
)
"""So few events that longer invocations continue as new; and so many attempts that a model which is
cut off again and again fails no run."""
RELEASES = 2
"""Of the apps, and of what is written for other workers; they have them by turns (I20, I13)."""
CLOCKS = (0.0, 180.0, -180.0)
"""Seconds by which the clocks of workers are off, by turns."""
SPANS_EVERY, METRICS_EVERY = 200, 1_000
"""Milliseconds between two exports: a worker does not live long."""


async def main(folder: RunFolder, address: str, store: str) -> None:
    """Serve the campaign's apps until SIGTERM, and then end as a worker does at a deploy."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    configure("info")
    apps = list(make_apps(folder.path, _begin(folder)).values())
    service = JournaledSessionService(store, folder.commits)
    options = WorkerOptions(task_queue=QUEUE, limits=LIMITS)
    noting = [NotedTasks(folder.tasks)]
    client = await connect(address, data_converter=converter(folder), interceptors=noting)
    with _exporting(folder.telemetry):
        async with (
            shared(folder, service, store) as stores,
            worker(client, apps=apps, options=options, **stores.arguments()),
        ):
            print("ready", flush=True)
            await stopped.wait()


def _begin(folder: RunFolder) -> int:
    """Be of another release than the worker that started before, and have another clock.

    So at any time there may be workers of both releases, as during a deploy or a rollback.
    """
    note(folder.starts, release=None)
    started = [line["pid"] for line in notes(folder.starts) if line["release"] is None]
    number = started.index(os.getpid())
    release, clock = 1 + number % RELEASES, CLOCKS[number % len(CLOCKS)]
    note(folder.starts, release=release, clock=clock)
    real = time.time
    time.time = lambda: real() + clock
    if release > 1:
        setattr(Checkpoint, "to_json", _newer(Checkpoint.to_json))  # noqa: B010 - for the type checker
    return release


def _newer(to_json: Callable[[Checkpoint], str]) -> Callable[[Checkpoint], str]:
    """Write a field that the other release does not know (I13, F35)."""

    def newer(place: Checkpoint) -> str:
        return json.dumps(json.loads(to_json(place)) | {ADDED: 1})

    return newer


class NotedTasks(clients.Interceptor, workers.Interceptor):
    """Notes each activity that the worker takes and, when it has, that it has ended it (I22)."""

    def __init__(self, journal: Path) -> None:
        self._journal = journal

    def intercept_activity(
        self,
        next: workers.ActivityInboundInterceptor,  # noqa: A002 - the SDK's own name
    ) -> workers.ActivityInboundInterceptor:
        """See the base class."""
        return _Noted(next, self._journal)


def _decided(args: Sequence[Any]) -> str:
    """The call that a step has run, or not, after it was decided whether it may."""
    match args:
        case [ToolStep() as step] if step.request_id is not None:
            return f"{step.invocation_id}:{step.call_id}"
        case _:
            return ""


def _was_given_up() -> bool:
    """Whether the engine has cancelled the attempt because it took the worker for lost."""
    told = activity.cancellation_details()
    return told is not None and (told.not_found or told.timed_out)


class _Noted(workers.ActivityInboundInterceptor):
    def __init__(self, inner: workers.ActivityInboundInterceptor, journal: Path) -> None:
        super().__init__(inner)
        self._journal = journal

    async def execute_activity(self, input: workers.ExecuteActivityInput) -> Any:  # noqa: A002 - the same
        info = activity.info()
        whose = {"task": task(), "workflow": info.workflow_id}
        note(self._journal, phase="taken", name=info.activity_type, **whose)
        failed = False
        try:
            return await self.next.execute_activity(input)
        except BaseException:
            failed = not _was_given_up()
            raise
        finally:
            decided = _decided(input.args)
            note(self._journal, phase="ended", decided=decided, failed=failed, **whose)


@contextmanager
def _exporting(path: Path) -> Generator[None]:
    """Export spans and metrics to a file, for the auditor to look what they say (I19)."""
    with path.open("a") as file:
        tracers = TracerProvider(shutdown_on_exit=False)
        exporter = ConsoleSpanExporter(out=file, formatter=lambda span: f"{span.to_json(None)}\n")
        tracers.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=SPANS_EVERY))
        trace.set_tracer_provider(tracers)
        reader = PeriodicExportingMetricReader(
            ConsoleMetricExporter(out=file), export_interval_millis=METRICS_EVERY
        )
        meters = MeterProvider([reader], shutdown_on_exit=False)
        metrics.set_meter_provider(meters)
        try:
            yield
        finally:  # else they would write to a closed file
            meters.shutdown()
            tracers.shutdown()


def start(arguments: list[str]) -> None:
    """Run it."""
    folder, address, store = arguments
    asyncio.run(main(RunFolder(Path(folder)), address, store))
