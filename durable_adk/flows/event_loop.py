"""The event loop of one invocation.

Rule 1. **Commit before resume.** An event that an agent yields is stored, with all its changes,
before the agent runs its next statement and before any client can see it (RUN-3).

Rule 2. **Decide, never act.** This package does no I/O, reads no clock, draws no ids and does not
know which runtime runs it. All its inputs come through `Runtime`, so running it again with the same
inputs takes the same path: that is what makes a crash harmless.

An invocation is opened (lease and user event, in one transaction). Then each event is committed and
its agent resumed, and at the end the invocation is closed (status and lease). Every outcome ends
with that close: success, error and cancellation.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from durable_adk.calling import own_cancellation
from durable_adk.calling.closing import abandoned, closing, uninterrupted
from durable_adk.calling.code_scope import CodeScope
from durable_adk.errors import (
    AgentError,
    DurableAdkError,
    InvocationCancelledError,
    LeaseLostError,
    as_detail,
    wrapped,
)
from durable_adk.flows.agent_run import AgentLoop
from durable_adk.flows.begin import begin, ended, outcome, resume
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.plugin_hooks import error_to_store, hooked_run, run_failed
from durable_adk.flows.runtime import Runtime
from durable_adk.sessions.records import Status
from durable_adk.wire.checkpoint import Cursor
from durable_adk.wire.messages import InvocationRequest, InvocationResult
from durable_adk.wire.steps import (
    CloseStep,
    CompactStep,
    Ending,
)


async def run_invocation(
    runtime: Runtime,
    request: InvocationRequest | Cursor,
    *,
    lease_owner: str,
    opened: Callable[[Invocation], None] | None = None,
) -> InvocationResult | Cursor:
    """Run one invocation to its end, or until its workflow is to continue as new.

    Args:
        runtime: The port to everything outside of the loop.
        request: A checked request (`InvocationRequest.checked`), or the cursor that the previous
            workflow run returned.
        lease_owner: The lease owner; see `InvocationRecord.lease_owner`.
        opened: Called with the invocation once it is open.

    Returns:
        The outcome; a cursor if the history of this workflow run has grown long (D10).

    Raises:
        CallerError: The invocation could not be opened; nothing was stored.
        DurableAdkError: The run failed; an error event is stored and the invocation closed.
    """
    invocation = await (
        resume(runtime, request, lease_owner)
        if isinstance(request, Cursor)
        else begin(runtime, request, lease_owner)
    )
    if isinstance(invocation, InvocationResult):
        return invocation
    if opened is not None:
        opened(invocation)
    return await drive(invocation)


async def drive(invocation: Invocation) -> InvocationResult | Cursor:
    """Run an open invocation; see `run_invocation`."""
    try:
        cursor = await _drive(invocation)
    except LeaseLostError:
        raise  # another invocation has the session: this one may no longer write (I6)
    except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001 - any error ends the run
        return await _failed(invocation, error)
    if cursor is not None:
        return cursor
    await _compact(invocation)  # before the end: the next message may not overtake the summary
    if not invocation.closed:
        await _close(invocation, Status.COMPLETED)
    return _result(invocation)


async def _failed(
    invocation: Invocation, error: asyncio.CancelledError | Exception
) -> InvocationResult:
    """Close a run that was cancelled or failed and raise the reason, unless it had ended before."""
    ending = await _close_early(invocation, error)
    if ending.record.status is Status.CANCELLED:
        raise asyncio.CancelledError from error
    if ending.record.status is Status.FAILED:
        known = as_detail(error) if isinstance(error, DurableAdkError) else ending.record.error
        await run_failed(invocation.state, known or {})
        if isinstance(error, DurableAdkError):
            raise error
    return ended(invocation.state.runtime, invocation.state.key, ending)


async def _close_early(invocation: Invocation, error: asyncio.CancelledError | Exception) -> Ending:
    """Close a run that was cancelled or failed; if it had ended before, that outcome remains."""
    if invocation.cancelled or invocation.state.runtime.cancelled():
        return await _close(invocation, Status.CANCELLED, InvocationCancelledError())
    if isinstance(error, asyncio.CancelledError):
        error = own_cancellation(error)
    failure = wrapped(AgentError, error)
    return await _close(invocation, Status.FAILED, failure)


async def _drive(invocation: Invocation) -> Cursor | None:
    """Run the agents and take answers; return a cursor if the workflow is to continue as new."""
    if invocation.cancelled:
        raise asyncio.CancelledError
    loop = asyncio.get_running_loop()
    cursor = invocation.continuing.cursor
    agents = asyncio.ensure_future(_in_time(invocation))
    answers = asyncio.ensure_future(invocation.pending.serve())
    try:
        await _first(agents, cursor)
    finally:
        if not abandoned(loop) and not cursor.done():
            invocation.pending.close()
            answers.cancel()
            # The result of a running step must be known before the end is recorded.
            await uninterrupted(_end_of(answers))
    if not cursor.done():
        return None
    await invocation.state.runtime.leave(agents)
    return cursor.result()


async def _first(agents: asyncio.Task[None], cursor: asyncio.Future[Cursor]) -> None:
    """Wait for the agents' end or the cursor; pass a cancellation on to the agents."""
    try:
        await asyncio.wait([agents, cursor], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        agents.cancel()
        await agents  # a step that finishes in spite of this counts
    if agents.done():
        agents.result()


async def _in_time(invocation: Invocation) -> None:
    """Run the agents within the budget's time limit.

    Raises:
        BudgetExceededError: The time limit was reached.
    """
    budget, runtime = invocation.state.budget, invocation.state.runtime
    left = budget.seconds_left(runtime.now()) if runtime.ends_in_time else None
    limit = asyncio.timeout(left)
    try:
        async with limit:
            await _run_agents(invocation, limit)
    except TimeoutError:
        if not limit.expired():
            raise  # from inside, for example from a tool
    if limit.expired() and not invocation.closed:
        raise budget.time_is_up()


async def _run_agents(invocation: Invocation, limit: asyncio.Timeout) -> None:
    """Run the loop itself."""
    with CodeScope(AgentError, outermost=True):
        async with closing(hooked_run(invocation.state, AgentLoop(invocation).root)) as events:
            async for event in events:
                await invocation.commit(event)
                ends = invocation.state.runtime.cancelled() or limit.expired()
                if ends and not invocation.closed:  # a body may have caught it
                    raise asyncio.CancelledError


async def _end_of(task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)


async def _close(
    invocation: Invocation, status: Status, error: DurableAdkError | None = None
) -> Ending:
    state = invocation.state
    event = None if error is None or invocation.closed else await error_to_store(state, error)
    step = CloseStep(
        key=state.key,
        invocation_id=state.invocation_id,
        epoch=state.checkpoint.epoch,
        status=status,
        author=state.checkpoint.opened.agent,
        timestamp=state.runtime.now(),
        lease_owner=state.lease_owner,
        seals=state.checkpoint.left_calls,
        revision=state.checkpoint.revision,
        error=as_detail(error) if error else None,
        event=event,
        ended=state.agent_runs.end_all(error.error_type if error else None),
        unfinished=state.checkpoint.unfinished,
    )
    # A cancellation comes too late here; obeying it would leave the lease behind.
    return await uninterrupted(state.runtime.perform(step))


async def _compact(invocation: Invocation) -> None:
    """Have the session's events summarized, if so configured; the outcome is unaffected."""
    state, opened = invocation.state, invocation.state.checkpoint.opened
    if opened.compacts:
        step = CompactStep(
            key=state.key,
            invocation_id=state.invocation_id,
            revision=state.checkpoint.revision,
            timestamp=state.runtime.now(),
            attempt_timeout=opened.limits.model_timeout,
        )
        with suppress(DurableAdkError, asyncio.CancelledError):
            await state.runtime.perform(step)


def _result(invocation: Invocation) -> InvocationResult:
    state, checkpoint = invocation.state, invocation.state.checkpoint
    return outcome(
        state.key,
        state.invocation_id,
        text=checkpoint.final_text,
        last_event_id=checkpoint.last_event_id,
        events=checkpoint.counters.events,
        model_calls=checkpoint.counters.model_calls,
        tool_calls=checkpoint.counters.tool_calls,
        tokens=state.budget.used["tokens"],
        revision=checkpoint.revision,
        epoch=checkpoint.epoch,
        unfinished=checkpoint.unfinished,
    )
