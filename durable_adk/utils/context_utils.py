"""`Aclosing`, at ADK's module path: it closes a run whose reader stops early."""

from contextlib import aclosing as Aclosing  # noqa: N812 - ADK's name

__all__ = ["Aclosing"]
