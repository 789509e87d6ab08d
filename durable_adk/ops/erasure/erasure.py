"""Survey and erasure of a person's data in all stores (S6)."""

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from temporalio.client import Client

from durable_adk.artifacts import BaseArtifactService
from durable_adk.auth.credential_service import BaseCredentialService
from durable_adk.json_values import check_id
from durable_adk.memory import BaseMemoryService
from durable_adk.ops.erasure.schedules import UserSchedules, delete_schedules, user_schedules
from durable_adk.ops.erasure.workflows import UserRuns, delete_runs, user_runs, wait_until_deleted
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.storage.blobs import Blobs
from durable_adk.storage.payload_driver import blobs_of, owner_folder, owner_of

UNREACHED = (
    "backups and replicas of these stores, and Temporal's archive",
    "logs and traces, and the memory of running workers until they exit",
    "`app:` state, and anything that tools and callbacks have written elsewhere",
    "the data that model providers keep",
    "free pages of Temporal's own database (ciphertext, if payloads are encrypted)",
    "free pages of PostgreSQL until VACUUM FULL, and its write-ahead log",
)
"""Locations of data that this module cannot reach."""


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """The stores of an app, and the user whose data is to be erased."""

    app: str
    user: str
    client: Client
    session_service: SessionLog
    artifact_service: BaseArtifactService | None = None
    memory_service: BaseMemoryService | None = None
    credential_service: BaseCredentialService | None = None

    def __post_init__(self) -> None:
        """Check the ids.

        Raises:
            InvalidRequestError: An id is unusable.
        """
        object.__setattr__(self, "app", check_id(self.app, "app"))
        object.__setattr__(self, "user", check_id(self.user, "user"))


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """A person's data in the stores and in Temporal."""

    sessions: Sequence[SessionKey]
    """Includes the sessions of agents used as tools."""
    state_keys: int
    """Number of keys in the user's state, which the sessions share."""
    artifacts: int
    """Number of artifact names."""
    credentials: int
    schedules: UserSchedules
    """Temporal schedules that send the person's messages."""
    runs: UserRuns
    """Runs of workflows in Temporal."""
    payloads: Sequence[str]
    """Workflows with payloads in external storage, by their folder names."""

    @property
    def empty(self) -> bool:
        """Whether there is no data; memory is not considered."""
        counts = (self.state_keys, self.artifacts, self.credentials)
        in_temporal = self.runs.found or self.schedules.names
        return not (self.sessions or in_temporal or self.payloads or any(counts))


async def survey(erasure: Erasure) -> Holdings:
    """List what `erase` would remove, without changing anything.

    Raises:
        TransientError: A store or Temporal does not respond.
    """
    app, user, client = erasure.app, erasure.user, erasure.client
    sessions = await erasure.session_service.user_sessions(app_name=app, user_id=user)
    known = await _workflows(erasure)
    runs = await user_runs(client, app=app, user=user, known=known)
    state = await erasure.session_service.get_user_state(app_name=app, user_id=user)
    artifacts, credentials = await _others(erasure, sessions, dry_run=True)
    return Holdings(
        sessions=sessions,
        state_keys=len(state),
        artifacts=artifacts,
        credentials=credentials,
        schedules=await user_schedules(client, app=app, user=user),
        runs=runs,
        payloads=await _owners(
            client, {*runs.workflows, *(one.workflow_id for one in known)} - runs.shared
        ),
    )


async def erase(erasure: Erasure) -> Holdings:
    """Erase all data about a person, and return what was erased.

    Open invocations are ended first, so that they cannot write during the erasure. The erasure is
    idempotent: after an error, run it again. Afterwards only data in the locations `UNREACHED`
    remains, and data that the user has created in the meantime. It takes up to two minutes, because
    Temporal deletes workflows asynchronously.

    Raises:
        TransientError: A store or Temporal does not respond.
    """
    app, user = erasure.app, erasure.user
    # Schedules first, so that none starts a workflow in the meantime. Sessions last, because a
    # repeated erasure needs their records to find workflows and artifacts.
    schedules = await user_schedules(erasure.client, app=app, user=user)
    await delete_schedules(erasure.client, schedules)
    found = replace(await survey(erasure), schedules=schedules)
    await delete_runs(erasure.client, found.runs)
    if blobs := blobs_of(erasure.client.data_converter):
        for owner in found.payloads:
            await blobs.remove(owner)
    await _remove_others(erasure, found.sessions)
    for key in found.sessions:
        await erasure.session_service.delete_session(
            app_name=app, user_id=user, session_id=key.session_id
        )
    await erasure.session_service.delete_user_state(app_name=app, user_id=user)
    # Again: code that ignores its cancellation may have saved data until its session was deleted.
    await _remove_others(erasure, found.sessions)
    if erasure.memory_service:
        await erasure.memory_service.scrub()
    await erasure.session_service.scrub()
    await wait_until_deleted(erasure.client, found.runs)
    return found


async def _remove_others(erasure: Erasure, sessions: Sequence[SessionKey]) -> None:
    await _others(erasure, sessions, dry_run=False)
    if erasure.memory_service:
        await erasure.memory_service.delete_memory(app_name=erasure.app, user_id=erasure.user)


async def _others(
    erasure: Erasure, sessions: Sequence[SessionKey], *, dry_run: bool
) -> tuple[int, int]:
    """Count artifacts and credentials, and remove them unless this is a dry run."""
    app, user = erasure.app, erasure.user
    artifacts = credentials = 0
    if erasure.artifact_service:
        ids = [key.session_id for key in sessions]
        artifacts = await erasure.artifact_service.delete_user(
            app_name=app, user_id=user, session_ids=ids, dry_run=dry_run
        )
    if erasure.credential_service:
        credentials = await erasure.credential_service.delete_user(
            app_name=app, user_id=user, dry_run=dry_run
        )
    return artifacts, credentials


async def _workflows(erasure: Erasure) -> list[TemporalLeaseOwner]:
    """Return the workflows that run the user's invocations, according to the session store."""
    records = erasure.session_service.all_invocations(app_name=erasure.app, user_id=erasure.user)
    lease_owners = [TemporalLeaseOwner.parse(record.lease_owner) async for _, record in records]
    here = erasure.client.namespace
    return [one for one in lease_owners if one is not None and one.namespace == here]


async def _owners(client: Client, workflows: Iterable[str]) -> list[str]:
    """Return the folder names of the workflows with payloads in external storage."""
    blobs = blobs_of(client.data_converter)
    names = [owner_folder(owner_of(client.namespace, workflow)) for workflow in workflows]
    return [name for name in names if blobs and await _has_payloads(blobs, name)]


async def _has_payloads(blobs: Blobs, owner: str) -> bool:
    async with aclosing(blobs.of(owner)) as kept:
        return await anext(kept, None) is not None
