"""The text that a user interface shows now."""

from durable_adk.events.event import Event
from durable_adk.partials.partial import attempt_of


class LiveText:
    """Feed it the events of a run, partial and whole, and show `text` after each.

    A whole event repeats all that its chunks said, so it takes their place (EVT-15, TRAP-5).
    """

    def __init__(self) -> None:
        self.text = ""
        """What to show; thoughts are not in it."""
        self.event_id = ""
        """The event that `text` is of: with a new one begins a new message."""
        self.whole = True
        """Whether `text` is the stored answer and will not change."""
        self._attempt = 0

    def feed(self, event: Event) -> str:
        """Take the next event; the text to show now."""
        if not event.partial:
            self._begin(event, whole=True)
        elif self._is_news(event):
            self._begin(event, whole=False)
        elif not self.whole and attempt_of(event) == self._attempt:
            self.text += event.text
        return self.text

    def _is_news(self, event: Event) -> bool:
        """Whether the chunk begins a text: of another event, or of a retried step (TRAP-6)."""
        if event.id != self.event_id:
            return True
        return not self.whole and attempt_of(event) > self._attempt

    def _begin(self, event: Event, *, whole: bool) -> None:
        self.text, self.event_id, self.whole = event.text, event.id, whole
        self._attempt = attempt_of(event)
