"""Merges changes of state that were made at the same time (STA-19).

Steps run side by side: the calls of one turn, the branches of a ParallelAgent, other sessions of
the same user. Each reads the state and writes whole values, so the later write would undo the
earlier one. A write therefore carries its base, the value that its code had read, and is merged
with the value that is stored by then:

- A value that has not changed since is replaced.
- Numbers are counts: both differences to the base are added up.
- Lists that both sides have extended get the items of both, the stored ones first.
- Dicts are merged key by key.
- A write whose code had not read the value depends on nothing, and replaces it.

Anything else is a conflict. The merge is a function of its three values, so every replay and every
attempt produces the same result.
"""

import hashlib
import math
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, TypeGuard

from durable_adk.errors import StateConflictError
from durable_adk.json_values import canonical

Base: TypeAlias = list[Any]
"""A base as JSON: ``[]`` if there was no value, ``[value]``, or for a large value ``[None, digest,
length]``. A large list that is the beginning of the written one has its length there. Any other
large value has None, and can only be compared."""

MAX_BASE: Final = 16_000
"""Maximum characters of a base that is kept as a value."""
MISSING: Final = object()
"""Represents the value of a key that does not exist."""


def base_of(before: Any, written: Any) -> Base:
    """Return a base as JSON.

    Args:
        before: The value that was read, or `MISSING`.
        written: The value that was written.
    """
    if before is MISSING:
        return []
    text = canonical(before)
    if len(text) <= MAX_BASE:
        return [before]
    if _is_list(before) and _is_list(written) and canonical(written[: len(before)]) == text:
        return [None, _digest(text), len(before)]
    return [None, _digest(text), None]


def merged(
    current: Mapping[str, Any], delta: Mapping[str, Any], bases: Mapping[str, Base]
) -> dict[str, Any]:
    """Return the values to store for a delta.

    Args:
        current: The values that are stored now, at least those of the delta's keys.
        delta: The values that were written.
        bases: The bases of values whose code had read them; other values replace the stored ones.

    Raises:
        StateConflictError: A value cannot be merged; the message names its key.
    """
    return {
        key: _of_key(key, bases[key], current.get(key, MISSING), value) if key in bases else value
        for key, value in delta.items()
    }


def together(
    first: Mapping[str, Any],
    first_bases: Mapping[str, Base],
    second: Mapping[str, Any],
    second_bases: Mapping[str, Base],
) -> tuple[dict[str, Any], dict[str, Base]]:
    """Return two concurrent deltas as one, with its bases.

    Where neither side has read a value, dicts are merged key by key; the second side wins (FLW-45).

    Raises:
        StateConflictError: A value cannot be merged; the message names its key.
    """
    delta, bases = {**first, **second}, {**second_bases, **first_bases}
    for key in first.keys() & second.keys():
        mine, other = first[key], second[key]
        before = _value(first_bases[key], mine) if key in first_bases else _UNKNOWN
        if key in second_bases:
            delta[key] = _of_key(key, second_bases[key], mine, other)
        elif _is_dict(mine) and _is_dict(other):
            delta[key] = _laid_over(mine, other)
        else:
            before = _UNKNOWN
        bases.pop(key, None)
        if before is not _UNKNOWN:
            bases[key] = base_of(before, delta[key])
    return delta, bases


_Dict: TypeAlias = dict[str, Any]
_List: TypeAlias = list[Any]
_UNKNOWN: Final = object()
"""Represents a base of which only the digest is known."""


def _laid_over(below: _Dict, above: _Dict) -> _Dict:
    result = dict(below)
    for key, value in above.items():
        known = result.get(key)
        result[key] = _laid_over(known, value) if _is_dict(known) and _is_dict(value) else value
    return result


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _value(base: Base, written: Any) -> Any:
    """Return the base's value, `MISSING`, or `_UNKNOWN`."""
    match base:
        case []:
            return MISSING
        case [value]:
            return value
        case [_, digest, int(length)] if _is_list(written):
            begin = written[:length]
            return begin if _digest(canonical(begin)) == digest else _UNKNOWN
        case _:
            return _UNKNOWN


def _of_key(key: str, base: Base, current: Any, written: Any) -> Any:
    before, path = _value(base, written), f"state[{key!r}]"
    if current is MISSING:
        return written  # the base is a default: keys are never removed
    try:
        if before is not _UNKNOWN:
            return _merge(path, before, current, written)
        if _digest(canonical(current)) == base[1]:
            return written
        if _digest(canonical(written)) == base[1]:
            return current
        raise _conflict(path, "is too large to be merged")
    except StateConflictError as error:
        error.key = key
        raise


def _merge(path: str, base: Any, current: Any, written: Any) -> Any:
    """Return the merge of one value, at any depth; `MISSING` if it was removed."""
    if _same(current, base):
        return written
    if _same(written, base):
        return current
    total = _sum(base, current, written)
    if total is not None:
        return total
    absent = base is MISSING or base is None
    dict_before: Any = {} if absent else base
    list_before: Any = [] if absent else base
    if _is_dict(dict_before) and _is_dict(current) and _is_dict(written):
        return _merge_dicts(path, dict_before, current, written)
    if _extends(current, list_before) and _extends(written, list_before):
        return current + written[len(list_before) :]
    if _same(current, written) and not _is_list(written):
        return written  # equal changes of a list may be two that both count
    raise _conflict(path, "was changed in two ways that cannot be merged")


def _conflict(path: str, what: str) -> StateConflictError:
    return StateConflictError(
        f"{path} {what}: code that ran at the same time had read the same value of it. Give each "
        "its own key, or a list or dict that both add to; or set the value without reading it."
    )


def _same(one: Any, other: Any) -> bool:
    if one is MISSING or other is MISSING:
        return one is other
    return canonical(one) == canonical(other)  # in Python True equals 1


def _is_dict(value: Any) -> TypeGuard[_Dict]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[_List]:
    return isinstance(value, list)


def _extends(value: Any, base: Any) -> TypeGuard[_List]:
    return _is_list(value) and _is_list(base) and _same(value[: len(base)], base)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _sum(base: Any, current: Any, written: Any) -> float | None:
    """Return the sum of two counts; None if these are not counts.

    A whole number that did not exist counts from 0. Any other number that did not exist could also
    be a time, so it is not a count.
    """
    if not (_is_number(current) and _is_number(written)):
        return None
    if base is MISSING or base is None:
        base = 0 if isinstance(current, int) and isinstance(written, int) else None
    if not _is_number(base):
        return None
    try:
        total = current + (written - base)
    except OverflowError:
        return None
    return total if math.isfinite(total) else None


def _merge_dicts(path: str, base: _Dict, current: _Dict, written: _Dict) -> _Dict:
    result: _Dict = {}
    for key in {**current, **written}:
        sides = (one.get(key, MISSING) for one in (base, current, written))
        value = _merge(f"{path}[{key!r}]", *sides)
        if value is not MISSING:
            result[key] = value
    return result
