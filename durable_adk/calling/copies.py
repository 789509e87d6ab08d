"""Copies of committed values, which user code may change freely (TRAP-23)."""

import copy
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import compress, repeat
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
_new, _put = object.__new__, object.__setattr__
_PRIVATE: Any = BaseModel.__dict__["__pydantic_private__"]
"""The slot of that name, which sets it without looking at the model's class."""


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
    kind = value.__class__
    if kind.__copy__ is not BaseModel.__copy__:
        return _filled(value.__copy__())
    # What pydantic's `__copy__` does, which makes five calls more.
    made: Any = _new(kind)
    private = value.__pydantic_private__
    _put(made, "__dict__", value.__dict__.copy())
    _put(made, "__pydantic_fields_set__", value.__pydantic_fields_set__.copy())
    _put(made, "__pydantic_extra__", value.__pydantic_extra__ and dict(value.__pydantic_extra__))
    _put(made, "__pydantic_private__", private and dict(private))
    return _filled(made)


def _filled(made: Any) -> Any:
    """Replace the values of a shallow copy by copies."""
    fields = made.__dict__  # set here, not by attribute, which would mark unset fields as set
    for name, field in fields.items():
        if field.__class__ not in _IMMUTABLE:
            fields[name] = _copied(field)
    return made


def lazy_models(kind: type[M], make: Callable[[S], M], sources: Iterable[S]) -> list[M]:
    """Return a `lazy` model for each source; cheap for code that reads few of many."""
    # Without a call of Python's own for each: a session may have thousands of events.
    pairs = list(zip(repeat(make), sources, strict=False))
    models: list[M] = list(map(cast("Any", _new), repeat(_unread(kind), len(pairs))))
    assign: Callable[[M, object], None] = _PRIVATE.__set__
    deque(map(assign, models, pairs), maxlen=0)
    return models


def lazy_copies(kind: type[M], models: Sequence[M]) -> list[M]:
    """Return a copy of each model, made when it is read; of one that is itself such a copy, too."""
    shown = originals(models)
    copies = lazy_models(kind, own_copy, shown)
    for place, (model, source) in enumerate(zip(models, shown, strict=True)):
        if model is source:  # may change before the copy is read
            copies[place] = own_copy(model)
    return copies


def originals(models: Sequence[M]) -> list[M]:
    """Return the models for code that only reads them: for an unread copy, what it is to copy."""
    with _READING:
        kinds = list(map(type, models))
        unread = {kind for kind in set(kinds) if issubclass(kind, _Unread)}
        found = list(models)
        places = list(compress(range(len(found)), map(unread.__contains__, kinds)))
        pairs = map(_PRIVATE.__get__, compress(models, map(unread.__contains__, kinds)))
        for place, (make, source) in zip(places, pairs, strict=True):
            if make is own_copy:
                found[place] = source
    return found


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
    made.kind, made.read_for = kind, frozenset((*_STATE, *kind.model_fields))
    return made


class _Unread:
    """Builds the model in place when it is needed."""

    __slots__ = ()
    kind: ClassVar[type[BaseModel]]
    read_for: ClassVar[frozenset[str]]
    """Names of the attributes for which the model is built."""

    def __getattribute__(self, name: str) -> Any:
        unread: Any = type(self)  # its own class, if another thread has just built it
        if issubclass(unread, _Unread):
            if name == "__class__":
                return unread.kind
            if name in unread.read_for and name not in object.__getattribute__(self, "__dict__"):
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
            if known:
                fields = cast("dict[str, Any]", vars(made)) | known
                in_order = {name: fields[name] for name in kind.model_fields if name in fields}
                _put(made, "__dict__", in_order)
                made.model_fields_set.update(known)
            for name in _STATE:
                _put(model, name, getattr(made, name))
            _put(model, "__class__", type(made))
    return model
