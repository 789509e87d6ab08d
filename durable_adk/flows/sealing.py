"""How a run that ends early leaves its session usable."""

from durable_adk.errors import DurableAdkError
from durable_adk.events.event import Event
from durable_adk.flows.invocation import Invocation
from durable_adk.flows.merge import error_response, merge_responses

ABORTED = "INVOCATION_ABORTED"
MAX_MESSAGE = 8_000


async def close_open_calls(invocation: Invocation, reason: str) -> None:
    """Commit a response for every call that has none, one event per call event (CAN-2, I9).

    Without it the next turn's prompt would hold calls without responses, which providers refuse and
    which hide from the model that the call was made (TRAP-47).
    """
    open_events = {event.id: event for _, event in invocation.open_calls.values()}
    for event in open_events.values():
        responses = [
            error_response(
                call.id, call.name or "", reason, author=event.author, branch=event.branch
            )
            for call in event.get_function_calls()
            if call.id in invocation.open_calls
        ]
        await invocation.commit(merge_responses(responses, event_id=invocation.next_id()))


async def commit_error(invocation: Invocation, code: str, message: str) -> None:
    """Commit the one content-less event that says why the run ended (RUN-8, OPEN-8)."""
    await invocation.commit(
        Event(
            author=invocation.opened.agent,
            error_code=code,
            error_message=message[:MAX_MESSAGE],
        )
    )


async def seal_failed(invocation: Invocation, error: DurableAdkError) -> None:
    """Leave a failed run: open calls answered, the error stored."""
    await close_open_calls(invocation, f"The run failed before this call was answered: {error}")
    await commit_error(invocation, error.error_type, error.message)


async def seal_cancelled(invocation: Invocation) -> None:
    """Leave a cancelled run: open calls answered, the abort stored (CAN-2)."""
    invocation.turn_to_end()
    await close_open_calls(invocation, "The run was cancelled before this call was answered.")
    await commit_error(invocation, ABORTED, "The invocation was cancelled.")
