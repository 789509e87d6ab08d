"""Conversion of planners, code executors and configs of google-adk's agents, nodes and apps."""

# pyright: reportPrivateUsage=false
# google-adk's own tools, and its users, read some of its private attributes.

from collections.abc import Sequence
from typing import Any

from google.adk.agents.run_config import RunConfig as AdkRunConfig
from google.adk.apps.app import (
    EventsCompactionConfig as AdkEventsCompactionConfig,
    ResumabilityConfig as AdkResumabilityConfig,
)
from google.adk.apps.base_events_summarizer import BaseEventsSummarizer as AdkBaseEventsSummarizer
from google.adk.code_executors.base_code_executor import BaseCodeExecutor as AdkBaseCodeExecutor
from google.adk.code_executors.built_in_code_executor import (
    BuiltInCodeExecutor as AdkBuiltInCodeExecutor,
)
from google.adk.code_executors.code_execution_utils import (
    CodeExecutionInput as AdkCodeExecutionInput,
    File as AdkFile,
)
from google.adk.planners.base_planner import BasePlanner as AdkBasePlanner
from google.adk.planners.built_in_planner import BuiltInPlanner as AdkBuiltInPlanner
from google.adk.workflow import BaseNode as AdkBaseNode
from google.genai import types
from pydantic import PrivateAttr

from durable_adk.apps.base_events_summarizer import BaseEventsSummarizer
from durable_adk.apps.compaction import EventsCompactionConfig
from durable_adk.apps.resumability_config import ResumabilityConfig
from durable_adk.calling import call
from durable_adk.code_executors.base_code_executor import BaseCodeExecutor
from durable_adk.code_executors.built_in_code_executor import BuiltInCodeExecutor
from durable_adk.code_executors.code_execution_utils import (
    CodeExecutionInput,
    CodeExecutionResult,
    File,
)
from durable_adk.context.activity import CallbackContext, ReadonlyContext
from durable_adk.errors import AgentDefinitionError
from durable_adk.events.event import Event
from durable_adk.graph.retry_config import NodeRetryConfig
from durable_adk.interop.callbacks import adopt_request, shown_request
from durable_adk.interop.context import adk_readonly, shared_context
from durable_adk.interop.values import adk_event, our_event
from durable_adk.log import get_logger
from durable_adk.models.llm_request import LlmRequest
from durable_adk.planners.base_planner import BasePlanner
from durable_adk.planners.built_in_planner import BuiltInPlanner
from durable_adk.sessions.records import GetSessionConfig
from durable_adk.wire.run_config import RunConfig, StreamingMode, ToolThreadPoolConfig

_EXECUTOR = BaseCodeExecutor.model_fields.keys() & AdkBaseCodeExecutor.model_fields.keys()
_NESTED = {"streaming_mode", "get_session_config", "tool_thread_pool_config"}
_OF_RUN = (RunConfig.model_fields.keys() & AdkRunConfig.model_fields.keys()) - _NESTED
_OF_NODE = AdkBaseNode.model_fields.keys() - {"retry_config"}
_REFUSED = ("service_tier", "support_cfc", "telemetry")
"""Unsupported options that affect google-adk's `run_async`; the others are for live runs only."""
logger = get_logger(__name__)


class AdkPlanner(BasePlanner):
    """A planner of google-adk."""

    def __init__(self, adk: AdkBasePlanner) -> None:
        self.adk = adk

    async def build_planning_instruction(
        self, readonly_context: ReadonlyContext, llm_request: LlmRequest
    ) -> str | None:
        """See base class."""
        shown = shown_request(llm_request)
        context = adk_readonly(readonly_context)
        text = await call(self.adk.build_planning_instruction, context, shown)
        adopt_request(llm_request, shown)
        return text

    async def process_planning_response(
        self, callback_context: CallbackContext, response_parts: list[types.Part]
    ) -> list[types.Part] | None:
        """See base class."""
        with shared_context(callback_context) as shared:
            return await call(self.adk.process_planning_response, shared, response_parts)


def our_planner(planner: Any) -> BasePlanner:
    """Convert a planner of google-adk."""
    if type(planner) is AdkBuiltInPlanner:
        return BuiltInPlanner(thinking_config=planner.thinking_config)
    return AdkPlanner(planner)


class AdkCodeExecutor(BaseCodeExecutor):
    """A code executor of google-adk."""

    _adk: Any = PrivateAttr()

    @property
    def adk(self) -> Any:
        """The executor."""
        return self._adk

    async def execute_code(
        self, invocation_context: CallbackContext, code_execution_input: CodeExecutionInput
    ) -> CodeExecutionResult:
        """See base class."""
        files = [AdkFile(**vars(file)) for file in code_execution_input.input_files]
        adk_input = AdkCodeExecutionInput(
            code=code_execution_input.code,
            input_files=files,
            execution_id=code_execution_input.execution_id,
        )
        with shared_context(invocation_context) as shared:
            invocation = shared._invocation_context
            result = await call(self._adk.execute_code, invocation, adk_input)
        made = [
            File(name=file.name, content=file.content, mime_type=file.mime_type)
            for file in result.output_files
        ]
        return CodeExecutionResult(stdout=result.stdout, stderr=result.stderr, output_files=made)


def our_code_executor(executor: Any) -> BaseCodeExecutor:
    """Convert a code executor of google-adk."""
    if isinstance(executor, AdkBuiltInCodeExecutor):
        return BuiltInCodeExecutor()
    options = {name: getattr(executor, name) for name in _EXECUTOR}
    made = AdkCodeExecutor(**options)
    made._adk = executor
    return made


class AdkSummarizer(BaseEventsSummarizer):
    """A summarizer of google-adk."""

    def __init__(self, adk: AdkBaseEventsSummarizer) -> None:
        self.adk = adk

    async def maybe_summarize_events(self, *, events: Sequence[Event]) -> Event | None:
        """See base class; google-adk's summary has a random invocation id."""
        summary = await self.adk.maybe_summarize_events(events=[adk_event(one) for one in events])
        return summary and our_event(summary).model_copy(update={"invocation_id": ""})


def our_compaction(config: AdkEventsCompactionConfig) -> EventsCompactionConfig:
    """Convert an app's compaction config of google-adk."""
    options = {name: getattr(config, name) for name in EventsCompactionConfig.model_fields}
    if isinstance(options["summarizer"], AdkBaseEventsSummarizer):
        options["summarizer"] = AdkSummarizer(options["summarizer"])
    return EventsCompactionConfig(**options)


def our_resumability(config: AdkResumabilityConfig) -> ResumabilityConfig:
    """Convert an app's resumability config of google-adk."""
    return ResumabilityConfig(is_resumable=config.is_resumable)


def our_run_config(config: AdkRunConfig) -> RunConfig:
    """Convert a run's options of google-adk.

    Options of live runs are ignored, because they do not affect google-adk's `run_async` either.

    Raises:
        AgentDefinitionError: An option's effect is not supported.
    """
    fields = AdkRunConfig.model_fields
    set_fields = {name for name in config.model_fields_set if getattr(config, name) is not None}
    lacking = set_fields - RunConfig.model_fields.keys()
    changed = {name for name in lacking if getattr(config, name) != fields[name].get_default()}
    for name in _REFUSED:
        if name in changed:
            raise AgentDefinitionError(
                f"RunConfig.{name} is not supported by durable_adk; leave it out."
            )
    if changed:
        logger.debug("run_config.live_options_ignored", options=sorted(changed))
    options = {name: getattr(config, name) for name in _OF_RUN & set_fields}
    if config.get_session_config is not None:
        recent = config.get_session_config.model_dump()
        options["get_session_config"] = GetSessionConfig.model_validate(recent)
    if config.tool_thread_pool_config is not None:
        workers = config.tool_thread_pool_config.max_workers
        options["tool_thread_pool_config"] = ToolThreadPoolConfig(max_workers=workers)
    return RunConfig(**options, streaming_mode=StreamingMode(config.streaming_mode.value))


def node_fields(node: AdkBaseNode) -> dict[str, Any]:
    """Return the fields that all nodes of google-adk have, agents too, as this package's."""
    retry = node.retry_config
    return {name: getattr(node, name) for name in _OF_NODE} | {
        "retry_config": retry and NodeRetryConfig(**retry.model_dump())
    }
