"""Copies of committed values are made when they are read, and nobody can tell."""

import copy
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel

from durable_adk.calling import copies
from durable_adk.calling.copies import lazy_models, own_copy
from durable_adk.context.step_scope import step_session
from durable_adk.events import Event, EventActions
from durable_adk.sessions import Session, SessionKey
from tests.support.histories import event as said

KEY = SessionKey("app", "u", "s")


def made(name: str = "1") -> Event:
    """An event with something of each kind in it."""
    answer = types.FunctionResponse(id="c", name="f", response={"a": [1, {"b": None}]})
    parts = [types.Part(function_response=answer), types.Part(text="hi")]
    return Event(
        id=name,
        invocation_id="i",
        author="a",
        content=types.Content(role="user", parts=parts),
        actions=EventActions(state_delta={"k": [1, 2]}),
        long_running_tool_ids={"c"},
    )


def session(*names: str) -> tuple[list[Event], Session]:
    """Committed events, and the session that user code gets."""
    events = [made(name) for name in names or ("1", "2", "3")]
    return events, step_session(KEY, events, state={"k": 1}, revision=3)


class Holder(BaseModel):
    """A model of a user's own."""

    events: list[Event]


def test_a_copy_shares_nothing() -> None:
    """TRAP-23: neither models nor what is nested in them."""
    event = made()
    mine = own_copy(event)
    assert mine == event
    assert mine.model_fields_set == event.model_fields_set
    (answer,) = mine.get_function_responses()
    assert answer.response
    assert mine.long_running_tool_ids
    answer.response["a"][1]["b"] = 1
    mine.actions.state_delta["k"].append(3)
    mine.long_running_tool_ids.clear()
    assert event == made()


LOOKS: dict[str, Callable[[list[Event]], Any]] = {
    "index": lambda events: events[-1],
    "slice": lambda events: events[:2],
    "iteration": list,
    "equal": lambda events: events == [made("1"), made("2"), made("3")],
    "in": lambda events: made("2") in events,
    "index of": lambda events: events.index(made("3")),
    "count": lambda events: events.count(made("1")),
    "sorted": lambda events: sorted(events, key=lambda event: event.id, reverse=True),
    "reversed": lambda events: list(reversed(events)),
    "plus": lambda events: [*events, *events],
    "length": len,
    "copy": copy.copy,
    "deep copy": copy.deepcopy,
    "pickle": lambda events: pickle.loads(pickle.dumps(events)),  # noqa: S301 - our own bytes
    "each copied": lambda events: [copy.copy(event) for event in events],
    "model copies": lambda events: [event.model_copy(deep=True) for event in events],
    "as JSON": lambda events: [event.model_dump_json() for event in events],
    "dumped": lambda events: [event.model_dump() for event in events],
    "validated": lambda events: Event.model_validate(events[0]),
    "in a model": lambda events: Holder(events=events).model_dump_json(),
    "in a session": lambda events: Session(id="s", app_name="a", user_id="u", events=events),
    "vars": lambda events: vars(events[0]),
    "dict": lambda events: dict(events[0]),
    "text": lambda events: [repr(event) for event in events] + [str(events[0])],
    "helpers": lambda events: [event.get_function_responses() for event in events],
    "final": lambda events: [event.is_final_response() for event in events],
    "fields set": lambda events: [event.model_fields_set for event in events],
    "class": lambda events: [event.__class__ for event in events],
    "instances": lambda events: [isinstance(event, Event) for event in events],
}


@pytest.mark.parametrize("look", LOOKS)
def test_events_are_read_as_a_list_of_events(look: str) -> None:
    """STA-17: whatever code looks at first, it finds what it would find in a plain list."""
    events, own = session()
    assert LOOKS[look](own.events) == LOOKS[look](events)
    assert type(own.events) is list


CHANGES: list[Callable[[Any], Any]] = [
    lambda event: event.content.parts.clear(),
    lambda event: event.actions.state_delta["k"].append(3),
    lambda event: setattr(event, "author", "x"),
    lambda event: vars(event).clear(),
    lambda event: setattr(Holder(events=[event]).events[0], "id", "x"),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_the_copys_only(change: Callable[[Event], Any]) -> None:
    """TRAP-23: the committed event stays, and the session of user code keeps the change."""
    events, own = session()
    change(own.events[1])
    assert events == [made("1"), made("2"), made("3")]
    assert own.events[1] != events[1]
    assert own.events[1] is own.events[1]


def test_the_list_is_the_codes_own() -> None:
    """STA-17: it can be appended to, cut and sorted."""
    events, own = session()
    own.events.append(made("4"))
    del own.events[0]
    own.events.sort(key=lambda event: event.id, reverse=True)
    assert [event.id for event in own.events] == ["4", "3", "2"]
    assert [event.id for event in events] == ["1", "2", "3"]


def test_a_session_is_dumped_whole() -> None:
    """STA-1: a session whose events nobody has read yet has them in its JSON, and in its copies."""
    events, own = session()
    plain = Session(id="s", app_name="app", user_id="u", state={"k": 1}, events=events, revision=3)
    assert session()[1].model_dump_json() == plain.model_dump_json()
    assert session()[1].model_copy(deep=True) == plain
    assert session()[1] == plain
    assert (own.id, own.app_name, own.user_id, own.revision) == ("s", "app", "u", 3)
    state: dict[str, Any] = {}
    own.state = state
    own.last_update_time = 1.0
    assert own.model_dump()["events"] == plain.model_dump()["events"]
    assert own.state is state
    assert own.last_update_time == 1.0


def test_what_is_not_read_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """D3: in a long session a look at the last event copies it alone."""
    copied: list[str] = []
    real = copies.own_copy

    def counted(event: Event) -> Event:
        copied.append(event.id)
        return real(event)

    monkeypatch.setattr("durable_adk.context.activity.own_copy", counted)
    _, own = session(*map(str, range(100)))
    assert own.state == {"k": 1}
    assert copied == []
    assert own.events[-1].author == "a"
    assert own.events[-1].text == "hi"
    assert len(own.events) == 100
    assert copied == ["99"]


def test_threads_that_read_an_event_get_one() -> None:
    """TRAP-23: a change that one of them makes is not lost when another one reads."""
    for _ in range(20):
        (event,) = lazy_models(Event, own_copy, [said("a")])
        with ThreadPoolExecutor(4) as threads:
            parts = list(threads.map(vars, [event] * 8))
        assert len({id(part) for part in parts}) == 1
