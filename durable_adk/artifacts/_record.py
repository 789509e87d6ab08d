"""The record of a version that is stored beside its content."""

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from google.genai import types
from pydantic import Field

from durable_adk.artifacts.base_artifact_service import ArtifactVersion
from durable_adk.json_values import JsonModel

Content: TypeAlias = Literal["text", "inline_data"]


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A version before it has a number."""

    part: types.Part
    custom_metadata: dict[str, Any]
    create_time: float
    mime_type: str | None
    save_key: str | None
    chunks: AsyncIterable[bytes] | None = None
    """The content, if it arrives in chunks."""


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

    def described(self, version: int, canonical_uri: str) -> ArtifactVersion:
        """Return the public description of a version."""
        return ArtifactVersion(
            version=version,
            canonical_uri=canonical_uri,
            custom_metadata=self.custom_metadata,
            create_time=self.create_time,
            mime_type=self.mime_type,
        )


def fields_of(filename: str, draft: Draft) -> tuple[dict[str, Any], bytes]:
    """Return the fields of a draft's record, and its content unless that arrives in chunks."""
    part, content, data = _split(draft.part)
    fields = {
        "filename": filename,
        "create_time": draft.create_time,
        "mime_type": draft.mime_type,
        "custom_metadata": draft.custom_metadata,
        "save_key": draft.save_key,
        "part": part,
        "content": content if draft.chunks is None else "inline_data",
    }
    return fields, data


def _split(part: types.Part) -> tuple[types.Part, Content | None, bytes]:
    """Return the part without its content, the content's field, and its bytes."""
    if part.text is not None:
        return part.model_copy(update={"text": None}), "text", part.text.encode()
    blob = part.inline_data
    if blob and blob.data is not None:
        bare = part.model_copy(update={"inline_data": blob.model_copy(update={"data": None})})
        return bare, "inline_data", blob.data
    return part, None, b""
