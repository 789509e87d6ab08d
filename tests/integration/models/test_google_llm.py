"""The stub of Gemini as a program."""

import asyncio
import json
import sys
from pathlib import Path

from pydantic import SecretStr

from durable_adk.models.google_llm import Gemini
from tests.unit.models.test_google_llm import KEY, ask

STUB = Path(__file__).parents[2] / "stubs" / "gemini_stub.py"


async def test_the_stub_is_a_program(tmp_path, monkeypatch):
    """The stub serves from a process of its own and logs each request as a line."""
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"):
        monkeypatch.delenv(name, raising=False)
    script, log = tmp_path / "script.json", tmp_path / "log.jsonl"
    script.write_text(json.dumps(["from afar"]))
    command = [str(STUB), "--script", str(script), "--log", str(log)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE
    )
    url = (await process.stdout.readline()).decode().strip()
    model = Gemini(base_url=url, api_key=SecretStr(KEY))
    (response,) = await ask(model)
    await model.aclose()
    process.kill()
    await process.communicate()
    assert response.content.parts[0].text == "from afar"
    assert json.loads(log.read_text())["body"]["contents"][0]["parts"] == [{"text": "hi"}]
