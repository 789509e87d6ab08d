"""docs/use/graphs.md: its example does what the page says."""

import re
import sys
from pathlib import Path

import pytest
from google.genai import types

from durable_adk.cli.server import load_app
from durable_adk.runners import InMemoryRunner
from tests.support.scripts import USER, ensure_session, send

PAGE = Path(__file__).parents[2] / "docs" / "use" / "graphs.md"


@pytest.mark.parametrize(
    ("answer", "last"), [(True, "Booked for 750 euros."), (False, "Nothing was booked.")]
)
async def test_the_example_asks_and_books(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bool, last: str
) -> None:
    """It begins the page; a fan-out, a join, a question and routes give this output."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    (example, *_) = re.findall(
        r"^```python\n(.+?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "trip_page.py").write_text(example)
    async with InMemoryRunner(app=load_app(str(tmp_path / "trip_page.py"))) as runner:
        await ensure_session(runner)
        await send(runner, "Lisbon for 7")
        (call,) = await runner.pending(**USER)
        assert call.args["message"] == "Pay 750 euros?"
        response = types.FunctionResponse(
            id=call.call_id, name=call.name, response={"result": answer}
        )
        message = types.Content(role="user", parts=[types.Part(function_response=response)])
        events = [event async for event in runner.run_async(**USER, new_message=message)]
    del sys.modules["trip_page"]
    assert events[-1].output == last
