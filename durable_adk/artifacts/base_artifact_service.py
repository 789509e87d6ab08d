"""The port to the artifact store.

Contract of every implementation, tested by one suite (`tests/unit/artifacts/test_contract.py`):

* Versions of a name count 0, 1, 2 ... without gap, also when several processes save at once.
* A version is there whole or not at all, and never changes.
* A save may be repeated after a lost acknowledgement: its `save_key` makes it one version (ART-10).

`session_id` may be left out where only names with the prefix ``user:`` are meant. All calls raise
InvalidRequestError, naming the field, for a name or id that cannot serve, and StoreUnavailableError
while the store does not answer.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from google.genai import types
from pydantic import Field

from durable_adk.errors import InvalidRequestError
from durable_adk.json_model import JsonModel


class ArtifactVersion(JsonModel):
    """What is known of one version, without its content (semantics ART-11)."""

    version: int
    canonical_uri: str
    """Where this service keeps it; opaque to everybody else."""
    custom_metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    create_time: float
    """Seconds since the epoch."""
    mime_type: str | None = None


@dataclass(frozen=True, kw_only=True)
class ArtifactReader:
    """A version to be read in chunks, as ``async for chunk in reader``; each loop begins anew.

    Nothing is open outside of a loop. A version that is deleted meanwhile ends the loop with a
    FileNotFoundError.
    """

    version: int
    size: int
    """Bytes in all; a text's in UTF-8."""
    mime_type: str | None
    read: Callable[[], AsyncGenerator[bytes]]
    """Begins to read; who leaves it before the end should `aclose` it."""

    def __aiter__(self) -> AsyncGenerator[bytes]:
        return self.read()


class BaseArtifactService(ABC):
    """Stores artifacts (semantics ART-1)."""

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
        """Store the next version of a name; returns its number, 0 for the first (ART-3).

        Args:
            app_name: Name of the app.
            user_id: Id of the user.
            filename: A relative path like ``reports/a.pdf``. With the prefix ``user:`` it is
                shared by all sessions of the user, else it is the session's (ART-4).
            artifact: A part with text, inline_data or file_data, or the same as a dict. A file_data
                uri of the form ``artifact://...`` refers to another artifact of the user.
            session_id: Id of the session.
            custom_metadata: JSON to keep with the version.
            save_key: Names this save. A second one of the same key and name returns the first
                one's version and stores nothing, whatever it brings (TRAP-41).

        Raises:
            InvalidRequestError: A name, an id or the artifact cannot be stored.
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
        """A copy of the latest or the given version; None if there is none (ART-5).

        A reference is followed, at most five deep, and only within the user's own scope (ART-8).
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
        """Store the next version of a name from bytes that come piece by piece.

        It is read by `load_artifact` like any other, as inline_data. The services of this package
        that are durable hold some chunks in memory at a time; this default holds all of them.

        Args:
            app_name: See `save_artifact`; so are the others.
            user_id: Id of the user.
            filename: A relative path.
            chunks: The content. What it raises is raised here, and nothing is stored. It may be
                left unread where `save_key` has a version.
            mime_type: Of the content.
            session_id: Id of the session.
            custom_metadata: JSON to keep with the version.
            save_key: Names this save.

        Raises:
            InvalidRequestError: A name or an id cannot be stored.
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
        """The latest or the given version, to be read in chunks; None if there is none.

        References are followed as `load_artifact` does.

        Raises:
            InvalidRequestError: The artifact is a reference to somewhere else, and has no bytes.
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
        """The names in the session and, with ``user:``, those of the user; sorted (ART-6)."""

    @abstractmethod
    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete all versions and all save keys of a name; missing is no error (ART-7)."""

    @abstractmethod
    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """The numbers of all versions, ascending."""

    @abstractmethod
    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """What is known of all versions, ascending."""

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
        """What is known of the latest or the given version; None if there is none."""

    async def delete_user(
        self, *, app_name: str, user_id: str, session_ids: Iterable[str], dry_run: bool = False
    ) -> int:
        """Delete all artifacts of a user; how many names they are. With `dry_run` they stay.

        Here name by name, which finds those of the user and of sessions that are named. A service
        that knows its users needs no sessions, and finds what sessions have left that are gone.

        Args:
            app_name: Name of the app.
            user_id: Id of the user.
            session_ids: Whose artifacts are looked for.
            dry_run: Only count.
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
        """Let go of connections and files."""


def _reader(part: types.Part, version: int) -> ArtifactReader:
    """Reads what is in memory already."""
    blob = part.inline_data
    data = part.text.encode() if part.text is not None else blob and blob.data
    if data is None:
        raise InvalidRequestError("The artifact has no bytes here, it refers to elsewhere.")
    content = data

    async def read() -> AsyncGenerator[bytes]:
        yield content

    mime_type = blob.mime_type if blob else "text/plain"
    return ArtifactReader(version=version, size=len(content), mime_type=mime_type, read=read)
