"""Seeded bugs of our own code, each with the check that has to notice it."""

import asyncio
import dataclasses
import itertools
import re
import uuid
from contextlib import nullcontext
from typing import Any

from durable_adk import calling
from durable_adk.activities import definitions, effects
from durable_adk.activities.commit import commit, early_commit
from durable_adk.activities.commit.plan import CommitPlan
from durable_adk.activities.commit.session_cache import SessionCache
from durable_adk.activities.invocation import close, open as opening, pause, take_over
from durable_adk.activities.tool import agent_tools, run as tool_runs, tool_call
from durable_adk.activities.tool.run import ToolAttempt
from durable_adk.activities.user_code import event_loop
from durable_adk.activities.user_code.event_loop import UserCodeLoop
from durable_adk.activities.user_code.threads import UserCodeThreads
from durable_adk.calling.code_scope import CodeScope, CodeTask
from durable_adk.context import loop as context_loop
from durable_adk.context.activity import ToolContext
from durable_adk.conversation import answers, client_requests, contents
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.embedded import server
from durable_adk.errors import StoreUnavailableError
from durable_adk.flows import event_loop as runs, invocation
from durable_adk.flows.agent_scope import Branch
from durable_adk.flows.pending_calls import PendingCalls
from durable_adk.flows.runtime import Inbox
from durable_adk.flows.state import LoopState
from durable_adk.server.adk import agents, sessions as restored
from durable_adk.server.requests import limits
from durable_adk.sessions import state_merge
from durable_adk.sessions.in_memory_session_service import _MemoryTables
from durable_adk.sessions.log import entry, invocations, sessions, steering
from durable_adk.sessions.log.head import Head
from durable_adk.sessions.log.listing import InvocationRecords
from durable_adk.sessions.session_log import SessionLog
from durable_adk.sessions.sql.sqlite import FilesAtPaths
from durable_adk.wire import converter, messages
from durable_adk.wire.checkpoint import SaveCheckpointStep
from durable_adk.workflows import invocation as workflows, temporal_runtime
from durable_adk.workflows.lost_tasks import LostTasks
from durable_adk.workflows.temporal_runtime import TemporalRuntime
from simulation.attempts import current
from tests.mutants.identity import IDENTITY
from tests.mutants.mutant import (
    both,
    does_nothing,
    ignored,
    mutant,
    replaces,
    rewrites,
    rewritten,
    wraps,
)
from tests.mutants.waiting import WAITING

NUMBERS = itertools.count(1)


def _by_name_alone(part: Any, _by_model: Any) -> bool:
    function = part.function_call or part.function_response
    return function is not None and function.name in client_requests.CONTROL_FUNCTIONS


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
    log = self._logs.get(key)
    if log is not None:
        log.entries.sort(key=lambda entry: entry.timestamp)
    return original(self, key, window)


def _appended(self: Any, key: Any, seq: int, entry: Any) -> bool:
    self._logs[key].entries.append(entry)
    self._logs[key].seqs[entry.event_id] = seq
    return True


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
        return await workflow.execute_activity("""


async def _first_begins(_self: Any, _name: str, token: str) -> str:
    return token


def _no_ids_kept(original: Any, self: Branch, prefix: str, branches: Any) -> None:
    branches.ids.pop(prefix, None)
    original(self, prefix, branches)


def _no_answers_kept(original: Any, self: Inbox, saved: Any) -> None:
    original(self, saved)
    self.outcomes.clear()
    self.state.answers = 0


def _any_approval(events: Any, request_id: str | None) -> Any:
    """The latest decision on any call: the arguments are in the call that it was made for."""
    found = [r for event in events for r in event.get_function_responses()]
    decided = [r for r in found if r.name == REQUEST_CONFIRMATION]
    first = next((r for r in decided if (r.response or {}).get("confirmed")), None)
    return first if request_id is not None else None


async def _only_named(_deps: Any, step: SaveCheckpointStep) -> str:
    return step.digest


def _nothing_is_saved(patch: Any) -> None:
    row = dataclasses.replace(effects._ROWS[SaveCheckpointStep], function=_only_named)
    patch.setitem(effects._ROWS, SaveCheckpointStep, row)


def _retried(patch: Any) -> None:
    policy = dataclasses.replace(temporal_runtime.RETRY, non_retryable_error_types=None)
    patch.setattr(temporal_runtime, "RETRY", policy)


_PARTIAL = rewritten(entry.Entry.of, ("@classmethod\n", ""), ("event.partial or ", ""))

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
        replaces(_MemoryTables, "add_event", _appended),
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
    mutant("events are read by timestamp", "order", wraps(_MemoryTables, "events", _by_timestamp)),
    mutant(
        "temp: keys are stored",
        "fold",
        replaces(entry, "without_temp", dict),
        replaces(invocation, "without_temp", dict),
    ),
    mutant(
        "a partial event is stored",
        "no partial entries",
        replaces(entry.Entry, "of", classmethod(_PARTIAL)),
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
    mutant(
        "sessions are cached however much memory they take",
        "bounded cache",
        rewrites(SessionCache, "_put", (" or total > self._max_bytes", "")),
    ),
    mutant(
        "a session that is larger than the cache empties it",
        "bounded cache",
        rewrites(SessionCache, "_put", ("if entry.bytes > self._max_bytes", "if not entry.bytes")),
    ),
    mutant(
        # Ours for an expected_seq: the lease keeps out who would come in between, so what is left
        # to ask is whether the log is as long as the run knows it to be.
        "a store that is older takes the commits of a run",
        "known revision",
        replaces(Head, "require_grown", ignored),
    ),
    mutant(
        "a stale copy of a session may be appended to",
        "fresh copy",
        replaces(Head, "require_fresh", ignored),
    ),
    mutant(
        "what an agent used as a tool was told outlives its session",
        "children of a deleted session",
        replaces(sessions, "remove", lambda tables, key: tables.remove_session(key)),
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
    mutant(
        "an attempt saves files after its invocation has ended",
        "saves are fenced",
        replaces(invocations, "require_open", ignored),
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
            steering, "deliver_message", ("queue.leave(tables, key, head, steered, now)", "pass")
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
            ("    try:\n        done = await workflow.execute_activity(", _RENAMED),
        ),
    ),
    # ----- steps
    mutant(
        "an attempt does not look for what the one before has committed",
        "no asking again",
        replaces(early_commit, "_recalled", does_nothing),
    ),
    mutant(
        "a result that is left to the loop is not noted",
        "results of the loop are noted",
        replaces(CommitPlan, "notes_result", lambda *_: False),
    ),
    mutant(
        "a note counts although another result is stored",
        "stored beats noted",
        replaces(CommitPlan, "agrees", lambda *_: True),
    ),
    mutant(
        "a step of an invocation that has ended runs",
        "nothing after the end",
        replaces(early_commit, "_ended", does_nothing),
    ),
    mutant(
        "a zombie's answer stands beside the one that is stored",
        "no asking again",
        rewrites(
            early_commit,
            "_commit",
            ("return CommittedStep(await _recall(", "seq = 0 and (await _recall("),
        ),
    ),
    mutant(
        "an attempt commits what a later one has left to the loop",
        "reserved for the loop",
        rewrites(invocations, "commit", ("if by_step and head.retried:", "if False:")),
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
        replaces(ToolAttempt, "_begun", _first_begins),
    ),
    mutant(
        "a call whose toolset is away is not tried again",
        "calls wait for their toolsets",
        replaces(ToolAttempt, "require_asked", ignored),
    ),
    mutant(
        "a toolset that is away has no tools",
        "calls wait for their toolsets",
        replaces(agent_tools, "missed_toolsets", lambda: nullcontext([])),
    ),
    mutant(
        "code that cancels its own task cancels its step",
        "code cancels itself",
        both(
            replaces(calling, "_is_cancelled", lambda: True),
            replaces(CodeScope, "_is_of_others", lambda *_: True),
            rewrites(runs, "_close_early", ("if invocation.cancelled", "if True")),
        ),
    ),
    mutant(
        "what code returns counts although it needs a run of an agent first",
        "code hides a run",
        rewrites(tool_runs, "contained", ("if instead.done():", "if False:")),
    ),
    mutant(
        "a body that catches what it may not do goes on",
        "a body catches",
        replaces(context_loop, "refused", lambda error: error),
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
        rewrites(workflows, "run_invocation", ("(asyncio.CancelledError, Exception)", "Exception")),
    ),
    # ----- answers
    mutant(
        "an answer to one call is taken for another",
        "no forged answers",
        replaces(answers, "_find", lambda _response, history: list(history.values())[-1]),
    ),
    mutant(
        "an answer counts twice",
        "approval",
        replaces(PendingCalls, "_not_waited_for", lambda _self, _answer: None),
        replaces(answers, "_check_status", lambda *_args: False),
    ),
    mutant(
        # An answer carries no hash of arguments: they are in the stored call, whose id it names.
        "an approval holds for other arguments",
        "each approval for its call",
        replaces(tool_call, "response_to", _any_approval),
        replaces(client_requests, "response_to", _any_approval),
    ),
    mutant(
        "only the first page of the invocations that wait is looked at",
        "longest waits",
        rewrites(InvocationRecords, "all_invocations", ("last = found[-1]", "return")),
    ),
    # ----- what the engine is asked for
    mutant("a result that is too large is asked for again", "too large is final", _retried),
    mutant(
        "local activities have no limit",
        "short local activities",
        rewrites(
            TemporalRuntime, "_stored", ("seconds=self._limits.local_commit_timeout", "hours=1")
        ),
    ),
    mutant(
        "local activities are tried again where they are",
        "short local activities",
        rewrites(TemporalRuntime, "_stored", ("maximum_attempts=1", "maximum_attempts=0")),
    ),
    mutant(
        "errors are not cut",
        "short failures",
        replaces(converter, "storable", lambda text, _room=None: text),
    ),
    mutant(
        "the causes of errors are not cut off",
        "short failures",
        rewrites(converter, "shortened", ("if room.causes else None", "")),
    ),
    # ----- continuing as new
    mutant(
        "the next run does not know which answers were taken",
        "answers over a roll",
        wraps(Inbox, "restore", _no_answers_kept),
    ),
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
    # ----- user code that stops its worker
    mutant(
        "a thread that outlives its step keeps its place",
        "threads replaced",
        replaces(UserCodeThreads, "left", ignored),
    ),
    mutant(
        "what a callback of user code raises ends the event loop",
        "ended loops",
        replaces(event_loop, "keep_running", lambda _loop, **_options: None),
    ),
    mutant(
        "the code of a step cancels other steps",
        "steps beside cancelled ones",
        replaces(CodeTask, "cancel", asyncio.Task.cancel),
    ),
    mutant(
        "nobody counts the workers that a body ends",
        "lost tasks",
        replaces(LostTasks, "_note", does_nothing),
    ),
    mutant(
        "a task that has failed counts as one that has lost its worker",
        "failed tasks",
        replaces(LostTasks, "_end", does_nothing),
    ),
    mutant(
        "a worker whose event loop is blocked keeps its steps",
        "blocked loops",
        replaces(UserCodeLoop, "_give_back_all", ignored),
    ),
    # ----- names
    mutant(
        "another answer under a taken id counts as the same",
        "same id, same answer",
        replaces(Inbox, "_compare", lambda _self, _answer: None),
    ),
    mutant(
        "an answer without a name gets one that a sender has chosen",
        "names of answers apart",
        replaces(Inbox, "_is_known", lambda _self, _name: False),
    ),
    mutant(
        "a sender may name its answer as the loop does",
        "reserved names",
        replaces(pause, "is_reserved", lambda _name: False),
    ),
    mutant(
        "an invocation may have the name of a lane of another",
        "names of invocations apart",
        replaces(invocations, "_DERIVED", re.compile("(?!)")),
    ),
    mutant(
        "a run as a tool is whoever's wants one",
        "runs as tools",
        replaces(opening, "check_request", does_nothing),
    ),
    mutant(
        "a sender's metadata is taken for the runtime's",
        "metadata of the runtime",
        replaces(messages, "check_marks", ignored),
    ),
    # ----- who may know and do what
    mutant(
        "a user is told the instructions of the agents",
        "prompts for operators",
        wraps(agents, "_tree", lambda original, agent, **_: original(agent, prompts=True)),
    ),
    mutant(
        "a session is made of events with marks of the runtime",
        "marks of restored events",
        replaces(restored, "runtime_marks", lambda _metadata: []),
    ),
    mutant(
        "a web page can ask at a port of Temporal's HTTP API",
        "blocked ports",
        replaces(server, "BLOCKED_PORTS", ()),
    ),
    # ----- what one sender may cost others
    mutant(
        "a body is read however many values it has",
        "values are counted",
        replaces(limits._LimitedBody, "_has_many", lambda _self, _chunk: False),
    ),
    mutant(
        "answers that nobody reads are not counted",
        "unread answers",
        replaces(limits.OpenLimit, "reserve", lambda *_: True),
    ),
    mutant(
        "an invented token takes from a true one",
        "true tokens apart",
        replaces(limits, "_sender", lambda scope, _key: f"answers at {scope['client'][0]}"),
    ),
    mutant(
        "events do not count in what a user has stored",
        "stored bytes",
        wraps(Head, "appended", lambda original, *given: original(*given[:-1], 0)),
    ),
    # ----- what is lost without a word
    mutant(
        "a file that was deleted is written on",
        "file at its path",
        replaces(FilesAtPaths, "check", ignored),
    ),
    mutant(
        "of what both have added to a list one addition is stored",
        "additions kept",
        rewrites(state_merge, "_merge", ("current + written[len(list_before) :]", "list(written)")),
    ),
    mutant(
        "the options of an answer are dropped",
        "options of answers",
        replaces(LoopState, "reconfigure", lambda _self, _options: None),
    ),
    mutant(
        "every call by the name of a request is taken for one",
        "control names shown",
        replaces(contents, "_is_control", _by_name_alone),
    ),
    mutant(
        "an app is offered although its workers ended long ago",
        "apps that are served",
        rewrites(SessionLog, "served_apps", (" if one.update_time >= since", "")),
    ),
    *WAITING,
    *IDENTITY,
]
