"""The record of a version that is stored beside its content."""

import time
from typing import Any, Literal, Self, TypeAlias
from uuid import uuid4

from google.genai import types
from pydantic import Field

from durable_adk.artifacts.base_artifact_service import ArtifactVersion
from durable_adk.json_values import JsonModel

Content: TypeAlias = Literal["text", "inline_data"]
CONTENT = "content-"
"""Prefix of the names of contents."""


class Record(JsonModel):
    """A version without its content."""

    filename: str
    create_time: float
    mime_type: str | None = None
    custom_metadata: dict[str, Any] = Field(default_factory=dict[str, Any])
    save_key: str | None = None
    part: types.Part
    """The artifact without its content."""
    content: Content | None = None
    """The field of the part that the content belongs to."""
    save_id: str
    """Random id of the save that wrote it."""
    path: str
    """Path of its content, in the same folder."""
    size: int
    """Bytes of its content."""

    @classmethod
    def of(
        cls,
        part: types.Part,
        *,
        filename: str,
        custom_metadata: dict[str, Any],
        save_key: str | None,
    ) -> tuple[Self, bytes]:
        """Return the record of a new version, and its content."""
        bare, content, data = _split(part)
        save_id = uuid4().hex
        record = cls(
            filename=filename,
            create_time=time.time(),
            mime_type=mime_type_of(part),
            custom_metadata=custom_metadata,
            save_key=save_key,
            part=bare,
            content=content,
            save_id=save_id,
            path=CONTENT + save_id,
            size=len(data),
        )
        return record, data

    def described(self, version: int, canonical_uri: str) -> ArtifactVersion:
        """Return the public description of a version."""
        return ArtifactVersion(
            version=version,
            canonical_uri=canonical_uri,
            custom_metadata=self.custom_metadata,
            create_time=self.create_time,
            mime_type=self.mime_type,
        )


def mime_type_of(part: types.Part) -> str | None:
    """Return the MIME type of an artifact."""
    source = part.inline_data or part.file_data
    return "text/plain" if source is None else source.mime_type


def _split(part: types.Part) -> tuple[types.Part, Content | None, bytes]:
    """Return the part without its content, the content's field, and its bytes."""
    if part.text is not None:
        return part.model_copy(update={"text": None}), "text", part.text.encode()
    blob = part.inline_data
    if blob and blob.data is not None:
        bare = part.model_copy(update={"inline_data": blob.model_copy(update={"data": None})})
        return bare, "inline_data", blob.data
    return part, None, b""
