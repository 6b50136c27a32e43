"""An operator's client says what it does, and refuses what no broker would take before it sends anything."""

from __future__ import annotations

import pytest

from broker.client import InvalidArgument, NotFound, OperatorClient, Provider, Unavailable
from broker.rpc.server import Broker


async def nothing(_) -> list:
    return []


async def test_it_quarantines_releases_and_drains(broker: Broker, serve):
    serve(Provider("a", nothing), broker.address)
    async with OperatorClient(broker.address) as operator:
        while not await operator.providers():
            pass
        assert await operator.quarantine("a", 600) == 600
        (listed,) = await operator.providers()
        assert listed.quarantined_seconds == 600
        assert 595 <= await operator.release("a") <= 600
        assert await operator.release("a") == 0
        with pytest.raises(NotFound) as caught:
            await operator.quarantine("b", 600)
        assert caught.value.reason == "PROVIDER_UNKNOWN"
        with pytest.raises(NotFound):
            await operator.release("a", tenant="other")
        assert await operator.drain() == 0
        with pytest.raises(Unavailable) as refused:
            await operator.compose("g", max_tokens=100)
        assert refused.value.reason == "DRAINING"


@pytest.mark.parametrize(
    ("provider", "seconds", "tenant", "field"),
    [
        ("a", 0, "", "seconds"),
        ("a", 604_801, "", "seconds"),
        ("a", -(2**40), "", "seconds"),
        ("a", 1.5, "", "seconds"),
        ("*", 60, "", "provider"),
        (None, 60, "", "provider"),
        ("a", 60, "t" * 64, "tenant"),
        ("a", 60, "\ud800", "tenant"),
    ],
)
async def test_what_cannot_be_is_refused_by_name(provider, seconds, tenant, field):
    client = OperatorClient("127.0.0.1:1")
    with pytest.raises(InvalidArgument) as caught:
        await client.quarantine(provider, seconds, tenant=tenant)
    assert [each.field for each in caught.value.violations] == [field]
    await client.close()
