"""The chunks of an attempt so far, kept for viewers that join later."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pydantic_core import to_json

from durable_adk.events.event import Event
from durable_adk.partials.partial import PartialEvent, encode, text_of, with_text

MAX_BYTES = 512 * 1024
"""Maximum size, as JSON, of the kept part of an attempt: half of a viewer's buffer. If the response
is longer, a viewer that joins late sees its beginning."""
MAX_ITEMS = 800
"""Maximum number of kept items; a viewer's buffer holds more."""
MERGED_BYTES = 16 * 1024
"""Maximum size of merged texts as JSON; every channel accepts twice as much."""
_NUMBERS = 24
"""Maximum size as JSON of the data that merging adds beside text and lengths."""
_MAY_DIFFER = {"content", "usage_metadata"}
"""Fields of merged events that may differ; token counts are running totals, so the last counts."""
_SAME = [name for name in Event.model_fields if name not in _MAY_DIFFER]


@dataclass
class _Item:
    """A chunk and the following ones that have the same metadata."""

    first: PartialEvent
    last: Event
    size: int
    texts: list[str]

    def merge(self, event: Event, text: str, size: int) -> bool:
        """Add a chunk that consists of one text; return whether that was possible."""
        merges = self.size + size <= MERGED_BYTES and _differ_in_text_only(self.last, event)
        if merges:
            self.last, self.size = event, self.size + size
            self.texts.append(text)
        return merges

    def merged(self) -> PartialEvent:
        """Return one chunk with the text of all."""
        if len(self.texts) <= 1:
            return self.first
        update = {
            "event": with_text(self.last, "".join(self.texts)),
            "index": self.first.index + len(self.texts) - 1,
            "lengths": [len(text) for text in self.texts],
        }
        return self.first.model_copy(update=update)


class KeptChunks:
    """Merges the chunks that it keeps: text with text, thoughts with thoughts.

    Chunks with a call, with several parts, or with other metadata than the one before are kept
    unchanged. Iterating yields all from the first one on, without a gap.
    """

    def __init__(self) -> None:
        self._items: list[_Item] = []
        self._size = 0
        self._full = False

    def __iter__(self) -> Iterator[PartialEvent]:
        return (item.merged() for item in self._items)

    @property
    def last(self) -> PartialEvent | None:
        """The last item of an iteration; None: nothing is kept."""
        return self._items[-1].merged() if self._items else None

    def before_last(self) -> Iterable[PartialEvent]:
        """Return the items before `last`, merged lazily during iteration."""
        found = KeptChunks()
        found._items = self._items[:-1]
        return found

    def add(self, partial: PartialEvent) -> None:
        """Keep the next chunk, unless this or an earlier one does not fit."""
        if not self._full:
            self._full = not (self._merge(partial.event) or self._append(partial))

    def _merge(self, event: Event) -> bool:
        text = text_of(event)
        if text is None or not self._items:
            return False
        try:
            size = len(to_json(text)) + len(f"{len(text)}") - 1  # a comma, and no quotes
        except ValueError:  # a model may cut an emoji in two
            return False
        merges = self._size + size <= MAX_BYTES and self._items[-1].merge(event, text, size)
        self._size += size if merges else 0
        return merges

    def _append(self, partial: PartialEvent) -> bool:
        data, text = encode(partial), text_of(partial.event)
        size = len(data or b"") + _NUMBERS
        if data is None or len(self._items) == MAX_ITEMS or self._size + size > MAX_BYTES:
            return False
        texts = [] if text is None else [text]
        self._items.append(_Item(partial, partial.event, size, texts))
        self._size += size
        return True


def _differ_in_text_only(one: Event, other: Event) -> bool:
    """Return whether two chunks can be merged, the second of which consists of one text."""
    left, right = one.content, other.content
    return (
        text_of(one) is not None
        and left is not None
        and right is not None
        and left.role == right.role
        and one.parts[0].thought == other.parts[0].thought
        and all(getattr(one, name) == getattr(other, name) for name in _SAME)
    )
