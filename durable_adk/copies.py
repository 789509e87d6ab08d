"""Copies of committed values, which user code may change freely (TRAP-23)."""

import copy
from collections.abc import Callable, Iterable
from functools import cache
from threading import RLock
from typing import Any, ClassVar, TypeVar, cast

from pydantic import BaseModel, ConfigDict

S = TypeVar("S")
T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

_IMMUTABLE = frozenset((type(None), str, int, float, bool, bytes))
_STATE = ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
"""The attributes that hold a pydantic model's values."""
_READING = RLock()


def own_copy(value: T) -> T:
    """Return a deep copy of a value that does not contain itself, in a third of deepcopy's time."""
    return cast("T", _copied(value))


def _copied(value: Any) -> Any:
    kind = value.__class__
    if kind in _IMMUTABLE:
        return value
    if kind is dict:
        return {key: _copied(item) for key, item in value.items()}
    if kind is list:
        return [_copied(item) for item in value]
    if not isinstance(value, BaseModel):
        return copy.deepcopy(value)
    made: Any = value.__copy__()
    fields = made.__dict__  # set here, not by attribute, which would mark unset fields as set
    for name, field in fields.items():
        if field.__class__ not in _IMMUTABLE:
            fields[name] = _copied(field)
    return made


def lazy_models(kind: type[M], make: Callable[[S], M], sources: Iterable[S]) -> list[M]:
    """Return a `lazy` model for each source; cheap for code that reads few of many."""
    unread: type[Any] = _unread(kind)
    new, put = object.__new__, object.__setattr__
    models: list[M] = []
    for source in sources:
        model = new(unread)
        put(model, "__pydantic_private__", (make, source))
        models.append(model)
    return models


def lazy(kind: type[M], make: Callable[[S], M], source: S, **known: Any) -> M:
    """Return a model that `make` builds when a field is first read or set, in any thread.

    Args:
        kind: The model's class.
        make: Builds the model.
        source: The argument of `make`.
        **known: Values of fields that can be read and set before that.
    """
    (model,) = lazy_models(kind, make, (source,))
    object.__setattr__(model, "__dict__", known)
    return model


@cache
def _unread(kind: type[M]) -> type[M]:
    """Return the class that a lazy model has until it is built."""
    fields = {"__module__": kind.__module__, "model_config": ConfigDict(defer_build=True)}
    made: Any = type(kind)(kind.__name__, (_Unread, kind), fields)
    made.kind = kind
    return made


class _Unread:
    """Builds the model in place when it is needed."""

    __slots__ = ()
    kind: ClassVar[type[BaseModel]]

    def __getattribute__(self, name: str) -> Any:
        if name == "__class__":
            return _kind(self)
        if name not in object.__getattribute__(self, "__dict__") and (
            name in _STATE or name in _kind(self).model_fields
        ):
            _read(self)
        return object.__getattribute__(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        known = object.__getattribute__(self, "__dict__")
        if name in known:
            known[name] = value
        else:
            setattr(_read(self), name, value)

    # A model's own versions of these begin with `type(self)`, so build the model first.

    def __copy__(self) -> Any:
        return copy.copy(_read(self))

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Any:
        return copy.deepcopy(_read(self), memo)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _read(self).__reduce_ex__(protocol)


def _kind(model: Any) -> type[BaseModel]:
    kind = cast("Any", type(model))
    return kind.kind if issubclass(kind, _Unread) else kind


def _read(model: Any) -> Any:
    with _READING:
        if issubclass(type(model), _Unread):
            kind = _kind(model)
            make, source = object.__getattribute__(model, "__pydantic_private__")
            made: Any = make(source)
            known: dict[str, Any] = object.__getattribute__(model, "__dict__")
            fields = cast("dict[str, Any]", vars(made)) | known
            in_order = {name: fields[name] for name in kind.model_fields if name in fields}
            object.__setattr__(made, "__dict__", in_order)
            made.model_fields_set.update(known)
            for name in _STATE:
                object.__setattr__(model, name, getattr(made, name))
            object.__setattr__(model, "__class__", type(made))
    return model
