"""Control runs: what each app stores for the same turns, in process and without faults."""

import asyncio
import json
import re
import shutil
from typing import Any

from campaign.apps import make_apps
from campaign.player import Player
from campaign.run_folder import RunFolder
from campaign.workload import ADDED, CROWD, PREFIX, STEADY, Turn, courses
from durable_adk.apps import App
from durable_adk.artifacts import InMemoryArtifactService
from durable_adk.auth.credential_service import InMemoryCredentialService
from durable_adk.errors import DurableAdkError
from durable_adk.memory import InMemoryMemoryService
from durable_adk.runners import Runner
from durable_adk.sessions import InMemorySessionService, SessionKey
from harness.journal import Line, notes

PATIENCE = 600.0
"""Seconds in which all controls must be over; only one that hangs takes as long."""
Control = dict[str, Any]
"""Of one app: by `Turn.course` what its client learns and its events; and the state at the end."""


def normalized(event: dict[str, Any], turn: Turn) -> dict[str, Any]:
    """An event without what differs between runs: times, ids of the run, the model's numbers."""
    kept = {name: value for name, value in event.items() if name != "timestamp"}
    if (actions := event.get("actions")) is not None:
        # Branches extend one list in the order of their commits, which differs.
        delta = {k: v for k, v in actions.get("state_delta", {}).items() if k != ADDED["mark"]}
        kept["actions"] = {**actions, "state_delta": delta}
    return json.loads(plain(json.dumps(kept, sort_keys=True), turn))


def plain(text: str, turn: Turn) -> str:
    """A text without ids of the run and the model's numbers."""
    own = {turn.word: "WORD", turn.invocation: "INV", turn.session: "SESSION", turn.user: "USER"}
    for word, name in own.items():
        text = text.replace(word, name)
    text = re.sub(r"~[0-9a-f]{8}", "~", text)
    text = re.sub(r"\.answer\.[0-9a-f]{32}", ".answer", text)
    found: dict[str, str] = {}
    return re.sub(
        r"adk-[0-9a-f-]+", lambda hit: found.setdefault(hit[0], f"call{len(found)}"), text
    )


async def write_controls(folder: RunFolder, turns: int) -> None:
    """Run the apps that always end alike, in a session of so many invocations; keep what is stored.

    Raises:
        DurableAdkError: One of them comes to no end, without any fault.
    """
    own = RunFolder(folder.path / "control")  # its ledger is not the run's
    own.path.mkdir()
    shutil.copy(folder.path / "model.url", own.path)
    apps, kinds = make_apps(own.path), (*STEADY, CROWD)
    try:
        async with asyncio.timeout(PATIENCE):
            controls = await asyncio.gather(
                *(_control(own, apps[kind], courses(kind, turns)) for kind in kinds)
            )
    except TimeoutError as error:
        said = {line["app"]: line for line in notes(own.journal(PREFIX))}
        text = "\n".join(json.dumps(line) for line in said.values())
        what = f"The controls have not ended within {PATIENCE:g} s; what was last heard of each:"
        raise DurableAdkError(f"{what}\n{text}") from error
    folder.controls.write_text(json.dumps(dict(zip(kinds, controls, strict=True))))


async def _control(folder: RunFolder, app: App, count: int) -> Control:
    sessions = InMemorySessionService()
    journal = folder.journal(PREFIX)
    turns = [Turn(app.name, PREFIX, f"{PREFIX}-{app.name}", n + 1) for n in range(count)]
    runner = Runner(
        app=app,
        session_service=sessions,
        artifact_service=InMemoryArtifactService(),
        memory_service=InMemoryMemoryService(),
        credential_service=InMemoryCredentialService(),
        auto_create_session=True,
    )
    async with runner:
        for turn in turns:
            await Player(runner, journal).play(turn)
    key = SessionKey(*turns[0][:3])
    stored = [item.event for item in await sessions.read_events(key)]
    _, state = await sessions.read_state(key)
    last = turns[-1]
    return {
        "turns": [
            {
                "outcome": outcome_of(notes(journal), turn),
                "events": [
                    normalized(event.model_dump(mode="json", exclude_none=True), turn)
                    for event in stored
                    if event.invocation_id == turn.invocation
                ],
            }
            for turn in sorted(turns, key=lambda turn: turn.course)
        ],
        "state": {
            name: json.loads(plain(json.dumps(value), last))
            for name, value in state.items()
            if ":" not in name
        },
    }


def outcome_of(journal: list[Line], turn: Turn) -> str:
    """How a turn ended for its client: ``ok``, the error's name, or nothing yet."""
    for line in journal:
        own = line["invocation"] == turn.invocation and line["operation"] == "run"
        if own and line["type"] in ("ok", "fail"):
            return str(line.get("error", "ok"))
    return ""
