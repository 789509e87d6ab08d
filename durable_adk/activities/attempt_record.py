"""Records the attempts of model and tool steps that produced no result, with their cost."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from google.genai import types

from durable_adk.activities.commit.notes import offer_note
from durable_adk.activities.step import ActiveStep
from durable_adk.attempt_history import worker_identity
from durable_adk.calling.closing import uninterrupted
from durable_adk.errors import StoreUnavailableError, TransientError, describe
from durable_adk.models.llm_response import LlmResponse
from durable_adk.sessions.call_attempt import AttemptEnd, CallAttempt
from durable_adk.sessions.records import ATTEMPT
from durable_adk.wire.steps import ModelStep, ToolStep


@dataclass
class AttemptRecorder:
    """One attempt of a model or tool step; it stores a note unless it has a result (I10).

    Notes are best effort: if one cannot be written, the run continues.
    """

    active: ActiveStep[ModelStep | ToolStep]
    kept: bool = False
    """Whether the model's response, or the tool's result, is stored in a note."""
    _model: str = ""
    _started: float | None = None
    _usage: types.GenerateContentResponseUsageMetadata | None = None
    _ended: bool = False

    async def record_lost(self) -> None:
        """Record earlier attempts that were lost before they could do so; existing notes are kept.

        A failed attempt at a model call that left no note is recorded as lost, because of its cost.
        A tool may have failed so often that checking for each note would take long.
        """
        number, history = self.active.attempt.number, self.active.attempt.history
        unexcused = isinstance(self.active.step, ModelStep)
        for one in history.unexcused(number) if unexcused else history.lost(number):
            worker = history.worker_of(one)
            await self._note(one, AttemptEnd.LOST, worker=worker)

    def begin(self, model: str = "") -> None:
        """Record that the model call or the tool run starts now."""
        self._model, self._started = model, time.time()

    def saw(self, response: LlmResponse) -> None:
        """Take the token usage from a response or chunk; the last one reported is right."""
        self._usage = response.usage_metadata or self._usage

    @asynccontextmanager
    async def recorded(self) -> AsyncGenerator[None]:
        """Record the attempt as failed if the body raises after `begin`.

        An attempt whose result is stored is not recorded, because another attempt continues with
        that result.
        """
        try:
            yield
        except asyncio.CancelledError as error:
            if self._started is not None and not self.kept:
                await uninterrupted(self.ended(AttemptEnd.CANCELLED, error))
            raise
        except Exception as error:
            if self._started is not None and self._is_recorded(error):
                await self.ended(AttemptEnd.FAILED, error)
            raise

    def _is_recorded(self, error: Exception) -> bool:
        if self.kept and isinstance(error, TransientError):
            return False
        # While a store is unavailable, a tool may run again every two seconds, for hours. Of such
        # attempts only the 1st, 2nd, 4th, 8th ... are recorded. A model's attempts cost tokens, so
        # all are.
        waits = isinstance(error, StoreUnavailableError) and isinstance(self.active.step, ToolStep)
        return not (waits and self.active.attempt.number & (self.active.attempt.number - 1))

    async def ended(self, how: AttemptEnd, error: BaseException) -> None:
        """Record, once, that the attempt produced no result."""
        if self._ended:
            return
        self._ended = True
        kind, message = describe(error)
        started = self._started
        await self._note(
            self.active.attempt.number,
            how,
            model=self._model,
            started=started,
            seconds=None if started is None else round(max(time.time() - started, 0.0), 3),
            worker=worker_identity(),
            error_type=kind,
            error_message=message or None,
            usage_metadata=self._usage,
        )

    async def _note(self, number: int, how: AttemptEnd, **known: Any) -> None:
        step: ModelStep | ToolStep = self.active.step
        name = step.event_id
        if isinstance(step, ToolStep):
            name += f"/{step.call_id}"
            known |= {"tool": step.tool, "call_id": step.call_id}
        attempt = CallAttempt(event_id=step.event_id, attempt=number, ended=how, **known)
        await offer_note(self.active, ATTEMPT, f"{name}.{number:03}", attempt.to_json())
