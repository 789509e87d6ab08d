"""What an invocation carries over when its workflow continues as new (design D10).

The argument of the next workflow run is a `Cursor` of a few hundred bytes. The loop's state is a
`Checkpoint`, written to the session store before: the cursor stays small, however many calls wait.

As in `payloads`, fields are only ever added: a place that an older version has written is read.
"""

import base64
import hashlib
import zlib
from typing import Any, Self

from google.genai import types
from pydantic import Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from durable_adk.errors import NewerReleaseError
from durable_adk.json_model import JsonModel
from durable_adk.sessions.base_session_service import InvocationRecord
from durable_adk.sessions.session import SessionKey
from durable_adk.wire.effect import Effect
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, parsed
from durable_adk.wire.steps import AgentRun, Ending, Opened

CHECKPOINT, JOURNAL = "place", "trace"
"""Kinds of the notes in the session store."""


class Cursor(JsonModel):
    """The argument of every run of an invocation's workflow but the first."""

    app: str
    user: str
    session: str
    invocation_id: str
    place: int
    """Number of the place to go on from."""
    digest: str
    """Of what is written there: an attempt that comes late may write another beside it."""

    @property
    def key(self) -> SessionKey:
        """The session."""
        return SessionKey(self.app, self.user, self.session)

    @classmethod
    def is_one(cls, raw: Any) -> bool:
        """Whether a workflow's argument is a cursor, and no request."""
        return isinstance(raw, dict) and "place" in raw and "message" not in raw

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Read a cursor, or raise InvalidRequestError naming each bad field."""
        return parsed(cls, raw, "cursor", extra="ignore")


class WaitingPlace(JsonModel):
    """A call that waits for somebody outside."""

    call_id: str
    name: str
    author: str
    on_deadline: str
    due: float | None = None
    lane: str


class PausesPlace(JsonModel):
    """What waits, and what has been answered."""

    paused: bool = False
    waiting: list[WaitingPlace] = Field(default_factory=list[WaitingPlace])
    answered: list[str] = Field(default_factory=list[str])
    delivered: list[str] = Field(default_factory=list[str])
    unread: list[InvocationAnswer] = Field(default_factory=list[InvocationAnswer])
    steered: list[str] = Field(default_factory=list[str])
    """Messages that wait to be heard, by name: the store has them."""
    outcomes: dict[str, str | None] = Field(default_factory=dict[str, str | None])
    """Of the latest answers, so that one that is sent again is known."""
    answers: int = 0
    heard: list[str] = Field(default_factory=list[str])
    """Messages that were asked for, by name."""
    digests: dict[str, str] = Field(default_factory=dict[str, str])
    """What the answers say whose outcomes are known; not of those that an earlier version took."""

    @model_serializer(mode="wrap")
    def _short(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without what is empty: an earlier version reads a place that needs nothing newer."""
        whole = handler(self)
        return {k: v for k, v in whole.items() if v or k not in ("heard", "digests")}


class Checkpoint(JsonModel):
    """Where the loop of an invocation stands between two steps."""

    number: int
    """1 for the first, and so on."""
    request: InvocationRequest
    """Without its message, which is in the session."""
    opened: Opened
    """As recorded when the invocation was opened, without the state."""
    record: InvocationRecord
    """As it was then."""
    epoch: int
    revision: int
    opened_at: float = 0.0
    """Seconds since the epoch."""
    used: dict[str, int] = Field(default_factory=dict[str, int])
    """See `flows.spending`."""
    counters: dict[str, int]
    """Numbers that the loop counts; see `Invocation.COUNTERS`."""
    last_event_id: str | None = None
    final_text: str = ""
    left_calls: bool = False
    local_state: dict[str, Any] = Field(default_factory=dict[str, Any])
    lanes: dict[str, int]
    """By prefix, how many ids each open lane has given out."""
    frame: dict[str, Any]
    """See `loop_context.Frame`."""
    bodies: list[str] = Field(default_factory=list[str])
    """Names of the traces of the custom agents' bodies that are under way."""
    pauses: PausesPlace
    runs_begun: int = 0
    """How many runs of agents have begun."""
    runs: list[AgentRun] = Field(default_factory=list[AgentRun])
    """Those of agents of which nobody was told yet that they have ended."""

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """See base class.

        Raises:
            NewerReleaseError: This release cannot read it.
        """
        try:
            return super().from_json(text)
        except ValidationError as error:
            raise NewerReleaseError(
                "Where the invocation stands was written by a newer release of durable_adk: start "
                "that release's workers again."
            ) from error


class SaveCheckpointStep(JsonModel, Effect[str | None]):
    """Write down where an invocation stands; what is written once stays.

    Its result is the digest of what is written; None: an earlier version has written it.
    """

    key: SessionKey
    invocation_id: str
    number: int
    digest: str
    place: str
    """A packed `Checkpoint`."""


class SaveJournalStep(JsonModel, Effect[None]):
    """Write down what a custom agent's body was given in a run."""

    key: SessionKey
    invocation_id: str
    number: int
    """Of the run."""
    index: int
    """Of the part."""
    body: str
    trace: str
    """Packed: the body's name, and entries."""


class ReadCheckpointStep(JsonModel, Effect["LoadedCheckpoint"]):
    """Go on from a place."""

    cursor: Cursor
    holder: str


class LoadedCheckpoint(JsonModel):
    """All that the loop knows when it goes on."""

    ending: Ending | None = None
    """If the invocation was ended meanwhile, by whoever took its session over."""
    place: str = ""
    """A packed `Checkpoint`."""
    message: types.Content | None = None
    """The user's."""
    state: dict[str, Any] | None = None
    """The session's, if custom agents are there to read it."""


class ReadJournalStep(JsonModel, Effect["JournalPage"]):
    """Read what the bodies of custom agents were given in earlier runs."""

    key: SessionKey
    invocation_id: str
    bodies: list[str]
    """Whose traces: of bodies that have not ended."""
    upto: int
    """Number of the last run."""
    after: str | None = None
    """Name of the note before the page."""


class JournalPage(JsonModel):
    """Some of it, in order."""

    traces: list[str]
    """Packed."""
    next: str | None = None
    """Of the next page's step; None: this is the last."""
    ending: Ending | None = None
    """If the invocation has ended meanwhile, and its notes are gone."""


def digest(text: str) -> str:
    """A name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def packed(text: str) -> str:
    """JSON text, compressed, for the ways on which it would be in a history."""
    return base64.b64encode(zlib.compress(text.encode())).decode()


def unpacked(text: str) -> str:
    """The JSON text that `packed` was given."""
    return zlib.decompress(base64.b64decode(text)).decode()
