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
    from_detail,
    raised,
)
from durable_adk.flows.agent_run import AgentLoop
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.run_hooks import hooked_run, prepared, run_failed
from durable_adk.messages import InvocationRequest, InvocationResult, user_content
from durable_adk.payloads import CloseStep, CompactStep, Ending, Opened, OpenStep
from durable_adk.run_config import RunConfig
from durable_adk.runtime import Runtime
from durable_adk.sessions.base_session_service import Status
from durable_adk.sessions.session import SessionKey


async def run_invocation(
    runtime: Runtime,
    request: InvocationRequest,
    *,
    holder: str,
    opened: Callable[[Invocation], None] | None = None,
) -> InvocationResult:
    """Run one invocation from its request to its end.

    Args:
        runtime: The world.
        request: Checked (`InvocationRequest.checked`).
        holder: Who runs it; see `InvocationRecord.holder`.
        opened: Called once it is open, for whoever wants to look at it.

    Raises:
        CallerError: It could not be opened; nothing was stored.
        DurableAdkError: The run failed; an error event is stored and the invocation closed.
    """
    invocation = await _open(runtime, request, holder)
    if opened is not None:
        opened(invocation)
    if invocation.opened.ending is not None:
        return _ended_before(invocation, invocation.opened.ending)
    try:
        await _drive(invocation)
    except LeaseLostError:
        raise  # the session is another's now: this run may not write any more (I6)
    except (asyncio.CancelledError, Exception) as error:
        ending = await _close_early(invocation, error)
        if ending.record.status is Status.CANCELLED:
            raise asyncio.CancelledError from error
        if ending.record.status is Status.FAILED:
            await run_failed(invocation, ending.record.error or {})
            if isinstance(error, DurableAdkError):
                raise
        return _ended_before(invocation, ending)
    if not invocation.closed:
        await _close(invocation, Status.COMPLETED)
    await _compact(invocation)
    return _result(invocation)


async def _close_early(invocation: Invocation, error: BaseException) -> Ending:
    """End a run that was cancelled or failed; how it ended before that, if it had, stands."""
    if isinstance(error, asyncio.CancelledError) or invocation.runtime.cancelled():
        return await _close(invocation, Status.CANCELLED, InvocationCancelledError())
    if not isinstance(error, DurableAdkError):
        error = raised(AgentError, type(error).__name__, str(error))
    return await _close(invocation, Status.FAILED, error)


async def _drive(invocation: Invocation) -> None:
    """The loop itself."""
    if invocation.cancelled:
        raise asyncio.CancelledError
    loop = asyncio.get_running_loop()
    answers = asyncio.ensure_future(invocation.pauses.serve())
    try:
        async with closing(hooked_run(invocation, AgentLoop(invocation).root)) as events:
            async for event in events:
                await invocation.commit(event)
                if invocation.runtime.cancelled() and not invocation.closed:
                    raise asyncio.CancelledError
    finally:
        if not abandoned(loop):
            invocation.pauses.close()
            answers.cancel()
            # What it was doing must be known before the end is recorded.
            await uninterrupted(_over(answers))


async def _over(task: asyncio.Task[None]) -> None:
    await asyncio.gather(task, return_exceptions=True)


async def _open(runtime: Runtime, request: InvocationRequest, holder: str) -> Invocation:
    invocation_id = request.invocation_id or f"e-{runtime.new_id()}"
    key = SessionKey(request.app, request.user, request.session or invocation_id)
    step = OpenStep(
        key=key,
        invocation_id=invocation_id,
        holder=holder,
        event_id=f"{invocation_id}.0",
        timestamp=runtime.now(),
        message=user_content(request.message),
        state_delta=request.state_delta,
        custom_metadata=request.run_config.custom_metadata,
        tool_run=request.tool_run,
        create_session=request.create_session or request.session is None,
        when_busy=request.when_busy,
        run_config=None if request.run_config == RunConfig() else request.run_config,
    )
    opened, cancelled = await _opened(runtime, step)
    while (record := opened.record) is None:
        if cancelled:
            raise asyncio.CancelledError
        step = await prepared(runtime, request, step, opened)
        opened, cancelled = await _opened(runtime, step)
    invocation = Invocation(
        runtime=runtime,
        request=request,
        key=key,
        opened=opened,
        record=record,
        message=step.message,
        holder=holder,
    )
    invocation.cancelled = cancelled
    invocation.apply_local(step.state_delta)
    return invocation


async def _opened(runtime: Runtime, step: OpenStep) -> tuple[Opened, bool]:
    """The opening, and whether the run was cancelled meanwhile."""
    opening = asyncio.ensure_future(runtime.open_invocation(step))
    try:
        return await asyncio.shield(opening), False
    except asyncio.CancelledError:
        # This ends the wait for a busy session; an invocation that was opened must be sealed.
        opening.cancel()
        return await opening, True


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
        error=as_detail(error) if error else None,
    )
    # Too late for a cancellation, which would leave the lease behind.
    return await uninterrupted(invocation.runtime.close_invocation(step))


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
            await invocation.runtime.compact(step)


def _ended_before(invocation: Invocation, ending: Ending) -> InvocationResult:
    """The outcome of an invocation that had ended without this run of the loop."""
    record = ending.record
    if record.error:
        raise from_detail(record.error)
    invocation.final_text, invocation.last_event_id = ending.text, ending.last_event_id
    invocation.events, invocation.revision = ending.events, record.end_seq or record.start_seq
    invocation.model_calls, invocation.tool_calls = ending.model_calls, ending.tool_calls
    return _result(invocation)


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
        revision=invocation.revision,
    )
