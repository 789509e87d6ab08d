"""The output and the records of a worker process, separated."""

from durable_adk.cli.dev.process import parts

RECORD = b'\x1e{"event": "step.started"}\n'


def test_what_is_printed_and_what_is_said_are_told_apart():
    """A record is found behind an unfinished line, and what is printed stays as it is."""
    rest, *said = parts(b"50 %" + RECORD + b"\r100 %\n")
    assert said == [b"50 %", {"event": "step.started"}, b"\r100 %\n"]
    assert rest == b""


def test_a_record_may_come_in_pieces():
    """The beginning of a record is kept until the rest comes; what precedes it is not."""
    rest, *said = parts(b"hello\n" + RECORD[:9])
    assert said == [b"hello\n"]
    rest, *said = parts(rest + RECORD[9:])
    assert (rest, said) == (b"", [{"event": "step.started"}])


def test_a_printed_mark_is_no_record():
    """User code may print the character, too."""
    _, *said = parts(b"a\x1eb\n\x1e[1]\n")
    assert b"".join(said) == b"a\x1eb\n\x1e[1]\n"
