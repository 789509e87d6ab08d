"""An agent that knows capitals and books trips.

Everything here is plain ADK. What durable_adk adds: kill the worker while a trip is being booked,
and the conversation goes on from there, with the trip booked once.
"""

import hashlib
import json
import os
import time
from pathlib import Path

from durable_adk.agents import LlmAgent
from durable_adk.tools.tool_context import ToolContext

CAPITALS = {
    "argentina": "Buenos Aires",
    "australia": "Canberra",
    "austria": "Vienna",
    "belgium": "Brussels",
    "brazil": "Brasília",
    "canada": "Ottawa",
    "chile": "Santiago",
    "china": "Beijing",
    "denmark": "Copenhagen",
    "egypt": "Cairo",
    "finland": "Helsinki",
    "france": "Paris",
    "germany": "Berlin",
    "greece": "Athens",
    "india": "New Delhi",
    "indonesia": "Jakarta",
    "ireland": "Dublin",
    "italy": "Rome",
    "japan": "Tokyo",
    "kenya": "Nairobi",
    "mexico": "Mexico City",
    "netherlands": "Amsterdam",
    "norway": "Oslo",
    "peru": "Lima",
    "poland": "Warsaw",
    "portugal": "Lisbon",
    "south korea": "Seoul",
    "spain": "Madrid",
    "sweden": "Stockholm",
    "turkey": "Ankara",
    "ukraine": "Kyiv",
    "united kingdom": "London",
    "united states": "Washington, D.C.",
}


def get_capital(country: str) -> dict[str, str]:
    """Find the capital city of a country."""
    capital = CAPITALS.get(country.strip().removeprefix("the ").lower())
    return {"capital": capital} if capital else {"error": f"I do not know the country {country}."}


def book_trip(city: str, tool_context: ToolContext) -> dict[str, str]:
    """Book a trip to a city. It takes a moment; the answer is a confirmation number."""
    # A tool that was killed runs again, with the same key: that is how it knows its own trip.
    key = tool_context.idempotency_key
    trip = {
        "city": city,
        "confirmation": hashlib.sha256(key.encode()).hexdigest()[:6].upper(),
    }
    if not _in_ledger(key, "done"):
        _write(key, "started", city)
        time.sleep(float(os.environ.get("DURABLE_ADK_DEMO_SECONDS", "2")))
        _write(key, "done", city)
    return trip


def _ledger() -> Path:
    return Path(os.environ.get("DURABLE_ADK_LEDGER", "trips.jsonl"))


def _in_ledger(key: str, what: str) -> bool:
    lines = _ledger().read_text().splitlines() if _ledger().exists() else []
    return any((line := json.loads(text))["key"] == key and line["what"] == what for text in lines)


def _write(key: str, what: str, city: str) -> None:
    line = {"what": what, "city": city, "key": key, "pid": os.getpid()}
    with _ledger().open("a") as ledger:
        ledger.write(json.dumps(line) + "\n")


root_agent = LlmAgent(
    name="capital_agent",
    # Without a key, "offline": no LLM, just enough to try the runtime.
    model="gemini-2.5-flash"
    if {"GEMINI_API_KEY", "GOOGLE_API_KEY"} & os.environ.keys()
    else "offline",
    description="Knows capitals and books trips.",
    instruction="Answer in one sentence. Look capitals up, and book a trip when asked for one.",
    tools=[get_capital, book_trip],
)
