"""The auditor passes what is right and catches each wrong that it is for."""

import json
from dataclasses import replace

import pytest

from campaign.auditor import CHECKS, judge
from campaign.checks.clients import UNKNOWN
from campaign.evidence import Evidence
from campaign.leaks import SECRETS, SPOKEN
from campaign.workload import Turn
from tests.campaign.harms import (
    Harm,
    cancel_late,
    change,
    deploy,
    drop,
    fault,
    hung,
    in_store,
    interleave,
    invocation,
    leak,
    left,
    left_over,
    lines,
    lose,
    noisy_neighbour,
    ran,
    repeat,
    restored,
    second_answer,
    slowed,
    state,
    store,
    stores,
    told,
    twice_decided,
)
from tests.campaign.made import (
    APPROVAL,
    MEMORY,
    ONCE,
    PLAIN,
    POISON,
    SIGN_IN,
    SLOW,
    TURNS,
    good,
)
from tests.campaign.made_outside import CLEARED, OLD, OLD_NONCE, workflow_of
from tests.campaign.parts import response, row

OWNER = dict(zip(("app_name", "user_id", "session_id"), CLEARED, strict=True))
FINDING = '{"app":"plain","user":"u","session":"p","problem":"it has forked"}'
CASES: dict[str, list[Harm]] = {
    "append_once": [
        store(PLAIN, 3, id="p.1.2"),
        repeat("commits", phase="ok", event="p.1.1", other={"seq": 9}),
    ],
    "no_loss": [
        lose(PLAIN, 3),
        store(PLAIN, 3, digest="of another text"),
        store(PLAIN, 2, seq=9),
    ],
    "order": [
        store(PLAIN, 2, seq=9),
        lose(PLAIN, 1),
        lambda found: found.events[PLAIN].reverse(),
        store(PLAIN, 3, id="p.1.1"),
    ],
    "fold": [
        state("2"),
        drop("state", key="total"),
        repeat("state", key="total", other={"key": "more"}),
        store(PLAIN, 3, actions={"state_delta": {"temp:x": 1}}),
    ],
    "added": [
        change("state", key="charged")(value="[]"),
        change("state", key="charged")(value='["~00000001", "~00000001"]'),
        drop("state", key="charged"),
    ],
    "atomic": [
        lose(PLAIN, 3),
        lambda found: found.heads[PLAIN].update(revision=5),
        lambda found: found.invocations.pop("p.1"),
        invocation("p.1", start_seq=2),
        invocation("p.1", end_seq=3),
        lambda found: found.invocations.update({"x.1": dict(found.invocations["p.1"])}),
    ],
    "single_writer": [
        interleave,
        lambda found: found.commits.append(
            {**found.commits[0], "phase": "refused", "error": "LeaseLostError"}
        ),
        drop("commits", event="p.1.2", phase="begun"),
    ],
    "undisturbed": [
        store(PLAIN, 3, author="another"),
        lose(PLAIN, 3),
        change("journal", invocation="p.1", type="ok")(type="fail", error="ToolError"),
        lambda found: found.events[APPROVAL].reverse(),
        told(paid=5, nonce="~"),
        told(outcome="unknown"),
    ],
    "foreseen": [
        change("journal", invocation="z.1", type="fail")(error="InvocationTerminatedError"),
        drop("journal", invocation="z.1", operation="cancel"),
        change("journal", invocation="z.1", type="fail")(error="SessionBusyError"),
        change("journal", invocation="z.1", type="fail")(error="TimeoutError"),
        invocation("z.1", status="abandoned"),
    ],
    "tool_effects": [
        drop("ledger", key="p.1:c1", phase="done"),
        change("ledger", key="p.1:c1")(nonce="~00000009"),
        repeat("ledger", key="p.1:c1", other={"key": "p.1:c9"}),
    ],
    "at_most_once": [
        repeat("ledger", key="x7.1:c6", phase="begun"),
        drop("ledger", key="x7.1:c6", phase="done"),
    ],
    "pairing": [
        lose(PLAIN, 2),
        lose(SLOW, 2),
        lose(APPROVAL, 5),
        store(PLAIN, 3, content={"parts": [response("c1", "charge", total=1)]}),
        change("asked", invocation="p.1")(paired=False),
    ],
    "no_re_asking": [
        second_answer,
        repeat("asked", nonce="~00000002", other={"nonce": "~00000009", "at": 60.0}),
        store(PLAIN, 3, content={"parts": [{"text": "Invented. ~00000077"}]}),
    ],
    "repeats": [
        repeat("asked", nonce="~00000002", other={"nonce": "~00000009"}),
        lambda found: (
            [
                repeat("asked", nonce="~00000002", other={"nonce": f"~0000009{n}"})(found)
                for n in range(2)
            ]
            + [found.faults.append(fault("cut"))]
        ),
        lambda found: (
            repeat("asked", nonce="~00000002", other={"nonce": "~00000009"})(found),
            found.faults.append(fault("cut", link="client-temporal")),
        ),
        lambda found: (
            repeat("asked", nonce="~00000002", other={"nonce": "~00000009"})(found),
            found.faults.append(fault("kill_client")),
        ),
    ],
    "artifacts": [
        lambda found: found.artifacts.clear(),
        repeat("artifacts", other={"version": 1}),
        repeat("artifacts"),
        change("artifacts")(version=1),
        change("artifacts")(text="Report ~00000001"),
        change("artifacts")(filename="another.txt"),
    ],
    "memories": [
        drop("memories", session_id=""),
        repeat("memories", session_id=""),
        repeat("memories", session_id="", other={"entry_id": "more"}),
        repeat("memories", session_id="m8", other={"entry_id": "m8.1.7"}),
        lambda found: lines(found, "memories", session_id="m8")[0].update(
            entry='{"content": {"parts": [{"text": "another"}]}}'
        ),
        store(MEMORY, 1, content={"parts": []}),
    ],
    "isolation": [
        store(ONCE, 3, content={"parts": [{"text": "Paid. ~00000002"}]}),
        store(ONCE, 3, content={"parts": [{"text": TURNS["p.1"].word}]}),
        store(APPROVAL, 6, content={"parts": [{"text": TURNS["p.1"].word}]}),
        change("state")(value='"~00000007"'),
        change("artifacts")(text="Report ~00000011"),
        change("memories", session_id="")(user_id="u7"),
        repeat("ledger", key="m8.1:c9", other={"app": "once", "found": ["~00000007"], "user": "u"}),
        change("asked", invocation="p.1")(seen=[TURNS["x7.1"].word]),
        change("journal", event="p.1.2")(event="x7.1.2"),
    ],
    "trespass": [change("tries")(type="given", given="all")],
    "confidential": [leak(SPOKEN)],
    "upgrade": [deploy],
    "containment": [
        change("journal", invocation="k4.1", type="ok")(type="fail", error="ToolError"),
        invocation("k4.1", status="running"),
        store(POISON, 2, error_code="ToolError"),
        store(POISON, 2, content={"parts": [{"text": "x" * 100_000}]}),
        drop("ledger", phase="exit"),
        repeat("ledger", phase="exit"),
        noisy_neighbour,
    ],
    "secrets": [
        leak(SECRETS),
        store(SIGN_IN, 2, content={"parts": [response("c10", "sign_in", signed_in=False)]}),
    ],
    "nothing_unfinished": [left, lambda found: found.left.append("/artifacts/.new/1")],
    "liveness": [
        drop("journal", invocation="p.1", type="ok"),
        invocation("p.1", status="running"),
        invocation("p.1", status="paused"),
        change("workflows")(status="RUNNING"),
    ],
    "in_time": [change("journal", invocation="p.1", type="ok")(at=39.1)],
    "accepted_is_durable": [
        lose(PLAIN, 0),
        lambda found: found.events[PLAIN].append(row(5, "p.1.9", "user", {"text": "do p.1"})),
        lambda found: found.invocations.pop("p.1"),
        change("journal", invocation="z.1", type="fail")(error="SessionBusyError"),
        lambda found: found.invocations.update({"crowd-calm-0.2": found.invocations["p.1"]}),
    ],
    "replayable": [
        change("workflows")(failure="nondeterminism"),
        lambda found: found.workflows[0].pop("failure"),
    ],
    "bounds": [
        change("workflows")(events=5000),
        change("workflows")(bytes=5_000_000),
        change("workflows")(largest=300_000),
    ],
    "cancel": [
        lose(SLOW, 3),
        repeat("ledger", key="z.1:c5", other={"at": 30.0}),
    ],
    "cancel_after_faults": [
        change("journal", invocation="k.1", type="fail")(at=13.6),
        drop("journal", invocation="k.1", type="fail"),
        cancel_late,
    ],
    "sent_again": [
        lambda found: found.repeats[0].pop(2),
        lambda found: found.repeats[0].pop(),
        lambda found: found.repeats[0][-1].update(type="fail", error="SessionBusyError"),
        lambda found: found.repeats[0][1].update(digest="of another text"),
    ],
    "hitl": [
        twice_decided,
        lose(APPROVAL, 4),
        drop("ledger", tool="refund"),
    ],
    "denied": [
        ran("d9.1:c20", pid=1),
        ran("d9.1:c20", pid=2, confirmed=False),
    ],
    "recreated": [
        left_over,
        repeat("state", key="total", other={**OWNER, "value": f'"{OLD_NONCE}"'}),
        change("asked", nonce="~00000022")(seen=[OLD_NONCE]),
        change("asked", nonce=OLD_NONCE)(seen=[Turn(*CLEARED, 21).word], at=10.6),
        change("journal", invocation=OLD.invocation, type="fail")(error="RunError"),
        change("workflows", workflow=workflow_of(OLD))(status="RUNNING"),
        drop("clears", type="kept"),
    ],
    "reset": [
        invocation("p.1", status="running"),
        change("workflows", workflow=workflow_of(TURNS["p.1"]))(status="RUNNING"),
        lambda found: found.repeats[0][-1].update(type="fail", error="InvocationTerminatedError"),
        lambda found: found.events[PLAIN].extend(row(n, "p.1.end", "a") for n in (5, 6)),
    ],
    "noisy neighbour": [slowed(0.9)],
    "tasks_ended": [hung(17)],
    "stream": [
        drop("journal", invocation="p.1", event="p.1.2"),
        drop("journal", invocation="p.1", event="p.1.3"),
        drop("journal", invocation="p.1", event="p.1.1"),
        lambda found: found.journal.insert(2, found.journal[1]),
    ],
    "divergence": [
        restored("asked", first="ok"),
        restored("asked", first="TimeoutError"),
        restored("asked", then="TimeoutError"),
        in_store("refused", "events", "p.1.0", body="{}"),
        in_store("refused", "sessions", "p", revision=3),
        in_store("mended", "events", "p.1.3", body="{}"),
        in_store("mended", "events", "p.1.3", event_id="p.1.4"),
        in_store("mended", "events", "p.1000.6", seq=7),
        in_store("mended", "events", "p.1000.5", seq=0),
        in_store("mended", "invocations", "p.1", status="abandoned"),
        in_store("mended", "sessions", "z", revision=3),
        lambda found: stores(found)["mended"]["state"].append({**found.state[0], "key": "more"}),
        lambda found: stores(found)["mended"]["events"].pop(0),
        lambda found: stores(found)["mended"].update(events=found.rows["events"]),
        lambda found: stores(found)["left"].append(FINDING),
    ],
    "clean_end": [lambda found: found.heads[PLAIN].update(lease_invocation_id="p.1")],
}
"""By check: ways to break what it is for."""


def test_what_is_right_passes_every_check() -> None:
    """I1-I24: evidence in which all is as it must be has no violations."""
    assert {name: some for name, some in judge(good()).violations.items() if some} == {}


def test_a_payment_of_which_nobody_knows_is_no_violation() -> None:
    """I8: what the product says of a lost run may stand in the place of its result."""
    found = good()
    told(**UNKNOWN)(found)
    drop("ledger", key="x7.1:c6", phase="done")(found)
    assert not any(judge(found).violations.values())


def test_a_tool_that_was_given_up_is_no_violation() -> None:
    """F12: if that many of its runs were lost; with fewer, nobody said that it might fail."""
    found = good()
    change("journal", invocation="z.1", type="fail")(error="RunError")(found)
    for _ in range(4):
        repeat("ledger", invocation="z.1", phase="begun")(found)
    assert judge(found).violations["foreseen"]
    repeat("ledger", invocation="z.1", phase="begun")(found)
    assert not judge(found).violations["foreseen"]


@pytest.mark.parametrize(("held_from", "is_wrong"), [(9.0, False), (11.0, False), (13.0, True)])
@pytest.mark.parametrize(
    ("kind", "link"),
    [
        ("usurp", None),
        ("blackhole", "worker-model"),
        ("blackhole", "worker-store"),
    ],
)
def test_a_question_that_was_held_up_is_no_violation(
    kind: str, link: str | None, held_from: float, is_wrong: bool
) -> None:
    """I10: it was on its way before the answer was stored, by whoever took over."""
    found = good()
    repeat("asked", nonce="~00000002", other={"nonce": "~00000009", "at": 60.0})(found)
    assert judge(found).violations["no_re_asking"]
    begun = {"kind": kind, "link": link, "done": True, "began": held_from}
    found.faults.append({**begun, "at": 59.5, "seconds": 59.5 - held_from})
    assert bool(judge(found).violations["no_re_asking"]) is is_wrong


def test_a_question_that_nothing_held_up_is_a_violation() -> None:
    """I10: who was cut off has to look again before asking; clients only listen."""
    found = good()
    repeat("asked", nonce="~00000002", other={"nonce": "~00000009", "at": 60.0})(found)
    found.faults += [
        {"kind": kind, "link": link, "done": True, "began": 9.0, "at": 59.5, "seconds": seconds}
        for kind, link, seconds in (
            ("cut", "worker-model", 0.0),
            ("blackhole", "client-temporal", 50.0),
            ("blackhole", "worker-model", 2.0),  # it had to wait for the other one's end
        )
    ]
    assert judge(found).violations["no_re_asking"]


@pytest.mark.parametrize(
    "reason",
    [
        fault("cut", link="worker-model"),
        fault("freeze_server"),
        fault("stop_worker", began=-5.0, at=-5.0),
    ],
)
def test_a_question_repeated_for_a_reason_is_no_violation(reason: dict) -> None:
    """I10: also the one that a stopped worker could not bring to an end in its grace."""
    found = good()
    repeat("asked", nonce="~00000002", other={"nonce": "~00000009"})(found)
    assert judge(found).violations["repeats"]
    found.faults.append(reason)
    assert not judge(found).violations["repeats"]


def hear(found: Evidence, *, by: str = "z.1", session: str = "s5") -> None:
    """A message that the sleeper's run has heard; in session `s5` messages wish that."""
    turn = Turn("slow", "u", session, 2)
    rows = found.events[SLOW]
    heard = row(0, f"{turn.invocation}.0", "user", {"text": f"do {turn.invocation}"})
    rows.insert(3, replace(heard, invocation=by))
    rows[:] = [replace(one, seq=seq) for seq, one in enumerate(rows, 1)]
    names = {**turn._asdict(), "invocation": turn.invocation, "attempt": 1, "pid": 2}
    found.journal += [
        {**names, "operation": "run", "type": kind, "at": 11.0} for kind in ("invoke", "ok")
    ]


def test_a_message_that_was_heard_is_stored_where_it_was_heard() -> None:
    """I12, D7: it has no record; but it has one if it was not to be heard, or opened a run too."""
    found = good()
    hear(found)
    assert not judge(found).violations["accepted_is_durable"]
    found.invocations["s5.2"] = {"status": "completed", "start_seq": 1, "end_seq": 1, "pauses": 0}
    assert judge(found).violations["accepted_is_durable"]
    found = good()
    hear(found, session="s6")
    assert judge(found).violations["accepted_is_durable"]
    found = good()
    hear(found)
    lost = [one for one in found.events[SLOW] if one.id != "s5.2.0"]
    found.events[SLOW] = lost
    assert judge(found).violations["accepted_is_durable"]


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, harms in CASES.items() for n in range(len(harms))]
)
def test_each_check_catches_what_it_is_for(name: str, number: int) -> None:
    """I1-I24: each wrong made by hand is found by the check it belongs to."""
    found = good()
    CASES[name][number](found)
    assert judge(found).violations[name]


def test_every_check_has_been_seen_to_catch_something() -> None:
    """A check that nothing was ever caught by is no check."""
    assert CASES.keys() == {check.name for check in CHECKS}


def test_a_session_in_which_nothing_happened_is_in_no_history() -> None:
    """I21: so nobody can put it back; of one with events that is asked."""
    for revision, is_missed in ((0, False), (1, True)):
        found = good()
        empty = {**found.rows["sessions"][0], "session_id": "empty", "revision": revision}
        found.rows["sessions"].append(empty)
        assert bool(judge(found).violations["divergence"]) is is_missed


def test_a_message_may_be_in_the_middle_of_its_run_when_the_doctor_looks() -> None:
    """I21: the one that waited for the repair; an open call of others is left unmended."""
    for name, is_missed in (("p.1000", False), ("p.1", True)):
        found = good()
        finding = json.loads(FINDING) | {"kind": "open_call", "invocationId": name}
        stores(found)["left"].append(json.dumps(finding))
        assert bool(judge(found).violations["divergence"]) is is_missed


def test_the_time_of_an_event_may_be_that_of_a_later_attempt() -> None:
    """I21: a history has no other; all else of it has to be the same."""
    found = good()
    times = iter(('{"timestamp":1.5,"id":"p.1.3"}', '{"timestamp":1e9,"id":"p.1.3"}'))
    for rows in (found.rows, stores(found)["mended"]):
        (row,) = [one for one in rows["events"] if one["event_id"] == "p.1.3"]
        row["body"] = next(times)
    assert not judge(found).violations["divergence"]
    row["body"] = row["body"].replace("p.1.3", "p.1.4")
    assert judge(found).violations["divergence"]


def test_what_was_committed_last_before_an_end_from_outside_is_in_no_history() -> None:
    """I21: its call is sealed instead; in other invocations that would be a loss."""
    sealed = {"event_id": "p.1.1.sealed", "body": "{}"}
    for status, is_missed in (("abandoned", False), ("cancelled", False), ("completed", True)):
        found = good()
        for rows in (found.rows, stores(found)["mended"]):
            next(row for row in rows["invocations"] if row["invocation_id"] == "p.1").update(
                status=status
            )
        in_store("mended", "events", "p.1.2", **sealed)(found)
        assert bool(judge(found).violations["divergence"]) is is_missed


def test_a_run_before_anybody_asked_is_no_violation() -> None:
    """I16: one release asks nobody; its worker was lost, and the other release has asked."""
    found = good()
    ran("d9.1:c20", pid=2)(found)
    assert not judge(found).violations["denied"]
    for line in found.starts:
        line["release"] = 1
    assert judge(found).violations["denied"]


@pytest.mark.parametrize(("seconds", "is_slowed"), [(0.65, False), (0.75, True)])
def test_a_neighbour_may_wait_a_little_longer(seconds: float, is_slowed: bool) -> None:
    """I22: what is within the noise of a busy machine shows nothing."""
    found = good()
    slowed(seconds)(found)
    assert bool(judge(found).violations["noisy neighbour"]) is is_slowed


def test_a_neighbour_that_was_slow_once_is_measured_again() -> None:
    """I22: the machine may have had other things to do; a second round is as good."""
    found, again = good(), good()
    slowed(0.9)(found)
    for line in [line for line in again.journal if line["session"].endswith(("-0-0", "calm-0"))]:
        session = line["session"].replace("-0", "-1", 1)
        invocation = line["invocation"].replace("-0", "-1", 1)
        found.journal.append({**line, "session": session, "invocation": invocation})
    assert not judge(found).violations["noisy neighbour"]


def test_a_worker_that_was_frozen_has_not_hung() -> None:
    """I22: it takes nothing else meanwhile; its own seconds count."""
    found = good()
    hung(14)(found)
    assert not judge(found).violations["tasks_ended"]


def test_of_what_crossed_a_deletion_nothing_is_known() -> None:
    """I15: nobody can say in which of the two sessions an invocation was opened."""
    found = good()
    left_over(found)
    change("clears", type="deleting", generation=1)(at=1.8)(found)
    change("clears", type="deleted", generation=1)(at=2.2)(found)
    assert not judge(found).violations["recreated"]
