import datetime
from zoneinfo import ZoneInfo

from google.adk.agents import Agent

ZONES = {"lisbon": "Europe/Lisbon", "kyoto": "Asia/Tokyo"}


def get_weather(city: str) -> dict:
    """Tells the weather in a city.

    Args:
        city (str): The name of the city.

    Returns:
        dict: status and report, or status and error message.
    """
    if city.lower() == "lisbon":
        return {"status": "success", "report": "Lisbon is sunny, 24 degrees Celsius."}
    return {"status": "error", "error_message": f"There is no weather for '{city}'."}


def get_current_time(city: str) -> dict:
    """Tells the current time in a city.

    Args:
        city (str): The name of the city.

    Returns:
        dict: status and report, or status and error message.
    """
    zone = ZONES.get(city.lower())
    if zone is None:
        return {"status": "error", "error_message": f"I don't know the time zone of {city}."}
    now = datetime.datetime.now(ZoneInfo(zone))
    print(f"asked for the time in {city}")
    return {"status": "success", "report": f"It is {now.strftime('%Y')} in {city}."}


root_agent = Agent(
    name="weather_time_agent",
    model="gemini-2.0-flash",
    description="Answers questions about the time and the weather in a city.",
    instruction="You answer questions about time and weather. Use your tools.",
    tools=[get_weather, get_current_time],
)
