"""Detects and repairs inconsistencies between session store, leases and workflows."""

from durable_adk.ops.doctor.diagnosis import diagnose
from durable_adk.ops.doctor.findings import Case, Finding
from durable_adk.ops.doctor.sources import Missing, Sources

__all__ = ["Case", "Finding", "Missing", "Sources", "diagnose"]
