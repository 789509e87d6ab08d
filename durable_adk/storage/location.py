"""Where objects are stored: in a folder or in a bucket."""

from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from durable_adk.storage.folder_objects import FolderObjects
from durable_adk.storage.objects import Objects


def is_uri(location: Path | str) -> bool:
    """Return whether a setting is the URI of an object store; otherwise it is a folder."""
    return "://" in str(location)


def resolved(location: Path | str) -> Path | str:
    """Return a setting with the same meaning in every process: a URI, or an absolute folder."""
    return str(location) if is_uri(location) else Path(location).expanduser().absolute()


def objects_at(location: Path | str, *, private: bool = False, **options: Any) -> Objects:
    """Return the objects in a folder, passed as a path or as ``file:///folder``, or in a bucket.

    Args:
        location: A folder, or the URI of a bucket; see `ObjectStore`.
        private: Whether only this user may read the folder; see `FolderObjects`.
        **options: Options of the bucket; see `ObjectStore`.

    Raises:
        InvalidRequestError: The URI cannot be used, or the extra ``objects`` is not installed.
    """
    if isinstance(location, str) and urlsplit(location).scheme == "file":
        location = Path(unquote(urlsplit(location).path))
    if is_uri(location):
        # Its library takes 4 MB, and most processes use none.
        store = import_module("durable_adk.storage.object_store").ObjectStore
        return store(str(location), **options)
    return FolderObjects(Path(location), private=private)
