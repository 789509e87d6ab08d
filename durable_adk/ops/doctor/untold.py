"""Acts that no history tells of itself, but what came after them does."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

from durable_adk.apps.app import App
from durable_adk.ops.doctor.trails import Act, Trail
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import SessionKey
from durable_adk.settings import Limits
from durable_adk.wire.checkpoint import (
    JournalPage,
    LoadedCheckpoint,
    ReadCheckpointStep,
    ReadJournalStep,
)
from durable_adk.wire.manifest import AgentNode
from durable_adk.wire.steps import UNKNOWN_EPOCH, CloseStep, Ending, Opened, OpenStep

NAMELESS = "no history tells under which agent's name it was ended while it opened"


def tell_all(trails: Sequence[Trail], code: Iterable[App]) -> None:
    """Complete trails with what they show to have happened.

    Args:
        trails: Of all workflows that are looked at.
        code: Apps whose code is at hand.
    """
    for trail in trails:
        author = trail.opening[1].agent if trail.opening else ""
        trail.acts = [told for act in trail.acts for told in _told(act, author)]
    known = _openings(trails, code)
    for trail in trails:
        if trail.opening is None:
            _open_told(trail, known)


def _told(act: Act, author: str) -> list[Act]:
    """An act; and the act that had ended the invocation, if a run found that it had ended.

    No history has that one: its worker died after it, and Temporal had heard of neither. What came
    to the session then was another attempt to open it, or the run continued as a new one.
    """
    match act.step, act.result:
        case ReadCheckpointStep(cursor=cursor), LoadedCheckpoint(ending=Ending() as ending):
            step = _end(cursor.key, cursor.invocation_id, ending.record, author)
            return [replace(act, step=step, result=ending) if step else act]
        case ReadJournalStep(key=key, invocation_id=name), JournalPage(ending=Ending() as ending):
            step = _end(key, name, ending.record, author)
            return [replace(act, step=step, result=ending) if step else act]
        case OpenStep() as opening, Opened(ending=Ending() as ending) as opened:
            if ending.record.lease_owner != opening.lease_owner:
                return [act]  # another workflow has ended it
            step = _end(opening.key, opening.invocation_id, ending.record, opened.agent)
            return [act, *([replace(act, step=step, result=ending)] if step else [])]
        case _:
            return [act]


def _end(
    key: SessionKey, invocation_id: str, record: InvocationRecord, author: str
) -> CloseStep | None:
    """The step that has left such a record; None: it cannot be told, or is another's."""
    if record.status is not Status.COMPLETED and record.error is None:
        return None  # why it failed would be missing
    if record.status is Status.ABANDONED:
        return None  # whoever took it over has it in his own
    return CloseStep(
        key=key,
        invocation_id=invocation_id,
        epoch=record.epoch,
        status=record.status,
        author=author,
        timestamp=record.update_time,
        lease_owner=record.lease_owner,
        error=record.error,
    )


def _open_told(trail: Trail, known: dict[str, Opened]) -> None:
    """Take an opening for done that was cancelled under way, if its end found it stored."""
    lost = [act for act in trail.acts if isinstance(act.step, OpenStep) and not act.done]
    found = next((record for act in trail.acts if (record := _closed(act))), None)
    if not lost or found is None or found.lease_owner != lost[-1].step.lease_owner:
        return
    act = lost[-1]
    opened = known.get(act.step.key.app_name)
    if opened is None:
        opened = _begun_by(AgentNode(name="unknown", kind="llm"))
        trail.failure = trail.failure or NAMELESS
    changed = {"status": Status.RUNNING, "end_seq": None, "error": None}
    act.result = opened.model_copy(update={"record": found.model_copy(update=changed)})
    act.done = True


def _closed(act: Act) -> InvocationRecord | None:
    """The invocation as its end has left it, if it had been opened."""
    match act.step, act.result:
        case CloseStep(), Ending(record=record) if record.epoch != UNKNOWN_EPOCH:
            return record
        case _:
            return None


def _openings(trails: Iterable[Trail], code: Iterable[App]) -> dict[str, Opened]:
    """By app, an opening that begins with the app's first agent."""
    found: dict[str, Opened] = {}
    for app in code:
        found[app.name] = _begun_by(app.manifest())
    for act in chain.from_iterable(trail.acts for trail in trails):
        if isinstance(act.result, Opened) and act.step.tool_run is None:
            name = act.result.manifest.name
            found[act.step.key.app_name] = act.result.model_copy(update={"agent": name})
    return found


def _begun_by(tree: AgentNode) -> Opened:
    """What is known of an opening without its history: only the name counts."""
    return Opened(manifest=tree, agent=tree.name, limits=Limits(), registry="")
