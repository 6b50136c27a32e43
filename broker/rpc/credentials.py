"""Secrets that the daemon reads at its start: read once, checked, or a plain error."""

from __future__ import annotations

import logging
import secrets
import stat
from pathlib import Path

import structlog

from broker.errors import ConfigError

MIN_SEAL_KEY_BYTES = 16

SAMPLE = b"CHANGE-ME"
"""What stands in every sample of a secret, so that none is left in place."""

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
    key = private(file, "render.seal_key_file").strip()
    if len(key) < MIN_SEAL_KEY_BYTES:
        raise ConfigError(
            f"render.seal_key_file: {file} holds {len(key)} bytes and a secret has at least {MIN_SEAL_KEY_BYTES}; "
            "make one with: openssl rand -hex 32"
        )
    return key


def private(file: Path, key: str) -> bytes:
    """What a file with a secret holds.

    Args:
        file: The file.
        key: The configuration's key that names it, for errors.

    Raises:
        ConfigError: It cannot be read, is readable by all, or holds a sample.
    """
    found = content(file, key)
    if SAMPLE in found:
        raise ConfigError(f"{key}: {file} holds the sample that came with it; put a secret of your own there")
    if file.stat().st_mode & stat.S_IROTH:
        raise ConfigError(f"{key}: {file} is readable by all users of this machine; chmod o-r it")
    return found


def content(file: Path, key: str) -> bytes:
    """What a file holds; arguments and errors are those of :func:`private`."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}: {file}: {error.strerror or error}") from None
