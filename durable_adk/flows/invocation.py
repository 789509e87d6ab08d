"""One open invocation: what the loop remembers between events.

Everything here is rebuilt by replay from the results of the effects: nothing of it needs storing.
"""

import asyncio
from typing import Any

from durable_adk.context import InvocationContext, LoopSession
from durable_adk.events.event import Event
from durable_adk.payloads import CommitStep, InvocationRequest, Opened, user_content
from durable_adk.runtime import Runtime
from durable_adk.sessions.session import SessionKey
from durable_adk.sessions.state import is_temp, without_temp

MAX_RESULT_TEXT = 65_536


class Invocation:
    """An open invocation and the one way to commit to it."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        request: InvocationRequest,
        key: SessionKey,
        opened: Opened,
        cancelled: bool = False,
    ) -> None:
        self.runtime = runtime
        self.request = request
        self.opened = opened
        self.cancelled = cancelled
        """Whether it was cancelled while it was being opened."""
        self.invocation_id = opened.record.invocation_id
        self.key = key
        self.user_content = user_content(request.message)
        self.session = LoopSession(key, dict(opened.state or {}))
        self.revision = opened.record.start_seq
        self.model_calls = 0
        self.tool_calls = 0
        self.events = 1
        self.last_event_id: str | None = None
        self.final_text = ""
        self.open_calls: dict[str, tuple[str, Event]] = {}
        """Calls that have no response yet: id to (function name, the event that holds it)."""
        self._committed: dict[str, Any] = dict(opened.state or {})
        self._ids = 0
        self._way = ""

    def next_id(self) -> str:
        """The next event id: the invocation and a position, the same at every replay (D5)."""
        self._ids += 1
        return f"{self.invocation_id}.{self._way}{self._ids}"

    def turn_to_end(self) -> None:
        """Number the events that seal a cancelled run apart from those it would have gone on with.

        When a crash lost the record of commits, the run that is repeated may hear of a cancellation
        earlier than the first did; the ids that come next are taken by what that one stored.
        """
        self._ids, self._way = 0, "end"

    def place(self, ctx: InvocationContext, event_id: str) -> dict[str, Any]:
        """The fields every `Step` has, for a step of the agent run `ctx`."""
        return {
            "key": self.key,
            "invocation_id": self.invocation_id,
            "revision": self.revision,
            "run_start": ctx.run_start,
            "agent": ctx.agent_name,
            "branch": ctx.branch,
            "event_id": event_id,
            "local_state": self.local_state(),
        }

    def local_state(self) -> dict[str, Any]:
        """What steps must see beyond the committed state: `temp:` keys and dirty writes."""
        return {
            key: value
            for key, value in self.session.state.items()
            if key not in self._committed or self._committed[key] != value
        }

    def apply_local(self, state: dict[str, Any]) -> None:
        """Take over the `temp:` keys of a step's delta; they are in no stored event (TRAP-7)."""
        self.session.state.update({k: v for k, v in state.items() if is_temp(k)})

    @property
    def calls_left(self) -> int | None:
        """Model calls the invocation may still make; None: any number (CTX-3)."""
        limit = self.request.run_config.max_llm_calls
        return None if limit <= 0 else limit - self.model_calls

    def count_model_call(self) -> None:
        """Count one logical call: not its attempts, not a callback's answer (TRAP-36)."""
        self.model_calls += 1

    async def commit(self, event: Event) -> None:
        """Store an event; when this returns it is durable, and only then may the agent go on.

        The event is completed in place with id, invocation id and timestamp where they are missing.
        """
        self._complete(event)
        self.apply_local(event.actions.state_delta)
        event.actions.state_delta = without_temp(event.actions.state_delta)
        step = CommitStep(
            key=self.key,
            invocation_id=self.invocation_id,
            epoch=self.opened.record.epoch,
            event=event,
        )
        write = asyncio.ensure_future(self.runtime.commit_event(step))
        try:
            self.revision = await asyncio.shield(write)
        except asyncio.CancelledError:
            # A cancellation waits for the commit that is under way: whether it happened decides
            # which calls are open, and so what has to be sealed.
            self.revision = await write
            self._remember(event)
            raise
        self._remember(event)

    def _complete(self, event: Event) -> None:
        event.id = event.id or self.next_id()
        event.invocation_id = event.invocation_id or self.invocation_id
        event.timestamp = event.timestamp or self.runtime.now()
        metadata = self.request.run_config.custom_metadata
        if metadata:
            event.custom_metadata = {**metadata, **(event.custom_metadata or {})}

    def _remember(self, event: Event) -> None:
        self.events += 1
        self.last_event_id = event.id
        self.session.state.update(event.actions.state_delta)
        if self.opened.state is not None:
            self._committed.update(event.actions.state_delta)
        else:
            # Nobody reads state here: keep only what must travel with the steps.
            self.session.state = {k: v for k, v in self.session.state.items() if is_temp(k)}
        for call in event.get_function_calls():
            self.open_calls[call.id or ""] = (call.name or "", event)
        for response in event.get_function_responses():
            self.open_calls.pop(response.id or "", None)
        if event.is_final_response() and event.text:
            self.final_text = event.text[:MAX_RESULT_TEXT]
