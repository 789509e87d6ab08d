"""Workplaces on the shared server, each with its own store and task queue."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from temporalio.client import Client

from durable_adk.apps.registry import AppRegistry, serve
from durable_adk.embedded import TemporalServer
from tests.support.apps import all_apps
from tests.support.chaos_apps import chaos_apps
from tests.support.processes import Control, Workplace, control_run

MakePlace = Callable[[], Workplace]
MATRIX = "test_failpoint_matrix.py"
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave all of these to `make test-all`, and two of three to `make explore`."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.thorough)
            item.add_marker(pytest.mark.replayed)
            # The matrix draws its cells itself.
            item.add_marker(pytest.mark.sampled(1 if item.path.name == MATRIX else 3))


@pytest.fixture(scope="module")
async def make_place(
    server: TemporalServer, client: Client, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[MakePlace]:
    """Make a workplace; its apps are served here too, for the replays at the end."""
    places: list[Workplace] = []

    def make() -> Workplace:
        folder = tmp_path_factory.mktemp("place")
        place = Workplace(folder=folder, client=client, address=server.address)
        serve(place.queue, AppRegistry(all_apps(folder).values()))
        places.append(place)
        return place

    yield make
    for place in places:
        await place.sessions.close()


@pytest.fixture
def place(make_place: MakePlace) -> Workplace:
    """One workplace."""
    return make_place()


@pytest.fixture(scope="session")
async def controls(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Control]:
    """What each app does when nothing goes wrong."""
    folder: Path = tmp_path_factory.mktemp("control")
    return {app: await control_run(app, folder) for app in chaos_apps(folder)}
