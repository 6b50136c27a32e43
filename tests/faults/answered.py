"""What callers heard of a broker with a store, and whether it is on record."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import replace

import grpc.aio

from broker.client import ContextClient
from broker.core.composition import AuditState, Composition
from broker.core.frames import Frame
from broker.errors import NotFound
from broker.wire.requests import InlineLane
from tests.rpc.peers import Answer, Peer

INLINE = {
    "no_providers": True,
    "inline_lanes": (InlineLane("memory", frames=tuple(Frame(f"f{n}", "t", f"fact {n}", 0.5) for n in range(20))),),
}


def settings(**store: object) -> str:
    lines = [f"{key} = {json.dumps(value)}" for key, value in store.items()]
    return "\n".join(['log.level = "error"', "[store]", *lines, ""])


class Answered:
    """What callers heard of a broker that they ask until it is gone.

    Attributes:
        since: When the first was asked, in seconds since the epoch.
        recorded: The compositions whose end said that they are on record, by id, whether or not their call ended well.
        ends: How the calls ended.
    """

    def __init__(self) -> None:
        self.since = time.time()
        self.recorded: dict[str, Composition] = {}
        self.ends: Counter[str] = Counter()
        self._changed = asyncio.Event()

    async def ask(self, address: str) -> None:
        """Asks again and again, on a connection of its own, until an answer fails."""
        async with grpc.aio.insecure_channel(address) as channel:
            while (await self.once(Peer(channel))).error is None:
                pass

    async def once(self, peer: Peer) -> Answer:
        """Asks, and keeps what was answered: also where the call broke off after the answer's end."""
        answer = await peer.compose(**INLINE)
        if "completed" in answer.kinds:
            composition = replace(answer, error=None).composition()
            self.ends[composition.audit_state.value] += 1
            if composition.audit_state is AuditState.RECORDED:
                self.recorded[composition.composition_id] = composition
        if answer.error is not None:
            self.ends[f"{answer.error.code} {answer.error.reason}"] += 1
        self._changed.set()
        return answer

    async def until_state(self, peer: Peer, state: AuditState) -> None:
        """Asks until an answer says this of its record."""
        async with asyncio.timeout(30):
            while (await self.once(peer)).composition().audit_state is not state:
                pass

    async def until(self, count: int) -> None:
        """Returns once so many are recorded."""
        while len(self.recorded) < count:
            self._changed.clear()
            await self._changed.wait()


async def missing(client: ContextClient, answered: Answered) -> list[str]:
    """Ids of what was said to be recorded and is not, or not as it was answered."""
    lost = []
    for composition_id, composition in answered.recorded.items():
        try:
            kept = (await client.composition(composition_id)).composition
        except NotFound:
            lost.append(composition_id)
            continue
        for part in ("audit", "summary", "usage", "citations", "request_id"):
            if getattr(kept, part) != getattr(composition, part):
                lost.append(f"{composition_id}: {part}")
    return lost
