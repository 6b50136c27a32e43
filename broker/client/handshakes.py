"""Why no connection stands where something does answer: nearly always two ideas of TLS, which gRPC tells last or not.

A server that breaks a handshake off just closes the socket, and the core can say no more than that. So it is looked at
once more with the standard library's own TLS, for a second at most, and only after a connection has failed: whether TLS
is spoken there, for which names, and whether it stands without a certificate of this client's. Nothing is sent but a
handshake: no token, no call.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from broker.addresses import UNIX, host_of
from broker.client.access import Access
from broker.client.channel import UNREACHABLE
from broker.errors import BrokerError, Unavailable

LOOK_SECONDS = 1.0
"""How long connecting again, and each answer then, may take."""

_UNVERIFIED = "CERTIFICATE_VERIFY_FAILED"
_OTHER_NAME = "Hostname Verification Check failed"
_NO_TLS = "WRONG_VERSION_NUMBER"
_UNUSABLE = "Failed to create security handshaker"
_BROKEN_OFF = ("Socket closed", "reset by peer", "Handshake read failed", "Broken pipe")


@dataclass(frozen=True, slots=True)
class _Seen:
    """What listens at an address.

    Attributes:
        speaks_tls: Whether a handshake came about.
        stays: Whether the server said anything once it stood; a server that misses a certificate hangs up.
        names: Whom its certificate is for; empty where that was not verified.
    """

    speaks_tls: bool = False
    stays: bool = False
    names: Sequence[str] = ()


def explained(error: BrokerError, address: str, access: Access) -> BrokerError:
    """The same error, or ``TLS`` with the likely cause first; it may take :data:`LOOK_SECONDS` to find out.

    Args:
        error: What a failed call stands for.
        address: Where the call went.
        access: What the client brought.
    """
    if error.reason != UNREACHABLE:
        return error
    told = error.message
    seen = _look(address, access) if _is_to_be_looked_at(told) else _Seen()
    cause = _cause(told, address, access, seen)
    # What the core says stays, last: the address before it holds no space.
    return Unavailable("TLS", cause + "".join(told.partition(" (")[1:])) if cause else error


async def explained_soon(error: BrokerError, address: str, access: Access) -> BrokerError:
    """As :func:`explained`, without holding the event loop up."""
    if error.reason == UNREACHABLE and _is_to_be_looked_at(error.message):
        return await asyncio.to_thread(explained, error, address, access)
    return explained(error, address, access)


def _is_to_be_looked_at(told: str) -> bool:
    return _OTHER_NAME in told or any(part in told for part in _BROKEN_OFF)


def _cause(told: str, address: str, access: Access, seen: _Seen) -> str:
    """What is the matter with TLS, and what to do; empty: nothing that could be seen."""
    if access.tls_ca is None:
        text = f"the broker at {address} speaks TLS, and this client does not: give tls_ca"
        return f"{text}, the file of the authority that its certificate is of" if seen.speaks_tls else ""
    if _OTHER_NAME in told:
        names = f"; it is for {', '.join(seen.names)}" if seen.names else ""
        text = f"the certificate of the broker at {address} is not for {host_of(address)!r}{names}"
        return f"{text}: connect by a name that it is for"
    if _UNVERIFIED in told:
        if "expired" in told or "not yet valid" in told:
            return f"the certificate of the broker at {address} is not valid now: renew it, or set the clock right"
        text = f"the certificate of the broker at {address} is not of the authority in tls_ca"
        return f"{text}: give the file of the authority that it is of"
    if _NO_TLS in told:
        text = f"what listens at {address} does not speak TLS, and this client does"
        return f"{text}: is it another port, or a broker without TLS? For that one leave tls_ca out"
    if _UNUSABLE in told:
        return "the files of tls_ca, tls_cert and tls_key cannot be used: are they certificates and their key, in PEM?"
    if seen.speaks_tls and not seen.stays:
        if access.tls_cert is None:
            return f"the broker at {address} asks for a certificate of this client: give tls_cert and tls_key"
        return f"the broker at {address} does not take the certificate in tls_cert: is it of the authority it trusts?"
    return ""


def _look(address: str, access: Access) -> _Seen:
    if address.startswith(UNIX):
        return _Seen()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    host = host_of(address)
    place = host, int(address.rpartition(":")[2])
    speaks_tls = False
    names: tuple[str, ...] = ()
    try:
        if access.tls_ca is None:
            # Nothing is told to it and nothing of it is believed but that it speaks TLS.
            context.verify_mode = ssl.CERT_NONE
        else:
            context.load_verify_locations(access.tls_ca)
        if access.tls_cert is not None:
            context.load_cert_chain(access.tls_cert, access.tls_key)
        with (
            socket.create_connection(place, LOOK_SECONDS) as connection,
            context.wrap_socket(connection, server_hostname=host) as tls,
        ):
            speaks_tls, names = True, _names(tls.getpeercert())
            return _Seen(speaks_tls, tls.recv(1) != b"", names)
    except ssl.SSLError as error:
        # An alert is TLS too.
        return _Seen(speaks_tls or "ALERT" in (error.reason or ""), names=names)
    except TimeoutError:
        return _Seen(speaks_tls, speaks_tls, names)
    except (OSError, ValueError):
        return _Seen(speaks_tls, names=names)


def _names(certificate: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Whom a certificate that was verified is for."""
    return tuple(str(name) for _, name in (certificate or {}).get("subjectAltName", ()))
