"""Deletes payloads of closed workflows from external storage."""

from contextlib import aclosing, suppress

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.storage.blobs import SharedBlobs
from durable_adk.storage.payload_driver import OWNER


async def sweep(client: Client, blobs: SharedBlobs, *, older_than: float) -> int:
    """Delete the payloads of closed workflows; return the number of workflows (I24).

    The history of a closed workflow can no longer be read in full afterwards, nor be replayed, so
    choose as long as the namespace keeps histories. The session store has all events; nothing of a
    conversation is lost.

    Args:
        client: Of the namespace; payloads of others stay.
        blobs: What its clients and workers use.
        older_than: Seconds for which nothing was stored for a workflow.

    Raises:
        RPCError: Temporal does not answer.
        OSError: The folder, or StoreUnavailableError: the object store, does not.
    """
    swept = 0
    for owner in await blobs.expired(older_than):
        namespace, _, workflow_id = (await _name_of(owner, blobs)).partition("/")
        if namespace == client.namespace and not await _is_open(client, workflow_id):
            await blobs.remove(owner)
            swept += 1
    return swept


async def _name_of(owner: str, blobs: SharedBlobs) -> str:
    """Who the owner is: each of its payloads says so; empty if there is none."""
    async with aclosing(blobs.of(owner)) as kept:
        async for data in kept:
            with suppress(DecodeError):  # half a file
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
