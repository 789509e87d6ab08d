"""Words for the offline model: which of them matter, and when two are the same."""

import re


def words_of(text: str) -> frozenset[str]:
    """The words of a table in this package."""
    return frozenset(text.split())


STOP = words_of(
    "a about again all also am an and any are as at be been but by can could did do does for from "
    "had has have he hello help hey hi how i if in into is it its just know let like me may might "
    "mine much many my need no not of off on only or our out over please she should so some than "
    "thank thanks that the their them then there these they this those to too up us use using very "
    "want was we were what whats when where which who whose why will with would you your yours "
    "s t re ll ve d m "
    # what nearly every tool does, so that it says nothing about which is meant
    "fetch find get give look obtain provide retrieve return tell call run tool function"
)

READING = words_of("get find fetch lookup retrieve show read")
"""Verbs with which the name of a tool begins that gets something."""

_LOOKING = READING | words_of("look search query compute check list")

_SAME = (
    ("add", "sum", "plus", "+", "total"),
    ("subtract", "minus", "difference"),
    ("multiply", "times", "product", "*"),
    ("divide", "divided", "quotient", "/"),
    ("weather", "forecast", "temperature", "rain", "sunny"),
    ("search", "google"),
    ("delete", "remove", "erase"),
    ("create", "make", "new"),
    ("buy", "purchase", "order"),
    ("book", "reserve", "reservation", "booking"),
    ("mail", "email", "e-mail"),
    ("price", "cost", "expensive"),
    ("money", "currency", "exchange"),
    ("time", "clock", "hour"),
    ("list", "display", "show"),
    ("roll", "throw"),
    ("die", "dice"),
    ("say", "speak"),
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-zà-öø-ÿ]+|\d+|(?<=[\s\d])[+*/](?=[\s\d])")
_SUFFIXES = (("ies", "y"), ("ing", ""), ("ed", ""), ("s", ""))


def stem(word: str) -> str:
    """`word` without its commonest endings, so that ``converting`` is ``converts``; not English."""
    word = word.lower()
    for suffix, instead in _SUFFIXES:
        rest = word.removesuffix(suffix)
        if rest != word and len(rest) > 2 and not rest.endswith(("s", "u")):  # noqa: PLR2004  # shorter is a word
            word = rest + instead
            if not instead and len(word) > 3 and word[-1] == word[-2] and word[-1] not in "lsz":  # noqa: PLR2004  # add
                word = word[:-1]
            break
    return word[:-1] if word.endswith("e") and len(word) > 3 else word  # noqa: PLR2004  # toe


_MEANING = {stem(word): stem(group[0]) for group in _SAME for word in group}
_WHOLE = {word: stem(group[0]) for group in _SAME for word in group}  # "times" is not "time"


def meaning(word: str) -> str:
    """The stem of `word`, or of the word that stands for its synonyms."""
    short = stem(word)
    return _WHOLE.get(word.lower()) or _MEANING.get(short, short)


def split(text: str) -> list[str]:
    """The words of a text or of a name in any case, as they are written."""
    return _WORD.findall(text)


def meanings(text: str) -> set[str]:
    """What the words of `text` mean, without those that mean little."""
    return {meaning(word) for word in split(text) if word.lower() not in STOP}


def only_looks(name: str) -> bool:
    """Whether a tool's name says that calling it twice does no harm."""
    return any(word.lower() in _LOOKING for word in split(name)[:1])
