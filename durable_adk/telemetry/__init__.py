"""What operators see: traces, metrics and the ids in log lines (design D17)."""

from durable_adk.telemetry.content import Redact, redact_with

__all__ = ["Redact", "redact_with"]
