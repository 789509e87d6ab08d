"""The connections between a run's processes, which the fault injector breaks."""

from enum import StrEnum

SQLITE, POSTGRES = "sqlite", "postgres"
STORES = (SQLITE, POSTGRES)


class Link(StrEnum):
    """Who is connected to whom."""

    WORKER_TEMPORAL = "worker-temporal"
    WORKER_STORE = "worker-store"
    WORKER_MODEL = "worker-model"
    CLIENT_TEMPORAL = "client-temporal"
    CLIENT_STORE = "client-store"


FIRST = (Link.WORKER_TEMPORAL, Link.WORKER_STORE)
"""Over these the acknowledgements of commits and steps come, so they are broken more often."""


def links_of(store: str) -> tuple[Link, ...]:
    """Those of a run on this store; no network leads to a file."""
    return tuple(link for link in Link if store == POSTGRES or not link.endswith("-store"))
