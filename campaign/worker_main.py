"""A worker of the campaign, as the spawner starts it: with RUN_DIR, TEMPORAL and STORE."""

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

from campaign.apps import make_apps
from campaign.journals import RunFolder, note, notes
from campaign.stores import converter, shared
from campaign.watched_store import WatchedSessionService
from durable_adk.client import connect
from durable_adk.log import configure
from durable_adk.settings import Limits
from durable_adk.worker import WorkerOptions, worker

QUEUE = "campaign"
LIMITS = Limits(max_history_events=30, model_attempts=100)
"""So few events that longer invocations continue as new; and so many attempts that a model which is
cut off again and again fails no run."""
RELEASES = 2
"""Of the apps; workers have them by turns (I20)."""
SPANS_EVERY, METRICS_EVERY = 200, 1_000
"""Milliseconds between two exports: a worker does not live long."""


async def main(folder: RunFolder, address: str, store: str) -> None:
    """Serve the campaign's apps until SIGTERM, and then end as a worker does at a deploy."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    configure("info")
    apps = list(make_apps(folder.path, _release(folder)).values())
    service = WatchedSessionService(store, folder.commits)
    options = WorkerOptions(task_queue=QUEUE, limits=LIMITS)
    client = await connect(address, data_converter=converter(folder))
    with _exporting(folder.telemetry):
        async with (
            shared(folder, service, store) as stores,
            worker(client, apps=apps, options=options, **stores.arguments()),
        ):
            print("ready", flush=True)
            await stopped.wait()


def _release(folder: RunFolder) -> int:
    """Which release this worker is of: of all that start, each is of another than the one before.

    So at any time there may be workers of both, as while a deploy goes on.
    """
    note(folder.starts, release=None)
    started = [line["pid"] for line in notes(folder.starts) if line["release"] is None]
    release = 1 + started.index(os.getpid()) % RELEASES
    note(folder.starts, release=release)
    return release


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
