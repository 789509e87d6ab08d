"""The data of nodes: what a content says, and what a schema makes of a value."""

import json
from types import NoneType, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from google.genai import types
from pydantic import BaseModel, TypeAdapter

from durable_adk.errors import WorkflowConfigurationError
from durable_adk.json_values import check_json, to_json_value


def check_schema(field: str, schema: Any) -> Any:
    """Return the schema of an input or output.

    Raises:
        WorkflowConfigurationError: It is neither a type that pydantic knows nor a JSON schema.
    """
    if schema is None or is_data(schema):
        return schema
    try:
        if isinstance(schema, str):  # pydantic would take it for the name of a type
            raise TypeError(schema)  # noqa: TRY301 - one message for all that is no type
        TypeAdapter[Any](schema)
    except Exception as error:
        raise WorkflowConfigurationError(
            f"{field} {schema!r} is no schema; pass a pydantic model, list[Model] or another type, "
            "or a JSON schema."
        ) from error
    return schema


def is_data(schema: Any) -> bool:
    """Return whether a schema is a JSON schema: it describes values, which are not checked."""
    return isinstance(schema, dict | types.Schema)


def validated(schema: Any, value: Any) -> Any:
    """Return a value as its schema has it; models as dicts without the fields that are None.

    A content is its text, or what the text says as JSON, unless the schema takes contents.

    Raises:
        ValidationError: The value does not fit the schema.
    """
    if value is None or schema is None or is_data(schema):
        return value
    if isinstance(value, types.Content):
        value = said(value, schema)
    return _dumped(TypeAdapter[Any](schema).validate_python(value))


def as_output(value: Any, what: str) -> Any:
    """Return a value as the store will have it (GR-50): models as dicts, tuples as lists.

    Args:
        value: An output.
        what: Its name in the error message.

    Raises:
        StateValueError: It is not JSON; the message names type and place.
    """
    plain = to_json_value(value)
    check_json(plain, what)
    return plain


def text_of(content: types.Content) -> str:
    """Return the text of all parts that are not thoughts."""
    return "".join(part.text for part in content.parts or () if part.text and not part.thought)


def said(content: types.Content, annotation: Any) -> Any:
    """Return what a content says to code that expects a type (GR-46).

    It is the text for ``str``, the content for types that accept contents, and otherwise the text
    parsed as JSON. Text that is not JSON stays text.
    """
    if expects_text(annotation):
        return text_of(content)
    return content if accepts_content(annotation) else parsed(text_of(content))


def parsed(text: str) -> Any:
    """Return a text parsed as JSON, or the text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def expects_text(annotation: Any) -> bool:
    """Return whether a type is ``str``, or a union of it with None and contents."""
    members = [_bare(member) for member in _members(annotation)]
    others = [member for member in members if member not in (str, NoneType)]
    return str in members and all(_is_content(member) for member in others)


def accepts_content(annotation: Any) -> bool:
    """Return whether a content fits a type as it is."""
    return any(
        member in (Any, object) or _is_content(member)
        for member in map(_bare, _members(annotation))
    )


def _members(annotation: Any) -> list[Any]:
    """Return the types of a union, also of nested ones, or the type itself."""
    bare = _bare(annotation)
    if get_origin(bare) in (Union, UnionType):
        return [member for part in get_args(bare) for member in _members(part)]
    return [bare]


def _bare(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _is_content(member: Any) -> bool:
    return isinstance(member, type) and issubclass(member, types.Content)


def _dumped(value: Any) -> Any:
    match value:
        case BaseModel():
            return value.model_dump(exclude_none=True)
        case list():
            return [_dumped(item) for item in cast("list[Any]", value)]
        case dict():
            return {key: _dumped(item) for key, item in cast("dict[Any, Any]", value).items()}
        case _:
            return value
