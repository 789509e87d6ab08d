"""The contents of a prompt: the part of a session's history that an agent's model sees.

They are built in three steps:

1. *Select*: remove events that were rewound or summarized (`history`), that this agent may not see,
   and that no model can use. Quote other agents' events (`turns`).
2. *Pair*: move the latest response of each call directly behind the call, where providers require
   it, however late it came (FLW-25, FLW-26, TRAP-26).
3. *Render*: remove the ids that this package made.

Every call in the result has its response, and every response its call. The only exception is a
pending long-running call, which the model may see.

An event is rendered once: the contents of a step are those of the step before and what its new
events add. So a step of a long session costs what one of a short session does.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from operator import is_
from sys import getsizeof
from threading import Lock
from typing import Literal, NamedTuple

from google.genai import types
from pydantic import BaseModel

from durable_adk.calling.copies import lazy_models, own_copy
from durable_adk.conversation.call_ids import ID_PREFIX
from durable_adk.conversation.history import USER, is_visible, visible_history
from durable_adk.conversation.nodes.events import shows as shows_event
from durable_adk.conversation.turns import Turn, TurnReader, shows
from durable_adk.events.event import Event

MAX_VIEWS = 16
"""Maximum number of views of a session whose contents are kept."""


def build_contents(
    events: Sequence[Event],
    *,
    agent_name: str,
    branch: str | None,
    include_contents: Literal["default", "none"] = "default",
    include_thoughts_from_other_agents: bool = False,
    model_input_context: Sequence[types.Content] | None = None,
    path: str | None = None,
    kept: "KeptContents | None" = None,
) -> list[types.Content]:
    """Return the contents of a prompt, oldest first; they are copied when they are read.

    Args:
        events: The session's committed events, in order; they are not changed (FLW-27).
        agent_name: The agent whose model is called; other agents' events are quoted (FLW-22).
        branch: The agent's branch; events of sibling branches are left out (FLW-21).
        include_contents: "none" shows only the current turn (AGT-17): the events since the latest
            message of the user or of another agent. An answer to a pending call belongs to the
            turn of the call, and a steering message (D7) to the turn that it was delivered to.
        include_thoughts_from_other_agents: Whether quotations include thoughts.
        model_input_context: Contents without an event; inserted before the latest shown message of
            the user, or first if there is none (FLW-29).
        path: The path of the agent's run, empty outside of graphs: the runs below it are left out,
            and tasks. None: the events are those of its run already.
        kept: What earlier calls have rendered of the session.
    """
    view = _View(agent_name, branch, include_thoughts_from_other_agents, path)
    kept = KeptContents() if kept is None else kept
    shown, message = kept.shown(view, events, whole=include_contents == "default")
    contents = lazy_models(types.Content, own_copy, shown)
    contents[message:message] = [own_copy(content) for content in model_input_context or ()]
    return contents


class _View(NamedTuple):
    """What the rendering of an event depends on."""

    agent_name: str
    branch: str | None
    foreign_thoughts: bool
    path: str | None


class KeptContents:
    """The rendered contents of a session, for each view that a step has had of it.

    They are a function of the events alone. Whether they are of the given events is checked by
    comparing the objects, so nothing has to be dropped when a session changes.
    """

    def __init__(self) -> None:
        self._renderings: OrderedDict[_View, _Rendering] = OrderedDict()
        self._lock = Lock()  # steps of parallel branches may share it
        self.bytes = 0
        """Bytes of memory that they take, beside the events."""

    def shown(
        self, view: _View, events: Sequence[Event], *, whole: bool
    ) -> tuple[list[types.Content], int]:
        """Return the contents, to be read only, and the place of the user's latest message.

        Args:
            view: The view.
            events: The session's committed events.
            whole: Whether to show all turns, or only the current one.
        """
        with self._lock:
            # Kept again only when it is complete, because an event may be unfit to be rendered.
            known = self._renderings.pop(view, None)
            rendering = known
            if rendering is None or not rendering.continues(events):
                rendering = _Rendering(view)
            rendering.extend(events)
            # A step that lags behind another one leaves that one's.
            longest = rendering if known is None or known.length <= len(events) else known
            self._renderings[view] = longest
            while len(self._renderings) > MAX_VIEWS:
                self._renderings.popitem(last=False)
            self.bytes = sum(one.bytes for one in self._renderings.values())
            return rendering.shown(whole=whole)

    def clear(self) -> None:
        """Keep nothing."""
        with self._lock:
            self._renderings.clear()
            self.bytes = 0


class _Rendering:
    """The turns of some first events of a session and their contents, in one view."""

    def __init__(self, view: _View) -> None:
        self._view = view
        self._reader = TurnReader(view.agent_name, foreign_thoughts=view.foreign_thoughts)
        self._events: list[Event] = []
        self._summarized = False
        self._turns: list[Turn] = []
        self._contents: list[types.Content] = []
        """Those of all turns that are not hidden, in order."""
        self._callers: dict[str, int] = {}
        """Positions of the turns with the latest call of each id."""
        self._updates: dict[str, int] = {}
        """Positions of the user's latest answer to each call."""
        self._message: int | None = None
        """Position of the user's latest message."""
        self._changed: set[int] = set()
        """Positions of turns whose contents are to be rendered."""
        self._sizes = 0

    @property
    def length(self) -> int:
        """The number of events."""
        return len(self._events)

    @property
    def bytes(self) -> int:
        """Bytes of memory, without what is the events'."""
        return self._sizes + getsizeof(self._events) + getsizeof(self._contents)

    def continues(self, events: Sequence[Event]) -> bool:
        """Return whether `events` are these and others that change nothing before them."""
        if len(events) < self.length or not all(map(is_, self._events, events)):
            return False
        new = events[self.length :]
        return not (any(map(_changes_history, new)) or (self._summarized and self._uncovers(new)))

    def _uncovers(self, new: Iterable[Event]) -> bool:
        """Return whether a response may be to a call that a summary has hidden (CMP-2)."""
        answered = [response.id for event in new for response in event.get_function_responses()]
        shown = self._view.branch is None and self._callers.keys() >= set(answered)
        return bool(answered) and not shown

    def extend(self, events: Sequence[Event]) -> None:
        """Add those events that are new; all of them must continue the ones before."""
        new = events[self.length :]
        branch = self._view.branch
        if self._events:
            shown = [event for event in new if is_visible(event, branch)] if branch else new
        else:
            self._summarized = any(event.actions.compaction is not None for event in new)
            shown = visible_history(new, branch=branch)
        path = self._view.path
        for event in shown:
            if path is not None and not shows_event(event, path, None):
                continue
            turn = self._reader.turn(event)
            if turn is not None:
                self._add(turn)
        self._events += new
        self._render()

    def _add(self, turn: Turn) -> None:
        position = len(self._turns)
        turn.place = len(self._contents)
        self._turns.append(turn)
        self._changed.add(position)
        self._pair(turn, position)
        turn.begin = self._begin(turn, position)
        if turn.is_message:
            self._message = position
        if turn.author == USER:
            self._supersede(turn, position)

    def _pair(self, turn: Turn, position: int) -> None:
        """Move each response to its call; if ids repeat, to the latest earlier call."""
        rest: list[types.Part] = []
        for part in turn.parts:
            if not (answer := part.function_response):
                rest.append(part)
            elif answer.id in self._callers:
                caller = self._callers[answer.id]
                turn.answers_to[answer.id] = caller
                self._turns[caller].answers[answer.id] = part
                self._changed.add(caller)
        turn.parts = rest
        if turn.answers_to and turn.is_text:  # parts that came with the responses move with them
            self._turns[max(turn.callers)].beside_answers += rest
            turn.parts = []
        for part in rest:
            if part.function_call and part.function_call.id:
                self._callers[part.function_call.id] = position

    def _supersede(self, turn: Turn, position: int) -> None:
        """Hide a model's comments on an update that this turn replaces.

        The update is no longer in the prompt, so a comment on it would make no sense (17.1,
        FLW-26).
        """
        for call_id in turn.answers_to:
            before = self._updates.get(call_id)
            self._updates[call_id] = position
            between = [] if before is None else self._turns[before + 1 : position]
            if all(one.author == self._view.agent_name and one.is_text for one in between):
                for place, one in enumerate(between, (before or 0) + 1):
                    one.hidden = True
                    self._changed.add(place)

    def _begin(self, turn: Turn, position: int) -> int:
        """Return the position where the current turn begins (AGT-17)."""
        if position == 0:
            return 0
        if turn.callers:
            return self._turns[min(turn.callers)].begin
        if turn.author != self._view.agent_name and not (turn.is_steering or turn.is_transfer):
            return position
        return self._turns[position - 1].begin

    def _render(self) -> None:
        """Render the changed turns, and place all that follow the first of them."""
        if not self._changed:
            return
        for position in self._changed:
            turn = self._turns[position]
            turn.contents = list(_rendered(turn))
            self._sizes -= turn.size
            turn.size = _size(turn)
            self._sizes += turn.size
        first = min(self._changed)
        self._changed.clear()
        del self._contents[self._turns[first].place :]
        for turn in self._turns[first:]:
            turn.place = len(self._contents)
            self._contents += () if turn.hidden else turn.contents

    def shown(self, *, whole: bool) -> tuple[list[types.Content], int]:
        """Return the contents and the place of the user's latest message; see `KeptContents`."""
        turns = self._turns
        start = turns[-1].begin if turns and not whole else 0
        late = _before_late_answer(turns)
        if turns and not late:
            skipped, message = turns[start].place, self._message
            place = 0
            if message is not None and message >= start:
                place = turns[message].place - skipped
            return self._contents[skipped:], place
        contents: list[types.Content] = []
        place = 0
        for position in range(start, len(turns)):
            if position not in late and not turns[position].hidden:
                place = len(contents) if turns[position].is_message else place
                contents += turns[position].contents
        return contents, place


def _changes_history(event: Event) -> bool:
    """Return whether the event affects earlier events, which may be anywhere."""
    actions = event.actions
    return actions.compaction is not None or actions.rewind_before_invocation_id is not None


def _before_late_answer(turns: list[Turn]) -> set[int]:
    """Return the positions between a call and the response that ends the history (FLW-25).

    The response must follow its call and end the prompt, because it resumes the turn of the call.
    Steering messages delivered in that turn belong to it and stay.
    """
    if not turns or not turns[-1].callers:
        return set()
    resumed = {turns[caller].invocation_id for caller in turns[-1].callers}
    between = range(max(turns[-1].callers) + 1, len(turns) - 1)
    return {i for i in between if not (turns[i].is_steering and turns[i].invocation_id in resumed)}


def _rendered(turn: Turn) -> Iterable[types.Content]:
    """Yield the turn's content and, if it has calls, the content with their responses."""
    parts: list[types.Part] = []
    answers: list[types.Part] = []
    for part in turn.parts:
        call = part.function_call
        if call is None:
            parts.append(part)
        elif call.id in turn.answers:
            parts.append(part)
            answers.append(turn.answers[call.id])
        elif call.id in turn.pending:
            parts.append(part)
    if any(shows(part) for part in parts):
        yield _content(turn.role, parts)
    if answers:
        answers += turn.beside_answers
        yield _content(USER, answers)


def _content(role: str | None, parts: Iterable[types.Part]) -> types.Content:
    # Not validated again: these are parts of committed events, and there may be thousands.
    return types.Content.model_construct(role=role, parts=[_sendable(part) for part in parts])


def _sendable(part: types.Part) -> types.Part:
    """Return the part without the ids that the provider does not know (FLW-24).

    It may be the event's own, and have the event's own values.
    """
    name = "function_call" if part.function_call else "function_response"
    function = part.function_call or part.function_response
    if function is None or not function.id or not function.id.startswith(ID_PREFIX):
        return part
    return part.model_copy(update={name: function.model_copy(update={"id": None})})


def _size(turn: Turn) -> int:
    """Return the bytes of memory that a turn takes; what is the event's is not counted."""
    given = {id(part) for part in (*turn.parts, *turn.answers.values(), *turn.beside_answers)}
    rendered = [part for content in turn.contents for part in content.parts or ()]
    parts = [part for part in rendered if id(part) not in given]
    parts += turn.parts if turn.is_quoted else ()
    functions = [part.function_call or part.function_response for part in parts]
    lists = [turn.parts, turn.pending, turn.answers, turn.beside_answers, turn.answers_to]
    lists += [turn.contents, *(content.parts for content in turn.contents)]
    texts = [part.text for part in parts]
    models = [*turn.contents, *parts, *functions]
    return sum(map(getsizeof, (turn, *lists, *texts))) + sum(map(_own_size, models))


def _own_size(model: BaseModel | None) -> int:
    """Return the bytes of memory that a model takes without its values."""
    if model is None:
        return 0
    return getsizeof(model) + getsizeof(vars(model)) + getsizeof(model.model_fields_set)
