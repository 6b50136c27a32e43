"""What other suites need of limits: some that no test reaches, unless it says so."""

from __future__ import annotations

from broker.limits.shares import Holding, Shares


def holding(limit: int = 2**40) -> Holding:
    """What a call holds, of ``limit`` bytes."""
    keys = {"each_key": "limits.tenant_held_bytes", "total_key": "limits.held_bytes"}
    shares = Shares("bytes held for requests", "HELD_BYTES", each=limit, total=limit, **keys, retry_after=1.0)
    return shares.holding("")
