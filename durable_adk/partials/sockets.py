"""Partial events between processes on one machine, without a broker.

A viewer binds a datagram socket in a folder. Both sides derive the folder's name from the session
store's path and the invocation; a step sends to every socket in the folder. Without viewers the
folder does not exist, and publishing costs one failed directory lookup.
"""

import asyncio
import errno
import hashlib
import secrets
import socket
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from pathlib import Path
from threading import Lock

from durable_adk.json_values import canonical
from durable_adk.log import get_logger
from durable_adk.partials.channel import PartialChannel
from durable_adk.partials.partial import PartialEvent, encode
from durable_adk.partials.replay import Replays
from durable_adk.partials.subscription import Subscription
from durable_adk.sessions.session import SessionKey
from durable_adk.storage.files import check_private, private_folder

_log = get_logger(__name__)

MAX_DATAGRAM = 32 * 1024
"""Maximum size of a chunk in bytes; larger ones are dropped. A text chunk has a few hundred."""
BACKLOG = 200
"""Chunks kept for a viewer whose socket is full; Linux itself buffers only ten."""
MAX_BACKLOGS = 64
"""Maximum number of viewers with a backlog; beyond it the oldest backlogs are dropped."""
_FULL = {errno.EAGAIN, errno.ENOBUFS}
_READS = 64
"""Chunks read before control returns to the event loop."""
_BIND_ATTEMPTS = 5


class SocketPartials(PartialChannel):
    """Channel for the processes of one user that share a store file.

    Args:
        name: The store file; only its path is used. All processes must use the same path and the
            same ``TMPDIR``.
    """

    def __init__(self, name: Path) -> None:
        self._name = str(name.resolve())
        self._root = private_folder()
        self._swept = False
        self._lock = Lock()
        self._backlogs: dict[Path, deque[bytes]] = {}
        self._replays = Replays()

    def publish(
        self, partial: PartialEvent, earlier: Iterable[PartialEvent] = (), *, again: bool = False
    ) -> None:
        """See `PartialChannel.publish`; chunks for a full socket are sent with the next one."""
        with suppress(OSError):  # e.g. out of file descriptors
            viewers = self._viewers(partial)
            if not viewers:
                return
            with self._lock, _datagram_socket() as sender:
                for viewer in viewers:
                    chunks = self._replays.chunks(viewer, partial, earlier, again=again)
                    self._send(sender, viewer, _joined(chunks))
                for viewer in list(self._backlogs)[:-MAX_BACKLOGS]:
                    del self._backlogs[viewer]

    def _viewers(self, partial: PartialEvent) -> list[Path]:
        check_private(self._root)
        folder = self._folder(partial.key, partial.invocation_id)
        return [path for path in folder.iterdir() if not path.name.startswith(".")]

    def _send(self, sender: socket.socket, viewer: Path, chunks: Iterable[bytes]) -> None:
        """Send a viewer's backlog, then the new chunks."""
        waiting = self._backlogs.pop(viewer, None) or deque(maxlen=BACKLOG)
        waiting.extend(chunks)
        try:
            while waiting:
                sender.sendto(waiting[0], str(viewer))
                waiting.popleft()
        except ConnectionRefusedError:
            _discard(viewer)  # its process was killed
        except OSError as error:
            if error.errno in _FULL:
                self._backlogs[viewer] = waiting  # moved to the end: the newest backlog

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
        """Bind a socket in a private folder and return it with its path.

        Raises:
            OSError: The folder cannot be created, e.g. because it belongs to another user.
        """
        self._root.mkdir(mode=0o700, exist_ok=True)
        check_private(self._root)
        if not self._swept:
            self._swept = True
            _sweep(self._root)
        for _ in range(_BIND_ATTEMPTS):
            # A leaving viewer may remove the folder before the socket is bound, or while mkdir
            # checks what exists there.
            with suppress(FileNotFoundError, FileExistsError):
                folder.mkdir(mode=0o700, exist_ok=True)
                return _bind(folder)
        raise FileNotFoundError(errno.ENOENT, "The folder is deleted repeatedly", str(folder))

    def _folder(self, key: SessionKey, invocation_id: str) -> Path:
        return self._root / _hash(self._name, key, invocation_id)


def _joined(chunks: Sequence[PartialEvent]) -> Iterator[bytes]:
    """Encode chunks one per line, as many per datagram as fit."""
    waiting = b""
    for chunk in chunks:
        data = encode(chunk)
        if data is None or len(data) > MAX_DATAGRAM:
            continue
        if waiting and len(waiting) + 1 + len(data) > MAX_DATAGRAM:
            yield waiting
            waiting = b""
        waiting = waiting + b"\n" + data if waiting else data
    if waiting:
        yield waiting


@lru_cache(maxsize=256)
def _hash(name: str, key: SessionKey, invocation_id: str) -> str:
    """Return a short hash; the path of a socket is limited to 108 bytes (104 on macOS)."""
    text = canonical([name, *key, invocation_id])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _datagram_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made


def _bind(folder: Path) -> tuple[socket.socket, Path]:
    """Bind a new socket, then rename it to a path that publishers can see.

    Until the socket is bound, its file looks like that of a dead viewer and would be removed. It
    is therefore bound under a hidden name first.
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
    """Remove a socket, and its folder if that was the last one."""
    with suppress(OSError):
        path.unlink()
        path.parent.rmdir()


def _sweep(root: Path) -> None:
    """Remove the sockets of viewers that were killed after their invocation's last chunk."""
    with _datagram_socket() as probe:
        for folder in root.iterdir():
            with suppress(OSError):  # the viewer has just left, and removed it
                for path in folder.iterdir():
                    _sweep_one(probe, path)


def _sweep_one(probe: socket.socket, path: Path) -> None:
    try:
        probe.connect(str(path))
    except ConnectionRefusedError:
        _discard(path)
    except OSError:  # the viewer has just removed it
        pass
