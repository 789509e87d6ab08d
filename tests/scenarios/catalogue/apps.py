"""What an app adds to its agents: plugins and summaries; planners and code of its agents."""

from typing import Any

from google.genai import types

from durable_adk.agents import BaseAgent, SequentialAgent
from durable_adk.apps import App
from durable_adk.apps.app import EventsCompactionConfig
from durable_adk.apps.llm_event_summarizer import LlmEventSummarizer
from durable_adk.code_executors import BaseCodeExecutor
from durable_adk.code_executors.code_execution_utils import CodeExecutionResult, File
from durable_adk.events import Event
from durable_adk.models import LlmRequest, LlmResponse, ScriptedModel
from durable_adk.planners import PlanReActPlanner
from durable_adk.plugins import BasePlugin, ReflectAndRetryToolPlugin
from durable_adk.plugins.global_instruction_plugin import GlobalInstructionPlugin
from durable_adk.tools import ToolContext
from tests.scenarios.parts import instruction, last, shown, speaker, text, thinker, words
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call


class Noting(BasePlugin):
    """Notes the hooks that have a state to write to."""

    def _note(self, context: Any, hook: str) -> None:
        context.state["hooks"] = [*context.state.get("hooks", []), f"{self.name}.{hook}"]

    async def before_agent_callback(self, *, agent: BaseAgent, callback_context: Any) -> None:
        """See base class."""
        self._note(callback_context, "before_agent")

    async def after_agent_callback(self, *, agent: BaseAgent, callback_context: Any) -> None:
        """See base class."""
        self._note(callback_context, "after_agent")

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """See base class."""
        self._note(callback_context, "before_model")

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """See base class."""
        self._note(callback_context, "after_model")

    async def before_tool_callback(self, *, tool: Any, tool_args: Any, tool_context: Any) -> None:
        """See base class."""
        self._note(tool_context, "before_tool")

    async def after_tool_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, result: Any
    ) -> None:
        """See base class."""
        self._note(tool_context, "after_tool")


def look(tool_context: ToolContext) -> str:
    """Look."""
    return "seen"


_HOOKS = (
    *("before_agent", "before_model", "after_model", "before_tool", "after_tool"),
    *("before_model", "after_model", "after_agent"),
)


@scenario(
    "PLG-1 PLG-2 PLG-3",
    says("go", "a delta", "a call look", "a response look", "a text done", "a delta"),
    state={"hooks": [f"{name}.{hook}" for hook in _HOOKS for name in ("one", "two")]},
)
def plugins_note_every_step() -> App:
    agent = speaker("a", call("look"), "done", tools=[look])
    return App(
        name="plugins_note_every_step", root_agent=agent, plugins=[Noting("one"), Noting("two")]
    )


class Changing(BasePlugin):
    """Changes the message, the events and one run altogether."""

    async def on_user_message_callback(
        self, *, invocation_context: Any, user_message: types.Content
    ) -> types.Content | None:
        """See base class."""
        said = user_message.parts[0].text
        parts = [types.Part(text=f"{said}, please")]
        return None if said == "stop" else types.Content(role="user", parts=parts)

    async def before_run_callback(self, *, invocation_context: Any) -> types.Content | None:
        """See base class."""
        said = invocation_context.user_content.parts[0].text
        return text("no runs today") if said == "stop" else None

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> Event | None:
        """See base class."""
        if not words(event) or event.author != "a":
            return None
        return Event(author=event.author, content=text(words(event).upper()))


@scenario(
    "PLG-5 PLG-6 RUN-26",
    says("go", "a text USER:GO, PLEASE", "b text b"),
    says("stop", "model text no runs today"),
    says("go", "a text SEEN", "b text b"),
)
def a_plugin_changes_messages_and_events() -> App:
    def reply(request: LlmRequest) -> str:
        return "seen" if len(request.contents) > 1 else shown(request)

    seq = SequentialAgent(name="seq", sub_agents=[thinker("a", reply), speaker("b")])
    return App(
        name="a_plugin_changes_messages_and_events", root_agent=seq, plugins=[Changing("change")]
    )


class Answering(BasePlugin):
    """Stands for a model, a tool and a failing tool."""

    async def before_model_callback(
        self, *, callback_context: Any, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """See base class."""
        return LlmResponse(content=text("cached")) if last(llm_request) == "cached" else None

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: Any
    ) -> dict[str, Any] | None:
        """See base class."""
        return {"stood": "in"} if tool_args["word"] == "answered" else None

    async def on_tool_error_callback(
        self, *, tool: Any, tool_args: Any, tool_context: Any, error: Exception
    ) -> dict[str, Any] | None:
        """See base class."""
        return {"recovered": str(error)}


def _never(**_: Any) -> Any:
    raise AssertionError("a plugin has answered")


@scenario(
    "PLG-3 TOL-18",
    says("cached", "a text cached"),
    says("answered", "a call fail", "a response fail", "a text fail=>{'stood': 'in'}"),
    says("failing", "a call fail", "a response fail", "a text fail=>{'recovered': 'failing'}"),
    unrun=["fail"],
)
def a_plugin_answers_before_the_agents_callbacks() -> App:
    def fail(word: str) -> None:
        """Fail."""
        raise ValueError(word)

    def reply(request: LlmRequest) -> Any:
        said = last(request)
        return said if "=>" in said else call("fail", word=said)

    agent = thinker("a", reply, tools=[fail], on_tool_error_callback=_never)
    return App(
        name="a_plugin_answers_before_the_agents_callbacks",
        root_agent=agent,
        plugins=[Answering("answer")],
    )


@scenario(
    "PLG-7",
    says(
        "go",
        *("a call guess", "a response guess", "a call guess", "a response guess"),
        "a text Be brief. right",
    ),
)
def shipped_plugins_instruct_and_retry() -> App:
    def guess(number: int) -> str:
        """Guess."""
        if number < 2:
            raise ValueError("too low")
        return "right"

    def reply(request: LlmRequest) -> Any:
        answers = [
            part.function_response.response
            for content in request.contents
            for part in content.parts or []
            if part.function_response
        ]
        if len(answers) == 2:
            return f"{instruction(request)} {answers[1]['result']}"
        return call("guess", number=len(answers) + 1)

    return App(
        name="shipped_plugins_instruct_and_retry",
        root_agent=thinker("a", reply, tools=[guess]),
        plugins=[GlobalInstructionPlugin("Be brief."), ReflectAndRetryToolPlugin(max_retries=2)],
    )


@scenario(
    "FLW-95 AGT-23",
    says("go", "a call look", "a response look", "a text It is 3."),
    state={"answer": "It is 3."},
)
def a_planner_tells_plan_and_answer_apart() -> BaseAgent:
    plan = [
        types.Part(text="/*PLANNING*/\n1. Look.\n/*ACTION*/"),
        types.Part(function_call=types.FunctionCall(name="look", args={})),
    ]
    final = "/*REASONING*/ It is 3. /*FINAL_ANSWER*/It is 3."
    return speaker("a", plan, final, tools=[look], planner=PlanReActPlanner(), output_key="answer")


class Calculator(BaseCodeExecutor):
    """Knows one sum."""

    def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
        """See base class."""
        known = {"print(6 * 7)": "42\n"}
        return CodeExecutionResult(stdout=known[code_execution_input.code.strip()])


@scenario(
    "FLW-90 EVT-8 EVT-10",
    says("go", "a text Let me see. ", "a text ", "a text It is 42."),
)
def code_that_a_model_wrote_is_run() -> BaseAgent:
    code = "Let me see. ```python\nprint(6 * 7)\n```\nIt printed 17."
    return speaker("a", code, "It is 42.", code_executor=Calculator())


@scenario(
    "CMP-1",
    *(says(each, f"a text {heard}") for each, heard in (("1", 1), ("2", 3), ("3", 2), ("4", 4))),
)
def a_long_conversation_is_summarised() -> App:
    """Two messages at a time, with the last one of those before."""
    summarizer = LlmEventSummarizer(llm=ScriptedModel(replies=lambda _: "so far"))
    config = EventsCompactionConfig(summarizer=summarizer, compaction_interval=2, overlap_size=1)
    return App(
        name="a_long_conversation_is_summarised",
        root_agent=thinker("a", lambda request: str(len(request.contents))),
        events_compaction_config=config,
    )


@scenario(
    "FLW-92 ART-1",
    says("go", "a text ", "a text ", "a text ", "a text ", "a text done"),
    state={"answer": "done", "_code_execution_errors": {}},
)
def code_fails_and_then_makes_a_file() -> BaseAgent:
    class Runner(BaseCodeExecutor):
        """Knows two programs."""

        def execute_code(self, invocation_context: Any, code_execution_input: Any) -> Any:
            """See base class."""
            if "wrong" in code_execution_input.code:
                return CodeExecutionResult(stderr="Traceback: wrong")
            made = File(name="o.txt", content=b"hello", mime_type="text/plain")
            return CodeExecutionResult(stdout="ok", output_files=[made])

    first, second = "```python\nwrong\n```", "```tool_code\nright\n```"
    return speaker("a", first, second, "done", code_executor=Runner(), output_key="answer")
