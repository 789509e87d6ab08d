"""The table of effects."""

from typing import Any, get_args, get_type_hints

import pytest
from temporalio import activity

from durable_adk.activities.definitions import InvocationActivities
from durable_adk.activities.effect_rows import EffectRow
from durable_adk.activities.effects import EFFECTS, row_of
from durable_adk.wire import checkpoint, event_page, model_request, steps, webhook
from durable_adk.wire.effect import Effect
from durable_adk.wire.graph import batch

NAMES = {
    *("open_invocation", "call_model", "call_tool", "execute_code", "run_callback"),
    *("run_node", "run_items"),
    *(
        "run_function",
        "run_hook",
        "commit_event",
        "note_cancellation",
        "pause_invocation",
        "take_answer",
    ),
    *(
        "close_invocation",
        "compact",
        "save_checkpoint",
        "save_journal",
        "read_checkpoint",
        "read_journals",
    ),
    "run_steps",
    *("read_session_events", "read_model_requests", "deliver_webhook"),
}

MODULES = (steps, batch, checkpoint, event_page, model_request, webhook)


def declared(step: type[Any]) -> Any:
    """The type of the result that a step names."""
    (base,) = (b for c in step.__mro__ for b in c.__dict__.get("__orig_bases__", ()) if _is(b))
    (result,) = get_args(base)
    names = {name: one for module in MODULES for name, one in vars(module).items()}
    return names.get(getattr(result, "__forward_arg__", ""), result)


def _is(base: Any) -> bool:
    return getattr(base, "__origin__", None) is Effect


@pytest.mark.parametrize("row", EFFECTS, ids=lambda row: row.name)
def test_a_step_its_row_and_its_function_name_the_same_result(row: EffectRow[Any]) -> None:
    """`Runtime.perform` is typed by the step, and what comes back is read as the row says."""
    result = declared(row.step)
    assert row.result in (result, *get_args(result))
    assert get_type_hints(row.function).get("return", result) in (result, *get_args(result))


def test_every_step_that_names_a_result_has_a_row() -> None:
    """An effect without one would fail when the first run asks for it."""
    found = [one for module in MODULES for one in vars(module).values()]
    rows = {one for one in found if isinstance(one, type) and issubclass(one, Effect)}
    assert rows - {Effect, steps.Step} == {row.step for row in EFFECTS}


def test_activities_have_the_names_and_types_that_histories_have() -> None:
    """I13: a worker finds what an open invocation asks for, and reads its argument."""
    ours = InvocationActivities(None, None).all()  # type: ignore[arg-type] # nothing is called
    definitions = [activity._Definition.must_from_callable(one) for one in ours]
    assert {one.name for one in definitions} == NAMES
    for one, row in zip(definitions, EFFECTS, strict=True):
        assert (one.name, one.arg_types) == (row.name, [row.step])
        assert get_type_hints(one.fn)["step"] is row.step


def test_a_row_is_found_by_its_step() -> None:
    """By the very class: the steps of an agent have one in common."""
    step = steps.PauseStep.model_construct()
    assert row_of(step).name == "pause_invocation"
