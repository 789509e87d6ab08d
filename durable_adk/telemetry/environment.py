"""OpenTelemetry's standard environment variables."""

import os
from dataclasses import dataclass
from typing import Self

_ENDPOINTS = {
    "traces": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "metrics": "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
}
_PROTOCOLS = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


@dataclass(frozen=True, kw_only=True)
class Signal:
    """The export configuration of traces, or of metrics."""

    name: str
    exporters: tuple[str, ...]
    """Exporter names as in ``OTEL_TRACES_EXPORTER``; if empty, nothing is exported."""
    protocol: str
    """Protocol of OTLP: ``http/protobuf`` or ``grpc``."""
    endpoint: str | None
    """Endpoint of OTLP with the signal's path; None for the exporter's default."""

    @classmethod
    def of(cls, name: str) -> Self:
        """The configuration in the environment; an endpoint alone enables OTLP.

        Args:
            name: ``traces`` or ``metrics``.
        """
        own, shared = _variable(_ENDPOINTS[name]), _variable("OTEL_EXPORTER_OTLP_ENDPOINT")
        default = "otlp" if own or shared else "none"
        chosen = _variable(f"OTEL_{name.upper()}_EXPORTER") or default
        exporters = [part.strip() for part in chosen.split(",")]
        protocol = (
            _variable(f"OTEL_EXPORTER_OTLP_{name.upper()}_PROTOCOL")
            or _variable("OTEL_EXPORTER_OTLP_PROTOCOL")
            or "http/protobuf"
        )
        path = f"/v1/{name}" if protocol == "http/protobuf" else ""
        disabled = _variable("OTEL_SDK_DISABLED").lower() == "true"
        return cls(
            name=name,
            exporters=() if disabled else tuple(e for e in exporters if e and e != "none"),
            protocol=protocol,
            endpoint=own or (shared.rstrip("/") + path if shared else None),
        )

    def entry_points(self) -> list[str]:
        """The names of the exporters' entry points."""
        otlp = _PROTOCOLS.get(self.protocol, f"otlp ({self.protocol})")
        return [otlp if name == "otlp" else name for name in self.exporters]

    @property
    def is_otlp(self) -> bool:
        """Whether OTLP is among the exporters."""
        return any(name.startswith("otlp") for name in self.exporters)


def is_asked_for() -> bool:
    """Whether any signal is exported."""
    return any(Signal.of(name).exporters for name in _ENDPOINTS)


def has_service_name() -> bool:
    """Whether the variables name the service."""
    attributes = _variable("OTEL_RESOURCE_ATTRIBUTES")
    return bool(_variable("OTEL_SERVICE_NAME")) or "service.name=" in attributes


def _variable(name: str) -> str:
    return os.environ.get(name, "").strip()
