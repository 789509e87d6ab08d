"""ADK's routes of artifacts and of memory."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote, unquote

from fastapi import APIRouter, Path, Query
from google.genai import types
from starlette.responses import Response

from durable_adk.artifacts.base_artifact_service import ArtifactVersion
from durable_adk.errors import InvalidRequestError, NotFoundError
from durable_adk.json_values import canonical, check_json
from durable_adk.server.adk.sessions import existing_session
from durable_adk.server.caller import CurrentCaller
from durable_adk.server.routes.body import InSession, RequestBody, as_json
from durable_adk.server.services import CurrentServices, ServerServices
from durable_adk.sessions.session import SessionKey, checked_key
from durable_adk.storage.objects import each
from durable_adk.wire.messages import MAX_METADATA_BYTES, check_marks, check_size

router = APIRouter(tags=["artifacts"])
_ARTIFACTS = "/apps/{app_name}/users/{user_id}/sessions/{session_id}/artifacts"
# A name may contain slashes, so routes with further path segments come first.
_NAMED = _ARTIFACTS + "/{artifact_name:path}"

T = TypeVar("T", str, int)
_FEW, _MOST = 100, 1_000
"""Maximum number of descriptions, and of names or versions, in a page."""
Few = Annotated[int, Query(ge=1, le=_FEW)]
Limit = Annotated[int, Query(ge=1, le=_MOST)]
PageToken = Annotated[int | None, Query(alias="page_token", ge=0)]
"""Parameter type: the last version of the previous page."""
Latest = Literal["latest"]
Version = Annotated[int, Path(ge=0, le=2**31)] | Latest
Name = Annotated[str, Path(description="The artifact's name.")]


class NewArtifact(RequestBody):
    """A new version of an artifact."""

    filename: str
    artifact: types.Part
    custom_metadata: dict[str, Any] | None = None


class SessionToRemember(RequestBody):
    """A session to add to the user's memory."""

    session_id: str


@router.get(_NAMED + "/versions/{version_id}/metadata", response_model=ArtifactVersion)
async def get_version_metadata(
    services: CurrentServices, key: InSession, artifact_name: Name, version_id: Version
) -> Response:
    """Return the description of a version."""
    return as_json(await _described(services, key, artifact_name, _number(version_id)))


@router.get(_NAMED + "/versions/metadata", response_model=list[ArtifactVersion])
async def list_versions_metadata(
    services: CurrentServices,
    key: InSession,
    artifact_name: Name,
    *,
    limit: Few = _FEW,
    after: PageToken = None,
) -> Response:
    """Return a page of the descriptions of versions; see `list_artifacts`."""
    service, names = services.artifact_service, {**key._asdict(), "filename": artifact_name}
    numbers, more = _page(await service.list_versions(**names), limit, after)
    found = await each(
        lambda number: service.get_artifact_version(**names, version=number), numbers
    )
    response = as_json([one for one in found if one is not None])
    response.headers.update(more)
    return response


@router.post(_ARTIFACTS, response_model=ArtifactVersion)
async def save_artifact(
    services: CurrentServices, caller: CurrentCaller, key: InSession, body: NewArtifact
) -> Response:
    """Save an artifact, and return the description of the new version."""
    await services.check_room(key.app_name, caller, artifacts=True)
    check_json(body.custom_metadata, "customMetadata")
    check_size(canonical(body.custom_metadata), "customMetadata", MAX_METADATA_BYTES)
    check_marks(body.custom_metadata)
    version = await services.artifact_service.save_artifact(
        **key._asdict(),
        filename=body.filename,
        artifact=body.artifact,
        custom_metadata=body.custom_metadata,
    )
    return as_json(await _described(services, key, body.filename, version))


@router.get(_NAMED + "/versions/{version_id}", response_model=types.Part)
async def load_version(
    services: CurrentServices, key: InSession, artifact_name: Name, version_id: Version
) -> Response:
    """Return a version."""
    return await _loaded(services, key, artifact_name, _number(version_id))


@router.get(_ARTIFACTS)
async def list_artifacts(
    services: CurrentServices,
    key: InSession,
    response: Response,
    limit: Limit = _MOST,
    page_token: str | None = None,
) -> list[str]:
    """Return a page of the names of the session's and of the user's artifacts.

    The header `Next-Page-Token` contains the `page_token` of the next page, if there is one.
    """
    found = await services.artifact_service.list_artifact_keys(**key._asdict())
    page, more = _page(found, limit, None if page_token is None else unquote(page_token))
    response.headers.update(more)
    return page


@router.get(_NAMED + "/versions")
async def list_versions(
    services: CurrentServices,
    key: InSession,
    artifact_name: Name,
    response: Response,
    *,
    limit: Limit = _MOST,
    after: PageToken = None,
) -> list[int]:
    """Return a page of version numbers; see `list_artifacts`."""
    found = await services.artifact_service.list_versions(**key._asdict(), filename=artifact_name)
    page, more = _page(found, limit, after)
    response.headers.update(more)
    return page


@router.get(_NAMED, response_model=types.Part)
async def load_artifact(
    services: CurrentServices,
    key: InSession,
    artifact_name: Name,
    version: Annotated[int | None, Query(ge=0, le=2**31)] = None,
) -> Response:
    """Return the latest version, or the given one."""
    return await _loaded(services, key, artifact_name, version)


@router.delete(_NAMED)
async def delete_artifact(services: CurrentServices, key: InSession, artifact_name: Name) -> None:
    """Delete all versions of an artifact, if there is one."""
    await services.artifact_service.delete_artifact(**key._asdict(), filename=artifact_name)


@router.patch("/apps/{app_name}/users/{user_id}/memory", tags=["memory"])
async def add_to_memory(
    services: CurrentServices, app_name: str, user_id: str, body: SessionToRemember
) -> None:
    """Add a session's events to the user's memory."""
    if services.memory_service is None:
        raise InvalidRequestError("Memory service is not configured.")
    key = checked_key(app_name, user_id, body.session_id)
    await services.memory_service.add_session_to_memory(await existing_session(services, key))


def _page(found: Sequence[T], limit: int, after: T | None) -> tuple[list[T], dict[str, str]]:
    """Return the items of a sorted list that follow an item, and the header for the next page."""
    start = 0 if after is None else bisect_right(found, after)
    page = list(found[start : start + limit])
    more = start + limit < len(found)
    return page, {"Next-Page-Token": quote(str(page[-1]))} if more else {}


def _number(version: int | Latest) -> int | None:
    return None if version == "latest" else version


async def _described(
    services: ServerServices, key: SessionKey, filename: str, version: int | None
) -> ArtifactVersion:
    found = await services.artifact_service.get_artifact_version(
        **key._asdict(), filename=filename, version=version
    )
    if found is None:
        raise NotFoundError("Artifact version not found")
    return found


async def _loaded(
    services: ServerServices, key: SessionKey, filename: str, version: int | None
) -> Response:
    part = await services.artifact_service.load_artifact(
        **key._asdict(), filename=filename, version=version
    )
    if part is None:
        raise NotFoundError("Artifact not found")
    # Base64 uses ADK's alphabet, which its page expects.
    text = part.model_dump_json(by_alias=True, exclude_none=True)
    return Response(text, media_type="application/json")
