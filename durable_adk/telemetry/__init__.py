"""Traces, metrics, and the ids in log lines (D17)."""

from durable_adk.telemetry.content import Redact, redact_with

__all__ = ["Redact", "redact_with"]
