"""The model: Gemini's wire format on loopback, with another answer each time it is asked.

Every answer carries a number of its own, ``~1f2e3d4c``, in its text and in its calls' arguments. So
of two answers to one question only one may ever be seen, and it can be told which (F2).
The spawner starts it with RUN_DIR.
"""

import asyncio
import json
import random
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from campaign.apps import ASKER, MODEL_KEY, SECOND
from campaign.run_folder import RunFolder
from campaign.workload import MARK, NONCE, WORD
from harness.journal import note
from tests.stubs.gemini_stub import GeminiStub, answer

Answer = tuple[str, list[tuple[str, dict[str, Any]]]]
"""A text, and calls."""

SCRIPTS: dict[str, list[Answer]] = {
    "cashier": [("", [("charge", {"amount": 10})]), ("Charged.", [])],
    "scoped": [
        ("", [("scope", {"amount": 3})]),
        ("", [("charge", {"amount": 1})]),
        ("Kept.", []),
    ],
    "tripler": [
        ("", [("charge", {"amount": 1}), ("late", {}), ("charge", {"amount": 2})]),
        ("All.", []),
    ],
    "greeter": [("Over to you.", [("transfer_to_agent", {"agent_name": "helper"})])],
    "helper": [("", [("charge", {"amount": 5})]), ("Helped.", [])],
    "left": [("", [("mark", {"side": "left"})]), ("Left.", [])],
    "right": [("", [("mark", {"side": "right"})]), ("Right.", [])],
    "payer": [("", [("pay", {"amount": 4})]), ("Paid.", [])],
    "approver": [("", [("refund", {"amount": 7})]), ("Settled.", [])],
    "failer": [("", [("fail", {})])],
    "spender": [("", [("charge", {"amount": 1})])] * 6,
    "filer": [("", [("save", {})]), ("", [("load", {})]), ("Filed.", [])],
    "keeper": [("", [("remember", {})]), ("", [("recall", {})]), ("Recalled.", [])],
    "signer": [("", [("sign_in", {})]), ("Signed in.", [])],
    "poisoner": [("", [("poison", {})]), ("Survived.", [])],
    "raiser": [("", [("raising", {})]), ("Endured.", [])],
    "writer": [("Written.", [])],
    "talker": [("Heard.", [])],
    "sleeper": [("", [("nap", {})]), ("Rested.", [])],
    "decliner": [("", [("refund", {"amount": 7})]), ("Settled.", [])],
    "forgetter": [("", [("nap", {}), ("refund", {"amount": 7})]), ("Settled.", [])],
}
"""By agent: what it says after none of its calls of this invocation, after one, after two."""
DELAYS = {"talker": (0.6, 0.9)}
"""Seconds until an agent's answer: a crowd has to last."""


@dataclass(kw_only=True)
class CampaignModel(GeminiStub):
    """Answers by what the prompt says, not by how often it was asked: workers may ask again."""

    folder: RunFolder

    def _entry(self, number: int) -> dict[str, Any]:
        body, headers = self.requests[number]["body"], self.requests[number]["headers"]
        agent, invocation, step = _question(body)
        nonce = f"~{uuid.uuid4().hex[:8]}"
        dice = random.Random(f"{invocation}/{agent}/{step}")  # noqa: S311 - dice are no secrets
        text, calls = SCRIPTS[agent][step]
        pid, _, task = headers[ASKER].partition(":")
        note(
            self.folder.asked,
            pid=int(pid),
            task=task,
            agent=agent,
            invocation=invocation,
            step=step,
            nonce=nonce,
            paired=is_paired(body["contents"]),
            seen=sorted(set(re.findall(f"{NONCE}|{WORD}", json.dumps(body["contents"])))),
            keyed=headers.get("x-goog-api-key") == MODEL_KEY,
            release=2 if SECOND in str(body["systemInstruction"]) else 1,
        )
        self.requests[number] = {}  # the log has it; a long campaign asks often
        parts = [{"text": f"{text} {nonce}"}] if text else []
        parts += [_call(name, {**args, "nonce": nonce}) for name, args in calls]
        content = {"role": "model", "parts": parts}
        return {
            "body": answer(content=content, finishReason="STOP"),
            "delay": dice.uniform(*DELAYS.get(agent, (0.01, 0.15))),
        }


def _call(name: str, args: dict[str, Any]) -> dict[str, Any]:
    if name == "transfer_to_agent":
        args = {"agent_name": args["agent_name"]}  # its declaration knows nothing else
    return {"functionCall": {"name": name, "args": args}}


def _question(body: dict[str, Any]) -> tuple[str, str, int]:
    """Which agent asks, in which invocation, after how many of its own turns there."""
    agent = re.search(r"agent:(\w+)", str(body["systemInstruction"]))
    contents: list[dict[str, Any]] = body["contents"]
    start = max(index for index, content in enumerate(contents) if _marked(content))
    step = sum(content["role"] == "model" for content in contents[start:])
    if agent is None:
        raise AssertionError("every agent of the campaign says its name in its instruction")
    return agent[1], _marked(contents[start]), step


def _marked(content: dict[str, Any]) -> str:
    """The invocation that a user's message begins; empty for other contents."""
    text = str(content["parts"][0].get("text", ""))
    begins = content["role"] == "user" and text.startswith(MARK)
    return text.removeprefix(MARK).split()[0] if begins else ""


def is_paired(contents: list[dict[str, Any]]) -> bool:
    """Whether each turn's calls are answered by the content after it, one response each (I9)."""
    asked: list[str] = []
    for content in contents:
        answered = [part["functionResponse"]["name"] for part in _having(content, "Response")]
        if sorted(answered) != sorted(asked):
            return False
        asked = [part["functionCall"]["name"] for part in _having(content, "Call")]
    return not asked


def _having(content: dict[str, Any], what: str) -> list[dict[str, Any]]:
    return [part for part in content.get("parts", []) if f"function{what}" in part]


async def main(folder: RunFolder) -> None:
    """Serve until a signal ends the process; the address is in ``model.url``.

    Whoever is started after it listens where it did: its port is known to the proxy before it.
    """
    port = folder.path / "model.port"
    stub = CampaignModel(folder=folder, port=int(port.read_text()) if port.exists() else 0)
    await stub.start()
    if not port.exists():
        port.write_text(str(stub.port))
        (folder.path / "model.url").write_text(stub.url)
    await asyncio.Event().wait()


def start(arguments: list[str]) -> None:
    """Run it."""
    asyncio.run(main(RunFolder(Path(arguments[0]))))
