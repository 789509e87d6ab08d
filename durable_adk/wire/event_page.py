"""Pages of a session's events, for clients without access to the session store."""

from typing import Any, Self

from pydantic import Field

from durable_adk.events.event import Event
from durable_adk.json_values import JsonModel, check_id
from durable_adk.sessions.records import Status
from durable_adk.sessions.session import NamesSession
from durable_adk.wire.effect import Effect
from durable_adk.wire.messages import parsed

SESSION_EVENTS = "SessionEvents"
"""The type name of the workflow."""
MAX_PAGE_BYTES = 1_900_000
"""Maximum size of a page in bytes; with the rest of its payload, it is below Temporal's 2 MiB."""
MAX_WAIT = 20.0
"""Maximum seconds for which a page waits for events."""


class ReadSessionEventsStep(NamesSession, Effect["EventPage"]):
    """The argument of workflow type ``SessionEvents``: plain JSON from any Temporal client.

    Keys may be camelCase or snake_case. `docs/use/temporal-clients.md` describes it field by field.
    """

    invocation_id: str | None = None
    """Only events of this invocation; None: all events of the session."""
    after: int = Field(default=0, ge=0)
    """The cursor: events up to this sequence number are skipped."""
    limit: int = Field(default=100, ge=1, le=1_000)
    """Maximum number of events."""
    max_bytes: int = Field(default=200_000, ge=1_000, le=MAX_PAGE_BYTES)
    """Maximum size of the events as JSON; a larger event is described by its size. The default fits
    below the size from which payloads go to external storage."""
    wait: float = Field(default=0.0, ge=0.0, le=MAX_WAIT)
    """Seconds to wait for an event if there is none yet."""

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Read a request, or raise InvalidRequestError naming each bad field."""
        step = parsed(cls, raw, "request for events")
        step.check_ids()
        step.invocation_id = step.invocation_id and check_id(step.invocation_id, "invocation_id")
        return step


class PagedEvent(JsonModel):
    """An event with its sequence number in the session."""

    seq: int
    event: Event | None = None
    """The event; None: it is larger than a whole page may be."""
    id: str | None = None
    size: int | None = None
    """Id and size in bytes of an event that is too large."""


class EventPage(JsonModel):
    """The result of workflow type ``SessionEvents``."""

    events: list[PagedEvent] = Field(default_factory=list[PagedEvent])
    """The events, in order."""
    next: int
    """`after` of the next page."""
    more: bool = False
    """Whether there are more events already."""
    status: Status | None = None
    """Status of the requested invocation; None: it is not open yet."""
    complete: bool = False
    """Whether that invocation has ended, and this page has its last event."""
