"""Artifacts in an object store: S3, Google Cloud Storage, Azure."""

from collections.abc import Iterable
from typing import Any

from durable_adk.artifacts._key import scope_of
from durable_adk.artifacts._objects import ObjectVersions
from durable_adk.artifacts._stored import StoredArtifactService
from durable_adk.storage.object_store import ObjectStore


class ObjectArtifactService(StoredArtifactService):
    """Artifacts in a bucket, which any number of processes on any machines may share.

    A save that has returned is as safe as the store keeps it; one that was cut off leaves nothing
    that anybody sees. The store must be consistent and have conditional puts, as S3, Google Cloud
    Storage and Azure are; one that ignores them is refused at the first save. Usable from any
    thread and any event loop.
    """

    def __init__(self, uri: str, **options: Any) -> None:
        """Name the bucket, which must exist; nothing is asked of it before the first call.

        Args:
            uri: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix``, or
                ``file:///folder`` for the same objects on a disk, which are not forced down to it:
                a power cut may lose them. `FileArtifactService` does not.
            **options: For `obstore.store.from_url`; by default the provider's usual environment
                variables say who we are, such as ``AWS_ACCESS_KEY_ID`` and ``AWS_REGION``.

        Raises:
            InvalidRequestError: The extra ``objects`` is not installed, or cannot use the uri.
        """
        self._versions = ObjectVersions(ObjectStore(uri, **options))
        super().__init__(self._versions)

    async def delete_user(
        self, *, app_name: str, user_id: str, session_ids: Iterable[str], dry_run: bool = False
    ) -> int:
        """See `BaseArtifactService.delete_user`; here all of a user's is below one prefix."""
        del session_ids
        return await self._versions.remove_user(scope_of(app_name, user_id, None), dry_run=dry_run)


class GcsArtifactService(ObjectArtifactService):
    """Artifacts in a bucket of Google Cloud Storage; what ADK itself has stored is not read."""

    def __init__(self, bucket_name: str, **options: Any) -> None:
        """Name the bucket; see the base class."""
        super().__init__(f"gs://{bucket_name}", **options)
