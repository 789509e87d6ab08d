"""Opens an invocation: checks the request, admits it and stores the user's message."""

from functools import partial
from typing import Any

from pydantic import ValidationError

from durable_adk.activities.dependencies import Dependencies
from durable_adk.activities.invocation.checkpoint import state_for_bodies
from durable_adk.activities.invocation.close import close_invocation, read_ending
from durable_adk.activities.invocation.pause import checked_answers
from durable_adk.activities.invocation.queue import QUEUE_POSITIONS, check_turn, wait_for_turn
from durable_adk.activities.invocation.request import check_request
from durable_adk.activities.invocation.take_over import (
    OpenedByOtherError,
    closing_step,
    end_abandoned,
    retry_when_freed,
)
from durable_adk.agents.base_agent import BaseAgent
from durable_adk.agents.llm_agent import is_task
from durable_adk.apps.app import App
from durable_adk.apps.graph_record import manifest_of
from durable_adk.conversation.answers import answered_call_ids, answered_invocation_ids
from durable_adk.conversation.history import recent
from durable_adk.conversation.routing import agent_for
from durable_adk.conversation.sent_message import is_same_message, is_sent_as
from durable_adk.errors import (
    EventConflictError,
    InvalidRequestError,
    InvocationCancelledError,
    PayloadTooLargeError,
    SessionBusyError,
)
from durable_adk.events.event import Event
from durable_adk.events.event_actions import EventActions
from durable_adk.failpoints import failpoint
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.data import validated
from durable_adk.sessions.lease_owner import ttl_of
from durable_adk.sessions.records import (
    GetSessionConfig,
    InvocationRecord,
    MessageAwaitedError,
    QueueBounds,
    Status,
)
from durable_adk.sessions.state import SHARED_PREFIXES
from durable_adk.wire.messages import InvocationAnswer, WhenBusy
from durable_adk.wire.steps import LOOP_RULES, Opened, OpenStep

DELIVERY_SECONDS = 0.5
"""Maximum seconds for which an attempt waits until a notified invocation has the message."""
STEERING = 1.5
"""Seconds between checks whether a message was delivered or another invocation can receive it."""


async def open_invocation(deps: Dependencies, step: OpenStep) -> Opened:
    """Take the session's lease and store the user's event; a repeat returns the first record.

    Raises:
        SessionBusyError: Another live invocation owns the lease or has an earlier turn.
        CallerError: The app or session does not exist; nothing was stored.
        SessionRegressedError: The store is older than before; nothing was stored (I21).
    """
    try:
        return await retry_when_freed(deps, step, _opened)
    except MessageAwaitedError as awaited:
        return await _delivered(deps, step, awaited.record)
    except SessionBusyError as busy:
        if step.steers:  # another invocation may soon be able to receive it
            busy.remaining = min(busy.remaining, STEERING + busy.ahead * 0.1)
        await _rejected(deps, step)
        raise


async def _delivered(deps: Dependencies, step: OpenStep, recipient: InvocationRecord) -> Opened:
    """Have a paused invocation receive the message; without its owner, open one as usual.

    Every attempt notifies it, because one notification may be lost: a workflow may be reset.

    Raises:
        SessionBusyError: It has been notified, and another attempt finds the message delivered.
    """
    name = step.invocation_id
    if not await deps.is_alive(recipient.lease_owner):
        await end_abandoned(deps, step, recipient)
    elif await deps.steer(step.key, recipient, InvocationAnswer(steers=name, answer_id=name)):
        failpoint("reply.notified")
        await wait_for_turn(deps, step, DELIVERY_SECONDS)
        try:
            return await _opened(deps, step)
        except MessageAwaitedError as again:
            raise SessionBusyError(again.message, remaining=STEERING) from None
    return await retry_when_freed(deps, step, partial(_opened, may_reply=False))


async def _opened(deps: Dependencies, step: OpenStep, *, may_reply: bool = True) -> Opened:
    await check_turn(deps, step)
    app = deps.registry.app(step.key.app_name)
    await check_request(deps, step)
    root = app.find_agent(step.tool_run.agent) if step.tool_run else app.root_agent
    manifest = manifest_of(root) if step.tool_run else app.manifest()
    opened = Opened(
        manifest=manifest,
        agent=root.name,
        limits=deps.limits,
        model_task_queues=dict(deps.model_task_queues) or None,
        resumable=app.is_resumable,
        registry=deps.registry_name,
        hooks=_hooks(app, step),
        budget=app.budget,
        steps_per_activity=app.steps_per_activity if app.steps_per_activity > 1 else None,
        # The session of an agent used as a tool is never continued.
        rules=LOOP_RULES,
        compacts=app.events_compaction_config is not None and step.tool_run is None,
    )
    if _is_to_be_prepared(opened.hooks, step) and not step.prepared:
        step = await _as_stored(deps, step)
        if not step.prepared:
            return opened
    await _check_input(deps, step, root)
    await _check_late_answers(deps, step)
    await deps.check_store(step.key)
    failpoint("open.before")
    record = await _opened_or_delivered(deps, step, may_reply=may_reply and step.may_reply)
    if isinstance(record, str):
        opened.steered = record
        return opened
    if record.lease_owner != step.lease_owner and not record.status.closed:
        raise OpenedByOtherError(record)
    failpoint("open.after")
    opened.record = record
    opened.state = await _state(deps, step, record) if manifest.any_custom() else None
    opened.ending = await read_ending(deps, step.key, record) if record.status.closed else None
    opened.agent = await _first_agent(deps, step, root, record)
    return opened


async def _opened_or_delivered(
    deps: Dependencies, step: OpenStep, *, may_reply: bool
) -> InvocationRecord | str:
    """Return the invocation's record, or the id of the invocation that received its message.

    Raises:
        SessionBusyError: The session is not free.
    """
    try:
        return await _open(deps, step, may_reply=may_reply)
    except InvocationCancelledError as error:
        if step.when_busy is not WhenBusy.REJECT:
            raise
        # An earlier attempt rejected it, and its result was lost.
        raise SessionBusyError(
            "Another invocation was active in this session when the message came, so it was "
            "refused."
        ) from error
    except EventConflictError as conflict:
        # A repeat may request to wait, and the receiving invocation may have ended: the id is
        # taken.
        return await _delivered_to(deps, step, conflict)


async def _delivered_to(deps: Dependencies, step: OpenStep, conflict: EventConflictError) -> str:
    """Return the id of the invocation that received an opening's message; it may have ended.

    Raises:
        EventConflictError: No invocation received this message; it is `conflict`.
    """
    event = await deps.sessions.delivered_event(step.key, step.invocation_id)
    if event is None or not is_same_message(event, step.message, step.custom_metadata):
        raise conflict
    return event.invocation_id


async def _check_input(deps: Dependencies, step: OpenStep, root: BaseNode) -> None:
    """Check that the message fits the `input_schema` of the app's graph (GR-190).

    While another invocation may still receive it, it need not.

    Raises:
        InvalidRequestError: It does not.
    """
    if isinstance(root, BaseAgent) or not step.message.parts or answered_call_ids(step.message):
        return
    try:
        validated(root.input_schema, step.message)
    except ValidationError as unfit:
        key, name, sessions = step.key, step.invocation_id, deps.sessions
        if await sessions.has_receiver(key) or await sessions.delivered_event(key, name):
            return
        if await sessions.get_invocation(key, name) is not None:
            return  # a repeat: the first attempt's message fitted
        await sessions.leave_queue(key, invocation_id=name, lease_owner=step.lease_owner)
        found = unfit.errors(include_url=False, include_input=False)
        said = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'it'}: {one['msg']}" for one in found)
        raise InvalidRequestError(
            f"The message does not fit the input_schema of {root.name!r}: {said}."
        ) from None


async def _check_late_answers(deps: Dependencies, step: OpenStep) -> None:
    """Check that the responses in the message may start an invocation, as a late update (TOL-41).

    Raises:
        InvalidRequestError: A response matches no call, or a pending call of an open invocation
            (TRAP-28).
    """
    if not (answered := answered_call_ids(step.message)):
        return
    if await deps.sessions.get_invocation(step.key, step.invocation_id) is not None:
        return  # a repeat: the first attempt's own message may make the call look answered
    events = [item.event for item in await deps.sessions.read_from_calls(step.key, answered)]
    statuses: dict[str, Status] = {}
    for name in answered_invocation_ids(events, step.message):
        record = await deps.sessions.get_invocation(step.key, name)
        if record is not None:
            statuses[name] = record.status
    for answer in checked_answers(events, step.message, statuses):
        if not answer.update:
            raise InvalidRequestError(
                f"Call {answer.call.call_id!r} is waited for by invocation "
                f"{answer.call.invocation_id!r}; send the answer to it (signal answer of its "
                "workflow), not as a new invocation."
            )


def _hooks(app: App, step: OpenStep) -> list[str]:
    """Return the hooks that see the run, in the same order in every process."""
    if step.tool_run is not None and not step.tool_run.include_plugins:
        return []
    return sorted(app.plugin_manager.hooks())


def _is_to_be_prepared(hooks: list[str], step: OpenStep) -> bool:
    """Return whether the message may change before it is stored (RUN-22, RUN-26)."""
    saving = step.run_config is not None and step.run_config.save_input_blobs_as_artifacts
    files = saving and any(part.inline_data for part in step.message.parts or [])
    return bool(step.message.parts) and (files or "on_user_message_callback" in hooks)


async def _as_stored(deps: Dependencies, step: OpenStep) -> OpenStep:
    """Return the step of a repeated opening with the message as plugins changed it the first time.

    Hooks do not run again: they might return something else. The step of a first opening, or one
    with another message, is returned unchanged.
    """
    record = await deps.sessions.get_invocation(step.key, step.invocation_id)
    if record is None:
        return step
    event = (await deps.sessions.read_opening(step.key, record)).event
    changes: dict[str, Any] = {"prepared": True}
    if is_sent_as(event, step.message):
        changes |= {
            "message": event.content,
            "state_delta": event.actions.state_delta,
            "artifact_delta": event.actions.artifact_delta,
            "custom_metadata": event.custom_metadata,
        }
    return step.model_copy(update=changes)


async def _first_agent(
    deps: Dependencies, step: OpenStep, root: BaseNode, record: InvocationRecord
) -> str:
    """Return the name of the agent that receives the message (AGT-40..43), searching backwards.

    Rewound events do not count, nor do events that the run's agents may not see (AGT-45).
    """
    if not isinstance(root, BaseAgent) or is_task(root):
        return root.name
    config = step.run_config.get_session_config if step.run_config else None
    before = record.start_seq - 1
    page = 32
    while root.sub_agents and before > 0:
        start = max(before - page, 0)
        events = await _read(deps, step, after=start, upto=before)
        if config or any(event.actions.rewind_before_invocation_id for event in events):
            start = 0  # a rewind may reach back to any event
            whole = await _read(deps, step, after=start, upto=before)
            events = recent(whole, config or GetSessionConfig())
        agent = agent_for(root, events, step.message)
        if agent is not None:
            return agent.name
        before, page = start, page * 2
    return root.name


async def _read(deps: Dependencies, step: OpenStep, *, after: int, upto: int) -> list[Event]:
    stored = await deps.sessions.read_events(step.key, after=after, upto=upto)
    return [item.event for item in stored]


async def _state(deps: Dependencies, step: OpenStep, record: InvocationRecord) -> dict[str, Any]:
    """Return the session's state for the bodies of custom agents.

    Raises:
        PayloadTooLargeError: The state does not fit into a payload, which would hang the workflow.
            The invocation is closed with this error.
    """
    try:
        return await state_for_bodies(
            deps, step.key, invocation_id=record.invocation_id, revision=record.start_seq
        )
    except PayloadTooLargeError as error:
        ending = closing_step(deps, step, record, Status.FAILED, error)
        await close_invocation(deps, ending)
        raise


async def _rejected(deps: Dependencies, step: OpenStep) -> None:
    """Withdraw a refused opening, so that a late attempt cannot open it after all (I12)."""
    if step.when_busy is WhenBusy.REJECT and ttl_of(step.lease_owner) is None:
        failpoint("reject.before")
        await deps.sessions.withdraw_invocation(
            step.key, invocation_id=step.invocation_id, lease_owner=step.lease_owner
        )
        failpoint("reject.after")


async def _callers_state(deps: Dependencies, step: OpenStep) -> dict[str, Any]:
    """Return the state that an agent used as a tool starts with: the calling session's (TOL-21).

    Scopes that sessions share are present already. State is read here instead of being sent, like
    all state (D3).
    """
    if step.tool_run is None:
        return step.state_delta
    _, state = await deps.sessions.read_state(step.tool_run.caller)
    private = {k: v for k, v in state.items() if not k.startswith((*SHARED_PREFIXES, "_adk"))}
    return private | step.state_delta


async def _open(deps: Dependencies, step: OpenStep, *, may_reply: bool) -> InvocationRecord:
    if step.tool_run is not None:
        record = await deps.sessions.get_invocation(step.key, step.invocation_id)
        if record is not None:
            return record  # a repeat: the caller's state may have changed meanwhile
    user_event = Event(
        id=step.event_id,
        invocation_id=step.invocation_id,
        author="user",
        timestamp=step.timestamp,
        content=step.message if step.message.parts else None,
        custom_metadata=step.custom_metadata,
        actions=EventActions(
            state_delta=await _callers_state(deps, step), artifact_delta=step.artifact_delta
        ),
    )
    limits = deps.limits
    record = await deps.sessions.open_invocation(
        step.key,
        invocation_id=step.invocation_id,
        lease_owner=step.lease_owner,
        user_event=user_event,
        create_session=step.create_session,
        ttl=ttl_of(step.lease_owner),
        position=QUEUE_POSITIONS[step.when_busy],
        steers=step.steers,
        may_reply=may_reply,
        bounds=QueueBounds(limits.max_queued_per_session, limits.max_queued_per_user),
        caller=step.tool_run.caller if step.tool_run else None,
    )
    if record.start_seq == 1 and not record.status.closed:
        deps.cache.begin(step.key, user_event, epoch=record.epoch)
    return record
