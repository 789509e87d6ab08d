"""Temporal schedules that start invocations."""

from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from temporalio.api.common.v1 import Payload
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

from durable_adk.client.connect import if_exists
from durable_adk.client.invocations import TASK_TIMEOUT, as_argument, priority_of
from durable_adk.client.search_attributes import search_attributes
from durable_adk.errors import (
    AlreadyExistsError,
    DurableAdkError,
    InvalidRequestError,
    TemporalUnavailableError,
)
from durable_adk.settings import DEFAULT_TASK_QUEUE
from durable_adk.wire.messages import InvocationRequest

WORKFLOW = "Invocation"
_WHEN = "durable_adk.when"
"""Key of a schedule's memo: its times as the caller specified them. The server converts them."""


@dataclass(frozen=True)
class ScheduleLine:
    """A schedule in a list, and the request that it sends."""

    name: str
    paused: bool
    next_at: datetime | None
    note: str | None
    when: str
    """Its cron lines and its interval; empty if it was not created by `create_schedule`."""
    request: InvocationRequest | None
    """The request of each firing; None if this client cannot read it."""


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
    """Create a Temporal schedule that starts invocations.

    Each firing starts an invocation with its own id: in the request's session if it names one, else
    in a new session.

    Args:
        client: Connected.
        name: The schedule's id.
        request: The request of each firing; without `invocation_id`.
        cron: Cron lines such as ``0 9 * * MON-FRI``.
        every: An interval. At least one of `cron` and `every` is needed.
        time_zone: Time zone of `cron`, such as ``Europe/Berlin``; None: UTC.
        task_queue: Task queue of the app's workers.
        overlap: What a firing does while the previous invocation is open, even if paused: skip by
            default.
        paused: Create the schedule paused.
        note: A comment.

    Raises:
        InvalidRequestError: No time is specified, the server rejects it, or the request is
            malformed or so large that it would go to external storage.
        AlreadyExistsError: A schedule has that name.
        TemporalUnavailableError: The server does not respond.
    """
    if not cron and every is None:
        raise InvalidRequestError("A schedule needs a time: give cron or every.")
    lines = [cron] if isinstance(cron, str) else list(cron)
    schedule = Schedule(
        action=await _action(client, name, request, task_queue),
        spec=_spec(lines, every, time_zone),
        policy=SchedulePolicy(overlap=overlap),
        state=ScheduleState(paused=paused, note=note),
    )
    return await _created(client, name, schedule, when=_when(lines, every, time_zone))


def _spec(cron: Sequence[str], every: timedelta | None, time_zone: str | None) -> ScheduleSpec:
    intervals = [ScheduleIntervalSpec(every=every)] if every else []
    return ScheduleSpec(cron_expressions=cron, intervals=intervals, time_zone_name=time_zone)


async def _action(
    client: Client, name: str, request: InvocationRequest, task_queue: str
) -> ScheduleActionStartWorkflow:
    """Return the action of each firing."""
    if request.invocation_id is not None:
        raise InvalidRequestError(
            "A schedule's request must not have an invocation_id: each firing gets its own."
        )
    request = request.checked()
    _require_in_history(client, request)
    marks = await search_attributes(client, request)
    return ScheduleActionStartWorkflow(
        WORKFLOW,
        as_argument(request),
        # The server appends the time. A name is unique in the namespace; with an app's name before
        # it, two schedules could have the same id.
        id=f"schedule-{name}",
        task_queue=task_queue,
        task_timeout=TASK_TIMEOUT,
        priority=priority_of(request),
        static_summary=f"{request.app}: schedule {name}",
        typed_search_attributes=marks or TypedSearchAttributes.empty,
    )


def _require_in_history(client: Client, request: InvocationRequest) -> None:
    """Reject requests for external storage: its payloads belong to workflows, not to schedules."""
    storage = client.data_converter.external_storage
    size = len(request.to_json().encode())
    if storage is not None and size >= (storage.payload_size_threshold or 0):
        raise InvalidRequestError(
            f"The request has {size} bytes. Payloads of {storage.payload_size_threshold} bytes or "
            "more go to external storage, which a schedule's firings cannot read. Send less, or "
            "use a client without external storage."
        )


async def _created(client: Client, name: str, schedule: Schedule, *, when: str) -> ScheduleHandle:
    try:
        return await client.create_schedule(name, schedule, memo={_WHEN: when})
    except ScheduleAlreadyRunningError:
        raise AlreadyExistsError(
            f"Schedule {name!r} already exists; delete it first, or use another name."
        ) from None
    except RPCError as error:
        raise _schedule_error(name, error) from error


async def list_schedules(client: Client) -> AsyncGenerator[ScheduleLine]:
    """Yield the schedules that start invocations; a new one may be missing for a moment."""
    async for one in await client.list_schedules():
        schedule, info = one.schedule, one.info
        if schedule is None or not isinstance(schedule.action, ScheduleListActionStartWorkflow):
            continue
        if schedule.action.workflow == WORKFLOW:
            state = schedule.state
            times = iter(info.next_action_times if info and not state.paused else ())
            next_at = next(times, None)
            request = await _request(client, one.id)
            when = str(await one.memo_value(_WHEN, ""))
            yield ScheduleLine(one.id, state.paused, next_at, state.note, when, request)


async def _request(client: Client, name: str) -> InvocationRequest | None:
    """Return a schedule's request; None if the schedule, a key or a payload is missing."""
    found = await if_exists(client.get_schedule_handle(name).describe())
    action = found.schedule.action if found else None
    if not isinstance(action, ScheduleActionStartWorkflow) or not action.args:
        return None
    payload: Any = action.args[0]
    with suppress(DurableAdkError, ValueError):
        values = [payload]
        if isinstance(payload, Payload):
            values = await client.data_converter.decode([payload])
        return InvocationRequest.parse(values[0])
    return None


def _when(cron: Sequence[str], every: timedelta | None, time_zone: str | None) -> str:
    lines = [f"{line} {time_zone}" if time_zone else line for line in cron]
    return "; ".join([*lines, *([f"every {every}"] if every else [])])


async def change_schedule(name: str, change: Awaitable[None]) -> None:
    """Await a change of a schedule, such as ``handle.pause()``.

    Raises:
        InvalidRequestError: The schedule does not exist.
        TemporalUnavailableError: The server does not respond.
    """
    try:
        await change
    except RPCError as error:
        raise _schedule_error(name, error) from error


def _schedule_error(name: str, error: RPCError) -> Exception:
    if error.status is RPCStatusCode.NOT_FOUND:
        return InvalidRequestError(f"No schedule {name!r}; run `durable-adk schedule list`.")
    if error.status is RPCStatusCode.INVALID_ARGUMENT:
        return InvalidRequestError(f"Temporal refused schedule {name!r}: {error.message}")
    return TemporalUnavailableError(f"Temporal did not answer: {error.message}")
