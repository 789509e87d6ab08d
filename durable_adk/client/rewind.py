"""Rewinds a session to before an invocation (REW-1..4, RUN-32)."""

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from durable_adk.artifacts.base_artifact_service import BaseArtifactService, removal
from durable_adk.client.invocation_client import Backend
from durable_adk.conversation.rewind import artifacts_to_restore, rewind_event, taken_back
from durable_adk.errors import InvalidRequestError, SessionBusyError, StaleSessionError
from durable_adk.sessions.records import InvocationRecord, Status
from durable_adk.sessions.session import Session, SessionKey
from durable_adk.sessions.session_log import SessionLog

ATTEMPTS = 5
"""Maximum attempts if other writes intervene."""
CANCEL_TIMEOUT = 30.0
"""Seconds in which a paused invocation must end after its cancellation."""


@dataclass(frozen=True, kw_only=True)
class Rewinding:
    """Rewinds the sessions of a store."""

    sessions: SessionLog
    backend: Backend
    artifacts: BaseArtifactService | None

    async def rewind(self, key: SessionKey, before_invocation_id: str) -> None:
        """Rewind a session to before an invocation's first event; nothing is deleted.

        Paused invocations that are rewound are cancelled first, so answers to them are refused.
        Then files are saved. The rewind takes effect with the event that is appended last.

        Raises:
            InvocationNotFoundError: The session has no such invocation (REW-4).
            SessionNotFoundError: There is no such session.
            SessionBusyError: An invocation is active in the session, or a paused one does not end.
            InvalidRequestError: Artifacts must be restored, and there is no artifact service.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._rewind(key, before_invocation_id)
            except StaleSessionError:
                # A compaction, or a message; with a message, the next attempt is refused.
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    async def _rewind(self, key: SessionKey, before: str) -> None:
        await self._cancel_paused(key, before)
        revision, state = await self._idle_state(key)
        events = [item.event for item in await self.sessions.read_events(key, upto=revision)]
        marker = rewind_event(
            events,
            before_invocation_id=before,
            current_state=state,
            initial_state=await self.sessions.read_initial_state(key),
        )
        name = f"e-{uuid.uuid4()}"
        marker.id, marker.invocation_id, marker.timestamp = f"{name}.0", name, time.time()
        versions = artifacts_to_restore(events, before_invocation_id=before)
        marker.actions.artifact_delta = await self._restored(key, versions)
        app_name, user_id, session_id = key
        session = Session(id=session_id, app_name=app_name, user_id=user_id, revision=revision)
        # Refused if a message has arrived since `revision`.
        await self.sessions.append_event(session, marker)

    async def _idle_state(self, key: SessionKey) -> tuple[int, dict[str, Any]]:
        """Return the session's revision and state, if no invocation is active."""
        revision, state = await self.sessions.read_state(key)
        active = await self.sessions.active_invocation(key)
        if active is not None:
            raise SessionBusyError(
                f"Invocation {active.invocation_id!r} is active in this session; wait for its end, "
                "or cancel it, then rewind."
            )
        return revision, state

    async def _cancel_paused(self, key: SessionKey, before: str) -> None:
        revision, _ = await self._idle_state(key)
        events = [item.event for item in await self.sessions.read_events(key, upto=revision)]
        for invocation_id in taken_back(events, before_invocation_id=before):
            record = await self.sessions.get_invocation(key, invocation_id)
            if record is not None and record.status is Status.PAUSED:
                await self._cancel(key, record)

    async def _cancel(self, key: SessionKey, record: InvocationRecord) -> None:
        if not await self.backend.cancel(key, record.invocation_id, record):
            # Its workflow is gone; close the invocation in the store.
            await self.sessions.close_invocation(
                key,
                invocation_id=record.invocation_id,
                epoch=record.epoch,
                status=Status.ABANDONED,
            )
            return
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT):
                await self._until_closed(key, record.invocation_id)
        except TimeoutError:
            raise SessionBusyError(
                f"Invocation {record.invocation_id!r}, which is paused, was cancelled "
                f"and has not ended in {CANCEL_TIMEOUT:g} s; check that a worker is running."
            ) from None

    async def _until_closed(self, key: SessionKey, invocation_id: str) -> None:
        while True:
            revision = await self.sessions.read_revision(key)
            record = await self.sessions.get_invocation(key, invocation_id)
            if record is None or record.sealed:
                return
            await self.sessions.wait_for_change(key, after=revision, timeout=1.0)

    async def _restored(
        self, key: SessionKey, versions: Mapping[str, int | None]
    ) -> dict[str, int]:
        """Save each artifact's old content as its newest version."""
        if not versions:
            return {}
        if self.artifacts is None:
            raise InvalidRequestError(
                f"Restoring {', '.join(map(repr, versions))} needs the artifact_service that the "
                "workers use; give it to Runner."
            )
        owner = key._asdict()
        saved: dict[str, int] = {}
        for filename, version in versions.items():
            old = None
            if version is not None:
                old = await self.artifacts.load_artifact(
                    **owner, filename=filename, version=version
                )
            saved[filename] = await self.artifacts.save_artifact(
                **owner, filename=filename, artifact=old or removal()
            )
        return saved
