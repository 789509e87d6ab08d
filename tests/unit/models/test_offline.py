"""The model that needs no key, judged by what a user of an example agent would type."""

import json

import pytest
from google.genai import types
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel

from durable_adk.models import LlmRequest, OfflineModel

TEXT, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}


def tool(name, description, *optional, **properties):
    schema = {
        "type": "object",
        "properties": properties,
        "required": [key for key in properties if key not in optional],
    }
    return types.FunctionDeclaration(
        name=name, description=description, parameters_json_schema=schema
    )


CAPITAL = tool("get_capital", "Return the capital city of a country.", country=TEXT)
WEATHER = tool(
    "get_weather",
    "Retrieves the current weather report for a specified city.",
    *("unit", "days"),
    city=TEXT,
    unit={"anyOf": [{"enum": ["celsius", "fahrenheit"], "type": "string"}, {"type": "null"}]},
    days=INTEGER,
)
TIME = tool("get_current_time", "Returns the current time in a specified city.", city=TEXT)
ADD = tool("add", "Add two numbers.", a=NUMBER, b=NUMBER)
MULTIPLY = tool("multiply", "Multiply two numbers.", a=NUMBER, b=NUMBER)
FLIGHT = tool(
    "book_flight",
    "Book a flight between two cities.",
    *("passengers", "business_class"),
    origin=TEXT,
    destination=TEXT,
    date=TEXT,
    passengers=INTEGER,
    business_class={"type": "boolean"},
)
CURRENCY = tool(
    "convert_currency", "Convert money.", amount=NUMBER, from_currency=TEXT, to_currency=TEXT
)
EMAIL = tool("send_email", "Send an email to a recipient.", to=TEXT, subject=TEXT, body=TEXT)
SEARCH = tool("search_web", "Search the web.", query=TEXT)
STATUS = tool("get_order_status", "Look up the status of an order.", order_id=TEXT)
CANCEL = tool("cancel_order", "Cancel an order.", order_id=TEXT)
TASK = tool(
    "create_task",
    "Create a new todo item.",
    *("due", "priority"),
    title=TEXT,
    due=TEXT,
    priority={"type": "string", "enum": ["low", "medium", "high"]},
)
TASKS = tool("list_tasks", "List all tasks.")
PRIMES = tool("check_prime", "Check numbers for primes.", nums={"type": "array", "items": INTEGER})
DIE = tool("roll_die", "Roll a die.", sides=INTEGER)
TRANSLATE = tool("translate", "Translate a text.", text=TEXT, target_language=TEXT)


def responding(call, response):
    part = types.Part.from_function_response(name=call.name, response=response)
    return types.Content(role="user", parts=[part])


async def ask(tools, contents, **config):
    config = {"tools": [types.Tool(function_declarations=tools)] if tools else [], **config}
    request = LlmRequest(contents=contents, config=types.GenerateContentConfig(**config))
    (response,) = [r async for r in OfflineModel().generate_content_async(request)]
    return response.content


async def talk(tools, *messages, results=None):
    """The calls made for the last message, and what was said in the end."""
    contents = []
    for message in messages:
        contents.append(types.UserContent(message))
        calls = []
        while True:
            contents.append(await ask(tools, contents))
            (part,) = contents[-1].parts
            if not part.function_call:
                break
            calls.append((part.function_call.name, part.function_call.args))
            response = (results or {}).get(part.function_call.name, {"result": None})
            contents.append(responding(part.function_call, response))
    return calls, part.text


@pytest.mark.parametrize(
    ("tools", "message", "calls"),
    [
        ([CAPITAL], "find capital of France", [("get_capital", {"country": "France"})]),
        (
            [CAPITAL],
            "what's the capital of new zealand?",
            [("get_capital", {"country": "New Zealand"})],
        ),
        ([CAPITAL], "Tell me about Japan's capital city", [("get_capital", {"country": "Japan"})]),
        (
            [CAPITAL],
            "Which city is the capital of the United States of America?",
            [("get_capital", {"country": "United States of America"})],
        ),
        (
            [CAPITAL],
            "capital of France and Germany",
            [("get_capital", {"country": "France"}), ("get_capital", {"country": "Germany"})],
        ),
        (
            [WEATHER, TIME],
            "weather in new york tomorrow in fahrenheit please",
            [("get_weather", {"city": "New York", "unit": "fahrenheit"})],
        ),
        (
            [WEATHER, TIME],
            "What time is it in San Francisco and what is the weather in Paris?",
            [("get_current_time", {"city": "San Francisco"}), ("get_weather", {"city": "Paris"})],
        ),
        ([WEATHER, TIME], "Is it raining in Berlin?", [("get_weather", {"city": "Berlin"})]),
        (
            [WEATHER, TIME],
            "forecast for London for 5 days",
            [("get_weather", {"city": "London", "days": 5})],
        ),
        (
            [WEATHER, TIME],
            "I live in Oslo. What's the weather?",
            [("get_weather", {"city": "Oslo"})],
        ),
        ([ADD, MULTIPLY], "what is 3 + 4?", [("add", {"a": 3, "b": 4})]),
        ([ADD, MULTIPLY], "what is 7 times 6.5", [("multiply", {"a": 7, "b": 6.5})]),
        (
            [ADD, MULTIPLY],
            "add 3 and 4, then multiply 5 and 1,000",
            [("add", {"a": 3, "b": 4}), ("multiply", {"a": 5, "b": 1000})],
        ),
        (
            [DIE, PRIMES],
            "roll a 20 sided die and check if 7, 11 and 15 are prime",
            [("roll_die", {"sides": 20}), ("check_prime", {"nums": [7, 11, 15]})],
        ),
        (
            [FLIGHT],
            "book me a business class flight to Rome from Paris on 2026-01-05",
            [
                (
                    "book_flight",
                    {
                        "origin": "Paris",
                        "destination": "Rome",
                        "date": "2026-01-05",
                        "business_class": True,
                    },
                )
            ],
        ),
        (
            [CURRENCY],
            "convert 100 USD to EUR",
            [("convert_currency", {"amount": 100, "from_currency": "USD", "to_currency": "EUR"})],
        ),
        (
            [EMAIL, SEARCH],
            "send an email to bob@example.com with subject 'Lunch' saying \"See you at noon\"",
            [
                (
                    "send_email",
                    {"to": "bob@example.com", "subject": "Lunch", "body": "See you at noon"},
                )
            ],
        ),
        (
            [EMAIL, SEARCH],
            "search the web for durable execution with temporal",
            [("search_web", {"query": "durable execution with temporal"})],
        ),
        ([STATUS, CANCEL], "where is my order 1234?", [("get_order_status", {"order_id": "1234"})]),
        ([STATUS, CANCEL], "please cancel ORD-42", [("cancel_order", {"order_id": "ORD-42"})]),
        (
            [TASK, TASKS],
            "create a task 'buy milk' with high priority due tomorrow",
            [("create_task", {"title": "buy milk", "due": "tomorrow", "priority": "high"})],
        ),
        ([TASK, TASKS], "show my tasks", [("list_tasks", {})]),
        (
            [TRANSLATE],
            "Translate hello world into German",
            [("translate", {"text": "hello world", "target_language": "German"})],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_messages_become_calls(tools, message, calls):
    """The tool a message asks for is called with the arguments it gives, and nothing else is."""
    assert (await talk(tools, message))[0] == calls


@pytest.mark.parametrize(
    ("response", "text"),
    [
        ({"result": "Paris"}, "The capital for France is Paris."),
        ({"result": "The capital is Paris."}, "The capital is Paris."),
        ({"status": "success", "report": "It is Paris now."}, "It is Paris now."),
        (
            {"status": "error", "error_message": "No such country."},
            "get_capital failed: No such country.",
        ),
        ({"error": "timeout"}, "get_capital failed: timeout."),
        (
            {"name": "Paris", "people": {"count": 2, "known": True}},
            "The capital for France: name Paris, people (count 2, known yes).",
        ),
        ({"result": ["a", "b", 3]}, "The capital for France is a, b and 3."),
        ({"result": [{"a": 1}, {"a": 2}]}, "The capital for France:\n- a 1\n- a 2"),
        ({"result": None}, "The capital for France is done."),
        ({}, "The capital for France is done."),
    ],
)
async def test_results_become_sentences(response, text):
    """A tool's response is said readably, and a failure is said to be one."""
    _, said = await talk([CAPITAL], "capital of France", results={"get_capital": response})
    assert said == text


@pytest.mark.parametrize("message", ["Hello there!", "thanks", "", "?", "Who are you, Bob?"])
async def test_it_is_honest_when_nothing_fits(message):
    """A message that asks for no tool gets no call, but what the model is and what would help."""
    calls, said = await talk([CAPITAL, ADD], message)
    assert calls == []
    assert "not an LLM" in said
    assert "get_capital(country), add(a, b)" in said
    assert "GEMINI_API_KEY" in said


async def test_without_tools_it_says_so():
    """An agent without tools is told that it has none."""
    assert "has no tools" in (await talk([], "hi"))[1]


async def test_it_asks_for_what_is_missing():
    """A missing argument is asked for, and the next message may be just the answer."""
    calls, said = await talk([CAPITAL], "what is the capital?")
    assert calls == []
    assert said == "To call get_capital I still need: country."
    calls, _ = await talk([CAPITAL], "what is the capital?", "Spain")
    assert calls == [("get_capital", {"country": "Spain"})]


async def test_a_question_may_go_on():
    """The last question may be asked again about another thing, as in "and of Spain?"."""
    calls, _ = await talk([CAPITAL], "capital of France?", "and of Spain?")
    assert calls == [("get_capital", {"country": "Spain"})]


async def test_a_pending_call_is_not_made_again():
    """A call without response yet is reported as such instead of being called again."""
    call = types.Part.from_function_call(name="get_capital", args={"country": "France"})
    history = [types.UserContent("capital of France"), types.Content(role="model", parts=[call])]
    (part,) = (await ask([CAPITAL], history)).parts
    assert part.text == "get_capital has not answered yet."


async def test_geminis_own_schemas():
    """Declarations in Gemini's form of schema are understood like JSON Schema."""
    city = types.Schema(type="STRING", nullable=True)
    unit = types.Schema(type="STRING", enum=["metric", "imperial"])
    schema = types.Schema(type="OBJECT", properties={"city": city, "unit": unit}, required=["city"])
    weather = types.FunctionDeclaration(name="get_weather", parameters=schema)
    calls, _ = await talk([weather], "weather of Rome in metric units")
    assert calls == [("get_weather", {"city": "Rome", "unit": "metric"})]


async def test_it_hands_over_once():
    """A message for another agent is handed over by name, but not handed on from there."""
    transfer = tool("transfer_to_agent", "Hand over.", agent_name=TEXT)
    instruction = "Agent name: biller\nAgent description: Handles invoices and payments.\n\n\n"
    question = types.UserContent("I have a question about my invoice payment")
    quoted = types.UserContent(["For context:", "[root] called tool `transfer_to_agent`"])
    (part,) = (await ask([transfer], [question], system_instruction=instruction)).parts
    assert part.function_call.name == "transfer_to_agent"
    assert part.function_call.args == {"agent_name": "biller"}
    (part,) = (await ask([transfer], [question, quoted], system_instruction=instruction)).parts
    assert part.function_call is None


async def test_an_output_schema_is_kept_to():
    """With a response schema the answer is JSON of it: results, then the message, then blanks."""

    class Answer(BaseModel):
        city: str
        days: int
        sunny: bool
        source: str

    content = types.UserContent("weather in Rome for 3 days")
    (part,) = (await ask([], [content], response_schema=Answer)).parts
    answer = Answer.model_validate_json(part.text)
    assert (answer.city, answer.days, answer.sunny) == ("Rome", 3, False)
    assert json.loads(part.text)["source"] is not None


async def test_an_answer_of_a_shape_goes_to_its_tool():
    """AGT-19: with tools the answer is a call as well, and the others' results go into it."""
    answering = tool("set_model_response", "Gives your final answer.", capital=TEXT)
    call = types.FunctionCall(name="get_capital", args={"country": "France"})
    history = [
        types.UserContent("capital of France"),
        types.ModelContent(types.Part(function_call=call)),
        responding(call, {"result": "Paris"}),
    ]
    (part,) = (await ask([CAPITAL, answering], history)).parts
    assert part.function_call.name == "set_model_response"
    assert part.function_call.args == {"capital": "Paris"}


async def test_a_stream_ends_with_the_whole():
    """Streamed words joined are the text of the whole."""
    request = LlmRequest(contents=[types.UserContent("hello")])
    responses = [r async for r in OfflineModel().generate_content_async(request, stream=True)]
    *partials, whole = responses
    text = "".join(partial.content.parts[0].text for partial in partials)
    assert text == whole.content.parts[0].text
    assert len(partials) > 10


@pytest.mark.parametrize("odd", ["a=nan b=inf", "9" * 400 + " and 1", "a: 1e999 b: 2"])
async def test_numbers_that_json_cannot_hold_are_no_arguments(odd):
    """What is no finite number is asked for instead of being passed on."""
    calls, said = await talk([ADD], f"add {odd}")
    assert calls == []
    assert said.startswith("To call add I still need")


ODD_WORDS = "weather in Paris and of 5 '5' \"a\" 2026-01-05 task: due to . ? , the 9e999 ORD-1 #"
WORDS = st.sampled_from(ODD_WORDS.split())


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(), st.lists(WORDS).map(" ".join)))
async def test_any_text_gets_a_valid_answer(message):
    """Whatever is typed, the answer is a text, or a call with all required arguments, and JSON."""
    tools = [WEATHER, ADD, TASK, PRIMES, FLIGHT, TRANSLATE]
    (part,) = (await ask(tools, [types.UserContent(message)])).parts
    again = (await ask(tools, [types.UserContent(message)])).parts
    assert [part] == again
    if part.function_call is None:
        assert part.text
        return
    schema = next(t for t in tools if t.name == part.function_call.name).parameters_json_schema
    assert set(schema["required"]) <= set(part.function_call.args) <= set(schema["properties"])
    json.dumps(part.function_call.args, allow_nan=False)
