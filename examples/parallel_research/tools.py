"""Where the researchers look things up: small tables, in place of three services."""

import time
from typing import TypedDict


class City(TypedDict):
    """What is known of a city."""

    warmest: int
    coldest: int
    coffee: float
    room: int
    sights: list[str]


CITIES: dict[str, City] = {
    "kyoto": {
        "warmest": 33, "coldest": 1, "coffee": 3.1, "room": 95,
        "sights": ["Fushimi Inari", "Kinkaku-ji"],
    },
    "lisbon": {
        "warmest": 28, "coldest": 8, "coffee": 1.2, "room": 85,
        "sights": ["Belém Tower", "Alfama"],
    },
    "oslo": {
        "warmest": 22, "coldest": -7, "coffee": 4.6, "room": 140,
        "sights": ["Opera House", "Vigeland Park"],
    },
}  # fmt: skip


def get_climate(city: str) -> dict[str, object]:
    """Find a city's average temperatures in degrees Celsius, of its warmest and coldest month."""
    found = _look_up(city)
    return {"warmest": found["warmest"], "coldest": found["coldest"]} if found else _unknown(city)


def get_costs(city: str) -> dict[str, object]:
    """Find what a coffee and a night in a hotel cost in a city, in euros."""
    found = _look_up(city)
    return {"coffee": found["coffee"], "room": found["room"]} if found else _unknown(city)


def get_sights(city: str) -> dict[str, object]:
    """Find what there is to see in a city."""
    found = _look_up(city)
    return {"sights": found["sights"]} if found else _unknown(city)


def _look_up(city: str) -> City | None:
    time.sleep(0.5)  # a service takes its time: three at once take no longer than one
    return CITIES.get(city.strip().lower())


def _unknown(city: str) -> dict[str, object]:
    return {"error": f"I know {', '.join(CITIES).title()}, but not {city or 'that city'}."}
