"""Conversion of google-adk's models."""

# pyright: reportPrivateUsage=false
# google-adk's models keep their clients in private attributes.

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, cast

from google.adk.models.base_llm import BaseLlm as AdkBaseLlm
from google.adk.models.google_llm import Gemini as AdkGemini
from google.adk.models.llm_request import LlmRequest as AdkLlmRequest
from google.adk.models.llm_response import LlmResponse as AdkLlmResponse
from google.genai import types
from pydantic import PrivateAttr

from durable_adk.errors import ModelUnavailableError
from durable_adk.interop.callbacks import shown_request
from durable_adk.interop.model_errors import sorted_error
from durable_adk.interop.values import our_response
from durable_adk.models.base_llm import BaseLlm
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse

_ONCE = types.HttpRetryOptions(attempts=1)
_CLIENTS = ("_anthropic_client", "_openai_client")
"""Attributes in which google-adk's models keep the clients of these libraries, created lazily."""


class AdkModel(BaseLlm):
    """A model of google-adk; only the runtime retries, the model's library does not."""

    _adk: Any = PrivateAttr()
    _no_retry_model: Any = PrivateAttr()
    _loaded: bool = PrivateAttr(default=False)
    _clients: dict[str, Any] = PrivateAttr(default_factory=dict[str, Any])

    @classmethod
    def of(cls, adk: AdkBaseLlm) -> "AdkModel":
        """Wrap a model."""
        model = cls(model=adk.model)
        model._adk, model._no_retry_model = adk, _without_retries(adk)
        return model

    @property
    def adk(self) -> Any:
        """google-adk's model."""
        return self._adk

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """See base class; the model gets a copy, because some models change their request.

        Raises:
            ModelUnavailableError: The request may succeed later, or the stream was cut.
            Exception: Any other exception of the model.
        """
        request = _copied(shown_request(llm_request))
        try:
            await self._install_clients()
            answering = self._no_retry_model.generate_content_async(request, stream=stream)
            async with aclosing(answering) as responses:
                async for response in responses:
                    _check_end(self._no_retry_model, response, stream=stream)
                    yield our_response(response)
        except Exception as error:
            ours = sorted_error(error)
            if ours is error:
                raise
            raise ours from error

    async def aclose(self) -> None:
        """Close the clients that this model opened, but none that was passed to it."""
        clients, self._clients = self._clients, {}
        for name, client in clients.items():
            del _attributes(self._no_retry_model)[name]
            if getattr(self._adk, "client", None) is None:
                await client.close()

    def load(self) -> None:
        """Import litellm in advance, for seconds; google-adk would do so at the first call."""
        lite_llm: Any = sys.modules.get("google.adk.models.lite_llm")
        if lite_llm is not None and hasattr(self._no_retry_model, "llm_client"):
            lite_llm._ensure_litellm_imported()
        self._loaded = True

    async def _install_clients(self) -> None:
        """Make the model use clients that do not retry; they are created in a thread."""
        if not self._loaded:  # in-process runtime: no worker has loaded it
            await asyncio.to_thread(self.load)
        for name in _clients_of(self._no_retry_model):
            if name not in self._clients:
                made = await asyncio.to_thread(getattr, self._no_retry_model, name)
                self._clients[name] = _attributes(self._no_retry_model)[name] = (
                    _client_without_retries(made)
                )


def _without_retries(adk: AdkBaseLlm) -> Any:
    """Return the model; if its library retries, a copy that does not."""
    if isinstance(adk, AdkGemini):
        return adk.model_copy(update={"retry_options": _ONCE})
    client: Any = getattr(adk, "llm_client", None)
    if client is not None:  # a LiteLlm
        return adk.model_copy(update={"llm_client": _LiteLlmClient(client)})
    return adk.model_copy() if _clients_of(adk) else adk


def _copied(request: AdkLlmRequest) -> AdkLlmRequest:
    """Copy the parts of a request that models change: lists, and fields of parts and config.

    The step that built the request has already copied the nested values, and a deep copy takes ten
    times as long.
    """
    contents = [
        content.model_copy(update={"parts": [part.model_copy() for part in content.parts or []]})
        for content in request.contents
    ]
    config, options = request.config.model_copy(), request.config.http_options
    if options is not None:
        config.http_options = options.model_copy(update={"retry_options": None})
    config.tools = config.tools and list(config.tools)
    return request.model_copy(update={"contents": contents, "config": config})


def _client_without_retries(client: Any) -> Any:
    """Return a copy of a client that does not retry and detects cut Anthropic streams."""
    copied = client.with_options(max_retries=0)
    messages: Any = getattr(copied, "messages", None)  # OpenAI's client has none
    if messages is not None:
        create = messages.create

        async def whole(**options: Any) -> Any:
            answer = await create(**options)
            return _with_an_end(answer) if options.get("stream") else answer

        messages.create = whole
    return copied


async def _with_an_end(stream: Any) -> AsyncIterator[Any]:
    """Yield the events of an Anthropic stream; google-adk would parse the arguments of a cut one.

    Raises:
        ModelUnavailableError: The stream ended before the model did.
    """
    ended = False
    async for event in stream:
        ended = ended or event.type in {"message_delta", "message_stop"}
        yield event
    if not ended:
        raise _cut()


def _attributes(adk: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", vars(adk))


def _clients_of(adk: Any) -> list[str]:
    """Return the names of the attributes in which a model keeps its client."""
    kind = cast("Any", type(adk))
    return [name for name in _CLIENTS if hasattr(kind, name)]


class _LiteLlmClient:
    """Calls litellm without retries, and detects streams that end too early.

    Args:
        client: google-adk's client.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    async def acompletion(self, model: Any, messages: Any, tools: Any, **options: Any) -> Any:
        """See `LiteLLMClient`; without a number of retries, litellm uses its module's setting."""
        options |= {"num_retries": 0, "max_retries": 0}
        answer = await self._client.acompletion(model, messages, tools, **options)
        return _whole(answer) if options.get("stream") else answer


async def _whole(stream: Any) -> AsyncIterator[Any]:
    """Yield the chunks of a litellm stream.

    Raises:
        ModelUnavailableError: The stream was cut; litellm then invents a finish reason.
    """
    async for chunk in stream:
        yield chunk
    if getattr(stream, "received_finish_reason", "") is None:
        raise _cut()


def _check_end(adk: Any, response: AdkLlmResponse, *, stream: bool) -> None:
    """Check that a complete response has a finish reason, if its library always provides one.

    Raises:
        ModelUnavailableError: The stream was cut, which looks like its end.
    """
    ended = response.partial or response.finish_reason or response.error_code
    if stream and not ended and _clients_of(adk):
        raise _cut()


def _cut() -> ModelUnavailableError:
    return ModelUnavailableError("The model's stream ended before the model did.")
