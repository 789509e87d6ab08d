"""Where users may have messages sent: public addresses by https, or hosts the operator allows."""

import asyncio
import ipaddress
import socket
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any

from durable_adk.errors import InvalidRequestError
from durable_adk.extras import Absent
from durable_adk.settings import host_name

try:
    from httpx import URL, InvalidURL
except ImportError:
    if TYPE_CHECKING:
        raise
    URL = InvalidURL = Absent

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_REMEDY = (
    "Give an https URL of a public address, or have the operator add its host to "
    "DURABLE_ADK_PUSH_HOSTS of servers and workers."
)
NOT_PUBLIC = f"The url's host has no public address. {_REMEDY}"
LOOKUP_TIMEOUT = 10.0
"""Seconds to resolve a host."""
_threads = ThreadPoolExecutor(32, thread_name_prefix="lookup")
"""A separate pool: a look-up cannot be cancelled, and users can name hosts whose look-ups never
end."""
_lock = Lock()
_lookups: dict[str, Future[list[Any]]] = {}
"""The open look-ups by host."""
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
        infos = await _looked_up(host)
    except UnicodeError:
        raise InvalidRequestError(f"The url's host is no name. {_REMEDY}") from None
    addresses = [str(info[4][0]) for info in sorted(infos, key=lambda info: info[0])]  # IPv4 first
    if not addresses or not all(map(is_public, addresses)):
        raise InvalidRequestError(NOT_PUBLIC)
    return list(dict.fromkeys(addresses))


async def _looked_up(host: str) -> list[Any]:
    """Return the result of `getaddrinfo`; concurrent requests for a host share one thread.

    Raises:
        OSError: The host was not resolved in time.
    """
    with _lock:
        lookup = _lookups.get(host) or _lookups.setdefault(host, _threads.submit(_look_up, host))
    async with asyncio.timeout(LOOKUP_TIMEOUT):
        return await asyncio.shield(asyncio.wrap_future(lookup))


def _look_up(host: str) -> list[Any]:
    try:
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    finally:
        with _lock:
            del _lookups[host]


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
