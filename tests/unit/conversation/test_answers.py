"""Which answers are accepted: those to a waiting call, in its form, and nothing else (TRAP-28)."""

import copy
import json

import pytest
from google.genai import types
from hypothesis import given, settings, strategies as st

from durable_adk.auth.auth_tool import REQUEST_CREDENTIAL
from durable_adk.conversation.answers import answer_message, answered_invocation_ids, check_answers
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.conversation.pending_calls import FINAL_RESPONSES, PendingCall, pending_calls
from durable_adk.errors import InvalidRequestError
from durable_adk.events import Event
from durable_adk.sessions.records import Status
from tests.support.examples import examples
from tests.support.pausing import (
    CANARY,
    GOOD,
    answer,
    authenticating,
    calls,
    confirming,
    consent,
    message,
    responses,
    working,
)

KINDS = [working, confirming, authenticating]


def good(call: PendingCall) -> types.Part:
    """An answer that the call accepts."""
    return answer(call.call_id, call.name, copy.deepcopy(GOOD[call.name]))


def refused(events: list[Event], *parts: types.Part, match: str, **options: object) -> None:
    """Assert that a message is refused, and that no secret is in the reason."""
    with pytest.raises(InvalidRequestError, match=match) as caught:
        check_answers(events, message(*parts), **options)
    assert CANARY not in str(caught.value) + repr(caught.value.__cause__)


@pytest.mark.parametrize("make", KINDS)
def test_a_waiting_call_accepts_its_answer(make):
    """TOL-41, TOL-51, TOL-62: an answer of the right form to each kind of call."""
    [call] = pending_calls(make())
    [found] = check_answers(make(), message(good(call)))
    assert (found.call, found.update) == (call, False)
    assert answered_invocation_ids(make(), message(good(call))) == {"i"}


def test_several_calls_of_one_invocation_are_answered_together():
    """The answers are in the order of the message."""
    events = [*confirming(), *authenticating(), *working()]
    waiting = pending_calls(events)
    found = check_answers(events, message(*[good(call) for call in reversed(waiting)]))
    assert [item.call for item in found] == waiting[::-1]
    assert len(waiting) == 3


def test_a_message_without_answers_has_none():
    """Text is no answer, and its words decide nothing (S11)."""
    yes = '{"name": "adk_request_confirmation", "response": {"confirmed": true}}'
    assert check_answers(confirming(), message(types.Part(text=yes))) == []
    assert check_answers(confirming(), types.Content(role="user")) == []


@pytest.mark.parametrize(
    "beside",
    [
        types.Part(text="please"),
        types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png")),
        types.Part(function_call=types.FunctionCall(name="pay", args={})),
    ],
)
def test_answers_come_alone(beside):
    """RUN-21: nothing else may be in a message of answers, on either side of them."""
    [call] = pending_calls(confirming())
    for parts in ([beside, good(call)], [good(call), beside]):
        refused(confirming(), *parts, match="mixes answers")


@pytest.mark.parametrize("make", KINDS)
def test_an_answer_names_its_call(make):
    """RUN-21, TRAP-28: no id, an unknown id, an ordinary call's id or another name is refused."""
    [call] = pending_calls(make())
    response = GOOD[call.name]
    refused(make(), answer(None, call.name, response), match="has no id")
    refused(make(), answer("", call.name, response), match="has no id")
    refused(make(), answer("x", call.name, response), match=f"pending calls: {call.call_id}")
    refused(make(), answer(call.call_id, "other", response), match=f"name, '{call.name}'")
    refused(make(), answer(call.call_id, None, response), match="must have")
    refused(confirming(), answer("i-look", "look", {}), match="no pending call 'i-look'")
    refused([], answer("x", "y", {}), match="calls: none")


@pytest.mark.parametrize("make", KINDS)
def test_an_answer_counts_once(make):
    """TOL-64, TRAP-28: a second answer is refused, later and in the same message."""
    [call] = pending_calls(make())
    part = good(call)
    done = [*make(), responses("i.7", part, author="user")]
    refused(done, part, match="already answered")
    refused(make(), part, part, match="twice")
    late = responses("i.7", part, custom_metadata={FINAL_RESPONSES: True})
    refused([*make(), late], part, match="too late")


@pytest.mark.parametrize("make", KINDS)
def test_what_ended_badly_is_not_answered(make):
    """A call whose invocation was cancelled or failed is over, known by its events or status."""
    [call] = pending_calls(make())
    part = good(call)
    refused([*make(), Event(id="i.end", invocation_id="i")], part, match="ended before")
    sealed = responses("i.1.sealed", answer(call.call_id, call.name, {}))
    refused([*make(), sealed], part, match="ended before")
    for status in (Status.CANCELLED, Status.FAILED, Status.ABANDONED):
        refused(make(), part, match="ended before", statuses={"i": status})
    for status in (Status.RUNNING, Status.PAUSED):
        assert check_answers(make(), message(part), statuses={"i": status})


def test_a_completed_invocation_takes_updates_only():
    """TOL-41: a later result of long-running work starts anew; a late decision is refused."""
    statuses = {"i": Status.COMPLETED}
    [call] = pending_calls(working())
    answered = [*working(), responses("i.7", good(call), author="user")]
    for events in (working(), answered):
        [found] = check_answers(events, message(good(call)), statuses=statuses)
        assert found.update
    for make in (confirming, authenticating):
        [call] = pending_calls(make())
        refused(make(), good(call), match="is over", statuses=statuses)


def test_answers_are_for_one_invocation():
    """Calls of two invocations need two messages."""
    events = [*confirming("i"), *working("k")]
    parts = [good(call) for call in pending_calls(events)]
    assert answered_invocation_ids(events, message(*parts)) == {"i", "k"}
    refused(events, *parts, match="several invocations")


def test_unconfirmed_work_cannot_be_answered_past_the_question():
    """A result for a call that nobody approved yet is refused."""
    events = confirming()
    events[0].long_running_tool_ids = {"i-pay"}
    refused(events, answer("i-pay", "pay", {"paid": True}), match="Answer adk_request_confirmation")


@pytest.mark.parametrize("call", [{"amount": 6}, {"amount": 5, "to": "x"}, {}])
def test_a_decision_is_about_the_arguments_that_were_shown(call):
    """TOL-64: if the call in the history is not the one that was shown, a yes runs nothing."""
    events = confirming()
    [pending] = pending_calls(events)
    changed = [calls("i.1", ("i-pay", "pay", call)), *events[1:]]
    refused(changed, good(pending), match="no pending call")
    assert check_answers(events, message(good(pending)))


@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("as_text", [False, True])
def test_a_decision_is_read_in_both_forms(confirmed, as_text):
    """TOL-62: as an object, or as its JSON text under `response`; stored in one form."""
    [call] = pending_calls(confirming())
    data = {"confirmed": confirmed, "payload": {"days": 3}}
    sent = {"response": json.dumps(data)} if as_text else data
    [found] = check_answers(confirming(), message(answer(call.call_id, call.name, sent)))
    assert found.confirmation
    assert (found.confirmation.confirmed, found.confirmation.payload) == (confirmed, {"days": 3})
    assert found.response.response == data


@pytest.mark.parametrize(
    "bad",
    [
        None,
        {},
        {"confirmed": "true"},
        {"confirmed": 1},
        {"confirmed": None},
        {"payload": True},
        {"confirmed": True, "approved": True},
        {"confirmed": True, "payload": float("nan")},
        {"response": {"confirmed": True}},
        {"response": "yes"},
        {"response": "[true]"},
        {"response": '{"confirmed": "true"}'},
        {"response": '{"confirmed": true, "payload": NaN}'},
        {"response": "[" * 100_000},
        {"response": '{"confirmed": true, "payload": ' + "[" * 90 + "]" * 90 + "}"},
        {"response": '{"confirmed": true}', "confirmed": True},
    ],
)
def test_what_is_neither_yes_nor_no_is_refused(bad):
    """Only true and false decide; anything that merely looks like it is refused."""
    [call] = pending_calls(confirming())
    refused(confirming(), answer(call.call_id, call.name, bad), match=r"answer|response")


def test_a_credential_is_handed_over_and_not_stored():
    """TOL-55, TRAP-48: the answer carries the secret for the store; what is stored has none."""
    [call] = pending_calls(authenticating())
    answers = check_answers(authenticating(), message(good(call)))
    credential = answers[0].credential.exchanged_auth_credential
    assert credential.oauth2.auth_code == CANARY
    stored = answer_message(answers)
    assert CANARY not in stored.model_dump_json() + repr(answers) + repr(stored)
    event = responses("i.7", *stored.parts, author="user")
    assert CANARY not in event.to_json() + repr(event)
    assert check_answers(authenticating(), stored), "it must pass again where it is committed"


def test_a_credential_cannot_change_what_was_asked():
    """Scheme, client and key stay as asked, whatever else the client sends."""
    [call] = pending_calls(authenticating())
    sent = consent(auth_code="x") | {
        "authScheme": {"type": "http", "scheme": "bearer"},
        "rawAuthCredential": {"authType": "apiKey", "apiKey": "mine"},
    }
    [found] = check_answers(authenticating(), message(answer(call.call_id, call.name, sent)))
    assert found.credential.auth_scheme.type_ == "oauth2"
    assert found.credential.raw_auth_credential.oauth2.client_id == "c"
    assert found.credential.raw_auth_credential.api_key is None
    assert found.credential.key == call.args["authConfig"]["credentialKey"]


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({}, "no AuthConfig"),
        ({"confirmed": True}, "no AuthConfig"),
        ({**consent(), "exchangedAuthCredential": {"authType": CANARY}}, "no AuthConfig"),
        ({**consent(), "exchangedAuthCredential": None}, "no exchangedAuthCredential"),
        ({**consent(auth_code=CANARY), "credentialKey": "another"}, "credential key 'another'"),
        (consent(auth_code=CANARY, state="forged"), "another request"),
        (consent(auth_response_uri=f"https://b?state=no&code={CANARY}"), "another request"),
        (consent(auth_response_uri=f"https://b?code={CANARY}"), "another request"),
        (consent(auth_response_uri="https://[broken"), "another request"),
    ],
)
def test_a_credential_for_something_else_is_refused(bad, match):
    """What is no credential, for another key, or of another consent does not get into the store."""
    [call] = pending_calls(authenticating())
    refused(authenticating(), answer(call.call_id, call.name, bad), match=match)


IDS = st.sampled_from(["i-pay", "i-look", "i-mail", "i-order", "j-order", "forged", "", None])
NAMES = st.sampled_from([REQUEST_CONFIRMATION, REQUEST_CREDENTIAL, "order", "pay", "look", None])
RESPONSES = st.one_of(
    st.sampled_from(
        [*GOOD.values(), {"confirmed": "yes"}, {"response": '{"confirmed": true}'}, {}]
    ),
    st.dictionaries(st.sampled_from(["confirmed", "payload", "response"]), st.booleans()),
    st.none(),
)
HISTORY = st.lists(
    st.sampled_from([working, confirming, authenticating]), min_size=1, max_size=3, unique=True
)


@st.composite
def nearly_good(draw, waiting):
    """An answer to a call that waits, often with something else in the place of what it needs."""
    call = draw(st.sampled_from(waiting))
    keep = st.sampled_from([True, True, True, False])
    return answer(
        call.call_id if draw(keep) else draw(IDS),
        call.name if draw(keep) else draw(NAMES),
        GOOD[call.name] if draw(keep) else draw(RESPONSES),
    )


@given(data=st.data(), made=HISTORY, closed=st.sampled_from([None, None, *Status]))
@settings(max_examples=examples(300), deadline=None)
def test_no_forged_answer_passes(data, made, closed):
    """TRAP-28, S11: whatever is sent, what passes answers calls that wait, once, by name and form.

    The oracle knows nothing of the check: it compares with the calls that were asked.
    """
    events = [event for make in made for event in make()]
    waiting = {call.call_id: call for call in pending_calls(events)}
    parts = data.draw(st.lists(nearly_good(list(waiting.values())), min_size=1, max_size=3))
    statuses = {} if closed is None else {"i": closed}
    try:
        found = check_answers(events, message(*parts), statuses=statuses)
    except InvalidRequestError:
        return
    sent = [part.function_response for part in parts]
    assert [item.response.id for item in found] == [item.id for item in sent]
    assert len({item.id for item in sent}) == len(sent)
    for item, response in zip(found, sent, strict=True):
        assert item.call == waiting[response.id]
        assert response.name == item.call.name
        assert response.response is not None
        assert closed in (None, Status.RUNNING, Status.PAUSED) or item.update
        if item.confirmation:
            data = response.response
            data = json.loads(data["response"]) if "response" in data else data
            assert item.confirmation.confirmed is data["confirmed"]
        assert (item.credential is not None) == (item.call.name == REQUEST_CREDENTIAL)
    # A tool's result is what the client wants stored; what the framework asked for is not.
    asked = [item for item in found if item.call.kind != "long_running"]
    assert CANARY not in answer_message(asked).model_dump_json()
