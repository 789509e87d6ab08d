"""Logs: structlog on top of the standard library's logging."""

import logging
import os
import re
import sys
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_RESERVED = frozenset(vars(logging.makeLogRecord({})).keys() | {"message", "asctime"}) - {
    "exc_info",
    "stack_info",
}


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """A structured logger that says nothing until the application configures `logging`.

    Its values travel as the log record's own attributes, so any handler can use them; a library
    that logged through structlog's global configuration would print to the user's output.
    """
    logger: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        logging.getLogger(name),
        wrapper_class=structlog.stdlib.BoundLogger,
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            _unreserved,
            structlog.stdlib.render_to_log_kwargs,
        ],
    )
    return logger


def configure(default_level: str) -> None:
    """Send all logs to standard error; for command lines only, never for a library.

    ``DURABLE_ADK_LOG`` is ``console`` or ``json`` (default: console on a terminal, else JSON
    lines), ``DURABLE_ADK_LOG_LEVEL`` a level's name.

    Args:
        default_level: The level unless the environment says otherwise.
    """
    names = logging.getLevelNamesMapping()
    wanted = os.environ.get("DURABLE_ADK_LOG_LEVEL", "").upper()
    level = names[wanted if wanted in names else default_level.upper()]
    form = os.environ.get("DURABLE_ADK_LOG") or ("console" if sys.stderr.isatty() else "json")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(form))
    # Of other people's loggers one step less is heard: the level is about ours. Temporal's warns,
    # with a traceback, of each attempt that failed, and the error that comes of it we show.
    others = logging.WARNING if level < logging.WARNING else logging.ERROR
    logging.basicConfig(handlers=[handler], level=others, force=True)
    logging.getLogger("durable_adk").setLevel(level)
    logging.captureWarnings(capture=True)


def _unreserved(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """A log record refuses values named like its own attributes, such as ``process``."""
    return {f"{key}_" if key in _RESERVED else key: value for key, value in event.items()}


def _formatter(form: str) -> logging.Formatter:
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    own: list[Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if form == "json":
        own += [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]
    else:
        plain = structlog.dev.plain_traceback
        colors = "NO_COLOR" not in os.environ
        own += [_escaped, structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=plain)]
    return structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=own)


def _escaped(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Texts from users and models must not move the reader's cursor (reliability S24)."""
    return {key: _visible(value) for key, value in event.items()}


def _visible(value: Any) -> Any:
    return printable(value) if isinstance(value, str) else value


def printable(text: str, *, keep: str = "") -> str:
    r"""`text` with its control characters written out, e.g. ESC as ``\x1b``.

    Args:
        text: Anything, e.g. what a model said.
        keep: Control characters that stay, e.g. a newline.
    """
    return _CONTROL.sub(lambda hit: hit[0] if hit[0] in keep else ascii(hit[0])[1:-1], text)
