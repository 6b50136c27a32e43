"""Each tenant has parts of its own, made once, and a broker that stops takes no new one."""

from __future__ import annotations

import asyncio

import pytest

from broker.core.scores import UNIT
from broker.errors import Unavailable
from broker.gather.collect import Collector
from broker.gather.local import LocalFabric
from broker.gather.pushes import Pushes
from broker.gather.quarantine import Conduct
from broker.gather.registry import Registry
from broker.gather.tenants import Tenant, Tenants
from tests.gather.support import FakeClock, read

MIB = 2**20


def tenants(made: list[str]) -> Tenants:
    clock = FakeClock()
    pushes = Pushes(clock)

    def make(name: str) -> Tenant:
        made.append(name)
        registry, conduct = Registry(), Conduct(clock)
        fabric = LocalFabric(clock, registry, pushes)
        collector = Collector(fabric=fabric, conduct=conduct, clock=clock, read=read, lane_bytes=MIB, hedges={})
        return Tenant(name=name, registry=registry, fabric=fabric, conduct=conduct, collector=collector)

    return Tenants(make)


def test_a_tenant_is_made_when_it_first_calls_and_then_stays() -> None:
    made: list[str] = []
    all_of_them = tenants(made)
    red = all_of_them.of("red")
    assert (all_of_them.of("red"), made) == (red, ["red"])
    assert [tenant.name for tenant in (all_of_them.of(""), *all_of_them.all())] == ["", "", "red"]


def test_no_part_of_one_is_a_part_of_another() -> None:
    both = tenants([])
    red, blue = both.of("red"), both.of("blue")
    for part in ("registry", "fabric", "conduct", "collector", "requests"):
        assert getattr(red, part) is not getattr(blue, part)
    red.registry.attach("p", UNIT, (), replaces=False)
    red.fabric.quarantine("p", 60.0)
    assert blue.registry.get("p") is None
    assert blue.fabric.quarantined("p") == 0.0


async def test_a_stop_reaches_every_tenant_and_takes_no_new_one() -> None:
    all_of_them = tenants([])
    stopped: list[str] = []

    for name in ("red", "blue"):
        fabric = all_of_them.of(name).fabric

        async def stop(grace: float, name: str = name) -> None:
            stopped.append(f"{name} {grace:g}")
            await asyncio.sleep(0)

        fabric.stop = stop  # type: ignore[method-assign]
    await all_of_them.stop(3.0)
    assert stopped == ["red 3", "blue 3"]
    assert all_of_them.of("red").name == "red"
    with pytest.raises(Unavailable, match="stopping"):
        all_of_them.of("green")
