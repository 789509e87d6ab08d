"""The span of a client that sends a message or an answer and follows its events."""

from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry.trace import SpanKind, get_current_span

from durable_adk.sessions.session import SessionKey
from durable_adk.telemetry import names
from durable_adk.telemetry.identity import TraceIdentity
from durable_adk.telemetry.tracing import RunningSpan, parent, span, tracer


@contextmanager
def following(what: str, key: SessionKey, invocation_id: str) -> Generator[RunningSpan]:
    """A span over the body, which sends a message to an invocation and yields its events.

    Its parent is the current span, if there is one. Otherwise a message starts the trace that is
    derived from the invocation's name, and an answer joins it: both are in one trace, although they
    may be sent by different processes on different days.

    The span does not become current: the body yields, and its consumer has its own spans.

    Args:
        what: ``run`` or ``answer``.
        key: The session.
        invocation_id: The invocation.
    """
    if tracer() is None:
        yield RunningSpan(None)
        return
    identity = TraceIdentity.of(key, invocation_id)
    alone = not get_current_span().get_span_context().is_valid
    attributes = {
        names.APP: key.app_name,
        names.CONVERSATION: key.session_id,
        names.INVOCATION: invocation_id,
    }
    joins = parent(identity, identity.root) if alone and what != "run" else None
    with span(
        f"{what} {key.app_name}",
        attributes,
        kind=SpanKind.CLIENT,
        context=joins,
        trace_id=identity.trace_id if alone else None,
    ) as running:
        yield running
