"""Seeded bugs of our own code, each with the check of the simulation that has to notice it."""

import asyncio
import dataclasses
import itertools
import uuid
from typing import Any

from durable_adk.activities import definitions, effects
from durable_adk.activities.commit import commit, early_commit
from durable_adk.activities.commit.session_cache import SessionCache
from durable_adk.activities.invocation import close, open as opening, take_over
from durable_adk.activities.tool.contract import AtMostOnce
from durable_adk.context.activity import ToolContext
from durable_adk.conversation import answers
from durable_adk.errors import StoreUnavailableError
from durable_adk.flows import event_loop, invocation
from durable_adk.flows.agent_scope import Branch
from durable_adk.flows.pending_calls import PendingCalls
from durable_adk.sessions.log import entry, invocations, sessions
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.sql.tables import Tables
from durable_adk.wire.checkpoint import SaveCheckpointStep
from durable_adk.workflows.temporal_runtime import TemporalRuntime
from simulation.attempts import current
from tests.mutants.mutant import (
    does_nothing,
    mutant,
    replaces,
    rewrites,
    wraps,
)

NUMBERS = itertools.count(1)


def _delta_first(original: Any, tables: Any, key: Any, entry: Any, **options: Any) -> Any:
    tables.put_state(key, entry.delta)
    return original(tables, key, entry, **options)


async def _two_transactions(original: Any, self: Any, key: Any, event: Any, **options: Any) -> Any:
    delta, event.actions.state_delta = event.actions.state_delta, {}
    seq = await original(self, key, event, **options)
    texts = entry.encode(entry.without_temp(delta))
    await self._store.write(lambda tables: tables.put_state(key, texts))
    event.actions.state_delta = delta
    return seq


def _second_user_event(original: Any, tables: Any, key: Any, entry: Any, **options: Any) -> Any:
    record = tables.invocation(key, entry.invocation_id)
    if record is not None:
        object.__setattr__(entry, "event_id", f"{entry.event_id}.again{next(NUMBERS)}")
        sessions.appended(tables, key, tables.head(key), entry)
        return record
    return original(tables, key, entry, **options)


def _by_timestamp(original: Any, self: Any, key: Any, window: Any) -> Any:
    rows = original(self, key, window)
    return sorted(rows, key=lambda row: entry.decode_event(row.body).timestamp)


def _appended(original: Any, self: Any, key: Any, seq: int, one: Any) -> bool:
    return original(self, key, seq, dataclasses.replace(one, event_id=f"{one.event_id} {seq}"))


async def _swallowed(original: Any, world_: Any, step: Any, **options: Any) -> int:
    try:
        return await original(world_, step, **options)
    except StoreUnavailableError:
        return step.revision + 1


async def _later(original: Any, self: Any, event: Any) -> None:
    task = asyncio.ensure_future(original(self, event))
    self.kept_alive = [*getattr(self, "kept_alive", ()), task]


def _key_of_attempt(self: ToolContext) -> str:
    attempt = current()
    return f"{self.function_call_id}/{attempt.number if attempt else 0}"


async def _stale(original: Any, self: Any, *where: Any) -> Any:
    entry = self._entries.get(where[1])
    if entry is not None:
        return entry.known(*where[2:])
    return await original(self, *where)


def _same_lane(self: Branch, place: str, number: int) -> list[Branch]:
    del place
    return [self] * number


def _no_seals(*_args: Any) -> list[Any]:
    return []


_RENAMED = """
    if name == "commit_event":
        step = step.model_copy(deep=True)
        step.event.id += ".second"
    try:
        activity = workflow.start_activity("""


async def _first_begins(_self: Any, _name: str, token: str) -> str:
    return token


def _no_ids_kept(original: Any, self: Branch, prefix: str, branches: Any) -> None:
    branches.ids.pop(prefix, None)
    original(self, prefix, branches)


async def _only_named(_deps: Any, step: SaveCheckpointStep) -> str:
    return step.digest


def _nothing_is_saved(patch: Any) -> None:
    row = dataclasses.replace(effects._ROWS[SaveCheckpointStep], function=_only_named)
    patch.setitem(effects._ROWS, SaveCheckpointStep, row)


MUTANTS = [
    # ----- ids and the store
    mutant(
        "event ids are random",
        "replay",
        replaces(Branch, "next_id", lambda self: f"{self.prefix}.{uuid.uuid4()}"),
    ),
    mutant(
        "the store takes an event id twice",
        "append once",
        wraps(Tables, "add_event", _appended),
    ),
    mutant(
        "the delta is applied before the event's id is looked at",
        "fold",
        wraps(invocations, "commit", _delta_first),
    ),
    mutant(
        "state is written in a second transaction",
        "fold of a turn",
        wraps(SessionLog, "commit_event", _two_transactions),
    ),
    mutant("events are read by timestamp", "order", wraps(Tables, "events", _by_timestamp)),
    mutant(
        "temp: keys are stored",
        "fold",
        replaces(entry, "without_temp", dict),
        replaces(invocation, "without_temp", dict),
    ),
    mutant(
        "a repeated opening stores the message again",
        "one user event",
        wraps(invocations, "open_invocation", _second_user_event),
    ),
    mutant(
        "a store that is away counts as one that has written",
        "no loss",
        wraps(commit, "commit_event", _swallowed),
        wraps(early_commit, "commit_event", _swallowed),
    ),
    mutant(
        "the cache of a session is not read on",
        "append once",
        wraps(SessionCache, "read", _stale),
    ),
    # ----- lease and fence
    mutant(
        "the fence is not checked",
        "fence",
        replaces(Head, "holds", lambda _self, _invocation, _epoch: True),
    ),
    mutant(
        "two invocations may write to a session",
        "one writer",
        replaces(Head, "active", lambda _self, _now: None),
    ),
    mutant(
        "a message does not wait for a busy session",
        "one writer",
        replaces(definitions, "transient_or_busy", definitions.transient),
    ),
    mutant("the lease is not given back", "lease", replaces(Head, "released", lambda self: self)),
    mutant(
        "nobody takes over from an invocation that was terminated",
        "takeover",
        replaces(take_over, "end_abandoned", does_nothing),
    ),
    mutant(
        "an invocation that is taken over from is not sealed",
        "takeover",
        replaces(close, "_seals", _no_seals),
    ),
    mutant(
        "a message that was heard keeps its ticket",
        "tickets",
        rewrites(
            invocations, "deliver_message", ("queue.leave(tables, key, head, steered, now)", "pass")
        ),
    ),
    mutant(
        "a message whose sender was refused may open late",
        "refused",
        replaces(opening, "_rejected", does_nothing),
    ),
    # ----- the loop
    mutant(
        "the agent goes on before its event is committed",
        "commit before resume",
        wraps(invocation.Invocation, "commit", _later),
    ),
    mutant(
        "the children of a ParallelAgent share their ids",
        "lanes",
        replaces(Branch, "fork", _same_lane),
    ),
    mutant(
        "the loop reads a clock of its own",
        "replay",
        replaces(TemporalRuntime, "now", lambda _self: float(next(NUMBERS))),
    ),
    mutant(
        "a store that is slow ends the run",
        "no loss",
        rewrites(TemporalRuntime, "_stored", ("if is_cancelled_exception(error) or", "if True or")),
    ),
    mutant(
        "the second way of a commit has an id of its own",
        "no loss in the loop",
        rewrites(
            TemporalRuntime,
            "_stored",
            ("    try:\n        activity = workflow.start_activity(", _RENAMED),
        ),
    ),
    # ----- steps
    mutant(
        "an attempt does not look for what the one before has committed",
        "no asking again",
        replaces(early_commit, "_recalled", does_nothing),
    ),
    mutant(
        "a step says that it has closed the invocation and has not",
        "lease",
        rewrites(early_commit, "_commit", ("Status.COMPLETED if closes else None", "None")),
    ),
    mutant(
        "the key of a tool depends on the attempt",
        "tool keys",
        replaces(ToolContext, "idempotency_key", property(_key_of_attempt)),
    ),
    mutant(
        "a tool that is to run at most once is run again",
        "at most once",
        replaces(AtMostOnce, "_begun", _first_begins),
    ),
    # ----- endings
    mutant(
        "open calls are not sealed",
        "pairing",
        replaces(close, "closing_responses", lambda *_args: []),
    ),
    mutant(
        "a cancellation is heeded only where the loop waits",
        "cancel of a turn",
        replaces(TemporalRuntime, "cancelled", lambda _self: False),
    ),
    mutant(
        "a run that is cancelled is not closed",
        "cancel of a turn",
        rewrites(event_loop, "drive", ("(asyncio.CancelledError, Exception)", "Exception")),
    ),
    # ----- answers
    mutant(
        "an answer counts twice",
        "approval",
        replaces(PendingCalls, "_not_waited_for", lambda _self, _answer: None),
        replaces(answers, "_check_status", lambda *_args: False),
    ),
    # ----- continuing as new
    mutant(
        "the place is not written down before the run ends",
        "roll",
        _nothing_is_saved,
    ),
    mutant(
        "the next run starts with the ids of the first",
        "roll",
        wraps(Branch, "__init__", _no_ids_kept),
    ),
]
