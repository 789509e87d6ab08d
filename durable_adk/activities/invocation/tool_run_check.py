"""Verifies that an opening which claims to be an agent used as a tool is one (S3).

Anyone who may start workflows can write anything into a request. An agent used as a tool starts
with the state of another session, shares its files, and may skip the app's plugins. So only the
runtime may request one, from the workflow whose call it is.
"""

from collections.abc import AsyncIterator

from durable_adk.activities.dependencies import Dependencies
from durable_adk.errors import InvalidRequestError
from durable_adk.sessions.lease_owner import TemporalLeaseOwner, ttl_of
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import CHILD_PREFIX, SessionKey
from durable_adk.wire.messages import ToolRun
from durable_adk.wire.steps import OpenStep


async def check_tool_run(deps: Dependencies, step: OpenStep) -> None:
    """Refuse an opening that claims to be a call's, and is not; of one that is open nothing is new.

    Raises:
        InvalidRequestError: It is no child of the workflow whose call it would be, is for another
            user or app, or names a session that is kept for such runs.
    """
    child = step.key.session_id.startswith(CHILD_PREFIX)
    if step.tool_run is None and not child:
        return
    if ttl_of(step.lease_owner) is not None:
        return  # in process `LocalBackend.start` has refused what others ask
    if await deps.sessions.get_invocation(step.key, step.invocation_id) is not None:
        return
    if step.tool_run is not None and child:
        caller = step.tool_run.caller
        if caller[:2] == step.key[:2] and await _asks(deps, step, caller):
            return
    require_no_tool_run(step.key.session_id, step.tool_run)


def require_no_tool_run(session_id: str, tool_run: ToolRun | None) -> None:
    """Refuse what only the runtime may ask for.

    Raises:
        InvalidRequestError: There is a `tool_run`, or the session's name is kept for one.
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
    """Whether the parent runs the caller's invocation, or a run as a tool for it.

    Without a parent the answer is no: a workflow task of 0.1.0 does not tell it, nor does a forger.
    """
    if not step.parent:
        return False
    record = await deps.sessions.get_invocation(caller, step.invocation_id)
    if record is None or record.status is not Status.RUNNING:
        return False
    if _is_run_by(record, step.parent):
        return True
    # The caller of a tool's tool is the first of all: between the two are runs as tools.
    async for key, one in _running(deps, step.key):
        asks = one.invocation_id == step.invocation_id and _is_run_by(one, step.parent)
        if asks and key.session_id.startswith(CHILD_PREFIX):
            return True
    return False


async def _running(
    deps: Dependencies, key: SessionKey
) -> AsyncIterator[tuple[SessionKey, InvocationRecord]]:
    """All running invocations of a user, a page at a time."""
    last = None
    while page := await deps.sessions.page_invocations(
        app_name=key.app_name, user_id=key.user_id, status=Status.RUNNING, after=last
    ):
        for found in page:
            yield found
        last = page[-1]


def _is_run_by(record: InvocationRecord, workflow_id: str) -> bool:
    lease_owner = TemporalLeaseOwner.parse(record.lease_owner)
    return lease_owner is not None and lease_owner.workflow_id == workflow_id
