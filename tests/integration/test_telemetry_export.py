"""Telemetry of the command line, sent to where OpenTelemetry's variables say (D17)."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from durable_adk.embedded import TemporalServer
from tests.support.collector import collecting
from tests.support.commands import Terminal
from tests.support.waiting import until

pytestmark = pytest.mark.thorough

AGENT = """
import asyncio
from pathlib import Path

from durable_adk.agents import LlmAgent

async def get_capital(country: str) -> str:
    '''Find the capital of a country.'''
    while not Path("go").exists():
        await asyncio.sleep(0.05)
    return "Paris"

root_agent = LlmAgent(name="slow", model="offline", tools=[get_capital])
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A folder with an agent whose tool waits for a file."""
    opened = Terminal(tmp_path)
    opened.env |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    (tmp_path / "slow.py").write_text(AGENT)
    yield opened
    opened.close()


async def test_a_worker_sends_each_step_as_it_ends(
    terminal: Terminal, server: TemporalServer, client: Client
) -> None:
    """D17: finished steps are at the collector while a long one runs; the rest comes at the end.

    Temporal's own metrics come by the same settings, headers included.
    """
    queue = terminal.folder.name
    with collecting() as collector:
        worker = terminal.start(
            *("worker", "slow.py", "--address", server.address),
            *("--store", "s.db", "--task-queue", queue),
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_EXPORTER_OTLP_HEADERS="x-team=agents",
            OTEL_SERVICE_NAME="desk",
            OTEL_METRIC_EXPORT_INTERVAL="500",
        )
        run = await client.start_workflow(
            "Invocation",
            {"app": "slow", "user": "u", "message": "What is the capital of France?"},
            id=f"telemetry-{queue}",
            task_queue=queue,
        )
        await until(lambda: collector.names)
        assert collector.names == ["chat offline"]
        (terminal.folder / "go").touch()
        await run.result()
        await until(lambda: "invoke_agent slow" in collector.names)
        await until(lambda: any(name.startswith("temporal_") for name in collector.metrics))
        await until(lambda: "gen_ai.client.operation.duration" in collector.metrics)
        _, log = terminal.stop(worker, signal.SIGTERM)
    assert worker.returncode == 0, log
    assert sorted(collector.names) == [
        *["chat offline"] * 2,
        "execute_tool get_capital",
        "invoke_agent slow",
    ]
    assert len({span.trace_id for span in collector.spans}) == 1
    assert collector.services == {"desk"}
    assert set(collector.headers) == {"agents"}
    assert "invocation.ended" in log


def test_what_has_not_been_sent_is_sent_at_the_end(terminal: Terminal) -> None:
    """D17: a command that is over in a moment has sent its whole trace."""
    (terminal.folder / "go").touch()
    with collecting() as collector:
        done = terminal.run(
            *("run", "slow.py", "What is the capital of France?"),
            OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
            OTEL_METRICS_EXPORTER="none",
        )
    assert (done.returncode, "Paris" in done.stdout) == (0, True), done.stderr
    assert collector.services == {"durable-adk"}
    assert "run slow" in collector.names
    assert "invoke_agent slow" in collector.names
    assert not collector.metrics


def test_a_collector_that_is_away_delays_nobody_for_long(terminal: Terminal) -> None:
    """D17: telemetry is no reason to fail, or to hang at the end."""
    (terminal.folder / "go").touch()
    with collecting() as collector:
        away = collector.url
    done = terminal.run(
        *("run", "slow.py", "What is the capital of France?"),
        OTEL_EXPORTER_OTLP_ENDPOINT=away,
    )
    assert (done.returncode, "Paris" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("variable", "remedy"),
    [("otlp_made_up", "install the package that offers"), ("otlp", "grpc")],
)
def test_an_exporter_that_is_missing_is_named(
    terminal: Terminal, variable: str, remedy: str
) -> None:
    """D17: what the environment asks for and is not there is an error with a remedy."""
    done = terminal.run(
        *("run", "slow.py", "hello"),
        OTEL_TRACES_EXPORTER=variable,
        OTEL_EXPORTER_OTLP_PROTOCOL="grpc",
    )
    assert done.returncode == 1
    assert remedy in done.stderr
    assert "OTEL_TRACES_EXPORTER=none" in done.stderr
