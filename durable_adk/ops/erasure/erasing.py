"""What all stores have of a person, and removing it (S6)."""

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from temporalio.client import Client

from durable_adk.artifacts import BaseArtifactService
from durable_adk.auth.credential_service import BaseCredentialService
from durable_adk.json_values import check_id
from durable_adk.memory import BaseMemoryService
from durable_adk.ops.erasure.schedules import Schedules, remove_schedules, schedules_of
from durable_adk.ops.erasure.workflows import Runs, remove, removed, runs_of
from durable_adk.sessions.lease_owner import TemporalLeaseOwner
from durable_adk.sessions.reading import all_invocations
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.session_log import SessionLog
from durable_adk.storage import FileBlobs, ObjectBlobs, OwnedStorage, PayloadDriver, SharedBlobs
from durable_adk.storage.payload_driver import owner_folder, owner_of

UNREACHED = (
    "backups and replicas of these stores, and Temporal's archive",
    "logs and traces, and what running workers have in memory until they end",
    "`app:` state, and whatever else tools and callbacks have written elsewhere",
    "what model providers keep",
    "free pages of Temporal's own database (of what was encrypted, ciphertext)",
    "free pages of PostgreSQL until VACUUM FULL, and its write-ahead log",
)
"""Where something may be left that this cannot remove."""


@dataclass(frozen=True, kw_only=True)
class Erasure:
    """The stores of an app, and whom they are to forget."""

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
            InvalidRequestError: One is unusable.
        """
        object.__setattr__(self, "app", check_id(self.app, "app"))
        object.__setattr__(self, "user", check_id(self.user, "user"))


@dataclass(frozen=True, kw_only=True)
class Holdings:
    """What there is of a person."""

    sessions: Sequence[SessionKey]
    """Those of agents used as tools included."""
    state_keys: int
    """Of the user's state, which is shared by the sessions."""
    artifacts: int
    """Names."""
    credentials: int
    schedules: Schedules
    """In Temporal, that send the person's messages."""
    runs: Runs
    """Of workflows, in Temporal."""
    payloads: Sequence[str]
    """Whose payloads are kept outside of Temporal, one name a workflow."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing; memory is not counted."""
        counts = (self.state_keys, self.artifacts, self.credentials)
        in_temporal = self.runs.found or self.schedules.names
        return not (self.sessions or in_temporal or self.payloads or any(counts))


async def survey(erasure: Erasure) -> Holdings:
    """What would be removed; nothing is changed.

    Raises:
        TransientError: A store or Temporal does not answer.
    """
    app, user, client = erasure.app, erasure.user, erasure.client
    sessions = await erasure.session_service.user_sessions(app_name=app, user_id=user)
    known = await _workflows(erasure)
    runs = await runs_of(client, app=app, user=user, known=known)
    state = await erasure.session_service.get_user_state(app_name=app, user_id=user)
    artifacts, credentials = await _others(erasure, sessions, dry_run=True)
    return Holdings(
        sessions=sessions,
        state_keys=len(state),
        artifacts=artifacts,
        credentials=credentials,
        schedules=await schedules_of(client, app=app, user=user),
        runs=runs,
        payloads=await _owners(
            client, {*runs.workflows, *(one.workflow_id for one in known)} - runs.shared
        ),
    )


async def erase(erasure: Erasure) -> Holdings:
    """Remove all that is kept of a person; what that was.

    Open invocations are ended first, so that nothing is written behind our back. A repeat removes
    what is left: after an error, run it again. When it has ended, nothing is left but what
    `UNREACHED` names; somebody who writes again meanwhile has data again. It takes up to two
    minutes, as Temporal takes its time.

    Raises:
        TransientError: A store or Temporal does not answer.
    """
    app, user = erasure.app, erasure.user
    # Schedules before anybody looks, that none starts a run meanwhile; sessions last: what they say
    # of workflows and artifacts is what a repeat goes by.
    schedules = await schedules_of(erasure.client, app=app, user=user)
    await remove_schedules(erasure.client, schedules)
    found = replace(await survey(erasure), schedules=schedules)
    await remove(erasure.client, found.runs)
    if blobs := _blobs(erasure.client):
        for owner in found.payloads:
            await blobs.remove(owner)
    await _others(erasure, found.sessions, dry_run=False)
    if erasure.memory_service:
        await erasure.memory_service.delete_memory(app_name=app, user_id=user)
        await erasure.memory_service.scrub()
    for key in found.sessions:
        await erasure.session_service.delete_session(
            app_name=app, user_id=user, session_id=key.session_id
        )
    await erasure.session_service.delete_user_state(app_name=app, user_id=user)
    await erasure.session_service.scrub()
    await removed(erasure.client, found.runs)
    return found


async def _others(
    erasure: Erasure, sessions: Sequence[SessionKey], *, dry_run: bool
) -> tuple[int, int]:
    """Count artifacts and credentials, and remove them unless it is a dry run."""
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
    """Those that run the user's invocations, as the session store knows."""
    records = all_invocations(erasure.session_service, app_name=erasure.app, user_id=erasure.user)
    lease_owners = [TemporalLeaseOwner.parse(record.lease_owner) async for _, record in records]
    here = erasure.client.namespace
    return [one for one in lease_owners if one is not None and one.namespace == here]


def _blobs(client: Client) -> SharedBlobs | None:
    storage = client.data_converter.external_storage
    if not isinstance(storage, OwnedStorage):
        return None
    (driver,) = storage.drivers
    blobs = driver.blobs if isinstance(driver, PayloadDriver) else None
    return blobs if isinstance(blobs, FileBlobs | ObjectBlobs) else None


async def _owners(client: Client, workflows: Iterable[str]) -> list[str]:
    """Of the workflows that have payloads outside of Temporal, the names they are kept under."""
    blobs = _blobs(client)
    names = [owner_folder(owner_of(client.namespace, workflow)) for workflow in workflows]
    return [name for name in names if blobs and await _keeps(blobs, name)]


async def _keeps(blobs: SharedBlobs, owner: str) -> bool:
    async with aclosing(blobs.of(owner)) as kept:
        return await anext(kept, None) is not None
