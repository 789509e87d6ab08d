"""The summary in an event."""

import json

from google.genai import types

from durable_adk.events import Event
from durable_adk.events.event_compaction import compaction_event
from tests.support.histories import event, session, summary

SUMMARY = types.Content(parts=[types.Part(text="sum")])


def test_it_is_written_as_adk_writes_it():
    """ADK's JSON, the ids at a place where ADK ignores them; a role is `model` unless set."""
    made = compaction_event(session([event("user", "a"), event("me", "b")]), SUMMARY)
    written = json.loads(made.to_json())
    assert written["compactedEventIds"] == ["e0", "e1"]
    assert written["actions"]["compaction"] == {
        "startTimestamp": 0.0,
        "endTimestamp": 0.0,
        "compactedContent": {"parts": [{"text": "sum"}], "role": "model"},
    }
    assert Event.from_json(made.to_json()) == made
    assert SUMMARY.role is None


def test_it_begins_where_the_summary_it_replaces_began():
    """So the new one covers the old one's events, and takes its place (CMP-1)."""
    old = summary("old", ids=("e0", "e3"), times=(1.0, 2.0))
    later = event("me", "x", id="e5", timestamp=3)
    made_event = compaction_event([old, later], SUMMARY)
    made = made_event.actions.compaction
    assert made
    assert made_event.compacted_event_ids == ["e0", "e5"]
    assert (made.start_timestamp, made.end_timestamp) == (1.0, 3.0)


def test_events_without_ids_are_named_by_time():
    """An id that is not there is left out rather than matched with other missing ones."""
    made = compaction_event([event("user", "a", timestamp=1)], SUMMARY)
    assert made.compacted_event_ids is None
