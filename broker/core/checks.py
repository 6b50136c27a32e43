"""Checks: what came of working out one thing again."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

MOST_DIFFERENCES = 5
"""Differences that one check lists."""


class Verdict(Enum):
    """What came of one check."""

    AGREES = "AGREES"
    DIFFERS = "DIFFERS"
    NOT_RECOMPUTED = "NOT_RECOMPUTED"


class Check(Struct, frozen=True, gc=False):
    """One thing worked out again.

    Attributes:
        name: What, in lower_snake_case.
        verdict: What came of it.
        told: What was worked out, from what.
        limits: What of it could not be; empty: all was.
        differences: The first :data:`MOST_DIFFERENCES` of them.
    """

    name: str
    verdict: Verdict
    told: str
    limits: str = ""
    differences: tuple[str, ...] = ()


def checked(name: str, told: str, differences: Iterable[str] | None, limits: str = "") -> Check:
    """A check of what differs; None: it could not be worked out, for the reason that ``limits`` gives."""
    if differences is None:
        return Check(name, Verdict.NOT_RECOMPUTED, told, limits)
    found = tuple(difference for difference, _ in zip(differences, range(MOST_DIFFERENCES), strict=False))
    return Check(name, Verdict.DIFFERS if found else Verdict.AGREES, told, limits, found)
