"""The interface of artifact services.

Contract of every implementation, tested by one suite (`tests/unit/artifacts/test_contract.py`):

* Versions of a name are numbered 0, 1, 2 ... without gaps, even if several processes save at once.
* A version is stored atomically, and is immutable.
* A save can be repeated after a lost response: its `save_key` makes it one version (ART-10).

`session_id` can be omitted for names with the prefix ``user:``. All calls raise
InvalidRequestError, which names the field, for an invalid name or id, and StoreUnavailableError
while the store does not respond.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Awaitable,
    Callable,
    Iterable,
)
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any

from google.genai import types
from pydantic import Field

from durable_adk.errors import InvalidRequestError
from durable_adk.json_values import JsonModel

Fence = Callable[[], Awaitable[None]]
"""Raises an error if the version being saved may no longer be stored."""
_FENCE = ContextVar[Fence | None]("fence", default=None)

_REMOVED = "application/vnd.durable-adk.removed"
"""MIME type of a version that marks the artifact as removed."""


def removal() -> types.Part:
    """Return the part that a rewind saves for a missing file: versions are never deleted."""
    return types.Part(inline_data=types.Blob(data=b"", mime_type=_REMOVED))


def is_removed(part: types.Part) -> bool:
    """Return whether the version marks the artifact as removed; it is loaded as None (REW-3)."""
    return part.inline_data is not None and part.inline_data.mime_type == _REMOVED


@asynccontextmanager
async def fenced(fence: Fence) -> AsyncGenerator[None]:
    """Call `fence`, and have saves in the block call it right before they store a version.

    Not an argument of `save_artifact`, so that it also works through an application's own service
    that wraps one of this package.
    """
    await fence()
    token = _FENCE.set(fence)
    try:
        yield
    finally:
        _FENCE.reset(token)


async def check_fence() -> None:
    """Call the fence of the current save, if it has one."""
    fence = _FENCE.get()
    if fence is not None:
        await fence()


class ArtifactVersion(JsonModel):
    """The description of one version, without its content (ART-11)."""

    version: int
    canonical_uri: str
    """The location of the version in this service; opaque to callers."""
    custom_metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    create_time: float
    """Seconds since the epoch."""
    mime_type: str | None = None


@dataclass(frozen=True, kw_only=True)
class ArtifactReader:
    """Reads a version in chunks: ``async for chunk in reader``. Each loop starts at the beginning.

    Nothing is open outside of a loop. If the version is deleted in the meantime, the loop raises
    FileNotFoundError.
    """

    version: int
    size: int
    """Total bytes; for text, of its UTF-8 encoding."""
    mime_type: str | None
    read: Callable[[], AsyncGenerator[bytes]]
    """Starts reading; if you stop before the end, `aclose` the generator."""

    def __aiter__(self) -> AsyncGenerator[bytes]:
        return self.read()


def ensure_part(artifact: types.Part | dict[str, Any]) -> types.Part:
    """Return the artifact as a part; a dict has a part's fields in either spelling."""
    return types.Part.model_validate(artifact)


class BaseArtifactService(ABC):
    """Stores artifacts (ART-1).

    An application's own service may have ADK's `save_artifact`, without `save_key`. A save that is
    repeated after a crash then stores a second version.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "save_artifact" in vars(cls):
            cls.save_artifact = _taking_key(cls.save_artifact)

    @abstractmethod
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
        """Store the next version of a name, and return its number, 0 for the first (ART-3).

        Args:
            app_name: Name of the app.
            user_id: Id of the user.
            filename: A relative path like ``reports/a.pdf``. With the prefix ``user:`` it is
                shared by all sessions of the user; otherwise it belongs to the session (ART-4).
            artifact: A part with text, inline_data or file_data, or the same as a dict. A file_data
                URI of the form ``artifact://...`` refers to another artifact of the user.
            session_id: Id of the session.
            custom_metadata: JSON to keep with the version.
            save_key: Idempotency key. A second save with the same key and name returns the version
                of the first and stores nothing, whatever its content (TRAP-41).

        Raises:
            InvalidRequestError: A name, an id or the artifact is invalid.
            StateValueError: `custom_metadata` is not JSON.
        """

    @abstractmethod
    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Return a copy of the latest or of version `version`; None if there is none (ART-5).

        References are followed, up to five in a chain, within the user's own scope only (ART-8).
        """

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
        """Store the next version of a name from content that arrives in chunks.

        `load_artifact` returns it as inline_data, like any other. The durable services of this
        package hold few chunks in memory at a time; this default implementation holds all of them.

        Args:
            app_name: Name of the app.
            user_id: Id of the user.
            filename: A relative path.
            chunks: The content. Its exceptions are raised here, and nothing is stored. It may not
                be read if `save_key` has a version.
            mime_type: MIME type of the content.
            session_id: Id of the session.
            custom_metadata: JSON to keep with the version.
            save_key: Idempotency key, as for `save_artifact`.

        Raises:
            InvalidRequestError: A name or an id is invalid.
            StateValueError: `custom_metadata` is not JSON.
        """
        data = b"".join([chunk async for chunk in chunks])
        return await self.save_artifact(
            app_name=app_name,
            user_id=user_id,
            filename=filename,
            artifact=types.Part.from_bytes(data=data, mime_type=mime_type),
            session_id=session_id,
            custom_metadata=custom_metadata,
            save_key=save_key,
        )

    async def open_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactReader | None:
        """Return a reader of the latest or of version `version`; None if there is none.

        References are followed as in `load_artifact`.

        Raises:
            InvalidRequestError: The artifact is an external URI, without content.
        """
        names = {"app_name": app_name, "user_id": user_id, "filename": filename}
        known = await self.get_artifact_version(**names, session_id=session_id, version=version)
        part = known and await self.load_artifact(
            **names, session_id=session_id, version=known.version
        )
        return part and known and _reader(part, known.version)

    @abstractmethod
    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Return the names in the session and, with ``user:``, the user's; sorted (ART-6)."""

    @abstractmethod
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions and save keys of a name; a missing name is ignored (ART-7)."""

    @abstractmethod
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of all versions, ascending."""

    @abstractmethod
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return the descriptions of all versions, ascending."""

    @abstractmethod
    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return the description of the latest or of version `version`; None if there is none."""

    async def stored_size(self, *, app_name: str, user_id: str) -> int:
        """Return how many bytes a user has stored; 0, this default, if the service cannot tell.

        Args:
            app_name: Name of the app.
            user_id: Id of the user.
        """
        del app_name, user_id
        return 0

    async def delete_user(
        self, *, app_name: str, user_id: str, session_ids: Iterable[str], dry_run: bool = False
    ) -> int:
        """Delete all artifacts of a user, and return the number of names.

        This default deletes name by name, and finds the user's own names and those of
        `session_ids`. A service that can list by user needs no sessions, and also finds the
        artifacts of deleted sessions.

        Args:
            app_name: Name of the app.
            user_id: Id of the user.
            session_ids: Ids of the user's sessions.
            dry_run: Only count the names.
        """
        found: set[tuple[str | None, str]] = set()
        for session in (None, *session_ids):
            names = await self.list_artifact_keys(
                app_name=app_name, user_id=user_id, session_id=session
            )
            found |= {(None if name.startswith("user:") else session, name) for name in names}
        for session, name in () if dry_run else found:
            await self.delete_artifact(
                app_name=app_name, user_id=user_id, session_id=session, filename=name
            )
        return len(found)

    async def close(self) -> None:  # noqa: B027  # optional
        """Close connections and files."""


def _taking_key(save: Callable[..., Awaitable[int]]) -> Any:
    """Return a save that accepts a key, and drops it if the service has no such parameter."""
    parameters = inspect.signature(save).parameters.values()
    if any(one.name == "save_key" or one.kind is one.VAR_KEYWORD for one in parameters):
        return save

    @wraps(save)
    async def keyed(*args: Any, save_key: str | None = None, **kwargs: Any) -> int:
        del save_key
        return await save(*args, **kwargs)

    return keyed


def _reader(part: types.Part, version: int) -> ArtifactReader:
    """Return a reader of content that is in memory."""
    blob = part.inline_data
    data = part.text.encode() if part.text is not None else blob and blob.data
    if data is None:
        raise InvalidRequestError("The artifact has no content, only an external URI.")
    content = data

    async def read() -> AsyncGenerator[bytes]:
        yield content

    mime_type = blob.mime_type if blob else "text/plain"
    return ArtifactReader(version=version, size=len(content), mime_type=mime_type, read=read)
