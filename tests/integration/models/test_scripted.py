"""The model for tests."""

import asyncio
import json
import sys

from durable_adk.models import ScriptedModel
from tests.unit.models.test_scripted import CALL, RESULT, USER, ask, said


async def test_calls_of_all_processes_are_counted(tmp_path):
    """Every call, in any process, appends one line with its turn and the request's digest."""
    log = tmp_path / "calls.jsonl"
    code = (
        "import asyncio, pathlib, sys\n"
        "from durable_adk.models import LlmRequest, ScriptedModel\n"
        "model = ScriptedModel(replies=['a'], log=pathlib.Path(sys.argv[1]))\n"
        "async def main():\n"
        "    [r async for r in model.generate_content_async(LlmRequest())]\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(log))
    await process.wait()
    model = ScriptedModel(replies=["a", "b"], log=log)
    await ask(model)
    await ask(model, USER, said(CALL), RESULT)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["index"] for line in lines] == [0, 0, 1]
    assert lines[0]["pid"] == process.pid
    assert lines[0]["digest"] == lines[1]["digest"] != lines[2]["digest"]
