"""Lists of tasks, the newest first."""

from contextlib import aclosing

from a2a.types import ListTasksRequest, ListTasksResponse, Task, TaskState
from a2a.utils.task import apply_history_length, validate_page_size

from durable_adk.client.queries import InvocationFilter, invocations_by_time
from durable_adk.server.caller import Caller
from durable_adk.server.protocols.a2a.task import STATES, TaskView
from durable_adk.server.routes.listing import position_of, token_of
from durable_adk.server.services import ServerServices
from durable_adk.sessions.log.storage import InvocationPosition
from durable_adk.sessions.records import InvocationRecord, Status

_PAGE = 50


async def list_tasks(
    services: ServerServices, caller: Caller, app_name: str, params: ListTasksRequest
) -> ListTasksResponse:
    """Return a page of an app's tasks that the sender may access; large tasks end it early.

    Tasks that wait for their session are not listed.

    Raises:
        InvalidParamsError: The page size is out of range.
        InvalidRequestError: The page token is not one of this server's.
    """
    size = params.page_size if params.HasField("page_size") else _PAGE
    validate_page_size(size)
    statuses = _statuses(params.status)
    answer = ListTasksResponse(page_size=size)
    if statuses is None:
        return answer
    since = params.status_timestamp_after.ToMicroseconds() / 1e6
    sessions, before = services.session_service, position_of(params.page_token)
    user, context, held = caller.only(None), params.context_id or None, 0
    answer.total_size = await _total(services, app_name, user, context, statuses)
    newest = invocations_by_time(
        sessions,
        [app_name],
        InvocationFilter(user=user, session=context),
        statuses=statuses,
        beyond=before,
        size=size + 1,
    )
    async with aclosing(newest):
        async for key, record in newest:
            if record.update_time < since:
                break
            full = len(answer.tasks) == size or held >= services.settings.max_list_bytes
            if full and before is not None:
                answer.next_page_token = token_of(before)
                break
            before = InvocationPosition.of(key, record)
            if key.is_child:
                continue
            task = await _listed(TaskView(services, key, record.invocation_id), record, params)
            if params.status in (TaskState.TASK_STATE_UNSPECIFIED, task.status.state):
                answer.tasks.append(task)
                held += task.ByteSize()
    return answer


async def _listed(view: TaskView, record: InvocationRecord, params: ListTasksRequest) -> Task:
    """Return a task for a list; only its status if it is larger than a page."""
    settings = view.services.settings
    task = await view.task(
        record,
        artifacts=params.include_artifacts,
        history=not params.HasField("history_length") or params.history_length > 0,
        max_size=min(settings.max_list_bytes, settings.max_session_bytes),
    )
    return apply_history_length(task, params)


async def _total(
    services: ServerServices,
    app_name: str,
    user: str | None,
    context: str | None,
    statuses: list[Status],
) -> int:
    """Count the tasks in some statuses."""
    sessions, count = services.session_service, 0
    if context is None:
        found = await sessions.count_invocations(app_name=app_name, user_id=user)
        return sum(number for status, number in found.items() if status in (statuses or Status))
    async for _ in sessions.all_invocations(
        app_name=app_name, user_id=user, session_id=context, statuses=statuses
    ):
        count += 1
    return count


def _statuses(state: TaskState) -> list[Status] | None:
    """Return the statuses of tasks in a state; [] for any state, None if no task is in it."""
    if state == TaskState.TASK_STATE_UNSPECIFIED:
        return []
    if state == TaskState.TASK_STATE_AUTH_REQUIRED:
        return [Status.PAUSED]
    return [status for status, other in STATES.items() if other == state] or None
