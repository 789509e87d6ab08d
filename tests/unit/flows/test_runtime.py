"""What an inbox knows of the answers that came to it."""

import pytest

from durable_adk.flows.runtime import Inbox
from durable_adk.wire.messages import InvocationAnswer, is_reserved

YES = InvocationAnswer(call_id="c", confirmed=True, answer_id="ticket")
NO = InvocationAnswer(call_id="c", confirmed=False, answer_id="ticket")


@pytest.mark.parametrize("taken_first", [True, False])
def test_another_answer_under_a_taken_id_is_refused(taken_first: bool) -> None:
    """S22: its sender learns so, whether it asks before or after; the first one counts."""
    inbox = Inbox()
    inbox.put(YES)
    if taken_first:
        inbox.take("ticket")
    inbox.put(YES)
    assert not inbox.outcomes.get("ticket")
    inbox.put(NO)
    if not taken_first:
        inbox.take("ticket")
    assert "different contents" in (inbox.outcomes["ticket"] or "")
    assert inbox.taken() == {"ticket": YES.digest()}


def test_what_a_taken_answer_said_is_known_in_the_next_run() -> None:
    """S22, D10: also if another one came to the next run before that knew of the first."""
    first, following = Inbox(), Inbox()
    first.put(YES)
    first.take("ticket")
    following.put(NO)
    following.restore(first.state)
    assert "different contents" in (following.outcomes["ticket"] or "")
    assert following.taken() == {"ticket": YES.digest()}


def test_the_name_of_an_unnamed_answer_is_nobodys_id() -> None:
    """S22: another answer sent under that name neither disputes nor lists the first one."""
    inbox = Inbox()
    inbox.outcomes["unnamed-1"] = None
    inbox.put(NO.model_copy(update={"answer_id": "unnamed-1"}))
    assert inbox.outcomes == {"unnamed-1": None}
    assert inbox.taken() == {}


def test_a_malformed_answer_decides_nothing_for_one_that_is_under_way() -> None:
    """S22: its sender gets the outcome of that answer, not of the malformed one."""
    inbox = Inbox()
    inbox.put(YES)
    inbox.refuse_malformed("ticket", "no JSON")
    assert not inbox.is_decided(YES)
    inbox.take("ticket")
    assert inbox.taken() == {"ticket": YES.digest()}
    assert "different contents" in (inbox.outcomes["ticket"] or "")


def test_a_refused_answer_that_is_sent_again_is_undecided() -> None:
    """D9: the old reason is not reported meanwhile, and another answer may take the id."""
    inbox = Inbox()
    inbox.put(YES)
    inbox.refuse("ticket", "the plugin is broken")
    assert inbox.refusal(YES) == "the plugin is broken"
    inbox.put(NO)
    assert not inbox.is_decided(NO)
    inbox.take("ticket")
    inbox.put(NO)
    assert inbox.outcomes == {"ticket": None}
    assert inbox.taken() == {"ticket": NO.digest()}
    inbox.put(YES)
    assert "different contents" in (inbox.refusal(YES) or "")
    assert inbox.taken() == {"ticket": NO.digest()}


def test_a_refused_answer_may_be_sent_again_to_the_next_run() -> None:
    """D9, D10: also before that run knows that it was refused; a taken one stays taken."""
    first, following = Inbox(), Inbox()
    for name in ("refused", "taken"):
        first.put(YES.model_copy(update={"answer_id": name}))
        following.put(NO.model_copy(update={"answer_id": name}))
    first.refuse("refused", "the plugin is broken")
    first.take("taken")
    following.restore(first.state)
    assert "refused" not in following.outcomes
    following.take("refused")
    assert following.outcomes["refused"] is None
    assert following.taken() == {"refused": NO.digest(), "taken": YES.digest()}


def test_a_malformed_answer_changes_no_outcome_of_another() -> None:
    """S22: the sender of the first one does not learn of a refusal, and is known to be right."""
    inbox = Inbox()
    inbox.put(YES)
    inbox.take("ticket")
    inbox.refuse("ticket", "no JSON")
    assert "The first answer was accepted" in (inbox.outcomes["ticket"] or "")
    assert inbox.taken() == {"ticket": YES.digest()}


async def test_an_answer_without_a_name_gets_one_that_nobody_has_chosen() -> None:
    """D9: else it would count as the same answer again, and not at all."""
    inbox = Inbox()
    for name in ("unnamed-2", None):
        inbox.put(InvocationAnswer(call_id="c", confirmed=True, answer_id=name))
    assert (await inbox.get()).answer_id == "unnamed-2"  # type: ignore[union-attr] # it is there
    assert (await inbox.get()).answer_id == "unnamed-3"  # type: ignore[union-attr] # it is there


@pytest.mark.parametrize("name", ["unnamed-1", "malformed-12", "call.expired", ".expired"])
def test_names_that_the_loop_gives_are_reserved(name: str) -> None:
    """D9: and no others are."""
    assert is_reserved(name)
    assert not is_reserved(f"{name}-of-mine")


def test_an_answers_name_is_stripped() -> None:
    """S2: as every id is; else its sender looks for another name than is recorded."""
    raw = {"callId": "c", "confirmed": True, "answerId": " a "}
    assert InvocationAnswer.parse(raw).answer_id == "a"
