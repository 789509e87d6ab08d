"""Deleting what is kept for invocations that are over."""

from contextlib import suppress
from pathlib import Path

from google.protobuf.message import DecodeError
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from durable_adk.storage.file_blobs import FileBlobs
from durable_adk.storage.payload_driver import OWNER


async def sweep(client: Client, blobs: FileBlobs, *, older_than: float) -> int:
    """Delete the payloads of closed workflows; how many workflows it were (I24).

    The history of a closed workflow can no longer be read in full afterwards, nor be replayed, so
    choose as long as the namespace keeps histories. The session store has all events; nothing of a
    conversation is lost.

    Args:
        client: Of the namespace; payloads of others stay.
        blobs: What its clients and workers use.
        older_than: Seconds for which nothing was stored for a workflow.

    Raises:
        RPCError: Temporal does not answer.
    """
    swept = 0
    for folder in list(blobs.expired(older_than)):
        namespace, _, workflow_id = _owner(folder).partition("/")
        if namespace == client.namespace and not await _is_open(client, workflow_id):
            blobs.remove(folder.name)
            swept += 1
    return swept


def _owner(folder: Path) -> str:
    """Whose the folder is: each of its payloads says so; empty if there is none."""
    for file in folder.iterdir():
        with suppress(DecodeError, OSError):  # half a file, or one that another sweep has deleted
            return Payload.FromString(file.read_bytes()).metadata[OWNER].decode()
    return ""


async def _is_open(client: Client, workflow_id: str) -> bool:
    try:
        description = await client.get_workflow_handle(workflow_id).describe()
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return False
        raise
    return description.status is WorkflowExecutionStatus.RUNNING
