"""Deletes the external payloads of closed workflows."""

from contextlib import aclosing, suppress

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.storage.blobs import Blobs
from durable_adk.storage.payload_driver import OWNER


async def sweep(client: Client, blobs: Blobs, *, older_than: float) -> int:
    """Delete the payloads of closed workflows, and return the number of these workflows (I24).

    Afterwards the history of such a workflow can neither be read completely nor replayed, so choose
    at least the namespace's retention. The session store has all events: nothing of a conversation
    is lost.

    Args:
        client: A client of the namespace; payloads of other namespaces are kept.
        blobs: The blob store of the namespace's clients and workers.
        older_than: Seconds since the last payload of a workflow was stored.

    Raises:
        RPCError: Temporal does not respond.
        StoreUnavailableError: The store is unavailable.
    """
    swept = 0
    for owner in await blobs.expired(older_than):
        namespace, _, workflow_id = (await _name_of(owner, blobs)).partition("/")
        if namespace == client.namespace and not await _is_open(client, workflow_id):
            await blobs.remove(owner)
            swept += 1
    return swept


async def _name_of(owner: str, blobs: Blobs) -> str:
    """Return the owner's name, which each of its payloads has; empty if there is no payload."""
    async with aclosing(blobs.of(owner)) as kept:
        async for data in kept:
            with suppress(DecodeError):  # a partial file
                return Payload.FromString(data).metadata[OWNER].decode()
    return ""


async def _is_open(client: Client, workflow_id: str) -> bool:
    try:
        description = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return description.status is WorkflowExecutionStatus.RUNNING
