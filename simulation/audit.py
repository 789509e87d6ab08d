"""Checks of every schedule against the undisturbed one.

The names are those of the invariants that are promised (I1 append once, I3 order, I4 fold, I6 one
writer, I8 effects, I9 pairing, I10 no re-asking, I11 liveness, I12 accepted is durable, I13
replayable, I15 cancel, I24 nothing left). I2, I5 and I7 show as a difference from the undisturbed
log.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from durable_adk.errors import LeaseLostError
from simulation.attempts import THEIRS
from simulation.busy_session import busy, competing_message, refused, steered_into
from simulation.child_sessions import all_calls, all_responses, child_sessions
from simulation.graph_audit import graphs
from simulation.simulation import Result
from simulation.stored_events import ASK, calls, normalized, parts, responses
from simulation.user_actions import asks, cleared, denied

Json = dict[str, Any]
_EPOCH = re.compile(r',"epoch":\d+')
_LAST = re.compile(r'"(text|lastEventId)":"[^"]*",')
_STEPS = {"call_model", "call_tool", "run_callback", "execute_code", "run_function", "run_steps"}
_STEPS |= {"run_node"}
INTERRUPTIONS = {"cancel", "terminate"}


def audit(result: Result, control: Result) -> list[str]:
    """What is wrong with a schedule; nothing, if nothing is."""
    problems = list(result.problems)
    if problems:
        return problems  # it has not come to its end: what is left of it says nothing
    problems += _log(result)
    problems += _state(result)
    problems += _writers(result)
    problems += _ledger(result)
    problems += _repeats(result, control)
    problems += _workflows(result)
    problems += _ends(result)
    problems += child_sessions(result)
    problems += graphs(result)
    problems += denied(result)
    if result.cleared is not None:
        problems += cleared(result, control)
    elif result.scenario.competing is not None:
        problems += competing_message(result, control)
    elif INTERRUPTIONS & set(_kinds(result)):
        problems += _interrupted(result, control)
    elif result.scenario.next_release is not None and not asks(result):
        pass  # the release that does not ask has run the call
    elif result.scenario.at_most_once and "unknown" in "".join(result.bodies):
        if len(result.bodies) != len(control.bodies):
            problems.append(f"I2: {len(result.bodies)} events and not {len(control.bodies)}")
    else:
        problems += _same(result, control)
    return problems


def _kinds(result: Result) -> list[str]:
    return [done.partition(" ")[0] for done in result.done]


def _log(result: Result) -> Iterator[str]:
    ids = Counter(event["id"] for event in result.events)
    yield from (f"I1: event {name} {count} times" for name, count in ids.items() if count > 1)
    if '"temp:' in "".join(result.bodies):
        yield "I4: a temp: key is stored"
    made, given = calls(result.events), responses(result.events)
    answered = Counter(response["id"] for response in given)
    for call in made:
        most = 2 if result.scenario.waits else 1
        if not 1 <= answered[call["id"]] <= most:
            yield f"I9: call {call['id']} has {answered[call['id']]} responses"
    orphans = {response["id"] for response in given} - {call["id"] for call in made}
    yield from (f"I9: a response without call {name}" for name in orphans)


def _state(result: Result) -> Iterator[str]:
    fold: Json = {}
    for event in result.events:
        fold |= event["actions"]["stateDelta"]
    state = {key: json.loads(text) for key, text in result.state.items()}
    if state != fold:
        yield f"I4: the state is {state}, the deltas make {fold}"


def _writers(result: Result) -> Iterator[str]:
    if result.lease not in (None, _left(result)):
        yield f"I6: {result.lease} still holds the lease"
    if result.tickets and not any(run.closed == "terminated" for run in result.runs):
        yield f"I24: {result.tickets} wait although nobody runs"
    order = [event["invocationId"] for event in result.events]
    turns = sum(a != b for a, b in pairwise(order)) + 1
    if order and turns != len(set(order)) and not result.scenario.waits:
        yield f"I6: invocations interleave: {order}"
    for name in dict.fromkeys(order):
        users = [e for e in result.events if e["invocationId"] == name and e["id"] == f"{name}.0"]
        if len(users) != 1:
            yield f"I12: {len(users)} user events of {name}"
    # Which may come before the opening; and of what was deleted nothing is known.
    if not INTERRUPTIONS & set(_kinds(result)) and result.cleared is None:
        heard = {name for name in result.accepted if f"{name}.0" in _ids(result)}
        unknown = set(result.accepted) - set(order) - heard - busy(result)
        yield from (f"I12: {name} is not known" for name in sorted(unknown))


def _ledger(result: Result) -> Iterator[str]:
    calls = {call["id"]: call for call in all_calls(result)}
    keys: dict[str, set[str]] = {}
    for run in result.ledger.runs:
        if result.cleared is not None and run.key.partition(":")[0] not in result.records:
            continue  # of a session that is gone
        keys.setdefault(run.call_id, set()).add(run.key)
        if run.call_id not in calls:
            yield f"I8: a tool ran for {run.call_id}, which was never called"
        elif str(calls[run.call_id]["args"].get("ask")) != run.args:
            yield f"I8: a tool ran with the arguments of ask {run.args}"
    if any(len(found) != 1 for found in keys.values()):
        yield f"I8: a call has several keys: {keys}"
    if len({key for found in keys.values() for key in found}) < len(keys):
        yield f"I8: calls share a key: {keys}"
    yield from _echoes(result, calls, set(keys))


def _echoes(result: Result, calls: dict[str, Json], ran: set[str]) -> Iterator[str]:
    """Every response is that of the call which is stored."""
    for response in all_responses(result):
        echoed, call = response["response"].get("ask"), calls.get(response["id"])
        if echoed is not None and call is not None:
            if echoed != call["args"]["ask"]:
                yield f"I8: the response of ask {echoed} stands for ask {call['args']['ask']}"
            if response["id"] not in ran:
                yield f"I8: {response['id']} has a response and never ran"


def _repeats(result: Result, control: Result) -> Iterator[str]:
    """Nothing is done again but what was lost, and of that only what may be."""
    again = result.again
    runs = Counter(run.key for run in result.ledger.runs)
    if result.scenario.at_most_once and any(count > 1 for count in runs.values()):
        yield f"I8: a tool that promises to run at most once ran {runs}"
    if result.scenario.next_release is not None and not asks(result):
        return
    ran, asked = len(result.ledger.runs), len(result.ledger.asked)
    # After a reset, what was under way is done by a first attempt; a session that was cleared is
    # talked to again.
    anew = _kinds(result).count("reset") + (result.cleared is not None)
    # An attempt of a batch repeats what its predecessor has not finished: one step, or one turn.
    batches = again["run_steps"]
    more = sum(again[name] for name in ("call_tool", *THEIRS)) + anew * len(control.ledger.runs)
    more += batches * max(Counter(run.revision for run in control.ledger.runs).values(), default=0)
    if ran > len(control.ledger.runs) + more:
        yield f"I8: tools ran {ran} times, with {more} attempts more"
    # An attempt of a batch of items repeats those that have not ended.
    items = again["run_items"] * len(control.ledger.nodes)
    more = again["run_node"] + items + anew * len(control.ledger.nodes)
    if len(result.ledger.nodes) > len(control.ledger.nodes) + more:
        yield f"I8: nodes ran {len(result.ledger.nodes)} times, with {more} attempts more"
    more = again["call_model"] + batches + anew * len(control.ledger.asked)
    if asked > len(control.ledger.asked) + more:
        yield f"I10: the model was asked {asked} times, with {more} attempts more"


def _ends(result: Result) -> Iterator[str]:
    ends = Counter(e["invocationId"] for e in result.events if e["id"].endswith(".end"))
    for name, record in result.records.items():
        if name == _left(result):
            continue
        if not record.status.closed:
            yield f"I11: {name} is {record.status}"
        failed = record.status.value != "completed"
        if ends[name] != int(failed):
            yield f"I15: {name} is {record.status} with {ends[name]} error events"


def _workflows(result: Result) -> Iterator[str]:
    """The workflow has ended as the store says, with what is stored, and heeded its end."""
    for run in _closed(result):
        record = result.records.get(run.workflow_id)
        if run.workflow_id not in result.accepted:
            continue  # an agent that is used as a tool; see `simulation.child_sessions`
        elsewhere = run.workflow_id in busy(result) or _heard(result, run)
        if record is None and (elsewhere or result.cleared is not None):
            continue
        status = record.status.value if record else "cancelled"
        failure = run.closed.fail_workflow_execution.failure.application_failure_info
        closed = run.closed.WhichOneof("variant")
        if payload := run.closed.complete_workflow_execution.result.data:
            text = json.loads(payload)["text"]
            if text and text not in _texts(result):
                yield f"I2: {run.workflow_id} says {text!r}, which is not stored"
        if status == "cancelled" and failure.type == "InvocationCancelledError":
            continue  # found out by a later run of the same task
        if (closed == "cancel_workflow_execution") != (status == "cancelled"):
            yield f"I15: {run.workflow_id} is {status} and its workflow ended by {closed}"
        for task in run.history[run.cancelled_at :] if run.cancelled_at is not None else ():
            scheduled = {c.schedule_activity.activity_type for c in task.commands}
            if scheduled & _STEPS:
                yield f"I15: after its cancellation it scheduled {scheduled & _STEPS}"


def _texts(result: Result) -> set[str | None]:
    """The texts of events, and the outputs of nodes as texts."""
    outputs = [event["output"] for event in result.events if "output" in event]
    told = {o if isinstance(o, str) else json.dumps(o, ensure_ascii=False) for o in outputs}
    return told | {part.get("text") for part in parts(result.events)}


def _heard(result: Result, run: Any) -> bool:
    """Return whether the message of this run was delivered to another invocation, as it reports."""
    payload = run.closed.complete_workflow_execution.result.data
    listener = payload and json.loads(payload).get("steered")
    return bool(listener) and listener == steered_into(result).get(run.workflow_id)


def _ids(result: Result) -> set[str]:
    return {event["id"] for event in result.events}


def _left(result: Result) -> str | None:
    """Return an invocation that was terminated and has no later message to close it."""
    last = result.events[-1]["invocationId"] if result.events else None
    terminated = [run.workflow_id for run in result.runs if run.closed == "terminated"]
    return last if last in terminated else None


def _same(result: Result, control: Result) -> Iterator[str]:
    """Nothing that a client can see differs from the undisturbed run."""
    got, expected = normalized(_in_order(result)), normalized(_in_order(control))
    for number, (one, other) in enumerate(zip(got, expected, strict=False)):
        if one != other:
            yield f"I2 I3 I7: event {number} is {one}, undisturbed it is {other}"
            return
    if len(got) != len(expected):
        yield f"I2: {len(got)} events and not {len(expected)}"
    outcomes, undisturbed = sorted(_outcomes(result)), sorted(_outcomes(control))
    # Whose invocation is ended by the run that was reset, says so.
    ended = "reset" in _kinds(result) and LeaseLostError.__name__ in refused(result).values()
    if outcomes != undisturbed and not ended:
        yield f"I2: the results are {outcomes}, undisturbed {undisturbed}"


def _interrupted(result: Result, control: Result) -> Iterator[str]:
    """What was stored stays, and the end comes after it (I15)."""
    expected = set(control.bare)
    for text, event in zip(result.bare, result.events, strict=True):
        record = result.records[event["invocationId"]]
        seal = event["id"].endswith((".sealed", ".end"))
        if not seal and text not in expected and not result.scenario.waits:
            yield f"I15: {text} is in no undisturbed run"
        if seal and record.status.value == "completed":
            yield f"I15: {event['id']} seals an invocation that has completed"
    for name in result.records:
        own = [e["id"] for e in result.events if e["invocationId"] == name]
        sealed = [name.endswith((".sealed", ".end")) for name in own]
        if sealed != sorted(sealed):
            yield f"I15: events behind the seals: {own}"


def _in_order(result: Result) -> list[str]:
    """The stored events; those of lanes side by side, which may mix in any way, lane by lane."""
    if not result.scenario.side_by_side:
        return result.bodies
    branches = [str(event.get("branch", "")) for event in result.events]
    pairs = sorted(zip(branches, range(len(branches)), strict=True))
    return [result.bodies[number] for _, number in pairs]


def _outcomes(result: Result) -> Iterator[str]:
    """What the workflows returned."""
    for run in _closed(result):
        payload = run.closed.complete_workflow_execution.result
        text = ASK.sub("", payload.data.decode())
        text = _EPOCH.sub("", text)  # an early answer has no lease taken twice
        if result.scenario.side_by_side:  # which text is the last one depends
            text = _LAST.sub("", text)
        yield run.closed.WhichOneof("variant") + re.sub(r"\bi\d+\b", "i", text)


def _closed(result: Result) -> Iterator[Any]:
    """The runs that are the last of their chains and were not terminated."""
    for run in result.runs:
        command = None if isinstance(run.closed, str) else run.closed
        if command and not command.HasField("continue_as_new_workflow_execution"):
            yield run
