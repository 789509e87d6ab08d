"""Search attributes of an invocation in Temporal; their names are stable (design D18)."""

from temporalio.common import SearchAttributeKey

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
