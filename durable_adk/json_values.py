"""Defines valid JSON values, and the base class of models that are stored as JSON.

Values are checked where they are written rather than stored. The rules are the intersection of
what all stores keep unchanged: PostgreSQL's jsonb rejects NaN, NUL and lone
surrogates; a JSON round trip silently turns tuples into lists and integer keys into strings. A
value that passes `check_json` reads back equal from every store.
"""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Self, TypeVar, Union, cast, get_args, get_origin

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import (
    InitErrorDetails,
    PydanticCustomError,
    PydanticSerializationError,
    to_jsonable_python,
)

from durable_adk.errors import InvalidRequestError, StateValueError

T = TypeVar("T")

MAX_DEPTH = 64
MAX_INT_BITS = 4096
"""Maximum bits of an integer; Python's own JSON reader fails at 4,300 digits."""
MAX_ID = 128
MAX_KEY = 1_000
"""Maximum bytes of a state key or an event's id. With the longest ids of app, user and session they
fit into the 2,704 bytes of an entry in a PostgreSQL index."""
MAX_PROBLEMS = 20
"""Maximum number of problems reported for one value."""
_MANY = 1_000
"""Number of problems above which none is listed."""
_FEW = 100
"""Maximum length of a list that is searched for an item that a validator does not expect."""
_BAD_TEXT = re.compile("[\x00\ud800-\udfff]")
_BAD_ID = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class JsonModel(BaseModel):
    """Base class of every value that crosses a process or is stored.

    It serializes as ADK's JSON: camelCase keys, no nulls, bytes as base64 (EVT-3). The constructor
    rejects unknown fields. Reading ignores them, so that an older reader accepts what a newer
    writer wrote, and this package what ADK wrote.
    """

    model_config = ConfigDict(
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        ser_json_bytes="base64",
        val_json_bytes="base64",
        protected_namespaces=(),
    )

    def to_json(self) -> str:
        """Return the value as one line of JSON.

        Raises:
            StateValueError: It has a text or a nesting depth that JSON cannot hold.
        """
        return dumped(self, f"The {type(self).__name__}", by_alias=True)

    def to_value(self) -> dict[str, Any]:
        """Return the object that `to_json` writes."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Parse the output of `to_json`, written by this version or a newer one."""
        return cls.model_validate_json(text, extra="ignore")

    @classmethod
    def read(cls, value: Any) -> Self:
        """Validate a JSON object that was written by this version or a newer one."""
        return cls.model_validate(value, extra="ignore")

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Validate an object; unknown fields are ignored unless `extra` says otherwise."""
        return super().model_validate(obj, **_lenient(cls, options))

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Parse JSON; unknown fields are ignored unless `extra` says otherwise."""
        return super().model_validate_json(json_data, **_lenient(cls, options))


def dumped(
    model: BaseModel, what: str, *, by_alias: bool = False, exclude: set[str] | None = None
) -> str:
    """Return a model as one line of JSON; a StateValueError names it by `what`."""
    try:
        return model.model_dump_json(by_alias=by_alias, exclude_none=True, exclude=exclude)
    except PydanticSerializationError as error:  # a lone surrogate, or more than 255 levels
        raise StateValueError(f"{what} is not JSON: {error}") from error


def _lenient(model: type[BaseModel], options: dict[str, Any]) -> dict[str, Any]:
    forbids = model.model_config.get("extra") == "forbid"
    return {"extra": "ignore", **options} if forbids else options


def validated(kind: type, value: Any, validate: Callable[[Any], T]) -> T:
    """Validate a value from outside; any exception becomes a ValidationError.

    Args:
        kind: The type of the value.
        value: The value, as JSON.
        validate: Validates it.

    Raises:
        ValidationError: It is malformed. At most `MAX_PROBLEMS` locations are listed, without their
            values.
    """
    try:
        return validate(value)
    except ValidationError as error:
        if (count := error.error_count()) <= MAX_PROBLEMS:
            raise
        if count > _MANY:  # making the list would take longer than reading the value
            problems = [("value_error", f"has {count:,} problems", ())]
        else:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            problems = [(one["type"], one["msg"], one["loc"]) for one in found[:MAX_PROBLEMS]]
    except Exception as error:  # noqa: BLE001 - see `_failing`
        problems = [("value_error", f"cannot be read ({error})", _failing(kind, value))]
    details = [
        InitErrorDetails(
            type=PydanticCustomError(cast("Any", name), cast("Any", text)), loc=place, input=None
        )
        for name, text, place in problems
    ]
    raise ValidationError.from_exception_data(kind.__name__, details) from None


def _failing(kind: Any, value: Any) -> tuple[str | int, ...]:
    """Return the location at which a validator raises an error other than ValidationError.

    Enumerations of google-genai raise AttributeError for a value that is not a string. Pydantic
    then reports no location.
    """
    for key, inner, item in _items(kind, value):
        try:
            _adapter(inner).validate_python(item)
        except ValidationError:
            continue
        except Exception:  # noqa: BLE001 - this is the error to locate
            return key, *_failing(inner, item)
    return ()


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _items(kind: Any, value: Any) -> Iterator[tuple[str | int, Any, Any]]:
    """Yield key, type and value of each member of a value."""
    union = get_origin(kind) in (Union, UnionType)
    for one in get_args(kind) if union else (kind,):
        if isinstance(value, list) and get_origin(one) is list:
            items = cast("list[Any]", value)
            yield from ((at, get_args(one)[0], item) for at, item in enumerate(items[:_FEW]))
        elif isinstance(value, dict) and isinstance(one, type) and issubclass(one, BaseModel):
            given = cast("dict[str, Any]", value)
            for name, field in one.model_fields.items():
                for key in {name, field.alias or name} & given.keys():
                    yield key, field.annotation, given[key]


def check_json(value: Any, path: str = "value") -> None:
    """Raise StateValueError, naming the path, unless `value` is JSON that every store keeps.

    Args:
        value: None, bool, int, float, str, list, or dict with string keys, nested at most
            `MAX_DEPTH` deep.
        path: The value's name in the error message, e.g. ``state['cart']``.
    """
    try:
        _check(value, 0)
    except _UnstorableError as error:
        place = path + "".join(f"[{key!r}]" for key in reversed(error.keys))
        raise StateValueError(f"{error.before}{place}{error.after}") from None


class _UnstorableError(Exception):
    """The problem with a value, as the text before and after its path, which callers add.

    Most values are valid, so no path is built in advance.
    """

    def __init__(self, after: str, before: str = "") -> None:
        super().__init__(after)
        self.before, self.after = before, after
        self.keys: list[Any] = []


def _check(value: Any, depth: int) -> None:
    if type(value) is str:
        _check_text(value)
    elif value is None or isinstance(value, bool):
        pass
    elif depth > MAX_DEPTH:
        raise _UnstorableError(f" is nested more than {MAX_DEPTH} levels deep; flatten it.")
    elif isinstance(value, Enum):
        raise _UnstorableError(f" is the enum {value!r}; store its .value.")
    elif isinstance(value, (int, float)):
        _check_number(value)
    elif isinstance(value, str):
        _check_text(value)
    elif isinstance(value, list):
        _check_items(enumerate(cast("list[Any]", value)), depth)
    elif isinstance(value, dict):
        items = cast("dict[Any, Any]", value)
        for key in items:
            _check_key(key)
        _check_items(items.items(), depth)
    else:
        raise _UnstorableError(
            f" is a {type(value).__name__}, which JSON cannot hold; store a "
            "str, number, bool, None, list or dict made of these."
        )


def _check_items(items: Iterable[tuple[Any, Any]], depth: int) -> None:
    place = None
    try:
        for key, item in items:
            place = key
            _check(item, depth + 1)
    except _UnstorableError as error:
        error.keys.append(place)
        raise


def _check_number(value: float) -> None:
    if isinstance(value, int):
        if value.bit_length() > MAX_INT_BITS:
            raise _UnstorableError(" is an integer of too many digits; store a str.")
    elif not math.isfinite(value):
        raise _UnstorableError(f" is {value}, which JSON cannot hold; use None.")


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        raise _UnstorableError(f" has the key {_shown(key)}; JSON keys are strings.")
    _check_text(key, "a key of ")


def _shown(key: Any) -> str:
    """Format a key for a message; an object's repr is user code and may raise."""
    plain = isinstance(key, (int, float, bytes)) or key is None
    return repr(key) if plain else f"of type {type(key).__name__}"


def check_state_key(key: Any) -> None:
    """Raise StateValueError unless every store can use `key` as a state key."""
    check_json(key, "a state key")
    if len(key.encode()) > MAX_KEY:
        raise StateValueError(
            f"The state key {key[:40]!r}... has more than {MAX_KEY} bytes; put what varies into "
            "its value."
        )


def _check_text(value: str, before: str = "") -> None:
    bad = _BAD_TEXT.search(value)
    if bad:
        kind = "NUL character" if bad[0] == "\x00" else "lone surrogate"
        raise _UnstorableError(f" holds a {kind} at index {bad.start()}; remove it.", before)


def to_json_value(value: Any, *, of_tool: bool = False) -> Any:
    """Convert common Python results (models, tuples, sets, dates, decimals) to JSON values.

    The result equals what google-adk stores; bytes become base64. These are returned unchanged, for
    `check_json` to report: unknown objects, values that are nested too deeply or contain
    themselves, and keys that JSON would make equal.

    Args:
        value: The value.
        of_tool: Whether it is a tool's result: fields of models that are None are left out, and NaN
            and infinities become null.
    """
    return _to_json(value, 0, of_tool)


def _to_json(value: Any, depth: int, of_tool: bool) -> Any:
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value)
        keys = {_key(key): key for key in items}
        if len(keys) < len(items):
            keys = {key: key for key in items}
        return {name: _to_json(items[key], depth + 1, of_tool) for name, key in keys.items()}
    if isinstance(value, (list, tuple)):
        items = cast("Iterable[Any]", value)
        return [_to_json(item, depth + 1, of_tool) for item in items]
    if isinstance(value, (set, frozenset)):
        items = cast("Iterable[Any]", value)
        members = [_to_json(item, depth + 1, of_tool) for item in items]
        return sorted(members, key=_order)  # the order of a set differs between processes
    return _scalar(value, depth, of_tool)


def _order(value: Any) -> str:
    """Return the sort key of a set's item; `check_json` rejects objects, which have no order."""
    return json.dumps(value, sort_keys=True, default=lambda item: type(item).__name__)


def _scalar(value: Any, depth: int, of_tool: bool) -> Any:
    match value:
        case BaseModel():
            dumped = _dumped(value, of_tool)
            return _to_json(dumped, depth, of_tool) if of_tool and dumped is not value else dumped
        case Enum():
            return _to_json(value.value, depth + 1, of_tool)
        case float() if of_tool and not math.isfinite(value):
            return None
        case None | str() | int() | float():
            return value
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            fields = {each.name: getattr(value, each.name) for each in dataclasses.fields(value)}
            # `asdict` would not end on circular references
            return _to_json(fields, depth, of_tool)
        case _:
            return _encoded(value)


def _key(key: Any) -> Any:
    return key if isinstance(key, str) else next(iter(_encoded({key: None})))


def _encoded(value: Any) -> Any:
    """Return a value as pydantic (google-adk's encoder) encodes it; unchanged if it cannot."""
    try:
        return to_jsonable_python(value, bytes_mode="base64", inf_nan_mode="constants")
    except Exception:  # noqa: BLE001 - user objects may raise anything here
        return value


def _dumped(model: BaseModel, of_tool: bool) -> Any:
    try:
        return model.model_dump(mode="json", exclude_none=of_tool)
    except Exception:  # noqa: BLE001 - serialisers are user code too
        return model


def canonical(value: Any) -> str:
    """Return the same text for equal JSON values in any key order, to compare and hash them."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=repr)


def check_id(value: Any, field: str) -> str:
    """Return `value` stripped; raise InvalidRequestError if it cannot serve as an id.

    Ids may contain any visible characters (e-mail addresses are common user ids). Control
    characters and lone surrogates are rejected: they do not survive logs and stores. Separators
    need no rule: keys store ids separately, and workflow ids are hashes of lists of them
    (S2). Event ids are the invocation's id, a dot and a position; therefore opening an
    invocation fails if the event ids of another one in the session may start with its id
    (`sessions.log.invocations`).

    Args:
        value: The id, at most `MAX_ID` characters.
        field: Its name in the error message, e.g. ``user_id``.
    """
    if not isinstance(value, str) or not value.strip():
        raise InvalidRequestError(f"{field} is empty; pass a non-empty string.")
    value = value.strip()
    if len(value) > MAX_ID:
        raise InvalidRequestError(
            f"{field} is {len(value)} characters long; at most {MAX_ID} are allowed."
        )
    bad = _BAD_ID.search(value)
    if bad:
        raise InvalidRequestError(
            f"{field} holds the control character {bad[0]!r} at index {bad.start()}; remove it."
        )
    return value
