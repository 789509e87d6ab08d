"""Search attributes of an invocation in Temporal; their names are stable (D18)."""

from collections.abc import Callable

from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from durable_adk.wire.messages import InvocationRequest

APP = SearchAttributeKey.for_keyword("DurableAdkApp")
USER = SearchAttributeKey.for_keyword("DurableAdkUser")
SESSION = SearchAttributeKey.for_keyword("DurableAdkSession")
INVOCATION = SearchAttributeKey.for_keyword("DurableAdkInvocation")
STATUS = SearchAttributeKey.for_keyword("DurableAdkStatus")
"""``running`` or ``waiting``; the final status is Temporal's ``ExecutionStatus``."""
AGENT = SearchAttributeKey.for_keyword("DurableAdkAgent")
"""The agent that made the pending call, while the invocation waits."""
WAITING_SINCE = SearchAttributeKey.for_datetime("DurableAdkWaitingSince")

MARKS = (APP, USER, SESSION, INVOCATION, STATUS, AGENT, WAITING_SINCE)


def attributes_of(
    request: InvocationRequest, *, settable: Callable[[SearchAttributeKey[str]], bool]
) -> TypedSearchAttributes | None:
    """Return the search attributes of an invocation that starts; None if none can be set."""
    values = {
        APP: request.app,
        USER: request.user,
        SESSION: request.session,
        INVOCATION: request.invocation_id,
        STATUS: "running",
    }
    pairs = [
        SearchAttributePair(key, value)
        for key, value in values.items()
        if value is not None and settable(key)
    ]
    return TypedSearchAttributes(pairs) if pairs else None
