"""google-adk's runner and ours, over the same objects of google-adk."""

from collections.abc import Iterator

import pytest

from tests.adk.google_adk import GoogleAdk
from tests.support.required import interpreter


@pytest.fixture(scope="session")
def google_adk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleAdk]:
    """The process of google-adk's own runner."""
    log = tmp_path_factory.mktemp("google-adk") / "log"
    with GoogleAdk(interpreter("adk"), log) as process:
        yield process


@pytest.fixture(scope="session")
def interop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleAdk]:
    """The process of our runner, in google-adk's environment."""
    log = tmp_path_factory.mktemp("interop") / "log"
    with GoogleAdk(interpreter("adk"), log, "tests.interop.our_side") as process:
        yield process
