"""google-adk beside us."""

from collections.abc import Iterator

import pytest

from tests.adk.google_adk import GoogleAdk
from tests.support.required import interpreter


@pytest.fixture(scope="session")
def google_adk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleAdk]:
    """Its process; tests are skipped where its environment has not been made."""
    log = tmp_path_factory.mktemp("google-adk") / "log"
    with GoogleAdk(interpreter("adk"), log) as process:
        yield process
