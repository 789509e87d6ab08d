"""Records failed attempts of a model step, so that their cost is visible."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from google.genai import types

from durable_adk.activities.commit.notes import offer_note
from durable_adk.activities.dependencies import Dependencies
from durable_adk.attempt_history import NO_ATTEMPTS, AttemptHistory, worker_identity
from durable_adk.closing import uninterrupted
from durable_adk.errors import TransientError, describe
from durable_adk.models.llm_response import LlmResponse
from durable_adk.models.model_attempt import AttemptEnd, ModelAttempt
from durable_adk.sessions.records import ATTEMPT
from durable_adk.wire.steps import ModelStep


@dataclass(kw_only=True)
class AttemptRecorder:
    """One attempt of a model step; it stores a note unless its response becomes the event (I10).

    Notes are best effort: failing to write one does not stop the run.
    """

    deps: Dependencies
    step: ModelStep
    number: int
    history: AttemptHistory = NO_ATTEMPTS
    kept: bool = False
    """Whether the model's response is stored in a note."""
    _model: str = ""
    _started: float | None = None
    _usage: types.GenerateContentResponseUsageMetadata | None = None
    _ended: bool = False

    @property
    def counted(self) -> int:
        """The attempt's number, not counting attempts lost to an unavailable store, for example."""
        return self.history.counted(self.number)

    async def tell_the_lost(self) -> None:
        """Record earlier attempts that were lost before they could; existing notes are kept."""
        for number in self.history.in_vain(self.number):
            await self._note(
                ModelAttempt(
                    event_id=self.step.event_id,
                    attempt=number,
                    ended=AttemptEnd.LOST,
                    worker=self.history.worker_of(number),
                )
            )

    def begin(self, model: str) -> None:
        """Record that the model call starts now."""
        self._model, self._started = model, time.time()

    def saw(self, response: LlmResponse) -> None:
        """Take the token usage from a response or chunk; the last one reported is correct."""
        self._usage = response.usage_metadata or self._usage

    @asynccontextmanager
    async def recorded(self) -> AsyncGenerator[None]:
        """Record the attempt as failed if the body raises after `begin`.

        An attempt whose response is stored is not recorded, because another attempt continues
        with that response.
        """
        try:
            yield
        except asyncio.CancelledError as error:
            if not self.kept:
                await uninterrupted(self.ended(AttemptEnd.CANCELLED, error))
            raise
        except Exception as error:
            if not (self.kept and isinstance(error, TransientError)):
                await self.ended(AttemptEnd.FAILED, error)
            raise

    async def ended(self, how: AttemptEnd, error: BaseException) -> None:
        """Record, once, that the attempt gave no response."""
        if self._started is None or self._ended:
            return
        self._ended = True
        kind, message = describe(error)
        lasted = max(time.time() - self._started, 0.0)
        await self._note(
            ModelAttempt(
                event_id=self.step.event_id,
                attempt=self.number,
                ended=how,
                model=self._model,
                started=self._started,
                seconds=round(lasted, 3),
                worker=worker_identity(),
                error_type=kind,
                error_message=message or None,
                usage_metadata=self._usage,
            )
        )

    async def _note(self, attempt: ModelAttempt) -> None:
        name = f"{attempt.event_id}.{attempt.attempt:03}"
        await offer_note(self.deps, self.step, ATTEMPT, name, attempt.to_json())
