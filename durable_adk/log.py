"""Logging: structlog on top of the standard library's logging."""

import logging
import os
import re
import sys
import traceback
from collections.abc import Iterator
from typing import Any, cast

import structlog
from opentelemetry.trace import format_span_id, format_trace_id, get_current_span
from structlog.typing import EventDict, Processor, WrappedLogger
from temporalio.exceptions import ApplicationError

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_RESERVED = frozenset(vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}) - {
    "exc_info",
    "stack_info",
}

_HARMLESS = frozenset(
    {"StoreUnavailableError", "SessionRegressedError", "EncryptionKeyError", "NoWorkerError"}
    | {"TemporalUnavailableError", "RPCError"}
)
"""Exceptions whose messages describe infrastructure, and never quote users' data."""


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """Return a structured logger that is silent until the application configures `logging`.

    Its values are attributes of the log record, so any handler can use them. A library that used
    structlog's global configuration would print to the user's output.
    """
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            _traced,
            _unquoted,
            _unreserved,
            structlog.stdlib.render_to_log_kwargs,
        ],
    )
    return logger


def configure(default_level: str) -> None:
    """Send all logs to standard error; only for the command line, never in a library.

    ``DURABLE_ADK_LOG`` is ``console`` or ``json`` (default: console on a terminal, else JSON
    lines), ``DURABLE_ADK_LOG_LEVEL`` a level's name. Logs show the messages of exceptions of user
    code only at level ``debug``.

    Args:
        default_level: The level unless the environment says otherwise.
    """
    names = logging.getLevelNamesMapping()
    wanted = os.environ.get("DURABLE_ADK_LOG_LEVEL", "").upper()
    level = names[wanted if wanted in names else default_level.upper()]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(verbose=level <= logging.DEBUG))
    # Other loggers are one level less verbose.
    others = logging.WARNING if level < logging.WARNING else logging.ERROR
    logging.basicConfig(handlers=[handler], level=others, force=True)
    logging.getLogger("durable_adk").setLevel(level)
    # Temporal's SDK logs each failed attempt, as this package does; show its tracebacks only at
    # level debug.
    failures = logging.WARNING if level <= logging.DEBUG else logging.ERROR
    logging.getLogger("temporalio.activity").setLevel(failures)
    logging.captureWarnings(capture=True)


def logs_are_json() -> bool:
    """Return whether logs are for programs, see `configure`."""
    form = os.environ.get("DURABLE_ADK_LOG") or ("console" if sys.stderr.isatty() else "json")
    return form == "json"


def _traced(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Add the ids of the current trace and span."""
    span = get_current_span().get_span_context()
    if span.is_valid:
        event["trace_id"] = format_trace_id(span.trace_id)
        event["span_id"] = format_span_id(span.span_id)
    return event


def _unquoted(logger: WrappedLogger, _: str, event: EventDict) -> EventDict:
    """Log only class and location of an exception: its message may quote users' data (S8).

    Level ``debug`` logs the whole exception.
    """
    if logger.isEnabledFor(logging.DEBUG):
        return event
    error = sys.exc_info()[1] if event.pop("exc_info", None) else None
    if error is not None:
        event["error_type"] = type(error).__name__
        frames = traceback.extract_tb(error.__traceback__)
        event["at"] = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else None
    return event


def _unreserved(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Rename values that have the name of a log record's own attribute, such as ``process``."""
    return {f"{key}_" if key in _RESERVED else key: value for key, value in event.items()}


def _without_entry(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Drop the object that the SDK attaches to log entries of Temporal's core."""
    event.pop("temporal_log", None)
    return event


def _without_texts(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Log class and traceback of exceptions, without their messages.

    Temporal's SDK logs the exception of each failed attempt, and exceptions of user code may quote
    a conversation (I19). Their messages are in the session's error event.
    """
    record = event.get("_record")
    if isinstance(record, logging.LogRecord) and record.name == "asyncio":
        # asyncio's message about unretrieved task exceptions contains the exception.
        event["event"] = str(event["event"]).partition("\n")[0]
    if isinstance(record, logging.LogRecord) and record.name.startswith("a2a."):
        event["event"] = str(record.msg)  # its values quote requests
    raised = cast("tuple[object, ...] | None", event.get("exc_info"))
    error = raised[1] if raised else None  # the format of the standard library
    if isinstance(error, BaseException):
        event["exc_info"] = None
        event["exception"] = "\n".join(_silent(error))
    return event


def _silent(error: BaseException) -> Iterator[str]:
    """Yield the tracebacks of an exception and its causes, without their messages."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        known = cause.type if isinstance(cause, ApplicationError) else None
        kind = known or type(cause).__name__
        said = f": {cause}" if kind in _HARMLESS else ""
        yield f"{kind}{said}\n{''.join(traceback.format_tb(cause.__traceback__))}".rstrip()
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def _formatter(*, verbose: bool) -> logging.Formatter:
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _without_entry,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if not verbose:
        shared.append(_without_texts)
    own: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if logs_are_json():
        own += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        colors = "NO_COLOR" not in os.environ
        own += [_escaped, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=own)


def _escaped(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Escape control characters: texts of users and models must not move the cursor (S24)."""
    shown = {key: _visible(value) for key, value in event.items()}
    if not isinstance(lines := event.get("stack"), str | None):  # the renderer expects a text
        shown["stack"] = "\n".join(f"  {printable(str(line))}" for line in lines)
    return shown


def _visible(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def printable(text: str, *, keep: str = "") -> str:
    r"""Return `text` with its control characters escaped, e.g. ESC as ``\x1b``.

    Args:
        text: Any text, e.g. of a model.
        keep: Control characters to keep, e.g. a newline.
    """
    return _CONTROL.sub(lambda hit: hit[0] if hit[0] in keep else ascii(hit[0])[1:-1], text)
