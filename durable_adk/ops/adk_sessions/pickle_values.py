"""The values in a pickle, read without running anything of it (S12).

google-adk 1.x pickled the actions of its events. Python's own unpickler imports the modules that a
pickle names and calls what is in them, so a database could make its reader run any code. This
reader looks up nothing: an object is the dictionary of its fields, and a call gives a value only
for the few types of data that state may hold.

A pickle of a few bytes can stand for values without end: parts that are shared again and again, and
calls that copy. So what its values take is limited, and so is how deep they are nested. What is not
shared always fits.
"""

import pickletools
from collections.abc import Callable, Iterable, Mapping, Sized
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple, cast
from uuid import UUID

from pydantic_core import to_jsonable_python

from durable_adk.errors import InvalidRequestError

_MODELS = ("google.adk.", "google.genai.", "fastapi.openapi.models")
"""The packages whose models and enums an event's actions may hold."""


MAX_SHARED = 100_000_000
"""Bytes that the values of a pickle may take beyond what its own bytes account for."""
VALUE = 32
"""Bytes that a value takes, about, besides its text."""
MAX_DEPTH = 200
"""Levels of lists, objects and tuples within each other; JSON's readers have similar limits."""


def _empty(*_: Any) -> dict[Any, Any]:
    return {}


def _mapping(items: Iterable[tuple[Any, Any]] = ()) -> dict[Any, Any]:
    return _pairs([part for key, value in items for part in (key, value)])


def _bytearray(data: str | bytes = b"", _: str = "latin-1") -> bytearray:
    return bytearray(data.encode("latin1") if isinstance(data, str) else bytes(memoryview(data)))


def _encoded(text: str, _: str = "latin1") -> bytes:
    return text.encode("latin1")


_TYPES: dict[tuple[str, str], Callable[..., Any]] = {
    **{("builtins", kind.__name__): kind for kind in (list, set, tuple, frozenset)},
    ("builtins", "bytearray"): _bytearray,
    **{("datetime", kind.__name__): kind for kind in (date, datetime, time, timedelta, timezone)},
    ("collections", "OrderedDict"): _mapping,
    ("collections", "defaultdict"): _empty,
    ("decimal", "Decimal"): Decimal,
    ("_codecs", "encode"): _encoded,
}
"""The types that are made by a call, of arguments that are data themselves."""


class _Name(NamedTuple):
    """A class or function that a pickle names; it is never looked up."""

    module: str
    name: str


class _Object:
    """An object of a class that is not looked up."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}

    def fill(self, state: Any) -> None:
        """Take its fields, in the form that pydantic's models have."""
        self.fields.update(state.get("__dict__", state))


def values_of(pickled: bytes) -> Any:
    """Return what a pickle of google-adk's actions holds, as JSON values.

    The fields of models that are None are left out.

    Raises:
        InvalidRequestError: It is no pickle, or holds more than google-adk's data.
    """
    room = _Room(MAX_SHARED + VALUE * len(pickled))
    reader = _Reader(room)
    try:
        for code, argument, _ in pickletools.genops(pickled):
            if code.name == "STOP":
                return _Json(room).of(reader.stack.pop())
            reader.step(code.name, argument)
    except InvalidRequestError:
        raise
    except Exception as error:
        raise InvalidRequestError(f"The pickle cannot be read: {error!r}") from error
    raise InvalidRequestError("The pickle has no end.")


class _Room:
    """What the values of a pickle may still take, each part counted as often as it is used."""

    def __init__(self, size: int) -> None:
        self._left = size

    def take(self, values: int, text: int = 0) -> None:
        """Take the room for some values.

        Raises:
            InvalidRequestError: There is no more.
        """
        self._left -= VALUE * values + text
        if self._left < 0:
            raise InvalidRequestError(
                f"The pickle's values, with those that it uses repeatedly, take more than "
                f"{MAX_SHARED:,} bytes beyond its own; they are not read."
            )

    def hash(self, items: Iterable[Any]) -> None:
        """Take what it costs to hash items of a set: tuples are hashed with all their parts.

        Raises:
            InvalidRequestError: It is too much, or they are nested too deeply.
        """
        rest = [(item, 1) for item in items]
        while rest:
            item, depth = rest.pop()
            self.take(1)
            if isinstance(item, (tuple, frozenset)):
                parts = cast("tuple[Any, ...]", item)
                rest += [(part, _deeper(depth)) for part in parts]


def _deeper(depth: int) -> int:
    """The depth of the parts of a value.

    Raises:
        InvalidRequestError: They are nested too deeply.
    """
    if depth == MAX_DEPTH:
        raise InvalidRequestError(f"The pickle's values are nested more than {MAX_DEPTH} deep.")
    return depth + 1


class _Reader:
    """The stack and the memo of a pickle; the data that its instructions put there."""

    def __init__(self, room: _Room) -> None:
        self.stack: list[Any] = []
        self._room = room
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def step(self, code: str, argument: Any) -> None:
        """Follow one instruction."""
        if code in _PUSHED:
            self.stack.append(argument)
        elif code in _CONSTANTS:
            self.stack.append(_CONSTANTS[code]())
        elif code in ("PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"):
            self._memo[len(self._memo) if argument is None else int(argument)] = self.stack[-1]
        elif code in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self._memo[int(argument)])
        elif code == "MARK":
            self._marks.append(len(self.stack))
        elif code in _TUPLES:
            items = self._top(_TUPLES[code])
            self.stack.append(tuple(items))
        elif code == "GLOBAL":
            self.stack.append(_known(_Name(*argument.split(" ", 1))))
        elif code not in ("PROTO", "FRAME"):
            self._build(code)

    def _build(self, code: str) -> None:
        match code:
            case "TUPLE" | "LIST" | "FROZENSET":
                made = {"TUPLE": tuple, "LIST": list, "FROZENSET": frozenset}[code]
                items = self._marked()
                if code == "FROZENSET":
                    self._room.hash(items)
                self.stack.append(made(items))
            case "DICT":
                self.stack.append(_pairs(self._marked()))
            case "APPEND" | "SETITEM":
                items = self._top(1 if code == "APPEND" else 2)
                self._extend(items)
            case "APPENDS" | "SETITEMS" | "ADDITEMS":
                self._extend(self._marked())
            case "STACK_GLOBAL":
                self.stack.append(_known(_Name(*self._top(2))))
            case "NEWOBJ" | "REDUCE":
                name, arguments = self._top(2)
                self._call(name, arguments, is_new=code == "NEWOBJ")
            case "BUILD":
                (state,) = self._top(1)
                self._room.take(len(state))
                self.stack[-1].fill(state)
            case "POP":
                self.stack.pop()
            case _:
                raise InvalidRequestError(f"The pickle has an instruction {code} that no data has.")

    def _call(self, name: Any, arguments: Any, *, is_new: bool) -> None:
        """Put the value of a call on the stack; it may copy its arguments, and hash their items."""
        for argument in arguments:
            self._room.take(len(argument) if isinstance(argument, Sized) else 1)
        if name in (("builtins", "set"), ("builtins", "frozenset")) and arguments:
            self._room.hash(arguments[0])
        self.stack.append(_made(name, arguments, is_new=is_new))

    def _top(self, number: int) -> list[Any]:
        items = self.stack[-number:]
        del self.stack[-number:]
        return items

    def _marked(self) -> list[Any]:
        start = self._marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def _extend(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, dict):
            cast("dict[Any, Any]", target).update(_pairs(items))
        elif isinstance(target, set):
            self._room.hash(items)
            cast("set[Any]", target).update(items)
        else:
            target.extend(items)


_PUSHED = frozenset(
    [
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING", "UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
        *("BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    ]
)
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_SET": set,
    "EMPTY_TUPLE": tuple,
}
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


def _pairs(items: list[Any]) -> dict[Any, Any]:
    if not all(key is None or isinstance(key, (str, int, float)) for key in items[::2]):
        raise InvalidRequestError("The pickle has a dictionary with keys that JSON has not.")
    return dict(zip(items[::2], items[1::2], strict=True))


def _known(name: _Name) -> _Name:
    if name in _TYPES or name in _UUIDS or name.module.startswith(_MODELS):
        return name
    raise InvalidRequestError(
        f"The pickle names {name.module}.{name.name}, which is no data of google-adk's; it is not "
        "loaded."
    )


_UUIDS = (_Name("uuid", "UUID"), _Name("uuid", "SafeUUID"))


def _made(name: Any, arguments: Any, *, is_new: bool) -> Any:
    """The value of a call: an object to be filled, a value of an enum, or one of `_TYPES`."""
    if not isinstance(name, _Name):
        raise InvalidRequestError("The pickle calls what is no class.")
    if name in _TYPES:
        return _TYPES[name](*arguments)
    if name in _UUIDS:
        return _Uuid()
    if is_new and not arguments:
        return _Object()
    if len(arguments) == 1 and isinstance(arguments[0], (str, int)):
        return arguments[0]  # a member of an enum, by its value
    raise InvalidRequestError(f"The pickle calls {name.module}.{name.name}, which is no model.")


class _Uuid(_Object):
    """A UUID, which is pickled by its number."""

    def value(self) -> str:
        return str(UUID(int=self.fields["int"]))


class _Json:
    """Writes values as JSON, as google-adk does."""

    def __init__(self, room: _Room) -> None:
        self._room = room

    def of(self, value: Any, depth: int = 1) -> Any:
        """The value as JSON."""
        self._room.take(1, len(value) if isinstance(value, (str, bytes, bytearray)) else 0)
        if isinstance(value, _Name):
            raise InvalidRequestError(f"The pickle holds the class {value.module}.{value.name}.")
        if isinstance(value, _Uuid):
            return value.value()
        if isinstance(value, _Object):
            fields = {name: field for name, field in value.fields.items() if field is not None}
            return self.of(fields, depth)
        if isinstance(value, Mapping):
            items, below = cast("Mapping[Any, Any]", value).items(), _deeper(depth)
            return {key: self.of(item, below) for key, item in items}
        if isinstance(value, (list, tuple, set, frozenset)):
            below = _deeper(depth)
            return [self.of(item, below) for item in cast("list[Any]", value)]
        return to_jsonable_python(value, bytes_mode="base64")
