"""How many examples of a property are tried: all in `make test-thorough`, else a fifth."""

from hypothesis import settings


def examples(count: int) -> int:
    """Return the share of `count` that the loaded profile asks for.

    Hypothesis leaves a number that a test sets by itself as it is, whatever the profile says.
    """
    profile = settings.default
    return count if profile is None else max(3, count * profile.max_examples // 100)
