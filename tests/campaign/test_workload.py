"""What the campaign's clients send."""

from itertools import islice

from campaign.client_main import BESIDE, SessionSequence
from campaign.scale import SCALES, Size
from campaign.workload import (
    BURST,
    CROWD,
    DEALT,
    DENIED,
    ENDING,
    POISON,
    QUEUED,
    RAISING,
    Place,
    Poison,
    Raised,
    Turn,
    courses,
)

USUAL = SCALES[Size.USUAL]


def test_a_session_s_turns_bring_every_poison_once() -> None:
    """I22: in an order of the session's own, and each goes the way of one turn of the control."""
    turns = [Turn(POISON, "u", "poison-0-1-2", number + 1) for number in range(len(Poison))]
    assert {turn.poison for turn in turns} == set(Poison)
    assert sorted(turn.course for turn in turns) == list(range(courses(POISON, 3)))


def test_a_session_s_turns_raise_at_every_place_once() -> None:
    """F12: and what they raise in a timer is what asyncio does not keep there."""
    turns = [Turn(RAISING, "u", "raising-0-1-2", number + 1) for number in range(len(Place))]
    assert {turn.place for turn in turns} == set(Place)
    many = [Turn(RAISING, "u", f"raising-{number}", 1) for number in range(100)]
    assert {turn.raised for turn in many} == set(Raised)
    assert {turn.raised for turn in many if turn.place is Place.TIMER} == set(ENDING)


def test_every_message_has_a_word_of_its_own() -> None:
    """I18, I19: by which it can be found; the invocation it opens can be told from its id."""
    turns = [Turn("plain", "u", session, number) for session in "ab" for number in (1, 2)]
    assert len({turn.word for turn in turns}) == len(turns)
    assert all(Turn.of("plain", "u", turn.invocation) == turn for turn in turns)


def test_lanes_play_all_apps_first() -> None:
    """A short run has seen each app: every one is dealt once among the sequences of all clients."""
    for seed in range(20):
        dealt = [
            app
            for slot in range(USUAL.clients)
            for number in range(1, USUAL.sequences)
            for app, _ in SessionSequence(str(slot), seed, number, USUAL)._dealt()
        ]
        assert sorted(dealt) == sorted(DEALT)


def test_what_a_lane_owes_has_all_turns_of_each_app_that_it_was_dealt() -> None:
    """However soon clients are told to stop, every app was played, and each kind of poison."""
    sequence = SessionSequence("1", 3, 2, USUAL)
    owed = [group[0] for group in islice(sequence.groups(), sequence.owed)]
    dealt = [app for app, turns in sequence._dealt() for _ in range(turns)]
    assert [turn.app for turn in owed] == dealt
    assert SessionSequence("1", 3, 0, USUAL).owed == 0  # a session that has no end


def test_a_crowd_is_more_messages_at_once_than_may_wait() -> None:
    """I22: so some are refused, each has the same course, and another crowd comes afterwards."""
    assert {CROWD, DENIED} == {app for apps in BESIDE for app in apps}
    sequence = SessionSequence("0", 3, USUAL.sequences, USUAL, CROWD)
    first, second = islice(sequence.groups(), 2)
    assert len(first) == len(second) == BURST > QUEUED + 1
    assert {turn.session for turn in first}.isdisjoint(turn.session for turn in second)
    assert {turn.course for turn in first} == {0}


def test_what_is_to_be_denied_is_never_approved() -> None:
    """I16: whatever the turn."""
    sequence = SessionSequence("1", 3, USUAL.sequences, USUAL, DENIED)
    assert not any(turn.approves for group in islice(sequence.groups(), 9) for turn in group)
