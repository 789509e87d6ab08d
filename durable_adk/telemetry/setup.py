"""Setup of OpenTelemetry's providers and Temporal's metrics from environment variables.

For commands only: a library uses the providers of its application. Imported only if an exporter is
configured, because importing the SDK takes a tenth of a second.
"""

import os
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from importlib.metadata import entry_points
from threading import Thread
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    SERVICE_VERSION,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.util.re import parse_env_headers
from temporalio.runtime import (
    OpenTelemetryConfig,
    OpenTelemetryMetricTemporality,
    Runtime,
    TelemetryConfig,
)

import durable_adk
from durable_adk.errors import InvalidRequestError
from durable_adk.telemetry.environment import Signal, has_service_name
from durable_adk.telemetry.logs import core_logging

_TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
SCHEDULE_DELAY = 1_000
"""Milliseconds until a finished span is exported; the SDK's 5,000 is too long for live viewing."""
FLUSH = 5.0
"""Seconds the final export may take, in case its receiver is unavailable."""


@contextmanager
def exporting() -> Generator[None]:
    """Export traces and metrics while the body runs.

    Raises:
        InvalidRequestError: A configured exporter is not installed.
    """
    resource = _resource()
    traces, measured = Signal.of("traces"), Signal.of("metrics")
    providers: list[TracerProvider | MeterProvider] = []
    if traces.exporters:
        providers.append(_traces(traces, resource))
    if measured.exporters:
        providers.append(_metrics(measured, resource))
    if measured.is_otlp:
        runtime = Runtime(telemetry=core_telemetry(measured, resource))
        Runtime.set_default(runtime, error_if_already_set=False)
    try:
        yield
    finally:
        _shut_down(providers)


def _resource() -> Resource:
    """The resource of this process; without an instance id, counters of processes would mix."""
    attributes = {
        SERVICE_VERSION: durable_adk.__version__,
        SERVICE_INSTANCE_ID: str(uuid.uuid4()),
    }
    if not has_service_name():
        attributes[SERVICE_NAME] = "durable-adk"
    return Resource.create(attributes)


def _traces(signal: Signal, resource: Resource) -> TracerProvider:
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    delay = float(os.environ.get("OTEL_BSP_SCHEDULE_DELAY", SCHEDULE_DELAY))
    for exporter in _exporters(signal):
        provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=delay))
    trace.set_tracer_provider(provider)
    return provider


def _metrics(signal: Signal, resource: Resource) -> MeterProvider:
    exporters = _exporters(signal)
    readers = [
        exporter if isinstance(exporter, MetricReader) else PeriodicExportingMetricReader(exporter)
        for exporter in exporters
    ]
    provider = MeterProvider(metric_readers=readers, resource=resource, shutdown_on_exit=False)
    metrics.set_meter_provider(provider)
    return provider


def _exporters(signal: Signal) -> list[Any]:
    """The exporters, loaded from entry points as OpenTelemetry's own tools do."""
    found: list[Any] = []
    for name in signal.entry_points():
        known = entry_points(group=f"opentelemetry_{signal.name}_exporter", name=name)
        if not known:
            remedy = (
                'pip install "durable-adk[otlp]"'
                if name == "otlp_proto_http"
                else f"install the package that offers the exporter {name!r}"
            )
            raise InvalidRequestError(
                f"The environment configures the exporter {name!r} for {signal.name}, which is not "
                f"installed: {remedy}, or set OTEL_{signal.name.upper()}_EXPORTER=none."
            )
        found.append(next(iter(known)).load()())
    return found


def core_telemetry(signal: Signal, resource: Resource) -> TelemetryConfig:
    """The configuration of Temporal's core, which sends its own metrics to the same endpoint."""
    http = signal.protocol == "http/protobuf"
    default = "http://localhost:4318/v1/metrics" if http else "http://localhost:4317"
    headers = os.environ.get("OTEL_EXPORTER_OTLP_METRICS_HEADERS") or os.environ.get(
        "OTEL_EXPORTER_OTLP_HEADERS", ""
    )
    config = OpenTelemetryConfig(
        url=signal.endpoint or default,
        headers=parse_env_headers(headers, liberal=True),
        metric_periodicity=timedelta(
            milliseconds=float(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "60000"))
        ),
        metric_temporality=OpenTelemetryMetricTemporality.DELTA
        if os.environ.get(_TEMPORALITY, "").lower() == "delta"
        else OpenTelemetryMetricTemporality.CUMULATIVE,
        durations_as_seconds=True,
        http=http,
    )
    attributes = resource.attributes.items()
    tags = {name: str(value) for name, value in attributes if not name.startswith("telemetry.")}
    return TelemetryConfig(
        logging=core_logging(), metrics=config, global_tags=tags, attach_service_name=False
    )


def _shut_down(providers: list[TracerProvider | MeterProvider]) -> None:
    """Export the remaining telemetry; an unavailable receiver must not block the exit."""
    threads = [Thread(target=provider.shutdown, daemon=True) for provider in providers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(FLUSH)
