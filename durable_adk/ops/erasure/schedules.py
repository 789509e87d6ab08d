"""A user's schedules in Temporal."""

from dataclasses import dataclass

from temporalio.api.common.v1 import Payload
from temporalio.client import Client, ScheduleActionStartWorkflow
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.client.invocations import UnreadableError
from durable_adk.errors import TemporalUnavailableError
from durable_adk.ops.erasure.workflows import owner_of_arguments
from durable_adk.workflows.invocation import TYPE_NAME


@dataclass(frozen=True)
class UserSchedules:
    """Schedules that send a user's messages."""

    names: list[str]
    unread: int = 0
    """Number of schedules whose user is unknown, because their argument cannot be decrypted or
    parsed."""


async def user_schedules(client: Client, *, app: str, user: str) -> UserSchedules:
    """Return all schedules of a user's invocations; one just created may be missing.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """
    names: list[str] = []
    unread = 0
    try:
        async for listed in await client.list_schedules():
            action = await _action(client, listed.id)
            if action is None or action.workflow != TYPE_NAME:
                continue
            try:
                if await _owner(client, action) == (app, user):
                    names.append(listed.id)
            except UnreadableError:
                unread += 1
    except RPCError as error:
        raise TemporalUnavailableError(f"Temporal did not respond: {error.message}") from error
    return UserSchedules(sorted(names), unread)


async def _action(client: Client, name: str) -> ScheduleActionStartWorkflow | None:
    """Return a schedule's action; None if it was deleted, or starts no workflow."""
    try:
        description = await client.get_schedule_handle(name).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    action = description.schedule.action
    return action if isinstance(action, ScheduleActionStartWorkflow) else None


async def _owner(client: Client, action: ScheduleActionStartWorkflow) -> tuple[str, str] | None:
    context = WorkflowSerializationContext(client.namespace, action.id)
    payloads = [
        one for one in action.args if isinstance(one, Payload)
    ]  # descriptions contain raw payloads
    return await owner_of_arguments(client.data_converter.with_context(context), payloads)


async def delete_schedules(client: Client, schedules: UserSchedules) -> None:
    """Delete schedules; idempotent. Workflows that they have started continue.

    Raises:
        TemporalUnavailableError: Temporal does not respond.
    """
    for name in schedules.names:
        try:
            await client.get_schedule_handle(name).delete()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise TemporalUnavailableError(
                    f"Temporal did not respond: {error.message}"
                ) from error
