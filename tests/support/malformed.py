"""JSON with a value of a wrong type in one place, for every enumeration of a model."""

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args, get_origin

from pydantic import BaseModel


def wrong_enumerations(kind: type[BaseModel], depth: int = 4) -> Iterator[tuple[str, Any]]:
    """Yield the place of each enumeration that a model has, and an object with a number there."""
    for field in kind.model_fields.values():
        name = field.alias or ""
        for one in _plain(field.annotation):
            several = get_origin(one) is list
            inner = get_args(one)[0] if several else one
            if not isinstance(inner, type):
                continue
            if issubclass(inner, Enum):
                yield name + ".0" * several, {name: [5] if several else 5}
            elif issubclass(inner, BaseModel) and depth:
                for place, value in wrong_enumerations(inner, depth - 1):
                    yield f"{name}{'.0' * several}.{place}", {name: [value] if several else value}


def _plain(annotation: Any) -> Iterator[Any]:
    if get_origin(annotation) in (None, list, dict):
        yield annotation
    else:
        for one in get_args(annotation):
            yield from _plain(one)
