"""What a model receives, and what is kept of its answer."""

from typing import Any

from google.genai import types
from pydantic import BaseModel

from durable_adk.agents import BaseAgent, LlmAgent, SequentialAgent
from durable_adk.agents.readonly_context import ReadonlyContext
from durable_adk.examples import Example
from durable_adk.models import LlmRequest, LlmResponse
from durable_adk.tools import ExampleTool
from tests.scenarios.parts import instruction, last, shown, speaker, text, thinker, user_said
from tests.scenarios.scenario import says, scenario
from tests.support.scripts import call


@scenario(
    "AGT-13 TRAP-38",
    says("go", 'a text Ada, 3 of [1, 2], , {"json": {"a": 1}}, Ada, ${name}, {a b}, {not-a-name}'),
    initial={"name": "Ada", "user:count": 3, "items": [1, 2], "nothing": None},
    state={"name": "Ada", "user:count": 3, "items": [1, 2], "nothing": None},
)
def a_template_is_filled_from_state() -> BaseAgent:
    words = (
        '{name}, {user:count} of { items }, {nothing}{missing?}, {"json": {"a": 1}}, {{name}}, '
        "${name}, {a b}, {not-a-name}"
    )
    return thinker("a", instruction, instruction=words)


@scenario(
    "AGT-13 TRAP-38 DUR-10",
    says("go", "a error KeyError", raises="KeyError"),
    says("go", "a text I know tea", state_delta={"drink": "tea"}),
    state={"drink": "tea"},
)
def a_missing_variable_fails_the_run() -> BaseAgent:
    return thinker("a", instruction, instruction="I know {drink}")


@scenario(
    "AGT-12 CTX-5",
    says("hello", "a text {name} says hello to a"),
    initial={"name": "Ada"},
    state={"name": "Ada"},
)
def a_provider_is_not_a_template() -> BaseAgent:
    async def provide(context: ReadonlyContext) -> str:
        assert context.state["name"] == "Ada"
        said = context.user_content.parts[0].text
        return f"{{name}} says {said} to {context.agent_name}"

    return thinker("a", instruction, instruction=provide)


@scenario(
    "AGT-14 AGT-15",
    says(
        "go",
        "root call transfer_to_agent",
        "root response transfer_to_agent",
        "child text Be kind, Ada.|Help.",
    ),
    initial={"name": "Ada"},
    state={"name": "Ada"},
)
def the_roots_global_instruction_is_for_all() -> BaseAgent:
    def told(request: LlmRequest) -> str:
        return instruction(request).replace("\n\n", "|")

    child = thinker("child", told, instruction="Help.", global_instruction="never")
    hand_over = call("transfer_to_agent", agent_name="child")
    return speaker("root", hand_over, global_instruction="Be kind, {name}.", sub_agents=[child])


@scenario(
    "AGT-17 TRAP-39",
    says(
        "one",
        "a call look",
        "a response look",
        "a text user:one model:look() user:look=>{'result': 'seen'}",
    ),
    says(
        "two",
        "a call look",
        "a response look",
        "a text user:two model:look() user:look=>{'result': 'seen'}",
    ),
)
def an_agent_is_shown_the_current_turn_only() -> BaseAgent:
    def look() -> str:
        """Look."""
        return "seen"

    def reply(request: LlmRequest) -> Any:
        return shown(request) if "=>" in last(request) else call("look")

    return thinker("a", reply, tools=[look], include_contents="none")


@scenario(
    "FLW-20 FLW-23",
    says("one", "a text user:one"),
    says("two", "a text user:one model:user:one user:two"),
)
def an_agent_is_shown_the_whole_conversation() -> BaseAgent:
    return thinker("a", shown)


@scenario(
    "FLW-22 FLW-30",
    says("go", "a call look", "a response look", "a text found", "b text user,user,user,user"),
)
def what_another_did_is_quoted() -> BaseAgent:
    """No call, no response, no thought of another agent is shown as such."""

    def look() -> str:
        """Look."""
        return "seen"

    def roles(request: LlmRequest) -> str:
        parts = [part for content in request.contents for part in content.parts]
        assert not any(part.function_call or part.function_response for part in parts)
        assert "musing" not in str(request.contents)
        return ",".join(str(content.role) for content in request.contents)

    thinking = [types.Part(text="musing", thought=True), types.Part(text="found")]
    first = speaker("a", call("look"), thinking, tools=[look])
    return SequentialAgent(name="seq", sub_agents=[first, thinker("b", roles)])


class City(BaseModel):
    """A city."""

    name: str
    people: int | None = None


@scenario(
    "AGT-19 AGT-21 AGT-22",
    says("Paris", 'a text {"name": "Paris", "people": 2}'),
    says("Rome", 'a text {"name": "Rome"}'),
    says("fenced", 'a text ```json\n{"name": "Oslo"}\n```'),
    says("nonsense", "a error ValidationError", raises="ValidationError"),
    state={"city": {"name": "Oslo"}},
)
def an_answer_fits_a_schema() -> BaseAgent:
    def reply(request: LlmRequest) -> str:
        assert request.config.response_schema is City
        return {
            "Paris": '{"name": "Paris", "people": 2}',
            "Rome": '{"name": "Rome"}',
            "fenced": '```json\n{"name": "Oslo"}\n```',
        }.get(last(request), "no JSON")

    return thinker("a", reply, output_schema=City, output_key="city")


@scenario(
    "AGT-19 FLW-2",
    says("go", "a call look", "a response look", 'a text {"name": "Paris"}'),
    state={"city": {"name": "Paris"}},
)
def an_answer_fits_a_schema_after_a_tool() -> BaseAgent:
    def look() -> str:
        """Look."""
        return "Paris"

    return speaker(
        "a", call("look"), '{"name": "Paris"}', tools=[look], output_schema=City, output_key="city"
    )


@scenario(
    "AGT-6 AGT-22",
    says("Rome", 'a text {"name": "Rome"}'),
    says("nonsense", "a error ValidationError", raises="ValidationError"),
    state={"city": {"name": "Rome"}},
)
def an_answer_before_the_agent_fits_its_schema() -> BaseAgent:
    def before(callback_context: Any) -> types.Content:
        said = user_said(callback_context)
        return text('{"name": "Rome"}' if said == "Rome" else "no JSON")

    return speaker("a", before_agent_callback=before, output_schema=City, output_key="city")


@scenario(
    "AGT-21 FLW-80 17.1",
    says("go", "a call look", "a response look", "a text is Paris."),
    state={"answer": "It is Paris."},
)
def an_answer_is_kept_whole_and_without_thoughts() -> BaseAgent:
    """The text that came with a call is part of it."""

    def look() -> str:
        """Look."""
        return "Paris"

    def asking() -> list[types.Part]:
        function = types.FunctionCall(name="look", args={})
        return [types.Part(text="It "), types.Part(function_call=function)]

    final = [types.Part(text="musing", thought=True), types.Part(text="is Paris.")]
    return speaker("a", asking(), final, tools=[look], output_key="answer")


@scenario(
    "AGT-11 AGT-18 FLW-2",
    says("go", "root call transfer_to_agent", "root response transfer_to_agent", "child text 1.5"),
    says("on", "child text 1.5"),
)
def an_agent_uses_the_model_above_it() -> BaseAgent:
    """With settings of its own."""

    def reply(request: LlmRequest) -> Any:
        heat = request.config.temperature
        return call("transfer_to_agent", agent_name="child") if heat is None else str(heat)

    config = types.GenerateContentConfig(temperature=1.5)
    child = LlmAgent(name="child", generate_content_config=config)
    return thinker("root", reply, sub_agents=[child])


@scenario(
    "AGT-13 TRAP-38",
    says(
        "go",
        "a text 1 x {'d': [1]} [] 1.5 True   {not valid} {1a} {} 1 {a-b} {\"j\": 1} {a.b}  1",
        state_delta={"a": 1, "user:b": "x", "c": {"d": [1]}, "e": None, "f": 1.5, "g": True},
    ),
    state={"a": 1, "user:b": "x", "c": {"d": [1]}, "e": None, "f": 1.5, "g": True},
)
def placeholders_of_every_kind() -> BaseAgent:
    template = (
        "{a} {user:b} {c} [{e}] {f} {g} {h?} {user:i?} {not valid} {1a} {} {{a}} {a-b} "
        '{"j": 1} {a.b} {app:z?} { a } {artifact.none?}'
    )
    return thinker("a", instruction, instruction=template)


@scenario(
    "AGT-17 FLW-30",
    says("go", "a call look", "a response look", "a text user:go model:look() user:look=>..."),
    says("more", "a call look", "a response look", "a text user:more model:look() user:look=>..."),
)
def an_agent_without_history_sees_what_its_tools_gave() -> BaseAgent:
    def look() -> str:
        """Look."""
        return "seen"

    def reply(request: LlmRequest) -> Any:
        seen = shown(request).partition("=>")
        return f"{seen[0]}=>..." if seen[1] else call("look")

    return thinker("a", reply, tools=[look], include_contents="none")


@scenario(
    "TOL-27",
    says("go", "a text 2+2 4"),
)
def examples_are_shown() -> BaseAgent:
    asked = types.Content(role="user", parts=[types.Part(text="2+2")])
    example = Example(input=asked, output=[text("4")])

    def reply(request: LlmRequest) -> str:
        shows = str(request.config.system_instruction)
        return " ".join(word for word in ("2+2", "4", "3+3") if word in shows)

    return thinker("a", reply, tools=[ExampleTool(examples=[example])])


@scenario(
    "AGT-21 17.1",
    says("go", "a call look", "a response look", "a text "),
    state={"answer": "Let me look."},
)
def an_empty_last_answer_empties_no_output() -> BaseAgent:
    def look() -> str:
        """Look."""
        return "seen"

    parts = [types.Part(text="Let me look."), *(call("look").parts or [])]
    empty = LlmResponse(content=text(""))
    return speaker("a", parts, empty, tools=[look], output_key="answer")
