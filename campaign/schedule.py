"""Which faults a seed stands for."""

import random
from collections.abc import Collection
from enum import StrEnum
from math import ceil
from typing import NamedTuple


class Kind(StrEnum):
    """What is done to the processes of a run."""

    KILL_WORKER = "kill_worker"
    KILL_ALL_WORKERS = "kill_all_workers"
    KILL_CLIENT = "kill_client"
    FREEZE_WORKER = "freeze_worker"
    """SIGSTOP, longer than a heartbeat may be missing; then SIGCONT: a zombie."""
    KILL_SERVER = "kill_server"
    STORE_OUTAGE = "store_outage"
    """SQLite's lock is held; PostgreSQL is killed and started again."""
    CUT = "cut"
    BLACKHOLE = "blackhole"
    DROP_REPLIES = "drop_replies"
    FREEZE_CONNECTIONS = "freeze_connections"
    UNHEARD = "unheard"
    """Workers are cut off from Temporal, commit on, and are killed: nobody hears of the commits."""
    USURP = "usurp"
    """The workflow of a running tool is terminated while its worker is frozen, and the session's
    next message takes over: what the worker commits when it wakes has to be refused."""


class Fault(NamedTuple):
    """One fault: when it is due, and how it is to be done."""

    at: float
    """Seconds after the start."""
    kind: Kind
    seconds: float
    """How long it lasts, where it lasts."""
    pick: float
    """Which process or link, from 0 to 1."""


WEIGHTS = {
    Kind.KILL_WORKER: 40,
    Kind.KILL_ALL_WORKERS: 5,
    Kind.KILL_CLIENT: 14,
    Kind.FREEZE_WORKER: 9,
    Kind.KILL_SERVER: 7,
    Kind.STORE_OUTAGE: 7,
    Kind.CUT: 8,
    Kind.BLACKHOLE: 3,
    Kind.DROP_REPLIES: 5,
    Kind.FREEZE_CONNECTIONS: 1,
    Kind.UNHEARD: 3,
    Kind.USURP: 3,
}
MINIMUM = {
    Kind.KILL_WORKER: 6,
    Kind.KILL_ALL_WORKERS: 1,
    Kind.KILL_CLIENT: 2,
    Kind.FREEZE_WORKER: 3,
    Kind.KILL_SERVER: 2,
    Kind.STORE_OUTAGE: 2,
    Kind.CUT: 2,
    Kind.BLACKHOLE: 1,
    Kind.DROP_REPLIES: 4,
    Kind.UNHEARD: 4,
    Kind.USURP: 4,
}
"""Of each kind in every run of a minute, whatever the seed."""
LASTING = {
    Kind.FREEZE_WORKER: (1.0, 5.0),
    Kind.STORE_OUTAGE: (0.3, 3.0),
    Kind.BLACKHOLE: (0.5, 3.0),
    Kind.DROP_REPLIES: (0.3, 1.5),
    Kind.KILL_SERVER: (0.0, 1.0),
    Kind.UNHEARD: (0.8, 1.8),
    Kind.USURP: (1.0, 4.0),
}
GAP = 1.0
"""Seconds between two faults, on average."""


def schedule(
    seed: int, seconds: float, gap: float = GAP, allowed: Collection[Kind] = tuple(Kind)
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
    return sorted(faults)


def least(seconds: float, allowed: Collection[Kind] = tuple(Kind)) -> dict[Kind, int]:
    """How many of each kind must really have been done; some find nothing to be done to."""
    share = min(1.0, seconds / 60)
    return {
        kind: max(1, int(number * share / 2)) for kind, number in MINIMUM.items() if kind in allowed
    }
