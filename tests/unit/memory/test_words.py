"""How text becomes words."""

from hypothesis import given, strategies as st

from durable_adk.memory._words import query_words, words


@given(st.text())
def test_a_word_is_letters_and_digits_only(text):
    """No word holds anything that a query syntax could read."""
    assert all(word.isalnum() and '"' not in word for word in words(text))


@given(st.text())
def test_words_are_their_own_words(text):
    """Cutting words again gives the same words, so what is stored is what is asked for."""
    once = words(text)
    assert words(" ".join(once)) == once


def test_a_long_query_keeps_its_longest_words():
    """The words of a query are different, not too many, and the longest are kept."""
    asked = query_words("the " * 100 + " ".join(f"longword{n}" for n in range(100)))
    assert len(asked) == len(set(asked)) == 64
    assert "the" not in asked
