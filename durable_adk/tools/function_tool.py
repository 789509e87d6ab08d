"""A Python function as a tool."""

import inspect
import re
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from google.genai import types

from durable_adk.calling import call
from durable_adk.errors import AgentDefinitionError
from durable_adk.tools._arguments import convert, missing_error, unfit_error
from durable_adk.tools._declaration import parameters_schema
from durable_adk.tools._parameters import EMPTY, Parameters, innermost, read_parameters, routine
from durable_adk.tools.base_tool import BaseTool
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

if TYPE_CHECKING:
    from durable_adk.context.activity import ToolContext

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")


class FunctionTool(BaseTool):
    """A function the model can call (semantics 11.2).

    Functions, bound methods, `functools.partial` and callable objects, sync or async. Sync ones
    run in a thread, so they may block. A parameter named `tool_context`, or annotated as one of
    the context classes, receives the context and is not shown to the model; what a partial has
    bound is not shown either.
    """

    confirms_itself = True
    _long_running: ClassVar[bool] = False
    _note: ClassVar[str] = ""
    """What the model is told besides the docstring."""

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
            func: What to call. Its docstring tells the model what it is for, its annotations what
                to send; `Annotated[T, Field(description=...)]` describes one parameter.
            name: What the model calls it by; the function's own name by default.
            timeout: Seconds one run may take; None for the worker's default.
            require_confirmation: Whether somebody must say yes before a call runs (TOL-60): all
                calls, or those for which a function, sync or async, says so. It is given the
                call's arguments, converted, by the names it shares with `func`.
            deadline: Seconds, or a timedelta, that an answer is waited for; see `BaseTool`.
            on_deadline: What happens then.
            reconcile: Finds out what became of a lost run of an ``at_most_once`` tool; see
                `contract.Reconcile`.
            **contract: `contract`, how often a call may be run, with `retry` and `task_queue`; see
                `BaseTool`.

        Raises:
            AgentDefinitionError: The function cannot be a tool; the message says why.
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
        """See `BaseTool.reads_confirmation`; a function can if it takes the context."""
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
        # A copy: a before_model callback may change the request, but not every later one.
        return self._declaration.model_copy(deep=True)

    async def needs_confirmation(self, args: dict[str, Any], tool_context: "ToolContext") -> bool:
        """What `require_confirmation` says; no for arguments the function is never called with."""
        values, problems = convert(self._parameters.fields, args)
        if problems:
            return False
        defaults = {
            field.name: None if field.default is EMPTY else field.default
            for field in self._parameters.fields
        }
        context = dict.fromkeys([*self._parameters.context, CONTEXT], tool_context)
        return await is_required(self._require_confirmation, {**defaults, **values, **context})

    async def run_async(self, *, args: dict[str, Any], tool_context: "ToolContext") -> Any:
        """Call the function with the model's arguments; what it returns or raises is unchanged.

        Returns:
            The function's result; or ``{"error": text}``, without calling it, when a mandatory
            argument is missing (TOL-14), one does not fit its type (semantics 17.1, TOL-15), or
            the call is not confirmed yet or was rejected (TOL-61, TOL-63).
        """
        refused = await self.refused(args=args, tool_context=tool_context)
        if refused is not None:
            return refused
        values, _ = convert(self._parameters.fields, args)
        bound = self._parameters.bind(values, tool_context)
        return await call(self.func, *bound.args, **bound.kwargs)

    async def refused(self, *, args: dict[str, Any], tool_context: "ToolContext") -> Any:
        """See `BaseTool.refused`; what is missing, does not fit, or has to be approved."""
        fields = self._parameters.fields
        if missing := missing_error(self.name, fields, args):
            return {"error": missing}
        if problems := convert(fields, args)[1]:
            return {"error": unfit_error(self.name, problems)}
        if confirmation_refusal := await self._unconfirmed(args, tool_context):
            return {"error": confirmation_refusal}
        return None

    async def reconcile(self, *, args: dict[str, Any], tool_context: "ToolContext") -> Any:
        """What the function `reconcile` finds, if there is one; see `BaseTool.reconcile`."""
        if self._reconcile is None:
            return None
        return await call(self._reconcile, args=args, tool_context=tool_context)

    async def _unconfirmed(self, args: dict[str, Any], tool_context: "ToolContext") -> str | None:
        """See `confirmation_refusal`; a function that requests one reads the decision itself."""
        if self._require_confirmation is False:
            # Whoever asked, and whichever tool runs this one: the function does not know of a no.
            return None if self.reads_confirmation else rejection(tool_context)
        return await confirmation_refusal(self, args, tool_context)


def as_tool(item: Any) -> BaseTool:
    """An entry of an agent's `tools` as a tool (semantics AGT-24).

    Raises:
        AgentDefinitionError: It is neither a tool nor callable.
    """
    if isinstance(item, BaseTool):
        return item
    if callable(item):
        return FunctionTool(item)
    raise AgentDefinitionError(f"{item!r} is not a tool; pass a function or a BaseTool.")


def _name_of(func: Any) -> str:
    func = innermost(func)
    return getattr(func, "__name__", type(func).__name__)


def _description_of(func: Any) -> str:
    return inspect.cleandoc(routine(func).__doc__ or innermost(func).__doc__ or "")


def _check_callable(func: Any, name: str) -> None:
    if isinstance(func, type):
        raise AgentDefinitionError(f"{name} is a class; pass an object of it, or a function.")
    if not callable(func):
        raise AgentDefinitionError(f"{func!r} cannot be called, so it cannot be a tool.")
    code = routine(func)
    if inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
        raise AgentDefinitionError(
            f"{name}() yields; a tool returns its result. Streaming tools exist in live mode only."
        )
    if not _NAME.fullmatch(name):
        raise AgentDefinitionError(
            f"{name!r} cannot be a tool's name: up to 128 ASCII letters, digits or _.:- after a "
            "letter or underscore. Pass name=..."
        )
