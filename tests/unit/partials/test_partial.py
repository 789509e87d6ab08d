"""A chunk by itself."""

import pytest

from durable_adk.partials.partial import attempt_of, decode, encode
from tests.support.chunks import chunk, event


def test_a_chunk_is_read_back_as_written():
    """Everything crosses, and what a newer version adds is ignored."""
    partial = chunk("naïve 🙂", 3, attempt=2, revision=7)
    data = encode(partial)
    assert data is not None
    assert decode(data) == partial
    assert decode(data.replace(b'{"key"', b'{"new": 1, "key"', 1)) == partial


def test_a_shown_chunk_never_looks_stored():
    """It is partial whatever the step said, and says its attempt and index (DUR-8)."""
    partial = chunk("a", 3, attempt=2)
    partial.event.partial = None
    partial.event.custom_metadata = {"mine": 1}
    shown = partial.as_event()
    assert shown.partial
    assert shown.custom_metadata == {"mine": 1, "partial": {"attempt": 2, "index": 3}}
    assert attempt_of(shown) == 2
    assert partial.event.custom_metadata == {"mine": 1}


def test_a_merged_chunk_says_how_many_it_has():
    """Who counts chunks to notice a missing one can continue counting."""
    merged = chunk("abcd", 7).model_copy(update={"lengths": [1, 0, 3]})
    shown = merged.as_event().custom_metadata
    assert shown == {"partial": {"attempt": 1, "index": 7, "chunks": 3}}
    assert merged.first == 5


@pytest.mark.parametrize("lengths", ["[]", "[4]", "[1,1]", "[-1,4]", "[1,1,1,0,0]"])
def test_lengths_that_cannot_be_are_no_chunk(lengths):
    """A viewer could not tell what it has of the text."""
    data = encode(chunk("abc", 3).model_copy(update={"lengths": [3]}))
    assert decode(data) is not None
    assert decode(data.replace(b"[3]", lengths.encode())) is None


def test_metadata_of_an_agents_own_is_no_attempt():
    """A key that happens to have our name is not an error."""
    for own in (None, {}, {"partial": None}, {"partial": "yes"}, {"partial": {"attempt": "x"}}):
        assert attempt_of(event("a", custom_metadata=own)) == 0
