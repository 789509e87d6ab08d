"""What a step writes down before its event is committed, for the attempt that may follow it.

Notes are in the session store, beside the log and not in it. The first body of a name stays, so
attempts agree whichever was faster.
"""

from typing import Any, Final

from pydantic import Field

from durable_adk.activities.dependencies import World
from durable_adk.errors import DurableAdkError, StoreUnavailableError
from durable_adk.events.event_actions import EventActions
from durable_adk.json_model import JsonModel
from durable_adk.log import get_logger
from durable_adk.models.llm_response import LlmResponse
from durable_adk.tools._confirmation import Asker
from durable_adk.wire.manifest import Wait
from durable_adk.wire.steps import Step

logger = get_logger(__name__)


ANSWER: Final = "answer"
"""The kind of note that holds a model's answer which has arrived."""
BEGUN: Final = "begun"
"""That a run of an at-most-once tool may begin, and whose."""
RESULT: Final = "result"
"""What a tool has returned."""


class _Arrived(JsonModel):
    actions: EventActions = Field(default_factory=EventActions)
    """What user code had changed by then."""
    end_invocation: bool = False
    """Whether it had asked for the agent's end."""


class ArrivedAnswer(_Arrived):
    """A model's answer, before the callbacks after it."""

    response: LlmResponse
    long_running: dict[str, Wait] = Field(default_factory=dict[str, Wait])
    """The long-running tools that the request offered, by name."""


class ArrivedResult(_Arrived):
    """A tool's result, before the callbacks after it."""

    response: Any = None
    args: dict[str, Any] = Field(default_factory=dict[str, Any])
    """As the callbacks before the tool have left them."""
    asked_by: Asker | None = None
    """Who had asked for a confirmation."""


async def find_note(world: World, step: Step, kind: str, name: str) -> str | None:
    """What an earlier attempt has written down; None: nothing."""
    notes = await world.sessions.read_notes(
        step.key, invocation_id=step.invocation_id, kind=kind, name=name
    )
    return notes[0].body if notes else None


async def write_note(world: World, step: Step, kind: str, name: str, body: str) -> str:
    """Write something down; what stands there now.

    Raises:
        StoreUnavailableError: Perhaps it is written, perhaps not.
    """
    return await world.sessions.note(
        step.key, invocation_id=step.invocation_id, kind=kind, name=name, body=body
    )


async def offer_note(world: World, step: Step, kind: str, name: str, body: str) -> str:
    """Write something down if the store answers: without it the run goes on as well.

    Returns:
        What stands there now.
    """
    try:
        return await write_note(world, step, kind, name, body)
    except StoreUnavailableError:
        logger.warning("note.not_written", kind=kind, name=name)
    except DurableAdkError as error:
        # It cannot be stored. If the event cannot either, the step will say so.
        logger.warning("note.refused", kind=kind, name=name, reason=error.message)
    return body
