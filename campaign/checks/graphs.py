"""Checks of the log against the runs of nodes: GR-74, GR-155."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from campaign.checks.tasks import Tasks
from campaign.checks.violation import Violation
from campaign.evidence import Evidence, Row


def one_output(found: Evidence) -> Iterator[Violation]:
    """I1: each run of a node has one output at most."""
    for name, rows in found.by_invocation().items():
        for path, times in Counter(path for row in rows for path in _outputs(row)).items():
            if times > 1:
                yield Violation("a run of a node has several outputs", f"{name} {path}", times)


def nodes_once(found: Evidence) -> Iterator[Violation]:
    """I10, B-4, B-6: a run of a node whose end is stored does not run again.

    An attempt that had begun before may still do so.
    """
    acknowledged: dict[str, float] = {}
    for line in found.commits:
        if line["phase"] == "ok":
            acknowledged.setdefault(line["event"], line["at"])
    stored: dict[tuple[str, str], float] = {}
    for name, rows in found.by_invocation().items():
        for row in rows:
            if row.id in acknowledged and _ends(row):
                stored.setdefault((name, _path(row)), acknowledged[row.id])
    tasks = Tasks(found)
    for line in found.nodes:
        at = stored.get((line["invocation"], line["node"]))
        if at is not None and line["at"] > at and tasks.began(line) > at:
            yield Violation("a node that has ended runs again", line["node"], line)


def _info(row: Row) -> dict[str, Any]:
    return row.body.get("node_info") or {}


def _path(row: Row) -> str:
    return str(_info(row).get("path", ""))


def _outputs(row: Row) -> list[str]:
    return _info(row).get("output_for") or [] if row.body.get("output") is not None else []


def _ends(row: Row) -> bool:
    """Whether a run of a function, which has one event, has ended with an event."""
    return row.body["author"] != "user" and bool(_path(row))
