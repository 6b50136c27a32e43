"""Seals: a short keyed mark on a block that its content cannot forge, and that is the same for the same content."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, TypeAlias

from broker.core.request import Fence

if TYPE_CHECKING:
    from hashlib import _Hash

SEAL_LENGTH = 10
"""Characters of a seal: 50 bits, of which an attacker has one guess a prompt."""

SEAL = rf"[A-Z2-7]{{{SEAL_LENGTH}}}"
"""A seal as a pattern."""

_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_PAIRS = tuple(first + second for first in _BASE32 for second in _BASE32)

_BLOCK = 64
"""Bytes that SHA-256 takes in at once."""

_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))

Sealer: TypeAlias = Callable[[str], str]
"""Gives the seal of a content digest (``sha256:<hex>``), :data:`SEAL_LENGTH` characters."""


def sealer_of(fence: Fence, key: bytes) -> Sealer | None:
    """What makes the seals of a fence under the broker's key; None: it has none."""
    return partial(seal_of, key=key) if fence is Fence.SEALED else None


# The same evidence is placed again and again: a thousand seals take a quarter of a megabyte.
@lru_cache(maxsize=4096)
def seal_of(digest: str, key: bytes) -> str:
    """Ten base32 characters (RFC 4648) of the HMAC-SHA-256 of a content digest (``sha256:<hex>``)."""
    keyed = _keyed(key)
    inner, outer = keyed[0].copy(), keyed[1].copy()
    inner.update(digest.encode())
    outer.update(inner.digest())
    # The first 50 bits, as five pairs of characters.
    bits = int.from_bytes(outer.digest()[:7], "big") >> 6
    return (
        f"{_PAIRS[bits >> 40]}{_PAIRS[bits >> 30 & 0x3FF]}{_PAIRS[bits >> 20 & 0x3FF]}"
        f"{_PAIRS[bits >> 10 & 0x3FF]}{_PAIRS[bits & 0x3FF]}"
    )


@lru_cache(maxsize=8)
def _keyed(key: bytes) -> tuple[_Hash, _Hash]:
    """The two hashes of an HMAC (RFC 2104) once they took in the key, to be copied: that is half of the work."""
    block = (key if len(key) <= _BLOCK else hashlib.sha256(key).digest()).ljust(_BLOCK, b"\0")
    return hashlib.sha256(block.translate(_INNER)), hashlib.sha256(block.translate(_OUTER))
