"""The base class of request bodies, and types that several routes share."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Self

from fastapi import Depends, Header, Query
from pydantic import BaseModel, ConfigDict, ModelWrapValidatorHandler, model_validator
from pydantic.alias_generators import to_camel
from starlette.responses import Response

from durable_adk.json_values import JsonModel, dumped, validated
from durable_adk.server.feed import FeedPosition
from durable_adk.sessions.session import Session, SessionKey, checked_key


class CheckedBody(BaseModel):
    """A request's body; only a few of its problems are reported."""

    @model_validator(mode="wrap")
    @classmethod
    def _validated(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        return validated(cls, value, handler)


class RequestBody(CheckedBody):
    """A request's body, with camelCase keys as in ADK, or Python names."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, val_json_bytes="base64"
    )


async def _session_key(app_name: str, user_id: str, session_id: str) -> SessionKey:
    return checked_key(app_name, user_id, session_id)


InSession = Annotated[SessionKey, Depends(_session_key)]
"""Parameter type: the session that the path names."""


async def _position(
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="The `id` of an item.")
    ] = None,
    after: Annotated[
        str | None, Query(description="The same, for clients that cannot set headers.")
    ] = None,
) -> FeedPosition:
    return FeedPosition.parse(last_event_id or after)


From = Annotated[FeedPosition, Depends(_position)]
"""Parameter type: the position at which a reader continues."""


def as_json(value: JsonModel | Sequence[JsonModel]) -> Response:
    """Return a response with the JSON of a model, or of a list of models."""
    if isinstance(value, JsonModel):
        text = value.to_json()
    else:
        text = f"[{','.join(one.to_json() for one in value)}]"
    return Response(text, media_type="application/json")


_PIECE = 100_000
"""Characters of JSON after which other requests are served."""


async def large_list(values: Iterable[JsonModel]) -> str:
    """Return the JSON of a list; serve other requests in the meantime."""
    texts, length = list[str](), 0
    for value in values:
        texts.append(value.to_json())
        length += len(texts[-1])
        if length > _PIECE:
            await asyncio.sleep(0)
            length = 0
    return f"[{','.join(texts)}]"


async def session_as_json(session: Session) -> Response:
    """Return a response with the JSON of a session and its events, which may be large."""
    head = dumped(session, "The Session", by_alias=True, exclude={"events"})
    text = f'{head.removesuffix("}")},"events":{await large_list(session.events)}}}'
    return Response(text, media_type="application/json")
