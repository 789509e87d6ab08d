"""Artifacts in an object store: S3, Google Cloud Storage, Azure."""

from typing import Any

from durable_adk.artifacts._stored import StoredArtifactService
from durable_adk.storage.location import objects_at


class ObjectArtifactService(StoredArtifactService):
    """Artifacts in a bucket, which any number of processes on any machines may share.

    A completed save is as durable as the store; an interrupted one leaves nothing visible. The
    store must be consistent and support conditional puts, as S3, Google Cloud Storage and Azure do.
    A store that ignores them is rejected at the first save. Usable from any thread and event loop.
    """

    def __init__(self, uri: str, **options: Any) -> None:
        """Configure the bucket, which must exist; the first request is sent by the first call.

        Args:
            uri: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix``, or
                ``file:///folder``, which is the same as `FileArtifactService`.
            **options: Options for `obstore.store.from_url`. Their defaults come from the provider's
                environment variables, such as ``AWS_ACCESS_KEY_ID`` and ``AWS_REGION``.

        Raises:
            InvalidRequestError: The extra ``objects`` is not installed, or the URI is unsupported.
        """
        super().__init__(objects_at(uri, **options))


class GcsArtifactService(ObjectArtifactService):
    """Artifacts in a Google Cloud Storage bucket; artifacts that ADK stored are not readable."""

    def __init__(self, bucket_name: str, **options: Any) -> None:
        """Configure the bucket; see the base class."""
        super().__init__(f"gs://{bucket_name}", **options)
