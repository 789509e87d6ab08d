"""Unit tests start no process, and use no server that another test has started."""

from collections.abc import Callable, Generator

import pytest

from tests.support.process_guard import REMEDY, no_process

SERVERS = {
    *("server", "client", "make_runner", "postgres", "postgres_url"),
    *("redis_server", "s3", "s3_server"),
}
"""The fixtures of tests/conftest.py for which a server runs."""


def _refusing(name: str) -> Callable[..., None]:
    @pytest.fixture(name=name, scope="session")
    def refused() -> None:
        """Take the place of a server, also for `request.getfixturevalue`."""
        pytest.fail(f"The fixture {name!r} starts a server. {REMEDY}", pytrace=False)

    return refused


globals().update({f"_{name}": _refusing(name) for name in SERVERS})


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pycollect_makeitem() -> Generator[None, object, object]:
    """Refuse to collect a test that asks for a server."""
    made = yield
    for item in made if isinstance(made, list) else ():
        if isinstance(item, pytest.Function):
            known = item._fixtureinfo.name2fixturedefs
            if used := sorted(name for name in SERVERS & known.keys() if _refuses(known[name][-1])):
                raise pytest.Collector.CollectError(
                    f"{item.nodeid} asks for {', '.join(used)}: that starts a server. {REMEDY}"
                )
    return made


def _refuses(fixture: pytest.FixtureDef[object]) -> bool:
    return fixture.func.__module__ == __name__


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse what a fixture starts."""
    with no_process(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse what the test starts."""
    with no_process(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    """Refuse what starts at the test's end."""
    with no_process(item.nodeid):
        return (yield)
