"""The checks that have to notice a mutant: a scenario with every single fault, or a fast rule.

Each returns what it has found wrong, the empty string if nothing. The rules are in `rules`.
"""

from collections.abc import Iterator
from itertools import chain

from google.genai import types

from durable_adk.conversation.answers import check_answers
from durable_adk.conversation.client_requests import REQUEST_CONFIRMATION
from durable_adk.errors import InvalidRequestError
from durable_adk.events import Event
from durable_adk.flows.runtime import Inbox
from durable_adk.sessions.log.entry import Entry, decode_event
from durable_adk.wire.checkpoint import PendingState
from durable_adk.wire.messages import InvocationAnswer
from simulation.catalogue import APPROVAL, SCENARIOS
from simulation.explore import Explorer, Verdict
from simulation.schedule import Listed
from simulation.simulation import Simulation
from tests.mutants import rules
from tests.mutants.proofs import PROOFS, Check

WHOLE: set[Check] = set()
"""Checks that run what `tests/simulation` runs too, only less of it."""
SEEDS = 10
"""Random schedules that follow the listed ones."""


def simulated(name: str, *invariants: str) -> Check:
    """Every fault at every point of a scenario, then some seeds, until an invariant breaks.

    Args:
        name: Of the scenario.
        *invariants: Those of which one has to break; none: any.
    """

    def check() -> str:
        scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
        try:
            explorer = Explorer(scenario)
        except AssertionError as error:
            return _matching(str(error), invariants)
        return next((found for v in _schedules(explorer) if (found := _bad(v, invariants))), "")

    WHOLE.add(check)
    return check


def followed(name: str, first: str, second: str, *, start: str) -> Check:
    """One kind of fault, at every point since `start`, and after it another."""

    def check() -> str:
        scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
        verdicts = Explorer(scenario).followed(first, second, start=start)
        return next((found for v in verdicts if (found := _bad(v, ()))), "")

    return check


def _schedules(explorer: Explorer) -> Iterator[Verdict]:
    return chain(explorer.singles(), (explorer.seeded(seed) for seed in range(SEEDS)))


def _bad(verdict: Verdict, invariants: tuple[str, ...]) -> str:
    return _matching("; ".join(verdict.problems), invariants)


def _matching(problems: str, invariants: tuple[str, ...]) -> str:
    wanted = not invariants or any(
        f"{name}:" in problems or f"{name} " in problems for name in invariants
    )
    return problems if wanted else ""


def _no_partial_entries() -> str:
    event = Event(id="e", invocation_id="i", author="a", partial=True)
    try:
        Entry.of(event)
    except InvalidRequestError:
        return ""
    return "a partial event can be stored"


def _no_forged_answers() -> str:
    asked = [decode_event(body) for body in Simulation(APPROVAL, Listed()).run().bodies[:4]]
    answer = types.FunctionResponse(
        id="forged", name=REQUEST_CONFIRMATION, response={"confirmed": True}
    )
    message = types.Content(role="user", parts=[types.Part(function_response=answer)])
    try:
        check_answers(asked, message)
    except InvalidRequestError:
        return ""
    return "an answer to a call that was never made is taken for another"


def _answers_over_a_roll() -> str:
    before, after = Inbox(), Inbox()
    before.put(InvocationAnswer(call_id="c", confirmed=True))
    before.outcomes["first"] = None
    before.drain()
    after.restore(PendingState.from_json(before.state.to_json()))
    known = after.outcomes, after.state.answers, len(after.state.unread)
    return "" if known == ({"first": None}, 1, 1) else f"the next run knows {known}"


CHECKS: dict[str, Check] = {
    "append once": simulated("tool turn", "I1", "I2"),
    "fold": simulated("callbacks and plugins", "I4"),
    "fold of a turn": simulated("tool turn", "I4"),
    "order": simulated("tool turn", "I3"),
    "no loss": simulated("tool turn", "I2"),
    "no loss in the loop": simulated("three calls", "I2"),
    "one user event": simulated("tool turn", "I12"),
    "one writer": simulated("two messages"),
    "fence": simulated("takeover", "I6"),
    "takeover": simulated("takeover"),
    "lease": simulated("tool turn", "I6"),
    "tool keys": simulated("tool turn", "I8"),
    "at most once": simulated("at most once", "I8"),
    "calls wait for their toolsets": rules.calls_wait_for_their_toolsets,
    "pairing": simulated("cancelled", "I9"),
    "no asking again": simulated("tool turn", "I10", "I2"),
    "replay": simulated("tool turn", "I13"),
    "cancel of a turn": simulated("cancelled", "I15"),
    "commit before resume": simulated("custom agent"),
    "lanes": simulated("side by side", "I7"),
    "approval": simulated("approval"),
    "tickets": simulated("steered", "I24"),
    "refused": followed("refused", "competing", "ghost", start="call_model.2/1 report"),
    "roll": simulated("rolls over"),
    "answers over a roll": _answers_over_a_roll,
    "prompts for operators": rules.prompts_for_operators,
    "marks of restored events": rules.marks_of_restored_events,
    "blocked ports": rules.blocked_ports,
    "same id, same answer": rules.same_id_same_answer,
    "additions kept": rules.additions_kept,
    "control names shown": rules.control_names_shown,
    "names of answers apart": rules.names_of_answers_apart,
    "longest waits": rules.longest_waits,
    "bounded cache": rules.bounded_cache,
    "reserved names": rules.reserved_names,
    "names of invocations apart": rules.names_of_invocations_apart,
    "runs as tools": rules.runs_as_tools,
    "metadata of the runtime": rules.metadata_of_the_runtime,
    "no partial entries": _no_partial_entries,
    "no forged answers": _no_forged_answers,
    "each approval for its call": rules.each_approval_for_its_call,
    "reserved for the loop": rules.reserved_for_the_loop,
    "known revision": rules.known_revision,
    "fresh copy": rules.fresh_copy,
    "too large is final": rules.too_large_is_final,
    "short local activities": rules.short_local_activities,
    "short failures": rules.short_failures,
    "small looks": rules.small_looks,
    **PROOFS,
    "threads replaced": rules.threads_replaced,
    "blocked loops": rules.blocked_loops,
    "ended loops": rules.ended_loops,
}
