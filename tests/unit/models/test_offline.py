"""The model that needs no key, judged by what a user of an example agent would type."""

import json

import pytest
from google.genai import types
from hypothesis import given, settings, strategies as st

from durable_adk.models import LlmRequest, OfflineModel
from tests.support.examples import examples

TEXT, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def tool(name, *optional, **properties):
    schema = {
        "type": "object",
        "properties": properties,
        "required": [key for key in properties if key not in optional],
    }
    return types.FunctionDeclaration(name=name, parameters_json_schema=schema)


CAPITAL = tool("get_capital", country=TEXT)
TRIP = tool("book_trip", city=TEXT)
WEATHER = tool(
    "get_weather",
    *("unit", "days"),
    city=TEXT,
    unit={"anyOf": [{"enum": ["celsius", "fahrenheit"], "type": "string"}, {"type": "null"}]},
    days=INTEGER,
)
ADD = tool("add", a=NUMBER, b=NUMBER)
REFUND = tool("refund", order=TEXT, amount=NUMBER)
INVOICE = tool("findInvoice", number=TEXT)
TASKS = tool("list_tasks")
NOTE = tool("write-note", text=TEXT)
TRANSFER = tool("transfer_to_agent", agent_name={"type": "string", "enum": ["weather"]})


async def ask(tools, contents):
    declared = [types.Tool(function_declarations=tools)] if tools else []
    request = LlmRequest(contents=contents, config=types.GenerateContentConfig(tools=declared))
    (response,) = [r async for r in OfflineModel().generate_content_async(request)]
    (part,) = response.content.parts
    return part


async def talk(tools, *messages, result=None):
    """The calls made for the last message, and what was said in the end."""
    contents = []
    for message in messages:
        contents.append(types.UserContent(message))
        calls = []
        while (part := await ask(tools, contents)).function_call:
            name = part.function_call.name
            calls.append((name, part.function_call.args))
            answer = types.Part.from_function_response(name=name, response=result or {})
            contents += [types.ModelContent(part), types.Content(role="user", parts=[answer])]
        contents.append(types.ModelContent(part))
    return calls, part.text


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("Find the capital of France.", [("get_capital", {"country": "France"})]),
        ("what's the capital of New Zealand?", [("get_capital", {"country": "New Zealand"})]),
        ("Tell me about Japan's capital city", [("get_capital", {"country": "Japan"})]),
        ("capital of 'san marino'", [("get_capital", {"country": "san marino"})]),
        ("Weather of Rome, in Celsius", [("get_weather", {"city": "Rome", "unit": "celsius"})]),
        ("The weather of Oslo for 5 days", [("get_weather", {"city": "Oslo", "days": 5})]),
        ("add 3 and 4.5", [("add", {"a": 3, "b": 4.5})]),
        ("Refund 180 euros for order A-17.", [("refund", {"order": "A-17", "amount": 180})]),
        ("Is invoice 4712 paid?", [("findInvoice", {"number": "4712"})]),
        ("Show my tasks!", [("list_tasks", {})]),
        ('Write a note "salt and pepper"', [("write-note", {"text": "salt and pepper"})]),
        (
            "Find the capital of France and book a trip to Paris.",
            [("get_capital", {"country": "France"}), ("book_trip", {"city": "Paris"})],
        ),
        (
            "Add 1 and 2, then 3. Book a trip to Rome; book one trip to Oslo",
            [
                ("add", {"a": 1, "b": 2}),
                *[("book_trip", {"city": city}) for city in ("Rome", "Oslo")],
            ],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
async def test_each_part_of_a_message_is_one_call(message, calls):
    """The tool whose name it mentions is called with its names, numbers and quoted texts."""
    tools = [CAPITAL, TRIP, WEATHER, ADD, REFUND, INVOICE, TASKS, NOTE]
    assert (await talk(tools, message))[0] == calls


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"result": "Paris"}, "get_capital returned Paris."),
        ({"result": "It is Paris."}, "get_capital returned It is Paris."),
        ({"city": "Paris", "people": 2}, "get_capital returned city Paris, people 2."),
        ({"error": "No such country."}, "get_capital returned error No such country."),
        ({"result": ["a", None]}, 'get_capital returned ["a", null].'),
        ({}, "get_capital returned nothing."),
    ],
)
async def test_results_are_told_as_they_are(result, text):
    """The answer names each tool and what it returned."""
    assert (await talk([CAPITAL], "capital of France", result=result))[1] == text


@pytest.mark.parametrize("message", ["Hello there!", "thanks", "", "?", "Who are you, Bob?"])
async def test_it_says_when_nothing_fits(message):
    """A message that names no tool gets no call, but what the model is and what would help."""
    calls, said = await talk([CAPITAL, ADD], message)
    assert calls == []
    assert "not an LLM" in said
    assert "get_capital, add" in said
    assert "GEMINI_API_KEY" in said
    assert "no tools" in (await talk([], message))[1]


async def test_it_asks_for_what_is_missing():
    """A required argument that the message does not hold is asked for, with the way to give it."""
    calls, said = await talk([CAPITAL], "what is the capital?")
    assert calls == []
    assert said == "get_capital needs country: write names with a capital letter, or in quotes."
    assert (await talk([CAPITAL], "what is the capital?", "capital of Spain"))[0]


async def test_a_pending_call_is_not_made_again():
    """A call without a response yet is reported as such instead of being called again."""
    call = types.Part.from_function_call(name="get_capital", args={"country": "France"})
    history = [types.UserContent("capital of France"), types.ModelContent(call)]
    assert (await ask([CAPITAL], history)).text == "get_capital has not answered yet."


async def test_what_other_agents_said_is_no_message():
    """The user's message counts, not what another agent's part of the conversation quotes."""
    quoted = types.UserContent(["For context:", "[root] said: book a trip to Rome"])
    part = await ask([CAPITAL, TRIP], [types.UserContent("capital of France"), quoted])
    assert part.function_call.name == "get_capital"


async def test_it_hands_over_to_nobody():
    """Two agents that each hand over to the other would never end."""
    assert (await ask([TRANSFER], [types.UserContent("transfer me to weather")])).text


async def test_geminis_own_schemas():
    """Declarations in Gemini's form of schema are understood like JSON Schema."""
    city = types.Schema(type="STRING", nullable=True)
    unit = types.Schema(type="STRING", enum=["metric", "imperial"])
    schema = types.Schema(type="OBJECT", properties={"city": city, "unit": unit}, required=["city"])
    weather = types.FunctionDeclaration(name="get_weather", parameters=schema)
    calls, _ = await talk([weather], "weather of Rome in metric units")
    assert calls == [("get_weather", {"city": "Rome", "unit": "metric"})]


async def test_a_stream_ends_with_the_whole():
    """Streamed words joined are the text of the whole."""
    request = LlmRequest(contents=[types.UserContent("hello")])
    responses = [r async for r in OfflineModel().generate_content_async(request, stream=True)]
    *partials, whole = responses
    text = "".join(partial.content.parts[0].text for partial in partials)
    assert text == whole.content.parts[0].text
    assert len(partials) > 10


ODD_WORDS = "add weather in Paris and of 5 -1.5 '5' \"a\" then note . ? , 9e999 1" + "0" * 400
WORDS = st.sampled_from(ODD_WORDS.split())


@settings(max_examples=examples(150), deadline=None)
@given(st.one_of(st.text(), st.lists(WORDS).map(" ".join)))
async def test_any_text_gets_a_valid_answer(message):
    """Whatever is typed, the answer is a text, or a call with all required arguments, and JSON."""
    tools = [WEATHER, ADD, NOTE, TASKS]
    part = await ask(tools, [types.UserContent(message)])
    assert part == await ask(tools, [types.UserContent(message)])
    if part.function_call is None:
        assert part.text
        return
    schema = next(t for t in tools if t.name == part.function_call.name).parameters_json_schema
    assert set(schema["required"]) <= set(part.function_call.args) <= set(schema["properties"])
    json.dumps(part.function_call.args, allow_nan=False)
