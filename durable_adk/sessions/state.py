"""State that records its changes."""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, cast

from pydantic import BaseModel, TypeAdapter, ValidationError

from durable_adk.errors import StateSchemaError, StateValueError
from durable_adk.json_values import canonical, check_json, check_state_key
from durable_adk.sessions.state_merge import MISSING, Base, base_of, together

APP_PREFIX = "app:"
USER_PREFIX = "user:"
TEMP_PREFIX = "temp:"
SHARED_PREFIXES = (APP_PREFIX, USER_PREFIX)
"""Prefixes of keys that sessions share."""


def is_temp(key: str) -> bool:
    """Return whether the key lasts for one invocation only (STA-4)."""
    return key.startswith(TEMP_PREFIX)


def check_state_entry(schema: type[BaseModel] | None, key: str, value: Any) -> None:
    """Check a change of the state by the schema of the node that makes it (GR-200).

    Values are not converted. Keys with a prefix, as ``user:``, may have any value.

    Args:
        schema: The schema; None: every key may have any value.
        key: The key.
        value: Its new value.

    Raises:
        StateSchemaError: The schema has no such field, or one of another type.
    """
    if schema is None or ":" in key:
        return
    field = schema.model_fields.get(key)
    if field is None:
        raise StateSchemaError(
            f"Key '{key}' is not declared in state schema '{schema.__name__}'. Declared fields: "
            f"{sorted(schema.model_fields)}"
        )
    kind = field.rebuild_annotation()
    try:
        TypeAdapter[Any](kind).validate_python(value)
    except ValidationError as error:
        raise StateSchemaError(
            f"Value for '{key}' does not satisfy field '{key}' ({kind}) in '{schema.__name__}': "
            f"{error}"
        ) from error


def without_temp(delta: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a delta that is stored."""
    return {key: value for key, value in delta.items() if not is_temp(key)}


class State:
    """A view of a state dict that records every change in a delta (STA-9, STA-10).

    Writes go to both the value (later code in the same step reads them: a dirty read, STA-14) and
    the delta (which is stored with the step's event, STA-16). The delta gets a copy, so that later
    changes to a list that was put into the state do not change an event (TRAP-52).

    In-place changes of a dict or list after it was read or set are detected when the delta is
    collected, by comparing its JSON with the earlier JSON. Direct changes of the value dict by
    other code are not recorded. Values are checked on write, so an invalid value raises where it is
    set (TRAP-21).

    Of each key that was read before it was written, the value read is kept as the base, so that
    concurrent writes can be merged (`sessions.state_merge`).

    Args:
        value: The values; changed in place.
        delta: The changes; changed in place.
        read: The bases of the changes; changed in place. None: bases are not kept.
        stored: The base of each value that differs from the stored one, by key.
    """

    APP_PREFIX = APP_PREFIX
    USER_PREFIX = USER_PREFIX
    TEMP_PREFIX = TEMP_PREFIX

    def __init__(
        self,
        value: dict[str, Any],
        delta: dict[str, Any],
        *,
        read: dict[str, Base] | None = None,
        stored: Mapping[str, Base] | None = None,
    ) -> None:
        self.schema: type[BaseModel] | None = None
        """The keys that may be set, with their types; see `check_state_entry`. None: all."""
        self._value = value
        self._delta = delta
        self._read = {} if read is None else read
        self._stored = dict(stored or {})
        self._copies: dict[str, Any] = {}
        self._shared: dict[str, tuple[Any, str]] = {}
        """Dicts and lists that callers may hold references to, each with its last known JSON."""
        self._seen: dict[str, str | None] = {}
        """JSON of each value that was read before it was written, by key; None: there was no value.
        A default passed by the reader counts as the value."""
        self._stale = set[str]()
        """Keys whose values others have changed since this code read them."""
        self._written = set(delta)
        """Keys whose values have been written: reading them returns this code's own write."""

    def __getitem__(self, key: str) -> Any:
        value = self._live(key)
        self._saw(key, value)
        if value is MISSING:
            raise KeyError(key)
        if isinstance(value, (dict, list)) and key not in self._shared:
            self._shared[key] = value, canonical(value)
        return value  # pyright: ignore[reportUnknownVariableType]  # a JSON value

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers may be untyped
            raise StateValueError(f"The state key {key!r} is not a string.")
        check_state_key(key)
        check_json(value, f"state[{key!r}]")
        check_state_entry(self.schema, key, value)
        self._value[key] = value
        self._record(key, value)

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            self._saw(key, self._live(key))
        return key in self._delta or key in self._value

    def __iter__(self) -> Iterator[str]:
        return iter({**self._value, **self._delta})

    def __len__(self) -> int:
        return len({**self._value, **self._delta})

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or `default`."""
        try:
            return self[key]
        except KeyError:
            self._saw_default(key, default)
            return default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, after setting it to `default` if it is missing."""
        if key not in self:
            self._saw_default(key, default)
            self[key] = default
        return self[key]

    def update(self, delta: Mapping[str, Any]) -> None:
        """Set several keys; if any value is not JSON or does not fit the schema, set none."""
        for key, value in delta.items():
            check_json(value, f"state[{key!r}]")
            check_state_entry(self.schema, key, value)
        for key, value in delta.items():
            self[key] = value

    def has_delta(self) -> bool:
        """Return whether anything was changed."""
        return bool(self.collect_delta())

    def collect_delta(self) -> dict[str, Any]:
        """Return all changes so far, including in-place ones; the same dict on every call.

        Raises:
            StateValueError: A value was changed in place and is no longer JSON.
        """
        for key, (value, before) in list(self._shared.items()):
            check_json(value, f"state[{key!r}]")  # first, as only JSON has a canonical form
            if canonical(value) != before:
                self._value[key] = value
                self._record(key, value)
        for key, value in self._delta.items():
            if value is not self._copies.get(key, MISSING):
                check_json(value, f"state[{key!r}]")
        self._keep_bases()
        return self._delta

    def committed(self) -> None:
        """Treat all changes so far as stored with an event: they are the base of later changes."""
        for key, value in self.collect_delta().items():
            self._stored.pop(key, None)
            self._seen[key] = canonical(value)

    def refresh(self, stored: Mapping[str, Any]) -> None:
        """Read the values that other code has stored meanwhile; this code's own changes stay.

        Dicts and lists that callers hold are changed in place. What this code has read before stays
        the base of its next change, until it reads the key again.
        """
        mine = self.collect_delta()
        for key in [key for key in {*self._value, *stored} if key not in mine]:
            if key not in stored:
                self._value.pop(key, None)
                self._shared.pop(key, None)
            elif key not in self._value or canonical(self._value[key]) != canonical(stored[key]):
                self._value[key] = self._renewed(key, stored[key])
            else:
                continue
            self._copies.pop(key, None)
            self._written.discard(key)
            self._stale.add(key)

    def _renewed(self, key: str, value: Any) -> Any:
        held: Any
        held, _ = self._shared.pop(key, (None, ""))
        if held is None or type(held) is not type(value):
            return value
        if isinstance(held, dict):
            held.clear()
            cast("dict[str, Any]", held).update(value)
        else:
            held[:] = value
        self._shared[key] = held, canonical(held)
        return cast("Any", held)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole state as later code of the step sees it.

        In-place changes of the returned values are detected as well.
        """
        return {key: self[key] for key in self}

    def _saw(self, key: str, value: Any) -> None:
        """Keep the value of a key before it is changed, unless this code has written it."""
        new = key not in self._seen or key in self._stale
        if new and key not in self._written and key not in self._delta:
            self._stale.discard(key)
            self._seen[key] = None if value is MISSING else canonical(value)

    def _saw_default(self, key: str, default: Any) -> None:
        """Treat a default as the value that was read: the code continues from it."""
        if key in self._seen and self._seen[key] is None and key not in self._written:
            with suppress(StateValueError):  # not a valid state value
                check_json(default, "a default")
                self._seen[key] = None if default is None else canonical(default)

    def _keep_bases(self) -> None:
        for key in self._seen.keys() & self._delta.keys():
            if key in self._stored:
                self._read[key] = self._stored[key]
            else:
                text = self._seen[key]
                before = MISSING if text is None else json.loads(text)
                self._read[key] = base_of(before, self._delta[key])

    def merge(self, delta: Mapping[str, Any], bases: Mapping[str, Base]) -> None:
        """Apply changes that other code has made, based on the values `bases`.

        Raises:
            StateConflictError: A value cannot be merged with this code's own write.
        """
        self.collect_delta()
        mine = {key: value for key, value in self._delta.items() if key in delta}
        read = {key: base for key, base in self._read.items() if key in delta}
        both, merged_bases = together(mine, read, delta, bases)
        for key, value in both.items():
            self._seen.pop(key, None)
            self._read.pop(key, None)
            self[key] = value
        self._read.update(merged_bases)

    def _live(self, key: str) -> Any:
        """Return the object that all readers of the key share.

        It is in the value, unless user code wrote to the delta directly, which ADK permits.
        """
        mine = self._copies.get(key, MISSING)
        if key in self._delta and self._delta[key] is not mine:
            return self._delta[key]
        return self._value.get(key, MISSING)

    def _record(self, key: str, value: Any) -> None:
        self._written.add(key)
        if isinstance(value, (dict, list)):
            self._shared[key] = value, canonical(value)
            value = json.loads(json.dumps(value))
        else:
            self._shared.pop(key, None)
        self._copies[key] = self._delta[key] = value
