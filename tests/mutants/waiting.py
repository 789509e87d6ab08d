"""Seeded bugs in how messages wait for their sessions, and in how ends do."""

from typing import Any

from durable_adk.activities import attempt
from durable_adk.activities.invocation import close, pause, queue, take_over
from durable_adk.sessions.in_memory_session_service import _MemoryTables
from durable_adk.sessions.log import pause as log_pause, queue as log_queue
from durable_adk.workflows.temporal_runtime import TemporalRuntime
from tests.mutants.mutant import does_nothing, ignored, mutant, replaces, rewrites


def _all(tables: Any, key: Any, now: float, *, limit: int | None = None) -> Any:
    return tables.tickets(key, live_at=now)[:limit]


async def _only_once(deps: Any, step: Any, effect: Any) -> Any:
    return await effect(deps, step)


WAITING = [
    # ----- messages
    mutant(
        "any number of messages may wait",
        "bounded queues",
        replaces(log_queue, "_check_bounds", ignored),
    ),
    mutant(
        "all who wait ask as often as who is next",
        "rare attempts",
        replaces(attempt, "MAX_BUSY_DELAY", 0.1),
    ),
    mutant(
        "attempts wait in place whose turn is far away",
        "few attempts in place",
        replaces(queue, "IN_PLACE_TICKETS", 10**9),
    ),
    mutant(
        "any number of attempts wait in place",
        "room for work",
        rewrites(queue.InPlaceWaits, "attempt", ("self._count >= deps.max_in_place", "False")),
    ),
    mutant(
        "a look at one ticket reads all of them", "small looks", replaces(log_queue, "live", _all)
    ),
    mutant(
        "an answer reads its session before it asks for the lease",
        "lease first",
        replaces(pause, "check_turn", does_nothing),
    ),
    mutant(
        "who has withdrawn is remembered for ever",
        "withdrawn for a while",
        replaces(_MemoryTables, "remove_withdrawn", ignored),
    ),
    # ----- ends
    mutant(
        "the end of a paused invocation waits for its session",
        "paused ends at once",
        rewrites(
            log_pause,
            "close",
            (
                "if record.status is Status.PAUSED:",
                "if reason is None and record.status is Status.PAUSED:",
            ),
        ),
    ),
    mutant(
        "what seals a paused invocation is under the epoch of its pause",
        "paused ends at once",
        rewrites(log_pause, "_sealed", (".leased(record.invocation_id, None, now)", "")),
    ),
    mutant(
        "a paused invocation that is abandoned is not sealed",
        "paused is sealed",
        rewrites(
            close,
            "_sealed",
            ("_waits(record):", "_waits(record) and step.status is not Status.ABANDONED:"),
        ),
    ),
    mutant(
        "nobody seals what a lease owner that is gone has ended",
        "sealed for who is gone",
        replaces(take_over, "_seal_for", does_nothing),
    ),
    mutant(
        "what seals for a process waits for it",
        "sealed for a process",
        rewrites(take_over, "_seal_for", ("ttl_of(ticket.lease_owner) is None and ", "")),
    ),
    mutant(
        "an interrupting message opens before what is sealed",
        "seals first",
        rewrites(log_pause, "close", (", before_all=True", "")),
    ),
    mutant(
        "only an opening ends a lease owner that is gone",
        "ended by who waits",
        replaces(take_over, "retry_when_freed", _only_once),
    ),
    mutant(
        "a cancelled run does not wait for its steps to end",
        "interrupted and over",
        rewrites(TemporalRuntime, "_activity", ("WAIT_CANCELLATION_COMPLETED", "TRY_CANCEL")),
    ),
]
