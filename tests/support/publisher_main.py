"""A process that publishes chunks, each with the time it was published, until it is killed."""

import sys
import time
from pathlib import Path

from durable_adk.partials import SocketPartials
from tests.support.chunks import chunk


def main() -> None:
    """Arguments: the store's file, the number of chunks, the seconds between two."""
    channel = SocketPartials(Path(sys.argv[1]))
    for index in range(int(sys.argv[2])):
        channel.publish(chunk(str(time.monotonic_ns()), index))
        time.sleep(float(sys.argv[3]))


if __name__ == "__main__":
    main()
