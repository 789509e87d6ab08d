"""How text becomes words."""

import unicodedata

from hypothesis import given, strategies as st

from durable_adk.memory._words import query_words, words

SCRIPTS = st.text() | st.text(st.sampled_from("a1_ é한국어กาแฟ้ກເຟកា្ကော်བོད་हिन्दी猫タ"))


@given(SCRIPTS)
def test_a_word_is_letters_digits_and_marks_only(text):
    """No word holds anything that a query syntax could read."""
    for char in "".join(words(text)):
        assert char.isalnum() or unicodedata.category(char) in ("Mn", "Mc")


@given(SCRIPTS, SCRIPTS)
def test_what_is_asked_is_found_before_and_behind_other_words(text, more):
    """The words of a query are among those of a text that has it as words of its own."""
    assert set(query_words(text)) <= set(words(f"{more} {text} {more}"))


def test_a_long_query_keeps_its_longest_words():
    """The words of a query are different, not too many, and the longest are kept."""
    asked = query_words("the " * 100 + " ".join(f"longword{n}" for n in range(100)))
    assert len(asked) == len(set(asked)) == 64
    assert "the" not in asked
