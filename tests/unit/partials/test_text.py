"""What a user interface shows."""

from durable_adk.partials import LiveText
from tests.support.chunks import chunk, event


def shown(*events):
    live = LiveText()
    return [live.feed(event) for event in events]


def test_the_whole_event_replaces():
    """EVT-15, TRAP-5: it repeats the text, and the text is shown once."""
    pieces = [chunk("Hello ", 0).as_event(), chunk("world", 1).as_event()]
    assert shown(*pieces, event("Hello world")) == ["Hello ", "Hello world", "Hello world"]


def test_a_whole_event_repairs():
    """Chunks that were lost are in it, whatever was shown before."""
    assert shown(chunk("Hel", 0).as_event(), event("Hello world"))[-1] == "Hello world"


def test_a_retried_attempt_begins_anew():
    """TRAP-6: its text is not put behind that of the attempt that failed."""
    pieces = [
        chunk("Hello wor", 0),
        chunk("Good ", 0, attempt=2),
        chunk("ld", 1, attempt=1),
        chunk("day", 1, attempt=2),
    ]
    texts = shown(*(piece.as_event() for piece in pieces))
    assert texts == ["Hello wor", "Good ", "Good ", "Good day"]


def test_another_event_begins_anew():
    """Each event is a message of its own."""
    other = chunk("Next", 0, event_id="e-1.2").as_event()
    assert shown(chunk("First").as_event(), event("First"), other) == ["First", "First", "Next"]


def test_a_late_chunk_does_not_undo_the_whole():
    """What is stored stays shown."""
    assert shown(event("Whole"), chunk("Wh", 0, attempt=9).as_event())[-1] == "Whole"


def test_it_tells_what_is_stored():
    """`run_to_completion` is true exactly while the text is that of a committed event."""
    live = LiveText()
    live.feed(chunk("a").as_event())
    assert (live.whole, live.event_id) == (False, "e-1.1")
    live.feed(event("ab"))
    assert (live.whole, live.event_id) == (True, "e-1.1")
