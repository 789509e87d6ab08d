"""Replaying histories: what was recorded must be what the code does (I13)."""

from collections.abc import AsyncGenerator

from temporalio.client import Client, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from durable_adk.ops.doctor.operation_log import has_workflow_task
from durable_adk.worker import WORKFLOWS
from durable_adk.workflows.runner import workflow_runner
from tests.support.sampling import is_taken

_REPLAYED: set[str] = set()
"""Ids of the closed runs that this process has replayed."""


async def replay_all(client: Client, *, of: int = 1) -> int:
    """Replay every history of our types that the server has; returns how many there are.

    With `of`, one in so many, others in each run (`DURABLE_ADK_TESTS_SAMPLE=all`: every one).

    All by one worker and without the sandbox, in which each kind has run: a run of all tests leaves
    thousands. A closed run is replayed once, also where tests ask for all before that.
    Nor is a workflow that is late taken for blocked, after which the replay may not end: on a busy
    machine the process itself may have been kept from running.

    Raises:
        RuntimeError: One of them does not replay.
    """
    replayer = Replayer(
        workflows=WORKFLOWS,
        data_converter=client.data_converter,
        namespace=client.namespace,
        workflow_runner=workflow_runner(sandboxed=False),
        debug_mode=True,
    )
    names: dict[str, str] = {}
    closed: set[str] = set()
    results = await replayer.replay_workflows(
        _histories(client, names, closed, of), raise_on_replay_failure=False
    )
    for run_id, failure in results.replay_failures.items():
        raise RuntimeError(f"{names[run_id]} does not replay") from failure
    _REPLAYED.update(closed)
    return len(names)


async def _histories(
    client: Client, names: dict[str, str], closed: set[str], of: int
) -> AsyncGenerator[WorkflowHistory]:
    """Those taken and not yet replayed; `names` gets the workflows' ids by those of all runs."""
    kinds = "WorkflowType IN ('Invocation', 'SessionEvents', 'ModelRequests')"
    async for execution in client.list_workflows(kinds):
        if execution.run_id in _REPLAYED:
            names[execution.run_id] = execution.id
            continue
        if not is_taken(execution.run_id, of):
            continue
        handle = client.get_workflow_handle(execution.id, run_id=execution.run_id)
        try:
            history = await handle.fetch_history()
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:  # it is being deleted
                continue
            raise
        if has_workflow_task(history):
            names[execution.run_id] = execution.id
            if execution.close_time is not None:
                closed.add(execution.run_id)
            yield history
