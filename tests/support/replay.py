"""Replaying histories: what was recorded must be what the code does (I13)."""

import time
from bisect import bisect
from collections.abc import AsyncGenerator
from typing import NamedTuple

from temporalio.client import Client, WorkflowExecution, WorkflowHistory
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import Replayer

from durable_adk.ops.doctor.operation_log import has_workflow_task
from durable_adk.worker import WORKFLOWS
from durable_adk.workflows.runner import workflow_runner
from tests.support.sampling import is_taken


class Began(NamedTuple):
    """A test, and when it began."""

    at: float
    test: str
    all_replayed: bool

    def is_chosen(self, of: int) -> bool:
        """Whether what it began is replayed at the end of a run that replays one in `of`."""
        return self.all_replayed or is_taken(self.test, of)


_TESTS: list[Began] = []
"""Those of this process, in order."""
_REPLAYED: set[str] = set()
"""Ids of the closed runs that this process has replayed."""


def began(test: str, *, all_replayed: bool) -> None:
    """Note that a test begins: from now on, histories are its own.

    Args:
        test: Its node id.
        all_replayed: Whether they are replayed whatever the test's name, as where tests share
            what they begin (mark `replayed`).
    """
    _TESTS.append(Began(time.time(), test, all_replayed))


async def replay_all(client: Client, *, of: int | None = None) -> int:
    """Replay the histories of our types that the tests of the running file began; returns how many.

    With `of`, those that one in so many tests of any file began. Tests are chosen by their names
    (`DURABLE_ADK_TESTS_SAMPLE=all`: every one), so that each run replays what the same tests have
    left, whatever the ids of their workflows, and whichever process they ran in. All runs of a
    workflow belong to the test that was running when the first one began.

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
    client: Client, names: dict[str, str], closed: set[str], of: int | None
) -> AsyncGenerator[WorkflowHistory]:
    """Those taken and not yet replayed; `names` gets the workflows' ids by those of all runs."""
    for execution in await _executions(client, of):
        if execution.run_id in _REPLAYED:
            names[execution.run_id] = execution.id
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


async def _executions(client: Client, of: int | None) -> list[WorkflowExecution]:
    """Those that the chosen tests began."""
    kinds = "WorkflowType IN ('Invocation', 'SessionEvents', 'ModelRequests')"
    found = [execution async for execution in client.list_workflows(kinds)]
    first: dict[tuple[str, str], float] = {}
    for one in found:
        key = (one.id, one.task_queue)
        first[key] = min(one.start_time.timestamp(), first.get(key, float("inf")))
    tests = [_test_at(first[one.id, one.task_queue]) for one in found]
    return [one for one, test in zip(found, tests, strict=True) if _is_chosen(test, of)]


def _test_at(moment: float) -> Began:
    """The test that was running."""
    return _TESTS[max(0, bisect(_TESTS, moment, key=lambda one: one.at) - 1)]


def _is_chosen(test: Began, of: int | None) -> bool:
    """Whether the test is one in `of`; or, without a number, of the running file."""
    if of is None:
        return test.test.partition("::")[0] == _TESTS[-1].test.partition("::")[0]
    return test.is_chosen(of)
