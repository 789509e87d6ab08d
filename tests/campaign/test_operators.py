"""What is done to workflows by hand."""

from pathlib import Path
from typing import Any

from campaign.operators import _forged, under_way
from campaign.run_folder import RunFolder
from campaign.workload import Turn
from durable_adk.wire.messages import is_reserved
from harness.journal import note


def test_only_what_a_client_waits_for_is_done_something_to(tmp_path: Path) -> None:
    """What has an outcome is over; what was killed with its client, or is sent again, is not."""
    folder = RunFolder(tmp_path)
    turns = [Turn("plain", "u", "s", number) for number in (1, 2, 3)]

    def noted(turn: Turn, kind: str, **fields: Any) -> None:
        note(folder.journal("0"), operation="run", type=kind, **turn._asdict(), **fields)

    for turn in turns:
        noted(turn, "invoke", attempt=1)
    noted(turns[0], "ok")
    noted(turns[1], "info", error="TimeoutError()")
    noted(turns[1], "invoke", attempt=2)
    assert under_way(folder) == set(turns[1:])


def test_no_forged_answer_has_a_name_that_a_client_may_use() -> None:
    """I16: what says something else than the user, about a call that waits, must not be taken."""
    turn = Turn("approval", "u", "s", 1)
    answers = [what for name, what in _forged("call", turn) if name == "answer"]
    fit = [one for one in answers if isinstance(one, dict) and one.get("callId") == "call"]
    says = [one for one in fit if "confirmed" in one]
    assert says
    assert all(one["confirmed"] is not turn.approves for one in says)
    assert all(is_reserved(one["answerId"]) or len(one["answerId"]) > 1000 for one in says)
