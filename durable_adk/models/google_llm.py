"""Google's models."""

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from google.genai import Client, types
from pydantic import Field, PrivateAttr, SecretStr

from durable_adk.errors import DurableAdkError, ModelUnavailableError
from durable_adk.models._gemini_errors import to_error
from durable_adk.models._gemini_responses import is_complete, merge, to_llm_response, to_partial
from durable_adk.models.base_llm import BaseLlm
from durable_adk.models.llm_request import LlmRequest
from durable_adk.models.llm_response import LlmResponse

T = TypeVar("T")

_NO_RETRIES = types.HttpRetryOptions(attempts=1)
_KEY_VARIABLES = ("GEMINI_API_KEY", "GOOGLE_API_KEY")


class _OpenClient:
    """A client that closes once no call uses it: agents and runners may share a model."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._calls = 0
        self._closing = False

    @asynccontextmanager
    async def in_use(self) -> AsyncGenerator[Client]:
        """Keep the client open for a call."""
        self._calls += 1
        try:
            yield self._client
        finally:
            self._calls -= 1
            await self._close_unused()

    async def close(self) -> None:
        """Close the client, at the latest when its last call ends."""
        self._closing = True
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._closing and not self._calls:
            await self._client.aio.aclose()
            self._client.close()


class _Clients(WeakKeyDictionary[asyncio.AbstractEventLoop, _OpenClient]):
    """One client per event loop, because its connections belong to the loop that opened them."""

    def __init__(self) -> None:
        super().__init__()
        self.opening = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Clients":
        return _Clients()  # connections cannot be copied; the copy opens its own


class Gemini(BaseLlm):
    """Gemini, through google-genai's client (FLW-97).

    The client reads its key from GEMINI_API_KEY or GOOGLE_API_KEY, and GOOGLE_GENAI_USE_VERTEXAI
    with GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, as in ADK. It never retries: the engine
    retries durably, and a second layer would multiply the attempts.
    """

    model: str = "gemini-2.5-flash"
    base_url: str | None = None
    """Endpoint to use instead of Google's, e.g. a gateway."""
    api_key: SecretStr | None = None
    """The API key; by default read from the environment."""
    timeout: float = Field(default=120, gt=0)
    """Timeout in seconds for the response, or for the next chunk of a stream."""
    http_options: types.HttpOptions | None = Field(default=None, repr=False, exclude=True)
    """Additional client settings (headers, API version); its retry options are ignored.

    Excluded from repr and serialization, because headers may hold credentials.
    """

    _clients: _Clients = PrivateAttr(default_factory=_Clients)

    @classmethod
    def supported_models(cls) -> list[str]:
        """Match Gemini models by name, and tuned models by their Vertex AI resource name."""
        return [
            r"(models/)?gemini-.*",
            r"model-optimizer-.*",
            r"projects/.+/locations/.+/endpoints/.+",
            r"projects/.+/locations/.+/publishers/google/models/gemini.+",
        ]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Call Gemini; with `stream`, yield chunks before the complete response (FLW-70 to 73).

        Raises:
            ModelUnavailableError: Overload, a server or network error, a timeout or a cut stream.
            ModelError: The request was refused, or there is no API key.
        """
        try:
            opened = await self._client()
            async with opened.in_use() as client:
                call = self._prepared(llm_request, labels=client.vertexai)
                # Any: the client's types refer to HTTP libraries that need not be installed.
                models: Any = client.aio.models
                if stream:
                    async with aclosing(self._stream(models, call)) as responses:
                        async for response in responses:
                            yield response
                else:
                    yield to_llm_response(await self._in_time(models.generate_content(**call)))
        except Exception as error:  # noqa: BLE001  # `to_error` knows every kind
            raise self._error(error) from None

    async def aclose(self) -> None:
        """Close the connections of the running event loop; the next call opens new ones.

        Calls that are under way keep theirs until they end.
        """
        opened = self._clients.pop(asyncio.get_running_loop(), None)
        if opened is not None:
            await opened.close()

    async def _stream(self, models: Any, call: dict[str, Any]) -> AsyncGenerator[LlmResponse, None]:
        chunks: list[types.GenerateContentResponse] = []
        stream = await self._in_time(models.generate_content_stream(**call))
        while (chunk := await self._in_time(anext(stream, None))) is not None:
            chunks.append(chunk)
            partial = to_partial(chunk)
            if partial is not None:
                yield partial
        whole = merge(chunks)
        if not is_complete(whole):  # a disconnect between two chunks looks like an end
            raise ModelUnavailableError("Gemini's stream ended before the model did.")
        yield to_llm_response(whole)

    async def _in_time(self, awaitable: Awaitable[T]) -> T:
        # The meaning of the client's own timeout depends on its HTTP library.
        try:
            async with asyncio.timeout(self.timeout):
                return await awaitable
        except TimeoutError:
            raise ModelUnavailableError(
                f"Gemini was silent for {self.timeout:g} seconds."
            ) from None

    def _prepared(self, request: LlmRequest, *, labels: bool) -> dict[str, Any]:
        copy = request.snapshot()
        self._maybe_append_user_content(copy)
        config = copy.config
        # The engine runs function calls, one activity each; the client must not.
        if not labels:
            config.labels = None  # the Gemini API has no labels, and its client refuses them
        config.automatic_function_calling = types.AutomaticFunctionCallingConfig(disable=True)
        if config.http_options is not None:
            config.http_options.retry_options = _NO_RETRIES
        calling = config.tool_config and config.tool_config.function_calling_config
        if calling:
            calling.stream_function_call_arguments = None  # a partial call is never run (FLW-73)
        return {
            "model": copy.model or self.model,
            "contents": copy.contents,
            "config": config,
        }

    async def _client(self) -> _OpenClient:
        """Return the client of the running event loop.

        It is created in a thread: reading certificates and credentials would block the loop for a
        second.
        """
        loop = asyncio.get_running_loop()
        while (opened := self._clients.get(loop)) is None:  # it may be closed before it is used
            await asyncio.to_thread(self._open, loop)
        return opened

    def _open(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._clients.opening:
            if loop not in self._clients:
                options = (self.http_options or types.HttpOptions()).model_copy()
                options.base_url = self.base_url or options.base_url
                options.retry_options = _NO_RETRIES
                key = self.api_key.get_secret_value() if self.api_key else None
                client = Client(api_key=key, http_options=options)
                self._clients[loop] = _OpenClient(client)

    def _error(self, error: Exception) -> DurableAdkError:
        """Convert an error, and remove API keys that a gateway may echo in its message."""
        known = [self.api_key.get_secret_value()] if self.api_key else []
        known += [os.environ.get(name, "") for name in _KEY_VARIABLES]
        ours = to_error(error)
        for key in filter(None, known):
            ours.message = ours.message.replace(key, "[key]")
        ours.args = (ours.message,)
        return ours
