"""What a message holds that could be an argument."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from durable_adk.models._offline_words import STOP, meaning, split, words_of

_MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_DAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_NUMBERS = [
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
]

# In this order: what an earlier pattern found, a later one does not find again.
_PATTERNS = [
    (
        "quoted",  # with straight or typographic quotation marks; an apostrophe is none
        re.compile(
            '["\u201c\u00ab]([^"\u201d\u00bb]+)["\u201d\u00bb]'
            r"|(?<!\w)['`\u2018]([^'`\u2019]+)['`\u2019](?!\w)"
        ),
    ),
    ("url", re.compile(r"https?://[^\s,;]*[^\s,;.!?)]")),
    ("email", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    (
        "date",
        re.compile(
            r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?\b|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b"
            rf"|\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?\b"
            rf"|\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH}(?:,? \d{{4}})?\b"
            rf"|\b(?:(?:next|this) )?{_DAY}\b|\b(?:next|this) (?:week|month|year)\b"
            r"|\b(?:today|tonight|tomorrow|yesterday)\b",
            re.IGNORECASE,
        ),
    ),
    (
        "time",
        re.compile(r"\b\d{1,2}:\d\d(?: ?[ap]m)?\b|\b\d{1,2} ?[ap]m\b|\bnoon\b", re.IGNORECASE),
    ),
    (
        "code",
        re.compile(
            r"#\w+|\b\d+(?:-\d+)+\b"
            r"|\b(?=[A-Z0-9-]*\d)(?=[A-Z0-9-]*[A-Z])[A-Z0-9]+(?:-[A-Z0-9]+)*\b"
        ),
    ),
    (
        "number",
        re.compile(
            r"(?<![\w.])-?\d+(?:,\d{3})*(?:\.\d+)?|\b(?:" + "|".join(_NUMBERS) + r")\b",
            re.IGNORECASE,
        ),
    ),
]
# Not the verb that begins a command ("Search the web"), but "Paris weather".
_NAME = re.compile(
    r"(?!(?:^|(?<=[.!?]\s))[A-Z]\w*\s(?:the|a|an|me|my|for|to|this|that|up|all|in|it)\b)"
    r"\b[A-ZÀ-Ý][\w'-]*(?:\s+(?:(?:of|de|la|von|van)\s+(?:the\s+)?)?[A-ZÀ-Ý][\w'-]*)*"
)
_MASK = "\N{SYMBOL FOR NULL}"
_PREPOSITIONS = (
    "of in for to from at on about into with by near named called via as between against"
)
_PHRASE = re.compile(
    rf"\b(?P<after>{_PREPOSITIONS.replace(' ', '|')})\s+(?:(?:the|a|an|my|our|your|his|her)\s+)?"
    rf"(?P<v>.+?)(?=\s+(?:{_PREPOSITIONS.replace(' ', '|')}|and|or|then|but|please|right|now"
    r"|if|when|is|are|like|using|so|that|saying|today|tonight|tomorrow|yesterday)\b"
    rf"|\s*[,;:.!?{_MASK}](?:\s|$)|\s*{_MASK}|$)",
    re.IGNORECASE,
)
_LEADING = words_of("the a an for to that of me about up in by with on from")
_DANGLING = re.compile(rf"\b(?:{_PREPOSITIONS.replace(' ', '|')})\s+(?:the\s+)?$", re.IGNORECASE)
_HEAD = 4000  # characters that are searched: the longest message costs milliseconds
_AFTER_NUMBER = re.compile(r"\d\s+(?P<v>[A-Za-z]+)")


@dataclass(frozen=True)
class Found:
    """Something found: its kind, its text, its place, and the word before it."""

    kind: str
    text: str
    start: int
    end: int
    after: str = ""

    @property
    def number(self) -> float:
        """The value of a ``number``."""
        low = self.text.lower()
        return float(_NUMBERS.index(low) if low in _NUMBERS else low.replace(",", ""))


@dataclass
class Evidence:
    """The things found in one message; each can be taken once."""

    text: str
    known: Collection[str] = ()
    """Meanings of words that name the tool, so that they are not arguments."""
    found: list[Found] = field(init=False)
    consumed: list[tuple[int, int]] = field(init=False, default_factory=list[tuple[int, int]])

    def __post_init__(self) -> None:
        head = self.text[:_HEAD]
        self.found = self._typed(head)
        for item in self.found:  # what was found ends a phrase
            head = head[: item.start] + _MASK * (item.end - item.start) + head[item.end :]
        for kind, pattern in (("name", _NAME), ("phrase", _PHRASE)):
            self.found += self._named(kind, pattern, head)
        self.found += self._named("unit", _AFTER_NUMBER, self.text[:_HEAD])

    def _named(self, kind: str, pattern: re.Pattern[str], text: str) -> Iterator[Found]:
        for match in pattern.finditer(text):
            place = self._trimmed(text, _span(match))
            if place is not None:
                after = match.groupdict().get("after") or _word_before(text, place[0])
                yield Found(kind, self.text[slice(*place)], *place, after.lower())

    def take(
        self,
        *kinds: str,
        after: Collection[str] = (),
        near: Collection[str] = (),
        whole: bool = False,
    ) -> Found | None:
        """The first of `kinds`, in that order, and everything that overlaps it is gone.

        Args:
            kinds: Which kinds of things are wanted.
            after: Only what follows one of these words.
            near: Only what stands next to a word of one of these meanings.
            whole: Only whole numbers.
        """
        for kind in kinds:
            for item in self.found:
                if (
                    item.kind == kind
                    and (not after or item.after in after)
                    and (not near or self._stands_near(item, near))
                    and (not whole or kind != "number" or item.number.is_integer())
                ):
                    self.consume(item.start, item.end)
                    return item
        return None

    def consume(self, start: int, end: int) -> None:
        """Let nothing between two places of the text be taken any more."""
        place = (start, end)
        self.consumed.append(place)
        self.found = [item for item in self.found if not _overlap((item.start, item.end), place)]

    def _stands_near(self, item: Found, near: Collection[str]) -> bool:
        before = split(self.text[: item.start])[-1:]
        behind = split(self.text[item.end :])[:1]
        return any(meaning(word) in near for word in before + behind)

    def _typed(self, head: str) -> list[Found]:
        found: list[Found] = []
        for kind, pattern in _PATTERNS:
            for match in pattern.finditer(head):
                start, end = match.span()
                if any(_overlap((start, end), (item.start, item.end)) for item in found):
                    continue
                text = next((group for group in match.groups() if group), match[0])
                after = _word_before(self.text, start).lower()
                found.append(Found(kind, text.lstrip("#"), start, end, after))
        return sorted(found, key=lambda item: item.start)

    def _trimmed(self, text: str, span: tuple[int, int]) -> tuple[int, int] | None:
        """`span` without words at its ends that cannot be part of a value; None if none is left."""
        words = list(re.compile(r"\S+").finditer(text, *span))
        while words and self._is_known(words[0][0]):
            words.pop(0)
        while words and self._is_known(words[-1][0]):
            words.pop()
        if not words:
            return None
        return words[0].start(), words[-1].start() + len(_bare(words[-1][0]))

    def _is_known(self, word: str) -> bool:
        bare = _bare(word).lower().partition("'")[0].strip(_MASK)
        return not bare or bare in STOP or meaning(bare) in self.known

    def rest(self) -> str:
        """What is left of the message besides the words that name the tool, and what was taken."""
        text = self.text
        for start, end in sorted(self.consumed, reverse=True):
            text = _DANGLING.sub("", text[:start]) + text[end:]
        words, named = text.split(), False
        while words and self._is_known(words[0]):
            word = _bare(words[0]).lower()
            if named and meaning(word) not in self.known and word not in _LEADING:
                break  # "translate hello world": what follows the verb is not politeness
            named = named or meaning(word) in self.known
            words.pop(0)
        while words and self._is_known(words[-1]):
            words.pop()
        return _bare(" ".join(words))


def _bare(word: str) -> str:
    return word.rstrip(",;:.!?)").removesuffix("'s").removesuffix("\u2019s")


def _span(match: re.Match[str]) -> tuple[int, int]:
    return match.span("v") if "v" in match.groupdict() else match.span()


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def _word_before(text: str, place: int) -> str:
    words = re.findall(r"[\w']+", re.sub(r"\b(?:the|a|an)\s+$", "", text[:place]))
    return words[-1] if words else ""
