"""The parameters of a tool function, read from its signature."""

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import (
    PydanticSchemaGenerationError,
    PydanticUndefinedAnnotation,
    PydanticUserError,
)
from pydantic.fields import FieldInfo

from durable_adk.errors import AgentDefinitionError

EMPTY = inspect.Parameter.empty
_CONTEXT_CLASSES = frozenset({"Context", "ToolContext", "CallbackContext", "ReadonlyContext"})
_REMEDY = (
    "use str, int, float, bool, list, dict, Literal, Enum, a pydantic model, a dataclass or a "
    "TypedDict, defined at module level"
)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter that the model can set."""

    name: str
    adapter: TypeAdapter[Any]
    """Describes the annotated type to the model, and converts the model's values to it."""
    default: Any = EMPTY
    optional: bool = False
    """Whether the annotation allows None."""

    @property
    def mandatory(self) -> bool:
        """Whether every call must have a value for it (TOL-12)."""
        return self.default is EMPTY and not self.optional


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """All parameters of a function (TOL-11)."""

    signature: inspect.Signature
    fields: tuple[Parameter, ...]
    context: tuple[str, ...]
    """Names of the parameters that receive the tool context; hidden from the model."""
    unused: tuple[str, ...]
    """Names of parameters for live tools; they receive None."""

    def bind(self, values: dict[str, Any], tool_context: Any) -> inspect.BoundArguments:
        """Return the call's arguments; a missing Optional without default is None."""
        arguments = {
            **dict.fromkeys(self.unused),
            **{field.name: None for field in self.fields if field.default is EMPTY},
            **values,
            **dict.fromkeys(self.context, tool_context),
        }
        return inspect.BoundArguments(self.signature, arguments)


def innermost(func: Any) -> Any:
    """Return the function that a partial wraps, or `func` itself."""
    while isinstance(func, functools.partial):
        func = cast("functools.partial[Any]", func).func
    return func


def routine(func: Any) -> Any:
    """Return the function or method that a call runs; for a callable object its __call__."""
    func = innermost(func)
    return func if inspect.isroutine(func) else func.__call__


def read_parameters(func: Callable[..., Any], tool_name: str) -> Parameters:
    """Return the parameters of `func`.

    Raises:
        AgentDefinitionError: A parameter has a type that cannot be described to a model.
    """
    signature = _signature(func, tool_name)
    # Arguments bound by a partial may be secrets: the model must not see them.
    bound = func.keywords if isinstance(func, functools.partial) else {}
    namespace = namespace_of(func)
    fields: list[Parameter] = []
    context: list[str] = []
    unused: list[str] = []
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.name in bound:
            continue
        if _is_context(parameter, namespace):
            context.append(parameter.name)
        elif parameter.name == "input_stream":
            unused.append(parameter.name)
        else:
            fields.append(_field(parameter, namespace, tool_name))
    return Parameters(
        signature=signature, fields=tuple(fields), context=tuple(context), unused=tuple(unused)
    )


def _signature(func: Callable[..., Any], tool_name: str) -> inspect.Signature:
    try:
        signature = inspect.signature(func)
    except ValueError as error:
        raise AgentDefinitionError(
            f"{tool_name}() has no readable signature; wrap it in a function."
        ) from error
    if "self" in signature.parameters:
        raise AgentDefinitionError(
            f"{tool_name}() is an unbound method; pass it bound, as `obj.{tool_name}`."
        )
    return signature


def _is_context(parameter: inspect.Parameter, namespace: dict[str, Any]) -> bool:
    """Whether the runtime fills the parameter with the tool context."""
    return parameter.name == "tool_context" or is_annotated_context(parameter, namespace)


def is_annotated_context(
    parameter: inspect.Parameter, namespace: dict[str, Any], *packages: str
) -> bool:
    """Whether the parameter's annotation is a class of contexts.

    The classes are matched by name, because ADK has several names for them. If the annotation can
    be resolved, the class must also come from one of the packages, by default this one: an
    application may have a model called `Context`. If it cannot (its import is under
    TYPE_CHECKING), the name is enough.
    """
    try:
        annotation = resolve_annotation(parameter.annotation, namespace)
    except NameError:
        return not _CONTEXT_CLASSES.isdisjoint(re.findall(r"\w+", str(parameter.annotation)))
    prefixes = tuple(f"{package}." for package in packages or ("durable_adk",))
    return any(_is_context_class(part, prefixes) for part in _alternatives(annotation))


def _is_context_class(item: Any, prefixes: tuple[str, ...]) -> bool:
    return isinstance(item, type) and any(
        base.__name__ in _CONTEXT_CLASSES and base.__module__.startswith(prefixes)
        for base in item.__mro__
    )


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself, without `Annotated`."""
    if get_origin(annotation) is Annotated:
        return _alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(part for arg in get_args(annotation) for part in _alternatives(arg))
    return (annotation,)


def namespace_of(func: Any) -> dict[str, Any]:
    """Return the globals of the function that a call runs, where its annotations have meaning."""
    return getattr(inspect.unwrap(routine(func)), "__globals__", {})


def resolve_annotation(annotation: Any, namespace: dict[str, Any], *, extras: bool = True) -> Any:
    """Return the annotation with all strings in it evaluated.

    Each annotation is evaluated by itself, so that a name which exists only for the type checker
    does not affect the others.
    """
    if annotation is EMPTY:
        return Any
    holder = SimpleNamespace(__annotations__={"it": annotation})
    return get_type_hints(holder, globalns=namespace, include_extras=extras)["it"]


def _field(parameter: inspect.Parameter, namespace: dict[str, Any], tool_name: str) -> Parameter:
    if isinstance(parameter.default, FieldInfo):
        raise AgentDefinitionError(
            f"{tool_name}(): the default of `{parameter.name}` is a pydantic Field; write it as "
            f"`{parameter.name}: Annotated[..., Field(...)] = default`."
        )
    try:
        annotation = resolve_annotation(parameter.annotation, namespace)
        optional = NoneType in _alternatives(annotation)
        if parameter.default is None and not (optional or annotation is Any):
            # In practice `x: str = None` means Optional.
            annotation = Union[annotation, None]  # noqa: UP007 # `|` fails on what is no type
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        adapter.json_schema()  # e.g. Callable converts but cannot be described
    except (
        NameError,
        TypeError,
        PydanticSchemaGenerationError,
        PydanticUndefinedAnnotation,
        PydanticUserError,
    ) as error:
        raise AgentDefinitionError(
            f"{tool_name}(): the type of parameter `{parameter.name}`, {parameter.annotation!r}, "
            f"cannot be described to a model; {_REMEDY}. ({str(error).partition(chr(10))[0]})"
        ) from error
    return Parameter(
        name=parameter.name, adapter=adapter, default=parameter.default, optional=optional
    )
