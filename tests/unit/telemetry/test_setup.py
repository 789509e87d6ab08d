"""What Temporal's core gets of the standard variables, which it does not read itself."""

import pytest
from opentelemetry.sdk.resources import Resource
from temporalio.runtime import OpenTelemetryConfig, OpenTelemetryMetricTemporality

from durable_adk.telemetry.environment import Signal
from durable_adk.telemetry.setup import core_telemetry


def core(monkeypatch: pytest.MonkeyPatch, **variables: str) -> tuple[OpenTelemetryConfig, dict]:
    """How the core sends, and under which labels."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    told = core_telemetry(Signal.of("metrics"), Resource.create({"service.name": "shop"}))
    assert isinstance(told.metrics, OpenTelemetryConfig)
    return told.metrics, dict(told.global_tags)


def test_temporals_own_metrics_are_sent_as_ours_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """D17: one pipeline: where to, with which headers, how often, and as what kind of numbers."""
    config, tags = core(
        monkeypatch,
        OTEL_EXPORTER_OTLP_ENDPOINT="http://collector:4318",
        OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20x",
        OTEL_METRIC_EXPORT_INTERVAL="5000",
        OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE="delta",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment=live",
    )
    assert (config.url, config.http) == ("http://collector:4318/v1/metrics", True)
    assert config.headers == {"authorization": "Bearer x"}
    assert config.metric_periodicity is not None
    assert config.metric_periodicity.total_seconds() == 5
    assert config.metric_temporality is OpenTelemetryMetricTemporality.DELTA
    expected = {"service.name": "shop", "deployment.environment": "live"}
    assert tags | expected == tags
    assert not [name for name in tags if name.startswith("telemetry.")]


def test_without_a_preference_they_are_cumulative(monkeypatch: pytest.MonkeyPatch) -> None:
    """D17: which is the default of OpenTelemetry."""
    config, _ = core(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT="http://collector:4318")
    assert config.metric_temporality is OpenTelemetryMetricTemporality.CUMULATIVE
