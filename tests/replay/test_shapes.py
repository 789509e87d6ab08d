"""What later releases have to understand, and what may change of it (docs/run/releasing.md)."""

import json
from copy import deepcopy
from typing import Any

import pytest

import durable_adk
from tests.replay.record import HISTORIES, SHAPES, numbers
from tests.replay.shapes import Shapes, incompatible, shapes

NOW = shapes()
RENEW = "if it has to change, run `make pins` and commit what it writes by itself"
EARLIER = sorted({path.stem for path in SHAPES.iterdir()} - {durable_adk.__version__}, key=numbers)


def kept(release: str) -> Shapes:
    """The shapes that a release has recorded."""
    return json.loads((SHAPES / f"{release}.json").read_text())


def test_nothing_changes_unnoticed() -> None:
    """I13: payloads, tables and names are as the version that the code says it is has recorded."""
    assert kept(durable_adk.__version__) == NOW, RENEW


def test_every_release_has_its_shapes() -> None:
    """I13: those that have histories."""
    assert {path.stem for path in SHAPES.iterdir()} == {path.name for path in HISTORIES.iterdir()}


@pytest.mark.parametrize("release", EARLIER)
def test_what_an_earlier_release_has_written_is_understood(release: str) -> None:
    """I13: its workers, clients and tables, and histories that began with it."""
    assert list(incompatible(kept(release), NOW)) == []


def changed(*path: str, to: Any) -> Shapes:
    """The shapes as a later release may have them; None: without what the path leads to."""
    later = deepcopy(NOW)
    inner = later
    for name in path[:-1]:
        inner = inner[name]
    if to is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = to
    return later


@pytest.mark.parametrize(
    "later",
    [
        changed("activities", to=[*NOW["activities"], "rest"]),
        changed("payloads", "OpenStep", "mood", to="str | None = None"),
        changed("payloads", "Mood", to={"of": "str, required"}),
        changed("migrations", to=[*NOW["migrations"], "v0002_mood.py 17"]),
        changed("tables", "sessions", "mood", to="TEXT"),
        changed("tables", "sessions", "index sessions_of_user", to="user_id"),
    ],
    ids=["activity", "field", "payload", "migration", "column", "index"],
)
def test_what_is_added_is_compatible(later: Shapes) -> None:
    """A later release may know more names, and read and write what may be left out."""
    assert list(incompatible(NOW, later)) == []


@pytest.mark.parametrize(
    ("later", "problem"),
    [
        (changed("activities", to=NOW["activities"][1:]), "activities: call_model is gone"),
        (changed("signals", to=["reply"]), "signals: answer is gone"),
        (changed("payloads", "OpenStep", to=None), "payloads: OpenStep is gone"),
        (changed("payloads", "OpenStep", "eventId", to=None), "OpenStep.eventId is gone"),
        (
            changed("payloads", "OpenStep", "eventId", to="int, required"),
            "OpenStep.eventId was 'str, required' and is 'int, required'",
        ),
        (
            changed("payloads", "ModelStep", "model", to="str, required"),
            "ModelStep.model was 'str | None = None' and is 'str, required'",
        ),
        (
            changed("payloads", "OpenStep", "eventId", to="str = ''"),
            "OpenStep.eventId was 'str, required' and is \"str = ''\"",
        ),
        (
            changed("payloads", "OpenStep", "prepared", to="bool = True"),
            "OpenStep.prepared was 'bool = False' and is 'bool = True'",
        ),
        (
            changed("payloads", "InvocationAnswer", "confirmed", to="bool | None = None"),
            (
                "InvocationAnswer.confirmed was 'bool Strict(strict=True) | None = None' and is "
                "'bool | None = None'"
            ),
        ),
        (
            changed("migrations", to=["v0001_tables.py 17"]),
            f"migrations: {NOW['migrations'][0]} is gone",
        ),
        (
            changed("payloads", "OpenStep", "mood", to="str, required"),
            "OpenStep.mood is new and has to be there",
        ),
        (
            changed("payloads", "Status", to=["running"]),
            "Status: the value abandoned is gone or new",
        ),
        (
            changed("payloads", "Status", to=[*NOW["payloads"]["Status"], "resting"]),
            "Status: the value resting is gone or new",
        ),
        (
            changed("tables", "events", "constraint events_event_id", to=None),
            "events.constraint events_event_id is gone",
        ),
        (changed("tables", "notes", to=None), "tables: notes is gone"),
        (changed("tables", "notes", "body", to=None), "notes.body is gone"),
        (
            changed("tables", "sessions", "mood", to="TEXT, required"),
            "sessions.mood is new and has to be there",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_other_processes_would_miss_is_incompatible(later: Shapes, problem: str) -> None:
    """I13: the problem names the field, which a release must not change."""
    assert problem in list(incompatible(NOW, later))
