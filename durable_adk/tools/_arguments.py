"""Conversion of a model's arguments to a function's annotated types.

The conversion is lossless (TOL-15). Text is parsed ("3" to 3, "red" to Color.RED),
objects become models, dataclasses or typed dicts, an int becomes a float, and a float without a
fraction an int. Nothing is rounded or guessed: 3.7 is not accepted as an int, nor "yes" or 1 as a
bool. Inside a pydantic model, the model's configuration applies.
"""

import math
import reprlib
from collections.abc import Iterable
from copy import deepcopy
from itertools import islice
from typing import Any, cast

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from durable_adk.tools._parameters import Parameter

_MAX_PROBLEMS = 10
_SHOWN = reprlib.Repr()
_SHOWN.maxstring = _SHOWN.maxother = 100


def missing_error(tool_name: str, fields: Iterable[Parameter], args: dict[str, Any]) -> str | None:
    """Return the error for missing mandatory arguments; None if none is missing (TOL-14)."""
    missing = [field.name for field in fields if field.mandatory and field.name not in args]
    if not missing:
        return None
    failure = f"Invoking `{tool_name}()` failed as the following mandatory input parameters"
    retry = "Call it again with a value for every mandatory parameter."
    return "\n".join([f"{failure} are not present:", *missing, retry])


def convert(fields: Iterable[Parameter], args: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the arguments for the function, and one error line for each that does not fit.

    The values are copies, because a function may change its arguments but the event must not
    change (TRAP-23). Unknown arguments are dropped.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    for field in fields:
        if field.name not in args:
            continue
        sent = deepcopy(args[field.name])
        try:
            values[field.name] = field.adapter.validate_python(sent)
        except ValidationError as error:
            details = error.errors(include_url=False, include_context=False)
            problems += [_problem(field.name, detail) for detail in details]
            continue
        if wanted := _should_be(sent, values[field.name]):
            problems.append(f"`{field.name}`: got {_SHOWN.repr(sent)}. Input should be {wanted}.")
    return values, problems


def unfit_error(tool_name: str, problems: list[str]) -> str:
    """Return the error for arguments of the wrong type (TOL-15)."""
    more = len(problems) - _MAX_PROBLEMS
    return "\n".join(
        [
            f"Invoking `{tool_name}()` failed as these arguments do not fit its parameters:",
            *islice(problems, _MAX_PROBLEMS),
            *([f"and {more} more"] if more > 0 else []),
            "Call it again with values of the declared types.",
        ]
    )


def _problem(name: str, detail: ErrorDetails) -> str:
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in detail["loc"])
    return f"`{name}{path}`: got {_SHOWN.repr(detail['input'])}. {detail['msg']}."


def _should_be(sent: Any, got: Any) -> str | None:
    """The expected value, if pydantic's conversion lost information; otherwise None.

    A validator of the application may change a value, but not a number to a bool or back.
    """
    match sent, got:
        case list(), list() | tuple():
            pairs = zip(cast("list[Any]", sent), cast("list[Any]", got), strict=False)
        case dict(), dict():
            known = cast("dict[Any, Any]", got)
            pairs = ((v, known[k]) for k, v in cast("dict[Any, Any]", sent).items() if k in known)
        case _:
            return _scalar_should_be(sent, got)
    return next((wanted for pair in pairs if (wanted := _should_be(*pair))), None)


def _scalar_should_be(sent: Any, got: Any) -> str | None:
    if isinstance(got, bool):
        spelled = isinstance(sent, str) and sent.strip().lower() == str(got).lower()
        return None if spelled or sent is got else "true or false"
    if isinstance(got, (int, float)) and isinstance(sent, bool):
        return "a number"
    if isinstance(got, float) and not math.isfinite(got):
        return None if sent is got else "a finite number"
    if isinstance(got, float) and isinstance(sent, int) and _rounded(sent, got):
        return f"a number of at most {2**53}, which a float keeps exactly"
    return None


def _rounded(sent: int, got: float) -> bool:
    """Whether `got` is `sent` with lost precision, and not a value that a validator chose."""
    return got == float(sent) and int(got) != sent
