"""The socket side of the server: its options, its port, and why a port could not be opened."""

from __future__ import annotations

import errno
import socket

import grpc
import grpc.aio

from broker.settings import Config

_HEADROOM = 64 * 1024
"""A message just above the limit is read, so that it can be refused with details; the core refuses the rest bare."""


def options(config: Config) -> list[tuple[str, int]]:
    """The channel arguments of the server, each with its reason."""
    return [
        # A second broker on the port must fail, not take every other connection in silence.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", config.limits.max_message_bytes + _HEADROOM),
        # A socket that never becomes a connection is closed; nothing else closes it.
        ("grpc.server_handshake_timeout_ms", round(config.server.handshake_seconds * 1000)),
        # A peer that is half gone is noticed within 30 s, also where nothing is said for hours, as in a session.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # A client that pings every 10 s is eager and honest; the default takes it for an attacker.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        # For connections without a call; a session is one, however quiet it is.
        ("grpc.max_connection_idle_ms", 600_000),
    ]


def open_port(server: grpc.aio.Server, listen: str, credentials: grpc.ServerCredentials | None) -> str:
    """Binds the address.

    Args:
        server: A server that was not started.
        listen: ``host:port``; port 0 takes a free one.
        credentials: What TLS needs; None: plain text.

    Returns:
        The address bound, as ``host:port``.

    Raises:
        OSError: It cannot be bound; ``EADDRINUSE`` where something else listens there.
    """
    # Asked first, for the core writes lines of its own about a port that it cannot have.
    problem = _problem(listen)
    if problem is not None and problem.errno == errno.EADDRINUSE:
        raise problem
    try:
        port = server.add_insecure_port(listen) if credentials is None else server.add_secure_port(listen, credentials)
    except RuntimeError:
        raise problem or OSError(errno.EADDRNOTAVAIL, "the address cannot be bound", listen) from None
    return f"{listen.rpartition(':')[0]}:{port}"


def _problem(listen: str) -> OSError | None:
    """What the system says of listening there; None: nothing."""
    host, _, port = listen.rpartition(":")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen()
    except socket.gaierror:
        return OSError(errno.EADDRNOTAVAIL, "there is no such host", listen)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return OSError(error.errno, error.strerror, listen)
        text = "address in use: another process, maybe another broker, listens there; stop it or choose another address"
        return OSError(errno.EADDRINUSE, text, listen)
    return None
