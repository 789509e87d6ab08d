"""Users of the HTTP server: one at each of its limits, and one who plays beside them.

All answers are noted. Messages are in journals, as those of other clients.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import httpx

from campaign.player import PATIENCE, digest
from campaign.run_folder import RunFolder
from campaign.scale import Scale
from campaign.web_main import OPEN, UNREAD, token_of
from campaign.workload import BURST, CROWD, WEB, Limit, Turn
from durable_adk import errors
from durable_adk.events import Event
from harness.journal import note

APP = "plain"
"""What the user beside the others plays."""
EVERY = 2.0
"""Seconds between two tries to go beyond a limit."""
PAUSE = 1.0
"""Seconds between two messages, or two tries to send one: fewer than may come."""
VALUES = 60_000
"""More than a body may have."""
OK, CONFLICT, TOO_LARGE, TOO_MANY = 200, 409, 413, 429
LIMITED = (TOO_LARGE, TOO_MANY)
GONE = (OK, 204, 404)


@dataclass(frozen=True)
class WebUser:
    """A user of the server."""

    folder: RunFolder
    user: str

    statuses: set[int] = field(default_factory=set[int])
    """Of all answers."""

    @property
    def over(self) -> bool:
        """Whether nothing new is to begin, and the limit was reached."""
        return self.folder.stop.exists() and not self.statuses.isdisjoint(LIMITED)

    @asynccontextmanager
    async def http(self, token: str = "") -> AsyncGenerator[httpx.AsyncClient]:
        """Connections that say who asks."""
        headers = {"authorization": f"Bearer {token or token_of(self.user)}"}
        url = self.folder.web.read_text()
        async with httpx.AsyncClient(base_url=url, headers=headers, timeout=PATIENCE) as made:
            yield made

    @asynccontextmanager
    async def asked(
        self, http: httpx.AsyncClient, method: str, path: str, **body: Any
    ) -> AsyncGenerator[httpx.Response | None]:
        """Send a request, and note what is answered; None: nothing is, as yet or as it broke."""
        async with AsyncExitStack() as stack:
            got, why = None, ""
            try:
                got = await stack.enter_async_context(http.stream(method, path, **body))
            except httpx.TransportError as error:
                why = repr(error)
            status = got.status_code if got else 0
            self.statuses.add(status)
            note(self.folder.answers, user=self.user, asked=path, status=status, why=why)
            yield got

    async def ask(self, http: httpx.AsyncClient, method: str, path: str, **body: Any) -> int:
        """Send a request, and read its answer; its status, or 0."""
        async with self.asked(http, method, path, **body) as got:
            if got is not None:
                await got.aread()
            return got.status_code if got else 0

    async def play(self, turn: Turn) -> None:
        """Send a turn until its outcome is known, as `Player.play` does."""
        async with self.http() as http:
            sessions = f"/apps/{turn.app}/users/{turn.user}/sessions"
            made = turn.number > 1
            for attempt in count(1):
                made = made or await self._made(http, sessions, turn.session)
                if made and await self._once(http, turn, attempt):
                    return
                await asyncio.sleep(PAUSE)

    async def _made(self, http: httpx.AsyncClient, sessions: str, name: str) -> bool:
        """Create a session; whether it is there."""
        return await self.ask(http, "POST", sessions, json={"sessionId": name}) in (OK, CONFLICT)

    async def _once(self, http: httpx.AsyncClient, turn: Turn, attempt: int) -> bool:
        """Send a turn and follow it; whether its outcome is known."""
        names = {**turn._asdict(), "invocation": turn.invocation, "attempt": attempt}
        body = {
            "appName": turn.app,
            "userId": turn.user,
            "sessionId": turn.session,
            "invocationId": turn.invocation,
            "newMessage": {"role": "user", "parts": [{"text": turn.message}]},
        }

        def say(kind: str, **fields: Any) -> None:
            note(self.folder.journal(WEB), operation="run", type=kind, **names, **fields)

        def ends(problem: dict[str, str]) -> bool:
            kind = problem["type"]
            known: type[Exception] = getattr(errors, kind, Exception)
            passing = issubclass(known, (errors.TransientError, errors.RateLimitError))
            if issubclass(known, (errors.QueueFullError, errors.RateLimitError)):
                # Also when the head of the answer was sent before that was known.
                note(self.folder.answers, user=self.user, asked="/run_sse", status=TOO_MANY)
            say("info" if passing else "fail", error=kind, message=problem["message"][:300])
            return not passing

        say("invoke")
        try:
            asking = self.asked(http, "POST", "/run_sse", json=body)
            async with asyncio.timeout(PATIENCE), asking as got:
                if got is None:
                    return False
                if got.status_code != OK:
                    return ends(json.loads(await got.aread())["error"])
                async for line in got.aiter_lines():
                    if not line.startswith("data:"):
                        continue
                    data = json.loads(line.removeprefix("data:"))
                    if "error" in data:
                        told = data["error_details"]
                        return ends({"type": told["error_type"], "message": told["error_message"]})
                    event = Event.model_validate(data)
                    say("event", event=event.id, digest=digest(event))
        except (TimeoutError, httpx.TransportError) as error:
            say("info", error=repr(error)[:300])
            return False
        say("ok")
        return True


async def act(folder: RunFolder, scale: Scale) -> None:
    """Have a user at each limit, and one beside them, until the run's folder says stop."""
    if not scale.everything:
        return
    async with asyncio.TaskGroup() as group:
        group.create_task(_beside(WebUser(folder, WEB), scale.turns))
        for limit, at in AT.items():
            group.create_task(at(WebUser(folder, limit.user)))


async def _beside(user: WebUser, turns: int) -> None:
    for number in count():
        session, turn = divmod(number, turns)
        await user.play(Turn(APP, WEB, f"{APP}-{WEB}-{session}", turn + 1))
        if number + 1 >= turns and user.folder.stop.exists():
            return
        await asyncio.sleep(PAUSE)


async def _open(user: WebUser) -> None:
    """Hold as many streams as may be."""
    while not user.over:
        async with user.http() as http, AsyncExitStack() as stack:
            for _ in range(OPEN):
                await stack.enter_async_context(user.asked(http, "GET", "/changes"))
            while await user.ask(http, "GET", "/caller") == TOO_MANY and not user.over:  # noqa: ASYNC110 - the server says when
                await asyncio.sleep(EVERY)
        await asyncio.sleep(EVERY)


async def _unread(user: WebUser) -> None:
    """Leave a large answer unread, and ask for it once more."""
    sessions = f"/apps/{APP}/users/{user.user}/sessions"
    large = {"filename": "large", "artifact": {"text": "x" * UNREAD}}
    files, kept = f"{sessions}/large/artifacts", 0
    while not user.over:
        async with user.http() as http:
            if kept != OK:
                await user.ask(http, "POST", sessions, json={"sessionId": "large"})
                kept = await user.ask(http, "POST", files, json=large)
            async with user.asked(http, "GET", f"{files}/large"):
                while not user.over:
                    async with user.asked(http, "GET", f"{files}/large") as got:
                        if got is None or got.status_code != TOO_MANY:
                            break
                    await asyncio.sleep(EVERY)
        await asyncio.sleep(EVERY)
    async with user.http() as http:  # else the auditor would look for the call that has saved it
        while await user.ask(http, "DELETE", f"{files}/large") not in GONE:  # noqa: ASYNC110 - the same
            await asyncio.sleep(EVERY)


async def _often(user: WebUser) -> None:
    """Ask as often as may be, and once more."""
    await _until_refused(user, token_of(user.user))


async def _stranger(user: WebUser) -> None:
    """Invent tokens."""
    await _until_refused(user, "invented")


async def _until_refused(user: WebUser, token: str) -> None:
    async with user.http(token) as http:
        while not user.over:
            if await user.ask(http, "GET", "/caller") == TOO_MANY:
                await asyncio.sleep(EVERY)


async def _large(user: WebUser) -> None:
    """Send bodies that are too large, or have too many values."""
    async with user.http() as http:
        while not user.over:
            for content in (json.dumps([1] * VALUES), "x" * 4_000_000):
                typed = {"content-type": "application/json"}
                await user.ask(http, "POST", "/run", content=content, headers=typed)
            await asyncio.sleep(EVERY)


async def _queued(user: WebUser) -> None:
    """Send more messages to a session than may wait there."""
    first, *others = [
        Turn(CROWD, user.user, f"{CROWD}-{user.user}", turn + 1) for turn in range(BURST)
    ]
    await user.play(first)  # it makes the session
    await asyncio.gather(*map(user.play, others))


AT: dict[Limit, Callable[[WebUser], Coroutine[Any, Any, None]]] = {
    Limit.OPEN: _open,
    Limit.UNREAD: _unread,
    Limit.OFTEN: _often,
    Limit.STRANGER: _stranger,
    Limit.LARGE: _large,
    Limit.QUEUED: _queued,
}
