"""Arguments for a tool, out of a message."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel

from durable_adk.models._offline_evidence import Evidence, Found
from durable_adk.models._offline_words import meaning, meanings, split

# Which words introduce a value for a parameter with such a word in its name.
_AFTER = {
    "from": "from", "origin": "from", "source": "from", "start": "from", "departure": "from",
    "base": "from", "to": "to into", "target": "to into", "destination": "to", "recipient": "to",
    "receiver": "to", "end": "to", "arrival": "to", "city": "in of for at", "country": "of in for",
    "location": "in for at of near", "place": "in at for of", "region": "in", "state": "in",
    "address": "at to", "zone": "in", "timezone": "in", "language": "in into to", "lang": "in to",
    "unit": "in", "units": "in", "topic": "about on for", "subject": "about", "name": "named called",
    "title": "called titled", "person": "with", "attendee": "with", "guest": "for with",
    "user": "for", "customer": "for", "product": "of for", "item": "of", "author": "by",
    "company": "of for", "symbol": "of for", "ticker": "of for",
}  # fmt: skip
_PROPER = frozenset("city country location place region name person attendee guest author".split())
_FREE = frozenset(
    "query question text message content prompt body note description task sentence phrase words "
    "request input comment summary".split()
)
_DATES = frozenset("date day when start end deadline due arrival departure check".split())
_TIMES = frozenset("time at hour when".split())
_CODES = frozenset("id code number key reference ref sku ticket order".split())
_NO = re.compile(r"\b(?:no|not|without|don't|do not|never|non|disable)\W*(?:\w+\W+){0,1}$", re.I)


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
    def choices(self) -> list[Any]:
        """The values it is limited to; empty if it is not."""
        return list(self.schema.get("enum") or [])


def parameters(schema: Mapping[str, Any] | None) -> list[Parameter]:
    """The parameters of an object schema, JSON Schema or Gemini's."""
    schema = schema or {}
    required = set(schema.get("required") or ())
    definitions = schema.get("$defs") or {}
    return [
        Parameter(name, _simple(inner, definitions), name in required)
        for name, inner in (schema.get("properties") or {}).items()
    ]


def _simple(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """One flat schema: references followed, the first alternative that is not null taken."""
    simple = dict(schema)
    if "$ref" in simple:
        simple |= definitions.get(simple.pop("$ref").rpartition("/")[2], {})
    options = simple.get("anyOf") or simple.get("any_of") or simple.get("oneOf") or ()
    for option in options:
        chosen = _simple(option, definitions)
        if chosen.get("type") != "null":
            simple |= chosen
            break
    kind: Any = simple.get("type", "string")
    kind = next((k for k in kind if k != "null"), "string") if isinstance(kind, list) else kind
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
            value = re.match(r"[\"'](.+?)[\"']|([^\s,;]*[^\s,;.!?])", self.evidence.text[match.end() :])
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
        wanted = {meaning(word) for word in parameter.words - ignored} or parameter.meanings
        for match in re.finditer(r"\w+", self.evidence.text):
            if meaning(match[0]) in wanted:
                return not _NO.search(self.evidence.text[: match.start()])
        return False if parameter.required else None

    def _hinted(self, parameter: Parameter) -> Any:
        """What stands beside the parameter's name, or behind a word that leads to it."""
        if parameter.kind in {"integer", "number"}:
            return self._number(parameter, near=parameter.meanings)
        if parameter.kind != "string":
            return None
        if parameter.words & _FREE:
            return _text(self.evidence.take("quoted"))
        if parameter.words & _CODES:
            return _text(self.evidence.take("code", "number", near=parameter.meanings))
        if self._wants_date(parameter) or self._wants_time(parameter):
            return None
        after = {word for key in parameter.words for word in _AFTER.get(key, "").split()}
        after |= parameter.words
        return self._proper(parameter, self.evidence.take("quoted", "name", "phrase", after=after))

    def _typed(self, parameter: Parameter) -> Any:
        """What has the right form: a number, a date, an address."""
        words = parameter.words
        if parameter.kind in {"integer", "number"}:
            alone = sum(p.kind == parameter.kind and not p.required for p in self.parameters) == 1
            return self._number(parameter) if parameter.required or alone else None
        if parameter.kind == "array":
            return self._items(parameter)
        if parameter.kind != "string" or parameter.choices:
            return None
        if "email" in words or "mail" in words or "recipient" in words or "to" in words:
            return _text(self.evidence.take("email"))
        if words & {"url", "link", "website", "uri"}:
            return _text(self.evidence.take("url"))
        if self._wants_date(parameter):
            return _text(self.evidence.take("date"))
        if self._wants_time(parameter):
            return _text(self.evidence.take("time"))
        if words & _CODES and parameter.required:
            return _text(self.evidence.take("code", "number"))
        return None

    def _likely(self, parameter: Parameter) -> Any:
        """For a required text: the next thing named, and for the only one all that is left."""
        if not parameter.required or parameter.kind != "string" or parameter.choices:
            return None
        if self._wants_date(parameter) or self._wants_time(parameter):
            return None
        waiting = [p for p in self.missing() if p.kind == "string"]
        if parameter.words & _FREE and len(waiting) == 1:
            return self._behind_the_verb()
        found = self.evidence.take("quoted", "code", "name", "phrase", "unit", "url", "email")
        if found is None and len(waiting) == 1 and not self.arguments:
            self.guessed = True
            return self.evidence.rest() or None
        return self._proper(parameter, found)

    def _behind_the_verb(self) -> str | None:
        match = re.search(r":\s+(.+)|\b(?:for|about|that)\s+(.+)", self.evidence.text, re.DOTALL)
        text = (match[1] or match[2]) if match else self.evidence.rest()
        return text.strip().rstrip("?.!") or None

    def _number(self, parameter: Parameter, near: set[str] | None = None) -> float | int | None:
        whole = parameter.kind == "integer"
        for item in [found for found in self.evidence.found if found.kind == "number"]:
            if whole and not item.number.is_integer():
                continue
            found = self.evidence.take("number", near=near or ())
            if found is None:
                return None
            return int(found.number) if whole or found.number.is_integer() else found.number
        return None

    def _items(self, parameter: Parameter) -> list[Any] | None:
        inner = str(parameter.schema.get("items", {}).get("type", "string")).lower()
        items: list[Any] = []
        kinds = ("number",) if inner.endswith(("integer", "number")) else ("quoted", "name")
        while found := self.evidence.take(*kinds):
            items.append(_converted(found.text, "number") if kinds == ("number",) else found.text)
        if not items and inner.endswith("string") and parameter.required:
            items = [x for x in re.split(r",\s*(?:and\s+)?|\s+and\s+", self.evidence.rest()) if x]
        return items or None

    def _proper(self, parameter: Parameter, found: Found | None) -> str | None:
        if found is None:
            return None
        # People type "france"; what looks the name up expects "France", as a model would say.
        is_name = parameter.words & _PROPER and found.text.islower() and found.kind != "quoted"
        return found.text.title() if is_name else found.text

    def _wants_date(self, parameter: Parameter) -> bool:
        is_date = parameter.schema.get("format") in {"date", "date-time"}
        return is_date or bool(parameter.words & {"date", "day", "deadline", "when", "due"})

    def _wants_time(self, parameter: Parameter) -> bool:
        return parameter.schema.get("format") == "time" or "time" in parameter.words


def structured(schema: Any, message: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """An object of `schema`, from the tools' results, then from the message, else empty values.

    Args:
        schema: A pydantic model's class, a JSON schema or Gemini's.
        message: The user's message.
        results: The tools' responses in this turn.
    """
    if isinstance(schema, type) and issubclass(schema, BaseModel):
        schema = schema.model_json_schema()
    elif isinstance(schema, BaseModel):
        schema = schema.model_dump(exclude_none=True)
    wanted = parameters(schema)
    filling = Filling(wanted, Evidence(message))
    known = {key: value for result in results for key, value in result.items()}
    filling.arguments = {p.name: known[p.name] for p in wanted if p.name in known}
    if len(wanted) == 1 and "result" in known:
        filling.arguments = {wanted[0].name: known["result"]}
    filling.fill()
    blanks = {parameter.name: _blank(parameter) for parameter in filling.missing()}
    return blanks | filling.in_order()


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


def _converted(text: str, kind: str) -> Any:
    try:
        match kind:
            case "integer":
                return int(text.replace(",", ""))
            case "number":
                value = float(text.replace(",", ""))
                return int(value) if value.is_integer() else value
            case "boolean":
                return text.lower() in {"true", "yes", "on", "1"}
            case _:
                return text
    except ValueError:
        return None
