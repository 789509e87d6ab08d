"""Checks the parts of an opening request that only the runtime may set (S3).

Anyone who may start workflows can write anything into a request. An agent used as a tool starts
with the state of another session, shares its files and may skip the app's plugins. Therefore only
the runtime may request one, from the workflow that makes the call.
"""

from durable_adk.activities.dependencies import Dependencies
from durable_adk.errors import InvalidRequestError
from durable_adk.sessions.lease_owner import TemporalLeaseOwner, ttl_of
from durable_adk.sessions.records import Status
from durable_adk.sessions.session import CHILD_PREFIX, SessionKey
from durable_adk.wire.messages import ToolRun
from durable_adk.wire.steps import OpenStep


async def check_request(deps: Dependencies, step: OpenStep) -> None:
    """Reject an opening that falsely claims to be a tool run; repeats of an opening pass.

    Raises:
        InvalidRequestError: The opening is not a child of the calling workflow, is for another user
            or app, or names a session that is reserved for tool runs.
    """
    child = step.key.is_child
    if step.tool_run is None and not child:
        return
    if ttl_of(step.lease_owner) is not None:
        return  # in process, `LocalBackend.start` has rejected foreign requests
    if await deps.sessions.get_invocation(step.key, step.invocation_id) is not None:
        return
    if step.tool_run is not None and child:
        caller, root = step.tool_run.caller, step.tool_run.root
        if caller[:2] == root[:2] == step.key[:2] and await _asks(deps, step, caller):
            return
    require_no_tool_run(step.key.session_id, step.tool_run)


def require_no_tool_run(session_id: str, tool_run: ToolRun | None) -> None:
    """Reject requests that only the runtime may make.

    Raises:
        InvalidRequestError: The request has a `tool_run`, or a session name reserved for one.
    """
    if tool_run is not None:
        raise InvalidRequestError(
            "toolRun is set by the runtime, for an agent that a call of a running invocation asks; "
            "leave it out. To use an agent as a tool, give AgentTool to another agent."
        )
    if session_id.startswith(CHILD_PREFIX):
        raise InvalidRequestError(
            f"session {session_id!r}: names that begin with {CHILD_PREFIX!r} are for agents that "
            "are used as tools; choose another."
        )


async def _asks(deps: Dependencies, step: OpenStep, caller: SessionKey) -> bool:
    """Return whether the parent workflow runs the caller's invocation.

    Without a parent the result is False, as for a forged request.
    """
    if not step.parent:
        return False
    record = await deps.sessions.get_invocation(caller, step.invocation_id)
    if record is None or record.status is not Status.RUNNING:
        return False
    lease_owner = TemporalLeaseOwner.parse(record.lease_owner)
    return lease_owner is not None and lease_owner.workflow_id == step.parent
