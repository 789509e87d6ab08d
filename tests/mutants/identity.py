"""Seeded bugs by which one thing is taken for another: sessions, runs, answers, releases."""

from typing import Any

from durable_adk.activities.commit import session_cache, staleness, workflow_records
from durable_adk.activities.invocation import take_over
from durable_adk.activities.tool import tool_call
from durable_adk.client import invocation_client
from durable_adk.client.invocations import Invocations
from durable_adk.client.lease_owners import LeaseOwners
from durable_adk.context import activity
from durable_adk.flows.runtime import Inbox
from durable_adk.json_values import JsonModel
from durable_adk.sessions.in_memory_session_service import _MemoryTables
from durable_adk.sessions.log.head import Head
from durable_adk.tools import function_tool
from durable_adk.wire.checkpoint import Checkpoint
from durable_adk.workflows import invocation as workflows
from tests.mutants.mutant import (
    does_nothing,
    ignored,
    mutant,
    replaces,
    rewrites,
    rewritten,
)


def _strict(cls: Any, text: str | bytes) -> Any:
    return cls.model_validate_json(text, extra="forbid")


def _unexplained(cls: Any, text: str | bytes) -> Any:
    return cls.model_validate_json(text, extra="ignore")


IDENTITY = [
    # ----- sessions
    mutant(
        "a run goes on in another session of the name of its own",
        "sessions of one name apart",
        replaces(Head, "require_created_for", ignored),
    ),
    mutant(
        "a call's key is that of the same call in a session that was deleted",
        "keys of sessions apart",
        replaces(activity.StepScope, "incarnation", []),
    ),
    mutant(
        "nobody remembers the epochs of a session that was deleted",
        "epochs over a deletion",
        replaces(_MemoryTables, "tombstone", ignored),
    ),
    mutant(
        "a session is known by its events' ids",
        "session made anew in the cache",
        rewrites(session_cache, "_verified", ("entry.creation != creation", "False")),
    ),
    mutant(
        "what one session lacks stops everybody",
        "one session stops itself",
        rewrites(staleness.StalenessCheck, "check", ("len(users) > 1", "users")),
    ),
    mutant(
        "a session that was made anew counts as an older one",
        "session made anew stops nobody",
        replaces(staleness, "_predates", lambda _creation, _one: True),
    ),
    mutant(
        "a result that cannot be read stops everybody",
        "unreadable says nothing",
        replaces(
            staleness,
            "read_record",
            rewritten(workflow_records.read_record, ("except Exception", "except LookupError")),
        ),
    ),
    mutant(
        "what completes on an older store ends what is known of it",
        "older store stays older",
        rewrites(staleness.StalenessCheck, "_look", ("if self._lacking:", "if False:")),
    ),
    mutant(
        "only completed invocations say that a store is older",
        "each invocation testifies",
        replaces(workflow_records, "_of_history", does_nothing),
    ),
    # ----- runs
    mutant(
        "a workflow that has taken a lease owner's id counts as the lease owner",
        "lease owners by their runs",
        rewrites(
            LeaseOwners,
            "is_alive",
            (" or description.raw_info.first_run_id != parsed.first_run_id", ""),
        ),
    ),
    mutant(
        "an interrupt ends whatever workflow has the id",
        "interrupts by their runs",
        rewrites(LeaseOwners, "interrupt", (", first_execution_run_id=parsed.first_run_id", "")),
    ),
    mutant(
        "an invocation that has ended is started again",
        "started once",
        rewrites(Invocations, "start", ("REJECT_DUPLICATE", "ALLOW_DUPLICATE")),
    ),
    mutant(
        "a run waits for what it began itself",
        "no waiting for itself",
        rewrites(take_over, "free_session", ("active.lease_owner != step.lease_owner and ", "")),
    ),
    mutant(
        "a workflow that is reset begins another invocation",
        "reset",
        replaces(workflows, "_named", lambda request: request),
    ),
    mutant(
        "who follows a run that is reset is told that it was terminated",
        "reset",
        replaces(Invocations, "after_reset", does_nothing),
    ),
    # ----- answers
    mutant(
        "a no counts only while the tool requires confirmation",
        "denied",
        replaces(tool_call, "is_denied", lambda *_args, **_options: False),
    ),
    mutant(
        "an approval is for whatever arguments the call has",
        "approved as shown",
        replaces(tool_call, "is_as_shown", lambda *_: True),
    ),
    mutant(
        "user code gets the events that all steps read",
        "own events",
        replaces(activity, "own_copy", lambda event: event),
    ),
    mutant(
        "a no to a callback is for the tool to read",
        "denied to a plugin",
        replaces(tool_call, "record_requester", ignored),
    ),
    mutant(
        "a function runs that does not know of a no",
        "denied through another tool",
        replaces(function_tool, "rejection", ignored),
    ),
    mutant(
        "the next run does not know what answers said",
        "same answer over a roll",
        replaces(Inbox, "know", ignored),
    ),
    mutant(
        "an answer that is sent again is another one",
        "answers sent again",
        rewrites(invocation_client, "judge", ("item.event.id in names", "False")),
    ),
    # ----- releases
    mutant(
        "what a newer release adds is refused",
        "newer fields",
        replaces(JsonModel, "from_json", classmethod(_strict)),
    ),
    mutant(
        "an invocation fails whose place only a newer release can read",
        "newer places",
        replaces(Checkpoint, "from_json", classmethod(_unexplained)),
    ),
]
