"""Where a door may listen, and which `Host` headers it answers to.

A web page in a browser on this machine can reach loopback under a name of its own (DNS rebinding). It cannot
choose the `Host` header, so a door that answers only to names it knows is out of its reach.
"""

from __future__ import annotations

import ipaddress
from typing import Final

import msgspec

from loremesh.node.errors import UsageError

LOOPBACK: Final = "127.0.0.1"
LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "::1"})
HINT: Final = "give HOST:PORT, for instance 127.0.0.1:8710 or [::1]:8710; port 0 takes a free one"


class Listen(msgspec.Struct, frozen=True):
    """An address to listen on: a host without brackets, and a port (0: any free one)."""

    host: str = LOOPBACK
    port: int = 0

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host == "localhost" or _is_loopback(self.host)


def parse_listen(text: str | None) -> Listen:
    """The address that `--listen` names; without one, loopback and a free port. Raises UsageError.

    >>> parse_listen("[::1]:80")
    Listen(host='::1', port=80)
    """
    if text is None:
        return Listen()
    host, colon, port = text.strip().rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65_535:
        raise UsageError(f"--listen {text[:100]!r} has no port from 0 to 65535", HINT)
    bracketed = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if bracketed else host
    if (
        (":" in host) != bracketed
        or not host
        or len(host) > 253
        or not host.isascii()
        or not host.isprintable()
    ):
        raise UsageError(f"--listen {text[:100]!r} has no usable host", HINT)
    if host != "localhost" and _address(host) is None:
        raise UsageError(f"--listen {text[:100]!r} does not name an address", HINT)
    return Listen(host.lower(), int(port))


def answers_to(listen: Listen, header: str) -> bool:
    """Whether a request with this `Host` header is for a door listening there.

    Where it listens on every address, a `Host` that is a bare address will do: a page's own name is none.
    """
    host = _host_of(header)
    if host in LOOPBACK_NAMES or host == listen.host:
        return True
    listening = _address(listen.host)
    return listening is not None and listening.is_unspecified and _address(host) is not None


def _host_of(header: str) -> str:
    text = header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0]


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback
