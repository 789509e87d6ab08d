"""Forwarding of Temporal core's logs to Python's logging; by default they go to standard error."""

import logging

from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)


def core_logging() -> LoggingConfig:
    """Forward the core's logs to the logger ``temporalio.core``, without their fields.

    The fields hold transport errors, which do not help an operator, and failures, which may quote
    users' data (I19).
    """
    forwarding = LogForwardingConfig(
        logger=logging.getLogger("temporalio.core"),
        prepend_target_on_message=False,
        append_log_fields_to_message=False,
    )
    levels = TelemetryFilter(core_level="WARN", other_level="ERROR")
    return LoggingConfig(filter=levels, forwarding=forwarding)


def forward_core_logs() -> None:
    """Forward the core's logs in this process; a command calls it before `setup.exporting`."""
    runtime = Runtime(telemetry=TelemetryConfig(logging=core_logging()))
    Runtime.set_default(runtime, error_if_already_set=False)
