"""Draws the faults of a run from its seed."""

import random
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from campaign.links import FIRST, Link


class Kind(StrEnum):
    """What is done to the processes of a run."""

    KILL_WORKER = "kill_worker"
    KILL_ALL_WORKERS = "kill_all_workers"
    STOP_WORKER = "stop_worker"
    """SIGTERM, as at a deploy; in half of the cases SIGKILL while it still ends (F43)."""
    KILL_CLIENT = "kill_client"
    FREEZE_WORKER = "freeze_worker"
    """SIGSTOP, longer than a heartbeat may be missing; then SIGCONT: a zombie."""
    KILL_SERVER = "kill_server"
    FREEZE_SERVER = "freeze_server"
    """SIGSTOP for the Temporal server, then SIGCONT: it is slow, without an error (F22)."""
    STORE_OUTAGE = "store_outage"
    """SQLite's lock is held; PostgreSQL is killed and started again."""
    CUT = "cut"
    BLACKHOLE = "blackhole"
    DROP_REPLIES = "drop_replies"
    FREEZE_CONNECTIONS = "freeze_connections"
    UNHEARD = "unheard"
    """Workers are cut off from Temporal, commit on, and are killed: no commit is reported."""
    USURP = "usurp"
    """The workflow of a running tool is terminated while its worker is frozen, and the session's
    next message takes over: what the worker commits when it wakes has to be refused."""
    TERMINATE = "terminate"
    """An operator terminates a workflow, wherever it is."""
    DELETE = "delete"
    """An operator deletes one that runs, with its history."""
    RESET = "reset"
    """An operator resets one, to its first task or to its last."""
    FORGE = "forge"
    """Somebody sends signals by hand: unreadable ones, and answers under names that are the
    loop's."""


class Fault(NamedTuple):
    """One fault: when it is due, and how it is to be done."""

    at: float
    """Seconds after the start."""
    kind: Kind
    seconds: float
    """How long it lasts, where it lasts."""
    pick: float
    """Which process or connection, from 0 to 1."""
    link: Link | None = None
    """Whose connections are broken, if any are."""


WEIGHTS = {
    Kind.KILL_WORKER: 40,
    Kind.KILL_ALL_WORKERS: 5,
    Kind.STOP_WORKER: 6,
    Kind.KILL_CLIENT: 14,
    Kind.FREEZE_WORKER: 9,
    Kind.KILL_SERVER: 7,
    Kind.FREEZE_SERVER: 4,
    Kind.STORE_OUTAGE: 7,
    Kind.CUT: 8,
    Kind.BLACKHOLE: 3,
    Kind.DROP_REPLIES: 5,
    Kind.FREEZE_CONNECTIONS: 1,
    Kind.UNHEARD: 3,
    Kind.USURP: 3,
    Kind.TERMINATE: 2,
    Kind.DELETE: 2,
    Kind.RESET: 6,
    Kind.FORGE: 6,
}
MINIMUM = {
    Kind.KILL_WORKER: 6,
    Kind.KILL_ALL_WORKERS: 1,
    Kind.STOP_WORKER: 4,
    Kind.KILL_CLIENT: 2,
    Kind.FREEZE_WORKER: 3,
    Kind.KILL_SERVER: 2,
    Kind.FREEZE_SERVER: 2,
    Kind.STORE_OUTAGE: 2,
    Kind.CUT: 4,
    Kind.BLACKHOLE: 3,
    Kind.DROP_REPLIES: 4,
    Kind.UNHEARD: 4,
    Kind.USURP: 4,
    Kind.TERMINATE: 2,
    Kind.DELETE: 2,
    Kind.RESET: 4,
    Kind.FORGE: 4,
}
"""Least number of each kind in a run of a minute, for every seed."""
HURRY = 1.0
"""A worker that is stopped is killed after so many seconds, if it is given fewer than these."""
LASTING = {
    Kind.STOP_WORKER: (0.0, 2 * HURRY),
    Kind.FREEZE_WORKER: (1.0, 5.0),
    Kind.STORE_OUTAGE: (0.3, 3.0),
    Kind.BLACKHOLE: (0.5, 3.0),
    Kind.DROP_REPLIES: (0.3, 1.5),
    Kind.KILL_SERVER: (0.0, 1.0),
    Kind.FREEZE_SERVER: (1.0, 5.0),
    Kind.UNHEARD: (0.8, 1.8),
    Kind.USURP: (1.0, 4.0),
}
NETWORK = (Kind.CUT, Kind.BLACKHOLE, Kind.DROP_REPLIES, Kind.FREEZE_CONNECTIONS)
"""What is done to links."""
ALL_LINKS = 20.0
"""Seconds in which each link is broken once at least."""
GAP = 1.0
"""Seconds between two faults, on average."""


def schedule(
    seed: int,
    seconds: float,
    gap: float = GAP,
    allowed: Collection[Kind] = tuple(Kind),
    links: Sequence[Link] = tuple(Link),
) -> list[Fault]:
    """The faults of a run, by time; the same for the same arguments."""
    dice = random.Random(seed)  # noqa: S311 - dice are no secrets
    share = min(1.0, seconds / 60)
    kinds = [
        kind
        for kind, least in MINIMUM.items()
        if kind in allowed
        for _ in range(ceil(least * share))
    ]
    more = max(0, round(seconds / gap) - len(kinds))
    weights = {kind: weight for kind, weight in WEIGHTS.items() if kind in allowed}
    kinds += dice.choices(list(weights), list(weights.values()), k=more)
    faults = [
        Fault(
            dice.uniform(0, seconds),
            kind,
            dice.uniform(*LASTING.get(kind, (0.0, 0.0))),
            dice.random(),
        )
        for kind in kinds
    ]
    hands = _dealt(links, dice)
    return [
        fault._replace(link=next(hands)) if fault.kind in NETWORK else fault
        for fault in sorted(faults)
    ]


def _dealt(links: Sequence[Link], dice: random.Random) -> Iterator[Link]:
    """Each link once, in any order, then the first ones once more; and so on, without end."""
    first = [link for link in links if link in FIRST]
    while True:
        yield from dice.sample(links, len(links))
        yield from dice.sample(first, len(first))


def least(seconds: float, allowed: Collection[Kind] = tuple(Kind)) -> dict[Kind, int]:
    """How many of each kind must really have been done; some find nothing to be done to."""
    share = min(1.0, seconds / 60)
    return {
        kind: max(1, int(number * share / 2)) for kind, number in MINIMUM.items() if kind in allowed
    }


def least_links(
    seconds: float, links: Collection[Link], allowed: Collection[Kind] = tuple(Kind)
) -> dict[Link, int]:
    """Return how often each link must have been broken at least."""
    broken = seconds >= ALL_LINKS and not {*NETWORK}.isdisjoint(allowed)
    return dict.fromkeys(links, int(broken))
