"""The artifact service over any store of objects."""

from collections.abc import AsyncIterable, Iterable
from contextlib import suppress
from typing import Any

from google.genai import types
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from durable_adk.artifacts._key import ArtifactKey, key_of, scope_of
from durable_adk.artifacts._objects import ObjectVersions, OpenedVersion
from durable_adk.artifacts._record import Record, mime_type_of
from durable_adk.artifacts._reference import reference_in
from durable_adk.artifacts.base_artifact_service import (
    ArtifactReader,
    ArtifactVersion,
    BaseArtifactService,
    ensure_part,
    is_removed,
)
from durable_adk.errors import InvalidRequestError
from durable_adk.failpoints import failpoint
from durable_adk.json_values import check_json, to_json_value
from durable_adk.storage.objects import Objects

_MAX_REFERENCES = 5


class StoredArtifactService(BaseArtifactService):
    """Validates arguments and follows references; `ObjectVersions` stores the versions."""

    def __init__(self, objects: Objects) -> None:
        self._store = ObjectVersions(objects)

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
        save_key: str | None = None,
    ) -> int:
        """See the base class."""
        key = key_of(app_name, user_id, session_id, filename)
        part = _checked(artifact)
        reference_in(part, key)
        return await self._saved(key, part, custom_metadata, save_key)

    async def save_artifact_stream(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        chunks: AsyncIterable[bytes],
        mime_type: str = "application/octet-stream",
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
        save_key: str | None = None,
    ) -> int:
        """See the base class."""
        key = key_of(app_name, user_id, session_id, filename)
        part = _checked({"inline_data": {"data": b"", "mime_type": mime_type}})
        return await self._saved(key, part, custom_metadata, save_key, chunks)

    async def _saved(
        self,
        key: ArtifactKey,
        part: types.Part,
        custom_metadata: dict[str, Any] | None,
        save_key: str | None,
        chunks: AsyncIterable[bytes] | None = None,
    ) -> int:
        metadata = to_json_value(custom_metadata or {})
        check_json(metadata, "custom_metadata")
        _check_save_key(save_key)
        record, data = Record.of(
            part, filename=key.filename, custom_metadata=metadata, save_key=save_key
        )
        failpoint("save.before")
        version = await self._store.add(key, record, data if chunks is None else chunks)
        failpoint("save.after")
        return version

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """See the base class."""
        key = key_of(app_name, user_id, session_id, filename)
        found = await self._found(key, version)
        if found is None:
            return None
        with suppress(FileNotFoundError):
            part = await _whole(found[1])
            return None if is_removed(part) else part
        return None

    async def open_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactReader | None:
        """See the base class."""
        found = await self._found(key_of(app_name, user_id, session_id, filename), version)
        if found is None:
            return None
        number, kept = found
        record = kept.record
        if record.content is None:
            raise InvalidRequestError(
                f"artifact {filename!r} has no content, only an external URI: load_artifact "
                "returns it."
            )
        mime_type = mime_type_of(record.part)
        return ArtifactReader(version=number, size=record.size, mime_type=mime_type, read=kept.read)

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """See the base class."""
        scope = scope_of(app_name, user_id, session_id)
        names = await self._store.names(scope._replace(session_id=None))
        if scope.session_id is not None:
            names = [*names, *await self._store.names(scope)]
        return sorted(names)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """See the base class."""
        await self._store.remove(key_of(app_name, user_id, session_id, filename))

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """See the base class."""
        return await self._store.numbers(key_of(app_name, user_id, session_id, filename))

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """See the base class."""
        key = key_of(app_name, user_id, session_id, filename)
        return await self._store.describe(key, await self._store.numbers(key))

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """See the base class."""
        key = key_of(app_name, user_id, session_id, filename)
        number = await self._number(key, version)
        found = [] if number is None else await self._store.describe(key, [number])
        return next(iter(found), None)

    async def stored_size(self, *, app_name: str, user_id: str) -> int:
        """See the base class."""
        return await self._store.size_of_user(scope_of(app_name, user_id, None))

    async def delete_user(
        self, *, app_name: str, user_id: str, session_ids: Iterable[str], dry_run: bool = False
    ) -> int:
        """See the base class; a user's artifacts are in one folder, so no sessions are needed."""
        del session_ids
        return await self._store.remove_user(scope_of(app_name, user_id, None), dry_run=dry_run)

    async def _found(
        self, key: ArtifactKey, version: int | None
    ) -> tuple[int, OpenedVersion] | None:
        """Return a version with its number, after following all references."""
        name = key.filename
        for _ in range(_MAX_REFERENCES + 1):
            number = await self._number(key, version)
            kept = None if number is None else await self._store.open(key, number)
            if number is None or kept is None:
                return None
            reference = reference_in(kept.record.part, key)
            if not reference:
                return number, kept
            key, version = reference
        raise InvalidRequestError(
            f"artifact {name!r} leads to a chain of more than {_MAX_REFERENCES} references."
        )

    async def _number(self, key: ArtifactKey, version: int | None) -> int | None:
        if version is not None:
            return version if version >= 0 else None
        return max(await self._store.numbers(key), default=None)


async def _whole(kept: OpenedVersion) -> types.Part:
    """Return the part with its content."""
    part, content = kept.record.part, kept.record.content
    data = b"".join([chunk async for chunk in kept.read()])
    if content == "text":
        part.text = data.decode()
    elif content == "inline_data":
        part.inline_data = part.inline_data or types.Blob()
        part.inline_data.data = data
    return part


def _checked(artifact: types.Part | dict[str, Any]) -> types.Part:
    """Return a copy of the artifact as a part.

    Raises:
        InvalidRequestError: It is not a part, or not of a kind that can be stored (ART-8).
    """
    try:
        part = ensure_part(artifact).model_copy(deep=True)
        part.model_dump_json(exclude={"inline_data": {"data"}})  # fails for a lone surrogate
    except (ValidationError, PydanticSerializationError) as error:
        raise InvalidRequestError(f"artifact is not a types.Part: {_reason(error)}.") from None
    blob = part.inline_data
    kinds = [
        part.text is not None,
        blob is not None and blob.data is not None,
        part.file_data is not None and bool(part.file_data.file_uri),
    ]
    if kinds.count(True) != 1:
        raise InvalidRequestError("artifact must have one of text, inline_data or file_data.")
    return part


def _reason(error: ValidationError | PydanticSerializationError) -> str:
    """Return the first problem, without the value, which may be private."""
    if isinstance(error, PydanticSerializationError):
        return str(error)
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"


def _check_save_key(save_key: str | None) -> None:
    check_json(save_key, "save_key")
    if save_key == "":
        raise InvalidRequestError("save_key is empty; pass a non-empty string or None.")
