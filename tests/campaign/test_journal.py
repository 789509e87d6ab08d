"""Lines that outlive their writers."""

from pathlib import Path

from harness.journal import latest, note, notes


def test_half_a_line_of_a_killed_writer_costs_no_other_line(tmp_path: Path) -> None:
    """A torn line is left out; the next writer's begins on a line of its own."""
    path = tmp_path / "journal"
    note(path, word="one")
    with path.open("a") as file:
        file.write('\n{"word": "to')
    note(path, word="three")
    assert [line["word"] for line in notes(path)] == ["one", "three"]
    assert [line["word"] for line in latest(path)] == ["one", "three"]


def test_the_latest_lines_are_whole(tmp_path: Path) -> None:
    """Reading from the middle of a line on gives the lines after it."""
    path = tmp_path / "journal"
    for number in range(10):
        note(path, number=number)
    assert [line["number"] for line in latest(path, 100)] == [9]
    assert notes(tmp_path / "none") == latest(tmp_path / "none") == []
