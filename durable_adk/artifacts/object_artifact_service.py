"""Artifacts in an object store: S3, Google Cloud Storage, Azure."""

from collections.abc import Iterable
from typing import Any

from durable_adk.artifacts._key import scope_of
from durable_adk.artifacts._objects import ObjectVersions
from durable_adk.artifacts._stored import StoredArtifactService
from durable_adk.storage.object_store import ObjectStore


class ObjectArtifactService(StoredArtifactService):
    """Artifacts in a bucket, which any number of processes on any machines may share.

    A completed save is as durable as the store; an interrupted one leaves nothing visible. The
    store must be consistent and support conditional puts, as S3, Google Cloud Storage and Azure do.
    A store that ignores them is refused at the first save. Usable from any thread and event loop.
    """

    def __init__(self, uri: str, **options: Any) -> None:
        """Configure the bucket, which must exist; the first request is sent by the first call.

        Args:
            uri: ``s3://bucket/prefix``, ``gs://bucket/prefix``, ``az://container/prefix``, or
                ``file:///folder`` for the same objects on a disk, without fsync: a power failure
                may lose them. Use `FileArtifactService` for durable files.
            **options: Options for `obstore.store.from_url`. Their defaults come from the provider's
                environment variables, such as ``AWS_ACCESS_KEY_ID`` and ``AWS_REGION``.

        Raises:
            InvalidRequestError: The extra ``objects`` is not installed, or the URI is unsupported.
        """
        self._versions = ObjectVersions(ObjectStore(uri, **options))
        super().__init__(self._versions)

    async def delete_user(
        self, *, app_name: str, user_id: str, session_ids: Iterable[str], dry_run: bool = False
    ) -> int:
        """See `BaseArtifactService.delete_user`; a user's artifacts are below one prefix."""
        del session_ids
        return await self._versions.remove_user(scope_of(app_name, user_id, None), dry_run=dry_run)


class GcsArtifactService(ObjectArtifactService):
    """Artifacts in a Google Cloud Storage bucket; artifacts that ADK stored are not readable."""

    def __init__(self, bucket_name: str, **options: Any) -> None:
        """Configure the bucket; see the base class."""
        super().__init__(f"gs://{bucket_name}", **options)
