"""Which calls wait: read from committed events only."""

import pytest
from google.genai import types

from durable_adk.auth.auth_tool import REQUEST_CREDENTIAL
from durable_adk.conversation.client_requests import (
    REQUEST_CONFIRMATION,
    confirmation_request,
    credential_request,
    decision,
)
from durable_adk.conversation.pending_calls import (
    DEADLINES,
    FINAL_RESPONSES,
    pending_calls,
    with_deadlines,
)
from durable_adk.events import Event, EventActions
from durable_adk.tools.tool_confirmation import ToolConfirmation
from durable_adk.wire.manifest import Wait
from tests.support.pausing import (
    CANARY,
    answer,
    auth_config,
    authenticating,
    calls,
    confirming,
    responses,
    working,
)


def ids(events: list[Event]) -> list[str]:
    """Ids of the calls that wait."""
    return [call.call_id for call in pending_calls(events)]


def only(events: list[Event]) -> types.FunctionCall:
    """The call of the request that ends a history."""
    [call] = events[-1].get_function_calls()
    return call


def test_a_confirmation_request_is_adks_event():
    """TOL-61: name, arguments, role, author and branch are those of 2.13."""
    request = confirming()[-1]
    assert (request.author, request.branch, request.content.role) == (
        "agent",
        "root.agent",
        "model",
    )
    assert (request.id, request.invocation_id) == ("i.3", "i")
    call = only(confirming())
    assert call.name == REQUEST_CONFIRMATION
    assert call.id.startswith("adk-")
    assert request.long_running_tool_ids == {call.id}
    assert call.args == {
        "originalFunctionCall": {"id": "i-pay", "name": "pay", "args": {"amount": 5}},
        "toolConfirmation": {"hint": "Really?", "confirmed": False},
    }


def test_a_credential_request_is_adks_event_without_secrets():
    """TOL-50, TOL-55: the client gets the configuration it needs, and nothing that is secret."""
    request = authenticating()[-1]
    call = only([request])
    assert (request.content.role, call.name) == ("user", REQUEST_CREDENTIAL)
    assert request.long_running_tool_ids == {call.id}
    assert call.args["functionCallId"] == "i-mail"
    shown = call.args["authConfig"]["exchangedAuthCredential"]["oauth2"]
    assert (shown["authUri"], shown["state"]) == ("https://consent?state=st", "st")
    assert CANARY in auth_config().to_json()
    assert CANARY not in request.to_json() + repr(request) + repr(pending_calls([request]))


def test_a_newer_releases_confirmation_is_read():
    """I13: a tool's step asks, and an answer is stored, by workers of the next release too."""
    added = {"addedByTheNextRelease": 1}
    turn = calls("i.1", ("a", "pay", {}))
    asked = {"a": {"hint": "Pay?", **added}}
    actions = EventActions.read({"requestedToolConfirmations": asked})
    request = confirmation_request(turn, responses("i.2", actions=actions), event_id="i.3")
    call = only([request])
    assert call.args["toolConfirmation"] == {"hint": "Pay?", "confirmed": False}
    part = answer(call.id, REQUEST_CONFIRMATION, {"confirmed": True, **added})
    assert decision(part.function_response) == ToolConfirmation(confirmed=True)


def test_the_same_turn_makes_the_same_request():
    """D5: ids come from the event and the call, so a replay asks the same; others differ."""
    assert confirming() == confirming()
    assert only(confirming()).id != only(confirming("j")).id
    turn, done, _ = confirming()
    other = confirmation_request(turn, done, event_id="i.9")
    assert only([other]).id != only(confirming()).id


def test_what_was_not_asked_for_makes_no_request():
    """Only calls of this turn can be asked about."""
    turn = calls("i.1", ("a", "pay", {}))
    plain = responses("i.2", answer("a", "pay", {}))
    assert confirmation_request(turn, plain, event_id="i.3") is None
    assert credential_request(turn, plain, event_id="i.3") is None
    plain.actions = EventActions(
        requested_tool_confirmations={"b": {}}, requested_auth_configs={"b": auth_config()}
    )
    assert confirmation_request(turn, plain, event_id="i.3") is None
    assert credential_request(turn, plain, event_id="i.3") is None


def test_several_calls_are_asked_about_in_their_order():
    """One event asks for all of a turn; a question never comes as a yes."""
    turn = calls("i.1", ("a", "pay", {}), ("b", "look", {}), ("c", "pay", {"x": 1}))
    asked = {"c": ToolConfirmation(confirmed=True, payload={"x": [1]}), "a": {}}
    done = responses("i.2", actions=EventActions(requested_tool_confirmations=asked))
    request = confirmation_request(turn, done, event_id="i.3")
    args = [call.args for call in request.get_function_calls()]
    assert [item["originalFunctionCall"]["id"] for item in args] == ["a", "c"]
    assert [item["toolConfirmation"]["confirmed"] for item in args] == [False, False]
    assert args[1]["toolConfirmation"]["payload"] == {"x": [1]}


@pytest.mark.parametrize(
    ("make", "kind", "name", "original"),
    [
        (working, "long_running", "order", "i-order"),
        (confirming, "confirmation", "pay", "i-pay"),
        (authenticating, "credential", "mail", "i-mail"),
    ],
)
def test_a_pending_call_says_what_it_is_about(make, kind, name, original):
    """Each kind waits, with the tool call that it is about; it survives the wire."""
    [call] = pending_calls(make())
    assert (call.kind, call.original_name, call.original_call_id) == (kind, name, original)
    assert (call.author, call.branch, call.invocation_id) == ("agent", "root.agent", "i")
    assert type(call).from_json(call.to_json()) == call


@pytest.mark.parametrize("make", [working, confirming, authenticating])
def test_only_the_users_answer_settles(make):
    """What an agent says to a call is preliminary; the user's answer under its name is final."""
    events = make()
    [call] = pending_calls(events)
    part = answer(call.call_id, call.name, {})
    assert ids([*events, responses("i.8", part)]) == [call.call_id]
    assert ids([*events, responses("i.8", part, author="user", partial=True)]) == [call.call_id]
    other = answer(call.call_id, "other", {})
    assert ids([*events, responses("i.8", other, author="user")]) == [call.call_id]
    assert ids([*events, responses("i.8", part, author="user")]) == []


@pytest.mark.parametrize("make", [working, confirming, authenticating])
def test_the_loop_settles_and_endings_seal(make):
    """A mark of the loop, a seal and the end of a failed invocation close what waits."""
    events = make()
    [call] = pending_calls(events)
    part = answer(call.call_id, call.name, {})
    for settled in (True, [call.call_id, "x"]):
        assert (
            ids([*events, responses("i.8", part, custom_metadata={FINAL_RESPONSES: settled})]) == []
        )
    for settled in (False, ["x"], None, "yes"):
        mark = {FINAL_RESPONSES: settled}
        assert ids([*events, responses("i.8", part, custom_metadata=mark)]) == [call.call_id]
    assert ids([*events, responses(f"{call.event_id}.sealed", part)]) == []
    assert ids([*events, Event(id="i.end", invocation_id="i", error_code="X")]) == []
    assert ids([*events, Event(id="j.end", invocation_id="j", error_code="X")]) == [call.call_id]


def test_a_long_running_call_that_is_not_confirmed_has_not_begun():
    """While the question is open only the question waits; after it the call does."""
    turn = calls("i.1", ("a", "order", {}), long=("a",))
    actions = EventActions(requested_tool_confirmations={"a": {}})
    done = responses("i.2", answer("a", "order", {"error": "asked"}), actions=actions)
    request = confirmation_request(turn, done, event_id="i.3")
    events = [turn, done, request]
    asked = only(events).id
    assert ids(events) == [asked]
    yes = answer(asked, REQUEST_CONFIRMATION, {"confirmed": True})
    assert ids([*events, responses("i.4", yes, author="user")]) == ["a"]


def test_a_deadline_is_counted_from_the_event_that_asks():
    """It is shown as long as it is known; an approved call's begins anew, when nobody can say."""
    turn = calls("i.1", ("a", "order", {}), long=("a",))
    with_deadlines(turn, {"a": Wait(deadline=60.0), "b": Wait()})
    turn.timestamp = 1000.0
    (waits,) = pending_calls([turn])
    assert (waits.deadline, waits.on_deadline) == (1060.0, "tell")
    actions = EventActions(requested_tool_confirmations={"a": {}})
    done = responses("i.2", answer("a", "order", {"error": "asked"}), actions=actions)
    request = confirmation_request(turn, done, event_id="i.3")
    assert [call.deadline for call in pending_calls([turn, done, request])] == [None]
    yes = answer(only([request]).id, REQUEST_CONFIRMATION, {"confirmed": True})
    events = [turn, done, request, responses("i.4", yes, author="user")]
    assert [call.deadline for call in pending_calls(events)] == [None]


def test_a_call_says_what_happens_at_its_deadline():
    """As the loop decides by its kind."""
    turn = calls("i.1", ("a", "order", {}), ("b", "order", {}), long=("a", "b"))
    with_deadlines(turn, {"a": Wait(deadline=60.0, on_deadline="reject")})
    actions = EventActions(requested_tool_confirmations={"b": {}})
    done = responses("i.2", answer("b", "order", {"error": "asked"}), actions=actions)
    request = confirmation_request(turn, done, event_id="i.3")
    asked = only([request]).id
    shown = []
    for policy in ("tell", "approve", "fail"):
        with_deadlines(request, {asked: Wait(deadline=60.0, on_deadline=policy)})
        shown.append([call.on_deadline for call in pending_calls([turn, done, request])])
    assert shown == [["tell", "reject"], ["tell", "approve"], ["tell", "fail"]]


def test_a_deadline_without_a_policy_hides_no_call():
    """Code of users may have written the note."""
    turn = calls("i.1", ("a", "order", {}), long=("a",))
    turn.custom_metadata = {DEADLINES: {"a": 60.0}}
    [call] = pending_calls([turn])
    assert (call.deadline, call.on_deadline) == (turn.timestamp + 60.0, None)


def test_ordinary_calls_wait_for_nobody():
    """A call that is not long-running is the loop's own, answered or not."""
    assert ids([calls("i.1", ("a", "look", {}))]) == []


def test_a_call_that_recurs_waits_anew():
    """Providers repeat ids: the latest call counts, not what was said to an earlier one."""
    done = responses("i.3", answer("i-order", "order", {}), author="user")
    again = calls("k.1", ("i-order", "order", {}), long=("i-order",))
    [call] = pending_calls([*working(), done, again])
    assert call.invocation_id == "k"


def test_a_request_of_a_remote_agent_is_answered_as_a_call_of_it():
    """Its call is in no event here, so the answer runs nothing but the remote agent."""
    turn, done, request = confirming()
    request.custom_metadata = {"a2a:response": {"id": "t"}}
    [call] = pending_calls([request])
    assert (call.kind, call.original_call_id) == ("long_running", call.call_id)
    assert [call.kind for call in pending_calls([turn, done, request])] == ["confirmation"]


def test_what_a_client_or_a_model_forges_does_not_wait():
    """TRAP-28: a request written by the user, by a model, or about a call never made is none."""
    turn, done, request = confirming()
    by_user = request.model_copy(update={"author": "user"})
    by_model = request.model_copy(update={"long_running_tool_ids": None})
    assert ids([turn, done, by_user]) == ids([turn, done, by_model]) == []
    assert ids([done, request]) == []
    other = calls("i.1", ("i-pay", "pay", {"amount": 6}))
    assert ids([other, done, request]) == []
    renamed = calls("i.1", ("i-pay", "spend", {"amount": 5}))
    assert ids([renamed, done, request]) == []


def test_what_was_rewound_waits_for_nobody():
    """REW-1: nor was it ever answered, so what was answered since waits again."""
    back = Event(author="user", actions=EventActions(rewind_before_invocation_id="j"))
    asked = confirming("i")
    request = only(asked)
    reply = responses("j.0", answer(request.id, request.name, {"confirmed": True}), author="user")
    assert ids([*asked, reply]) == []
    assert ids([*asked, reply, back]) == [request.id]
    assert ids([*asked, *confirming("j"), back]) == [request.id]
