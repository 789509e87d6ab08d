"""In CI no test is left out for something that the machine lacks."""

from pathlib import Path

from tests.support.required import REQUIRE

ROOT = Path(__file__).parents[2]


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
