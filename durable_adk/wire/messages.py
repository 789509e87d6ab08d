"""What clients send to an invocation and get from it: plain JSON for any Temporal client."""

import hashlib
import re
from enum import StrEnum
from typing import Any, Literal, Self, TypeVar

from google.genai import types
from pydantic import Field, ValidationError

from durable_adk.errors import InvalidRequestError, PayloadTooLargeError
from durable_adk.json_model import JsonModel
from durable_adk.json_values import canonical, check_id, check_json, check_state_key
from durable_adk.sessions.base_session_service import Status
from durable_adk.sessions.session import CHILD_PREFIX, SessionKey
from durable_adk.wire.run_config import RunConfig

W = TypeVar("W", bound=JsonModel)

MAX_RESULT_TEXT = 65_536
"""Characters of the final text that an invocation's result holds; the store has it all."""


class WhenBusy(StrEnum):
    """What a message does while another invocation is active in its session (design D7)."""

    ENQUEUE = "enqueue"
    """Wait for its end, then run."""
    REJECT = "reject"
    """Fail at once with SessionBusyError."""
    INTERRUPT = "interrupt"
    """Ask the active one to end, as `Runner.cancel` does, then run before those that wait."""
    STEER = "steer"
    """Be heard by the active one before its next model call; if there is none, as `ENQUEUE`."""


class ToolRun(JsonModel):
    """That an invocation is an agent's run as a tool of another invocation (OPEN-6)."""

    agent: str
    """Whom the tool wraps."""
    caller: SessionKey
    """The calling session: its state is the start, its artifacts are shared."""
    include_plugins: bool = True


class InvocationRequest(JsonModel):
    """The argument of workflow type ``Invocation``: plain JSON from any Temporal client.

    Keys may be camelCase or snake_case. `docs/temporal-clients.md` describes it field by field.
    """

    app: str
    user: str
    session: str | None = None
    """The session's id; None: a new session named after the invocation."""
    message: str | types.Content
    """The user's message, as text or as ADK's Content."""
    invocation_id: str | None = None
    """A second start with the same id attaches to the first; None: a new id."""
    state_delta: dict[str, Any] = Field(default_factory=dict[str, Any])
    """State changes that ride on the user's event (TRAP-17)."""
    run_config: RunConfig = Field(default_factory=RunConfig)
    create_session: bool = True
    """Whether a missing session is created; Runner says no unless told otherwise (RUN-16)."""
    when_busy: WhenBusy = WhenBusy.ENQUEUE
    tool_run: ToolRun | None = None
    """Set by the runtime for an agent that is used as a tool."""

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Read a request, or raise InvalidRequestError naming each bad field.

        Raises:
            InvalidRequestError: Not an object, unknown or missing fields, unusable ids, no message.
            StateValueError: `state_delta` is not JSON.
            PayloadTooLargeError: The message is larger than one event may be.
        """
        if not isinstance(raw, dict):
            raise InvalidRequestError(
                "The argument of Invocation must be one JSON object with app, user and message; "
                f"got {type(raw).__name__}."
            )
        of_runtime = "toolRun" in raw or "tool_run" in raw  # a parent's, which may be newer
        extra = "ignore" if of_runtime else "forbid"
        return parsed(cls, raw, "invocation request", extra=extra).checked()

    def checked(self) -> Self:
        """The request with its ids stripped and its message as Content; see `parse`."""
        self.app = check_id(self.app, "app")
        self.user = check_id(self.user, "user")
        self.session = self.session and check_id(self.session, "session")
        self.invocation_id = self.invocation_id and check_id(self.invocation_id, "invocation_id")
        check_json(self.state_delta, "state_delta")
        for key in self.state_delta:
            check_state_key(key)
        check_json(self.run_config.custom_metadata, "custom_metadata")
        metadata = canonical(self.run_config.custom_metadata)
        check_size(metadata, "custom_metadata", MAX_METADATA_BYTES)
        self.message = user_content(self.message)
        if self.state_delta:  # it rides on the message's event
            both = self.message.model_dump_json(exclude_none=True) + canonical(self.state_delta)
            check_size(both, "message with its state_delta")
        return self


EXPIRED = ".expired"
"""What the names end with of the answers that deadlines give."""
_RESERVED = re.compile(r"(unnamed|malformed)-\d+$|.*" + re.escape(EXPIRED) + "$", re.DOTALL)


def is_reserved(answer_id: str) -> bool:
    """Whether only the loop names answers so."""
    return _RESERVED.match(answer_id) is not None


class InvocationAnswer(JsonModel):
    """An answer to calls that wait: the argument of signal ``answer`` (design D9).

    Either a whole `message` of function responses, as ADK's clients send, or one call by its id
    with `response` (any JSON object), or with `confirmed` for a confirmation.
    """

    message: types.Content | None = None
    call_id: str | None = None
    response: dict[str, Any] | None = None
    confirmed: bool | None = None
    state_delta: dict[str, Any] = Field(default_factory=dict[str, Any])
    """State changes that ride on the answer's event (TRAP-17)."""
    steers: str | None = None
    """It is no answer: the message of this invocation waits for the active one to hear it."""
    answer_id: str | None = None
    """A second answer with the same id is the first one; None: it is named by its place."""

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Read an answer, or raise InvalidRequestError naming each bad field."""
        answer = parsed(cls, raw, "answer")
        if answer.answer_id is not None:
            answer.answer_id = check_id(answer.answer_id, "answer_id")
        if answer.steers is not None:
            return cls(steers=check_id(answer.steers, "steers"), answer_id=answer.steers)
        given = [answer.response is not None, answer.confirmed is not None]
        if (answer.message is None) == (answer.call_id is None):
            raise InvalidRequestError("Give either message, or call_id with a response.")
        if answer.call_id is not None and sum(given) != 1:
            raise InvalidRequestError("Give call_id with either response or confirmed.")
        check_json(answer.response, "response")
        check_json(answer.state_delta, "state_delta")
        check_size(answer.to_json(), "The answer")
        return answer

    def digest(self) -> str:
        """What it says, in short: the same for the same answer, whatever it is named."""
        said = self.model_dump(mode="json", exclude_none=True, exclude={"answer_id"})
        return hashlib.sha256(canonical(said).encode()).hexdigest()[:16]


def parsed(
    cls: type[W], raw: Any, what: str, *, extra: Literal["ignore", "forbid"] = "forbid"
) -> W:
    """Read a value, or raise InvalidRequestError naming each bad field.

    Args:
        cls: The value's class.
        raw: A JSON object.
        what: How the message names it.
        extra: Whether unknown fields are an error. They are a typing error in what people write,
            and a newer release's in what our own processes write.
    """
    try:
        return cls.model_validate(raw, extra=extra)
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc'])}: {item['msg']}"
            for item in error.errors(include_url=False)
        )
        raise InvalidRequestError(f"The {what} is malformed: {problems}") from None


def user_content(message: str | types.Content) -> types.Content:
    """The user's message as Content of role ``user`` (semantics RUN-20, RUN-21).

    Raises:
        InvalidRequestError: It is empty, or holds function calls. What its function responses
            answer is checked against the session.
        StateValueError: Its text holds characters that cannot be stored.
        PayloadTooLargeError: It is larger than one event may be.
    """
    if isinstance(message, str):
        message = types.Content(parts=[types.Part(text=message)] if message.strip() else [])
    if not message.parts:
        raise InvalidRequestError("message is empty: No parts in the new_message.")
    if any(part.function_call for part in message.parts):
        raise InvalidRequestError("message holds a function_call; only a model may call functions.")
    for index, part in enumerate(message.parts):
        check_json(part.text, f"message.parts[{index}].text")
    content = types.Content(role="user", parts=message.parts)
    check_size(content.model_dump_json(exclude_none=True), "message")
    return content


MAX_BYTES = 1_000_000
"""The largest event, message, state or tool result; the engine's own limit is 2 MiB (1c)."""
MAX_METADATA_BYTES = 100_000


def check_size(text: str, what: str, limit: int = MAX_BYTES) -> None:
    """Raise PayloadTooLargeError when `text` is more than `limit` bytes of UTF-8."""
    size = len(text.encode())
    if size > limit:
        raise PayloadTooLargeError(
            f"{what} is {size:,} bytes; at most {limit:,} fit into one event. "
            "Shorten it, or keep it as an artifact or file and pass its name."
        )


def workflow_id(key: SessionKey, invocation_id: str) -> str:
    """The workflow of an invocation, the same for every start of it (semantics DUR-1).

    A hash of the parts as a JSON list: no two invocations share one however their ids are spelled,
    and no personal data of an id is in it (reliability S2).
    """
    digest = hashlib.sha256(canonical([*key, invocation_id]).encode()).hexdigest()
    return f"invocation-{key.app_name}-{digest[:32]}"


def answer_event(invocation_id: str, answer_id: str = "") -> str:
    """Id of the event that an answer becomes; without a name, what those of all begin with."""
    return f"{invocation_id}.answer.{answer_id}"


def child_key(key: SessionKey, invocation_id: str, call_id: str) -> SessionKey:
    """The session of the agent that a call asks: one per call, the same at every replay."""
    digest = hashlib.sha256(canonical([key.session_id, invocation_id, call_id]).encode())
    return key._replace(session_id=f"{CHILD_PREFIX}{digest.hexdigest()[:32]}")


class InvocationResult(JsonModel):
    """What workflow type ``Invocation`` returns: plain JSON for any Temporal client."""

    app: str
    user: str
    session: str
    invocation_id: str
    status: Status
    text: str
    """The text of the last final response that had any (EVT-10), at most 64 KiB of it."""
    last_event_id: str | None = None
    steered: str | None = None
    """The active invocation that has heard the message, which then ran none of its own."""
    events: int
    """Events committed, the user's included."""
    model_calls: int
    tool_calls: int
    tokens: int = 0
    """As the models have reported them, those of agents used as tools included."""
    revision: int
    """The session's revision at the end: the cursor after the last event."""
