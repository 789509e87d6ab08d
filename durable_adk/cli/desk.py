"""Where somebody answers the calls that wait, and sees what comes of it."""

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing, redirect_stdout
from dataclasses import dataclass
from typing import Any

import typer
from google.genai import types

from durable_adk.cli.places import Places
from durable_adk.cli.questions import show_questions
from durable_adk.cli.reach import Scope, reach
from durable_adk.cli.terminal import EventPrinter
from durable_adk.cli.waiting import Waiting, find_waiting, pick, waiting_of
from durable_adk.client.invocation_client import InvocationClient
from durable_adk.conversation.pending_calls import PendingCall
from durable_adk.embedded.stores import Stores
from durable_adk.log import configure
from durable_adk.wire.messages import InvocationRequest

Respond = Callable[[PendingCall], Awaitable[dict[str, Any]]]
"""Makes the response to a call, or refuses one of another kind."""

_UNKNOWN = "`durable-adk pending` shows whether the answer was taken."


@dataclass(frozen=True, kw_only=True)
class Desk:
    """What the options of a command that answers say."""

    places: Places
    target: str | None
    user: str | None
    session: str | None
    detach: bool
    as_json: bool

    async def answer(self, call_id: str, respond: Respond) -> None:
        """Answer the call, then print the events until the invocation ends or pauses again."""
        configure("warning")
        printer = EventPrinter(as_json=self.as_json)
        # Agents may print; that must not get between our lines of JSON.
        with redirect_stdout(sys.stderr if self.as_json else sys.stdout):
            async with self.places.sessions(existing=True) as sessions:
                scope = await Scope.find(
                    sessions, self.target, user=self.user, session=self.session
                )
                waiting = await find_waiting(sessions, scope.where)
            ids = ((item.call.call_id, item.key, item) for item in waiting)
            found = pick(ids, call_id, "call that waits")
            message = _message(found.call, await respond(found.call))
            async with (
                self.places.stores() as stores,
                reach(self.places, stores, found.record, app=scope.app) as conversation,
            ):
                await self._send(conversation, found, message, printer)
                await self._tell_what_waits(stores, found)

    async def _send(
        self,
        conversation: InvocationClient,
        found: Waiting,
        message: types.Content,
        printer: EventPrinter,
    ) -> None:
        key = found.key
        answer = {"app": key.app_name, "user": key.user_id, "session": key.session_id}
        request = InvocationRequest.parse({**answer, "message": message, "create_session": False})
        taken = False
        try:
            async with aclosing(conversation.answer(request)) as feed:
                async for event in feed:
                    taken = True  # the first event is the answer itself
                    if self.detach:
                        _note(f"The answer to {found.call.call_id} is taken.")
                        return
                    if event.author != "user":
                        printer.show(event)
        except asyncio.CancelledError:
            _note(f"Interrupted; {self._how_to_go_on(found) if taken else _UNKNOWN}")
            raise

    def _how_to_go_on(self, found: Waiting) -> str:
        if self.target is None:
            return "the answer is taken, and its worker goes on."
        key, name = found.key, found.record.invocation_id
        command = ["durable-adk", "attach", self.target, name, "--session", key.session_id]
        command += ["--user", key.user_id, *self.places.options]
        return f"the answer is taken. Go on with: {shlex.join(command)}"

    async def _tell_what_waits(self, stores: Stores, found: Waiting) -> None:
        if self.detach:
            return
        options = [*self.places.options, *(["--target", self.target] if self.target else [])]
        name = found.record.invocation_id
        still = await waiting_of(stores.session_service, found.key, name)
        show_questions(still, options=options, file=sys.stderr)


def _note(text: str) -> None:
    typer.echo(text, err=True)  # beside the events, which are the output


def _message(call: PendingCall, response: dict[str, Any]) -> types.Content:
    part = types.FunctionResponse(id=call.call_id, name=call.name, response=response)
    return types.Content(role="user", parts=[types.Part(function_response=part)])
