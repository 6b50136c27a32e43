"""Tenants: each has providers, conduct and running requests of its own, and no way to another's.

What a tenant sees is made of its own parts alone. So a provider that another tenant has is to it one that does not
exist: there is no place where the two could be told apart, and no check that could be forgotten.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.gather.collect import Collector
from broker.gather.fabric import Fabric, stopping
from broker.gather.quarantine import Conduct
from broker.gather.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """What one tenant has.

    Attributes:
        name: Its name; empty where there are no tenants.
        registry: The providers that it knows: the configured ones, and those that attached in it.
        fabric: Where these are.
        conduct: Who of them lied or failed how often.
        collector: Gathers from them.
        requests: Ids of its requests that run.
    """

    name: str
    registry: Registry
    fabric: Fabric
    conduct: Conduct
    collector: Collector
    requests: set[str] = field(default_factory=set)


class Tenants:
    """All tenants of a broker. There are as many as the operator's principals name."""

    def __init__(self, make: Callable[[str], Tenant]) -> None:
        """Starts without any; ``make`` makes one of a name."""
        self._make = make
        self._tenants: dict[str, Tenant] = {}
        self._stopping = False

    def of(self, name: str) -> Tenant:
        """The tenant of a caller, made when it is first asked for.

        Args:
            name: The caller's tenant, or one that an operator named and principals have; never what another says.

        Raises:
            Unavailable: ``STOPPING``: the broker takes no new tenants.
        """
        tenant = self._tenants.get(name)
        if tenant is None:
            if self._stopping:
                raise stopping()
            tenant = self._tenants[name] = self._make(name)
        return tenant

    def all(self) -> tuple[Tenant, ...]:
        """Those that have called, by name."""
        return tuple(self._tenants[name] for name in sorted(self._tenants))

    async def stop(self, grace: float) -> None:
        """Drains and closes every tenant's providers at once; see :meth:`broker.gather.fabric.Fabric.stop`."""
        self._stopping = True
        await asyncio.gather(*(tenant.fabric.stop(grace) for tenant in self._tenants.values()))
