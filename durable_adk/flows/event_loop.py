"""The event loop of one invocation.

Rule 1. **Commit before resume.** An event that an agent yields is stored, with all its changes,
before the agent runs its next statement and before anybody else can see it (RUN-3).

Rule 2. **Decide, never act.** This package does no I/O, reads no clock, draws no ids and does not
know what drives it. Everything it learns of the world comes through `Runtime`, so running it again
over the same answers takes the same way: that is what makes a crash harmless.

An invocation is: open (lease and user event, one transaction), then for each event commit and
resume, then close (status, lease). Every ending passes through close: success, error, cancellation.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from durable_adk.closing import abandoned, closing, uninterrupted
from durable_adk.errors import (
    AgentError,
    DurableAdkError,
    InvocationCancelledError,
    LeaseLostError,
    as_detail,
    raised,
)
from durable_adk.flows.agent_run import AgentLoop
from durable_adk.flows.begin import Ended, Steered, begin, go_on
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.plugin_hooks import hooked_run, run_failed
from durable_adk.runtime import Runtime
from durable_adk.sessions.base_session_service import Status
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
    holder: str,
    opened: Callable[[Invocation], None] | None = None,
) -> InvocationResult | Cursor:
    """Run one invocation from its request to its end, or to where a new run has to go on.

    Args:
        runtime: The world.
        request: Checked (`InvocationRequest.checked`); or where the run before has ended.
        holder: Who runs it; see `InvocationRecord.holder`.
        opened: Called once it is open, for whoever wants to look at it.

    Returns:
        How it ended; or a cursor, if the history of this run has grown long (design D10).

    Raises:
        CallerError: It could not be opened; nothing was stored.
        DurableAdkError: The run failed; an error event is stored and the invocation closed.
    """
    invocation = await (
        go_on(runtime, request, holder)
        if isinstance(request, Cursor)
        else begin(runtime, request, holder)
    )
    if isinstance(invocation, Ended | Steered):
        return invocation.result(runtime)
    if opened is not None:
        opened(invocation)
    try:
        cursor = await _drive(invocation)
    except LeaseLostError:
        raise  # the session is another's now: this run may not write any more (I6)
    except (asyncio.CancelledError, Exception) as error:  # noqa: BLE001 - the run ends with it
        return await _failed(invocation, error)
    if cursor is not None:
        return cursor
    if not invocation.closed:
        await _close(invocation, Status.COMPLETED)
    await _compact(invocation)
    return _result(invocation)


async def _failed(invocation: Invocation, error: BaseException) -> InvocationResult:
    """End a run that was cancelled or failed, and raise why, unless it had ended before that."""
    ending = await _close_early(invocation, error)
    if ending.record.status is Status.CANCELLED:
        raise asyncio.CancelledError from error
    if ending.record.status is Status.FAILED:
        await run_failed(invocation, ending.record.error or {})
        if isinstance(error, DurableAdkError):
            raise error
    return Ended(invocation.key, ending).result(invocation.runtime)


async def _close_early(invocation: Invocation, error: BaseException) -> Ending:
    """End a run that was cancelled or failed; how it ended before that, if it had, stands."""
    if isinstance(error, asyncio.CancelledError) or invocation.runtime.cancelled():
        return await _close(invocation, Status.CANCELLED, InvocationCancelledError())
    if not isinstance(error, DurableAdkError):
        error = raised(AgentError, type(error).__name__, str(error))
    return await _close(invocation, Status.FAILED, error)


async def _drive(invocation: Invocation) -> Cursor | None:
    """Run the agents, and take their answers; where to go on, if it is time for a new run."""
    if invocation.cancelled:
        raise asyncio.CancelledError
    loop = asyncio.get_running_loop()
    over = invocation.rolling.over
    agents = asyncio.ensure_future(_in_time(invocation))
    answers = asyncio.ensure_future(invocation.pauses.serve())
    try:
        await _first(agents, over)
    finally:
        if not abandoned(loop) and not over.done():
            invocation.pauses.close()
            answers.cancel()
            # What it was doing must be known before the end is recorded.
            await uninterrupted(_over(answers))
    if not over.done():
        return None
    await invocation.runtime.leave(agents)
    return over.result()


async def _first(agents: asyncio.Task[None], over: asyncio.Future[Cursor]) -> None:
    """Wait for the agents' end, or for the end of the run; a cancellation is the agents'."""
    try:
        await asyncio.wait([agents, over], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        agents.cancel()
        await agents  # what it finishes in spite of this counts
    if agents.done():
        agents.result()


async def _in_time(invocation: Invocation) -> None:
    """Run the agents for as long as the budget allows.

    Raises:
        BudgetExceededError: Their time was up.
    """
    seconds = invocation.spending.seconds_left(invocation.runtime.now())
    if seconds is None:
        await _run_agents(invocation)
        return
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            await _run_agents(invocation)
    except TimeoutError:
        if limit.expired():
            raise invocation.spending.time_is_up() from None
        raise  # a tool's, say


async def _run_agents(invocation: Invocation) -> None:
    """The loop itself."""
    async with closing(hooked_run(invocation, AgentLoop(invocation).root)) as events:
        async for event in events:
            await invocation.commit(event)
            if invocation.runtime.cancelled() and not invocation.closed:
                raise asyncio.CancelledError


async def _over(task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)


async def _close(
    invocation: Invocation, status: Status, error: DurableAdkError | None = None
) -> Ending:
    step = CloseStep(
        key=invocation.key,
        invocation_id=invocation.invocation_id,
        epoch=invocation.epoch,
        status=status,
        author=invocation.opened.agent,
        timestamp=invocation.runtime.now(),
        holder=invocation.holder,
        seals=invocation.left_calls,
        revision=invocation.revision,
        error=as_detail(error) if error else None,
        ended=invocation.runs.end_all(error.error_type if error else None),
    )
    # Too late for a cancellation, which would leave the lease behind.
    return await uninterrupted(invocation.runtime.perform(step))


async def _compact(invocation: Invocation) -> None:
    """Have the session's events summarised, if its app wants that; how the run ended stands."""
    if invocation.opened.compacts:
        step = CompactStep(
            key=invocation.key,
            invocation_id=invocation.invocation_id,
            timestamp=invocation.runtime.now(),
            attempt_timeout=invocation.opened.limits.model_timeout,
        )
        with suppress(DurableAdkError, asyncio.CancelledError):
            await invocation.runtime.perform(step)


def _result(invocation: Invocation) -> InvocationResult:
    return InvocationResult(
        app=invocation.key.app_name,
        user=invocation.key.user_id,
        session=invocation.key.session_id,
        invocation_id=invocation.invocation_id,
        status=Status.COMPLETED,
        text=invocation.final_text,
        last_event_id=invocation.last_event_id,
        events=invocation.events,
        model_calls=invocation.model_calls,
        tool_calls=invocation.tool_calls,
        tokens=invocation.spending.used["tokens"],
        revision=invocation.revision,
    )
