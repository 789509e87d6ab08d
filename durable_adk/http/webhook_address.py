"""Where users may have messages sent: public addresses by https, or hosts the operator allows."""

import asyncio
import ipaddress
import socket
import time
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, ClassVar

from durable_adk.errors import InvalidRequestError
from durable_adk.http._library import URL, InvalidURL
from durable_adk.settings import host_name

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_REMEDY = (
    "Give an https URL of a public address, or have the operator add its host to "
    "DURABLE_ADK_PUSH_HOSTS of servers and workers."
)
NOT_PUBLIC = f"The url's host has no public address. {_REMEDY}"
LOOKUP_TIMEOUT = 5.0
"""Seconds to resolve a host."""
THREAD_TIMEOUT = 10.0
"""Seconds until a thread for the look-up is free."""
_threads = ThreadPoolExecutor(32, thread_name_prefix="lookup")
"""A separate pool: a look-up cannot be cancelled, and users can name hosts whose look-ups never
end."""
_PORTS = {"https": 443, "http": 80}
_MAX_PORT = 65_535


async def addresses_of(url: str, allowed: Collection[str]) -> list[str]:
    """Return the addresses to which a message may be sent; [] if any will do.

    The caller must connect to one of them: the name may resolve differently the next time.

    Args:
        url: A user's URL.
        allowed: Hosts, as `PushHost` has them, that may be private and use http.

    Raises:
        InvalidRequestError: The URL is not allowed. The message does not contain it.
        OSError: Its host was not resolved in time.
    """
    try:
        found = URL(url)
    except (InvalidURL, ValueError):
        raise InvalidRequestError(f"The url is not a URL. {_REMEDY}") from None
    if found.scheme not in _PORTS or not found.host:
        raise InvalidRequestError(f"The url is not of a web server. {_REMEDY}")
    if found.userinfo:
        raise InvalidRequestError("The url has a user or password; give them as authentication.")
    port = _PORTS[found.scheme] if found.port is None else found.port
    if not 0 < port <= _MAX_PORT:
        raise InvalidRequestError(f"The url has a port that no server has. {_REMEDY}")
    host = found.raw_host.decode("ascii")
    try:
        names = {host_name(found.host), host_name(host)}
    except ValueError:
        raise InvalidRequestError(f"The url's host is no name. {_REMEDY}") from None
    if not names.isdisjoint(allowed) or not {f"{one}:{port}" for one in names}.isdisjoint(allowed):
        return []
    if found.scheme != "https":
        raise InvalidRequestError(f"The url is not https. {_REMEDY}")
    try:
        infos = await _Lookup.of(host).found()
    except UnicodeError:
        raise InvalidRequestError(f"The url's host is no name. {_REMEDY}") from None
    addresses = [str(info[4][0]) for info in sorted(infos, key=lambda info: info[0])]  # IPv4 first
    if not addresses or not all(map(is_public, addresses)):
        raise InvalidRequestError(NOT_PUBLIC)
    return list(dict.fromkeys(addresses))


class _Lookup:
    """A look-up of a host, shared by all concurrent requests for it."""

    _lock = Lock()
    _open: ClassVar[dict[str, "_Lookup"]] = {}

    @classmethod
    def of(cls, host: str) -> "_Lookup":
        """Return the open look-up of a host, or a new one."""
        with cls._lock:
            return cls._open.get(host) or cls._open.setdefault(host, cls(host))

    def __init__(self, host: str) -> None:
        self._host = host
        self._until = time.monotonic() + THREAD_TIMEOUT
        self._begun = Future[None]()
        self._begun.set_running_or_notify_cancel()  # so no caller that stops waiting cancels it
        self._infos = _threads.submit(self._look)

    async def found(self) -> list[Any]:
        """Return the result of `getaddrinfo`; the time limits for thread and look-up are separate.

        Raises:
            OSError: The host was not resolved in time.
        """
        async with asyncio.timeout(THREAD_TIMEOUT):
            await asyncio.wrap_future(self._begun)
        async with asyncio.timeout(LOOKUP_TIMEOUT):
            return await asyncio.wrap_future(self._infos)

    def _look(self) -> list[Any]:
        self._begun.set_result(None)
        try:
            if time.monotonic() > self._until:  # all callers have timed out
                raise TimeoutError
            return socket.getaddrinfo(self._host, None, type=socket.SOCK_STREAM)
        finally:
            with self._lock:
                del self._open[self._host]


def is_public(address: str) -> bool:
    """Return whether an address is on the Internet, not on this machine or its network."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        if found in _NAT64:
            found = ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)
        elif found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        elif found.sixtofour is not None or found.teredo is not None:
            return False  # tunnels to any IPv4 address
        elif found.is_site_local:
            return False  # deprecated, but still routed in some networks
    return found.is_global and not found.is_multicast and not found.is_reserved
