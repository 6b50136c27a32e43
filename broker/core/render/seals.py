"""Seals: a short keyed mark on a block that its content cannot forge, and that is the same for the same content."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

from broker.core.request import Fence

SEAL_LENGTH = 10
"""Characters of a seal: 50 bits, of which an attacker has one guess a prompt."""

SEAL = rf"[A-Z2-7]{{{SEAL_LENGTH}}}"
"""A seal as a pattern."""

_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = tuple(first + second for first in _BASE32 for second in _BASE32)

Sealer: TypeAlias = Callable[[str], str]
"""Gives the seal of a content digest (``sha256:<hex>``)."""


def sealer_of(fence: Fence, key: bytes) -> Sealer | None:
    """What makes the seals of a fence under the broker's key; None: it has none."""
    return (lambda digest: seal_of(digest, key)) if fence is Fence.SEALED else None


def seal_of(digest: str, key: bytes) -> str:
    """Ten base32 characters (RFC 4648) of the HMAC-SHA-256 of a content digest (``sha256:<hex>``)."""
    mac = _keyed(key).copy()
    mac.update(digest.encode())
    # The first 50 bits, as five pairs of characters.
    bits = int.from_bytes(mac.digest()[:7], "big") >> 6
    return "".join([_PAIRS[bits >> shift & 0x3FF] for shift in (40, 30, 20, 10, 0)])


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> hmac.HMAC:
    """The HMAC of nothing yet under a key, to be copied: taking the key in is half of the work."""
    return hmac.new(key, digestmod="sha256")
