"""Histories that releases have recorded, replayed on this code (I13, F35).

`make pins` records those of the version that the code says it is, until that is released.
"""

import base64
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity, workflow
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

import durable_adk
from durable_adk.activities.definitions import InvocationActivities
from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.wire.converter import data_converter
from durable_adk.workflows.invocation import InvocationWorkflow
from durable_adk.workflows.runner import workflow_runner
from tests.replay.conversations import CONVERSATIONS, THEIRS
from tests.replay.record import HISTORIES, numbers, of_release, queue

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
MAX_BYTES = 1_000_000
FOLDERS = sorted((path.name for path in HISTORIES.iterdir()), key=numbers)
FILES = [
    pytest.param(release, conversation, id=f"{release}-{conversation.name}")
    for release in FOLDERS
    for conversation in of_release(release)
]


def recorded(release: str, name: str) -> list[dict[str, Any]]:
    """What a release has recorded of a conversation."""
    return json.loads(gzip.decompress((HISTORIES / release / f"{name}.json.gz").read_bytes()))


def values(node: Any, name: str) -> Iterator[Any]:
    """The values of a key, wherever it is."""
    if isinstance(node, dict):
        if name in node:
            yield node[name]
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            yield from values(item, name)


def local_activities(histories: list[dict[str, Any]]) -> Iterator[str]:
    """The names of those that were run; only their markers tell."""
    for attributes in values(histories, "markerRecordedEventAttributes"):
        if attributes["markerName"] == "core_local_activity":
            (data,) = attributes["details"]["data"]["payloads"]
            yield json.loads(base64.b64decode(data["data"]))["activity_type"]


def releases() -> set[str]:
    """Those that the changelog tells of, and the one that this code says it is."""
    told = re.findall(r"^## \[(\d+\.\d+\.\d+)\]", CHANGELOG.read_text(), re.MULTILINE)
    return {*told, durable_adk.__version__}


@pytest.mark.parametrize("release", sorted(releases() | set(FOLDERS), key=numbers))
def test_every_release_has_its_histories(release: str) -> None:
    """I13: each file of each release is there, has something in it, and the corpus is small."""
    folder = HISTORIES / release
    files = {path.name.removesuffix(".json.gz") for path in folder.glob("*")}
    assert files == {one.name for one in of_release(release)} > set()
    assert all(recorded(release, name) for name in files)
    assert sum(path.stat().st_size for path in HISTORIES.rglob("*.gz")) < MAX_BYTES


@pytest.mark.parametrize(("release", "conversation"), FILES)
async def test_what_a_release_has_recorded_replays(release: str, conversation: Any) -> None:
    """I13, F35: this code goes the same way through every history of every release."""
    serve(queue(conversation), AppRegistry([conversation.app()]))
    replayer = Replayer(
        workflows=[InvocationWorkflow],
        data_converter=data_converter,
        workflow_runner=workflow_runner(sandboxed=True),
    )
    for item in recorded(release, conversation.name):
        await replayer.replay_workflow(WorkflowHistory.from_json(item["id"], item["history"]))


OTHERS = {"read_session_events", "read_model_requests", "deliver_webhook"}
"""The only activities of their workflow types, which decide nothing; no history is kept of them."""


@pytest.mark.parametrize("release", FOLDERS)
def test_what_open_invocations_ask_for_still_has_its_name(release: str) -> None:
    """I13: workers have every workflow type, activity, signal that a history may still call."""
    definition = workflow._Definition.must_from_class(InvocationWorkflow)
    known = _activities() | {definition.name, *definition.signals}
    asked = asked_by(release)
    assert len(asked) > 10
    assert asked - THEIRS <= known
    if release == FOLDERS[-1]:
        assert _activities() - OTHERS <= asked, (
            "each has a conversation; none may be renamed unnoticed"
        )


def asked_by(release: str) -> set[str]:
    """The names of workflow types, activities and signals in its histories."""
    asked: set[str] = set()
    for conversation in of_release(release):
        histories = recorded(release, conversation.name)
        for kind in ("activityType", "workflowType"):
            asked |= {found["name"] for found in values(histories, kind)}
        asked |= set(values(histories, "signalName")) | set(local_activities(histories))
    return asked


def _activities() -> set[str | None]:
    """The names of ours."""
    ours = InvocationActivities(None, None).all()  # type: ignore[arg-type] # nothing is called
    definitions = [activity._Definition.from_callable(one) for one in ours]
    return {one.name for one in definitions if one}


def test_the_conversations_are_known_by_different_names() -> None:
    """Two of the same name would be one file."""
    names = [one.name for one in CONVERSATIONS]
    assert len(set(names)) == len(names)
