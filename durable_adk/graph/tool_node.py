"""A tool as a node."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel, Field

from durable_adk.calling.copies import own_copy
from durable_adk.context.activity import Context
from durable_adk.context.node_confirmation import decision, question
from durable_adk.events.event import Event
from durable_adk.graph.base_node import BaseNode
from durable_adk.graph.binding import Readable
from durable_adk.graph.data import parsed, text_of
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.json_values import to_json_value
from durable_adk.tools.base_tool import BaseTool

CallTool = Callable[[BaseTool, dict[str, Any], Context], Awaitable[Any]]
"""Calls a tool with arguments, and returns its result."""


async def _call(tool: BaseTool, args: dict[str, Any], ctx: Context) -> Any:
    return await tool.run_async(args=args, tool_context=ctx)


class ToolNode(BaseNode):
    """Calls a tool; its output is the tool's result (GR-54).

    A long-running tool has its response as output, for which the node waits as for the answer to a
    question (B-23).
    """

    tool: BaseTool
    call_tool: CallTool = Field(default=_call, exclude=True, repr=False)
    """Calls the tool; the runtime has plugins' callbacks run around it."""

    def __init__(
        self,
        *,
        tool: BaseTool,
        name: str | None = None,
        retry_config: NodeRetryConfig | None = None,
        timeout: float | None = None,
        **others: Any,
    ) -> None:
        """Take the tool.

        Args:
            tool: The tool.
            name: The node's name; the tool's own by default.
            retry_config: Which errors are retried; None: none.
            timeout: Seconds that one attempt may take; None: no limit.
            **others: Other fields of `BaseNode`.
        """
        # Again after a confirmation: the call that waited for it is made then.
        again = {"rerun_on_resume": True, "task_queue": tool.task_queue}
        settings: dict[str, Any] = {**again, **others}
        settings |= {"tool": tool, "name": name or tool.name}
        super().__init__(retry_config=retry_config, timeout=timeout, **settings)

    async def _run_impl(self, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:
        if ctx.function_call_id in ctx.resume_inputs:
            yield Event(output=ctx.resume_inputs[ctx.function_call_id])
            return
        args = self.arguments(node_input, ctx.state)
        ctx.tool_confirmation = decision(ctx)
        given = own_copy(args)
        result = await self.call_tool(self.tool, args, ctx)
        asked = ctx.actions.requested_tool_confirmations
        if asked:
            confirmation = next(iter(asked.values()))
            asked.clear()
            ctx.actions.skip_summarization = None
            yield question(ctx, self.tool.name, args, confirmation)
        elif self.tool.is_long_running and not _is_error(result):
            for event in _open_call(self.tool, given, result, ctx.function_call_id or ""):
                yield event
        else:
            yield Event(output=result)

    def arguments(self, node_input: Any, state: Readable) -> dict[str, Any]:
        """Return the arguments of the tool's call (GR-54).

        Args:
            node_input: The input: a dict, a model, None, a content whose text may be a JSON object,
                or the value of the tool's only parameter, or of its only required one.
            state: The state, for required parameters that the input lacks.

        Raises:
            TypeError: The input is none of these.
        """
        known, required = _parameters(self.tool)
        value = _plain(node_input)
        arguments = _object(value)
        if arguments is None:
            arguments = _single(value, known, required)
        missing = [name for name in required if name not in arguments and name in state]
        return {**arguments, **{name: state[name] for name in missing}}


def _is_error(result: Any) -> bool:
    return isinstance(result, dict) and "error" in result


def _open_call(tool: BaseTool, args: dict[str, Any], result: Any, call_id: str) -> list[Event]:
    """Return a call that waits for its response, and the interim one if there is any."""
    call = types.FunctionCall(id=call_id, name=tool.name, args=to_json_value(args))
    asked = types.Content(role="model", parts=[types.Part(function_call=call)])
    events = [Event(content=asked, long_running_tool_ids={call_id})]
    if result:
        plain = to_json_value(result)
        response = cast("dict[str, Any]", plain) if isinstance(plain, dict) else {"result": plain}
        interim = types.FunctionResponse(id=call_id, name=tool.name, response=response)
        content = types.Content(role="user", parts=[types.Part(function_response=interim)])
        events.append(Event(content=content))
    return events


def _object(value: Any) -> dict[str, Any] | None:
    """Return an input as arguments; None if it is a single value."""
    if value is None:
        return {}
    if isinstance(value, BaseModel):
        return value.model_dump()
    return dict(cast("dict[str, Any]", value)) if isinstance(value, dict) else None


def _plain(node_input: Any) -> Any:
    """Return the text of contents; text as the JSON object that it says, and empty text as None."""
    value = text_of(node_input) if isinstance(node_input, types.Content) else node_input
    if not isinstance(value, str):
        return value
    said = parsed(value.strip())
    return cast("Any", said) if isinstance(said, dict) else value.strip() or None


def _single(value: Any, known: list[str], required: list[str]) -> dict[str, Any]:
    for names in (known, required):
        if len(names) == 1:
            return {names[0]: value}
    raise TypeError(
        "The input to ToolNode must be a dictionary of tool arguments or None, but got "
        f"{type(value)}."
    )


def _parameters(tool: BaseTool) -> tuple[list[str], list[str]]:
    """Return the names of the tool's parameters, and of the required ones."""
    declaration = tool.get_declaration()
    if declaration is None:
        return [], []
    schema = declaration.parameters_json_schema
    if isinstance(schema, dict):
        whole = cast("dict[str, Any]", schema)
        return list(whole.get("properties") or ()), list(whole.get("required") or ())
    parameters = declaration.parameters
    if parameters is None:
        return [], []
    return list(parameters.properties or ()), list(parameters.required or ())
