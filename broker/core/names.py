"""Provider names: lower-case ASCII, so that no two of them look alike."""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")

FORBIDDEN = frozenset({"all", "default"})
"""Names that no provider may have: whoever writes them means more than one."""


def provider_name_problem(name: str) -> str | None:
    """What is wrong with a provider's name, as words to put into an error; None: nothing."""
    if name in FORBIDDEN:
        return f"{name!a} names no single provider and is reserved"
    if not _NAME.fullmatch(name):
        return (
            f"{name[:64]!a} is not a provider name; use 1 to 63 of a-z, 0-9, '.', '_' and '-', the first a letter or a "
            "digit"
        )
    return None
