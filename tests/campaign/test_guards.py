"""The guards are content with a run in which enough happened, and with no other."""

import pytest

from campaign.access_probe import WAYS
from campaign.auditor import judge, unchecked
from campaign.evidence import Evidence
from campaign.guards import guards
from campaign.leaks import SECRETS, SEEN, SPOKEN
from campaign.links import links_of
from campaign.schedule import MINIMUM, Kind
from campaign.workload import CLEARED, KINDS
from tests.campaign.harms import Harm, drop, leave_alone, store
from tests.campaign.made import FILES, PLAIN, SIGN_IN, busy, good

OF_LINKS = "faults of link: "


def fewer(**meta: object) -> Harm:
    """Ask for more than there is."""
    return lambda found: found.meta.update(meta)


def unplayed(app: str) -> Harm:
    """Take away what was sent to an app."""
    return drop("journal", app=app)


def nothing(kind: str) -> Harm:
    """Nothing was looked through."""
    return lambda found: found.searched.update({kind: 0})


GUARDED: dict[str, Harm] = {
    "messages answered": drop("journal", user="u9"),
    "share that ended as undisturbed": lambda found: [
        store(key, 1, author="another")(found) for key in (PLAIN, FILES)
    ],
    "cancellations judged after the faults": drop("journal", operation="cancel"),
    "messages sent three times at once": lambda found: found.repeats.clear(),
    "takeovers": lambda found: [line.update(pid=1) for line in found.ledger],
    **{f"faults: {kind}": drop("faults", kind=kind.value) for kind in MINIMUM},
    **{f"{OF_LINKS}{link}": fewer(seconds=60.0) for link in links_of("sqlite")},
    "lost acknowledgements absorbed": drop("commits", phase="found"),
    "zombies refused": drop("commits", phase="refused"),
    "histories continued as new": drop("workflows", status="CONTINUED_AS_NEW"),
    "events that the copy had lost": lambda found: setattr(found, "restored", None),
    "share of sessions that the doctor put back": leave_alone,
    "sessions cleared with something under way": drop("clears", generation=1),
    **{f"played: {kind}": unplayed(kind) for kind in KINDS},
    "messages refused by a full queue": drop("journal", error="QueueFullError"),
    "denied after a deploy": drop("tasks", pid=2),
    "a neighbour's turns beside a crowd": drop("journal", session="crowd-beside-0"),
    "tasks that workers have ended": drop("tasks", phase="ended"),
    "workers whose clock was off, and who committed": drop("starts", pid=2),
    "places of a newer release that an older one went on from": drop("commits", phase="newer"),
    "kinds of poison": unplayed("poison"),
    "places where code has raised": unplayed("raising"),
    "invocations beside a poison": drop("ledger", tool="poison"),
    "invocations that two releases ran": lambda found: found.starts.pop(),
    **{f"tried in vain: {way}": drop("tries", way=way) for way in WAYS},
    "keys used": store(SIGN_IN, 2, content={"parts": []}),
    "words found where they may be": nothing(SEEN),
    "bytes searched: spoken": nothing(SPOKEN),
    "bytes searched: secret": nothing(SECRETS),
}
"""By guard: a way to make it say that there was too little."""
OF_RESTORES = {"events that the copy had lost", "share of sessions that the doctor put back"}
"""The guards of runs that put the store back."""
OF_DELETIONS = {
    *(f"faults: {Kind.DELETE}", f"played: {CLEARED}"),
    "sessions cleared with something under way",
}
"""Those of the others."""


def run(guard: str) -> Evidence:
    """A run in which enough happened, of the kind that a guard is for."""
    found = busy()
    found.meta["restores"] = guard not in OF_DELETIONS
    return found


def too_little(found: Evidence) -> set[str]:
    """The guards that are not content."""
    return {guard.name for guard in guards(found) if not guard.passed}


def test_a_run_in_which_enough_happened_passes() -> None:
    """Evidence that no check and no guard has anything to say about makes a passed run."""
    verdict = judge(busy())
    assert {name: some for name, some in verdict.violations.items() if some} == {}
    assert too_little(busy()) == set()
    assert verdict.passed


@pytest.mark.parametrize("name", GUARDED)
def test_each_guard_says_when_there_was_too_little(name: str) -> None:
    """Jepsen's lesson: what did not happen, was not attempted or not looked at, proves nothing."""
    found = run(name)
    assert name not in too_little(found)
    GUARDED[name](found)
    assert name in too_little(found)


def test_every_guard_has_been_seen_to_say_so() -> None:
    """A guard that is always content is no guard."""
    restoring, deleting = (
        {guard.name for guard in guards(run(min(some)))} for some in (OF_RESTORES, OF_DELETIONS)
    )
    assert GUARDED.keys() == restoring | deleting
    assert restoring - deleting == OF_RESTORES
    assert deleting - restoring == OF_DELETIONS


def test_a_run_in_which_nothing_happened_does_not_pass() -> None:
    """Jepsen's lesson: without faults, refusals and takeovers a run proves nothing."""
    verdict = judge(good())
    assert not verdict.passed
    failed = {guard.name for guard in verdict.guards if not guard.passed}
    assert {"zombies refused", "lost acknowledgements absorbed"} <= failed
    assert {name for name in failed if name.startswith("faults: ")}


def test_a_run_without_a_restore_says_so() -> None:
    """I21: it passes, and its verdict names what nobody has looked at."""
    found = busy()
    found.restored = None
    assert "events that the copy had lost" in too_little(found)
    found.meta["restores"] = False
    assert judge(found).passed
    assert "I21" in unchecked(found.meta)
    assert "I21" not in unchecked(busy().meta)
