"""OpenTelemetry's variables."""

import pytest

from durable_adk.telemetry.environment import Signal, is_asked_for


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    for name in ("ENDPOINT", "TRACES_ENDPOINT", "PROTOCOL", "TRACES_PROTOCOL"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


def test_nothing_is_exported_unless_it_is_asked_for(monkeypatch):
    """D17: without variables, with none, and with the SDK disabled."""
    assert not is_asked_for()
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert not is_asked_for()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")
    assert is_asked_for()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert not is_asked_for()


def test_an_endpoint_means_otlp_over_http(monkeypatch):
    """OTEL: the signal's path is added to a shared endpoint, not to its own."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/")
    traces = Signal.of("traces")
    assert traces.entry_points() == ["otlp_proto_http"]
    assert traces.endpoint == "http://c:4318/v1/traces"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://d/in")
    assert Signal.of("traces").endpoint == "http://d/in"
    assert Signal.of("metrics").endpoint == "http://c:4318/v1/metrics"


def test_exporters_are_chosen_by_name(monkeypatch):
    """OTEL: several may be named; otlp is that of the protocol."""
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console, otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    assert Signal.of("traces").entry_points() == ["console", "otlp_proto_grpc"]
    assert not Signal.of("metrics").exporters
