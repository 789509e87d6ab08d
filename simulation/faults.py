"""The faults of an activity's attempt, by the gate at which it has stopped."""

_LOST = ("die", "crash", "double", "late", "ghost")
"""The worker dies; all do; it is taken for dead and continues at once, later, or at the end."""
_SLOW = (*_LOST, "timeout", "outlast")
"""Or the local activity times out: a normal one runs beside it, or before it continues."""
FAULTS: dict[bool, dict[str, tuple[str, ...]]] = {
    False: {
        **dict.fromkeys(("ask.before", "ask.after", "run.before", "run.after"), _LOST),
        **dict.fromkeys(("tell.before", "tell.after"), _LOST),
        "write.before": (*_LOST, "refuse"),
        "write.after": (*_LOST, "dropack"),
        "report": ("die", "crash"),
    },
    True: {
        **dict.fromkeys(("tell.before", "tell.after"), _SLOW),
        "write.before": (*_SLOW, "refuse"),
        "write.after": (*_SLOW, "dropack"),
        "report": ("die", "crash", "timeout"),
    },
}
"""By whether the activity is local, and the gate. Store: it refuses, or its answer is lost."""
