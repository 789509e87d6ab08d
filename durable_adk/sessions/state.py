"""State with a memory of what was changed."""

from collections.abc import Iterator, Mapping
from typing import Any

from durable_adk.errors import StateValueError
from durable_adk.values import canonical, check_json

APP_PREFIX = "app:"
USER_PREFIX = "user:"
TEMP_PREFIX = "temp:"


def is_temp(key: str) -> bool:
    """Whether the key lives for one invocation only (semantics STA-4)."""
    return key.startswith(TEMP_PREFIX)


def without_temp(delta: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a delta that is stored."""
    return {key: value for key, value in delta.items() if not is_temp(key)}


class State:
    """A view of a state dict that records every change in a delta (semantics STA-9, STA-10).

    Writes go to both the value (later code in the same step reads them: a dirty read, STA-14) and
    the delta (which rides on the step's event, STA-16). A dict or list that was read and then
    changed in place is found when the delta is collected: its JSON is compared with what it was.
    Values are checked when they are written, so a bad one is named where it was made (TRAP-21).
    """

    APP_PREFIX = APP_PREFIX
    USER_PREFIX = USER_PREFIX
    TEMP_PREFIX = TEMP_PREFIX

    def __init__(self, value: dict[str, Any], delta: dict[str, Any]) -> None:
        self._value = value
        self._delta = delta
        self._handed_out: dict[str, str] = {}

    def __getitem__(self, key: str) -> Any:
        value = self._delta[key] if key in self._delta else self._value[key]
        if isinstance(value, (dict, list)) and key not in self._handed_out:
            self._handed_out[key] = canonical(value)
        return value

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]: callers may be untyped
            raise StateValueError(f"The state key {key!r} is not a string.")
        check_json(key, "a state key")
        check_json(value, f"state[{key!r}]")
        self._value[key] = value
        self._delta[key] = value

    def __contains__(self, key: object) -> bool:
        return key in self._delta or key in self._value

    def __iter__(self) -> Iterator[str]:
        return iter({**self._value, **self._delta})

    def __len__(self) -> int:
        return len({**self._value, **self._delta})

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a key, or `default`."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, which is set to `default` first if it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, delta: Mapping[str, Any]) -> None:
        """Set several keys."""
        for key, value in delta.items():
            self[key] = value

    def has_delta(self) -> bool:
        """Whether anything was changed."""
        return bool(self.collect_delta())

    def collect_delta(self) -> dict[str, Any]:
        """All changes so far, in-place ones included; the same dict at every call.

        Raises:
            StateValueError: A value was changed in place into something that is not JSON.
        """
        for key, before in self._handed_out.items():
            current = self._delta[key] if key in self._delta else self._value.get(key)
            if canonical(current) != before:
                self[key] = current
        return self._delta

    def to_dict(self) -> dict[str, Any]:
        """The whole state as later code of the step sees it."""
        return {**self._value, **self._delta}
