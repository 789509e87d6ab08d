"""A Python function as a tool."""

import inspect
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any, ClassVar, Unpack

from google.genai import types

from durable_adk.calling import call
from durable_adk.context.activity import ToolContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.google_objects import callable_from_google_adk
from durable_adk.tools._arguments import convert, missing_error, unfit_error
from durable_adk.tools._declaration import parameters_schema
from durable_adk.tools._parameters import EMPTY, Parameters, innermost, read_parameters, routine
from durable_adk.tools.base_tool import BaseTool, is_function
from durable_adk.tools.reconcile import Reconcile, checked_reconcile
from durable_adk.tools.require_confirmation import (
    CONTEXT,
    ConfirmationRule,
    check_requirement,
    confirmation_refusal,
    is_required,
    rejection,
)
from durable_adk.tools.tool_options import ContractOptions
from durable_adk.wire.manifest import OnDeadline

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")


class FunctionTool(BaseTool):
    """A function that the model can call.

    Accepts functions, bound methods, `functools.partial` and callable objects, sync or async. Sync
    functions run in a thread and may block. A parameter named `tool_context`, or annotated with a
    context class, receives the context and is hidden from the model, as are arguments that a
    partial has bound.
    """

    confirms_itself = True
    _long_running: ClassVar[bool] = False
    _note: ClassVar[str] = ""
    """Text for the model, appended to the docstring."""

    def __init__(
        self,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        timeout: float | None = None,
        require_confirmation: ConfirmationRule = False,
        deadline: float | timedelta | None = None,
        on_deadline: OnDeadline = "reject",
        reconcile: Reconcile | None = None,
        **contract: Unpack[ContractOptions],
    ) -> None:
        """Read the function's signature.

        Args:
            func: The function. Its docstring is the description for the model and its annotations
                are the schema; `Annotated[T, Field(description=...)]` describes one parameter.
            name: Name for the model; the function's own name by default.
            timeout: Seconds that one run may take; None for the worker's default.
            require_confirmation: Whether a user must confirm a call before it runs (TOL-60): True,
                False, or a sync or async function that receives the call's converted arguments
                by the parameter names that it shares with `func`.
            deadline: How long to wait for the user's answer; see `BaseTool`.
            on_deadline: What happens at the deadline.
            reconcile: Finds out what a lost run of an ``at_most_once`` tool did; see
                `reconcile.Reconcile`.
            **contract: `contract`, `retry` and `task_queue`; see `BaseTool`.

        Raises:
            AgentDefinitionError: The function cannot be a tool; the message gives the reason.
        """
        name = name or _name_of(func)
        _check_callable(func, name)
        super().__init__(
            name=name,
            description="\n\n".join(filter(None, [_description_of(func), self._note])),
            is_long_running=self._long_running,
            timeout=timeout,
            deadline=deadline,
            on_deadline=on_deadline,
            **contract,
        )
        self.func = func
        self._reconcile = checked_reconcile(reconcile, self.contract, name)
        self._parameters = self._read(func)
        known = [field.name for field in self._parameters.fields]
        check_requirement(require_confirmation, name, [*known, *self._parameters.context])
        self._require_confirmation = require_confirmation
        self._declaration = self._declared()

    @property
    def reads_confirmation(self) -> bool:
        """See `BaseTool.reads_confirmation`; true if the function takes the context."""
        return bool(self._parameters.context)

    def _read(self, func: Callable[..., Any]) -> Parameters:
        return read_parameters(func, self.name)

    def _declared(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema=parameters_schema(self._parameters.fields),
        )

    def _get_declaration(self) -> types.FunctionDeclaration:
        return self._declaration

    async def check_require_confirmation(
        self, args: dict[str, Any], tool_context: ToolContext
    ) -> bool:
        """Evaluate `require_confirmation`; False for arguments that do not fit the function."""
        values, problems = convert(self._parameters.fields, args)
        if problems:
            return False
        defaults = {
            field.name: None if field.default is EMPTY else field.default
            for field in self._parameters.fields
        }
        context = dict.fromkeys([*self._parameters.context, CONTEXT], tool_context)
        return await is_required(self._require_confirmation, {**defaults, **values, **context})

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Call the function with the model's arguments; pass on its result or exception unchanged.

        Returns:
            The function's result. Or ``{"error": text}``, without a call, if a mandatory argument
            is missing (TOL-14), an argument has the wrong type (TOL-15), or the
            call is not confirmed or was rejected (TOL-61, TOL-63).
        """
        refused = await self.refused(args=args, tool_context=tool_context)
        if refused is not None:
            return refused
        values, _ = convert(self._parameters.fields, args)
        bound = self._parameters.bind(values, tool_context)
        return await call(self.func, *bound.args, **bound.kwargs)

    async def refused(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """See `BaseTool.refused`; checks the arguments and the confirmation."""
        fields = self._parameters.fields
        if missing := missing_error(self.name, fields, args):
            return {"error": missing}
        if problems := convert(fields, args)[1]:
            return {"error": unfit_error(self.name, problems)}
        if confirmation_refusal := await self._unconfirmed(args, tool_context):
            return {"error": confirmation_refusal}
        return None

    async def reconcile(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Call the `reconcile` function, if there is one; see `BaseTool.reconcile`."""
        if self._reconcile is None:
            return None
        return await call(self._reconcile, args=args, tool_context=tool_context)

    async def _unconfirmed(self, args: dict[str, Any], tool_context: ToolContext) -> str | None:
        """See `confirmation_refusal`; a function that requests one reads the decision itself."""
        if self._require_confirmation is False:
            # The function cannot read a rejection, so it is refused, whatever requested the
            # confirmation.
            return None if self.reads_confirmation else rejection(tool_context)
        return await confirmation_refusal(self, args, tool_context)


def as_tool(item: Any) -> BaseTool:
    """Return an entry of an agent's `tools` as a tool (AGT-24).

    Raises:
        AgentDefinitionError: It is neither a tool nor callable.
    """
    if isinstance(item, BaseTool):
        return item
    if is_function(item):
        known = callable_from_google_adk(item, tool=True)
        return known if isinstance(known, BaseTool) else FunctionTool(item)
    raise AgentDefinitionError(f"{item!r} is not a tool; pass a function or a BaseTool.")


def _name_of(func: Any) -> str:
    func = innermost(func)
    return getattr(func, "__name__", type(func).__name__)


def _description_of(func: Any) -> str:
    return inspect.cleandoc(innermost(func).__doc__ or routine(func).__doc__ or "")


def _check_callable(func: Any, name: str) -> None:
    if isinstance(func, type):
        raise AgentDefinitionError(f"{name} is a class; pass an object of it, or a function.")
    if not is_function(func):
        raise AgentDefinitionError(f"{func!r} is no function, so it cannot be made a tool.")
    code = routine(func)
    if inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
        raise AgentDefinitionError(
            f"{name}() yields; a tool returns its result. Make it a node of a graph, where it may "
            "yield messages and an output, and give the graph to the agent as a tool."
        )
    if not _NAME.fullmatch(name):
        raise AgentDefinitionError(
            f"{name!r} cannot be a tool's name: up to 128 ASCII letters, digits or _.:- after a "
            "letter or underscore. Pass name=..."
        )
