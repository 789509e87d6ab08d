"""External storage for payloads that are too large, or too private, for Temporal (D16)."""

from durable_adk.storage.blobs import BlobStore, SharedBlobs
from durable_adk.storage.file_blobs import FileBlobs
from durable_adk.storage.object_blobs import ObjectBlobs
from durable_adk.storage.payload_driver import (
    OwnedStorage,
    PayloadDriver,
    blobs_at,
    owned_storage,
    storage_at,
)
from durable_adk.storage.result_upload import ResultUpload
from durable_adk.storage.retention import sweep

__all__ = [
    "BlobStore",
    "FileBlobs",
    "ObjectBlobs",
    "OwnedStorage",
    "PayloadDriver",
    "ResultUpload",
    "SharedBlobs",
    "blobs_at",
    "owned_storage",
    "storage_at",
    "sweep",
]
