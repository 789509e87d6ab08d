"""The status of an invocation as the status of an A2A 1.x task, in the protocol's JSON."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.conversation.pending_request import pending_request
from durable_adk.sessions.records import Status
from durable_adk.sessions.session import SessionKey

TASK_STATES = {
    Status.RUNNING: "TASK_STATE_WORKING",
    Status.PAUSED: "TASK_STATE_INPUT_REQUIRED",
    Status.COMPLETED: "TASK_STATE_COMPLETED",
    Status.FAILED: "TASK_STATE_FAILED",
    Status.CANCELLED: "TASK_STATE_CANCELED",
    Status.ABANDONED: "TASK_STATE_FAILED",
}
"""The state of a task by its invocation's status; a pause may need a credential instead."""


def task_status(
    key: SessionKey,
    task_id: str,
    status: Status,
    *,
    pending: Sequence[PendingCall] = (),
    error: str | None = None,
    time: float | None = None,
) -> dict[str, Any]:
    """Return a ``TaskStatus``, with a paused invocation's requests or a failed one's error.

    Args:
        key: Key of the session, which is the task's context.
        task_id: Id of the invocation.
        status: The status.
        pending: The pending calls, if it is paused.
        error: The message of the error, if it has failed.
        time: When it reached the status, in seconds since the epoch.
    """
    found: dict[str, Any] = {"state": TASK_STATES[status]}
    if time:
        at = datetime.fromtimestamp(time, UTC)
        found["timestamp"] = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if status is Status.PAUSED:
        if any(one.kind == "credential" for one in pending):
            found["state"] = "TASK_STATE_AUTH_REQUIRED"
        found["message"] = _message(key, task_id, "asks", _questions(key, pending))
    elif error:
        found["message"] = _message(key, task_id, "error", [{"text": error}])
    return found


def _message(
    key: SessionKey, task_id: str, name: str, parts: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "messageId": f"{task_id}.{name}",
        "taskId": task_id,
        "contextId": key.session_id,
        "role": "ROLE_AGENT",
        "parts": parts,
    }


def _questions(key: SessionKey, calls: Sequence[PendingCall]) -> list[dict[str, Any]]:
    """Return the requests of calls: a line for people, and JSON for programs.

    Each call has a second part, in the form in which google-adk's clients find a call to answer.
    """
    pending = [pending_request(key, call) for call in calls]
    lines = [one.hint or f"{one.name} waits for an answer ({one.kind})." for one in pending]
    ours = [{"data": one.to_value(), "mediaType": "application/json"} for one in pending]
    adks = [
        {
            "data": {"id": call.call_id, "name": call.name, "args": call.args},
            "mediaType": "application/json",
            "metadata": {"adk_type": "function_call", "adk_is_long_running": True},
        }
        for call in calls
    ]
    return [{"text": "\n".join(lines) or "The agent waits."}, *ours, *adks]
