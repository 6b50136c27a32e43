"""Names that the broker gives."""

from __future__ import annotations

import secrets
import time


def new_id() -> str:
    """An id that sorts by the time it was made at and cannot be guessed: a UUID of version 7 (RFC 9562)."""
    above, below = divmod(secrets.randbits(74), 1 << 62)
    number = int(time.time() * 1000) << 80 | 7 << 76 | above << 64 | 2 << 62 | below
    text = f"{number:032x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
