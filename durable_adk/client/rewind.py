"""Taking a session back to before an invocation (semantics REW-1..4, RUN-32)."""

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.genai import types

from durable_adk.artifacts.base_artifact_service import BaseArtifactService
from durable_adk.client.invocation_client import Backend
from durable_adk.conversation.rewind import artifacts_to_restore, rewind_event, taken_back
from durable_adk.errors import InvalidRequestError, SessionBusyError, StaleSessionError
from durable_adk.sessions.base_session_service import BaseSessionService, InvocationRecord, Status
from durable_adk.sessions.session import Session, SessionKey

ATTEMPTS = 5
"""How often to begin anew because something else was stored meanwhile."""
PATIENCE = 30.0
"""Seconds that an invocation which waits may take to end."""
_EMPTY = types.Part(inline_data=types.Blob(data=b"", mime_type="application/octet-stream"))
"""The content of a file that did not exist: versions are never taken back (REW-3)."""


@dataclass(frozen=True, kw_only=True)
class Rewinding:
    """Rewinds the sessions of a store."""

    sessions: BaseSessionService
    backend: Backend
    artifacts: BaseArtifactService | None

    async def rewind(self, key: SessionKey, before_invocation_id: str) -> None:
        """Make everything since an invocation's first event count no more; nothing is deleted.

        The invocations that wait and are taken back are cancelled first: who answers them then is
        refused. Files are saved, and then the event is appended, which alone decides.

        Raises:
            InvocationNotFoundError: The session has no such invocation (REW-4).
            SessionNotFoundError: There is no such session.
            SessionBusyError: An invocation is active in the session, or one that waits does not
                end.
            InvalidRequestError: Files are to be restored, and there is no artifact service.
        """
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await self._rewind(key, before_invocation_id)
            except StaleSessionError:
                # By a summary of the last invocation, or by a message: then this is refused next.
                if attempt == ATTEMPTS:
                    raise
            else:
                return

    async def _rewind(self, key: SessionKey, before: str) -> None:
        await self._end_waiting(key, before)
        revision, state = await self._at_rest(key)
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
        # Refused if a message has come since `revision`, before or after it was looked for.
        await self.sessions.append_event(session, marker)

    async def _at_rest(self, key: SessionKey) -> tuple[int, dict[str, Any]]:
        """The session's revision and state, while nothing runs in it."""
        revision, state = await self.sessions.read_state(key)
        active = await self.sessions.active_invocation(key)
        if active is not None:
            raise SessionBusyError(
                f"Invocation {active.invocation_id!r} is active in this session; wait for its end, "
                "or cancel it, before you rewind."
            )
        return revision, state

    async def _end_waiting(self, key: SessionKey, before: str) -> None:
        revision, _ = await self._at_rest(key)
        events = [item.event for item in await self.sessions.read_events(key, upto=revision)]
        for invocation_id in taken_back(events, before_invocation_id=before):
            record = await self.sessions.get_invocation(key, invocation_id)
            if record is not None and record.status is Status.PAUSED:
                await self._end(key, record)

    async def _end(self, key: SessionKey, record: InvocationRecord) -> None:
        if not await self.backend.cancel(key, record.invocation_id, record):
            # Whatever waited is gone; say so in the store, for everybody.
            await self.sessions.close_invocation(
                key,
                invocation_id=record.invocation_id,
                epoch=record.epoch,
                status=Status.ABANDONED,
            )
            return
        try:
            async with asyncio.timeout(PATIENCE):
                await self._until_closed(key, record.invocation_id)
        except TimeoutError:
            raise SessionBusyError(
                f"Invocation {record.invocation_id!r}, which waits for an answer, was cancelled "
                f"and has not ended in {PATIENCE:g} s; make sure that a worker is running."
            ) from None

    async def _until_closed(self, key: SessionKey, invocation_id: str) -> None:
        while True:
            revision, _ = await self.sessions.read_state(key)
            record = await self.sessions.get_invocation(key, invocation_id)
            if record is None or record.sealed:
                return
            await self.sessions.wait_for_change(key, after=revision, timeout=1.0)

    async def _restored(
        self, key: SessionKey, versions: Mapping[str, int | None]
    ) -> dict[str, int]:
        """Save each file's old content as a new version, each time, so that it is the newest."""
        if not versions:
            return {}
        if self.artifacts is None:
            raise InvalidRequestError(
                f"To take back changes of {', '.join(map(repr, versions))}, give Runner the "
                "artifact_service that the workers use."
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
                **owner, filename=filename, artifact=old or _EMPTY
            )
        return saved
