"""Counters and histograms, through the meter provider of the application.

No label has an id, a text, or any other value that users or models can invent (S8).
"""

import time
from collections.abc import Iterable
from threading import Lock

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

_SECONDS = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
_LONG = [0.1, 0.5, 1, 5, 15, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600]
_TOKENS = [float(4**power) for power in range(14)]
MOST_SEEN = 10_000
SEEN_FOR = 25.0
"""Seconds since a message's last attempt on this worker after which it is not counted here."""

_meter = metrics.get_meter("durable_adk")  # also of a provider that is set up later

token_usage = _meter.create_histogram(
    "gen_ai.client.token.usage",
    unit="{token}",
    description="Tokens of a model call, by type.",
    explicit_bucket_boundaries_advisory=_TOKENS,
)
operation_duration = _meter.create_histogram(
    "gen_ai.client.operation.duration",
    unit="s",
    description="How long a model or a tool took.",
    explicit_bucket_boundaries_advisory=_SECONDS,
)
invocations_started = _meter.create_counter(
    "durable_adk.invocations.started", unit="{invocation}", description="Invocations opened."
)
invocations_ended = _meter.create_counter(
    "durable_adk.invocations.ended", unit="{invocation}", description="Invocations ended."
)
invocations_paused = _meter.create_counter(
    "durable_adk.invocations.paused", unit="{pause}", description="Pauses that wait for an answer."
)
invocation_duration = _meter.create_histogram(
    "durable_adk.invocation.duration",
    unit="s",
    description="From the message to the end, pauses included.",
    explicit_bucket_boundaries_advisory=_LONG,
)
takeovers = _meter.create_counter(
    "durable_adk.takeovers",
    unit="{invocation}",
    description="Invocations whose workflow was gone, ended by the next message.",
)
steps = _meter.create_counter(
    "durable_adk.steps", unit="{step}", description="Attempts of steps that have ended."
)
retries = _meter.create_counter(
    "durable_adk.step.retries", unit="{attempt}", description="Attempts of steps but the first."
)
commits = _meter.create_counter(
    "durable_adk.commits", unit="{event}", description="Events committed."
)
queue_wait = _meter.create_histogram(
    "durable_adk.queue.wait",
    unit="s",
    description="From the message to the opening of its invocation.",
    explicit_bucket_boundaries_advisory=_LONG,
)


class WaitingMessages:
    """The messages that wait for their sessions, as recently seen by this process.

    Each waiting message is attempted at least every 20 s, by any worker of the task queue. A
    message whose last attempt here is older waits at another worker, or no longer waits.
    """

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._lock = Lock()  # the exporter reads in its own thread

    def saw(self, name: str) -> None:
        """Record an attempt that found the session busy."""
        with self._lock:
            self._seen[name] = now = time.monotonic()
            if len(self._seen) > MOST_SEEN:  # without an exporter, `count` is never called
                self._seen = {one: at for one, at in self._seen.items() if at > now - SEEN_FOR}

    def forget(self, name: str) -> None:
        """Forget a message that no longer waits."""
        with self._lock:
            self._seen.pop(name, None)

    def count(self) -> int:
        """The number of waiting messages."""
        since = time.monotonic() - SEEN_FOR
        with self._lock:
            self._seen = {name: at for name, at in self._seen.items() if at > since}
            return len(self._seen)


waiting = WaitingMessages()


def _observe(_: CallbackOptions) -> Iterable[Observation]:
    return [Observation(waiting.count())]


_meter.create_observable_gauge(
    "durable_adk.queue.waiting",
    callbacks=[_observe],
    unit="{message}",
    description="Messages that wait for their sessions, each at its last observer.",
)
