"""The addresses on which a server listens."""

import ipaddress

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
"""Host names by which local requests address this machine."""


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def url_of(host: str, port: int) -> str:
    """Return the URL of a server, such as ``http://127.0.0.1:8000``."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
