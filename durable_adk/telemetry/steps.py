"""The telemetry context of a step: the ids in its spans, metrics and log lines."""

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
class StepContext:
    """The common attributes of a step's spans."""

    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    run: int = 0
    """Number of the agent's run; 0 for the invocation's first."""


_NO_STEP = StepContext()
_step: ContextVar[StepContext] = ContextVar("_step", default=_NO_STEP)


def current_step() -> StepContext:
    """Return the step that this code runs for."""
    return _step.get()


@contextmanager
def for_invocation(key: SessionKey, invocation_id: str, trace_of: TraceIdentity) -> Generator[None]:
    """Attach the body's spans to the invocation's trace, and bind its ids to log lines.

    Neither contains the user's id, because it is personal data.
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
    summary: str = "",
) -> Generator[Mapping[str, Any]]:
    """Attach the body's telemetry to the step, count the step, and yield its spans' attributes.

    Args:
        kind: The effect's name.
        key: The session.
        invocation_id: The invocation.
        agent: Name of the agent.
        event_id: Id of the event that the step produces.
        attempt: Number of the attempt, from 1.
        run: Number of the agent's run.
        summary: What the step does, e.g. the name of a tool.
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
        token = _step.set(StepContext(attributes, run))
        if attempt > 1:
            metrics.retries.add(1, {names.STEP: kind})
            logger.info("step.retried", step=kind)
        logger.debug("step.started", step=kind, summary=summary)
        outcome = "error"
        try:
            yield attributes
            outcome = "ok"
        finally:
            _step.reset(token)
            logger.debug("step.ended", step=kind, outcome=outcome)
            metrics.steps.add(1, {names.STEP: kind, names.STATUS: outcome})


@contextmanager
def _under(run: int) -> Generator[None]:
    """Make an agent's run the parent of spans, unless it is the invocation's first run."""
    trace_of = identity()
    if trace_of is None or run == 0:
        yield
        return
    attached = otel_context.attach(parent(trace_of, trace_of.agent_run(run)))
    try:
        yield
    finally:
        otel_context.detach(attached)


def attributes_of(key: SessionKey, invocation_id: str, agent: str) -> Mapping[str, Any]:
    """The attributes of an agent run's span."""
    return {
        names.OPERATION: names.INVOKE_AGENT,
        names.AGENT: agent,
        names.CONVERSATION: key.session_id,
        names.APP: key.app_name,
        names.INVOCATION: invocation_id,
    }
