"""Requests, answers and results of invocations: plain JSON for any Temporal client."""

import hashlib
import re
from enum import StrEnum
from typing import Any, Literal, Self, TypeVar

from google.genai import types
from pydantic import Field, StrictBool, ValidationError

from durable_adk.errors import InvalidRequestError, PayloadTooLargeError
from durable_adk.events.event import RUNTIME_METADATA, Event, runtime_marks
from durable_adk.json_values import (
    JsonModel,
    canonical,
    check_id,
    check_json,
    check_state_key,
    dumped,
    to_json_value,
    validated,
)
from durable_adk.sessions.records import Status
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.unfinished_branch import UnfinishedBranch
from durable_adk.wire.run_config import RunConfig

W = TypeVar("W", bound=JsonModel)

MAX_RESULT_TEXT = 65_536
"""Maximum characters of the final text in an invocation's result; the store has the whole text."""


class WhenBusy(StrEnum):
    """What to do with a message while another invocation is active in its session (D7)."""

    ENQUEUE = "enqueue"
    """Wait until the active invocation ends, then run."""
    REJECT = "reject"
    """Fail at once with SessionBusyError."""
    INTERRUPT = "interrupt"
    """Cancel the active invocation like `Runner.cancel`, then run before waiting messages."""
    STEER = "steer"
    """Deliver it to the active invocation before its next model call; without one, `ENQUEUE`."""


class ToolRun(JsonModel):
    """Marks an invocation as the run of an agent tool of another invocation (OPEN-6)."""

    agent: str
    """The agent that the tool wraps."""
    caller: SessionKey
    """The calling session: its state is the initial state."""
    root: SessionKey
    """The session of the outermost call: its artifacts are shared."""
    include_plugins: bool = True


class InvocationRequest(JsonModel):
    """The argument of workflow type ``Invocation``: plain JSON from any Temporal client.

    Keys may be camelCase or snake_case. `docs/use/temporal-clients.md` describes it field by field.
    """

    app: str
    user: str
    session: str | None = None
    """The session's id; None: a new session named after the invocation."""
    message: str | types.Content
    """The user's message, as text or as ADK's Content."""
    continues: bool = False
    """Whether there is no message: the agents continue with the session as it is."""
    invocation_id: str | None = None
    """A second start with the same id attaches to the first one; None: a new id."""
    state_delta: dict[str, Any] = Field(default_factory=dict[str, Any])
    """State changes, committed with the user's event (TRAP-17)."""
    run_config: RunConfig = Field(default_factory=RunConfig)
    create_session: bool = True
    """Whether a missing session is created; `Runner` sends False by default (RUN-16)."""
    when_busy: WhenBusy = WhenBusy.ENQUEUE
    tool_run: ToolRun | None = None
    """Set by the runtime if the agent runs as a tool."""

    @property
    def key(self) -> SessionKey:
        """Key of the session; its id is empty if the request names none."""
        return SessionKey(self.app, self.user, self.session or "")

    @classmethod
    def parse(cls, raw: Any) -> Self:
        """Read a request, or raise InvalidRequestError naming each bad field.

        Raises:
            InvalidRequestError: Not an object, unknown or missing fields, invalid ids, no message.
            StateValueError: `state_delta` is not JSON.
            PayloadTooLargeError: The message is larger than one event may be.
        """
        if not isinstance(raw, dict):
            raise InvalidRequestError(
                "The argument of Invocation must be one JSON object with app, user and message; "
                f"got {type(raw).__name__}."
            )
        of_runtime = "toolRun" in raw or "tool_run" in raw  # from a parent, which may be newer
        extra = "ignore" if of_runtime else "forbid"
        return parsed(cls, raw, "invocation request", extra=extra).checked()

    def checked(self) -> Self:
        """Return the request with stripped ids and its message as Content; see `parse`."""
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
        if self.tool_run is None:  # otherwise the runtime set it, which the opening checks
            check_marks(self.run_config.custom_metadata)
        self.message = self.user_content()
        if self.state_delta:  # both are in the message's event
            both = self.message.model_dump_json(exclude_none=True) + canonical(self.state_delta)
            check_size(both, "message with its state_delta")
        return self

    def user_content(self) -> types.Content:
        """Return the message as Content of role ``user``, without parts if there is none.

        Raises:
            CallerError: The message is invalid, see `user_content`.
        """
        if not self.continues:
            return user_content(self.message)
        if self.message if isinstance(self.message, str) else self.message.parts:
            raise InvalidRequestError("The request has a message, so it cannot set continues.")
        return types.Content(role="user")


def check_marks(metadata: dict[str, Any] | None) -> None:
    """Reject metadata that only the runtime sets, for example to mark a call as decided (S3).

    Raises:
        InvalidRequestError: A key has the runtime's prefix.
    """
    if reserved := runtime_marks(metadata):
        raise InvalidRequestError(
            f"custom_metadata has the key {reserved[0][:80]!r}: keys that begin with "
            f"{RUNTIME_METADATA!r} are set by the runtime; choose another."
        )


def check_follows(state_delta: dict[str, Any] | None, config: RunConfig | None) -> None:
    """Reject options and state changes for an invocation id without a message: none would be kept.

    Raises:
        InvalidRequestError: There are state changes, or options other than streaming.
    """
    options = config.model_dump(exclude_defaults=True, exclude={"streaming_mode"}) if config else {}
    given = [*(["state_delta"] if state_delta else []), *(f"run_config.{name}" for name in options)]
    if given:
        raise InvalidRequestError(
            f"{', '.join(given)}: Without a message the request only follows the invocation, which "
            "keeps what it was started with. Send them with a message, or leave them out."
        )


EXPIRED = ".expired"
"""Suffix of the ids of answers that deadlines create."""
_RESERVED = re.compile(r"(unnamed|malformed)-\d+$|.*" + re.escape(EXPIRED) + "$", re.DOTALL)


def is_reserved(answer_id: str) -> bool:
    """Return whether an answer id is reserved for the loop."""
    return _RESERVED.match(answer_id) is not None


class InvocationAnswer(JsonModel):
    """An answer to pending calls: the argument of signal ``answer`` (D9).

    Either a whole `message` of function responses, as ADK's clients send, or one call by its id
    with `response` (any JSON object), or with `confirmed` for a confirmation.
    """

    message: types.Content | None = None
    call_id: str | None = None
    response: dict[str, Any] | None = None
    confirmed: StrictBool | None = None
    """Only JSON's true confirms: neither "yes" nor 1 does."""
    state_delta: dict[str, Any] = Field(default_factory=dict[str, Any])
    """State changes, committed with the answer's event (TRAP-17)."""
    steers: str | None = None
    """If set, this is not an answer: deliver the message of this invocation to the active one."""
    answer_id: str | None = None
    """A second answer with the same id is ignored; None: numbered in order of arrival."""
    answered_by: dict[str, str] | None = None
    """The sender, as a server identified it: ``{"user": ID}``, or ``{"answerUrl": WEBHOOK ID}``; in
    the `custom_metadata` of the answer's event."""
    run_config: RunConfig | None = None
    """Options that replace the invocation's from here on; others are unchanged."""

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
        check_json(answer.answered_by, "answered_by")
        answer.check_options()
        check_size(answer.to_json(), "The answer")
        return answer

    def check_options(self) -> None:
        """Raise InvalidRequestError for options that an open invocation cannot change."""
        options = self.options()
        if fixed := sorted({"budget", "priority"} & options.keys()):
            raise InvalidRequestError(
                f"run_config.{fixed[0]}: it holds from an invocation's start to its end, so it "
                "cannot come with an answer; leave it out."
            )
        check_marks(options.get("custom_metadata"))

    def options(self) -> dict[str, Any]:
        """Return the options that are not the default, by name."""
        given = self.run_config
        names = given.model_dump(exclude_defaults=True) if given else {}
        return {name: getattr(given, name) for name in names}

    def content(self, call_name: str) -> types.Content:
        """Return the answer as a message; `call_name` is the name of the call `call_id`."""
        if self.message is not None:
            return types.Content(role="user", parts=self.message.parts)
        response = {"confirmed": self.confirmed} if self.response is None else self.response
        answer = types.FunctionResponse(id=self.call_id, name=call_name, response=response)
        return types.Content(role="user", parts=[types.Part(function_response=answer)])

    def digest(self) -> str:
        """Return a hash of the answer's contents, without its id and its sender."""
        unsaid = {"answer_id", "answered_by"}
        said = self.model_dump(mode="json", exclude_none=True, exclude=unsaid)
        return hashlib.sha256(canonical(said).encode()).hexdigest()[:16]


def parsed(
    cls: type[W], raw: Any, what: str, *, extra: Literal["ignore", "forbid"] = "forbid"
) -> W:
    """Read a value, or raise InvalidRequestError naming each bad field.

    Args:
        cls: The value's class.
        raw: A JSON object.
        what: Its name in the error message.
        extra: Whether unknown fields are an error. In user input they are probably typos; in
            payloads of our own processes they are from a newer release.
    """
    try:
        return validated(cls, raw, lambda value: cls.model_validate(value, extra=extra))
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in item['loc']) or what}: {item['msg']}"
            for item in error.errors(include_url=False)
        )
        raise InvalidRequestError(f"The {what} is malformed: {problems}") from None


def user_content(message: str | types.Content) -> types.Content:
    """Return the user's message as Content of role ``user`` (RUN-20, RUN-21).

    Raises:
        InvalidRequestError: The message is empty, or contains function calls. Function responses
            are checked against the session later.
        StateValueError: The text has characters that cannot be stored.
        PayloadTooLargeError: The message is larger than one event may be.
    """
    if isinstance(message, str):
        message = types.Content(parts=[types.Part(text=message)] if message.strip() else [])
    if not message.parts:
        raise InvalidRequestError("message is empty: No parts in the new_message.")
    if any(part.function_call for part in message.parts):
        raise InvalidRequestError("message cannot contain function calls; only a model makes them.")
    check_parts(message, "message")
    content = types.Content(role="user", parts=message.parts)
    check_size(dumped(content, "message"), "message")
    return content


def check_parts(content: types.Content, path: str) -> None:
    """Raise StateValueError unless untyped values in the parts are JSON that every store keeps.

    Args:
        content: Content, as it was received.
        path: Its name in the error message.
    """
    for index, part in enumerate(content.parts or ()):
        place = f"{path}.parts[{index}]"
        check_json(part.text, f"{place}.text")
        check_json(part.part_metadata, f"{place}.part_metadata")
        for name in ("function_call", "function_response", "tool_call", "tool_response"):
            held: Any = getattr(part, name)
            for kind in ("args", "response"):
                value = to_json_value(getattr(held, kind, None))
                check_json(value, f"{place}.{name}.{kind}")


MAX_BYTES = 1_000_000
"""Maximum bytes of an event, message, state or tool result; Temporal's limit is 2 MiB (1c)."""
MAX_METADATA_BYTES = 100_000


def check_size(text: str, what: str, limit: int = MAX_BYTES) -> None:
    """Raise PayloadTooLargeError if `text` has more than `limit` bytes of UTF-8."""
    size = len(text.encode())
    if size > limit:
        raise PayloadTooLargeError(
            f"{what} is {size:,} bytes; at most {limit:,} fit into one event. "
            "Shorten it, or keep it as an artifact or file and pass its name."
        )


def check_event(event: Event, what: str) -> None:
    """Check that an event fits into a message, and that readers can parse it.

    Raises:
        PayloadTooLargeError: It is too large.
        StateValueError: A field has a value of another type.
    """
    check_size(event.storable_json(what), what)


def workflow_id(key: SessionKey, invocation_id: str) -> str:
    """Return the workflow id of an invocation, the same for every start (DUR-1).

    It is a hash of the ids as a JSON list: different invocations never share it, and it reveals no
    personal data in the ids (S2).
    """
    digest = hashlib.sha256(canonical([*key, invocation_id]).encode()).hexdigest()
    return f"invocation-{key.app_name}-{digest[:32]}"


def answer_event(invocation_id: str, answer_id: str = "") -> str:
    """Return the id of an answer's event; without an answer id, the prefix of all such ids."""
    return f"{invocation_id}.answer.{answer_id}"


def child_key(key: SessionKey, invocation_id: str, call_id: str, run: int = 0) -> SessionKey:
    """Return the key of an agent tool's session, the same at every replay.

    Args:
        key: The session of the call.
        invocation_id: The invocation of the call.
        call_id: The call.
        run: 0, 1, 2 ... for a tool whose own code runs its agent several times.
    """
    return key.child(invocation_id, call_id, run)


class InvocationResult(JsonModel):
    """The result of workflow type ``Invocation``: plain JSON for any Temporal client."""

    app: str
    user: str
    session: str
    invocation_id: str
    status: Status
    text: str = ""
    """The text of the last final response that has text (EVT-10), or the output of the app's graph,
    at most 64 KiB."""
    last_event_id: str | None = None
    steered: str | None = None
    """The active invocation to which the message was delivered; no new invocation ran then."""
    events: int = 0
    """Number of committed events, including the user's."""
    model_calls: int = 0
    tool_calls: int = 0
    tokens: int = 0
    """Tokens as reported by the models, including those of agent tools."""
    revision: int = 0
    """The session's revision at the end: the cursor after the last event."""
    epoch: int = 0
    """The last epoch of its lease; 0: it had none."""
    unfinished: list[UnfinishedBranch] = Field(default_factory=list[UnfinishedBranch])
    """The branches of graphs that ended before the last node, at most 20."""
