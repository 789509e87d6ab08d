"""Partial events between the processes of one machine, without a broker.

A viewer binds a datagram socket in a folder whose name both sides derive from the session store's
path and the invocation; a step sends to every socket it finds there. Without viewers there is no
folder, and publishing is one failed look for it.
"""

import asyncio
import errno
import hashlib
import secrets
import socket
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock

from durable_adk.json_values import canonical
from durable_adk.log import get_logger
from durable_adk.partials.channel import PartialChannel
from durable_adk.partials.partial import PartialEvent, encode
from durable_adk.partials.subscription import Subscription
from durable_adk.private_folder import check_private, private_folder
from durable_adk.sessions.session import SessionKey

_log = get_logger(__name__)

MAX_DATAGRAM = 32 * 1024
"""Bytes of a chunk; larger ones are lost. A text chunk has some hundred."""
BACKLOG = 200
"""Chunks kept for a viewer whose socket is full: Linux holds ten by itself, a short stall."""
MAX_BACKLOGS = 64
"""Viewers for whom chunks are kept; of more, those that have waited longest lose theirs."""
_FULL = {errno.EAGAIN, errno.ENOBUFS}
_READS = 64
"""Chunks read before the event loop goes on with other work."""
_BIND_ATTEMPTS = 5


class SocketPartials(PartialChannel):
    """The channel of all processes of one user that share a store file.

    Args:
        name: The file; only its path is used. Processes must agree on it and on ``TMPDIR``.
    """

    def __init__(self, name: Path) -> None:
        self._name = str(name.resolve())
        self._root = private_folder()
        self._swept = False
        self._lock = Lock()
        self._backlogs: dict[Path, deque[bytes]] = {}

    def publish(self, partial: PartialEvent) -> None:
        """See `PartialChannel.publish`; what a full socket does not take goes with the next."""
        with suppress(OSError):  # e.g. no descriptor is left
            viewers = self._viewers(partial)
            data = encode(partial) if viewers else None
            if data is None or len(data) > MAX_DATAGRAM:
                return
            with self._lock, _datagram_socket() as sender:
                for viewer in viewers:
                    self._send(sender, viewer, data)
                for viewer in list(self._backlogs)[:-MAX_BACKLOGS]:
                    del self._backlogs[viewer]

    def _viewers(self, partial: PartialEvent) -> list[Path]:
        check_private(self._root)
        folder = self._folder(partial.key, partial.invocation_id)
        return [path for path in folder.iterdir() if not path.name.startswith(".")]

    def _send(self, sender: socket.socket, viewer: Path, data: bytes) -> None:
        waiting = self._backlogs.pop(viewer, None) or deque(maxlen=BACKLOG)
        waiting.append(data)
        try:
            while waiting:
                sender.sendto(waiting[0], str(viewer))
                waiting.popleft()
        except ConnectionRefusedError:
            _discard(viewer)  # its process was killed
        except OSError as error:
            if error.errno in _FULL:
                self._backlogs[viewer] = waiting  # now the youngest

    @asynccontextmanager
    async def subscribe(self, key: SessionKey, invocation_id: str) -> AsyncGenerator[Subscription]:
        """See `PartialChannel.subscribe`."""
        subscription = Subscription()
        listening = self._listen_if_possible(self._folder(key, invocation_id))
        if listening is None:
            yield subscription
            return
        receiver, path = listening
        loop = asyncio.get_running_loop()
        loop.add_reader(receiver, _receive, receiver, subscription)
        try:
            yield subscription
        finally:
            loop.remove_reader(receiver)
            receiver.close()
            _discard(path)

    def _listen_if_possible(self, folder: Path) -> tuple[socket.socket, Path] | None:
        try:
            return self._listen(folder)
        except OSError as error:
            _log.warning("Partial events cannot be received.", error=str(error))
            return None

    def _listen(self, folder: Path) -> tuple[socket.socket, Path]:
        """A bound socket with its path, in a folder that nobody else can look into.

        Raises:
            OSError: There is no such folder to be had, e.g. because another user made it first.
        """
        self._root.mkdir(mode=0o700, exist_ok=True)
        check_private(self._root)
        if not self._swept:
            self._swept = True
            _sweep(self._root)
        for _ in range(_BIND_ATTEMPTS):
            # Another viewer may leave, and take the folder along: before the binding, or while
            # mkdir looks at what exists there.
            with suppress(FileNotFoundError, FileExistsError):
                folder.mkdir(mode=0o700, exist_ok=True)
                return _bind(folder)
        raise FileNotFoundError(errno.ENOENT, "The folder vanishes time and again", str(folder))

    def _folder(self, key: SessionKey, invocation_id: str) -> Path:
        return self._root / _hash(self._name, key, invocation_id)


@lru_cache(maxsize=256)
def _hash(name: str, key: SessionKey, invocation_id: str) -> str:
    """Short, because a socket's path has at most 108 bytes (104 on macOS)."""
    text = canonical([name, *key, invocation_id])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _datagram_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


def _bind(folder: Path) -> tuple[socket.socket, Path]:
    """A new socket with its path, under a name that publishers see from now on.

    Between the file and the socket behind it there is a moment in which it looks like a dead
    viewer's, and would be removed; so it gets its name afterwards.
    """
    token = secrets.token_hex(4)
    hidden, path = folder / f".{token}", folder / token
    made = _datagram_socket()
    try:
        made.bind(str(hidden))
        hidden.rename(path)
    except BaseException:
        made.close()
        raise
    return made, path


def _receive(receiver: socket.socket, subscription: Subscription) -> None:
    with suppress(BlockingIOError):
        for _ in range(_READS):
            subscription.put(receiver.recv(MAX_DATAGRAM))


def _discard(path: Path) -> None:
    """Remove a socket, and its folder with the last one."""
    with suppress(OSError):
        path.unlink()
        path.parent.rmdir()


def _sweep(root: Path) -> None:
    """Remove what viewers left that were killed after the last chunk of their invocation."""
    with _datagram_socket() as probe:
        for path in root.glob("*/*"):
            try:
                probe.connect(str(path))
            except ConnectionRefusedError:
                _discard(path)
            except OSError:  # it has just left by itself
                continue
