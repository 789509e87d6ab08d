"""The planner that makes the model write its plan between tags."""

from collections.abc import Iterable, Iterator

from google.genai import types

from durable_adk.context.activity import CallbackContext, ReadonlyContext
from durable_adk.models.llm_request import LlmRequest
from durable_adk.planners.base_planner import BasePlanner

PLANNING = "/*PLANNING*/"
REASONING = "/*REASONING*/"
ACTION = "/*ACTION*/"
REPLANNING = "/*REPLANNING*/"
FINAL_ANSWER = "/*FINAL_ANSWER*/"
_THINKING = (PLANNING, REASONING, ACTION, REPLANNING)

_INSTRUCTION = f"""\
Work in this order, and begin each section of what you write with its tag.

{PLANNING}
Before anything else, write a plan: a numbered list of the steps that lead to the answer. Every \
step must be something your tools can do, or something that follows from what you already know.

{ACTION}
Carry out the next step by calling a tool. Call only tools that you were given, with the \
parameters they declare. Ask the user, in the final section, for what you need and cannot find out.

{REASONING}
After each result, say in a few words what it tells you and which step comes next. Rely on results \
and on the conversation, and make nothing up.

{REPLANNING}
When a result shows that the plan cannot work, write a new plan for what is left to do.

{FINAL_ANSWER}
When nothing is left to do, or it turns out that it cannot be done, write the answer under this \
tag, once and last. The user reads only this section: it must stand on its own and answer the \
whole question."""


class PlanReActPlanner(BasePlanner):
    """Makes the model plan, act, reason, and replan where needed (FLW-95).

    Text under the planning tags becomes thoughts, so the user only sees the final answer. The tags
    themselves are removed.
    """

    def build_planning_instruction(
        self, readonly_context: ReadonlyContext, llm_request: LlmRequest
    ) -> str:
        """Return the rules for plan and answer."""
        del readonly_context, llm_request
        return _INSTRUCTION

    def process_planning_response(
        self, callback_context: CallbackContext, response_parts: list[types.Part]
    ) -> list[types.Part] | None:
        """Return the plan as thoughts, the final answer as text, and the first run of calls.

        Parts after the calls are left out: the model wrote them without the calls' results.
        """
        del callback_context
        return list(_processed(response_parts)) or None


def _processed(parts: Iterable[types.Part]) -> Iterator[types.Part]:
    called = False
    for part in parts:
        if part.function_call:
            if part.function_call.name:  # models sometimes emit calls without a name
                called = True
                yield part
        elif called:
            return
        else:
            yield from _split_part(part)


def _split_part(part: types.Part) -> Iterator[types.Part]:
    """Yield a part without a call as the model's thought and its answer."""
    text = part.text or ""
    before, tag, answer = text.rpartition(FINAL_ANSWER)
    if tag:
        if before:
            # A provider's signature covers the end of the part that it signed.
            yield _thought(part.model_copy(update={"thought_signature": None}), before)
        if answer.strip():
            yield part.model_copy(update={"text": answer})
        elif not before:  # a bare tag has no content
            yield _thought(part, "")
    elif text.lstrip().startswith(_THINKING):
        yield _thought(part, text)
    else:  # an untagged answer is better shown than lost
        yield part


def _thought(part: types.Part, text: str) -> types.Part:
    for tag in _THINKING:
        text = text.replace(tag, "")
    return part.model_copy(update={"text": text, "thought": True})
