"""Splits text into words, in the same way for memories and for queries."""

import re
import unicodedata

_MAX_QUERY_WORDS = 64
"""Limit on query words: a query may be a whole message, but full-text search limits its words."""

# These scripts are written without spaces, so each of their characters is a word, with the vowels
# before and after it: Thai, Lao, Tibetan; Burmese; Khmer; Tai; and kana and Chinese characters.
_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff"
    "\u1950-\u19df\u1a20-\u1aaf\uaa80-\uaadf"
    "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
# Korean appends particles to words, so each pair of neighbouring syllables is a word.
_HANGUL = "\uac00-\ud7a3"
# The vowel signs of Brahmic scripts, which `\w` excludes, belong to their word.
_MARKS = "".join(
    char
    for char in map(chr, (*range(0x900, 0x1D00), *range(0xA800, 0xAC00)))
    if unicodedata.category(char) in ("Mn", "Mc") and not unicodedata.combining(char)
)
_BEFORE, _BEHIND = "\u0e40-\u0e44\u0ec0-\u0ec4", "\u0e30\u0e32\u0e45\u0eb0\u0eb2\u0ebd"
_LETTER = rf"[^\W_{_UNSPACED}{_HANGUL}]"
_WORD = re.compile(
    rf"[{_BEFORE}]?(?!\W)[{_UNSPACED}][{_MARKS}{_BEHIND}]*"
    rf"|[{_HANGUL}]+|{_LETTER}(?:{_LETTER}|[{_MARKS}])*"
)


def words(text: str) -> list[str]:
    """Return the words of a text in order, case-folded and without accents.

    A word consists of letters, digits and vowel signs, so it has no meaning in any query syntax.
    For Korean, the words are the first syllable, which may be a whole word before its particle, and
    all pairs of syllables.
    """
    return [word for run in _runs(text) for word in (*_first(run), *_pairs(run))]


def query_words(query: str) -> list[str]:
    """Return the distinct words of a query; if there are too many, the longest (rarest) ones."""
    distinct = {word for run in _runs(query) for word in _pairs(run)}
    return sorted(distinct, key=lambda word: (-len(word), word))[:_MAX_QUERY_WORDS]


def _runs(text: str) -> list[str]:
    decomposed = unicodedata.normalize("NFKD", text).casefold()
    bare = "".join(char for char in decomposed if not unicodedata.combining(char))
    return _WORD.findall(unicodedata.normalize("NFC", bare))


def _first(run: str) -> list[str]:
    return [run[0]] if _is_hangul(run) and len(run) > 1 else []


def _pairs(run: str) -> list[str]:
    if not _is_hangul(run) or len(run) == 1:
        return [run]
    return [run[at : at + 2] for at in range(len(run) - 1)]


def _is_hangul(run: str) -> bool:
    return "\uac00" <= run[0] <= "\ud7a3"
