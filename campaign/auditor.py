"""The auditor: ``python -m campaign.auditor RUN_DIR`` checks the evidence of a run.

It exits with 1 if an invariant does not hold or too little happened.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from campaign.apps import make_apps
from campaign.checks import (
    after_faults,
    clients,
    containment,
    effects,
    engine,
    graphs,
    log,
    model_calls,
    operators,
    privacy,
    restored,
    services,
)
from campaign.checks.violation import Violation
from campaign.evidence import Evidence, load
from campaign.guards import Guard, guards, measured
from campaign.run_folder import RunFolder
from campaign.stores import converter
from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.ops.doctor.operation_log import has_workflow_task
from durable_adk.workflows.invocation import InvocationWorkflow
from durable_adk.workflows.runner import workflow_runner


class Check(NamedTuple):
    """An invariant, and what looks for its violations."""

    name: str
    ids: str
    look: Callable[[Evidence], Iterable[Violation]]
    lasting: bool = False
    """Whether it covers only sessions that were not deleted."""


CHECKS = (
    Check("one_output", "I1", graphs.one_output),
    Check("nodes_once", "I10", graphs.nodes_once, lasting=True),
    Check("append_once", "I1", log.append_once, lasting=True),
    Check("no_loss", "I2", clients.no_loss, lasting=True),
    Check("order", "I3", log.order),
    Check("fold", "I4", log.fold),
    Check("added", "I4", log.added),
    Check("atomic", "I5", log.atomic, lasting=True),
    Check("artifacts", "I5", services.artifacts),
    Check("memories", "I5", services.memories),
    Check("single_writer", "I6", log.single_writer, lasting=True),
    Check("undisturbed", "I2 I3 I7", clients.undisturbed, lasting=True),
    Check("foreseen", "I11 I15", clients.foreseen, lasting=True),
    Check("tool_effects", "I8", effects.tool_effects, lasting=True),
    Check("at_most_once", "I8", effects.at_most_once),
    Check("pairing", "I9", effects.pairing),
    Check("no_re_asking", "I10", model_calls.no_re_asking, lasting=True),
    Check("repeats", "I10", model_calls.repeats),
    Check("liveness", "I11", clients.liveness),
    Check("accepted_is_durable", "I12", clients.accepted_is_durable, lasting=True),
    Check("replayable", "I13", engine.replayable),
    Check("bounds", "I14", engine.bounds),
    Check("cancel", "I15", clients.cancel, lasting=True),
    Check("cancel_after_faults", "I15", after_faults.cancel_after_faults),
    Check("sent_again", "I12 I16 I17", after_faults.sent_again),
    Check("hitl", "I16", effects.hitl),
    Check("denied", "I16", operators.denied),
    Check("recreated", "I15 I18", operators.recreated),
    Check("reset", "I11", operators.reset),
    Check("stream", "I17", clients.stream, lasting=True),
    Check("isolation", "I18", privacy.isolation),
    Check("trespass", "I18", privacy.trespass),
    Check("confidential", "I19", privacy.confidential),
    Check("upgrade", "I20", containment.upgrade, lasting=True),
    Check("divergence", "I21", restored.divergence),
    Check("containment", "I22", containment.containment, lasting=True),
    Check("raising", "I22", containment.raising),
    Check("workers_end", "I22", containment.workers_end),
    Check("tools_repeated", "I8 I22", model_calls.tools_repeated),
    Check("noisy neighbour", "I22", after_faults.noisy_neighbour),
    Check("tasks_ended", "I22", containment.tasks_ended),
    Check("secrets", "I23", privacy.secrets),
    Check("clean_end", "I24", log.clean_end),
    Check("nothing_unfinished", "I24", services.nothing_unfinished),
)
NOT_CHECKED = {
    "I19 in Temporal": "of runs with an odd seed; the others encrypt what is there",
    "I22 latency of a poison": "faults make others wait as well, so who waits for it is not told",
}
"""Invariants of the list, or parts of them, that a campaign says nothing about."""
NOT_RESTORED = {"I21": "of runs without --restore"}
NOT_DELETED = {
    "I15 of deleted sessions": "of runs with --restore, in which nobody deletes anything"
}
SHOWN = 5
"""Violations of a check that the verdict holds."""


class Verdict(NamedTuple):
    """What the auditor says of a run."""

    violations: dict[str, list[Violation]]
    guards: list[Guard]
    figures: dict[str, Any]

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong, and enough has happened."""
        return not any(self.violations.values()) and all(guard.passed for guard in self.guards)


def unchecked(meta: dict[str, Any]) -> dict[str, str]:
    """What a run says nothing about, and why."""
    return NOT_CHECKED | (NOT_DELETED if meta.get("restores") else NOT_RESTORED)


def judge(found: Evidence) -> Verdict:
    """Look for violations of every invariant."""
    lasting = found.lasting()
    violations = {
        check.name: list(check.look(lasting if check.lasting else found)) for check in CHECKS
    }
    return Verdict(violations, guards(found), measured(found))


async def audit(folder: RunFolder) -> Verdict:
    """Read a run's folder, replay its histories, judge, and write the verdict beside them."""
    found = load(folder)
    await _replay(folder, found)
    verdict = judge(found)
    written = {
        **found.meta,
        "passed": verdict.passed,
        "figures": verdict.figures,
        "violations": {
            name: {"count": len(some), "first": [one._asdict() for one in some[:SHOWN]]}
            for name, some in verdict.violations.items()
        },
        "guards": [{**guard._asdict(), "passed": guard.passed} for guard in verdict.guards],
        "not_checked": unchecked(found.meta),
    }
    folder.verdict.write_text(json.dumps(written, indent=1, default=str))
    return verdict


async def _replay(folder: RunFolder, found: Evidence) -> None:
    """Replay each history on this code; what fails is noted with its workflow."""
    serve(found.meta["queue"], AppRegistry(make_apps(folder.path).values()))
    replayer = Replayer(
        workflows=[InvocationWorkflow],
        data_converter=converter(folder),
        namespace="default",  # which payloads are encrypted for
        workflow_runner=workflow_runner(sandboxed=True),
        debug_mode=True,  # a busy machine is slow, and takes a workflow for blocked otherwise
    )
    for line in found.workflows:
        text = (folder.histories / line["history"]).read_text()
        history = WorkflowHistory.from_json(line["workflow"], text)
        if not has_workflow_task(history):
            line["failure"] = None
            continue
        result = await replayer.replay_workflow(history, raise_on_replay_failure=False)
        line["failure"] = result.replay_failure and repr(result.replay_failure)


def show(verdict: Verdict, meta: dict[str, Any], console: Console) -> None:
    """Print a verdict."""
    table = Table(
        title=f"seed {meta['seed']}, {meta['store']}, {meta['seconds']:g} s", min_width=72
    )
    for column in ("invariant", "ids", "violations"):
        table.add_column(column)
    for check in CHECKS:
        count = len(verdict.violations[check.name])
        table.add_row(check.name, check.ids, f"[red]{count}[/red]" if count else "0")
    for name, why in unchecked(meta).items():
        table.add_row(f"[dim]{name}[/dim]", "", f"[dim]not checked: {why}[/dim]")
    console.print(table)
    for guard in verdict.guards:
        mark = "" if guard.passed else "  [red]too little[/red]"
        console.print(f"{guard.name}: {guard.value:.4g} (at least {guard.at_least:.4g}){mark}")
    console.print({name: value for name, value in verdict.figures.items() if value})
    for some in verdict.violations.values():
        for one in some[:SHOWN]:
            console.print(f"[red]{one.what}[/red]: {one.where}", str(one.evidence)[:2000])
    console.print("[green]PASSED[/green]" if verdict.passed else "[red]FAILED[/red]")


def main() -> int:
    """Judge the run in a folder."""
    folder = RunFolder(Path(sys.argv[1]))
    verdict = asyncio.run(audit(folder))
    show(verdict, json.loads(folder.meta.read_text()), Console())
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
