"""`Aclosing`, at the path ADK gives it: it closes a run that its reader leaves early."""

from contextlib import aclosing as Aclosing  # noqa: N812 - ADK's name

__all__ = ["Aclosing"]
