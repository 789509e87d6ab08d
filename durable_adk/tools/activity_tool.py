"""A tool that calls a third-party Temporal activity."""

import functools
import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Unpack, cast

import temporalio.common
from google.genai import types
from google.protobuf.duration_pb2 import Duration
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError
from temporalio import activity as temporal
from temporalio.api.common.v1 import RetryPolicy
from temporalio.workflow import ActivityConfig

from durable_adk.calling import call
from durable_adk.context.activity import ToolContext
from durable_adk.errors import AgentDefinitionError, StateValueError, ToolError
from durable_adk.json_values import canonical, check_json
from durable_adk.tools._arguments import convert
from durable_adk.tools._parameters import EMPTY, Parameter, Parameters
from durable_adk.tools.function_tool import FunctionTool
from durable_adk.tools.require_confirmation import ConfirmationRule
from durable_adk.tools.tool_options import MAX_NAME, checked_task_queue
from durable_adk.wire.activity_call import ActivityOptions
from durable_adk.wire.manifest import OnDeadline


class ActivityTool(FunctionTool):
    """An activity of a third-party worker, which the model calls like any tool.

    The invocation's workflow schedules it by its own name, on its own task queue, with the timeouts
    and the retry policy given here. That worker does not need this package. The callbacks and
    plugins around the call, and its confirmation, run in steps of the invocation.

    The activity has no access to the session: no state, no artifacts, no credentials. Its
    `activity.info().activity_id` is `ToolContext.idempotency_key`: the same for every attempt of a
    call, different for every other call. Its return value is the response, as JSON. Its final error
    is reported to the model, unless an ``on_tool_error_callback`` returns a response or raises.

    In process there is no third-party worker: the function is called directly, once and outside of
    any activity, so `activity.info()` and `activity.heartbeat()` raise there.
    """

    delegates = True

    def __init__(
        self,
        activity: Callable[..., Any] | str,
        *,
        name: str | None = None,
        description: str | None = None,
        parameters: dict[str, Any] | None = None,
        require_confirmation: ConfirmationRule = False,
        deadline: float | timedelta | None = None,
        on_deadline: OnDeadline = "reject",
        **options: Unpack[ActivityConfig],
    ) -> None:
        """Read the activity's signature and its scheduling options.

        Args:
            activity: A function with ``@activity.defn``, or a method, bound or not: it is declared
                to the model like a `FunctionTool`, and gets its arguments by position. For an
                activity in another language, its name: it gets one argument, an object.
            name: The tool's name for the model; by default the name of the function or activity.
            description: The tool's description for the model, if only a name is given.
            parameters: The JSON schema of the object, if only a name is given. Required arguments
                are checked before the call, their types only by the activity.
            require_confirmation: Whether a user must approve a call before it runs; see
                `FunctionTool`.
            deadline: How long to wait for the confirmation, in seconds or as a timedelta.
            on_deadline: What happens at the deadline; see `BaseTool`.
            **options: Temporal's options: ``start_to_close_timeout`` or
                ``schedule_to_close_timeout``, one of which is required, ``task_queue`` (the
                invocation's by default), ``schedule_to_start_timeout``, ``heartbeat_timeout``,
                ``retry_policy`` (by default Temporal's, which retries forever) and ``priority``.

        Raises:
            AgentDefinitionError: An argument is invalid; the message names it and the remedy.
        """
        self.activity = activity if isinstance(activity, str) else _type_of(activity)
        if len(self.activity.encode()) > MAX_NAME:
            raise AgentDefinitionError(f"An activity's name may have {MAX_NAME} bytes; shorten it.")
        super().__init__(
            _function(activity, self.activity, description, parameters),
            name=name,
            require_confirmation=require_confirmation,
            deadline=deadline,
            on_deadline=on_deadline,
        )
        self.options = _checked(cast("dict[str, Any]", options), self.name)
        self._check_parameters()

    def _read(self, func: Callable[..., Any]) -> Parameters:
        return func.parameters() if isinstance(func, _RemoteFunction) else super()._read(func)

    def _declared(self) -> types.FunctionDeclaration:
        declared = super()._declared()
        if isinstance(self.func, _RemoteFunction):
            declared.parameters_json_schema = self.func.schema
        return declared

    def _check_parameters(self) -> None:
        unavailable = [*self._parameters.context, *self._parameters.unused]
        if unavailable:
            raise AgentDefinitionError(
                f"Activity {self.activity!r} wants `{unavailable[0]}`, which only tools of this "
                "package are given: another worker runs it. Give it what it needs as arguments."
            )
        for field in self._parameters.fields:
            if field.default is not EMPTY:
                self._sent(field, field.default, AgentDefinitionError)

    def arguments(self, args: dict[str, Any]) -> list[Any]:
        """Return the activity's arguments for accepted tool arguments: JSON, by position.

        Parameters that the model omitted are included: if a default changed on one side only, the
        same call would mean two different things.

        Raises:
            ToolError: An argument cannot be sent.
        """
        fields = self._parameters.fields
        if isinstance(self.func, _RemoteFunction):
            return [self.func.allowed(args)]
        values, _ = convert(fields, args)
        known = {field.name: None if field.default is EMPTY else field.default for field in fields}
        return [self._sent(field, (known | values)[field.name], ToolError) for field in fields]

    def _sent(
        self, field: Parameter, value: Any, error: type[AgentDefinitionError | ToolError]
    ) -> Any:
        """Return a value as JSON, as Temporal's converter for pydantic would write it."""
        try:
            sent = field.adapter.dump_python(value, mode="json", by_alias=True, warnings="none")
            check_json(sent, f"`{field.name}`")
        except (PydanticSerializationError, StateValueError) as problem:
            raise error(
                f"Activity {self.activity!r}: {field.name}={value!r} cannot be sent: {problem}"
            ) from None
        return sent

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Call the function in this process, like `call_here`, without Temporal."""
        refusal = await self.refused(args=args, tool_context=tool_context)
        return await self.call_here(self.arguments(args)) if refusal is None else refusal

    async def call_here(self, arguments: list[Any]) -> Any:
        """Call the function in this process, for a runtime without Temporal.

        Args:
            arguments: The result of `arguments`.

        Raises:
            AgentDefinitionError: This process has no function that can be called.
            Exception: The exception that the function raised.
        """
        if isinstance(self.func, (_RemoteFunction, functools.partial)):
            raise AgentDefinitionError(
                f"Activity {self.activity!r} cannot run in this process, which has only its name: "
                "give ActivityTool a function or a bound method, or run the agent on Temporal."
            )
        pairs = zip(self._parameters.fields, arguments, strict=True)
        values = [field.adapter.validate_json(canonical(value)) for field, value in pairs]
        return await call(self.func, *values)


class _RemoteFunction:
    """Placeholder for the function of an activity that is written in another language."""

    def __init__(self, name: str, doc: str | None, schema: dict[str, Any] | None) -> None:
        if not name.strip():
            raise AgentDefinitionError(f"The name of the activity is {name!r}; name one.")
        if schema is None or schema.get("type") != "object":
            raise AgentDefinitionError(
                f"parameters of activity {name!r} is {schema!r}; pass the JSON schema of an object."
            )
        check_json(schema, f"parameters of activity {name!r}")
        self.__name__ = name
        self.__doc__ = doc
        self.schema = schema

    def parameters(self) -> Parameters:
        """Return one parameter of any type for each property."""
        required = self.schema.get("required", [])
        fields = [
            Parameter(
                name=name, adapter=TypeAdapter(Any), default=EMPTY if name in required else None
            )
            for name in {**self.schema.get("properties", {}), **dict.fromkeys(required)}
        ]
        return Parameters(
            signature=inspect.Signature(), fields=tuple(fields), context=(), unused=()
        )

    def allowed(self, args: dict[str, Any]) -> dict[str, Any]:
        """Drop arguments that the schema excludes by name; the activity checks the rest."""
        if self.schema.get("additionalProperties") is not False:
            return dict(args)
        known = self.schema.get("properties", {})
        return {name: value for name, value in args.items() if name in known}

    def __call__(self) -> None:
        raise NotImplementedError  # see `ActivityTool.call_here`


def _type_of(activity: Callable[..., Any]) -> str:
    # The SDK has no public way to read the name.
    definition = temporal._Definition.from_callable(activity)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage, reportUnknownMemberType]
    if definition is None:
        name = getattr(activity, "__name__", repr(activity))
        raise AgentDefinitionError(
            f"{name} is no activity: decorate it with @activity.defn, or make it a FunctionTool."
        )
    if definition.name is None:
        raise AgentDefinitionError(
            "A dynamic activity has no name of its own; pass the name that it is to be called by."
        )
    return definition.name


def _function(
    activity: Callable[..., Any] | str,
    name: str,
    description: str | None,
    parameters: dict[str, Any] | None,
) -> Callable[..., Any]:
    """Return the local function for the activity; for an unbound method, without its object."""
    if isinstance(activity, str):
        return _RemoteFunction(name, description, parameters)
    if description is not None or parameters is not None:
        raise AgentDefinitionError(
            f"The docstring and the annotations of activity {name!r} are its declaration; pass "
            "description and parameters only for an activity that is given by name."
        )
    unbound = next(iter(inspect.signature(activity).parameters), "") == "self"
    return functools.partial(activity, None) if unbound else activity


def _require_schedulable(options: ActivityOptions, name: str) -> None:
    """Reject options that the SDK rejects: in a workflow they would fail its task forever."""
    try:
        policy = temporalio.common.RetryPolicy(**options.retry_policy.model_dump())
        policy.apply_to_proto(RetryPolicy())
        for field in type(options).model_fields:
            if isinstance(value := getattr(options, field), timedelta):
                Duration().FromTimedelta(value)
    except ValueError as error:
        raise AgentDefinitionError(
            f"Temporal schedules no activity with the options of tool {name!r}: {error}"
        ) from None


def _checked(options: dict[str, Any], name: str) -> ActivityOptions:
    """Return the options of a tool as plain data.

    Raises:
        AgentDefinitionError: An option is unknown, invalid or missing.
    """
    specified = {option: value for option, value in options.items() if value is not None}
    try:
        checked = ActivityOptions.model_validate(specified, from_attributes=True, extra="forbid")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        known = ", ".join(ActivityOptions.model_fields)
        raise AgentDefinitionError(
            f"{where} of tool {name!r} cannot be: {first['msg']}. The options are {known}."
        ) from None
    checked_task_queue(checked.task_queue, f"tool {name!r}")
    _require_schedulable(checked, name)
    if checked.start_to_close_timeout is None and checked.schedule_to_close_timeout is None:
        raise AgentDefinitionError(
            f"Tool {name!r} needs a start_to_close_timeout, or a schedule_to_close_timeout: "
            "Temporal runs no activity without one."
        )
    return checked
