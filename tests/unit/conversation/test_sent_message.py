"""A user's message as it was sent, when plugins have changed it."""

from google.genai import types

from durable_adk.conversation.sent_message import is_sent_as, with_digests
from durable_adk.events import Event


def message(text: str) -> types.Content:
    """A message of the user."""
    return types.Content(role="user", parts=[types.Part(text=text)])


def test_a_changed_message_is_known_by_what_was_sent() -> None:
    """DUR-13: the same request again is the first one, whatever plugins made of it."""
    sent = Event(content=message("sent"), custom_metadata={"own": 1})
    event = Event(content=message("changed"))
    metadata = event.custom_metadata = with_digests(event, sent=sent)
    assert metadata is not None
    assert metadata["own"] == 1
    assert "sent" not in metadata.values()
    assert is_sent_as(event, message("sent"))
    assert not is_sent_as(event, message("other"))


def test_a_message_that_nobody_changed_is_itself() -> None:
    """DUR-13: no mark is needed."""
    event = Event(content=message("sent"))
    assert is_sent_as(event, message("sent"))
    assert not is_sent_as(event, message("other"))
    assert not is_sent_as(Event(), message("sent"))
