"""Channels to a broker, and what their failures mean: the one place where the client meets gRPC's own errors."""

from __future__ import annotations

import contextlib
from typing import Any

import grpc
import grpc.aio

from broker.addresses import address_problem, is_loopback
from broker.client.access import Access
from broker.core.given import given
from broker.errors import BrokerError, DeadlineExceeded, FieldViolation, InvalidArgument, ResourceExhausted, Unavailable
from broker.wire.status import DETAILS_KEY, error_from_status, read_details
from broker.wire.typed import require

UNREACHABLE = "UNREACHABLE"
"""No connection came about, whatever the cause."""

MAX_SECONDS = 1e9
"""The longest timeout of a call."""

DEFAULT_ADDRESS = "127.0.0.1:7433"
"""Where a broker listens unless it was told otherwise."""

# Part of what the core says when it has no connection, as against one that broke.
_NO_CONNECTION = ("failed to connect", "connection refused", "dns", "name resolution", "no route", "unreachable")

# What the core puts before the cause, each time the same.
_BEFORE_CAUSE = ("Failed to connect to remote host: ", "last error: UNKNOWN: ", "last error: ")


def check_place(address: str, access: Access) -> None:
    """Refuses what no channel can be made of, before anything is connected.

    Args:
        address: ``host:port`` or ``unix:PATH``.
        access: What the client brings.

    Raises:
        InvalidArgument: The address has another form (``ADDRESS``), or as :meth:`Access.check`.
    """
    if problem := address_problem(address, unix=True):
        raise InvalidArgument.of([FieldViolation("address", "ADDRESS", problem)])
    access.check(address)


def check_timeout(timeout: float | None) -> None:
    """Refuses what is not a number of seconds.

    Raises:
        InvalidArgument: It is of another type (``FIELD_INVALID``), NaN or too large (``OUT_OF_RANGE``).
    """
    require(("timeout", timeout, float | None))
    if timeout is not None and not -MAX_SECONDS <= timeout <= MAX_SECONDS:
        text = f"expected at most {MAX_SECONDS:g} seconds, got {given(timeout)}; give None to wait as long as it takes"
        raise InvalidArgument.of([FieldViolation("timeout", "OUT_OF_RANGE", text)])


def open_channel(address: str, access: Access) -> grpc.aio.Channel:
    """A channel for an event loop, which must run; it connects when first used.

    Args:
        address: ``host:port`` or ``unix:PATH``.
        access: What the client brings; its token goes with each call, and not with the channel.

    Raises:
        InvalidArgument: As :func:`check_place`; or a certificate cannot be read (``TLS_CA``, ``TLS_CERT``).
    """
    check_place(address, access)
    credentials = access.channel_credentials()
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=_options(address))
    return grpc.aio.secure_channel(address, credentials, options=_options(address))


def open_blocking_channel(address: str, access: Access) -> grpc.Channel:
    """A channel for threads; as :func:`open_channel` in all else."""
    check_place(address, access)
    credentials = access.channel_credentials()
    if credentials is None:
        return grpc.insecure_channel(address, options=_options(address))
    return grpc.secure_channel(address, credentials, options=_options(address))


async def send(call: Any, data: bytes) -> bool:
    """Sends one message of a stream of bytes; False where the call is over, and whoever reads it learns why.

    A write that crosses the peer's last word fails in the core, and grpc.aio's own ``write()`` then puts INTERNAL in
    the place of the status that the peer had sent: a provider would take a verdict for an accident and try again. So
    the layer below it is used, which only raises; it is private, and a grpcio that no longer has it gets ``write()``.

    Args:
        call: A stream's call; no other task may write to it.
        data: The message.
    """
    try:
        await call.wait_for_connection()
        below = getattr(call, "_cython_call", None)
        await getattr(below, "send_serialized_message", call.write)(data)
    except (grpc.RpcError, grpc.aio.BaseError):
        return False
    return True


async def end_sending(call: Any) -> None:
    """Says that nothing more is sent; harmless where the call is over."""
    with contextlib.suppress(grpc.RpcError, grpc.aio.BaseError):
        await call.done_writing()


def translated(error: grpc.RpcError, address: str) -> BrokerError:
    """The broker's own error that a failed call stands for; where it sent none, one that says what to do.

    Args:
        error: What gRPC raised.
        address: Where the call went.
    """
    # Both of gRPC's stacks raise errors with these methods, and neither says so in its types.
    code = getattr(error, "code", lambda: None)() or grpc.StatusCode.UNKNOWN
    text = getattr(error, "details", lambda: "")() or ""
    trailing = getattr(error, "trailing_metadata", lambda: ())() or ()
    data = next((value for key, value in trailing if key == DETAILS_KEY), None)
    details = read_details(data) if isinstance(data, bytes) else None
    if details is not None:
        return error_from_status(code.name, details, text)
    if code is grpc.StatusCode.UNAVAILABLE:
        if any(part in text.lower() for part in _NO_CONNECTION):
            advice = "start one with `context-broker serve`, or give the address of one that runs"
            return Unavailable(UNREACHABLE, f"no broker answers at {address}; {advice} ({_cause(text)})")
        return Unavailable("CONNECTION_LOST", f"the connection to the broker at {address} was lost; try again ({text})")
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        text = f"the broker at {address} did not answer within the call's timeout"
        return DeadlineExceeded("DEADLINE_EXCEEDED", text)
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in text:
        return ResourceExhausted("TOO_LARGE", f"a message is larger than {address} takes; send less ({text})")
    return error_from_status(code.name, None, text)


def _options(address: str) -> list[tuple[str, int]]:
    options = [
        # A dead broker is noticed within 30 s where a call is open: the core waits the longer of its two timeouts. A
        # broker of ours allows a ping every 5 s; on a server that allows fewer, the core itself doubles the time when
        # it is told so. Without a call nothing is sent.
        ("grpc.keepalive_time_ms", 15_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.ping_timeout_ms", 10_000),
        # The core waits for a ping's answer as long as the longer of these two, which is a minute by default.
        ("grpc.http2.ping_timeout_ms", 10_000),
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
        # A channel lives, and goes on connecting, as long as anything refers to one of its calls, such as an error
        # that someone keeps: without a call that runs, it lets go of its connection.
        ("grpc.client_idle_timeout_ms", 60_000),
    ]
    if is_loopback(address):
        # A proxy that the environment names for the outside cannot reach this machine's own broker.
        options.append(("grpc.enable_http_proxy", 0))
    return options


def _cause(text: str) -> str:
    """The end of what the core says of a failed connection; the rest is the same each time."""
    return next((text.rpartition(before)[2] for before in _BEFORE_CAUSE if before in text), text)
