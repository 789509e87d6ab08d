"""Data files that come in a user's message: for the code, not for the model."""

import base64
import hashlib
from collections.abc import Iterable, Iterator

from google.genai import types

from durable_adk.code_executors.code_execution_utils import File

_EXTENSIONS = {"text/csv": ".csv"}


def files_in(contents: Iterable[types.Content | None]) -> list[File]:
    """The data files of users' messages, each once."""
    files = (file for content in contents for file in _files(content))
    return list({file.name: file for file in files}.values())


def named(content: types.Content) -> types.Content:
    """The content with the names of data files in their place."""
    if content.role != "user" or not any(map(_file, content.parts or [])):
        return content
    parts = [_mention(file) if (file := _file(part)) else part for part in content.parts or []]
    return content.model_copy(update={"parts": parts})


def _files(content: types.Content | None) -> Iterator[File]:
    if content is not None and content.role == "user":
        yield from filter(None, map(_file, content.parts or []))


def _file(part: types.Part) -> File | None:
    blob = part.inline_data
    extension = _EXTENSIONS.get((blob.mime_type or "").partition(";")[0].strip()) if blob else None
    if blob is None or extension is None or not blob.data:
        return None
    # Named after what it holds: the same in every request and execution, whatever else of the
    # conversation they see, as a position would not be.
    name = f"data_{hashlib.sha256(blob.data).hexdigest()[:8]}{extension}"
    return File(name, base64.b64encode(blob.data).decode(), blob.mime_type or "")


def _mention(file: File) -> types.Part:
    return types.Part(text=f"\nAvailable file: `{file.name}`\n")
