"""The JSON schema that declares a function's parameters to a model.

Gemini accepts a subset of JSON schema in `parameters_json_schema`: references are inlined (only
recursive types keep them, without sibling keywords), `const` becomes an enum with one value, and
pydantic's generated titles are removed because they only cost tokens.
"""

from collections.abc import Sequence
from typing import Any, Literal, cast

from pydantic import TypeAdapter
from pydantic_core import PydanticSerializationError

from durable_adk.errors import StateValueError
from durable_adk.json_values import check_json
from durable_adk.tools._parameters import EMPTY, Parameter

_REF = "#/$defs/"
_BY_NAME = frozenset({"properties", "$defs"})  # keywords whose keys are names, not keywords
_DATA = frozenset({"default", "enum", "examples", "required"})  # keywords that hold values


def parameters_schema(fields: Sequence[Parameter]) -> dict[str, Any] | None:
    """Return the schema of an object with a property per parameter; None without parameters.

    A parameter is required if it has no default and is not Optional (TOL-12).
    """
    if not fields:
        return None
    inputs: list[tuple[str, Literal["validation"], TypeAdapter[Any]]] = [
        (field.name, "validation", field.adapter) for field in fields
    ]
    # One call for all, so that two types with the same name get two definitions.
    schemas, root = TypeAdapter.json_schemas(inputs)
    definitions = cast("dict[str, Any]", root.get("$defs", {}))
    cleaner = _Cleaner(definitions)
    properties = {
        field.name: {**cleaner.clean(schemas[field.name, "validation"]), **_default(field)}
        for field in fields
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [field.name for field in fields if field.mandatory]:
        schema["required"] = required
    if kept := cleaner.recursive_definitions():
        schema["$defs"] = kept
    return schema


def _default(field: Parameter) -> dict[str, Any]:
    """The default, if JSON can represent it."""
    if field.default is EMPTY or field.default is None:
        return {}
    try:
        value = field.adapter.dump_python(field.default, mode="json", warnings="none")
        check_json(value)
    except (PydanticSerializationError, StateValueError):
        return {}
    return {"default": value}


class _Cleaner:
    """Rewrites pydantic's schemas into the subset that Gemini accepts."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self._definitions = definitions
        self._recursive: set[str] = set()

    def clean(self, node: Any, inside: tuple[str, ...] = ()) -> Any:
        """Return the schema with references inlined; `inside` names the enclosing definitions."""
        if isinstance(node, list):
            return [self.clean(item, inside) for item in cast("list[Any]", node)]
        if not isinstance(node, dict):
            return node
        schema = cast("dict[str, Any]", node)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._inline(schema, reference.removeprefix(_REF), inside)
        return {
            key: value
            for name, item in schema.items()
            if name not in ("title", "discriminator")
            for key, value in [self._keyword(name, item, inside)]
        }

    def recursive_definitions(self) -> dict[str, Any]:
        """Return the definitions that are still referenced."""
        return {
            name: self.clean(self._definitions[name], (name,)) for name in sorted(self._recursive)
        }

    def _keyword(self, name: str, item: Any, inside: tuple[str, ...]) -> tuple[str, Any]:
        if name == "const":
            return "enum", [item]
        if name in _DATA:
            return name, item
        if name in _BY_NAME:
            return name, {key: self.clean(value, inside) for key, value in item.items()}
        return name, self.clean(item, inside)

    def _inline(self, schema: dict[str, Any], name: str, inside: tuple[str, ...]) -> Any:
        if name in inside or name in self._recursive:
            self._recursive.add(name)
            return {"$ref": f"{_REF}{name}"}
        siblings = {key: value for key, value in schema.items() if key != "$ref"}
        inlined = self.clean({**self._definitions[name], **siblings}, (*inside, name))
        # After the recursion: if the type is recursive, all its uses share one definition.
        return {"$ref": f"{_REF}{name}"} if name in self._recursive else inlined
