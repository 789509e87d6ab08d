"""Rendering of a run as AG-UI events."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ag_ui.core import (
    BaseEvent,
    CustomEvent,
    Interrupt,
    Message,
    MessagesSnapshotEvent,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    StateDeltaEvent,
    SubagentFinishedEvent,
    SubagentFinishedSuspendedOutcome,
    SubagentStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from durable_adk.client.queries import LocatedCall
from durable_adk.conversation.history import USER
from durable_adk.conversation.pending_calls import is_final, is_sealed
from durable_adk.conversation.pending_request import pending_request
from durable_adk.events.event import Event
from durable_adk.server.feed import EventItem, Item, PartialItem, StatusItem
from durable_adk.server.protocols.agui.messages import (
    ToolResult,
    arguments_of,
    calls_of,
    messages_of,
    reasoning_id,
    results_of,
    text_of,
)
from durable_adk.sessions.records import Status
from durable_adk.sessions.state import APP_PREFIX, TEMP_PREFIX
from durable_adk.tools.agui_toolset import FRONT_END_TOOLS

_REASONS = {"confirmation": "tool_call", "credential": "authentication_required"}
"""Reasons for interrupting a run, by the kind of pending call; other kinds wait for input."""


_SHOWN_OF_REQUESTS = {"name", "kind", "arguments", "payload", "editable", "auth_config"}


def shown_state(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state for a front end: without its own tools, app state and temporary state."""
    hidden = (APP_PREFIX, TEMP_PREFIX)
    return {
        key: value
        for key, value in state.items()
        if key != FRONT_END_TOOLS and not key.startswith(hidden)
    }


@dataclass
class _Streamed:
    """The text and thoughts of an event that have been sent so far."""

    subagent: str | None
    attempt: int = 0
    text: str | None = None
    thoughts: str | None = None


@dataclass(kw_only=True)
class RunRenderer:
    """Creates the events of one run, in order.

    Args:
        thread_id: The session.
        run_id: The run that the front end has started.
        root: The root agent, which is no sub-agent of the run; None: the first author.
        tools: Names of the front end's own tools, whose calls do not interrupt the run.
        revision: Sequence number of the session's last event at the run's request.
    """

    thread_id: str
    run_id: str
    root: str | None = None
    tools: frozenset[str] = frozenset()
    result_ids: Mapping[str, str] = field(default_factory=dict[str, str])
    """Ids of the messages in which the front end has sent results, by call id."""
    revision: int = 0
    status: StatusItem | None = None
    """The feed's last status."""
    first: int | None = None
    """Sequence number of the run's first event; None before it."""
    _messages: list[Message] = field(default_factory=list[Message])
    """The run's committed messages."""
    _long_running: set[str] = field(default_factory=set[str])
    _subagents: list[str] = field(default_factory=list[str])
    _streamed: dict[str, _Streamed] = field(default_factory=dict[str, _Streamed])
    _usage: dict[str, TokenUsage] = field(default_factory=dict[str, TokenUsage])

    def resumes(self, long_running: set[str]) -> None:
        """Record the long-running calls that the invocation made before this run."""
        self._long_running |= long_running

    def messages(self, events: Sequence[Event]) -> list[Message]:
        """Convert events to messages."""
        found = list[Message]()
        for event in events:
            self._long_running |= event.long_running_tool_ids or set()
            found += messages_of(event, self._results_of(event), self._subagent_of(event))
        return found

    def rendered(self, item: Item) -> Iterator[BaseEvent]:
        """Yield a front end's events for an item of the feed.

        A snapshot contains only the run's messages; the messages of earlier runs must be put before
        them.
        """
        match item:
            case EventItem():
                is_first = self.first is None
                self.first = item.seq if self.first is None else self.first
                yield from self._committed(item.event, is_first=is_first)
                if is_first and item.seq <= self.revision:
                    # The front end has lost the run's stream, and has its messages only in part.
                    yield self._snapshot()
            case PartialItem():
                yield from self._partial(item)
            case StatusItem():
                self.status = item

    def finished(self, waiting: Sequence[LocatedCall]) -> Iterator[BaseEvent]:
        """Yield the end of the run, according to its last status.

        Args:
            waiting: The calls that a paused run waits for.
        """
        found = [self._interrupt(one) for one in waiting if one.call.name not in self.tools]
        yield from self._closed_messages()
        if found:
            yield self._snapshot()
        for name in self._subagents:
            own = [one.id for one in found if one.subagent_run_id == name]
            outcome = SubagentFinishedSuspendedOutcome(interrupt_ids=own) if found else None
            yield SubagentFinishedEvent(subagent_run_id=name, outcome=outcome)
        status = self.status
        if status is not None and status.error and status.status is not Status.CANCELLED:
            error = status.error
            yield self.failed(str(error["type"]), str(error["message"]))
            return
        outcome = RunFinishedSuccessOutcome()
        if found:
            outcome = RunFinishedInterruptOutcome(interrupts=found)
        elif status is not None and status.status in (Status.CANCELLED, Status.ABANDONED):
            outcome = RunFinishedCancelledOutcome()
        yield RunFinishedEvent(
            thread_id=self.thread_id,
            run_id=self.run_id,
            outcome=outcome,
            usage=list(self._usage.values()) or None,
        )

    def failed(self, kind: str, message: str) -> RunErrorEvent:
        """Return the end of a failed run."""
        usage = list(self._usage.values()) or None
        return RunErrorEvent(message=message, code=kind, usage=usage)

    def _remember(self, event: Event) -> None:
        if event.author != USER:
            self.root = self.root or event.author
        self._messages.extend(self.messages([event]))

    def _subagent_of(self, event: Event) -> str | None:
        """Return the run of an event's sub-agent; None for the root agent or the user."""
        if event.author in (self.root, USER):
            return None
        return _subagent_run(event.invocation_id, event.author)

    def _snapshot(self) -> MessagesSnapshotEvent:
        return MessagesSnapshotEvent(messages=list(self._messages))

    def _partial(self, item: PartialItem) -> Iterator[BaseEvent]:
        subagent = yield from self._begun(item.event)
        name, attempt = item.event_id, item.attempt
        sent = self._streamed.setdefault(name, _Streamed(subagent, attempt))
        if attempt > sent.attempt:
            yield from self._dropped(name)
            sent = self._streamed[name] = _Streamed(subagent, attempt)
        thoughts, text = text_of(item.event, thoughts=True), text_of(item.event)
        yield from _continued(name, sent, thoughts, text)

    def _committed(self, event: Event, *, is_first: bool) -> Iterator[BaseEvent]:
        subagent = yield from self._begun(event)
        if event.author != USER:
            yield from self._whole_messages(event, subagent)
            yield from _called(event, subagent)
        self._remember(event)
        yield from self._results(event, subagent, is_first=is_first)
        yield from _changes(event, subagent)
        self._count(event)

    def _begun(self, event: Event) -> Generator[BaseEvent, None, str | None]:
        """Yield the start of an event's sub-agent, and return its run."""
        if event.author != USER:
            self.root = self.root or event.author
        name = self._subagent_of(event)
        if name is not None and name not in self._subagents:
            self._subagents.append(name)
            yield SubagentStartedEvent(subagent_run_id=name, name=event.author)
        return name

    def _whole_messages(self, event: Event, subagent: str | None) -> Iterator[BaseEvent]:
        """Yield the rest of an event's text and thoughts, and the end of both."""
        sent = self._streamed.setdefault(event.id, _Streamed(subagent))
        thoughts, text = text_of(event, thoughts=True), text_of(event)
        if not (thoughts.startswith(sent.thoughts or "") and text.startswith(sent.text or "")):
            # A plugin has changed the model's text.
            yield from self._dropped(event.id)
            sent = self._streamed[event.id] = _Streamed(subagent)
        rest = thoughts[len(sent.thoughts or "") :], text[len(sent.text or "") :]
        yield from _continued(event.id, sent, *rest)
        yield from self._ended(event.id)

    def _dropped(self, event_id: str) -> Iterator[BaseEvent]:
        """Withdraw an event's sent parts: a front end keeps only the messages in a snapshot."""
        yield from self._ended(event_id)
        yield self._snapshot()

    def _ended(self, event_id: str) -> Iterator[BaseEvent]:
        sent = self._streamed.pop(event_id)
        by = _by(sent.subagent)
        if sent.thoughts is not None:
            name = reasoning_id(event_id)
            yield ReasoningMessageEndEvent(message_id=name, **by)
            yield ReasoningEndEvent(message_id=name, **by)
        if sent.text is not None:
            yield TextMessageEndEvent(message_id=event_id, **by)

    def _closed_messages(self) -> Iterator[BaseEvent]:
        """End the messages of responses that were never committed."""
        for event_id in list(self._streamed):
            yield from self._ended(event_id)

    def _results(
        self, event: Event, subagent: str | None, *, is_first: bool
    ) -> Iterator[BaseEvent]:
        for one in self._results_of(event):
            if is_first and one.message_id == self.result_ids.get(one.call_id):
                continue  # the front end already has it
            yield ToolCallResultEvent(
                message_id=one.message_id,
                tool_call_id=one.call_id,
                content=one.content,
                role="tool",
                **_by(subagent),
            )

    def _results_of(self, event: Event) -> list[ToolResult]:
        """Return the final results only: a call has one result in AG-UI.

        A result that the front end has sent keeps its message id.
        """
        found = results_of(event)
        if event.author == USER:
            return [
                one._replace(message_id=self.result_ids.get(one.call_id, one.message_id))
                for one in found
            ]
        sealed = is_sealed(event)
        return [
            one
            for one in found
            if one.call_id not in self._long_running or sealed or is_final(event, one.call_id)
        ]

    def _count(self, event: Event) -> None:
        usage = event.usage_metadata
        if usage is None:
            return
        model = event.model_version or ""
        total = self._usage.setdefault(model, TokenUsage(model=model or None))
        thought = usage.thoughts_token_count or 0
        counts = {
            "input_tokens": usage.prompt_token_count or 0,
            "output_tokens": (usage.candidates_token_count or 0) + thought,
            "reasoning_tokens": thought,
            "cached_input_tokens": usage.cached_content_token_count or 0,
        }
        counts["total_tokens"] = counts["input_tokens"] + counts["output_tokens"]
        for name, count in counts.items():
            setattr(total, name, (getattr(total, name) or 0) + count)

    def _interrupt(self, waiting: LocatedCall) -> Interrupt:
        call, shown = waiting.call, pending_request(waiting.key, waiting.call)
        name = _subagent_run(call.invocation_id, call.author)
        return Interrupt(
            id=call.call_id,
            reason=_REASONS.get(shown.kind, "input_required"),
            message=shown.hint,
            tool_call_id=call.original_call_id,
            response_schema=shown.response_schema,
            metadata=shown.model_dump(
                mode="json", by_alias=True, exclude_none=True, include=_SHOWN_OF_REQUESTS
            ),
            **_by(name if name in self._subagents else None),
        )


def _subagent_run(invocation_id: str, agent: str) -> str:
    return f"{invocation_id}:{agent}"


def _by(subagent: str | None) -> dict[str, Any]:
    """Return the attribution to a sub-agent's run; empty for the root agent."""
    return {} if subagent is None else {"subagent_run_id": subagent}


def _continued(event_id: str, sent: _Streamed, thoughts: str, text: str) -> Iterator[BaseEvent]:
    """Yield the next parts of an event's thoughts and text."""
    by = _by(sent.subagent)
    if thoughts:
        name = reasoning_id(event_id)
        if sent.thoughts is None:
            yield ReasoningStartEvent(message_id=name, **by)
            yield ReasoningMessageStartEvent(message_id=name, role="reasoning", **by)
        yield ReasoningMessageContentEvent(message_id=name, delta=thoughts, **by)
        sent.thoughts = (sent.thoughts or "") + thoughts
    if text:
        if sent.text is None:
            yield TextMessageStartEvent(message_id=event_id, role="assistant", **by)
        yield TextMessageContentEvent(message_id=event_id, delta=text, **by)
        sent.text = (sent.text or "") + text


def _called(event: Event, subagent: str | None) -> Iterator[BaseEvent]:
    """Yield an event's tool calls."""
    by = _by(subagent)
    for call in calls_of(event):
        name = call.id or ""
        yield ToolCallStartEvent(
            tool_call_id=name, tool_call_name=call.name or "", parent_message_id=event.id, **by
        )
        yield ToolCallArgsEvent(tool_call_id=name, delta=arguments_of(call), **by)
        yield ToolCallEndEvent(tool_call_id=name, **by)


def _changes(event: Event, subagent: str | None) -> Iterator[BaseEvent]:
    """Yield an event's changes other than messages."""
    by, actions = _by(subagent), event.actions
    if changed := shown_state(actions.state_delta):
        # Adding an existing member replaces it.
        patch: list[Any] = [
            {"op": "add", "path": f"/{_pointer(key)}", "value": value}
            for key, value in changed.items()
        ]
        yield StateDeltaEvent(delta=patch, **by)
    if actions.artifact_delta:
        yield CustomEvent(name="artifacts", value=dict(actions.artifact_delta), **by)
    if event.error_code:
        error = {"code": event.error_code, "message": event.error_message}
        yield CustomEvent(name="error", value=error, **by)


def _pointer(key: str) -> str:
    """Return a key escaped for a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")
