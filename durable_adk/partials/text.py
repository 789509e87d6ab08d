"""The text that a user interface should currently display."""

from durable_adk.events.event import Event
from durable_adk.partials.partial import attempt_of


class LiveText:
    """Accumulates a run's events, partial and complete; display `text` after each one.

    A complete event repeats the text of its chunks and therefore replaces them (EVT-15, TRAP-5).
    """

    def __init__(self) -> None:
        self.text = ""
        """The text to display, without thoughts."""
        self.event_id = ""
        """Id of the event that `text` belongs to; a new id starts a new message."""
        self.whole = True
        """Whether `text` comes from a stored event and will not change."""
        self._attempt = 0

    def feed(self, event: Event) -> str:
        """Process the next event and return the text to display."""
        if not event.partial:
            self._begin(event, whole=True)
        elif self._starts_new_text(event):
            self._begin(event, whole=False)
        elif not self.whole and attempt_of(event) == self._attempt:
            self.text += event.text
        return self.text

    def _starts_new_text(self, event: Event) -> bool:
        """Return whether the chunk starts a new text: another event, or a retried step (TRAP-6)."""
        if event.id != self.event_id:
            return True
        return not self.whole and attempt_of(event) > self._attempt

    def _begin(self, event: Event, *, whole: bool) -> None:
        self.text, self.event_id, self.whole = event.text, event.id, whole
        self._attempt = attempt_of(event)
