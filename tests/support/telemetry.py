"""Spans and metrics as tests look at them."""

import json
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A span that was exported."""

    name: str
    trace: str
    id: str
    parent: str | None
    attributes: dict[str, Any]
    error: bool
    start: Any = None
    end: Any = None


@dataclass
class Watched:
    """The spans of a test, and the provider they come from."""

    provider: TracerProvider
    exporter: InMemorySpanExporter
    names: list[str] = field(default_factory=list)

    def spans(self) -> list[Seen]:
        """All that were exported, each as often as it was."""
        return [
            _seen(json.loads(span.to_json(indent=None)))
            for span in self.exporter.get_finished_spans()
        ]

    def raw(self) -> str:
        """All that the spans say."""
        return "".join(span.to_json() for span in self.exporter.get_finished_spans())


@contextmanager
def watched(sampler: Sampler | None = None) -> Generator[Watched]:
    """A tracer provider that is the application's while the body runs."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with patch.object(trace, "_TRACER_PROVIDER", provider):
        yield Watched(provider, exporter)
    provider.shutdown()


def write_spans(path: Path) -> None:
    """Have this process append each span to a file as it ends: a kill loses nothing that ended."""
    provider = TracerProvider(shutdown_on_exit=False)
    file = path.open("a", buffering=1)
    exporter = ConsoleSpanExporter(out=file, formatter=_line)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def _line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"


def read_spans(path: Path) -> list[Seen]:
    """What `write_spans` has written, by any number of processes."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [_seen(json.loads(line)) for line in lines]


def _seen(span: dict[str, Any]) -> Seen:
    return Seen(
        name=span["name"],
        trace=span["context"]["trace_id"],
        id=span["context"]["span_id"],
        parent=span["parent_id"],
        attributes=span["attributes"],
        error=span["status"]["status_code"] == "ERROR",
        start=span["start_time"],
        end=span["end_time"],
    )


def tree(spans: Iterable[Seen]) -> list[Any]:
    """Names as nested lists, in the order in which the spans began: ``[name, child, ...]``.

    What hangs under a span that was not exported is at the top.
    """
    spans = sorted(spans, key=lambda span: span.start)
    known = {span.id for span in spans}

    def below(parent: str | None) -> list[Any]:
        return [[span.name, *below(span.id)] for span in spans if span.parent == parent]

    tops = [span for span in spans if span.parent not in known]
    return [[span.name, *below(span.id)] for span in tops]


@cache
def reader() -> InMemoryMetricReader:
    """The metrics of this process; a meter provider is set up once for all tests."""
    found = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider(metric_readers=[found], shutdown_on_exit=False))
    return found


def points() -> dict[str, list[Any]]:
    """The data points of all our metrics so far, by name."""
    data = reader().get_metrics_data()
    found: dict[str, list[Any]] = {}
    for resource in data.resource_metrics if data else ():
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                found.setdefault(metric.name, []).extend(metric.data.data_points)
    return found
