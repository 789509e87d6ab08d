"""Splits text into words, in the same way for memories and for queries."""

import re
import unicodedata

_MAX_QUERY_WORDS = 64
"""Limit on query words: a query may be a whole message, but full-text search limits its words."""

# Chinese and Japanese are written without spaces, so each of their characters is a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """Return the words of a text in order, case-folded and without accents.

    A word consists of letters and digits only, so it has no meaning in any query syntax.
    """
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return _WORD.findall(unicodedata.normalize("NFC", bare))


def query_words(query: str) -> list[str]:
    """Return the distinct words of a query; if there are too many, the longest (rarest) ones."""
    return sorted(set(words(query)), key=lambda word: (-len(word), word))[:_MAX_QUERY_WORDS]
