"""A session that reaches its age makes place for a new one, and no request misses the provider by it."""

from __future__ import annotations

import asyncio

import pytest

from broker.client import ContextClient, Frame, Provider, Query
from broker.config import Config
from broker.rpc.server import Broker
from broker.wire.events import Detached, Draining, LaneEnded
from tests.rpc.peers import Peer, frames, lanes

SAFETY = 20.0
SESSIONS = 4
REQUESTS = 500


class TestRenewal:
    @pytest.fixture
    def broker_config(self) -> Config:
        return Config(server={"listen": "127.0.0.1:0", "session_age_seconds": 1.0})

    async def test_renewed_sessions_lose_no_request(self, broker: Broker) -> None:
        """P6."""
        sessions: list[str] = []
        asked = 0

        async def answer(query: Query) -> list[Frame]:
            return [Frame(query.text, "t", query.text, 0.5)]

        async def ask(client: ContextClient) -> None:
            nonlocal asked
            while len(sessions) < SESSIONS or asked < REQUESTS:
                asked += 1
                goal = str(asked)
                found = await client.compose(goal, max_tokens=1000)
                assert [placed.frame.id for placed in found.placed] == [goal], found.summary

        provider = Provider("a", answer)
        serving = asyncio.create_task(provider.serve(broker.address, on_attached=sessions.append))
        async with ContextClient(broker.address) as client, asyncio.timeout(SAFETY):
            while not await client.providers():
                pass
            await asyncio.gather(*(ask(client) for _ in range(4)))
            # The old ones have gone, and the newest is the one that is asked.
            (listed,) = await client.providers()
            assert [instance.session for instance in listed.instances] == sessions[-1:]
        await provider.stop()
        await serving

    async def test_an_old_session_is_asked_until_a_new_one_stands_and_then_finishes(self, peer: Peer) -> None:
        """P6: with a provider that no one here wrote; it need not be of our library."""
        old = await peer.attach("a", "1")
        drain = await old.hear()
        assert isinstance(drain, Draining)
        assert drain.remaining_ms > 300_000
        composing = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
        ask = await old.hear_ask()
        new = await peer.attach("a", "1")
        other = asyncio.create_task(peer.compose(collect_timeout=SAFETY))
        await new.answer(frames(("new", 0.5)))
        assert lanes((await other).composition()) == {"a": "COMPLETE"}
        await old.say(Detached())
        await old.frames(ask.query_id, frames(("old", 0.5)))
        await old.say(LaneEnded(ask.query_id))
        assert lanes((await composing).composition()) == {"a": "COMPLETE"}
