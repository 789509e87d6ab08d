"""Invocations that Temporal starts by itself, at times that somebody has set."""

from collections.abc import AsyncGenerator, Awaitable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleListActionStartWorkflow,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)
from temporalio.common import TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client.invocations import TASK_TIMEOUT, as_argument, priority_of
from durable_adk.client.search_attributes import search_attributes
from durable_adk.errors import AlreadyExistsError, InvalidRequestError, TemporalUnavailableError
from durable_adk.settings import DEFAULT_TASK_QUEUE
from durable_adk.wire.messages import InvocationRequest

WORKFLOW = "Invocation"


@dataclass(frozen=True)
class ScheduleLine:
    """A schedule, as a list shows it."""

    name: str
    paused: bool
    next_at: datetime | None
    note: str | None


async def create_schedule(
    client: Client,
    name: str,
    request: InvocationRequest,
    *,
    cron: str | Sequence[str] = (),
    every: timedelta | None = None,
    time_zone: str | None = None,
    task_queue: str = DEFAULT_TASK_QUEUE,
    overlap: ScheduleOverlapPolicy = ScheduleOverlapPolicy.SKIP,
    paused: bool = False,
    note: str | None = None,
) -> ScheduleHandle:
    """Have an invocation started again and again.

    Each firing is an invocation with an id of its own. If the request names a session, they all run
    in that; else each in a new one. What is created is an ordinary schedule of Temporal.

    Args:
        client: Connected.
        name: The schedule's id.
        request: What is sent at each firing; without `invocation_id`.
        cron: When: lines like ``0 9 * * MON-FRI``.
        every: When: at intervals. Both may be given, but not neither.
        time_zone: Of `cron`, such as ``Europe/Berlin``; None: UTC.
        task_queue: Where the app's workers listen.
        overlap: What a firing does while the invocation before is open, also if that waits for
            somebody: skip by default.
        paused: Create it without letting it fire.
        note: For people.

    Raises:
        InvalidRequestError: There is no time, the server refuses it, or the request is malformed
            or so large that it would be kept outside of Temporal.
        AlreadyExistsError: There is a schedule of that name.
        TemporalUnavailableError: The server does not answer.
    """
    if not cron and every is None:
        raise InvalidRequestError("A schedule needs a time: give cron, or every.")
    schedule = Schedule(
        action=await _action(client, name, request, task_queue),
        spec=ScheduleSpec(
            cron_expressions=[cron] if isinstance(cron, str) else list(cron),
            intervals=[ScheduleIntervalSpec(every=every)] if every else [],
            time_zone_name=time_zone,
        ),
        policy=SchedulePolicy(overlap=overlap),
        state=ScheduleState(paused=paused, note=note),
    )
    return await _created(client, name, schedule)


async def _action(
    client: Client, name: str, request: InvocationRequest, task_queue: str
) -> ScheduleActionStartWorkflow:
    """What each firing does."""
    if request.invocation_id is not None:
        raise InvalidRequestError(
            "A schedule's request has an invocation_id; leave it out, as each firing gets its own."
        )
    request = request.checked()
    _require_in_history(client, request)
    marks = await search_attributes(client, request)
    return ScheduleActionStartWorkflow(
        WORKFLOW,
        as_argument(request),
        id=f"invocation-{request.app}-{name}",  # the server adds the time
        task_queue=task_queue,
        task_timeout=TASK_TIMEOUT,
        priority=priority_of(request),
        static_summary=f"{request.app}: schedule {name}",
        typed_search_attributes=marks or TypedSearchAttributes.empty,
    )


def _require_in_history(client: Client, request: InvocationRequest) -> None:
    """Payloads outside of Temporal are a workflow's own; a schedule is none."""
    storage = client.data_converter.external_storage
    size = len(request.to_json().encode())
    if storage is not None and size >= (storage.payload_size_threshold or 0):
        raise InvalidRequestError(
            f"The request has {size} bytes, and from {storage.payload_size_threshold} on payloads "
            "are kept outside of Temporal, where a schedule's firings could not read them. Send "
            "less, or use a client without such storage."
        )


async def _created(client: Client, name: str, schedule: Schedule) -> ScheduleHandle:
    try:
        return await client.create_schedule(name, schedule)
    except ScheduleAlreadyRunningError:
        raise AlreadyExistsError(
            f"There is a schedule {name!r} already; delete it first, or take another name."
        ) from None
    except RPCError as error:
        raise _schedule_error(name, error) from error


async def list_schedules(client: Client) -> AsyncGenerator[ScheduleLine]:
    """The schedules that start invocations; one that was just created may be missing."""
    async for one in await client.list_schedules():
        schedule, info = one.schedule, one.info
        if schedule is None or not isinstance(schedule.action, ScheduleListActionStartWorkflow):
            continue
        if schedule.action.workflow == WORKFLOW:
            state = schedule.state
            times = iter(info.next_action_times if info and not state.paused else ())
            next_at = next(times, None)
            yield ScheduleLine(one.id, state.paused, next_at, state.note)


async def change_schedule(name: str, change: Awaitable[None]) -> None:
    """Wait for a change to a schedule, such as ``handle.pause()``.

    Raises:
        InvalidRequestError: There is no such schedule.
        TemporalUnavailableError: The server does not answer.
    """
    try:
        await change
    except RPCError as error:
        raise _schedule_error(name, error) from error


def _schedule_error(name: str, error: RPCError) -> Exception:
    if error.status is RPCStatusCode.NOT_FOUND:
        return InvalidRequestError(f"There is no schedule {name!r}; see durable-adk schedule list.")
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return InvalidRequestError(f"Temporal refused schedule {name!r}: {error.message}")
    return TemporalUnavailableError(f"Temporal did not answer: {error.message}")
