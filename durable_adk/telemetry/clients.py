"""The span of a client that sends something and follows what comes of it."""

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry.trace import SpanKind, get_current_span

from durable_adk.sessions.session import SessionKey
from durable_adk.telemetry import names
from durable_adk.telemetry.identity import TraceIdentity
from durable_adk.telemetry.tracing import Running, parent, span, tracer


@contextmanager
def following(what: str, key: SessionKey, invocation_id: str) -> Generator[Running]:
    """A span over the body, which sends something to an invocation and yields its events.

    It hangs under the span that is current, if there is one. Otherwise a message begins the trace
    that follows from the invocation's name, and an answer joins it: so they are in one, although
    they come from different processes on different days.

    It is current nowhere by itself: the body yields, and who takes the events has spans of its own.

    Args:
        what: ``run`` or ``answer``.
        key: The session.
        invocation_id: The invocation.
    """
    if tracer() is None:
        yield Running(None)
        return
    whose = TraceIdentity.of(key, invocation_id)
    alone = not get_current_span().get_span_context().is_valid
    attributes = {
        names.APP: key.app_name,
        names.CONVERSATION: key.session_id,
        names.INVOCATION: invocation_id,
    }
    joins = parent(whose, whose.root) if alone and what != "run" else None
    with span(
        f"{what} {key.app_name}",
        attributes,
        kind=SpanKind.CLIENT,
        context=joins,
        trace_id=whose.trace_id if alone else None,
    ) as running:
        yield running
