"""Arguments for a tool, out of a message."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter

from durable_adk.models._offline_evidence import Evidence, Found
from durable_adk.models._offline_words import (
    meaning,
    meanings,
    split,
    stem,
    words_of,
)

# Which words introduce a value for a parameter with such a word in its name.
_AFTER = {
    "from": "from", "origin": "from", "source": "from", "start": "from", "departure": "from",
    "base": "from", "to": "to into", "target": "to into", "destination": "to", "recipient": "to",
    "receiver": "to", "end": "to", "arrival": "to", "city": "in of for at", "country": "of in for",
    "location": "in for at of near", "place": "in at for of", "region": "in for", "room": "in",
    "address": "at to", "zone": "in", "timezone": "in", "language": "in into to", "lang": "in to",
    "unit": "in", "units": "in", "topic": "about on for", "subject": "about",
    "name": "named called", "title": "called titled", "person": "with", "attendee": "with",
    "guest": "for", "user": "for", "customer": "for", "product": "of for", "item": "of",
    "author": "by", "company": "of for", "symbol": "of for", "ticker": "of for",
}  # fmt: skip
_PROPER = words_of("city country location place region name person attendee guest author")
_FREE = words_of(
    "query question text message content prompt body note description task sentence phrase words "
    "request input comment summary"
)
_TITLES = words_of("title subject item reason purpose")
_CODES = words_of("id code number key reference ref sku ticket order")
_FORMS = (
    (words_of("date day deadline when due"), ("date",)),
    (words_of("time"), ("time",)),
    (words_of("email mail recipient to"), ("email",)),
    (words_of("url uri link website"), ("url",)),
)
_COLON = re.compile(r":\s")
_COMMA = re.compile(r",\s*(?:and\s+)?|\s+and\s+")
_NO = re.compile(
    r"\b(?:no|not|without|don't|do not|never|non|disable)\W*(?:\w+\W+){0,1}$", re.IGNORECASE
)


@dataclass(frozen=True)
class Parameter:
    """A tool's parameter, from either form of declaration."""

    name: str
    schema: dict[str, Any]
    required: bool

    @property
    def kind(self) -> str:
        """Its JSON type, ``string`` if none is said."""
        return str(self.schema.get("type", "string"))

    @property
    def words(self) -> set[str]:
        """The words of its name."""
        return {word.lower() for word in split(self.name)}

    @property
    def meanings(self) -> set[str]:
        """What the words of its name mean."""
        return {meaning(word) for word in self.words}

    @property
    def form(self) -> tuple[str, ...]:
        """The kinds of things it must be one of, by its format or its name; empty for any."""
        told = {"date": ("date",), "date-time": ("date",), "time": ("time",)}
        by_format = told.get(str(self.schema.get("format")))
        return by_format or next((kinds for words, kinds in _FORMS if words & self.words), ())

    @property
    def is_moment(self) -> bool:
        """Whether it must be a date or a time, which no other text can stand for."""
        return self.form in {("date",), ("time",)}

    @property
    def is_free(self) -> bool:
        """Whether it is any text, rather than the name of something."""
        return bool(self.words & _FREE)

    @property
    def choices(self) -> list[Any]:
        """The values it is limited to; empty if it is not."""
        return list(self.schema.get("enum") or [])


def parameters(schema: dict[str, Any] | None) -> list[Parameter]:
    """The parameters of an object schema, JSON Schema or Gemini's as a dict."""
    whole = schema or {}
    properties: dict[str, Any] = whole.get("properties") or {}
    required: list[str] = whole.get("required") or []
    definitions: dict[str, Any] = whole.get("$defs") or {}
    return [
        Parameter(name, _simple(inner, definitions), name in required)
        for name, inner in properties.items()
    ]


def _simple(schema: Any, definitions: Any) -> dict[str, Any]:
    """One flat schema: references followed, the first alternative that is not null taken."""
    simple: dict[str, Any] = dict(schema)
    if "$ref" in simple:
        simple |= definitions.get(simple.pop("$ref").rpartition("/")[2], {})
    options = simple.get("anyOf") or simple.get("any_of") or simple.get("oneOf") or ()
    for option in options:
        chosen = _simple(option, definitions)
        if chosen["type"] != "null":
            simple |= chosen
            break
    kind: Any = simple.get("type") or "string"
    if isinstance(kind, list):
        kind = next((name for name in cast("list[Any]", kind) if name != "null"), "string")
    simple["type"] = str(getattr(kind, "value", kind)).lower()
    if "const" in simple:
        simple["enum"] = [simple["const"]]
    return simple


@dataclass
class Filling:
    """Arguments being filled, first where the message leaves no doubt, then in its order."""

    parameters: Sequence[Parameter]
    evidence: Evidence
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    guessed: bool = False
    """Whether an argument is just what was left of the message."""

    def fill(self) -> None:
        """Find what can be found; required arguments may be missing afterwards."""
        for stage in (self._said, self._hinted, self._typed, self._likely):
            for parameter in self.parameters:
                if parameter.name not in self.arguments:
                    value = stage(parameter)
                    if value is not None:
                        self.arguments[parameter.name] = value

    def in_order(self) -> dict[str, Any]:
        """The arguments, in the parameters' order."""
        return {p.name: self.arguments[p.name] for p in self.parameters if p.name in self.arguments}

    def missing(self) -> list[Parameter]:
        """The required parameters without an argument."""
        return [p for p in self.parameters if p.required and p.name not in self.arguments]

    def _said(self, parameter: Parameter) -> Any:
        """What the message says in so many words: ``days=3``, a choice, a yes or no."""
        name = r"[\s_-]?".join(map(re.escape, re.split(r"[_-]", parameter.name)))
        match = re.search(rf"\b{name}\s*[:=]\s*", self.evidence.text, re.IGNORECASE)
        if match:
            value = re.match(
                r"[\"'](.+?)[\"']|([^\s,;]*[^\s,;.!?])", self.evidence.text[match.end() :]
            )
            if value:
                self.evidence.consume(match.start(), match.end() + value.end())
                return _converted(value[1] or value[2], parameter.kind)
        if parameter.choices:
            return self._choice(parameter)
        return self._yes_or_no(parameter) if parameter.kind == "boolean" else None

    def _choice(self, parameter: Parameter) -> Any:
        for choice in sorted(parameter.choices, key=lambda c: -len(str(c))):
            words = r"[\s_-]".join(map(re.escape, re.split(r"[\s_-]", str(choice))))
            match = re.search(rf"\b{words}(?:e?s)?\b", self.evidence.text, re.IGNORECASE)
            if match:
                self.evidence.consume(*match.span())
                return choice
        return None

    def _yes_or_no(self, parameter: Parameter) -> bool | None:
        ignored = {"is", "has", "include", "with", "enable", "use", "be"}
        wanted = {stem(word) for word in parameter.words - ignored or parameter.words}
        for match in re.finditer(r"\w+", self.evidence.text):
            if stem(match[0]) in wanted:
                return not _NO.search(self.evidence.text[: match.start()])
        return False if parameter.required else None

    def _hinted(self, parameter: Parameter) -> Any:
        """What stands beside the parameter's name, or behind a word that leads to it."""
        if parameter.kind in {"integer", "number"}:
            return self._number(parameter, near=parameter.meanings)
        if parameter.kind != "string":
            return None
        if parameter.is_free:
            colon = _COLON.search(self.evidence.text)
            return None if colon else _text(self.evidence.take("quoted"))
        if parameter.words & _CODES:
            return _text(self.evidence.take("code", "number", near=parameter.meanings))
        if parameter.is_moment:
            return None
        after = {word for key in parameter.words for word in _AFTER.get(key, "").split()}
        after |= parameter.words
        found = self.evidence.take("quoted", "code", "name", "phrase", after=after)
        return self._proper(parameter, found)

    def _typed(self, parameter: Parameter) -> Any:
        """What has the right form: a number, a date, an address."""
        match parameter.kind:
            case "integer" | "number":
                others = [p for p in self.parameters if p.kind == parameter.kind and not p.required]
                return self._number(parameter) if parameter.required or len(others) == 1 else None
            case "array":
                return self._items(parameter)
            case "string" if not parameter.choices:
                is_code = parameter.required and parameter.words & _CODES
                kinds = ("code", "number") if is_code else parameter.form
                return _text(self.evidence.take(*kinds))
            case _:
                return None

    def _likely(self, parameter: Parameter) -> Any:
        """For a required text: the next thing named, and for the only one all that is left."""
        if not parameter.required or parameter.kind != "string" or parameter.choices:
            return None
        if parameter.is_moment:
            return None
        waiting = [p for p in self.missing() if p.kind == "string"]
        if parameter.is_free and len(waiting) == 1:
            return self._behind_the_verb()
        if parameter.words & _TITLES and len(waiting) == 1 and _COLON.search(self.evidence.text):
            return self._behind_the_verb()
        found = self.evidence.take("quoted", "code", "name", "phrase", "unit", "url", "email")
        if found is None and len(waiting) == 1 and not self.arguments:
            self.guessed = True
            return self._capitalised(parameter, self.evidence.rest()) or None
        return self._proper(parameter, found)

    def _behind_the_verb(self) -> str | None:
        colon = _COLON.search(self.evidence.text)
        if colon:  # "say: ..." is meant to the letter
            said = self.evidence.text[colon.end() :].strip()
            quoted = re.fullmatch(r"\"([^\"]+)\"|'([^']+)'", said)
            return (quoted[1] or quoted[2]) if quoted else said or None
        match = re.search(r"\b(?:for|about|that)\s+(.+)", self.evidence.text, re.DOTALL)
        text = match[1] if match else self.evidence.rest()
        return text.strip().rstrip("?.!") or None

    def _number(self, parameter: Parameter, near: Collection[str] = ()) -> float | int | None:
        found = self.evidence.take("number", near=near, whole=parameter.kind == "integer")
        return None if found is None else _finite(found.number)

    def _items(self, parameter: Parameter) -> list[Any] | None:
        element: dict[str, Any] = parameter.schema.get("items") or {}
        inner = str(element.get("type") or "string").lower()
        items: list[Any] = []
        kinds = ("number",) if inner.endswith(("integer", "number")) else ("quoted", "name")
        while found := self.evidence.take(*kinds):
            items.append(_converted(found.text, "number") if kinds == ("number",) else found.text)
        if not items and inner.endswith("string") and parameter.required:
            rest = self.evidence.rest()
            listed = re.search(r"\b(?:with|of|for|containing|including|are)\s+(.+)", rest)
            items = [x for x in _COMMA.split(listed[1] if listed else rest) if x]
        return items or None

    def _proper(self, parameter: Parameter, found: Found | None) -> str | None:
        if found is None:
            return None
        return found.text if found.kind == "quoted" else self._capitalised(parameter, found.text)

    def _capitalised(self, parameter: Parameter, text: str) -> str:
        # People type "france"; what looks the name up expects "France", as a model would say.
        flat = text.islower() or self.evidence.text.isupper()
        return text.title() if flat and parameter.words & _PROPER else text


def structured(schema: Any, message: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An object of `schema`, from the tools' results, then from the message, else empty values.

    Args:
        schema: A pydantic model's class, a JSON schema or Gemini's.
        message: The user's message.
        results: The tools' responses in this turn.
    """
    wanted = parameters(_as_dict(schema))
    filling = Filling(wanted, Evidence(message))
    known = {key: value for result in results for key, value in result.items()}
    filling.arguments = {p.name: known[p.name] for p in wanted if p.name in known}
    if len(wanted) == 1 and "result" in known:
        filling.arguments = {wanted[0].name: known["result"]}
    filling.fill()
    blanks = {parameter.name: _blank(parameter) for parameter in filling.missing()}
    return blanks | filling.in_order()


def _as_dict(schema: Any) -> dict[str, Any]:
    match schema:
        case BaseModel():  # Gemini's types.Schema
            return schema.model_dump(exclude_none=True)
        case dict():
            return cast("dict[str, Any]", schema)
        case _:
            return TypeAdapter[Any](schema).json_schema()


def _blank(parameter: Parameter) -> Any:
    if parameter.choices:
        return parameter.choices[0]
    empty: dict[str, Any] = {"integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
    return empty.get(parameter.kind, "")


def meant(parameter: Parameter) -> set[str]:
    """The meanings by which a message may refer to the parameter: its name and its choices."""
    return meanings(" ".join([parameter.name, *map(str, parameter.choices)]))


def _text(found: Found | None) -> str | None:
    return found.text if found else None


def _finite(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None  # JSON has no word for it
    return int(value) if value.is_integer() else value


def _converted(text: str, kind: str) -> Any:
    try:
        match kind:
            case "integer":
                return int(text.replace(",", ""))
            case "number":
                return _finite(float(text.replace(",", "")))
            case "boolean":
                return text.lower() in {"true", "yes", "on", "1"}
            case _:
                return text
    except ValueError:
        return None
