"""The auditor passes what is right and catches each wrong that it is for."""

from dataclasses import replace

import pytest

from campaign.auditor import CHECKS, judge
from campaign.checks.restored import FORK, GONE
from campaign.evidence import Evidence, Key
from campaign.leaks import SECRETS, SPOKEN
from campaign.workload import Place, Turn
from tests.campaign.harms import (
    Harm,
    cancel_late,
    change,
    deploy,
    drop,
    ends,
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
    overtaken,
    ran,
    repeat,
    restored,
    second_answer,
    state,
    store,
    stores,
    told,
    twice_decided,
)
from tests.campaign.made import (
    APPROVAL,
    GRAPH,
    MEMORY,
    ONCE,
    PLAIN,
    POISON,
    SIGN_IN,
    SLOW,
    TURNS,
    good,
)
from tests.campaign.made_outside import CLEARED, OLD, OLD_NONCE, raising, workflow_of
from tests.campaign.parts import response, row

OWNER = dict(zip(("app_name", "user_id", "session_id"), CLEARED, strict=True))
EXIT, FALLS = raising(Place.AWAITED), raising(Place.DESTRUCTOR)
FINDING = '{"app":"plain","user":"u","session":"p","problem":"it has forked"}'
CASES: dict[str, list[Harm]] = {
    "one_output": [
        store(GRAPH, 2, node_info={"path": "graph@1/first@1", "output_for": ["graph@1/first@1"]}),
    ],
    "nodes_once": [
        repeat("nodes", node="graph@1/first@1", other={"at": 10.5}),
    ],
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
    "raising": [
        change("journal", invocation=EXIT.invocation, type="fail")(type="ok", error="ok"),
        change("journal", invocation=FALLS.invocation, type="ok")(type="fail", error="ToolError"),
        store(Key(*EXIT[:3]), 1, error_message="It has failed."),
        invocation(EXIT.invocation, status="running"),
    ],
    "workers_end": [ends(1), ends(0), ends(-11)],
    "tools_repeated": [repeat("ledger", key="k4.1:c11", phase="begun")],
    "noisy neighbour": [overtaken(12)],
    "tasks_ended": [hung],
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
        restored("asked", again="ok"),
        lambda found: stores(found)["meanwhile"].update(paused="TimeoutError"),
        in_store("mended", "events", "f.2", seq=0),
        in_store("mended", "events", FORK, event_id="other"),
        in_store("mended", "events", "f.1", session_id=GONE.session),
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


def test_a_tool_that_was_given_up_is_no_violation() -> None:
    """F12: if that many of its runs were lost; with fewer, nobody said that it might fail."""
    found = good()
    change("journal", invocation="z.1", type="fail")(error="RunError")(found)
    for _ in range(4):
        repeat("ledger", invocation="z.1", phase="begun")(found)
    assert judge(found).violations["foreseen"]
    repeat("ledger", invocation="z.1", phase="begun")(found)
    assert not judge(found).violations["foreseen"]


def ask_again(found: Evidence, *, taken: float, ended: float | None = None, pid: int = 2) -> None:
    """Ask the second question of `PLAIN` again, long after its answer was stored at 10.0."""
    again = {"nonce": "~00000009", "at": 60.0, "pid": pid, "task": "run/9/1"}
    repeat("asked", nonce="~00000002", other=again)(found)
    task = {"pid": 2, "task": "run/9/1", "workflow": workflow_of(TURNS["p.1"])}
    found.tasks.append({**task, "phase": "taken", "at": taken})
    if ended is not None:
        found.tasks.append({**task, "phase": "ended", "at": ended, "decided": ""})


@pytest.mark.parametrize(("attempt", "is_wrong"), [(2, False), (0, True)])
def test_a_frozen_worker_may_take_an_attempt_late(attempt: int, is_wrong: bool) -> None:
    """I10: the engine had begun it before the next one, which another worker took in time."""
    found = good()
    ask_again(found, taken=59.0)
    other = {"task": f"run/9/{attempt}", "workflow": workflow_of(TURNS["p.1"])}
    found.tasks.append({**other, "pid": 3, "phase": "taken", "at": 9.0})
    assert bool(judge(found).violations["no_re_asking"]) is is_wrong


@pytest.mark.parametrize(("taken", "pid"), [(11.0, 2), (59.9, 2), (9.0, 3)])
def test_an_attempt_that_begins_after_the_answer_asks_nothing(taken: float, pid: int) -> None:
    """I10: it finds the answer; that another worker had begun before is no excuse."""
    found = good()
    ask_again(found, taken=taken, pid=pid)
    assert judge(found).violations["no_re_asking"]


@pytest.mark.parametrize(
    ("ended", "failed", "is_wrong"),
    [(55.0, True, False), (None, True, True), (20.0, True, True), (20.0, False, False)],
)
def test_a_worker_that_was_held_for_lost_is_a_reason(
    ended: float | None, failed: bool, is_wrong: bool
) -> None:
    """I10: its step was given away while it continued, or though it had not failed."""
    found = good()
    drop("ledger", phase="exit")(found)
    lines(found, "asked", nonce="~00000002")[0].update(pid=1, task="run/9/1")
    found.tasks.append({"pid": 1, "task": "run/9/1", "phase": "taken", "at": 0.5})
    if ended is not None:
        found.tasks.append(
            {"pid": 1, "task": "run/9/1", "phase": "ended", "at": ended, "failed": failed}
        )
    repeat("asked", nonce="~00000002", other={"nonce": "~00000009", "at": 40.0})(found)
    found.tasks.append({"pid": 2, "task": "run/9/2", "phase": "taken", "at": 30.0})
    assert bool(judge(found).violations["repeats"]) is is_wrong


@pytest.mark.parametrize(("at", "is_wrong"), [(5.0, True), (0.9, False)])
def test_a_question_is_open_from_the_beginning_of_its_attempt(at: float, is_wrong: bool) -> None:
    """I10: what went wrong before the first attempt has cut nothing short."""
    found = good()
    drop("ledger", phase="exit")(found)
    lines(found, "asked", nonce="~00000002")[0].update(at=40.0, pid=1, task="run/9/1")
    found.tasks.append({"pid": 1, "task": "run/9/1", "phase": "taken", "at": at})
    repeat("asked", nonce="~00000002", other={"nonce": "~00000009", "at": 41.0, "task": ""})(found)
    found.faults.append(fault("cut", link="worker-model"))
    assert bool(judge(found).violations["repeats"]) is is_wrong


def late_tool(found: Evidence, *, taken: float) -> None:
    """A tool of `SLOW` begins long after its invocation has ended, at 11.0."""
    repeat("ledger", key="z.1:c5", phase="begun", other={"at": 50.0, "pid": 2})(found)
    workflow = workflow_of(TURNS["z.1"])
    task = {"pid": 2, "task": "run/9/1", "workflow": workflow, "phase": "taken", "at": taken}
    found.tasks.append(task)


def test_a_worker_that_nobody_waits_for_knows_of_no_end() -> None:
    """I15: its task was given to another one, as it was slow; it had it before the end."""
    found = good()
    late_tool(found, taken=9.0)
    assert judge(found).violations["cancel"]
    found.tasks.append({"pid": 1, "task": "run/9/2", "phase": "taken", "at": 10.5})
    assert not judge(found).violations["cancel"]
    found = good()
    late_tool(found, taken=11.5)
    found.tasks.append({"pid": 1, "task": "run/9/2", "phase": "taken", "at": 12.0})
    assert judge(found).violations["cancel"]


def hear(found: Evidence, *, by: str = "z.1", session: str = "s5") -> None:
    """A message that was delivered to the sleeper's run; messages of session `s5` ask for that."""
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
    """I12, D7: it has no record, unless it was not to be delivered, or opened a run, too."""
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


def test_a_run_before_anybody_asked_is_no_violation() -> None:
    """I16: one release asks nobody; its worker was lost, and the other release has asked."""
    found = good()
    ran("d9.1:c20", pid=2)(found)
    assert not judge(found).violations["denied"]
    for line in found.starts:
        line["release"] = 1
    assert judge(found).violations["denied"]
