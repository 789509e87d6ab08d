"""Chunks that are kept for viewers that come later."""

from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings, strategies as st

from durable_adk.events import Event
from durable_adk.partials import PartialEvent, chunks
from durable_adk.partials.chunks import MAX_BYTES, MAX_ITEMS, MERGED_BYTES, KeptChunks
from durable_adk.partials.partial import decode, encode
from durable_adk.partials.sockets import MAX_DATAGRAM
from durable_adk.partials.subscription import BUFFER, BUFFER_BYTES
from tests.support.chunks import INVOCATION, KEY
from tests.support.examples import examples
from tests.support.streams import Piece, a_call, brief, content, thought


def chunk(index: int, *pieces: Piece, **fields: Any) -> PartialEvent:
    """A chunk with any parts."""
    event = Event(id="e", author="a", content=content(*pieces), partial=True, **fields)
    return PartialEvent(
        key=KEY, invocation_id=INVOCATION, event=event, attempt=1, index=index, revision=1
    )


def kept(*chunks: PartialEvent) -> list[PartialEvent]:
    """What a viewer that comes later gets, over the wire."""
    keeping = KeptChunks()
    for one in chunks:
        keeping.add(one)
    found = [decode(encode(one) or b"") for one in keeping]
    assert all(one is not None for one in found)
    return [one for one in found if one is not None]


def test_text_is_merged_with_text_and_thoughts_with_thoughts() -> None:
    """A call stands between, as do several parts: neither is merged, and no order changes."""
    pieces: list[Piece] = [thought("Hm. "), thought("So. "), "ha", "ha", "ha", a_call("look")]
    pieces += ["a", [types.Part(text="b"), types.Part(text="c")], "d", "e"]
    found = kept(*(chunk(index, piece) for index, piece in enumerate(pieces)))
    assert [(brief(one.event), one.first, one.index) for one in found] == [
        ("~(Hm. So. )", 0, 1),
        ("~hahaha", 2, 4),
        ("~look?", 5, 5),
        ("~a", 6, 6),
        ("~b c", 7, 7),
        ("~de", 8, 9),
    ]


def test_a_chunk_with_other_metadata_is_kept_apart() -> None:
    """Only the tokens counted so far may differ; the newest count stays."""
    tokens = [types.GenerateContentResponseUsageMetadata(total_token_count=n) for n in range(3)]
    chunks = [chunk(n, f"{n}", usage_metadata=tokens[n]) for n in range(3)]
    (one,) = kept(*chunks)
    assert one.event == chunk(2, "012", usage_metadata=tokens[2]).event
    signed = types.Part(text="1", thought_signature=b"x")
    for other in (chunk(1, "1", custom_metadata={"mine": 1}), chunk(1, signed)):
        assert kept(chunks[0], other, chunk(2, "2")) == [chunks[0], other, chunk(2, "2")]


def test_a_chunk_that_is_no_text_ends_what_is_kept() -> None:
    """Half an emoji can be sent to nobody, so nobody could show what comes behind it."""
    assert kept(chunk(0, "a"), chunk(1, "\ud83d"), chunk(2, "b")) == [chunk(0, "a")]


@pytest.mark.parametrize(
    "text", ["word " * 6, "\n" * 50, "\u6771" * 100, "x" * 40_000, "\x01" * 3000]
)
@pytest.mark.parametrize("mixed", [False, True])
def test_what_is_kept_is_bounded(
    text: str, monkeypatch: pytest.MonkeyPatch, *, mixed: bool
) -> None:
    """By its size and number as JSON; what was merged is small enough for every channel."""
    assert MAX_BYTES < BUFFER_BYTES
    assert MAX_ITEMS < BUFFER
    most, items = 2**17, 60
    monkeypatch.setattr(chunks, "MAX_BYTES", most)
    monkeypatch.setattr(chunks, "MAX_ITEMS", items)
    keeping = KeptChunks()
    for index in range(2 * most // len(text.encode())):
        keeping.add(chunk(index, thought(text) if mixed and index % 2 else text))
    sizes = [len(encode(one) or b"") for one in keeping]
    assert sum(sizes) <= most
    assert len(sizes) <= items
    assert sum(sizes) > 0.85 * most or len(sizes) == items
    merged = [size for one, size in zip(keeping, sizes, strict=True) if one.lengths]
    assert all(size <= MERGED_BYTES < MAX_DATAGRAM for size in merged)


PIECES = st.one_of(
    st.text("ha\n\u6771\U0001f600", max_size=4),
    st.builds(thought, st.text("ho", max_size=3)),
    st.just(a_call("look")),
    st.lists(st.just(types.Part(text="x")), min_size=2, max_size=2),
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=30), st.data())
def test_from_every_chunk_on_the_rest_is_exact(pieces: list[Piece], data: st.DataObject) -> None:
    """Whatever a viewer has, it gets what is behind that: no part is lost, repeated or moved."""
    chunks = [chunk(index, piece) for index, piece in enumerate(pieces)]
    start = data.draw(st.integers(0, len(chunks)))
    rest = [news for one in kept(*chunks) if (news := one.rest(start))]
    again = [decode(encode(one) or b"") for one in rest]
    assert again == rest
    assert letters(rest) == letters(chunks[start:])
    assert [one.first for one in rest] == [start, *(one.index + 1 for one in rest[:-1])][
        : len(rest)
    ]


def letters(chunks: list[PartialEvent]) -> list[Any]:
    """All that chunks say, letter by letter."""
    parts = [part for one in chunks for part in one.event.parts]
    return [
        letter
        for part in parts
        for letter in (
            [(bool(part.thought), one) for one in part.text or ""] or [part.function_call]
        )
        if letter
    ]
