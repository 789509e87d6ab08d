"""What is read from a function's signature, with every annotation a string."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Optional

import pytest
from pydantic import BaseModel, Field

from durable_adk.errors import AgentDefinitionError
from durable_adk.tools._parameters import read_parameters
from durable_adk.tools.tool_context import ToolContext

if TYPE_CHECKING:
    from durable_adk.context import activity
    from durable_adk.context.activity import CallbackContext


class Context(BaseModel):
    """A user's own model that happens to be called so."""

    topic: str


class Opaque:
    """Nothing a model could write."""


def names(func):
    parameters = read_parameters(func, "tool")
    return [field.name for field in parameters.fields], list(parameters.context)


def by_name(a: int, tool_context): ...
def by_type(a: int, ctx: ToolContext): ...
def by_optional_type(a: int, ctx: ToolContext | None = None): ...
def by_annotated_type(a: int, ctx: Annotated[Optional[ToolContext], "meta"]): ...  # noqa: UP045 # the old form
def by_unimported_type(a: int, ctx: CallbackContext): ...
def by_unimported_module(a: int, ctx: activity.ToolContext | None = None): ...
def of_own_model(ctx: Context): ...
def misspelled(a: Integer): ...  # noqa: F821  # pyright: ignore[reportUndefinedVariable]: the point
def opaque(a: Opaque): ...
def callback(a: Callable[[], None]): ...
def nested(a: list[dict[str, Opaque]]): ...
def field_default(a: int = Field(description="no")): ...  # pyright: ignore[reportArgumentType]
def implicit_optional(a: int = None): ...  # noqa: RUF013
def optional(a: int | None): ...
def unannotated(a, b=None): ...


@pytest.mark.parametrize(
    "func",
    [
        by_name,
        by_type,
        by_optional_type,
        by_annotated_type,
        by_unimported_type,
        by_unimported_module,
    ],
)
def test_context_parameter_is_recognised(func):
    """By the name tool_context or by its class, evaluated or only written (TOL-11)."""
    context_name = "tool_context" if func is by_name else "ctx"
    assert names(func) == (["a"], [context_name])


def test_own_model_called_context_is_an_argument():
    """Only our context classes are hidden, not a user's class of the same name."""
    assert names(of_own_model) == (["ctx"], [])


def test_what_a_partial_has_bound_is_hidden():
    """The developer's own value is neither shown to the model nor open to change by it."""

    def fetch(url: str, api_key: str): ...

    assert names(functools.partial(fetch, api_key="secret")) == (["url"], [])


@pytest.mark.parametrize("func", [misspelled, opaque, callback, nested, field_default])
def test_type_that_cannot_be_described_is_refused(func):
    """The error names the function, the parameter and a remedy."""
    with pytest.raises(AgentDefinitionError, match=r"tool\(\).*`a`.*(use|write)"):
        read_parameters(func, "tool")


@pytest.mark.parametrize(
    ("func", "mandatory"),
    [(by_name, ["a"]), (implicit_optional, []), (optional, []), (unannotated, ["a"])],
)
def test_mandatory_is_without_default_and_not_optional(func, mandatory):
    """Required means no default and not Optional (TOL-12)."""
    fields = read_parameters(func, "tool").fields
    assert [field.name for field in fields if field.mandatory] == mandatory


def test_none_fits_an_argument_whose_default_is_none():
    """`x: int = None` means Optional, as it does to those who write it."""
    (field,) = read_parameters(implicit_optional, "tool").fields
    assert field.adapter.validate_python(None) is None


def test_missing_optional_without_default_is_none():
    """The call can be made although nothing was sent for it."""
    bound = read_parameters(optional, "tool").bind({}, tool_context=None)
    assert bound.arguments == {"a": None}


def test_unannotated_parameters_take_anything():
    """No annotation means no conversion (TOL-12)."""
    fields = read_parameters(unannotated, "tool").fields
    sent: Any = {"deep": [1, "2"]}
    assert [field.adapter.validate_python(sent) for field in fields] == [sent, sent]
