"""In CI no test is left out for something that the machine lacks."""

from pathlib import Path

import pytest

from tests.support.required import REQUIRE, has_modules, has_program, module

ROOT = Path(__file__).parents[2]
MISSING = "no_such_thing"


def test_what_is_missing_fails_where_it_is_required(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module and a program; what is there is found either way."""
    monkeypatch.setenv(REQUIRE, "all")
    for asked in (has_modules, has_program, module):
        with pytest.raises(RuntimeError, match=MISSING):
            asked(MISSING)
    assert has_modules("json", "asyncio")
    assert has_program("sh")


def test_elsewhere_it_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with Python alone runs all other tests."""
    monkeypatch.delenv(REQUIRE, raising=False)
    assert not has_modules("json", MISSING)
    assert not has_program(MISSING)
    with pytest.raises(pytest.skip.Exception):
        module(MISSING)


def test_ci_requires_all() -> None:
    """It says so before it runs anything."""
    before, _, _ = (ROOT / ".ci" / "run").read_text().partition("\nmake ")
    assert before.endswith(f"\nexport {REQUIRE}=all")


def test_no_test_is_left_out_in_another_way() -> None:
    """All checks of what is installed are here, where CI learns of them."""
    here = {Path(__file__), ROOT / "tests" / "support" / "required.py"}
    for path in {*(ROOT / "tests").rglob("*.py")} - here:
        text = path.read_text()
        assert "importorskip" not in text, path
        assert "util.find_spec" not in text, path
        assert "skipif(shutil" not in text, path
