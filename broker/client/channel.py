"""Channels to a broker, and what their failures mean: the one place where the client meets gRPC's own errors."""

from __future__ import annotations

import contextlib
import ipaddress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from broker.errors import BrokerError, DeadlineExceeded, FieldViolation, InvalidArgument, ResourceExhausted, Unavailable
from broker.wire.status import error_from_status, read_details

DEFAULT_ADDRESS = "127.0.0.1:7433"
"""Where a broker listens unless it was told otherwise."""

_DETAILS_KEY = "grpc-status-details-bin"

# Part of what the core says when it has no connection, as against one that broke.
_NO_CONNECTION = ("failed to connect", "connection refused", "dns", "name resolution", "no route", "unreachable")


def open_channel(address: str, tls_ca: str | Path | None) -> grpc.aio.Channel:
    """A channel for an event loop, which must run; it connects when first used.

    Args:
        address: ``host:port`` or ``unix:PATH``.
        tls_ca: File of the certificates, in PEM, that the broker's own must descend from; None: plain text.

    Raises:
        InvalidArgument: The address is none (``ADDRESS``), or the file cannot be read (``TLS_CA``).
    """
    target, options = _target(address), _options(address)
    if tls_ca is None:
        return grpc.aio.insecure_channel(target, options=options)
    return grpc.aio.secure_channel(target, _credentials(tls_ca), options=options)


def open_blocking_channel(address: str, tls_ca: str | Path | None) -> grpc.Channel:
    """A channel for threads; as :func:`open_channel` in all else."""
    target, options = _target(address), _options(address)
    if tls_ca is None:
        return grpc.insecure_channel(target, options=options)
    return grpc.secure_channel(target, _credentials(tls_ca), options=options)


async def send(call: Any, data: bytes) -> bool:
    """Sends one message of a stream of bytes; False where the call is over, and whoever reads it learns why.

    A write that crosses the peer's last word fails in the core, and grpc.aio's own ``write()`` then puts INTERNAL in
    the place of the status that the peer had sent: a provider would take a verdict for an accident and try again. So
    the layer below it is used, which only raises.

    Args:
        call: A stream's call; no other task may write to it.
        data: The message.
    """
    try:
        await call.wait_for_connection()
        await call._cython_call.send_serialized_message(data)  # noqa: SLF001 - see above
    except (grpc.RpcError, grpc.aio.BaseError):
        return False
    return True


async def end_sending(call: Any) -> None:
    """Says that nothing more is sent; harmless where the call is over."""
    with contextlib.suppress(grpc.RpcError, grpc.aio.BaseError):
        await call.done_writing()


def translated(error: grpc.RpcError, address: str) -> BrokerError:
    """The broker's own error that a failed call stands for; where there is none, one that says what to do.

    Args:
        error: What gRPC raised.
        address: Where the call went.
    """
    # Both of gRPC's stacks raise errors with these methods, and neither says so in its types.
    code = getattr(error, "code", lambda: None)() or grpc.StatusCode.UNKNOWN
    text = getattr(error, "details", lambda: "")() or ""
    trailing = getattr(error, "trailing_metadata", lambda: ())() or ()
    data = next((value for key, value in trailing if key == _DETAILS_KEY), None)
    details = read_details(data) if isinstance(data, bytes) else None
    if details is not None:
        return error_from_status(code.name, details, text)
    if code is grpc.StatusCode.UNAVAILABLE:
        if any(part in text.lower() for part in _NO_CONNECTION):
            advice = "start one with `context-broker serve`, or give the address of one that runs"
            return Unavailable("UNREACHABLE", f"no broker answers at {address}; {advice} ({text})")
        return Unavailable("CONNECTION_LOST", f"the connection to the broker at {address} was lost; try again ({text})")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        text = f"the broker at {address} did not answer within the call's timeout"
        return DeadlineExceeded("DEADLINE_EXCEEDED", text)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
        return ResourceExhausted("TOO_LARGE", f"a message is larger than {address} takes; send less ({text})")
    return error_from_status(code.name, None, text)


def _options(address: str) -> list[tuple[str, int]]:
    options = [
        # A dead broker is noticed in 40 s where a call is open. A broker of ours allows a ping every 5 s; on a server
        # that allows fewer, the core itself doubles the time when it is told so. Without a call nothing is sent.
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        # A broker that came back is found again within seconds.
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.min_reconnect_backoff_ms", 1_000),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        # Channels to one address share connections, and with them each other's failures and waits, unless told not to.
        ("grpc.use_local_subchannel_pool", 1),
        # A composition's messages have at most 512 KiB; listings may have more. What is sent, the broker judges.
        ("grpc.max_receive_message_length", 4 * 1024 * 1024),
        ("grpc.max_send_message_length", -1),
        # Details of an error are metadata.
        ("grpc.max_metadata_size", 64 * 1024),
    ]
    if _is_local(address):
        # A proxy that the environment names for the outside cannot reach this machine's own broker.
        options.append(("grpc.enable_http_proxy", 0))
    return options


def _is_local(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _target(address: str) -> str:
    if not address or address.startswith(("http:", "https:", "grpc:")) or any(c.isspace() for c in address):
        text = f"{address!r} is no address; give host:port, such as {DEFAULT_ADDRESS}"
        raise InvalidArgument.of([FieldViolation("address", "ADDRESS", text)])
    return address


def _credentials(tls_ca: str | Path) -> grpc.ChannelCredentials:
    try:
        return grpc.ssl_channel_credentials(Path(tls_ca).read_bytes())
    except OSError as error:
        text = f"the certificates cannot be read: {error}"
        raise InvalidArgument.of([FieldViolation("tls_ca", "TLS_CA", text)]) from None
