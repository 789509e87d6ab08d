"""The tools of the campaign's apps; each notes in the ledger that it begins, and what it did."""

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

from google.genai import types
from temporalio import activity

from campaign.run_folder import RunFolder
from campaign.workload import (
    ADDED,
    ENDLESS,
    FOR_EVER,
    NAP,
    TIMED,
    Place,
    Poison,
    Raised,
    Turn,
    is_control,
)
from durable_adk.auth import AuthConfig, AuthCredential, AuthCredentialTypes
from durable_adk.auth.auth_schemes import APIKey
from durable_adk.context.activity import ToolContext
from durable_adk.memory import MemoryEntry
from harness.journal import Line, note, notes

PAYING = 0.4
"""Seconds that the tool of ``once`` takes."""
KEEPING = 0.4
"""Seconds between a write and the tool's return."""
REPORT, RAW = "report.txt", "raw.bin"
"""The files that are kept, whole and in pieces."""
BLOCKED = 0.3
"""Seconds that the event loop is blocked."""
LONG = 3_000_000
"""Characters of an exception."""
EXIT_CODE = 70


@dataclass(frozen=True)
class Tools:
    """What changes state, and the outside world, which is the ledger."""

    folder: RunFolder

    async def charge(self, amount: int, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Charge the card."""
        await self._work(tool_context, "charge", nonce)
        before = tool_context.state.setdefault(ADDED["charge"], [])
        total = tool_context.state.get("total", 0) + amount
        await asyncio.sleep(0.01)  # both calls of a turn have read by now
        before.append(nonce)
        tool_context.state["total"] = total
        return {"total": total, "nonce": nonce}

    async def scope(self, amount: int, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Write to each scope of the state."""
        await self._work(tool_context, "scope", nonce)
        state, session = tool_context.state, tool_context.session.id
        state[f"app:{session}"] = state.get(f"app:{session}", 0) + amount
        state[f"user:{session}"] = state.get(f"user:{session}", 0) + amount * 2
        state["user:noted"] = nonce
        state["temp:scratch"] = nonce
        state["kept"] = {"nonce": nonce, "amount": amount}
        return {"kept": amount}

    async def mark(self, side: str, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Count on one side."""
        await self._work(tool_context, "mark", nonce)
        tool_context.state[side] = tool_context.state.get(side, 0) + 1
        state, place = tool_context.state, ADDED["mark"]
        state[place] = [*state.get(place, []), nonce]
        return {side: tool_context.state[side], "nonce": nonce}

    async def late(self, nonce: str, tool_context: ToolContext) -> str:
        """Be slower than the others of a turn."""
        await asyncio.sleep(0.3)
        await self._work(tool_context, "late", nonce)
        return "late"

    async def refund(self, amount: int, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Give money back; somebody has to approve it."""
        await self._work(tool_context, "refund", nonce)
        tool_context.state["refunded"] = tool_context.state.get("refunded", 0) + amount
        return {"refunded": amount, "nonce": nonce}

    async def pay(self, amount: int, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Pay, by a way that knows no keys."""
        await self._work(tool_context, "pay", nonce, PAYING)
        return {"paid": amount, "nonce": nonce}

    async def fail(self, nonce: str, tool_context: ToolContext) -> str:
        """Break."""
        await self._work(tool_context, "fail", nonce)
        raise RuntimeError("as always")

    async def nap(self, nonce: str, tool_context: ToolContext) -> str:
        """Take long."""
        ends = not tool_context.session.id.startswith(FOR_EVER)
        await self._work(tool_context, "nap", nonce, NAP if ends else ENDLESS)
        tool_context.state["rested"] = nonce
        return "rested"

    async def idle(self) -> str:
        """Do nothing; only the second release has it, and no model calls it."""
        return "idle"

    async def _work(
        self, context: ToolContext, tool: str, nonce: str, seconds: float | None = None
    ) -> None:
        async with self._noted(context, tool, nonce, seconds):
            pass

    @asynccontextmanager
    async def _noted(
        self, context: ToolContext, tool: str, nonce: str, seconds: float | None = None
    ) -> AsyncGenerator[Line]:
        """Note a run; what is put into the line that is given is noted at its end."""
        decided = context.tool_confirmation
        line: Line = {
            "tool": tool,
            "key": f"{context.invocation_id}:{context.function_call_id}",
            "nonce": nonce,
            "app": context.app_name,
            "user": context.user_id,
            "session": context.session.id,
            "invocation": context.invocation_id,
            "confirmed": decided and decided.confirmed,
            "task": task(),
        }
        note(self.folder.ledger, phase="begun", **line)
        yield line
        # It has taken effect and says so only now: who dies here does it again.
        await asyncio.sleep(pause(line["key"]) if seconds is None else seconds)
        note(self.folder.ledger, phase="done", **line)


class KeepingTools(Tools):
    """What uses the services beside the session store."""

    async def save(self, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Keep a report, whole and in pieces."""
        async with self._noted(tool_context, "save", nonce, KEEPING) as line:
            text = f"Report {nonce}"
            whole = await tool_context.save_artifact(REPORT, types.Part(text=text))
            pieces = await tool_context.save_artifact_stream(RAW, _pieces(text))
            line |= {REPORT: whole, RAW: pieces}
        return {"report": whole, "raw": pieces, "nonce": nonce}

    async def load(self, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Look at what is kept."""
        async with self._noted(tool_context, "load", nonce):
            report = await tool_context.load_artifact(REPORT)
            names = await tool_context.list_artifacts()
        return {"report": report and report.text, "names": names}

    async def remember(self, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Remember something, and what was said so far."""
        async with self._noted(tool_context, "remember", nonce, KEEPING):
            text = f"Noted {code_of(tool_context.session.id)} {nonce}"
            content = types.Content(role="user", parts=[types.Part(text=text)])
            await tool_context.add_memory(memories=[MemoryEntry(content=content)])
            await tool_context.add_session_to_memory()
        return {"remembered": nonce}

    async def recall(self, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Search for what this session has noted, and for what anybody has."""
        async with self._noted(tool_context, "recall", nonce) as line:
            own = await tool_context.search_memory(code_of(tool_context.session.id))
            anybody = await tool_context.search_memory("noted remembered recalled do")
            line["found"] = [memory.text for memory in (*own.memories, *anybody.memories)]
        return {"found": len(own.memories)}

    async def sign_in(self, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Use the user's key, which no store but that of the credentials may ever see."""
        config = sign_in_config(tool_context.session.id)
        async with self._noted(tool_context, "sign_in", nonce):
            found = tool_context.get_auth_response(config)
        if found is None:
            tool_context.request_credential(config)
            return {"status": "asked"}
        turn = Turn.of(tool_context.app_name, tool_context.user_id, tool_context.invocation_id)
        return {"signed_in": found.api_key == turn.secret}


class PoisonTools(Tools):
    """What does harm to the worker that runs it."""

    async def poison(self, nonce: str, tool_context: ToolContext) -> Any:
        """Do what is this turn's kind of harm."""
        name = tool_context.invocation_id
        kind = Turn.of(tool_context.app_name, tool_context.user_id, name).poison
        async with self._noted(tool_context, "poison", nonce) as line:
            if kind is Poison.EXIT and self._is_first(name, line["key"]):
                note(self.folder.ledger, phase="exit", **line)
                os._exit(EXIT_CODE)
            if kind is Poison.BLOCK:
                time.sleep(BLOCKED)  # noqa: ASYNC251 - that is the harm
            if kind is Poison.SYSTEM_EXIT:
                raise SystemExit(EXIT_CODE)
            if kind is Poison.LONG_ERROR:
                raise RuntimeError("x" * LONG)
        return _harmful(kind, nonce)

    def _is_first(self, invocation: str, key: str) -> bool:
        """Whether no run of a call has ended its process; a control's must not."""
        ended = any(
            (line["phase"], line["key"]) == ("exit", key) for line in notes(self.folder.ledger)
        )
        return not (ended or is_control(invocation))


class RaisingTools(Tools):
    """What raises no `Exception`, at the place of its turn."""

    async def before(self, args: dict[str, Any], tool_context: ToolContext, **_: Any) -> None:
        """Raise before the tool runs."""
        turn = Turn.of(tool_context.app_name, tool_context.user_id, tool_context.invocation_id)
        if turn.place is Place.CALLBACK:
            async with self._noted(tool_context, "raising", args["nonce"]):
                blow(turn.raised)

    async def raising(self, nonce: str, tool_context: ToolContext) -> dict[str, Any]:
        """Raise."""
        turn = Turn.of(tool_context.app_name, tool_context.user_id, tool_context.invocation_id)
        async with self._noted(tool_context, "raising", nonce):
            match turn.place:
                case Place.AWAITED:
                    blow(turn.raised)
                case Place.TASK:
                    await asyncio.create_task(blows(turn.raised))
                case Place.TIMER:
                    asyncio.get_running_loop().call_later(TIMED / 2, blow, turn.raised)
                    await asyncio.sleep(TIMED)
                case Place.THREAD:
                    await asyncio.to_thread(blow, turn.raised)
                case Place.DESTRUCTOR:
                    _Falling(turn.raised)
                case _:
                    pass
        return _Unreadable(raised=turn.raised) if turn.place is Place.VALUE else {"nonce": nonce}


class Harm(BaseException):
    """What asyncio does not know."""


_TYPES: dict[Raised, type[BaseException]] = {
    Raised.EXIT: SystemExit,
    Raised.INTERRUPT: KeyboardInterrupt,
    Raised.CLOSED: GeneratorExit,
    Raised.CANCELLED: asyncio.CancelledError,
    Raised.HARM: Harm,
}


def blow(raised: Raised) -> NoReturn:
    """Raise what is no `Exception`."""
    raise _TYPES[raised](EXIT_CODE)


async def blows(raised: Raised) -> NoReturn:
    """Raise it in a task."""
    blow(raised)


class _Falling:
    """A value that raises where it is dropped."""

    def __init__(self, raised: Raised) -> None:
        self._raised = raised

    def __del__(self) -> None:
        blow(self._raised)


class _Unreadable(dict[str, Any]):
    """A value that raises where it is read."""

    def items(self) -> NoReturn:
        """Raise."""
        blow(self["raised"])


def task() -> str:
    """The attempt of a step that runs here: workflow run, activity and number; empty for controls.

    Another worker may have one of the same name, if it is a local activity.
    """
    if not activity.in_activity():
        return ""
    info = activity.info()
    return f"{info.workflow_run_id}/{info.activity_id}/{info.attempt}"


def _harmful(kind: Poison, nonce: str) -> Any:
    """What a tool returns, harmful or not."""
    if kind is Poison.OBJECT:
        return {"object": object()}
    if kind is Poison.NAN:
        return {"number": float("nan")}
    if kind is Poison.DEEP:
        deep: list[Any] = []
        for _ in range(500):
            deep = [deep]
        return {"deep": deep}
    return {"nonce": nonce}


async def _pieces(text: str) -> AsyncGenerator[bytes]:
    for word in text.encode().split(b" "):
        yield word + b" "
        await asyncio.sleep(0.01)


def code_of(session: str) -> str:
    """The word that a session's memories share, and no other text has."""
    return f"code{hashlib.sha256(session.encode()).hexdigest()[:12]}"


def sign_in_config(session: str) -> AuthConfig:
    """How a session's user signs in."""
    scheme = APIKey.model_validate({"type": "apiKey", "in": "header", "name": "X-Key"})
    return AuthConfig(
        auth_scheme=scheme,
        raw_auth_credential=AuthCredential(auth_type=AuthCredentialTypes.API_KEY),
        credential_key=session,
    )


def signed_in(turn: Turn) -> types.FunctionResponse:
    """What a client answers who is asked to sign in, but for the call's id and name."""
    credential = AuthCredential(auth_type=AuthCredentialTypes.API_KEY, api_key=turn.secret)
    config = sign_in_config(turn.session)
    config = config.model_copy(update={"exchanged_auth_credential": credential})
    response = config.model_dump(mode="json", by_alias=True, exclude_none=True)
    return types.FunctionResponse(response=response)


def pause(key: str) -> float:
    """Up to 0.15 s, the same for each attempt."""
    return hashlib.sha256(key.encode()).digest()[0] / 255 * 0.15
