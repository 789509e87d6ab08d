"""The page's modules and files, without a browser: tests/server/browser has those with one."""

import re
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from durable_adk.server.page import FOLDER, add_page
from tests.support.required import has_program

HERE = Path(__file__).parent / "page"
MODULES = sorted(FOLDER.glob("*.js"))
UNSAFE = ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "new Function")


@pytest.mark.skipif(not has_program("node"), reason="needs Node.js")
@pytest.mark.parametrize("test", sorted(HERE.glob("*.test.js")), ids=lambda path: path.name)
def test_the_modules_hold_their_properties(test: Path, tmp_path: Path) -> None:
    """What tests/server/page says of the modules that know neither page nor network."""
    for path in [*MODULES, test]:
        shutil.copy(path, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')
    command = ["node", "--test", test.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_data_becomes_html() -> None:
    """S12: the page makes elements and text nodes, and reads no string as HTML or code."""
    found = [(path.name, word) for path in MODULES for word in UNSAFE if word in path.read_text()]
    assert found == []


def test_the_page_needs_no_other_server() -> None:
    """Every file that the page loads is among its own."""
    html = (FOLDER / "index.html").read_text()
    loaded = re.findall(r'(?:href|src)="([^"#]+)"', html)
    imported = [
        name for path in MODULES for name in re.findall(r'from "([^"]+)"', path.read_text())
    ]
    assert {*loaded} == {"page/icon.svg", "page/style.css", "page/app.js"}
    assert {name for name in imported if not name.startswith("./")} == set()
    assert {name for name in imported if not (FOLDER / name).is_file()} == set()
    assert "url(" not in (FOLDER / "style.css").read_text()


def test_an_invocation_is_named_with_its_session() -> None:
    """Another session may have one of the same id, so only functions that add both address it."""
    found = [
        path.name for path in MODULES if re.search(r'\[\s*"invocations", (?!")', path.read_text())
    ]
    assert found == ["api.js"]


async def test_each_file_is_served_with_a_strict_policy() -> None:
    """Neither the page nor a module runs anything inline, or is kept in a version of its own."""
    app = FastAPI()
    add_page(app)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        for path in ("/", *(f"/page/{each.name}" for each in FOLDER.iterdir() if each.is_file())):
            response = await client.get(path)
            assert response.status_code == 200, path
            policy = response.headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "require-trusted-types-for 'script'" in policy
            assert response.headers["cache-control"] == "no-cache"
        assert (await client.get("/page/../page.py")).status_code == 404
