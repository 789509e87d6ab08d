"""Summarizes a session's events at the end of an invocation (CMP-1, CMP-2).

The next message finds the summary, because the invocation still holds the session's lease. A
failure is only logged; the summary is due again after the next invocation. The event is appended
without the lease, so it is dropped when a concurrent write changes the set of events to summarize.
"""

import asyncio
from collections.abc import Sequence

from durable_adk.activities.dependencies import Dependencies
from durable_adk.apps.compaction import EventsCompactionConfig, summarizer_for
from durable_adk.calling import contained
from durable_adk.conversation.compaction import events_to_compact, summary_event
from durable_adk.errors import EventConflictError, StaleSessionError
from durable_adk.events.event import Event
from durable_adk.failpoints import failpoint
from durable_adk.log import get_logger
from durable_adk.sessions.session import Session
from durable_adk.wire.messages import check_event
from durable_adk.wire.steps import CompactStep

ATTEMPTS = 3
"""Maximum number of attempts to append the summary. Each one uses the session's current
revision."""

logger = get_logger(__name__)


async def compact(deps: Dependencies, step: CompactStep) -> None:
    """Summarize the events that are due; a repeat finds the event of the first attempt.

    Raises only CancelledError: a summarizer cannot fail an invocation that ended successfully.
    """
    failpoint("compact.before")
    try:
        async with asyncio.timeout(step.attempt_timeout):
            await _compact(deps, step)
    except Exception as error:
        logger.warning(
            "compaction.failed",
            session_id=step.key.session_id,
            invocation_id=step.invocation_id,
            error_type=type(error).__name__,
            exc_info=True,
        )
    failpoint("compact.after")


async def _compact(deps: Dependencies, step: CompactStep) -> None:
    app = deps.registry.app(step.key.app_name)
    config = app.events_compaction_config
    if config is None:
        return  # a deploy has removed the configuration
    _, covered = await _due(deps, step, config)
    if not covered:
        return
    summarizer = summarizer_for(config, app.agents())
    copies = [event.model_copy(deep=True) for event in covered]
    made = await contained(summarizer.maybe_summarize_events(events=copies))
    event = summary_event(made, covered) if made is not None else None
    if event is None:
        return
    failpoint("compact.made")
    event.id = _id(step)
    event.invocation_id = (made.invocation_id if made else "") or event.id
    event.timestamp = step.timestamp
    check_event(event, "The summary")
    await _append(deps, step, config, covered, event)


def _id(step: CompactStep) -> str:
    """Return the id of the summary's event, and of the invocation under which it is stored."""
    return f"{step.invocation_id}.compaction"


async def _due(
    deps: Dependencies, step: CompactStep, config: EventsCompactionConfig
) -> tuple[int, list[Event]]:
    """Return the session's revision and the events to summarize.

    The list is empty if the summary is stored already, or if a later summary or rewind has changed
    which events count.
    """
    if await deps.sessions.get_invocation(step.key, step.invocation_id) is None:
        return 0, []
    last = step.revision
    revision = await deps.sessions.read_revision(step.key)
    known = await deps.cache.read(deps.sessions, step.key, revision, step.invocation_id)
    events = known.events
    if any(map(_changes_what_counts, events[last:])):
        return revision, []
    return revision, events_to_compact(events[:last], config)


def _changes_what_counts(event: Event) -> bool:
    actions = event.actions
    return actions.compaction is not None or actions.rewind_before_invocation_id is not None


async def _append(
    deps: Dependencies,
    step: CompactStep,
    config: EventsCompactionConfig,
    covered: Sequence[Event],
    event: Event,
) -> None:
    """Append the summary unless a concurrent write has changed which events are due."""
    app_name, user_id, session_id = step.key
    for attempt in range(1, ATTEMPTS + 1):
        revision, due = await _due(deps, step, config)
        if [one.id for one in due] != [one.id for one in covered]:
            return
        session = Session(id=session_id, app_name=app_name, user_id=user_id, revision=revision)
        try:
            await deps.sessions.append_event(session, event)
        except StaleSessionError:
            if attempt == ATTEMPTS:
                raise
        except EventConflictError:
            return  # an earlier attempt was still alive and has stored its own summary
        else:
            return
