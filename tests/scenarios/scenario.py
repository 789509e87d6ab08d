"""A scripted conversation: the agents, what the user sends, and what must come of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, RunConfig
from durable_adk.apps import App
from durable_adk.events import Event

Message = str | types.Content | Callable[[Sequence[Event]], types.Content]
"""What is sent; a function makes it of the events that are stored by then."""

CONFIRMATION = "adk_request_confirmation"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A message, and what comes of it."""

    message: Message
    gets: Sequence[str]
    """The gist of each event that is yielded (`tests.support.scripts.gist`)."""
    raises: str | None = None
    """Name of the exception that ends it, as in the error event's `error_code`."""
    place: str = "u/s"
    """User and session."""
    state_delta: Mapping[str, Any] = field(default_factory=dict[str, Any])
    run_config: RunConfig | None = None


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Scenario:
    """A conversation with an app that is made anew, by the scenario's name, in every process.

    So nothing may be remembered between two steps but what is in the session: models reply by what
    is in the request, callbacks and tools keep their notes in the state.
    """

    name: str
    proves: str
    """Ids of docs/know/specification.md that it is about."""
    make: Callable[[], BaseAgent | App]
    turns: Sequence[Turn]
    state: Mapping[str, Any]
    """What the session u/s holds at the end, keys of all scopes."""
    initial: Mapping[str, Any]
    """What it holds at the beginning."""
    elsewhere: Mapping[str, Mapping[str, Any]]
    """What other sessions hold at the end, by user/session."""
    waiting: Sequence[str]
    """Names of the calls of u/s that still wait at the end."""
    unrun: frozenset[str]
    """Names of the tools that must not, or need not, have run."""
    side_by_side: bool
    """Whether agents run in parallel: then only the order on each branch is given."""

    @property
    def places(self) -> list[str]:
        """The sessions it uses, u/s first."""
        return list(dict.fromkeys(["u/s", *self.elsewhere, *(turn.place for turn in self.turns)]))

    def app(self) -> App:
        """The app, made anew."""
        made = self.make()
        return made if isinstance(made, App) else App(name=self.name, root_agent=made)


def scenario(
    proves: str,
    *turns: Turn,
    state: Mapping[str, Any] | None = None,
    initial: Mapping[str, Any] | None = None,
    elsewhere: Mapping[str, Mapping[str, Any]] | None = None,
    waiting: Sequence[str] = (),
    unrun: Sequence[str] = (),
    side_by_side: bool = False,
) -> Callable[[Callable[[], BaseAgent | App]], Scenario]:
    """Make a scenario of a function that makes its agents; it is named after the function."""

    def of(make: Callable[[], BaseAgent | App]) -> Scenario:
        return Scenario(
            name=make.__name__,
            proves=proves,
            make=make,
            turns=turns,
            state=state or {},
            initial=initial or {},
            elsewhere=elsewhere or {},
            waiting=waiting,
            unrun=frozenset(unrun),
            side_by_side=side_by_side,
        )

    return of


def says(message: str | types.Content, *gets: str, **more: Any) -> Turn:
    """The user says something."""
    return Turn(message=message, gets=gets, **more)


@dataclass(frozen=True)
class Reply:
    """An answer to the latest call of a tool, or to the request to confirm it."""

    tool: str
    response: Mapping[str, Any]
    author: str | None = None
    """The agent that made the call; None: whoever did."""
    name: str | None = None
    """Another name than the call's, for an answer that is refused."""

    def part(self, events: Sequence[Event]) -> types.Part:
        """The answer as a part of a message."""
        call = next(
            call
            for event in reversed(events)
            for call in event.get_function_calls()
            if self.tool in (call.name, _about(call)) and self.author in (None, event.author)
        )
        answer = types.FunctionResponse(
            id=call.id, name=self.name or call.name, response=dict(self.response)
        )
        return types.Part(function_response=answer)


def _about(call: types.FunctionCall) -> str | None:
    """The tool that a request for confirmation is about."""
    original = (call.args or {}).get("originalFunctionCall") if call.name == CONFIRMATION else None
    return original and original["name"]


def answers(replies: Reply | Sequence[Reply], *gets: str, **more: Any) -> Turn:
    """The user answers calls."""
    listed = [replies] if isinstance(replies, Reply) else list(replies)

    def message(events: Sequence[Event]) -> types.Content:
        return types.Content(role="user", parts=[reply.part(events) for reply in listed])

    return Turn(message=message, gets=gets, **more)
