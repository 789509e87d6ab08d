"""What processes of different releases write for each other."""

import ast
import types as builtin
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import pytest
from pydantic import BaseModel

from durable_adk.activities import attempt
from durable_adk.client.invocations import as_argument
from durable_adk.errors import InvalidRequestError, NewerReleaseError
from durable_adk.json_values import JsonModel
from durable_adk.sessions import records
from durable_adk.wire import activity_call, checkpoint, manifest, messages, steps
from durable_adk.wire.checkpoint import Checkpoint, Cursor
from durable_adk.wire.converter import data_converter
from durable_adk.wire.messages import InvocationAnswer, InvocationRequest, InvocationResult
from durable_adk.wire.run_config import RunConfig
from durable_adk.workflows.invocation import ARGUMENT_ERRORS

ADDED = {"addedByTheNextRelease": 1}
PACKAGE = Path(messages.__file__).parent
MODULES = (steps, checkpoint, messages, manifest, activity_call, records)
OURS = sorted(
    {
        each
        for module in MODULES
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, JsonModel) and each is not JsonModel
    },
    key=lambda each: each.__name__,
)
OF_CALLERS = {
    "code_executors/_launch.py": "a reply of its own child process",
    "embedded/server.py": "checked by who reads it",
    "flows/requests.py": "a class of auth, which keeps what it does not know",
    "flows/answers.py": "what a client answers",
    "cli/secret.py": "what a person types",
    "activities/user_code/plugin_hooks.py": "what a plugin returns",
    "tools/agent_tool.py": "what a model calls with",
    "tools/activity_tool.py": "an option in code",
    "artifacts/_stored.py": "what a tool saves",
    "memory/_stored.py": "made in the same function",
    "auth/_model.py": "its classes keep what they do not know",
    "reports.py": "its class ignores what it does not know",
}
"""Where a value is read strictly, and why no other release of this package has written it."""


def example(annotation: Any, within: tuple[Any, ...] = ()) -> Any:  # noqa: C901, PLR0911 - a line a kind
    """A JSON value of a type, with a field more in every object of ours, at every level."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, builtin.UnionType):
        return example(max(arguments, key=is_ours), within)
    if origin is Annotated:
        return example(arguments[0], within)
    if origin is list:
        known = any(one in within for one in nested(arguments[0]))
        return [] if known else [example(arguments[0], within)]
    if origin is tuple:
        return [example(one, within) for one in arguments]
    if origin is dict:
        return {"k": example(arguments[1], within)}
    if origin is Literal:
        return arguments[0]
    if origin is not None:
        return []
    if annotation is Any:
        return None
    if is_ours(annotation):
        return newer(annotation, within)
    if issubclass(annotation, BaseModel):
        return {}
    if issubclass(annotation, Enum):
        return next(iter(annotation)).value
    if issubclass(annotation, tuple):
        return ["app", "user", "session"]
    return annotation("1") if annotation in (int, float, str) else annotation()


def newer(cls: type[JsonModel], within: tuple[Any, ...] = ()) -> dict[str, Any]:
    """An object of a class as a newer release may write it."""
    within = (*within, cls)
    fields = {
        field.serialization_alias or name: example(field.annotation, within)
        for name, field in cls.model_fields.items()
        if field.is_required()
        or name == "type_"  # by which the class of a scheme is told
        or any(one not in within for one in nested(field.annotation))
    }
    return {**fields, **ADDED}


def is_ours(annotation: Any) -> bool:
    """Whether a type is one of the classes that cross processes."""
    return isinstance(annotation, type) and issubclass(annotation, JsonModel)


def nested(annotation: Any) -> list[Any]:
    """Our classes in a type such as `list[X] | None`."""
    if is_ours(annotation):
        return [annotation]
    return [one for inner in get_args(annotation) for one in nested(inner)]


@pytest.mark.parametrize("cls", OURS, ids=lambda cls: cls.__name__)
async def test_what_a_newer_release_adds_is_ignored(cls: type[JsonModel]) -> None:
    """I13, F35: as JSON, as a payload, and nested in each other."""
    value = newer(cls)
    read = cls.read(value)
    (payload,) = await data_converter.encode([value])
    (decoded,) = await data_converter.decode([payload], [cls])
    assert decoded == read
    assert cls.from_json(payload.data) == read


def test_a_cursor_of_a_newer_release_is_taken() -> None:
    """I13: a run that a newer worker has continued as new continues with an older one."""
    value = newer(Cursor)
    assert Cursor.parse(value) == Cursor.read(value)


def test_a_place_that_cannot_be_read_fails_the_task_and_not_the_workflow() -> None:
    """I13: the invocation waits for a worker that can read it."""
    with pytest.raises(NewerReleaseError) as raised:
        Checkpoint.from_json("{}")
    assert not isinstance(raised.value, tuple(ARGUMENT_ERRORS))


def test_an_activity_that_cannot_read_a_value_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """I13: until a worker of the newer release takes it."""
    monkeypatch.setattr(attempt, "_delay", lambda *_: None)
    with (
        pytest.raises(attempt.ApplicationError) as raised,
        attempt.application_errors(retry=lambda _: False, number=1),
    ):
        Checkpoint.from_json("{}")
    assert not raised.value.non_retryable


def test_a_child_of_a_newer_parent_runs() -> None:
    """I13: what the runtime asks of a child may have a field more."""
    value = newer(InvocationRequest) | {"message": "go", "runConfig": {}}
    assert InvocationRequest.parse(value).message


@pytest.mark.parametrize("cls", [InvocationRequest, InvocationAnswer])
def test_a_field_that_a_caller_misspells_is_refused(cls: Any) -> None:
    """What people write is read strictly; the message names the field."""
    good = {"app": "a", "user": "u", "message": "m"} if cls is InvocationRequest else {}
    good = good or {"callId": "c", "confirmed": True}
    cls.parse(good)
    with pytest.raises(InvalidRequestError, match="addedByTheNextRelease"):
        cls.parse(good | ADDED)


def test_a_client_sends_only_what_was_asked_for() -> None:
    """I13: an older worker takes the request of a newer client that asks for nothing new."""
    plain = InvocationRequest(app="a", user="u", message="m", session="s", invocation_id="i")
    assert set(as_argument(plain)) == {"app", "user", "message", "session", "invocationId"}
    wish = plain.model_copy(update={"run_config": RunConfig(max_llm_calls=3)})
    assert as_argument(wish)["runConfig"] == {"maxLlmCalls": 3}
    assert InvocationRequest.parse(as_argument(wish)).run_config == wish.run_config


def test_a_result_of_a_newer_worker_is_read() -> None:
    """I13: by the client of an older release."""
    assert InvocationResult.read(newer(InvocationResult)).status


def strict_readers(path: Path) -> Iterator[int]:
    """Lines that validate a value and do not say what becomes of unknown fields."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Call(func=ast.Attribute(attr="model_validate" | "model_validate_json")):
                if not any(keyword.arg == "extra" for keyword in node.keywords):
                    yield node.lineno
            case _:
                pass


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_only_what_callers_write_is_read_strictly(path: Path) -> None:
    """I13: `read` and `from_json` of a `JsonModel` ignore fields that a newer release adds."""
    if path.relative_to(PACKAGE).as_posix() not in OF_CALLERS:
        assert list(strict_readers(path)) == []
