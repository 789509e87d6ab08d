"""The names of all attributes: OpenTelemetry's conventions and our own (S8)."""

import re

OPERATION = "gen_ai.operation.name"
PROVIDER = "gen_ai.provider.name"
AGENT = "gen_ai.agent.name"
CONVERSATION = "gen_ai.conversation.id"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
TOKEN_TYPE = "gen_ai.token.type"  # noqa: S105 - not a password
TOOL = "gen_ai.tool.name"
TOOL_TYPE = "gen_ai.tool.type"
CALL_ID = "gen_ai.tool.call.id"
ERROR_TYPE = "error.type"
WAITS_FOR = "durable_adk.waits_for"
"""The kind of request that a tool call waits for: a confirmation or a credential."""
STREAMING = "gen_ai.request.stream"

INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
EXCEPTION = "exception.message"
STACKTRACE = "exception.stacktrace"
"""The frames of user code in a traceback: file, line and function; no values."""

APP = "durable_adk.app"
INVOCATION = "durable_adk.invocation.id"
EVENT = "durable_adk.event.id"
ATTEMPT = "durable_adk.attempt"
STATUS = "durable_adk.status"
STEP = "durable_adk.step"
EVENTS = "durable_adk.events"
MODEL_CALLS = "durable_adk.model_calls"
TOOL_CALLS = "durable_adk.tool_calls"
TOKENS = "durable_adk.tokens"
PAUSES = "durable_adk.pauses"
BRANCH_UNFINISHED = "durable_adk.branch.unfinished"
"""The span event of a graph's branch that ended before the last node."""
NODE = "durable_adk.node.path"
MISSING = "durable_adk.node.missing"

CHAT, EXECUTE_TOOL, INVOKE_AGENT = "chat", "execute_tool", "invoke_agent"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,63}")
OTHER = "_OTHER"


def bounded(name: str) -> str:
    """A name that is safe as a label: anything but an identifier becomes ``_OTHER``."""
    return name if _NAME.fullmatch(name) else OTHER
