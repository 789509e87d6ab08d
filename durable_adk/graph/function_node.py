"""A Python function as a node."""

import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any, Self, TypedDict, Unpack, cast

from google.genai import types
from pydantic import BaseModel, PrivateAttr, TypeAdapter

from durable_adk.auth.auth_tool import AuthConfig
from durable_adk.calling import call
from durable_adk.calling.closing import closing
from durable_adk.context.activity import Context
from durable_adk.context.node_confirmation import decision, question
from durable_adk.context.node_credential import credential_request, load_credential
from durable_adk.errors import WorkflowConfigurationError
from durable_adk.events.event import Event
from durable_adk.events.request_input import RequestInput
from durable_adk.google_objects import from_google_adk
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.binding import (
    INPUT,
    NodeParameters,
    ParameterBinding,
    read_node_parameters,
)
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.tools._declaration import parameters_schema
from durable_adk.tools._parameters import innermost, read_parameters, routine
from durable_adk.tools.base_tool import is_function
from durable_adk.tools.require_confirmation import REJECTED, is_required

_NO_DATA = (types.Content, Event, RequestInput)
"""Types that a function yields, and that are no outputs."""


class FunctionOptions(TypedDict, total=False):
    """The keywords of `FunctionNode` beside the function and its name."""

    rerun_on_resume: bool
    retry_config: NodeRetryConfig | None
    timeout: float | None
    auth_config: AuthConfig | None
    require_confirmation: bool | Callable[..., Any]
    parameter_binding: ParameterBinding
    state_schema: type[BaseModel] | None


_END = object()


class FunctionNode(BaseNode):
    """Runs a sync or async function or generator, a bound method or a callable object (GR-23).

    A parameter annotated with `Context`, or named ``ctx``, receives the context, and `node_input`
    the input. The others receive values of the state. A sync function runs in a thread and may
    block. The function returns or yields its output, events, and `RequestInput`s.
    """

    auth_config: AuthConfig | None = None
    """The credential that the node needs: if none is stored for the user, they are asked for it
    before the function runs, which reads it with `Context.get_auth_response`."""
    require_confirmation: bool | Callable[..., Any] = False
    """Whether a person must approve each run; a function decides by the call's arguments."""
    parameter_binding: ParameterBinding = "state"
    """With ``node_input``, the input, a dict or a model, has the values of all parameters."""
    _func: Callable[..., Any] = PrivateAttr()
    _parameters: NodeParameters = PrivateAttr()

    def __init__(
        self,
        *,
        func: Callable[..., Any],
        name: str | None = None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        """Read the function's signature.

        Args:
            func: The function. A model as return annotation becomes `output_schema`, and one of
                `node_input` becomes `input_schema` (GR-47).
            name: The node's name; the function's own by default.
            **options: The fields.

        Raises:
            WorkflowConfigurationError: The function cannot be a node, or options contradict each
                other; the message says which.
        """
        if not is_function(func):
            raise WorkflowConfigurationError("Function must be callable.")
        _check_rerun(
            options.get("require_confirmation"),
            options.get("auth_config"),
            rerun=options.get("rerun_on_resume", False),
        )
        fields: dict[str, Any] = {"description": _description_of(func), **options}
        super().__init__(name=name or _name_of(func), **fields)
        self._func, self._parameters = func, read_node_parameters(func, self.name)
        self._infer_schemas()

    def _infer_schemas(self) -> None:
        if self.parameter_binding == "node_input":
            self.input_schema = _input_schema(self._func, self._parameters)
            returned = self._parameters.result
            self.output_schema = None if returned is None else _output_schema(returned)
            return
        if _is_model(self._parameters.result):
            self.output_schema = self._parameters.result
        hint = self._parameters.hints.get(INPUT)
        if isinstance(hint, type) and issubclass(hint, BaseModel):
            self.input_schema = hint

    async def _run_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        bound = self.bind(ctx, node_input)
        decided = decision(ctx)
        if decided is None and await self._must_confirm(ctx, bound.arguments, node_input):
            hidden = self._parameters.context
            shown = {name: v for name, v in bound.arguments.items() if name != hidden}
            yield question(ctx, self.name, shown)
            return
        if decided is not None and not decided.confirmed:
            yield Event(output={"error": REJECTED})
            return
        config = self.auth_config
        if config is not None and not await load_credential(ctx, config):
            yield credential_request(ctx, config)
            return
        async with closing(self._items(*bound.args, **bound.kwargs)) as items:
            async for item in items:
                yield event_of(item)

    async def _must_confirm(self, ctx: Context, arguments: dict[str, Any], node_input: Any) -> bool:
        """Return whether a person must approve the call with these arguments."""
        del ctx, node_input
        return await is_required(self.require_confirmation, arguments)

    async def _items(self, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
        """Yield what the function yields, or what it returns; sync code runs in a thread."""
        if not self.is_generator:
            yield await call(self._func, *args, **kwargs)
            return
        made = self._func(*args, **kwargs)
        if isinstance(made, AsyncGenerator):
            async with closing(cast("AsyncGenerator[Any, None]", made)) as items:
                async for item in items:
                    yield item
            return
        generator = cast("Generator[Any, None, None]", made)
        try:
            while (item := await call(next, generator, _END)) is not _END:
                yield item
        finally:
            await call(generator.close)

    def _validate_output_data(self, data: Any) -> Any:
        # What stands for the output of a call that was rejected need not fit the schema (GR-51).
        return data if data == {"error": REJECTED} else super()._validate_output_data(data)

    @property
    def func(self) -> Callable[..., Any]:
        """The function."""
        return self._func

    @property
    def parameters(self) -> NodeParameters:
        """The function's parameters."""
        return self._parameters

    @property
    def is_generator(self) -> bool:
        """Whether the function is a generator, sync or async."""
        code = inspect.unwrap(routine(self._func))
        return inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code)

    @property
    def input_type(self) -> Any:
        """See `BaseNode.input_type`; the annotation of `node_input` if there is no schema."""
        return super().input_type or self._parameters.hints.get(INPUT)

    def bind(self, ctx: Context, node_input: Any) -> inspect.BoundArguments:
        """Return the arguments of one call; see `NodeParameters.bind`."""
        return self._parameters.bind(
            ctx=ctx, state=ctx.state, node_input=node_input, binding=self.parameter_binding
        )

    def with_changes(self, **changes: Any) -> Self:
        """See `BaseNode.with_changes`; a confirmation or a credential makes the node run again.

        Raises:
            WorkflowConfigurationError: The node must run again, and rerun_on_resume is False.
        """
        rerun = changes.get("rerun_on_resume")
        if rerun is None and (changes.get("require_confirmation") or changes.get("auth_config")):
            changes["rerun_on_resume"] = rerun = True
        _check_rerun(
            changes.get("require_confirmation", self.require_confirmation),
            changes.get("auth_config", self.auth_config),
            rerun=self.rerun_on_resume if rerun is None else rerun,
        )
        return super().with_changes(**changes)


def event_of(result: Any) -> Event | RequestInput | None:
    """Return the event of what a node function returned or yielded; None for None (GR-48).

    Events and questions of google-adk are converted.
    """
    result = from_google_adk(result)
    if result is None or isinstance(result, Event | RequestInput):
        return result
    if isinstance(result, types.Content):
        return Event(content=result if result.role else result.model_copy(update={"role": "user"}))
    return Event(output=result)


def _check_rerun(confirmation: Any, credential: Any, *, rerun: bool) -> None:
    if confirmation and not rerun:
        raise WorkflowConfigurationError(
            "FunctionNode with require_confirmation requires rerun_on_resume=True. The node must "
            "rerun after confirmation is provided."
        )
    if credential and not rerun:
        raise WorkflowConfigurationError(
            "FunctionNode with auth_config requires rerun_on_resume=True. The node must rerun "
            "after credentials are provided."
        )


def _name_of(func: Any) -> str:
    name = getattr(func, "__name__", None) or getattr(innermost(func), "__name__", None)
    if not name:
        raise WorkflowConfigurationError(
            "FunctionNode must have a name. If the wrapped callable does not have a '__name__' "
            "attribute, please provide a name explicitly."
        )
    return str(name)


def _description_of(func: Any) -> str:
    return inspect.cleandoc(innermost(func).__doc__ or routine(func).__doc__ or "")


def _is_model(hint: Any) -> bool:
    return (
        isinstance(hint, type)
        and issubclass(hint, BaseModel)
        and not issubclass(hint, _NO_DATA)
        and not hint.__module__.startswith("google.adk.")  # its events and questions
    )


def _input_schema(func: Callable[..., Any], parameters: NodeParameters) -> dict[str, Any]:
    fields = read_parameters(func, parameters.function).fields
    described = [each for each in fields if each.name != parameters.context]
    return parameters_schema(described) or {"type": "object", "properties": {}}


def _output_schema(hint: Any) -> dict[str, Any] | None:
    try:
        return TypeAdapter[Any](hint).json_schema()
    except Exception:  # noqa: BLE001 - outputs of a type without JSON schema are not described
        return None
