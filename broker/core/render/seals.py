"""Seals: a short keyed mark on a block that its content cannot forge, and that is the same for the same content."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable
from typing import TypeAlias

from broker.core.request import Fence

SEAL_LENGTH = 10
"""Characters of a seal: 50 bits, of which an attacker has one guess a prompt."""

SEAL = rf"[A-Z2-7]{{{SEAL_LENGTH}}}"
"""A seal as a pattern."""

Sealer: TypeAlias = Callable[[str], str]
"""Gives the seal of a content digest (``sha256:<hex>``)."""


def sealer_of(fence: Fence, key: bytes) -> Sealer | None:
    """What makes the seals of a fence under the broker's key; None: it has none."""
    return (lambda digest: seal_of(digest, key)) if fence is Fence.SEALED else None


def seal_of(digest: str, key: bytes) -> str:
    """Ten base32 characters of the HMAC-SHA-256 of a content digest (``sha256:<hex>``)."""
    # Ten bytes are sixteen characters: more than the seal keeps.
    return base64.b32encode(hmac.digest(key, digest.encode(), "sha256")[:10])[:SEAL_LENGTH].decode()
