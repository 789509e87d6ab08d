"""Calls of google-adk's callbacks and providers, with google-adk's objects as arguments."""

import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, get_args, get_type_hints

from google.adk.events.event import Event as AdkEvent
from google.adk.models.llm_response import LlmResponse as AdkLlmResponse

from durable_adk.calling import call
from durable_adk.context.activity import ReadonlyContext
from durable_adk.interop.context import adk_readonly, shared_context
from durable_adk.interop.proxies import ToolProxy
from durable_adk.interop.values import adk_request, adk_response, adopt_response, our_response
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse
from durable_adk.tools._parameters import routine
from durable_adk.tools.base_tool import BaseTool

_CONTEXTS = ("callback_context", "tool_context")


def adk_tool(tool: Any) -> Any:
    """Return google-adk's original of a converted tool, or a proxy of this package's tool."""
    return getattr(tool, "adk", None) or ToolProxy(tool)


class CallbackAdapter:
    """Adapts a callback of google-adk to this package.

    Args:
        callback: A function, sync or async.
        truthy: Whether a falsy return value counts as None, as in ADK for agents and models.
    """

    def __init__(self, callback: Callable[..., Any], *, truthy: bool) -> None:
        self.callback = callback
        self._truthy = truthy

    async def __call__(self, *context: ReadonlyContext, **kwargs: Any) -> Any:
        """Call it with google-adk's objects; adopt its changes to them and its return value.

        Args:
            *context: The context of an instruction provider, which takes no other argument.
            **kwargs: The arguments of a callback by name.
        """
        if context:
            return await call(self.callback, adk_readonly(context[0]))
        ours = next(kwargs[name] for name in _CONTEXTS if name in kwargs)
        with shared_context(ours) as shared:
            answer = await with_adk_objects(self.callback, kwargs, shared)
        return None if self._truthy and not answer else convert_result(answer)


async def with_adk_objects(
    callback: Callable[..., Any], kwargs: Mapping[str, Any], context: Any
) -> Any:
    """Call a callback with google-adk's equivalents of the context, tool, request and response."""
    adk_kwargs = {name: _shown(name, value, context) for name, value in kwargs.items()}
    answer = await called(callback, adk_kwargs)
    for name, value in kwargs.items():
        if isinstance(value, LlmRequest):
            adopt_request(value, adk_kwargs[name])
        elif isinstance(value, LlmResponse):
            adopt_response(value, adk_kwargs[name])
    return answer


def _shown(name: str, value: Any, context: Any) -> Any:
    if name in _CONTEXTS:
        return context
    if isinstance(value, BaseTool):
        return adk_tool(value)
    if isinstance(value, LlmRequest):
        return shown_request(value)
    return adk_response(value) if isinstance(value, LlmResponse) else value


def shown_request(request: LlmRequest) -> Any:
    """Convert a request to google-adk's class, including its tools."""
    return adk_request(request, {name: adk_tool(tool) for name, tool in request.tools_dict.items()})


def adopt_request(request: LlmRequest, changed: Any) -> None:
    """Adopt the model, contents and config that google-adk's code has set in a request."""
    request.model, request.contents, request.config = (
        changed.model,
        changed.contents,
        changed.config,
    )


async def called(callback: Callable[..., Any], kwargs: Mapping[str, Any]) -> Any:
    """Call a callback with ADK's keyword names, or by position if its parameters differ (CB-4)."""
    try:
        inspect.signature(callback).bind(**kwargs)
    except TypeError:
        return await call(callback, *kwargs.values())
    return await call(callback, **kwargs)


def convert_result(answer: Any) -> Any:
    """Convert the return value of google-adk's code."""
    if isinstance(answer, AdkLlmResponse) and not isinstance(answer, AdkEvent):
        return our_response(answer)
    return answer


def provider(instruction: Any) -> Any:
    """Adapt an instruction that is a provider of google-adk; return a text unchanged."""
    return CallbackAdapter(instruction, truthy=False) if callable(instruction) else instruction


def takes_google_adks(function: Callable[..., Any]) -> bool:
    """Return whether the annotations of a function's parameters name classes of google-adk."""
    return _names_google_adks(routine(function))


@lru_cache(maxsize=1024)
def _names_google_adks(code: Callable[..., Any]) -> bool:
    try:
        hints = get_type_hints(code)
    except Exception:  # noqa: BLE001 - an annotation may be any expression
        hints = dict(getattr(code, "__annotations__", {}))
    hints.pop("return", None)
    return any(_is_google_adks(hint) for hint in hints.values())


def _is_google_adks(hint: Any) -> bool:
    parts = get_args(hint) or (hint,)
    return any(str(getattr(part, "__module__", "")).startswith("google.adk.") for part in parts)
