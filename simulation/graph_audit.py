"""Checks of the logs of graphs: one output per run of a node, edges in order, whole joins."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from durable_adk.graph.base_node import START
from durable_adk.graph.workflow import Workflow
from simulation.simulation import Result
from simulation.stored_events import parts

Json = dict[str, Any]


def graphs(result: Result) -> Iterator[str]:
    """What is wrong with the outputs of a graph's nodes; nothing for other apps."""
    root = result.scenario.app.root_agent
    if not isinstance(root, Workflow):
        return
    for name in dict.fromkeys(event["invocationId"] for event in result.events):
        events = [event for event in result.events if event["invocationId"] == name]
        ends = [event for event in events if _info(event).get("outputFor")]
        outputs = Counter(path for event in ends for path in _info(event)["outputFor"])
        yield from (f"GR-49: {path} has {n} outputs" for path, n in outputs.items() if n > 1)
        yield from _order(root, ends)
    attempts = {(ran.key, ran.path) for ran in result.ledger.nodes}
    if len({key for key, _ in attempts}) != len(attempts):
        yield f"GR-71: runs of nodes share a key: {attempts}"


def _order(root: Workflow, ends: list[Json]) -> Iterator[str]:
    """Each node of the outermost graph ends after those that it follows."""
    seen: dict[str, Any] = {}
    edges = root.graph.edges if root.graph else ()
    joins = {one.name for one in root.static_children() if one.requires_all_predecessors}
    for event in ends:
        for path in _info(event)["outputFor"]:
            run = path.partition("/")[2]
            if not run or "/" in run:  # the graph's own, or of a node below one of these
                continue
            name, value = run.partition("@")[0], _value(event)
            before = [e.from_node.name for e in edges if e.to_node.name == name]
            known = [one for one in before if one in seen or one == START.name]
            if not known or (name in joins and len(known) != len(before)):
                yield f"GR-66: {run} ends before {before}, of which {known} have"
            if name in joins and value != {one: seen.get(one) for one in before}:
                yield f"GR-57: {run} has {value}, and not {seen}"
            seen[name] = value


def _value(event: Json) -> Any:
    if "output" in event:
        return event["output"]
    return "".join(part.get("text", "") for part in parts([event]))


def _info(event: Json) -> Json:
    return event.get("nodeInfo") or {}
