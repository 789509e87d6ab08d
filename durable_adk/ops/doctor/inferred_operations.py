"""Inference of operations that are missing in workflow histories, from later operations."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from durable_adk.apps.app import App
from durable_adk.ops.doctor.operation_log import Operation, OperationLog
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import Limits
from durable_adk.wire.checkpoint import (
    JournalPage,
    LoadedCheckpoint,
    ReadCheckpointStep,
    ReadJournalStep,
)
from durable_adk.wire.graph.batch import ItemsResult, ItemsStep
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.steps import (
    LOOP_RULES,
    UNKNOWN_EPOCH,
    CloseStep,
    Ending,
    Opened,
    OpenStep,
    StepResult,
)

UNKNOWN_AUTHOR = "no history has the name of the agent under which its opening was aborted"


def infer_operations(logs: Sequence[OperationLog], code: Iterable[App]) -> None:
    """Add to operation logs the operations that later ones presuppose.

    Args:
        logs: The logs of all examined workflows.
        code: Apps whose code is available.
    """
    for log in logs:
        author = log.opening[1].agent if log.opening else ""
        whole = chain.from_iterable(map(_with_items, log.operations))
        log.operations = [each for one in whole for each in _with_end(one, author)]
    known = _openings(logs, code)
    for log in logs:
        if log.opening is None:
            _complete_opening(log, known)


def _with_items(operation: Operation) -> list[Operation]:
    """Return an operation, and the steps of the items of a parallel worker that it has run."""
    step, done = operation.step, operation.result
    if not isinstance(step, ItemsStep) or not isinstance(done, ItemsResult):
        return [operation]
    results = {name: StepResult(seq=seq) for name, seq in done.stored.items()} | done.results
    items = ((step.step_of(int(name)), result) for name, result in results.items())
    return [operation, *(replace(operation, step=item, result=result) for item, result in items)]


def _with_end(operation: Operation, author: str) -> list[Operation]:
    """Return an operation, and the invocation's unrecorded end if the operation found it ended.

    The worker that ended the invocation died before it could report that to Temporal. The next
    access to the session was another attempt to open it, or the run that was continued as new.
    """
    match operation.step, operation.result:
        case ReadCheckpointStep(cursor=cursor), LoadedCheckpoint(ending=Ending() as ending):
            step = _end(cursor.key, cursor.invocation_id, ending.record, author)
            return [replace(operation, step=step, result=ending) if step else operation]
        case ReadJournalStep(key=key, invocation_id=name), JournalPage(ending=Ending() as ending):
            step = _end(key, name, ending.record, author)
            return [replace(operation, step=step, result=ending) if step else operation]
        case OpenStep() as opening, Opened(ending=Ending() as ending) as opened:
            if ending.record.lease_owner != opening.lease_owner:
                return [operation]  # another workflow has ended it
            step = _end(opening.key, opening.invocation_id, ending.record, opened.agent)
            end = [replace(operation, step=step, result=ending)] if step else []
            return [operation, *end]
        case _:
            return [operation]


def _end(
    key: SessionKey, invocation_id: str, record: InvocationRecord, author: str
) -> CloseStep | None:
    """Return the step that wrote a record; None if unknown, or if another workflow's log has it."""
    if record.status is not Status.COMPLETED and record.error is None:
        return None  # the reason for the failure would be missing
    if record.status is Status.ABANDONED:
        return None  # the invocation that took over has the step in its own log
    return CloseStep(
        key=key,
        invocation_id=invocation_id,
        epoch=record.epoch,
        status=record.status,
        author=author,
        timestamp=record.update_time,
        lease_owner=record.lease_owner,
        error=record.error,
    )


def _complete_opening(log: OperationLog, known: dict[str, Opened]) -> None:
    """Mark a cancelled opening as done if the invocation's end found it in the store."""
    unfinished = [one for one in log.operations if isinstance(one.step, OpenStep) and not one.done]
    found = next((record for one in log.operations if (record := _closed(one))), None)
    if not unfinished or found is None or found.lease_owner != unfinished[-1].step.lease_owner:
        return
    opening = unfinished[-1]
    opened = known.get(opening.step.key.app_name)
    if opened is None:
        opened = _opened_by(AgentNode(name="unknown", kind="llm"))
        log.failure = log.failure or UNKNOWN_AUTHOR
    changed = {"status": Status.RUNNING, "end_seq": None, "error": None}
    opening.result = opened.model_copy(update={"record": found.model_copy(update=changed)})
    opening.done = True


def _closed(operation: Operation) -> InvocationRecord | None:
    """Return the invocation's record after its end; None if it was never opened."""
    match operation.step, operation.result:
        case CloseStep(), Ending(record=record) if record.epoch != UNKNOWN_EPOCH:
            return record
        case _:
            return None


def _openings(logs: Iterable[OperationLog], code: Iterable[App]) -> dict[str, Opened]:
    """Return an opening with the app's root agent, by app."""
    found: dict[str, Opened] = {}
    for app in code:
        found[app.name] = _opened_by(app.manifest())
    for operation in chain.from_iterable(log.operations for log in logs):
        step, result = operation.step, operation.result
        if isinstance(result, Opened) and step.tool_run is None:
            name = result.manifest.name
            found[step.key.app_name] = result.model_copy(update={"agent": name})
    return found


def _opened_by(tree: AgentNode) -> Opened:
    """Return an opening without its history: only the agent's name matters."""
    return Opened(manifest=tree, agent=tree.name, limits=Limits(), registry="", rules=LOOP_RULES)
