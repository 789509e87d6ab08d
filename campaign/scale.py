"""The size of a run, and the faults that it may have."""

from dataclasses import dataclass
from enum import StrEnum

from campaign.schedule import Kind


@dataclass(frozen=True)
class Scale:
    """Processes and work of a run."""

    workers: int
    clients: int
    sequences: int
    """Sessions at a time, of each client."""
    turns: int
    """Invocations of a session, one after the other."""
    faults: tuple[Kind, ...] = tuple(Kind)
    sessions: int | None = None
    """Of each sequence; None: one after the other until the faults are over."""

    @property
    def messages(self) -> int | None:
        """All that clients send; None: as many as there is time for."""
        return self.sessions and self.sessions * self.clients * self.sequences * self.turns

    @property
    def everything(self) -> bool:
        """Whether all kinds of faults are done, so that all that they lead to must be seen."""
        return set(self.faults) == set(Kind)


class Size(StrEnum):
    """The scales by name."""

    USUAL = "usual"
    """Few sessions, and all kinds of faults."""
    CROWD = "crowd"
    """500 invocations over 50 sessions at once, while workers and the store are killed."""


SCALES = {
    Size.USUAL: Scale(workers=3, clients=2, sequences=4, turns=3),
    Size.CROWD: Scale(
        workers=4,
        clients=2,
        sequences=25,
        turns=10,
        sessions=1,
        faults=(Kind.KILL_WORKER, Kind.STORE_OUTAGE),
    ),
}
