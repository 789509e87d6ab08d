"""A person's schedules in Temporal."""

from dataclasses import dataclass

from temporalio.api.common.v1 import Payload
from temporalio.client import Client, ScheduleActionStartWorkflow
from temporalio.converter import WorkflowSerializationContext
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.errors import TemporalUnavailableError
from durable_adk.ops.erasure.workflows import UnreadableError, owner_in
from durable_adk.workflows.invocation import TYPE_NAME


@dataclass(frozen=True)
class Schedules:
    """Schedules that send a person's messages."""

    names: list[str]
    unread: int = 0
    """Schedules of which nobody here can say whose they are: what they send cannot be decrypted,
    or read at all."""


async def schedules_of(client: Client, *, app: str, user: str) -> Schedules:
    """All schedules whose invocations are a user's; one that was just made may be missing.

    Raises:
        TemporalUnavailableError: Temporal does not answer.
    """
    names: list[str] = []
    unread = 0
    try:
        async for listed in await client.list_schedules():
            action = await _action(client, listed.id)
            if action is None or action.workflow != TYPE_NAME:
                continue
            try:
                if await _whose(client, action) == (app, user):
                    names.append(listed.id)
            except UnreadableError:
                unread += 1
    except RPCError as error:
        raise TemporalUnavailableError(f"Temporal did not answer: {error.message}") from error
    return Schedules(sorted(names), unread)


async def _action(client: Client, name: str) -> ScheduleActionStartWorkflow | None:
    """What a schedule does; None: it has gone, or starts no workflow."""
    try:
        description = await client.get_schedule_handle(name).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise
    action = description.schedule.action
    return action if isinstance(action, ScheduleActionStartWorkflow) else None


async def _whose(client: Client, action: ScheduleActionStartWorkflow) -> tuple[str, str] | None:
    context = WorkflowSerializationContext(client.namespace, action.id)
    payloads = [one for one in action.args if isinstance(one, Payload)]  # as they are described
    return await owner_in(client.data_converter.with_context(context), payloads)


async def remove_schedules(client: Client, schedules: Schedules) -> None:
    """Delete them; a repeat changes nothing. What they have started goes on.

    Raises:
        TemporalUnavailableError: Temporal does not answer.
    """
    for name in schedules.names:
        try:
            await client.get_schedule_handle(name).delete()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise TemporalUnavailableError(
                    f"Temporal did not answer: {error.message}"
                ) from error
