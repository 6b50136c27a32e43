"""Where a socket is: one reading of addresses, for whoever listens at one and whoever connects to one."""

from __future__ import annotations

import ipaddress
import re

UNIX = "unix:"
"""What the address of a socket in the file system starts with."""

EXPECTED = "host:port, such as 127.0.0.1:7433 or [::1]:7433"

_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})")
_PORT = re.compile(r"[0-9]{1,5}")


def address_problem(address: object, *, unix: bool = False, any_port: bool = False) -> str | None:
    """What is wrong with an address, as words to put into an error; None: nothing.

    Args:
        address: ``host:port``, with an IPv6 host in square brackets; or ``unix:PATH``.
        unix: Whether ``unix:PATH`` may stand here.
        any_port: Whether port 0 may, which takes a free one.
    """
    expected = f"expected {EXPECTED}{', or unix:PATH' if unix else ''}"
    if not isinstance(address, str):
        return f"{expected}; got {type(address).__name__}"
    if any(character.isspace() or not character.isprintable() for character in address):
        return f"{expected}; {address!a} contains a space or a character that cannot be printed"
    if unix and address.startswith(UNIX):
        return None if address != UNIX else f"{expected}; the path after 'unix:' is missing"
    host, colon, port = address.rpartition(":")
    if not colon or not host or not _is_host(host):
        return f"{expected}; got {address[:256]!a}"
    least = 0 if any_port else 1
    if not _PORT.fullmatch(port) or not least <= int(port) <= 65_535:
        return f"{expected}; the port {port[:16]!a} is not a number from {least} to 65535"
    return None


def host_of(address: str) -> str:
    """The host of ``host:port``, without brackets; empty for ``unix:PATH``."""
    return "" if address.startswith(UNIX) else address.rpartition(":")[0].strip("[]")


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach the address."""
    host = host_of(address)
    if host == "localhost" or address.startswith(UNIX):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _is_host(host: str) -> bool:
    if not (host.startswith("[") and host.endswith("]")):
        return _NAME.fullmatch(host) is not None
    try:
        ipaddress.IPv6Address(host[1:-1])
    except ValueError:
        return False
    return True
