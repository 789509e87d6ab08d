"""Models whose chunks a test chooses, and what viewers make of them."""

import asyncio
import math
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Annotated, Any, TypeAlias

from google.genai import types
from pydantic import Field, SkipValidation

from durable_adk.events import Event
from durable_adk.models import BaseLlm, LlmRequest, LlmResponse
from durable_adk.models.scripted import turn_of
from durable_adk.partials.partial import attempt_of
from tests.support.waiting import until

Piece: TypeAlias = str | types.Part | list[types.Part] | Exception | asyncio.Event
"""A text, a part, several parts; an exception is raised instead, an event waited for."""


def thought(text: str) -> types.Part:
    """What a model thinks."""
    return types.Part(text=text, thought=True)


def a_call(name: str, **args: Any) -> types.Part:
    """A call without an id, as providers often send it."""
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


def content(*pieces: Piece) -> types.Content:
    """The content of some pieces."""
    parts: list[types.Part] = []
    for piece in pieces:
        one = types.Part(text=piece) if isinstance(piece, str) else piece
        parts += one if isinstance(one, list) else [one]
    return types.Content(role="model", parts=[part.model_copy(deep=True) for part in parts])


class StreamingModel(BaseLlm):
    """Says the pieces of its turn, one chunk each, and then the turn's last piece as the whole."""

    model: str = "streaming"
    turns: Annotated[Sequence[Sequence[Piece] | Callable[[], Sequence[Piece]]], SkipValidation]
    asked: list[bool] = Field(default_factory=list[bool])
    """For each time it was asked, whether for chunks too."""
    pause: float = 0.005
    """Seconds before each chunk."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Answer with the turn's pieces."""
        self.asked.append(stream)
        turn = self.turns[turn_of(llm_request)]
        *pieces, whole = turn() if callable(turn) else turn
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece.with_traceback(None)
            if isinstance(piece, asyncio.Event):
                await until(piece.is_set, math.inf)  # of another event loop
            else:
                await asyncio.sleep(self.pause)
                yield LlmResponse(content=content(piece), partial=True)
        yield LlmResponse(content=content(whole), finish_reason=types.FinishReason.STOP)


def brief(event: Event) -> str:
    """An event's parts in a few words: `~` before a chunk's, brackets round thoughts."""
    words = [_brief(part) for part in (event.content.parts if event.content else None) or []]
    return ("~" if event.partial else "") + " ".join(words)


def _brief(part: types.Part) -> str:
    if part.function_call:
        return f"{part.function_call.name}?"
    if part.function_response:
        return f"{part.function_response.name}!"
    return f"({part.text})" if part.thought else part.text or ""


def place(event: Event) -> tuple[int, int]:
    """Attempt and index of a chunk."""
    return attempt_of(event), (event.custom_metadata or {})["partial"]["index"]
