"""The messages of a campaign's clients; each has one expected outcome.

Which app answers what is in `apps`, what their tools do in `tools`.
"""

import hashlib
import random
from enum import StrEnum
from typing import NamedTuple

from durable_adk.wire.messages import WhenBusy

ONCE = "once"
"""The app whose tool runs once at most: its agent may learn that the outcome is unknown."""
FILES, MEMORY, SIGN_IN, POISON = "files", "memory", "sign_in", "poison"
RAISING = "raising"
"""The app whose code raises what is no `Exception`, at a place of its own in each turn."""
SLOW = "slow"
"""The app whose invocations are cancelled, terminated, interrupted, refused and steered."""
GRAPH = "graph"
"""The app whose graph has branches, a join, a question, an agent and a parallel worker."""
CALLER = "caller"
"""The app whose node calls others."""
STEADY = (
    "plain",
    "scoped",
    "triple",
    "transfer",
    "parallel",
    "count",
    "steps",
    ONCE,
    "approval",
    "failing",
    "budget",
    FILES,
    MEMORY,
    SIGN_IN,
    POISON,
    GRAPH,
    CALLER,
)
"""The apps whose invocations always end alike."""
CROWD = "crowd"
"""The app that many messages come to at once, of which a queue that is full refuses some."""
DENIED = "denied"
"""The app whose calls are all denied; its second release requests no confirmation."""
CLEARED = "cleared"
"""The app whose sessions are deleted and created again while invocations run in them."""
FREE = (SLOW, DENIED, CLEARED, RAISING)
"""The apps whose invocations may end in several ways, each of which has checks of its own."""
KINDS = (*STEADY, CROWD, *FREE)
DEALT = (*STEADY, RAISING)
"""The apps that the sequences of all clients are dealt, and draw from."""
BURST = 18
"""Messages that come to a session of `CROWD` at once."""
QUEUED = 12
"""Of them may wait."""
GENERATION = 10
"""Numbers that the turns of a cleared session have between two deletions."""
ADDED = {"charge": "charged", "mark": "marked"}
"""By tool, the list in the state that its calls extend, also those that run at the same time."""
TIMED = 0.2
"""Seconds that code waits whose timer raises."""
PREFIX = "control"
"""How the sessions of the controls are called."""
MARK = "do "
"""How each message begins; the invocation's id follows, and a word of its own."""
WORD = r"\bword-[0-9a-f]{12}\b"
NONCE = r"~[0-9a-f]{8}\b"
"""The numbers in what models say; see `model_stub`."""
SECRET = "sk-campaign-"  # noqa: S105 - a prefix that no file may contain
"""How each secret begins."""
NAP, ENDLESS = 1.5, 3600.0
"""Seconds that the tool of ``slow`` takes, and in a session of `FOR_EVER`."""
CALM = "calm"
"""Who sends and cancels when the faults are over."""
FOR_EVER = f"{SLOW}-{CALM}-for-ever-"
"""How sessions begin whose tool does not end by itself: their invocations end if cancelled."""
RIVALS = (
    *(WhenBusy.STEER, WhenBusy.STEER, WhenBusy.INTERRUPT, WhenBusy.INTERRUPT),
    *(WhenBusy.ENQUEUE, WhenBusy.REJECT),
)
"""What messages want that come while their session is busy."""


class Poison(StrEnum):
    """What the tool of ``poison`` does to its worker, a turn each (F12, F13)."""

    SYSTEM_EXIT = "system_exit"
    """It raises what is no Exception."""
    OBJECT = "object"
    """It returns what no store can keep; so do the next two."""
    DEEP = "deep"
    NAN = "nan"
    LONG_ERROR = "long_error"
    """It raises an exception of 3 MB."""
    BLOCK = "block"
    """It blocks the event loop."""
    EXIT = "exit"
    """It ends the process, but not the second time."""


class Place(StrEnum):
    """Where the code of ``raising`` raises, a turn each (F12)."""

    AWAITED = "awaited"
    """In its tool; so do the next five."""
    TASK = "task"
    TIMER = "timer"
    THREAD = "thread"
    VALUE = "value"
    """Where what the tool returns is read."""
    DESTRUCTOR = "destructor"
    CALLBACK = "callback"
    BODY = "body"
    """In its custom agent, in the workflow's loop; so do the next two."""
    BODY_TASK = "body_task"
    BODY_TIMER = "body_timer"


class Raised(StrEnum):
    """What it raises, by the name of the type."""

    EXIT = "SystemExit"
    INTERRUPT = "KeyboardInterrupt"
    CLOSED = "GeneratorExit"
    CANCELLED = "CancelledError"
    HARM = "Harm"
    """A `BaseException` of the user's own."""


ENDING = [Raised.EXIT, Raised.INTERRUPT]
"""What asyncio raises out of its loop, wherever in it that was raised."""


class Turn(NamedTuple):
    """One message of one session."""

    app: str
    user: str
    session: str
    number: int
    """1, 2 ... within the session."""

    @classmethod
    def of(cls, app: str, user: str, invocation: str) -> "Turn":
        """The turn of an invocation."""
        session, _, number = invocation.rpartition(".")
        return cls(app, user, session, int(number))

    @property
    def invocation(self) -> str:
        """Its id: unique in the run, and the same however often it is sent."""
        return f"{self.session}.{self.number}"

    @property
    def word(self) -> str:
        """A word that no other turn has, and no log may have (I18, I19)."""
        return f"word-{_hash(self.invocation)}"

    @property
    def message(self) -> str:
        """What is sent."""
        return f"{MARK}{self.invocation} {self.word}"

    @property
    def secret(self) -> str:
        """The key that the session's user signs in with; only the credential store keeps it."""
        return f"{SECRET}{_hash(f'secret of {self.session}')}"

    @property
    def poison(self) -> Poison:
        """What the tool of ``poison`` does in this turn; all kinds in so many turns."""
        kinds = list(Poison)
        return kinds[(int(_hash(self.session), 16) + self.number) % len(kinds)]

    @property
    def place(self) -> Place:
        """Where the code of ``raising`` raises in this turn; all places in so many turns."""
        places = list(Place)
        return places[(int(_hash(self.session), 16) + self.number) % len(places)]

    @property
    def raised(self) -> Raised:
        """What it raises there; in a timer, what asyncio does not keep there."""
        timed = self.place in (Place.TIMER, Place.BODY_TIMER)
        return self._dice("raised").choice(ENDING if timed else list(Raised))

    @property
    def course(self) -> int:
        """Which turn of its app's control goes the same way, from 0."""
        if self.app == CROWD:
            return 0  # they come in any order
        return list(Poison).index(self.poison) if self.app == POISON else self.number - 1

    @property
    def approves(self) -> bool:
        """Whether its request is approved; every second one is denied."""
        return self.number % 2 == 1 and self.app != DENIED

    @property
    def cancelled_after(self) -> float | None:
        """Seconds after which its client cancels it; None: never."""
        if self.app != SLOW:
            return None
        dice = self._dice("cancel")
        return dice.uniform(0.2, 2.0) if dice.random() < 0.4 else None

    @property
    def competing_after(self) -> float | None:
        """Seconds after which the session's next message comes beside it; None: when it is over."""
        if self.app != SLOW or self.number % 2 == 0:
            return None
        dice = self._dice("rival")
        return dice.uniform(0.1, 1.5) if dice.random() < 0.5 else None

    @property
    def when_busy(self) -> WhenBusy:
        """What it wants if its session is busy."""
        if self.app != SLOW or self._replace(number=self.number - 1).competing_after is None:
            return WhenBusy.ENQUEUE
        return self._dice("busy").choice(RIVALS)

    def _dice(self, what: str) -> random.Random:
        """Of its id, so the same for each try."""
        return random.Random(f"{self.invocation}/{what}")  # noqa: S311 - dice are no secrets


def courses(app: str, turns: int) -> int:
    """How many turns an app's control has, if a session has so many."""
    return {POISON: len(Poison), RAISING: len(Place), CROWD: 1}.get(app, turns)


def is_control(invocation: str) -> bool:
    """Whether an invocation is a control's."""
    return invocation.startswith(f"{PREFIX}-")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
