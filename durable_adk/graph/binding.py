"""The parameters of a node function, and the values that a run binds to them."""

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, cast, get_args, get_origin

from google.genai import types
from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic.errors import PydanticUserError

from durable_adk.errors import WorkflowConfigurationError, WorkflowDataError
from durable_adk.graph.data import said
from durable_adk.tools._parameters import (
    is_annotated_context,
    namespace_of,
    resolve_annotation,
)

ParameterBinding: TypeAlias = Literal["state", "node_input"]
"""Where the values of most parameters come from: the state, or the input, a dict or a model."""
INPUT = "node_input"
_PACKAGES = ("durable_adk", "google.adk")
"""Those whose contexts a function may take."""
EMPTY = inspect.Parameter.empty
_GENERATORS = (Generator, AsyncGenerator)


class Readable(Protocol):
    """State, or a dict."""

    def __contains__(self, key: object, /) -> bool:
        """Return whether there is a value."""
        ...

    def __getitem__(self, key: str, /) -> Any:
        """Return a value."""
        ...


@dataclass(frozen=True)
class NodeParameters:
    """The parameters of a node function, and its annotations."""

    function: str
    """Name for error messages."""
    signature: inspect.Signature
    context: str
    """Name of the parameter that receives the context, whether there is one or not."""
    hints: dict[str, Any] = field(default_factory=dict[str, Any])
    """Resolved annotations by parameter, without the context's; ``return`` too."""
    adapters: dict[str, TypeAdapter[Any]] = field(default_factory=dict[str, TypeAdapter[Any]])

    @property
    def result(self) -> Any:
        """The annotation of what the function returns or, if it is a generator, yields."""
        hint = self.hints.get("return")
        if get_origin(hint) not in _GENERATORS:
            return hint
        return next(iter(get_args(hint)), None)

    @property
    def read_from_state(self) -> list[str]:
        """Names of all parameters but `node_input` and the context."""
        return [name for name in self.signature.parameters if name not in (INPUT, self.context)]

    def bind(
        self, *, ctx: Any, state: Readable, node_input: Any, binding: ParameterBinding = "state"
    ) -> inspect.BoundArguments:
        """Return the arguments of one call (GR-44, GR-45).

        Args:
            ctx: The context, for the parameter that takes it.
            state: The state, for the parameters of the binding ``state``.
            node_input: The input.
            binding: Where the other parameters' values come from.

        Raises:
            WorkflowDataError: A parameter has neither a value nor a default.
            ValidationError: A value does not fit its annotation.
        """
        source: Any = state if binding == "state" else _readable(node_input)
        arguments: dict[str, Any] = {}
        for name, parameter in self.signature.parameters.items():
            if name == self.context:
                arguments[name] = ctx
            elif parameter.kind is parameter.VAR_KEYWORD:
                arguments[name] = {} if binding == "state" else self._others(source)
            elif parameter.kind is parameter.VAR_POSITIONAL:
                continue
            elif name == INPUT and binding == "state":
                arguments[name] = self._converted(name, node_input)
            else:
                arguments[name] = self._value(parameter, source, binding)
        return inspect.BoundArguments(self.signature, cast("Any", arguments))

    def _value(self, parameter: inspect.Parameter, source: Readable, binding: str) -> Any:
        if parameter.name in source:
            return self._converted(parameter.name, source[parameter.name])
        if parameter.default is not EMPTY:
            return parameter.default
        raise WorkflowDataError(
            f'Missing value for parameter "{parameter.name}" of function "{self.function}". It was '
            f"not found in {binding} and has no default value."
        )

    def _converted(self, name: str, value: Any) -> Any:
        """Convert a value to the parameter's annotation (GR-46)."""
        if name not in self.hints:
            return value
        if isinstance(value, types.Content):
            value = said(value, self.hints[name])
        adapter = self.adapters.get(name)
        return value if adapter is None else adapter.validate_python(value)

    def _others(self, source: Mapping[str, Any]) -> dict[str, Any]:
        known = self.signature.parameters
        return {name: value for name, value in source.items() if name not in known}


def read_node_parameters(func: Callable[..., Any], name: str) -> NodeParameters:
    """Return the parameters of a node's function.

    The context's parameter is the first one that is annotated with a class of contexts, this
    package's or google-adk's, or else the one named ``ctx``.

    Raises:
        WorkflowConfigurationError: The function has no readable signature.
    """
    try:
        signature = inspect.signature(func)
    except (TypeError, ValueError) as error:
        raise WorkflowConfigurationError(
            f"{name}() has no readable signature; wrap it in a function."
        ) from error
    namespace = namespace_of(func)
    parameters = list(signature.parameters.values())
    contexts = (
        each.name for each in parameters if is_annotated_context(each, namespace, *_PACKAGES)
    )
    context = next(contexts, "ctx")
    annotations = {each.name: each.annotation for each in parameters if each.name != context}
    annotations["return"] = signature.return_annotation
    hints = {
        key: hint
        for key, annotation in annotations.items()
        if annotation is not EMPTY and (hint := _resolved(annotation, namespace)) is not EMPTY
    }
    adapters = {
        key: adapter
        for key, hint in hints.items()
        if key != "return" and (adapter := _adapter(hint)) is not None
    }
    return NodeParameters(name, signature, context, hints, adapters)


def _resolved(annotation: Any, namespace: dict[str, Any]) -> Any:
    """Return an annotation, or EMPTY for one that exists only for the type checker."""
    try:
        return resolve_annotation(annotation, namespace, extras=False)
    except (NameError, TypeError):
        return EMPTY


def _adapter(hint: Any) -> TypeAdapter[Any] | None:
    """Return the converter to a type; None if pydantic cannot check the type."""
    for config in (None, ConfigDict(arbitrary_types_allowed=True)):
        try:
            return TypeAdapter(hint, config=config)
        except (TypeError, PydanticUserError):
            continue
    return None


def _readable(node_input: Any) -> Mapping[str, Any]:
    """Return the values by name of an input that is a dict or a model; none of another one."""
    if isinstance(node_input, BaseModel) and not isinstance(node_input, types.Content):
        return dict(node_input)
    return cast("dict[str, Any]", node_input) if isinstance(node_input, dict) else {}
