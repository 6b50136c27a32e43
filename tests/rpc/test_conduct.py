"""The rules of conduct hold over a real connection: quarantine, circuit and hedge, and what the log says of them."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from broker.config import Config
from broker.core.frames import Frame
from broker.rpc.conduct import conduct_rules
from broker.settings import Conduct
from broker.wire.events import Cancel, LaneEnded, Rejection
from tests.rpc.peers import SAFETY, Peer, frames, lanes

LIE = Frame(id="x", title="t", content="c", score=0.5, token_cost=99)


@pytest.fixture
def broker_config() -> Config:
    conduct = {"quarantine_seconds": 500, "breaker_failures": 2, "breaker_seconds": 300, "max_breaker_seconds": 300}
    return Config(
        server={"listen": "127.0.0.1:0"}, conduct=conduct, providers={"hedged": {"hedge_seconds": 0.01}, "b": {}}
    )


def test_each_key_is_a_rule() -> None:
    rules = conduct_rules(
        Conduct(
            quarantine_seconds=1,
            max_quarantine_seconds=2,
            forgive_seconds=3,
            breaker_failures=4,
            breaker_seconds=5,
            max_breaker_seconds=6,
            breaker_patience_seconds=7,
        )
    )
    assert (rules.first, rules.longest, rules.forgiven_after, rules.patience) == (1, 2, 3, 7)
    assert (rules.circuit.failures, rules.circuit.seconds, rules.circuit.longest) == (4, 5, 6)


async def test_a_liar_is_told_why_and_sits_out_as_long_as_the_operator_says(peer: Peer) -> None:
    liar, other = await peer.attach("a"), await peer.attach("b")
    with capture_logs() as logs:
        composing = asyncio.create_task(peer.compose())
        ask = await liar.hear_ask()
        await liar.frames(ask.query_id, [LIE])
        verdict = await liar.hear()
        assert isinstance(verdict, Rejection)
        assert [(each.reason, each.frame_id) for each in verdict.violations] == [("COST_MISMATCH", "x")]
        await other.answer(frames(("y", 0.5)))
        assert lanes((await composing).composition()) == {"a": "REFUSED", "b": "COMPLETE"}
    (told,) = [entry for entry in logs if entry["event"] == "provider lied"]
    assert (told["provider"], told["instance"], told["sits_out_seconds"]) == ("a", "one", 500)
    assert (await peer.providers())["a"].quarantined_seconds in (499, 500)


async def test_one_that_keeps_failing_is_left_alone_and_costs_no_request_its_time(peer: Peer) -> None:
    failing, other = await peer.attach("a"), await peer.attach("b")
    with capture_logs() as logs:
        for _ in range(2):
            composing = asyncio.create_task(peer.compose())
            await failing.answer([], failed=True, message="no index")
            await other.answer(frames(("y", 0.5)))
            await composing
    (told,) = [entry for entry in logs if entry["event"] == "provider keeps failing and is left alone"]
    assert (told["provider"], told["failures"], told["seconds"]) == ("a", 2, 300)
    composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
    await other.answer(frames(("y", 0.5)))
    composition = (await composing).composition()
    assert lanes(composition) == {"a": "FAILED", "b": "COMPLETE"}
    (lane,) = [lane for lane in composition.summary.lanes if lane.provider == "a"]
    assert "circuit open" in lane.message
    listed = (await peer.providers())["a"]
    assert listed.quarantined_seconds == 0
    assert listed.circuit_open_seconds in (299, 300)
    await peer.call("/contextbroker.v1.OperatorService/ReleaseProvider", b"\x0a\x01a")
    assert (await peer.providers())["a"].circuit_open_seconds == 0


async def test_a_hedged_provider_is_its_faster_instance_and_no_frame_counts_twice(peer: Peer) -> None:
    slow, fast = await peer.attach("hedged", "1"), await peer.attach("hedged", "2")
    composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
    asks = await asyncio.gather(slow.hear_ask(), fast.hear_ask())
    await slow.frames(asks[0].query_id, frames(("both", 0.5), ("slow", 0.4)))
    await fast.frames(asks[1].query_id, frames(("both", 0.5)))
    await fast.say(LaneEnded(asks[1].query_id))
    composition = (await composing).composition()
    assert lanes(composition) == {"hedged": "COMPLETE"}
    assert [(row.provider, row.frame_id) for row in composition.audit] == [("hedged", "both")]
    assert composition.usage.total.frames_offered == 1
    assert await slow.hear() == Cancel(asks[0].query_id)
