"""Histories of events, written by hand and drawn at random."""

from google.genai import types
from hypothesis import strategies as st

from durable_adk.conversation.history import not_rewound
from durable_adk.events import Event, EventActions
from durable_adk.events.event_actions import EventCompaction


def text(words: str, **fields) -> types.Part:
    return types.Part(text=words, **fields)


def call(call_id: str | None, name: str = "tool", **args) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


def answer(call_id: str | None, value=0, name: str = "tool") -> types.Part:
    response = types.FunctionResponse(id=call_id, name=name, response={"v": value})
    return types.Part(function_response=response)


def event(author: str, *parts: types.Part | str, **fields) -> Event:
    listed = [text(part) if isinstance(part, str) else part for part in parts]
    own_call = author != "user" and not any(part.function_response for part in listed)
    content = types.Content(role="model" if own_call else "user", parts=listed)
    return Event(author=author, content=content, **fields)


def slow(*call_ids: str, author: str = "me") -> Event:
    """An event with long-running calls."""
    return event(author, *map(call, call_ids), long_running_tool_ids=set(call_ids))


def rewind(before: str) -> Event:
    """A rewind marker."""
    return Event(author="user", actions=EventActions(rewind_before_invocation_id=before))


def summary(words: str, *, ids=(None, None), times=(-1.0, -1.0)) -> Event:
    """A summary of the events between two ids or two times."""
    compaction = EventCompaction(
        start_timestamp=times[0],
        end_timestamp=times[1],
        compacted_content=types.Content(role="model", parts=[text(words)]),
    )
    named = list(ids) if all(ids) else None
    actions = EventActions(compaction=compaction)
    return Event(author="user", actions=actions, compacted_event_ids=named)


def session(*turns: Event | list[Event]) -> list[Event]:
    """The events with ids e0, e1 ...; each list of them is an invocation, i0, i1 ...

    What has an invocation keeps it, so a session may be continued with. Two events share a
    timestamp: 0, 0, 1, 1, 2 ... (TRAP-15).
    """
    numbered: list[Event] = []
    for number, turn in enumerate(turns):
        for one in turn if isinstance(turn, list) else [turn]:
            position = len(numbered)
            fields = {"id": f"e{position}", "timestamp": float(position // 2)}
            own = one.invocation_id or f"i{number}"
            numbered.append(one.model_copy(update={**fields, "invocation_id": own}))
    return numbered


def said(events: list[Event]) -> str:
    """The texts, calls (`a?`) and answers (`a!`) of events, in short."""
    return " ".join(word for one in events for word in map(_short, one.parts))


def _short(part: types.Part) -> str:
    if part.function_call:
        return f"{part.function_call.id}?"
    return f"{part.function_response.id}!" if part.function_response else part.text or ""


# --- at random ------------------------------------------------------------------------------

BRANCHES = [None, "p", "p.a", "p.ab"]
_IDS = st.sampled_from(["a", "b", "adk-c", "adk-d", None])
_PARTS = st.lists(
    st.one_of(
        _IDS.map(call),
        st.builds(answer, _IDS, st.integers(0, 9)),
        st.sampled_from(["", "x"]).map(text),
        st.just(text("hm", thought=True)),
        st.just(call("adk-c", "adk_request_confirmation")),
    ),
    max_size=4,
)
_EVENTS = st.builds(
    lambda author, parts, slow_ids, branch: event(
        author, *parts, f"@{branch}", long_running_tool_ids=slow_ids, branch=branch
    ),
    st.sampled_from(["user", "me", "other"]),
    _PARTS,
    st.none() | st.sets(st.sampled_from(["a", "adk-c"])),
    st.sampled_from(BRANCHES),
)
_REWINDS = st.integers(0, 4).map(lambda number: rewind(f"i{number}"))
_STRETCHES = st.tuples(st.integers(0, 12), st.integers(0, 12), st.booleans())
"""Of a summary: its first and last event, and whether it names them by their ids."""


@st.composite
def histories(draw: st.DrawFn, max_size: int = 12) -> list[Event]:
    """Anything: calls and answers in any order, authors, branches, rewinds, summaries.

    Every event says which branch it is on, `@p.a` for one, and a summary repeats what it covers.
    """
    drawn = draw(
        st.lists(
            st.tuples(_EVENTS | _EVENTS | _REWINDS | _STRETCHES, st.integers(0, 3)),
            max_size=max_size,
        )
    )
    events: list[Event] = []
    for item, number in drawn:
        made = item if isinstance(item, Event) else _summarised(events, *item)
        made = made.model_copy(update={"invocation_id": f"i{number}"})
        events = session(*events, made)
    return events


def _summarised(events: list[Event], first: int, last: int, by_ids: bool) -> Event:
    """As it would be made: of the events that count then."""
    times = float(first // 2), float(last // 2)
    stretch = {one.id for one in events[first : last + 1]}
    covered = [
        one
        for one in not_rewound(events)
        if (one.id in stretch if by_ids else times[0] <= one.timestamp <= times[1])
    ]
    told = "sum " + " ".join(sorted({f"@{one.branch}" for one in covered}))
    return summary(told, **({"ids": (f"e{first}", f"e{last}")} if by_ids else {"times": times}))
