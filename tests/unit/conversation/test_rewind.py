"""The event that takes a session back."""

import pytest
from hypothesis import given, strategies as st

from durable_adk.conversation.rewind import artifacts_to_restore, rewind_event
from durable_adk.errors import InvocationNotFoundError
from durable_adk.events import Event, EventActions
from tests.support.histories import session

INITIAL = {"init": 1, "app:a": 1}


def wrote(files: dict | None = None, /, **state) -> Event:
    """An event that changed state and files; `_` in a key stands for `:`."""
    delta = {key.replace("_", ":"): value for key, value in state.items()}
    return Event(author="me", actions=EventActions(state_delta=delta, artifact_delta=files or {}))


def state_after(events: list[Event]) -> dict:
    """The state that the events made of `INITIAL`."""
    state = dict(INITIAL)
    for one in events:
        state |= one.actions.state_delta
    return state


def rewound(events: list[Event], number: int) -> Event:
    """The marker for going back before an invocation."""
    return rewind_event(
        events,
        before_invocation_id=f"i{number}",
        current_state=state_after(events),
        initial_state=INITIAL,
    )


def test_the_marker_names_the_invocation():
    """It is by the user, says before what to rewind, and leaves its ids to who commits it."""
    marker = rewound(session([wrote()], [wrote()]), 1)
    assert (marker.author, marker.actions.rewind_before_invocation_id) == ("user", "i1")
    assert (marker.id, marker.invocation_id, marker.content) == ("", "", None)


def test_keys_get_the_value_they_had():
    """Changed ones their old value, new ones None, others nothing (REW-2)."""
    events = session([wrote(x=1, y=1, z=1)], [wrote(x=2, new=[1])], [wrote(x=3, y=1)])
    assert rewound(events, 1).actions.state_delta == {"x": 1, "new": None}


def test_keys_of_other_scopes_stay():
    """What belongs to the user, the app or one invocation is not this session's past (REW-2)."""
    events = session([wrote(app_a=1, user_u=1)], [wrote(app_a=2, user_u=2, temp_t=2, own=2)])
    assert rewound(events, 1).actions.state_delta == {"own": None}


def test_keys_set_at_creation_get_their_first_value():
    """No event tells it, so it is taken from what the session was created with (REW-2)."""
    events = session([wrote(init=2)])
    assert rewound(events, 0).actions.state_delta == {"init": 1}
    unknown = rewind_event(events, before_invocation_id="i0", current_state={"init": 2})
    assert unknown.actions.state_delta == {"init": None}


def test_true_is_not_one():
    """Values are compared as JSON, where Python takes some different ones for equal."""
    events = session([wrote(flag=True)], [wrote(flag=1)])
    assert rewound(events, 1).actions.state_delta == {"flag": True}


def test_the_delta_shares_nothing_with_the_history():
    """Whoever changes a list in the state changes no committed event (TRAP-52)."""
    events = session([wrote(x=[1])], [wrote(x=[2])])
    rewound(events, 1).actions.state_delta["x"].append(9)
    assert events[0].actions.state_delta == {"x": [1]}


@pytest.mark.parametrize("unknown", ["nope", ""])
def test_an_unknown_invocation_is_refused(unknown):
    """Nothing is made of it, even where events of no invocation are there (REW-4)."""
    events = [wrote(x=1), *session([wrote(x=2)])]
    with pytest.raises(InvocationNotFoundError):
        rewind_event(events, before_invocation_id=unknown, current_state={})
    with pytest.raises(InvocationNotFoundError):
        artifacts_to_restore(events, before_invocation_id=unknown)


def test_files_get_the_version_they_had():
    """Changed ones their old version, new ones None; the user's own stay (REW-3)."""
    events = session(
        [wrote({"a": 0, "b": 0})],
        [wrote({"a": 1, "new": 0, "user:u": 0})],
        [wrote({"a": 2})],
    )
    assert artifacts_to_restore(events, before_invocation_id="i1") == {"a": 0, "new": None}
    assert artifacts_to_restore(events, before_invocation_id="i2") == {"a": 1}


def test_files_that_a_rewind_saved_count():
    """A version that an earlier rewind saved is one like others (REW-3)."""
    events = session([wrote({"a": 0})], [wrote({"a": 1})], [wrote({"a": 2})], [wrote({"a": 3})])
    assert artifacts_to_restore(events, before_invocation_id="i3") == {"a": 2}


_DELTAS = st.dictionaries(
    st.sampled_from(["init", "x", "y", "app_a"]), st.sampled_from([None, 0, 1, True, "s"])
)
_STEPS = st.lists(_DELTAS.map(lambda delta: wrote(**delta)) | st.integers(0, 9), max_size=12)


@given(_STEPS)
def test_the_state_is_as_it_was(steps):
    """After any number of rewinds among other events, each returns what was then (REW-2)."""
    events: list[Event] = []
    for step in steps:
        if isinstance(step, Event):
            events = session(*events, step)
        elif step < len(events):
            events = session(*events, rewound(events, step))
            now, then = state_after(events), state_after(events[:step])
            own = {key for key in now if ":" not in key}
            assert {key: now[key] for key in own} == {key: then.get(key) for key in own}
            assert now["app:a"] == state_after(events[:-1])["app:a"]
