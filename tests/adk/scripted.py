"""google-adk's side of `ScriptedModel`: the same replies, on google-adk's own `BaseLlm`."""

import asyncio
import re
from collections.abc import AsyncGenerator
from itertools import pairwise
from typing import Any

from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.genai import types


class ScriptedModel(BaseLlm):
    """Responds to the n-th call in a conversation with the n-th reply, as ours does."""

    model: str = "scripted"
    replies: Any = ()
    delay: float = 0
    chunk_delay: float = 0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the reply of this turn; with `stream`, preceded by its text word by word."""
        await asyncio.sleep(self.delay)
        reply = self.replies
        reply = reply if callable(reply) else reply[_turn_of(llm_request)]
        response = _as_response(reply, llm_request)
        for chunk in _words(response) if stream else ():
            await asyncio.sleep(self.chunk_delay)
            yield chunk
        yield response


def _turn_of(request: LlmRequest) -> int:
    messages = [_is_message(content) for content in request.contents]
    turns = sum(content.role == "model" for content in request.contents)
    return turns + sum(a and b for a, b in pairwise(messages))


def _as_response(reply: Any, request: LlmRequest) -> LlmResponse:
    if callable(reply):
        reply = reply(request)
    if isinstance(reply, Exception):
        raise reply.with_traceback(None)
    if isinstance(reply, LlmResponse):
        return reply.model_copy(deep=True)
    if isinstance(reply, types.Content):
        content = reply.model_copy(deep=True)
    else:
        content = types.Content(role="model", parts=_parts(reply))
    return LlmResponse(content=content, finish_reason=types.FinishReason.STOP)


def _parts(reply: Any) -> list[types.Part]:
    if isinstance(reply, str):
        return [types.Part(text=reply)]
    parts = reply if isinstance(reply, list) else [reply]
    return [part.model_copy(deep=True) for part in parts]


def _is_message(content: types.Content) -> bool:
    parts = content.parts or []
    told = parts and (parts[0].text or "").startswith("For context:")
    return content.role == "user" and not told and not any(p.function_response for p in parts)


def _words(response: LlmResponse) -> list[LlmResponse]:
    parts = (response.content and response.content.parts) or []
    return [
        LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text=word, thought=p.thought)]),
            partial=True,
        )
        for p in parts
        for word in re.findall(r"\s*\S+(?:\s+$)?|\s+$", p.text or "")
    ]
