"""The Temporal activities: one for each effect, with retries and heartbeats."""

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

from temporalio import activity

from durable_adk.activities.attempt import (
    Retry,
    application_errors,
    step_attempt,
    transient,
    transient_or_busy,
    transient_or_unregistered,
)
from durable_adk.activities.attempt_files import AttemptFiles
from durable_adk.activities.effect_rows import CodeEffect, EffectRow, StoreEffect
from durable_adk.activities.effects import EFFECTS, EffectPerformer
from durable_adk.activities.heartbeats import run_to_completion
from durable_adk.activities.invocation.queue import InPlaceWaits
from durable_adk.activities.user_code.event_loop import UserCodeLoop


class InvocationActivities:
    """The activities of workflow type ``Invocation``: one for each row of `effects.EFFECTS`."""

    def __init__(
        self,
        effects: EffectPerformer,
        user_loop: UserCodeLoop,
        files: AttemptFiles | None = None,
    ) -> None:
        self._effects = effects
        self._user_loop = user_loop
        self._files = files
        self._in_place = InPlaceWaits()

    def all(self) -> list[Callable[[Any], Awaitable[Any]]]:
        """Return all activities, for registration with a worker."""
        return [self._activity(row) for row in EFFECTS]

    def _activity(self, row: EffectRow[Any]) -> Callable[[Any], Awaitable[Any]]:
        async def perform(step: Any) -> Any:
            with self._files.noted() if self._files else nullcontext():
                if isinstance(row, StoreEffect):
                    return await self._store(row, step)
                return await self._run_code(row, step)

        perform.__name__ = perform.__qualname__ = row.name
        # The converter decodes the step by these annotations.
        perform.__annotations__ = {"step": row.step, "return": row.result}
        return activity.defn(name=row.name)(perform)

    async def _store(self, row: StoreEffect[Any, Any], step: Any) -> Any:
        """Perform a store effect; retry until the store responds and any needed session is free.

        It waits for the session within this attempt or between retries of the activity.
        """
        waits = row.needs_lease and row.waits(step)
        with application_errors(retry=_retry(row, step, waits=waits)):
            if not waits:
                return await run_to_completion(self._effects.perform(step))
            return await self._in_place.attempt(self._effects.deps, self._effects.perform, step)

    async def _run_code(self, row: CodeEffect[Any, Any], step: Any) -> Any:
        """Perform a code effect. Its errors are final (TRAP-49, PLG-4), except retryable ones.

        A model or a tool may request a retry; otherwise the code only runs again if a worker is
        lost.
        """
        deps = self._effects.deps
        noted_in = step if row.notes_attempts(step) else None
        max_attempts = row.attempts(deps.limits)
        async with step_attempt(
            row.what(step),
            deps,
            step.key,
            noted_in=noted_in,
            counts_lost=row.counts_lost,
            max_attempts=max_attempts,
        ) as this:
            return await self._user_loop.run(self._effects.perform(step, this))


def _retry(row: StoreEffect[Any, Any], step: Any, *, waits: bool) -> Retry:
    passes = transient_or_busy if waits else transient
    if not row.waits_for_app(step):
        return passes
    before = activity.info().attempt - 1
    return lambda error: passes(error) or transient_or_unregistered(error, before=before)
