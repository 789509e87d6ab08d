"""What two tellings of a conversation have that is not the same."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any, NamedTuple

from tests.adk.declared import EVERYWHERE, Rule

Told = dict[str, Any]
"""What came of a conversation, as JSON (`tests.adk.play`)."""

ABSENT = "-"
"""Stands for what one side has not got."""


class Difference(NamedTuple):
    """A place in the tellings, and what each has there."""

    where: str
    """Keys and indexes; it ends with ``+`` where one side has an item more."""
    ours: Any
    adks: Any

    @property
    def kind(self) -> str:
        """The place without indexes and ids; of an item that one side alone has, what it is."""
        place = re.sub(r"<\w+>|\b\d+\b", "N", self.where)
        place = re.sub(r"^(turns\.N|kept\.[^.]+)\.events", "events", place)
        if not place.endswith("+"):
            return place
        side, item = ("ours", self.ours) if self.adks == ABSENT else ("ADK's", self.adks)
        return f"{place} {side}: {_gist(item)}"

    def __str__(self) -> str:
        """The place, then both."""
        return f"{self.where}\n    ours:  {self.ours}\n    ADK's: {self.adks}"


def differences(
    ours: Told, adks: Told, rules: Sequence[Rule] = EVERYWHERE, *, by_agent: bool = False
) -> list[Difference]:
    """Return all of them.

    Times, ids of events and what the rules say are left out before, and other ids are numbered.

    Args:
        ours: What came of it here.
        adks: What google-adk made of it.
        rules: What is declared for every conversation.
        by_agent: Whether agents ran side by side: then only the order of each one's is compared.
    """
    of_graph = '"output_for"' in json.dumps(ours)
    rules = [rule for rule in rules if not (rule.of_agents and of_graph)]
    told = [_by_agent(each) if by_agent else each for each in (ours, adks)]
    one, other = (_left("", _numbered(_plain(each)), rules) for each in told)
    if by_agent:
        one, other = _with_sorted_prompts(one), _with_sorted_prompts(other)
    return list(_unequal("", one, other))


def _left(where: str, value: Any, rules: Sequence[Rule]) -> Any:
    """What the rules leave of a value."""
    if isinstance(value, dict):
        kept = {key: _left(f"{where}.{key}", item, rules) for key, item in value.items()}
        value = {key: item for key, item in kept.items() if item is not None}
    if isinstance(value, list):
        value = [_left(f"{where}.{index}", item, rules) for index, item in enumerate(value)]
    for rule in rules:
        value = rule.of(where.lstrip("."), value)
    return value


def _unequal(where: str, ours: Any, adks: Any) -> Iterator[Difference]:
    if isinstance(ours, dict) and isinstance(adks, dict):
        for key in sorted(ours.keys() | adks.keys()):
            yield from _unequal(f"{where}.{key}", ours.get(key, ABSENT), adks.get(key, ABSENT))
    elif isinstance(ours, list) and isinstance(adks, list):
        yield from _unequal_items(where, ours, adks)
    elif ours != adks:
        yield Difference(where.lstrip("."), ours, adks)


def _unequal_items(where: str, ours: list[Any], adks: list[Any]) -> Iterator[Difference]:
    if len(ours) == len(adks) and not all(isinstance(item, str) for item in ours + adks):
        for index, (one, other) in enumerate(zip(ours, adks, strict=True)):
            yield from _unequal(f"{where}.{index}", one, other)
        return
    if ours == adks:
        return
    # One side has more, so the numbers of its ids run on: they are not compared.
    ours, adks = _without_numbers(ours), _without_numbers(adks)
    one, other = ([json.dumps(item, sort_keys=True) for item in items] for items in (ours, adks))
    added = f"{where}.+".lstrip(".")
    for kind, i, j, k, m in SequenceMatcher(a=one, b=other, autojunk=False).get_opcodes():
        if kind == "replace" and j - i == m - k and isinstance(ours[i], dict):
            yield from _unequal(where, ours[i:j], adks[k:m])
        elif kind != "equal":
            yield from (Difference(added, item, ABSENT) for item in ours[i:j])
            yield from (Difference(added, ABSENT, item) for item in adks[k:m])


def _gist(item: Any) -> str:
    """A hook, an event or a request in a few words."""
    if not isinstance(item, dict):
        return str(item).partition("\n")[0][:90]
    parts = (item.get("content") or item).get("parts") or []
    author = item.get("author") or item.get("agent")
    kinds = [key for part in parts for key in sorted(part)] or ([] if author else sorted(item))
    words = [author, *kinds, item.get("error_code")]
    return " ".join(filter(None, words))[:90]


def _by_agent(told: Told) -> Told:
    """The telling with what each agent does together."""

    def sorted_events(each: Mapping[str, Any] | None) -> Any:
        return each and {**each, "events": sorted(each["events"], key=_agent_of)}

    return told | {
        "turns": [sorted_events(turn) for turn in told["turns"]],
        "kept": {place: sorted_events(kept) for place, kept in told["kept"].items()},
        "hooks": sorted(told["hooks"], key=lambda hook: hook.split()[1:2] or ["", hook]),
        "requests": sorted(told["requests"], key=lambda one: one["agent"]),
    }


def _agent_of(event: Mapping[str, Any]) -> tuple[str, str]:
    """The agent that an event is of; all nodes of a graph have one author, and their branches."""
    return event["author"], event.get("branch") or ""


def _with_sorted_prompts(told: Told) -> Told:
    """The telling without the order in which a prompt has what others did meanwhile."""
    requests = [
        request | {"contents": sorted(request["contents"], key=json.dumps)}
        for request in told["requests"]
    ]
    return told | {"requests": requests}


def _plain(told: Told) -> Told:
    """The telling without what is up to chance: times, events' ids, OAuth2's `state`, orders."""
    text = json.dumps(_without_times(told | {"hooks": _by_call(told["hooks"])}))
    for state in set(re.findall(r"[?&]state=([\w-]+)", text)):
        text = text.replace(state, "<state>")
    return json.loads(text)


def _by_call(hooks: list[str]) -> list[str]:
    """The hooks, those of calls that are made at once by call."""
    together = groupby(hooks, lambda hook: "_tool" in hook)
    return [
        hook
        for of_tools, some in together
        for hook in (sorted(some, key=_call_of) if of_tools else some)
    ]


def _call_of(hook: str) -> tuple[str, bool]:
    name, _, call = hook.partition(" ")
    return call, name != "before_tool"


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        left_out = {"timestamp", "start_timestamp", "end_timestamp"}
        left_out |= {"id"} if "author" in value else set()
        kept = {key: _without_times(item) for key, item in value.items() if key not in left_out}
        if (calls := kept.get("long_running_tool_ids")) is not None:
            kept["long_running_tool_ids"] = sorted(calls)  # a set, in any order
        return kept
    if isinstance(value, list):
        return [_without_times(item) for item in value]
    return value


def _numbered(told: Told) -> Told:
    """The telling with the ids of invocations and calls numbered by their first place in it."""
    text = json.dumps(told)
    for key, letter in (("invocation_id", "i"), ("id", "c")):
        ids = list(dict.fromkeys(_ids(told, key)))
        for number in sorted(range(len(ids)), key=lambda each: -len(ids[each])):
            text = text.replace(json.dumps(ids[number])[1:-1], f"<{letter}{number}>")
    return json.loads(text)


def _ids(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get(key), str) and value[key]:
            yield value[key]
        for each in sorted(value):
            yield from _ids(value[each], key)
    elif isinstance(value, list):
        for item in value:
            yield from _ids(item, key)


def _without_numbers(items: list[Any]) -> list[Any]:
    return json.loads(re.sub(r"<[ic]\d+>", "<>", json.dumps(items)))
