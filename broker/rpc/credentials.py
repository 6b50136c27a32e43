"""Secrets and certificates that the daemon reads at its start: read once, checked, or a plain error."""

from __future__ import annotations

import logging
import secrets
import ssl
import stat
from pathlib import Path

import grpc
import structlog

from broker.errors import ConfigError
from broker.settings import Server

MIN_SEAL_KEY_BYTES = 16

log = structlog.get_logger("broker.rpc")


def seal_key(file: Path | None, *, trial: bool = False) -> bytes:
    """The secret of the seals.

    Args:
        file: Where it is kept, white space around it apart; None: a random one is made and the log says so.
        trial: Whether only this machine can reach the broker: then the log informs and does not warn.

    Raises:
        ConfigError: The file cannot be read, is readable by all, or holds fewer than 16 bytes.
    """
    if file is None:
        log.log(
            logging.INFO if trial else logging.WARNING,
            "prompts are sealed with a key that a restart changes; to keep one: "
            "(umask 077; openssl rand -hex 32 > seal.key), then set render.seal_key_file to that file",
        )
        return secrets.token_bytes(32)
    key = _private(file, "render.seal_key_file").strip()
    if len(key) < MIN_SEAL_KEY_BYTES:
        raise ConfigError(
            f"render.seal_key_file: {file} holds {len(key)} bytes and a secret has at least {MIN_SEAL_KEY_BYTES}; "
            "make one with: openssl rand -hex 32"
        )
    return key


def server_credentials(server: Server) -> grpc.ServerCredentials | None:
    """What TLS needs; None where it is off.

    Raises:
        ConfigError: A file cannot be read, the key is readable by all, or the two do not belong together.
    """
    if server.tls_cert is None or server.tls_key is None:
        return None
    key = _private(server.tls_key, "server.tls_key")
    chain = _bytes(server.tls_cert, "server.tls_cert")
    try:
        # grpc says nothing of a wrong pair until the port is opened, and then not what was wrong.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(server.tls_cert, server.tls_key)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"server.tls_cert {server.tls_cert} and server.tls_key {server.tls_key} cannot be used together: {error}"
        ) from None
    return grpc.ssl_server_credentials([(key, chain)])


def _private(file: Path, key: str) -> bytes:
    content = _bytes(file, key)
    if file.stat().st_mode & stat.S_IROTH:
        raise ConfigError(f"{key}: {file} is readable by all users of this machine; chmod o-r it")
    return content


def _bytes(file: Path, key: str) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}: {file}: {error.strerror or error}") from None
