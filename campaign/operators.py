"""What operators, and others with access to Temporal, do to workflows by hand."""

import asyncio
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DeleteWorkflowExecutionRequest,
    ResetWorkflowExecutionRequest,
)
from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.service import RPCError

from campaign.run_folder import RunFolder
from campaign.stores import converter
from campaign.workload import SLOW, STEADY, Turn
from durable_adk.client import connect
from durable_adk.errors import TemporalUnavailableError
from durable_adk.sessions import SessionKey
from durable_adk.wire.messages import workflow_id
from harness.journal import Line, latest, note

if TYPE_CHECKING:
    from campaign.cluster import Cluster

TERMINATING = "terminating"
"""The note before a workflow is terminated or deleted."""
JOURNAL = 256 * 1024
"""Bytes at the end of a client's journal in which what it waits for is looked for."""
QUERY = 2.0
"""Seconds that a workflow may take to say which calls it waits for."""
TO_FIRST = 0.6
"""How many of the resets go to the first task."""

Done = dict[str, Any] | None
"""What was done; None: there was nothing to do it to."""


class _Target(NamedTuple):
    """A workflow that runs."""

    turn: Turn
    client: Client
    handle: WorkflowHandle[Any, Any]

    @property
    def execution(self) -> WorkflowExecution:
        """As requests name it."""
        return WorkflowExecution(workflow_id=self.handle.id)


async def terminate(cluster: "Cluster", pick: float) -> Done:
    """Terminate a workflow of the app whose invocations may end so."""
    found = await _one_of(cluster, (SLOW,), pick)
    if found is None:
        return None
    _announce(cluster, found.turn)
    with suppress(RPCError):  # that may have been done all the same
        await found.handle.terminate(reason="by hand")
    return {"invocation": found.turn.invocation}


async def delete(cluster: "Cluster", pick: float) -> Done:
    """Delete one, with its history."""
    found = await _one_of(cluster, (SLOW,), pick)
    if found is None:
        return None
    _announce(cluster, found.turn)
    what = DeleteWorkflowExecutionRequest(
        namespace=found.client.namespace, workflow_execution=found.execution
    )
    with suppress(RPCError):
        await found.client.workflow_service.delete_workflow_execution(what)
    return {"invocation": found.turn.invocation}


async def reset(cluster: "Cluster", pick: float) -> Done:
    """Reset a workflow to its first task, or to its last one."""
    found = await _one_of(cluster, STEADY, pick)
    if found is None:
        return None
    try:
        tasks = [
            event.event_id
            async for event in found.handle.fetch_history_events()
            if event.HasField("workflow_task_completed_event_attributes")
        ]
        if not tasks:
            return None
        first = pick * 100 % 1 < TO_FIRST
        request = ResetWorkflowExecutionRequest(
            namespace=found.client.namespace,
            workflow_execution=found.execution,
            reason="by hand",
            workflow_task_finish_event_id=tasks[0 if first else -1],
            request_id=str(uuid.uuid4()),
        )
        await found.client.workflow_service.reset_workflow_execution(request)
    except RPCError:
        return None  # it has ended, or the server is away
    return {"reset": found.turn.invocation, "to": "first" if first else "last"}


async def forge(cluster: "Cluster", pick: float) -> Done:
    """Send a workflow forged signals; it must accept none of them."""
    found = await _one_of(cluster, (*STEADY, SLOW), pick)
    if found is None:
        return None
    calls = await _waiting(found.handle) or ["no-such-call"]
    sent = 0
    for name, argument in [one for call in calls for one in _forged(call, found.turn)]:
        with suppress(RPCError):
            await found.handle.signal(name, argument)
            sent += 1
    return {"forged": found.turn.invocation, "sent": sent, "calls": calls} if sent else None


def _forged(call: str, turn: Turn) -> list[tuple[str, Any]]:
    """Signals, some of which would be answers if their names were not the loop's own."""
    says: dict[str, Any] = {"callId": call, "confirmed": not turn.approves}
    names = (f"{call}.expired", "unnamed-1", "malformed-1")
    return [
        ("answer", "no object"),
        ("answer", {"callId": call}),
        ("answer", {**says, "answerId": "x" * 10_000}),
        ("answer", {**says, "callId": "no-such-call", "answerId": f"{call}.expired"}),
        *(("answer", {**says, "answerId": name}) for name in names),
        ("answer", {"steers": "no-such-message"}),
        ("no-such-signal", says),
    ]


async def _waiting(handle: WorkflowHandle[Any, Any]) -> list[str]:
    """Query the pending calls of a workflow; none if no worker answers the query."""
    failures = (RPCError, TimeoutError, WorkflowQueryFailedError, WorkflowQueryRejectedError)
    with suppress(*failures):
        async with asyncio.timeout(QUERY):
            told: list[dict[str, Any]] = await handle.query("pending")
            return [call["callId"] for call in told]
    return []


async def _one_of(cluster: "Cluster", apps: Collection[str], pick: float) -> _Target | None:
    """A workflow that runs for a turn of one of some apps; as all write who have the run's keys."""
    turns = sorted(turn for turn in under_way(cluster.folder) if turn.app in apps)
    if not turns:
        return None
    turn = turns[int(pick * len(turns))]
    with suppress(RPCError, TemporalUnavailableError):
        client = await connect(cluster.temporal.address, data_converter=converter(cluster.folder))
        handle = client.get_workflow_handle(workflow_id(SessionKey(*turn[:3]), turn.invocation))
        if (await handle.describe()).status is WorkflowExecutionStatus.RUNNING:
            return _Target(turn, client, handle)
    return None


def under_way(folder: RunFolder) -> set[Turn]:
    """What clients wait for, as the ends of their journals say."""
    last: dict[Turn, Line] = {}
    for path in folder.journals:
        for line in latest(path, JOURNAL):
            if line["operation"] == "run":
                last[Turn(*(line[name] for name in Turn._fields))] = line
    return {turn for turn, line in last.items() if line["type"] not in ("ok", "fail")}


def _announce(cluster: "Cluster", turn: Turn) -> None:
    """Note what is done before it is: whether it was may not be known afterwards."""
    lasting = {"kind": TERMINATING, "began": time.time(), "done": False}
    note(cluster.folder.faults, **lasting, invocation=turn.invocation)
