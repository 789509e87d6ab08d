"""What is typed to each sample, what its model replies, and what is then to be seen."""

import json
from dataclasses import dataclass, field
from typing import Any

from tests.stubs.gemini_stub import answer, refusal, text_answer

Reply = str | list[tuple[str, dict[str, Any]]]
"""A text, or calls of tools by name and arguments."""


@dataclass(frozen=True)
class Answer:
    """What answers a call that waits, as `durable-adk run` and as `adk run` want it typed."""

    here: str
    there: str


@dataclass(frozen=True, kw_only=True)
class Talk:
    """A conversation with a sample."""

    typed: list[str | Answer]
    model: list[tuple[str, str, Reply]] = field(default_factory=list)
    """What its instruction contains, what the last content contains, and the reply: the first of
    which both are so is given."""
    script: list[Reply] = field(default_factory=list)
    """The replies of a model that is not Gemini, in order."""
    wire: str = "GOOGLE_GEMINI_BASE_URL"
    """The variable that leads to the model, which says on which wire it is."""
    server: str = ""
    """The variable that leads to the project's own `server.py`, if it is to run."""
    says: list[str]
    """What is said, by whom, in order; agents side by side in alphabetical order."""
    declared: dict[str, list[str]] = field(default_factory=dict)
    """Kinds of differences in google-adk, by row of docs/use/adk-compatibility.md."""

    def reply(self, request: dict[str, Any]) -> Any:
        """The stub's answer to a request on Gemini's wire."""
        system = _texts(request.get("systemInstruction", {}))
        last = _texts(request["contents"][-1])
        for instruction, said, reply in self.model:
            if instruction in system and said in last:
                return {"body": _body(reply)}
        return refusal(f"There is no reply to {last!r}, instructed {system!r}.")


def _texts(content: dict[str, Any]) -> str:
    texts = [part.get("text") or _response(part) for part in content.get("parts", [])]
    return "\n".join(texts)


def _response(part: dict[str, Any]) -> str:
    response = part.get("functionResponse", {})
    return f"{response.get('name')} -> {json.dumps(response.get('response'))}"


def _body(reply: Reply) -> dict[str, Any]:
    if isinstance(reply, str):
        return text_answer(reply)
    parts = [{"functionCall": {"name": name, "args": args}} for name, args in reply]
    return answer(content={"role": "model", "parts": parts}, finishReason="STOP")


def call(name: str, /, **args: Any) -> Reply:
    """A reply that calls one tool."""
    return [(name, args)]


RESULT = "events.N.content.parts.N.function_response.response"
CUSTOMER = {
    "authScheme": {"type": "apiKey", "in": "header", "name": "X-Customer-Key"},
    "exchangedAuthCredential": {"authType": "apiKey", "apiKey": "customer-key"},
    "credentialKey": "customer",
}
"""What google-adk wants as the answer to a request for a credential."""


def _typed(value: Any) -> Answer:
    """What answers a question of a node."""
    return Answer(f"/respond {json.dumps({'result': value})}", json.dumps(value))


TALKS = {
    "weather_time": Talk(
        typed=["How is the weather in Lisbon?", "And in Oslo, and what is the time in Kyoto?"],
        model=[
            ("", "in Lisbon?", call("get_weather", city="Lisbon")),
            ("", "Lisbon is sunny", "It is sunny in Lisbon."),
            ("", "no weather for 'Oslo'", "I know the time in Kyoto only."),
            (
                "",
                "Oslo",
                [("get_weather", {"city": "Oslo"}), ("get_current_time", {"city": "Kyoto"})],
            ),
        ],
        says=[
            "weather_time_agent: It is sunny in Lisbon.",
            "weather_time_agent: I know the time in Kyoto only.",
        ],
    ),
    "dice_roller": Talk(
        typed=["Roll a die with 20 sides.", "Is one of my rolls prime?"],
        model=[
            ("", "20 sides", call("roll_die", sides=20)),
            ("", "roll_die ->", "You rolled it."),
            ("this session so far: [", "prime?", call("check_prime", nums=[4, 7, 11])),
            ("", "7, 11 are prime", "7 and 11 are."),
            ("", "Bye", "Goodbye."),
        ],
        says=[
            "dice_agent: You rolled it.",
            "dice_agent: 7 and 11 are.",
        ],
    ),
    "expenses": Talk(
        typed=[
            "I paid 20 for lunch.",
            "I paid 300 for a chair.",
            Answer("/approve", "yes"),
            "I lost the receipt of a taxi.",
            Answer('/respond {"status": "approved"}', '{"status": "approved"}'),
            "May I have 3 days off?",
            Answer("/reject", "no"),
        ],
        model=[
            ("", "lunch", call("reimburse", purpose="lunch", amount=20)),
            ("", '"paid": "20.00"', "20 are on their way."),
            ("", "chair", call("reimburse", purpose="chair", amount=300)),
            ("", '"paid": "300.00"', "300 are on their way."),
            ("", "requires confirmation", "Your manager has to confirm that."),
            ("", "taxi?", "?"),
            ("", "lost the receipt", call("ask_manager", purpose="taxi", amount=30)),
            ("", "pending", "I have asked your manager."),
            ("", "approved", "Your manager agrees."),
            ("", "days off", call("book_days_off", days=3)),
            ("", "has to confirm", "Your manager has to confirm the days."),
            ("", "rejected", "No days off this time."),
        ],
        says=[
            "expense_agent: 20 are on their way.",
            "expense_agent: 300 are on their way.",
            "expense_agent: I have asked your manager.",
            "expense_agent: Your manager agrees.",
            "expense_agent: No days off this time.",
        ],
        declared={
            "A tool that asks for confirmation itself": [
                "events.+ ours: expense_agent function_response",
                "events.+ ADK's: expense_agent function_response",
                "events.+ ADK's: expense_agent text",
            ]
        },
    ),
    "travel_team": Talk(
        typed=[
            "Please block my calendar.",
            "Hi, I am Ana.",
            "A flight to Atlantis, then one to Turin.",
            "Bye.",
        ],
        model=[
            (
                "You are the coordinator",
                "Ana",
                call("transfer_to_agent", agent_name="greeting_agent"),
            ),
            ("You are the greeter", "say_hello ->", "Hello, Ana!"),
            (
                "You are the greeter",
                "Atlantis",
                call("transfer_to_agent", agent_name="flight_agent"),
            ),
            ("You are the greeter", "", call("say_hello", name="Ana")),
            ("You book flights", "Nobody flies", call("book_flight", city="Turin", seat="aisle")),
            ("class is economy", "Turin is booked", "An aisle seat to Turin is booked."),
            ("You book flights", "Bye", call("transfer_to_agent", agent_name="farewell_agent")),
            ("You book flights", "", call("book_flight", city="Atlantis")),
            ("one who says goodbye", "say_goodbye ->", "Goodbye, Ana!"),
            ("one who says goodbye", "", call("say_goodbye")),
        ],
        says=[
            "travel_team: I cannot talk about that.",
            "greeting_agent: Hello, Ana!",
            "flight_agent: An aisle seat to Turin is booked.",
            "farewell_agent: Goodbye, Ana!",
        ],
    ),
    "city_brief": Talk(
        typed=["Porto"],
        model=[
            ("the climate of", "Porto", "Porto has mild winters."),
            ("the food of", "Porto", "Porto has good fish."),
            ("Climate: Porto has mild winters.", "", "Porto: mild winters, good fish."),
            ("You review this brief: Porto: mild", "", "Too short."),
            ("Criticism: Too short.", "", "Porto has mild winters and very good fish."),
            ("You review this brief: Porto has", "", "No more to improve."),
            ("Criticism: No more to improve.", "exit_loop ->", ""),
            ("Criticism: No more to improve.", "", call("exit_loop")),
        ],
        says=[
            "ClimateResearcher: Porto has mild winters.",
            "FoodResearcher: Porto has good fish.",
            "Editor: Porto: mild winters, good fish.",
            "Critic: Too short.",
            "Refiner: Porto has mild winters and very good fish.",
            "Critic: No more to improve.",
        ],
        declared={"`output_key` of an empty text": ["events.N.actions.state_delta.brief"]},
    ),
    "story_flow": Talk(
        typed=["Tell me a story."],
        model=[
            ("You write a story", "", "A robot waits alone."),
            ("You criticise", "", "More hope."),
            (
                "You revise this story: A robot waits alone. Follow this criticism: More hope.",
                "",
                "A robot waits, and hopes.",
            ),
            ("You revise", "", "A robot waits, hopes and waves."),
            ("You check the grammar", "", "Fine."),
            ("You say the tone", "", "negative"),
        ],
        says=[
            "Writer: A robot waits alone.",
            "Critic: More hope.",
            "Reviser: A robot waits, and hopes.",
            "Critic: More hope.",
            "Reviser: A robot waits, hopes and waves.",
            "Grammar: Fine.",
            "Tone: negative",
            "Writer: A robot waits alone.",
            "StoryFlow: Written with 1 rewrite.",
        ],
        declared={"Ids and times of events": ["events.N.invocation_id"]},
    ),
    "notebook": Talk(
        typed=[
            "Note under roof: mend it in May.",
            "Note under roof: mend it in June.",
            "Read the note on the roof.",
            "Attach roof.txt.",
            "What did I want to note?",
        ],
        model=[
            ("", '"version": 0', "Noted."),
            ("", '"version": 1', "Noted again."),
            ("", "read_note ->", "It says: June."),
            ("", "load_memory ->", "The roof."),
            ("", "Mend it in June.", "Here it is."),
            ("", "in May", call("write_note", title="roof", text="Mend it in May.")),
            ("", "in June", call("write_note", title="roof", text="Mend it in June.")),
            ("", "Read the note", call("read_note", title="roof")),
            ("", "Attach", call("load_artifacts", artifact_names=["roof.txt"])),
            ("", "want to note", call("load_memory", query="roof")),
        ],
        says=[
            "notebook: Noted.",
            "notebook: Noted again.",
            "notebook: It says: June.",
            "notebook: Here it is.",
            "notebook: The roof.",
        ],
        declared={
            "Search in memory": [f"{RESULT}.result.memories.N.content.parts.N.text"],
            "Texts for the model": [f"{RESULT}.status"],
        },
    ),
    "archive": Talk(
        typed=["Which files are there?", "When was the roof mended?"],
        model=[
            ("", "Which files", call("list_directory")),
            ("", "bell.txt", "One on the bell and one on the roof."),
            ("", "When was", call("read_file", name="roof.txt")),
            ("", "1987", "In 1987."),
        ],
        says=[
            "archivist: One on the bell and one on the roof.",
            "archivist: In 1987.",
        ],
    ),
    "itinerary": Talk(
        typed=["One slow day in Bergen, and when does the museum open?"],
        model=[
            (
                "You are the concierge",
                "museum open?",
                [
                    ("itinerary_planner", {"city": "Bergen", "days": 1, "pace": "slow"}),
                    ("hours", {"request": "When does the museum open?"}),
                ],
            ),
            (
                "You make an itinerary",
                "Bergen",
                json.dumps(
                    {
                        "city": "Bergen",
                        "days": [{"number": 1, "stops": [{"time": "10:30", "place": "museum"}]}],
                    }
                ),
            ),
            ("You say when", "opening_hours ->", "The museum opens at 10:00."),
            ("You say when", "museum", call("opening_hours", place="museum")),
            (
                "You are the concierge",
                "10:30",
                "/*PLANNING*/ One day. /*FINAL_ANSWER*/ The museum at 10:30; it opens at 10:00.",
            ),
        ],
        says=[
            "concierge:  The museum at 10:30; it opens at 10:00.",
        ],
    ),
    "analyst": Talk(
        typed=["What is the average of 1, 2 and 6?", "And the cube root of 27?"],
        wire="LOCAL_LLM_BASE",
        script=[
            call("average", numbers=[1, 2, 6]),
            "The average is 3.",
            call("transfer_to_agent", agent_name="coder"),
            "```python\nprint(round(27 ** (1 / 3)))\n```",
            "The cube root is 3.",
        ],
        says=[
            "analyst: The average is 3.",
            "coder: The cube root is 3.",
        ],
        declared={
            "Code executors": [
                "events.N.actions.state_delta._code_execution_context",
                "events.N.partial",
                "events.N.usage_metadata",
            ]
        },
    ),
    "pet_store": Talk(
        typed=[
            "Which dogs are there?",
            "Reserve Rex and number 9.",
            "How many points have I?",
            Answer("/credential\ncustomer-key", json.dumps(CUSTOMER)),
        ],
        server="PET_STORE_URL",
        model=[
            ("", "dogs", call("list_pets", kind="dog", limit=5)),
            ("", '"name": "Bello"', "Bello and Rex."),
            (
                "",
                "Rex and",
                [
                    ("reserve_pet", {"pet_id": 3, "until": "May 1"}),
                    ("reserve_pet", {"pet_id": 9, "until": "May 1", "note": "small"}),
                ],
            ),
            ("", "There is no such pet", "Rex is reserved; there is no number 9."),
            ("", "points have", call("my_points", year=2026)),
            ("", '"points": 7', "You have 7."),
            ("", "the key of the card", "I need your key."),
        ],
        says=[
            "seller: Bello and Rex.",
            "seller: Rex is reserved; there is no number 9.",
            "seller: You have 7.",
        ],
    ),
    "converter": Talk(
        typed=["How many inches are 3 feet, and how many yards?", "Miles only, please."],
        wire="LOCAL_LLM_BASE",
        script=[
            [
                ("feet_to_inches", {"amount": 3}),
                ("convert_yards_to_feet", {"amount": 3, "back": True}),
                ("convert_yards_to_feet", {"amount": -3}),
            ],
            "36 inches or 1 yard.",
            call("choose_units", units=["miles"]),
            call("convert_miles_to_feet", amount=1),
            "Miles it is.",
        ],
        says=["converter: 36 inches or 1 yard.", "converter: Miles it is."],
    ),
    "proofreader": Talk(
        typed=["Is 'teh cat' right?", "And its style?"],
        wire="ANTHROPIC_BASE_URL",
        script=[
            call("mark", word="teh", better="the"),
            "It is 'the cat'.",
            call("style", request="the cat"),
            '{"tone": "flat", "formal": false}',
            "It is flat.",
        ],
        says=["proofreader: It is 'the cat'.", "proofreader: It is flat."],
    ),
    "help_line": Talk(
        typed=["I am swordfish. Open 4711, 13 and 1."],
        model=[
            ("", "I am ***", [("open_ticket", {"ticket": it}) for it in (4711, 13, 1)]),
            ("", "KeyError: 1", "Fire, says swordfish."),
        ],
        says=["help_line: Fire, says ***."],
    ),
    "reception": Talk(
        typed=["I am Kim.", "What soup is there?", "And tomorrow?"],
        model=[
            ("at the reception", "room 12", "Welcome, Kim."),
            ("at the reception", "Kim", call("check_in", name="Kim")),
            ("at the reception", "soup", call("transfer_to_agent", agent_name="kitchen")),
            ("guest is Kim", "leek soup", "Leek soup."),
            ("guest is Kim", "", call("menu", course="soup")),
            ("at the reception", "tomorrow", "Ask me tomorrow."),
        ],
        says=["reception: Welcome, Kim.", "kitchen: Leek soup.", "reception: Ask me tomorrow."],
    ),
    "word_stats": Talk(
        typed=["A quiet sea", "Two boats"],
        says=[
            "word_stats: 'a quiet sea': 3 words, the longest is quiet.",
            "word_stats: 'two boats': 2 words, the longest is boats.",
        ],
    ),
    "mail_sorter": Talk(
        typed=["What do I owe?", "The lamp is dark!", "Nice lamps."],
        model=[
            ("what a mail is about", "owe", '{"topic": "bill"}'),
            ("what a mail is about", "dark", '{"topic": "fault", "urgent": true}'),
            ("what a mail is about", "Nice", '{"topic": "other"}'),
            ("You solve faults", "fault", "Turn it on."),
        ],
        says=[
            'classify: {"topic": "bill"}',
            'classify: {"topic": "fault", "urgent": true}',
            "technician: Turn it on.",
            'classify: {"topic": "other"}',
        ],
    ),
    "headlines": Talk(
        typed=["storms"],
        model=[
            ("headlines on storms", "storms", "Storm."),
            ("headlines on storms", "Too short", "A storm comes."),
            ("You are the editor", "Storm.", "Too short."),
            ("You are the editor", "A storm comes.", "OK"),
        ],
        says=[
            "write: Storm.",
            "edit: Too short.",
            "write: A storm comes.",
            "edit: OK",
        ],
    ),
    "travel_request": Talk(
        typed=[
            "the sea",
            _typed({"city": "Faro", "days": 4}),
            _typed(2),
            _typed(1),
            _typed({"confirmed": True}),
        ],
        says=[],
        declared={
            "Questions of nodes": [
                "events.+ ours: travel_request",
                "events.N.content.parts.N.function_call.args.response_schema.description",
            ]
        },
    ),
    "page_translator": Talk(
        typed=["Uno. Dos | Tres"],
        model=[
            ("translate one page", "Uno. Dos", "One. Two"),
            ("translate one page", "Tres", "Three"),
        ],
        says=["translate: One. Two", "translate: Three"],
    ),
}
