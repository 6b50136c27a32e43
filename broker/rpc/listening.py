"""The socket side of the server: its options, its port, and why a port could not be opened."""

from __future__ import annotations

import errno
import socket

import grpc
import grpc.aio

from broker.settings import Config

_HEADROOM = 64 * 1024
"""A message just above the limit is read, so that it can be refused with details; the core refuses the rest bare."""

_PENDING = 10_000
"""Calls; each takes about 17 kB."""

_METADATA_BYTES = 16 * 1024

_AHEAD = 64 * 1024
"""Bytes of one call; what it is at in the middle of a message is read whole besides."""


def options(config: Config) -> list[tuple[str, int]]:
    """The channel arguments of the server, each with its reason."""
    server = config.server
    heartbeat, age = round(server.heartbeat_seconds * 1000), round(server.session_age_seconds * 1000)
    return [
        # A second broker on the port must fail, not take every other connection in silence.
        ("grpc.so_reuseport", 0),
        ("grpc.max_receive_message_length", config.limits.max_message_bytes + _HEADROOM),
        # A socket that never becomes a connection is closed; nothing else closes it.
        ("grpc.server_handshake_timeout_ms", round(config.server.handshake_seconds * 1000)),
        ("grpc.http2.settings_timeout", round(config.server.handshake_seconds * 1000)),
        # Without a bound, streams that are opened and reset pile up before anyone looks at them.
        ("grpc.max_concurrent_streams", config.limits.connection_streams),
        # Calls that wait to be looked at, of all connections. Beyond its bounds the core refuses calls by lot, those of
        # callers who did nothing wrong too, and its own bounds are those of ten connections.
        ("grpc.server.max_pending_requests", _PENDING),
        ("grpc.server.max_pending_requests_hard_limit", _PENDING),
        # It resets streams of callers that keep to the bound above, who then hear no reason and no time to come back.
        ("grpc.http.overload_protection", 0),
        # One bound, not a range in which the core refuses by lot. Credentials may be long.
        ("grpc.max_metadata_size", _METADATA_BYTES),
        ("grpc.absolute_max_metadata_size", _METADATA_BYTES),
        # What a peer may send ahead of its readers. The core would let it grow to megabytes for each call where much is
        # sent, and a hundred calls that are read slowly then hold gigabytes.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", _AHEAD),
        # A peer that is stopped or half gone is noticed within three heartbeats, also where nothing is said for hours,
        # as in a session. The core waits the longer of its two timeouts.
        ("grpc.keepalive_time_ms", heartbeat),
        ("grpc.keepalive_timeout_ms", 2 * heartbeat),
        ("grpc.http2.ping_timeout_ms", 2 * heartbeat),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # A client that pings every 10 s is eager and honest; the default takes it for an attacker.
        ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
        # Books that the core keeps of each connection and that nothing here opens, 0.6 kB of each.
        ("grpc.enable_channelz", 0),
        # For connections without a call; a session is one, however quiet it is.
        ("grpc.max_connection_idle_ms", 1_200_000),
        # Connections are renewed as sessions are, give or take a tenth. A session that was attached just before then is
        # renewed after its own age, and the new one stands on another connection before the old one is cut.
        ("grpc.max_connection_age_ms", age),
        (
            "grpc.max_connection_age_grace_ms",
            2 * age + round((server.grace_seconds + config.limits.max_collect_seconds) * 1000),
        ),
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
