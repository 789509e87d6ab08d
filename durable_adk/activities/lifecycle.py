"""Lifecycle events of an invocation: spans, metrics and log lines for its start, pauses and end.

They are emitted only after the data is committed, and never fail a step. Events that a killed
worker had not exported are lost. An attempt that finds its invocation closed emits the end again,
as the same span: its ids are derived and its times are the store's.
"""

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from logging import INFO
from typing import Any

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.close import read_ending
from durable_adk.errors import DurableAdkError, frames_in
from durable_adk.log import get_logger
from durable_adk.sessions.branch_end import UnfinishedBranch
from durable_adk.sessions.records import InvocationRecord, Status, StoredEvent
from durable_adk.sessions.session import SessionKey
from durable_adk.telemetry import metrics, names
from durable_adk.telemetry.genai import agent_tool_ended
from durable_adk.telemetry.identity import tool_span
from durable_adk.telemetry.steps import attributes_of, for_step
from durable_adk.telemetry.tracing import emit, identity, span, tracer
from durable_adk.tools.base_tool import BaseTool
from durable_adk.wire.messages import workflow_id
from durable_adk.wire.steps import (
    UNKNOWN_EPOCH,
    AgentRun,
    CloseStep,
    EarlyCommit,
    Ending,
    Opened,
    OpenStep,
    Step,
    ToolStep,
)

MAX_EVENTS = 2_000
"""Maximum number of events of an invocation whose end is reported with counts, which requires
reading them."""

logger = get_logger(__name__)


@contextmanager
def step_telemetry(
    kind: str, step: Step, *, attempt: int, shown: str | None = None, summary: str = ""
) -> Generator[None]:
    """Emit telemetry inside the body on behalf of a step.

    Args:
        kind: Name of the effect.
        step: The step.
        attempt: 1, 2, ...
        shown: Name of a span over the body; None: the body creates its own spans.
        summary: The step's description in log lines.
    """
    place = for_step(
        kind,
        key=step.key,
        invocation_id=step.invocation_id,
        agent=step.agent,
        event_id=step.event_id,
        attempt=attempt,
        run=step.run or 0,
        summary=summary,
    )
    with place as common:
        runs_ended(step.key, step.invocation_id, step.ended)
        if shown is None:
            yield
            return
        with span(shown, common) as running, running.current():
            yield


def runs_ended(
    key: SessionKey,
    invocation_id: str,
    runs: Sequence[AgentRun] | None,
    *,
    at: float | None = None,
) -> None:
    """Export the agent runs whose end the loop has reported with a step.

    Every attempt of the step exports them, with the same ids and times.

    Args:
        key: The session.
        invocation_id: The invocation.
        runs: The runs.
        at: End time of runs that were still open, in seconds since the epoch.
    """
    whose = identity()
    if not runs or whose is None:
        return
    for run in runs:
        emit(
            f"{names.INVOKE_AGENT} {run.agent}",
            whose,
            whose.agent_run(run.number),
            above=whose.agent_run(run.above),
            started=run.started,
            ended=run.ended or at or run.started,
            attributes=attributes_of(key, invocation_id, run.agent),
            error_type=run.error,
        )


def others_have_answered(step: ToolStep, tool: BaseTool) -> None:
    """Export the run of a tool whose result came from another agent or an external activity."""
    end = step.child or step.activity
    if end is None:
        return
    if step.child is not None:
        name = workflow_id(step.child.key, step.invocation_id)
    else:
        name = f"{workflow_id(step.key, step.invocation_id)}/{step.call_id}"
    agent_tool_ended(
        tool.name,
        step.call_id,
        tool_span(name),
        started=end.started,
        ended=end.ended or end.started,
        error=str((end.error or {}).get("type", "")) or None,
    )


def opening_waits(step: OpenStep) -> None:
    """Count an opening that waits for its session; not logged, because it retries often."""
    metrics.waiting.saw(_waiting_name(step))


def opened(step: OpenStep, outcome: Opened) -> None:
    """Report that an invocation is open; a repeat after a crash reports it again."""
    metrics.waiting.forget(_waiting_name(step))
    record = outcome.record
    if record is None or record.status.closed:
        return
    waited = max(time.time() - step.timestamp, 0.0)
    app = step.key.app_name
    metrics.invocations_started.add(1, {names.APP: app})
    metrics.queue_wait.record(waited, {names.APP: app})
    logger.info("invocation.started", agent=outcome.agent, waited=round(waited, 3))


def _waiting_name(step: OpenStep) -> str:
    return f"{hash(step.key)}/{step.invocation_id}"


def paused(key: SessionKey) -> None:
    """Report that an invocation waits for an answer."""
    metrics.invocations_paused.add(1, {names.APP: key.app_name})
    logger.info("invocation.paused")


def resumed(key: SessionKey, record: InvocationRecord) -> None:
    """Report that a paused invocation continues.

    Args:
        key: The session.
        record: The invocation's record before it was resumed.
    """
    now = time.time()
    began = record.update_time or now
    logger.info("invocation.resumed", waited=round(now - began, 3))
    whose = identity()
    if whose is not None:
        emit(
            "wait_for_answer",
            whose,
            whose.pause(record.pauses),
            above=whose.root,
            started=began,
            ended=now,
            attributes={
                names.CONVERSATION: key.session_id,
                names.APP: key.app_name,
                names.INVOCATION: record.invocation_id,
                names.PAUSES: record.pauses,
            },
        )


def taken_over(key: SessionKey, record: InvocationRecord) -> None:
    """Report that an invocation was closed because its lease owner is gone."""
    metrics.takeovers.add(1, {names.APP: key.app_name})
    metrics.invocations_ended.add(1, _labels(key, Status.ABANDONED))
    logger.warning("invocation.taken_over", abandoned=record.invocation_id)


async def closed(deps: Dependencies, step: CloseStep, ending: Ending) -> None:
    """Report that the loop has closed an invocation, or found it closed by an earlier attempt."""
    if ending.record.epoch == UNKNOWN_EPOCH:
        return  # it was never opened
    # Only an invocation that was found closed has its last event in the ending.
    again = ending.last_event_id is not None
    for one in step.unfinished if not again else ():
        logger.warning("branch.unfinished", node=one.node, missing=one.missing)
    await _ended(
        deps,
        step.key,
        ending.record,
        agent=step.author,
        runs=step.ended,
        unfinished=step.unfinished,
        again=again,
    )


async def closed_by_step(
    deps: Dependencies, step: Step, early_commit: EarlyCommit, *, again: bool
) -> None:
    """Report that a step, or an earlier attempt of it, closed its invocation with its event."""
    if not _is_heard():
        metrics.invocations_ended.add(0 if again else 1, _labels(step.key, Status.COMPLETED))
        return
    try:
        record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    except DurableAdkError:
        return  # the store has just become unavailable
    if record is not None and record.status.closed:
        agent = early_commit.agent or step.agent
        await _ended(deps, step.key, record, agent=agent, runs=early_commit.runs, again=again)


def _is_heard() -> bool:
    return tracer() is not None or logger.isEnabledFor(INFO)


async def _ended(
    deps: Dependencies,
    key: SessionKey,
    record: InvocationRecord,
    *,
    agent: str,
    runs: Sequence[AgentRun] | None,
    again: bool,
    unfinished: Sequence[UnfinishedBranch] = (),
) -> None:
    labels = _labels(key, record.status)
    if not again:
        metrics.invocations_ended.add(1, labels)
    if not _is_heard():
        return
    try:
        began, counts = await _counts(deps, key, record)
    except DurableAdkError:
        return  # the store has just become unavailable
    ended = max(record.update_time, began)
    error = str((record.error or {}).get("type", "")) or None
    places = frames_in(record.error or {})
    runs_ended(key, record.invocation_id, runs, at=ended)
    if not again:
        metrics.invocation_duration.record(ended - began, labels)
        failure = {"error_type": error, "error_at": places} if error else {}
        _log_end(record.status, ended - began, counts, **failure)
    whose = identity()
    if whose is not None:
        emit(
            f"{names.INVOKE_AGENT} {agent}",
            whose,
            whose.root,
            above=whose.parent,
            started=began,
            ended=ended,
            attributes={
                **attributes_of(key, record.invocation_id, agent),
                names.STATUS: str(record.status),
                names.PAUSES: record.pauses,
                **({names.STACKTRACE: "\n".join(places)} if places else {}),
                **counts,
            },
            error_type=error,
            events=list(map(_event_of, unfinished)),
        )


def _log_end(status: Status, seconds: float, counts: dict[str, int], **more: Any) -> None:
    counted = {name.rpartition(".")[2]: number for name, number in counts.items()}
    fields = {"status": str(status), "duration": round(seconds, 3), **counted, **more}
    logger.info("invocation.ended", **fields)


def _event_of(branch: UnfinishedBranch) -> tuple[str, dict[str, Any]]:
    """Return the span event, without the route, which may be a user's text."""
    return names.BRANCH_UNFINISHED, {names.NODE: branch.node, names.MISSING: branch.missing}


def _labels(key: SessionKey, status: Status) -> dict[str, str]:
    return {names.APP: key.app_name, names.STATUS: str(status)}


async def _counts(
    deps: Dependencies, key: SessionKey, record: InvocationRecord
) -> tuple[float, dict[str, int]]:
    """Return when an invocation began, in seconds since the epoch, and its counts."""
    start = record.start_seq
    first: list[StoredEvent] = await deps.sessions.read_events(key, after=start - 1, upto=start)
    began = first[0].event.timestamp if first else record.update_time
    if (record.end_seq or start) - start > MAX_EVENTS:
        return began, {}
    ending = await read_ending(deps, key, record)
    return began, {
        names.EVENTS: ending.events,
        names.MODEL_CALLS: ending.model_calls,
        names.TOOL_CALLS: ending.tool_calls,
        names.TOKENS: ending.tokens,
    }
