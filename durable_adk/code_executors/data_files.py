"""Data files in user messages, which are passed to the code instead of the model."""

import base64
import hashlib
from collections.abc import Iterable, Iterator

from google.genai import types

from durable_adk.code_executors.code_execution_utils import File

_EXTENSIONS = {"text/csv": ".csv"}


def files_in(contents: Iterable[types.Content | None]) -> list[File]:
    """Return the distinct data files of user messages."""
    files = (file for content in contents for file in _files(content))
    return list({file.name: file for file in files}.values())


def named(content: types.Content) -> types.Content:
    """Return the content with data files replaced by their names."""
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
    # Derived from the content, so that the name is the same in every request and execution. A
    # position would depend on which part of the conversation they include.
    name = f"data_{hashlib.sha256(blob.data).hexdigest()[:8]}{extension}"
    return File(name, base64.b64encode(blob.data).decode(), blob.mime_type or "")


def _mention(file: File) -> types.Part:
    return types.Part(text=f"\nAvailable file: `{file.name}`\n")
