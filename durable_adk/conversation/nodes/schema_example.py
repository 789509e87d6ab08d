"""An example of a value for a JSON schema, for commands that a person completes."""

from collections.abc import Iterator
from typing import Any, cast

_DEEPEST = 6
_TEXTS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "name@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
"""Examples of texts, by format."""

_Schema = dict[str, Any]


def schema_example(schema: _Schema) -> Any:
    """Return a value that fits a schema: a default or an example of it, else the shortest.

    It may not fit a rule that only trying would find a value for, such as a pattern.
    """
    return _example(schema, schema, 0)


def _example(schema: Any, root: _Schema, depth: int) -> Any:
    resolved = _resolved(schema, root)
    for given in _given(resolved):
        return given
    kind = _kind(resolved)
    if kind == "object":
        return _object(resolved, root, depth)
    if kind == "array":
        return _array(resolved, root, depth)
    if kind in ("integer", "number"):
        return _number(resolved, kind)
    return {"boolean": True, "null": None}.get(kind) if kind != "string" else _text(resolved)


def _given(schema: _Schema) -> Iterator[Any]:
    """Yield the values that a schema names itself."""
    for key in ("default", "const"):
        if schema.get(key) is not None:
            yield schema[key]
    for key in ("examples", "enum"):
        yield from schema.get(key) or ()


def _resolved(schema: Any, root: _Schema) -> _Schema:
    """Follow references and choices to a schema with a type."""
    found = cast("_Schema", schema) if isinstance(schema, dict) else {}
    for _ in range(16):
        rest = dict(found)
        if isinstance(ref := rest.pop("$ref", None), str):
            found = {**_pointed(root, ref), **rest}
        elif choices := rest.pop("anyOf", None) or rest.pop("oneOf", None):
            first = next((one for one in choices if one.get("type") != "null"), choices[0])
            found = {**first, **{key: value for key, value in rest.items() if value is not None}}
        elif parts := rest.pop("allOf", None):
            found = rest
            for part in parts:
                found = {**_resolved(part, root), **found}
        else:
            break
    return found


def _pointed(root: _Schema, ref: str) -> _Schema:
    at: Any = root
    for name in ref.removeprefix("#/").split("/") if ref.startswith("#/") else ():
        known = cast("_Schema", at) if isinstance(at, dict) else {}
        at = known.get(name.replace("~1", "/").replace("~0", "~"))
    return cast("_Schema", at) if isinstance(at, dict) and at is not root else {}


def _kind(schema: _Schema) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in cast("list[str]", kind) if one != "null"), "null")
    if isinstance(kind, str):
        return kind.lower()
    return "object" if "properties" in schema else "array" if "items" in schema else "string"


def _object(schema: _Schema, root: _Schema, depth: int) -> _Schema:
    properties: _Schema = schema.get("properties") or {}
    required: list[str] = schema.get("required") or []
    # Optional fields are worth seeing, but not below, where a schema may contain itself.
    names = dict.fromkeys([*properties, *required]) if depth == 0 else dict.fromkeys(required)
    if depth > _DEEPEST:
        return {}
    return {name: _example(properties.get(name, {}), root, depth + 1) for name in names}


def _array(schema: _Schema, root: _Schema, depth: int) -> list[Any]:
    first: list[Any] = schema.get("prefixItems") or []
    least = max(len(first), schema.get("minItems", 0), 1 if depth < 2 else 0)  # noqa: PLR2004
    number = min(least, schema.get("maxItems", least))
    each: Any = schema.get("items")
    items = [*first, *[each] * number][:number]
    return [_example(one, root, depth + 1) for one in items] if depth <= _DEEPEST else []


def _number(schema: _Schema, kind: str) -> int | float:
    step = schema.get("multipleOf", 1)
    least = schema.get("minimum", schema.get("exclusiveMinimum"))
    most = schema.get("maximum", schema.get("exclusiveMaximum"))
    if least is not None:
        found = -(-least // step) * step
        found += step if found == schema.get("exclusiveMinimum") else 0
    else:
        found = step if most is None or most >= step else most // step * step
    found -= step if found == schema.get("exclusiveMaximum") else 0
    if kind == "number" and most is not None and found > most and least is not None:
        return (least + most) / 2
    return int(found) if found == int(found) else found


def _text(schema: _Schema) -> str:
    text = _TEXTS.get(schema.get("format", ""), "...")
    text = text.ljust(schema.get("minLength", 0), ".")
    return text[: schema.get("maxLength", len(text))]
