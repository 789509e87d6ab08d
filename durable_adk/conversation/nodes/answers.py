"""The answers to questions of nodes: what a `RequestInput` is answered with (GR-132).

An answer is checked before it is stored: one that does not fit leaves the question open (B-2).
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, cast

from jsonschema import Draft202012Validator, SchemaError, ValidationError, validate
from referencing import Registry
from referencing.exceptions import Unresolvable

from durable_adk.conversation.history import USER
from durable_adk.conversation.pending_calls import is_final
from durable_adk.errors import InvalidRequestError
from durable_adk.events.event import Event

RESULT = "result"
"""The key under which an answer is stored."""


def read_answer(response: dict[str, Any], schema: dict[str, Any] | None, what: str) -> Any:
    """Return the value that a person has given.

    Without a schema a text that is JSON is its value, as in ADK. With one, the text itself is tried
    first, then the JSON in it (B-3).

    Args:
        response: The response to the call: ``{"result": value}``, or any other object.
        schema: The JSON schema of the value; None: any value.
        what: The answer's name in the error message.

    Raises:
        InvalidRequestError: The value does not fit the schema.
    """
    value = response[RESULT] if set(response) == {RESULT} else response
    parsed = _parsed(value)
    if schema is None:
        return parsed[-1]
    problems = [_problem(schema, one) for one in parsed]
    for one, problem in zip(parsed, problems, strict=True):
        if problem is None:
            return one
    raise InvalidRequestError(f"{what} does not fit its schema: {problems[0]}.")


def _parsed(value: Any) -> list[Any]:
    """Return a value, and the JSON that it is the text of, if it is one."""
    if isinstance(value, str):
        try:
            return [value, json.loads(value)]
        except (ValueError, RecursionError):
            pass
    return [value]


def _problem(schema: dict[str, Any], value: Any) -> str | None:
    """Return why a value does not fit a schema, or None."""
    try:
        # Without a registry of its own, jsonschema fetches what a `$ref` of a model's schema names.
        validate(value, schema, cls=Draft202012Validator, registry=Registry[Any]())
    except (SchemaError, Unresolvable):
        return None  # no answer fits a broken schema: the node checks the answer
    except ValidationError as error:
        return str(error.message)
    return None


def given_answers(
    events: Iterable[Event], call_ids: Sequence[str], *, invocation_id: str
) -> dict[str, Any]:
    """Return the values of an invocation's answered questions, in the order of the ids.

    A question of the same id may have been answered before, in an earlier round of a loop: the last
    answer counts (GR-136).
    """
    found: dict[str, Any] = {}
    for event in events if call_ids else ():
        own = event.invocation_id == invocation_id
        for response in event.get_function_responses() if own else ():
            if response.id is None or response.id not in call_ids:
                continue
            if event.author == USER or is_final(event, response.id):  # else an interim one
                found[response.id] = _stored(response.response)
    return {name: found.get(name) for name in call_ids}


def _stored(response: Any) -> Any:
    data = cast("dict[str, Any]", response or {})
    return data[RESULT] if set(data) == {RESULT} else data
