"""An agent's `output_schema`: validation, and parsing of the output (AGT-19, AGT-22)."""

import re
from typing import Any, get_args, get_origin

from google.genai import types
from pydantic import BaseModel, TypeAdapter, ValidationError

from durable_adk.errors import AgentDefinitionError, OutputSchemaError

_FENCE = "```"
_LANGUAGE = re.compile(r"^\w*[ \t]*\n?")


def check_output_schema(schema: Any) -> None:
    """Validate an `output_schema`.

    It is a pydantic model, or any other type that pydantic supports (``list[Item]``, ``dict[str,
    int]``). A `types.Schema` or a JSON schema as a dict is passed on to the model; the output is
    then only checked to be JSON (as in ADK).

    Raises:
        AgentDefinitionError: Output cannot be checked against it.
    """
    refused = AgentDefinitionError(
        f"output_schema {schema!r} cannot be used to check output; pass a "
        "pydantic model, list[Model] or the like."
    )
    if isinstance(schema, str):
        raise refused  # pydantic would resolve it as the name of a type
    try:
        _adapter(schema)
    except Exception as error:
        raise refused from error


def parse_output(schema: Any, text: str) -> Any:
    """Return the JSON value of output that is text, possibly inside a Markdown code fence.

    Raises:
        OutputSchemaError: It does not match the schema.
    """
    adapter = _adapter(schema)
    try:
        return _dumped(adapter, adapter.validate_json(_unfenced(text)))
    except ValidationError as error:
        raise _unfit(schema, error) from None


def output_from_args(schema: Any, args: dict[str, Any], *, key: str | None) -> Any:
    """Return the JSON value of output that is a call's arguments; see `output_parameters`.

    Raises:
        OutputSchemaError: It does not match the schema.
    """
    adapter = _adapter(schema)
    try:
        if key is not None and key not in args:
            raise OutputSchemaError(f"The output lacks the argument {key!r}")
        return _dumped(adapter, adapter.validate_python(args if key is None else args[key]))
    except ValidationError as error:
        raise _unfit(schema, error) from None


def output_parameters(schema: Any, *, key: str | None) -> dict[str, Any]:
    """Return the JSON schema of the call arguments that hold the output.

    Args:
        schema: The schema of the output.
        key: The one argument that is the output; None: the output is all arguments, an object.
    """
    whole = json_schema_of(schema)
    if key is None:
        # As in ADK: the class's docstring is for its readers, not for the model.
        return {name: value for name, value in whole.items() if name != "description"}
    inner = {name: value for name, value in whole.items() if name != "$defs"}
    definitions = {"$defs": whole["$defs"]} if "$defs" in whole else {}
    return {"type": "object", "properties": {key: inner}, "required": [key], **definitions}


def _unfenced(text: str) -> str:
    """Remove an enclosing Markdown code fence, which models write despite instructions."""
    stripped = text.strip()
    if len(stripped) < 2 * len(_FENCE) or stripped[:3] + stripped[-3:] != 2 * _FENCE:
        return text
    return _LANGUAGE.sub("", stripped[3:-3], count=1)


def _adapter(schema: Any) -> TypeAdapter[Any]:
    return TypeAdapter(Any if isinstance(schema, dict | types.Schema) else schema)


def _dumped(adapter: TypeAdapter[Any], value: Any) -> Any:
    return adapter.dump_python(value, mode="json", exclude_none=True)


def json_schema_of(schema: Any) -> dict[str, Any]:
    """Return an `output_schema` as JSON schema."""
    match schema:
        case dict():
            return schema  # pyright: ignore[reportUnknownVariableType]: JSON
        case types.Schema():
            return schema.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
        case _:
            return _adapter(schema).json_schema()


def output_key_of(schema: Any) -> str | None:
    """Return ADK's name of the argument for output that is no model; None for a model."""
    if _is_model(schema):
        return None
    items = get_args(schema)
    return "items" if get_origin(schema) is list and _is_model(items[0]) else "response"


def _is_model(schema: Any) -> bool:
    return isinstance(schema, type) and issubclass(schema, BaseModel)


def _unfit(schema: Any, error: ValidationError) -> OutputSchemaError:
    problems = "; ".join(
        f"{'.'.join(str(part) for part in item['loc']) or 'output'}: {item['msg']}"
        for item in error.errors(include_url=False)
    )
    name = getattr(schema, "__name__", str(schema))
    return OutputSchemaError(f"The output does not match output_schema {name}: {problems}")
