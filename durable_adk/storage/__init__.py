"""Where payloads are kept that are too large, or too private, for Temporal (design D16)."""

from durable_adk.storage.blobs import BlobStore
from durable_adk.storage.file_blobs import FileBlobs
from durable_adk.storage.payload_driver import (
    OwnedStorage,
    PayloadDriver,
    folder_storage,
    owned_storage,
)
from durable_adk.storage.securing import SecuredResults
from durable_adk.storage.sweeping import sweep

__all__ = [
    "BlobStore",
    "FileBlobs",
    "OwnedStorage",
    "PayloadDriver",
    "SecuredResults",
    "folder_storage",
    "owned_storage",
    "sweep",
]
