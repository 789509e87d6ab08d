"""A model for tests, which responds from a script."""

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

from google.genai import types
from pydantic import PrivateAttr, SkipValidation

from durable_adk.calling.copies import originals
from durable_adk.errors import ModelError
from durable_adk.json_values import canonical
from durable_adk.models._chunks import word_by_word
from durable_adk.models.base_llm import BaseLlm
from durable_adk.models.llm_request import LlmRequest, is_message
from durable_adk.models.llm_response import LlmResponse

Answer: TypeAlias = str | types.Part | list[types.Part] | types.Content | LlmResponse | Exception
"""A scripted response; an exception is raised."""

Reply: TypeAlias = Answer | Callable[[LlmRequest], Answer]
"""A scripted response, or a function that creates one from the request."""


class ScriptedModel(BaseLlm):
    """Responds to the n-th call in a conversation with the n-th reply.

    `turn_of` derives n from the request instead of counting in memory: a retried activity, another
    worker process or a replay sends the same request and thus gets the same reply. Consequently, an
    exception is raised again on every retry; to fail only once, pass a callable that counts.
    Replies that later prompts omit (text between a long-running call and its result, FLW-25) are
    not counted; for full control, pass a callable as `replies`.
    """

    model: str = "scripted"
    replies: Annotated[Sequence[Reply] | Callable[[LlmRequest], Answer], SkipValidation] = ()
    """One reply per turn, or one function for all turns."""
    delay: float = 0
    """Seconds to wait before responding."""
    chunk_delay: float = 0
    """Seconds to wait before each chunk of a streamed text."""
    log: Path | None = None
    """A file that gets one JSON line per call, for counting calls made by several processes."""

    _requests: list[LlmRequest] = PrivateAttr(default_factory=list[LlmRequest])

    @property
    def requests(self) -> list[LlmRequest]:
        """Snapshots of the requests made in this process, oldest first."""
        return self._requests

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the reply of this turn; with `stream`, preceded by its text word by word.

        Raises:
            ModelError: The script has no reply for this turn.
        """
        self._requests.append(llm_request.snapshot())
        if self.log is not None:
            _append(self.log, llm_request)
        await asyncio.sleep(self.delay)
        response = _as_response(self._reply(llm_request), llm_request)
        for chunk in word_by_word(response) if stream else ():
            await asyncio.sleep(self.chunk_delay)
            yield chunk
        yield response

    def _reply(self, request: LlmRequest) -> Reply:
        if callable(self.replies):
            return self.replies
        turn = turn_of(request)
        if turn >= len(self.replies):
            raise ModelError(
                f"ScriptedModel has {len(self.replies)} replies and was asked for number "
                f"{turn + 1}; add a reply to the script."
            )
        return self.replies[turn]


def turn_of(request: LlmRequest) -> int:
    """Derive from the request how many model calls the agent has made in this conversation.

    Counts the agent's turns, plus user messages directly followed by another one: their response
    was an error, and errors are not part of a prompt. Turns of other agents have the role ``user``
    (FLW-22) and are not counted.
    """
    turns = unanswered = 0
    follows_message = False
    for content in originals(request.contents):  # a test may have thousands, and measure
        turns += content.role == "model"
        message = content.role == "user" and is_message(content)
        unanswered += message and follows_message
        follows_message = message
    return turns + unanswered


def _as_response(reply: Reply, request: LlmRequest) -> LlmResponse:
    if callable(reply):
        reply = reply(request)
    match reply:
        case Exception():
            raise reply.with_traceback(None)  # re-raised by every retry: reset the traceback
        case LlmResponse():
            return reply.model_copy(deep=True)  # callbacks may modify it
        case types.Content():
            content = reply.model_copy(deep=True)
        case _:
            content = types.Content(role="model", parts=_parts(reply))
    return LlmResponse(content=content, finish_reason=types.FinishReason.STOP)


def _parts(reply: str | types.Part | list[types.Part]) -> list[types.Part]:
    if isinstance(reply, str):
        return [types.Part(text=reply)]
    parts = reply if isinstance(reply, list) else [reply]
    return [part.model_copy(deep=True) for part in parts]


def _append(path: Path, request: LlmRequest) -> None:
    line = {"digest": _digest(request), "index": turn_of(request), "pid": os.getpid()}
    # A single write with O_APPEND, so that lines of concurrent processes do not mix.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, (json.dumps(line) + "\n").encode())
    finally:
        os.close(file)


def _digest(request: LlmRequest) -> str:
    contents = [content.model_dump(mode="json", exclude_none=True) for content in request.contents]
    return hashlib.sha256(canonical(contents).encode()).hexdigest()[:16]
