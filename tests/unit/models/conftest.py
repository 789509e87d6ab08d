"""The stub of Gemini, for this folder's tests."""

import importlib.util
import sys
from pathlib import Path

import pytest

_PATH = Path(__file__).parents[2] / "stubs" / "gemini_stub.py"


@pytest.fixture(scope="session")
def gemini_stub_module():
    spec = importlib.util.spec_from_file_location("gemini_stub", _PATH)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
async def gemini_stub(gemini_stub_module):
    stub = gemini_stub_module.GeminiStub()
    await stub.start()
    yield stub
    await stub.close()
