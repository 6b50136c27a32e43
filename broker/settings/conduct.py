"""How long a provider sits out that lied, and one that keeps failing."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from broker.settings.base import Seconds, Section, Times


class Conduct(Section):
    """What comes of lies and of failures.

    Attributes:
        quarantine_seconds: For how long a provider sits out after its first lie; doubled with each further one.
        max_quarantine_seconds: For how long at most.
        forgive_seconds: How long after its last quarantine its lies are forgotten, and how long after its last failure
            its failures are.
        breaker_failures: Failures in a row after which a provider, or a remote reranker, is not asked for a while; 0:
            it always is.
        breaker_seconds: For how long at first; doubled with each trial that fails.
        max_breaker_seconds: For how long at most.
        breaker_patience_seconds: A provider that says nothing within a deadline sooner than this has not failed.
    """

    quarantine_seconds: Seconds = 60.0
    max_quarantine_seconds: Seconds = 3600.0
    forgive_seconds: Seconds = 3600.0
    breaker_failures: Times = 5
    breaker_seconds: Seconds = 5.0
    max_breaker_seconds: Seconds = 60.0
    breaker_patience_seconds: Seconds = 1.0

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for low, high in (
            ("quarantine_seconds", "max_quarantine_seconds"),
            ("breaker_seconds", "max_breaker_seconds"),
        ):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(f"{low} ({getattr(self, low)}) is above {high} ({getattr(self, high)})")
        return self
