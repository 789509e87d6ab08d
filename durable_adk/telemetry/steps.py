"""Where a piece of work belongs: what its spans, its metrics and its log lines say of it."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context as otel_context
from structlog.contextvars import bound_contextvars

from durable_adk.log import get_logger
from durable_adk.sessions.session import SessionKey
from durable_adk.telemetry import metrics, names
from durable_adk.telemetry.identity import TraceIdentity
from durable_adk.telemetry.tracing import identity, parent, within

logger = get_logger(__name__)


@dataclass(frozen=True)
class StepPlace:
    """What the spans of a step have in common."""

    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    run: int = 0
    """Number of the agent's run; 0: the invocation's first."""


_NOWHERE = StepPlace()
_place: ContextVar[StepPlace] = ContextVar("_place", default=_NOWHERE)


def current_step() -> StepPlace:
    """The step that this code runs for."""
    return _place.get()


@contextmanager
def for_invocation(key: SessionKey, invocation_id: str, trace_of: TraceIdentity) -> Generator[None]:
    """Let what the body tells be the invocation's: spans by their trace, log lines by their ids.

    The user's id is in none of them: it is a person's.
    """
    with (
        bound_contextvars(app=key.app_name, session=key.session_id, invocation_id=invocation_id),
        within(trace_of),
    ):
        yield


@contextmanager
def for_step(
    kind: str,
    *,
    key: SessionKey,
    invocation_id: str,
    agent: str,
    event_id: str,
    attempt: int,
    run: int = 0,
) -> Generator[Mapping[str, Any]]:
    """Let what the body tells be a step's, and count it; what its spans say of it.

    Args:
        kind: The effect's name.
        key: The session.
        invocation_id: The invocation.
        agent: Whose step it is.
        event_id: Of the event it makes.
        attempt: 1, 2, ...
        run: Number of the agent's run.
    """
    attributes = {
        names.AGENT: agent,
        names.CONVERSATION: key.session_id,
        names.APP: key.app_name,
        names.INVOCATION: invocation_id,
        names.EVENT: event_id,
        names.ATTEMPT: attempt,
    }
    with bound_contextvars(agent=agent, event_id=event_id, attempt=attempt), _under(run):
        token = _place.set(StepPlace(attributes, run))
        if attempt > 1:
            metrics.retries.add(1, {names.STEP: kind})
            logger.info("step.retried", step=kind)
        outcome = "error"
        try:
            yield attributes
            outcome = "ok"
        finally:
            _place.reset(token)
            metrics.steps.add(1, {names.STEP: kind, names.STATUS: outcome})


@contextmanager
def _under(run: int) -> Generator[None]:
    """Let spans hang under an agent's run that is not the invocation's first."""
    whose = identity()
    if whose is None or run == 0:
        yield
        return
    attached = otel_context.attach(parent(whose, whose.agent_run(run)))
    try:
        yield
    finally:
        otel_context.detach(attached)


def attributes_of(key: SessionKey, invocation_id: str, agent: str) -> Mapping[str, Any]:
    """What the span of an agent's run says of itself."""
    return {
        names.OPERATION: names.INVOKE_AGENT,
        names.AGENT: agent,
        names.CONVERSATION: key.session_id,
        names.APP: key.app_name,
        names.INVOCATION: invocation_id,
    }
