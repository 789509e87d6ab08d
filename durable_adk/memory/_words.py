"""How text becomes words, the same for what is remembered and for what is asked."""

import re
import unicodedata

_MAX_QUERY_WORDS = 64
"""A message may be a query; full-text search limits how many words one has."""

# Chinese and Japanese are written without spaces, so each of their characters is a word.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")


def words(text: str) -> list[str]:
    """The words of a text in order, without case and accents.

    A word consists of letters and digits only, so it means nothing to any query syntax.
    """
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return _WORD.findall(unicodedata.normalize("NFC", bare))


def query_words(query: str) -> list[str]:
    """The different words of a query; of very many the longest, which are the rarest."""
    return sorted(set(words(query)), key=lambda word: (-len(word), word))[:_MAX_QUERY_WORDS]
