"""The same frames give the same bytes, whatever the arrival, the batching, the hash seed and the process (P18)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from pathlib import Path

import grpc.aio
import pytest
from msgspec.structs import replace

from broker.core.frames import Frame, Provenance
from broker.core.request import Floor
from broker.core.scores import ScoreScale
from broker.core.strategies import ReciprocalRankFusion, RoundRobin, Strategy
from broker.wire.events import Ask, LaneEnded
from broker.wire.listings import ListedProvider
from tests.faults.processes import Process, broker_process
from tests.rpc.peers import Attached, Peer
from tests.soaking import Soak

SCALES = {"code": ScoreScale(), "tickets": ScoreScale("bm25", 0.0, 100.0), "notes": ScoreScale()}
STRATEGIES: dict[str, Strategy] = {
    "round_robin": RoundRobin(),
    "reciprocal_rank_fusion": ReciprocalRankFusion(k=60),
}


def lane(provider: str) -> list[Frame]:
    """Frames with equal scores, evidence that others share, slips and conflicting sources among them."""
    chance, scale = random.Random(provider), SCALES[provider]
    made = []
    for number in range(24):
        # Every provider knows some of the same texts, and gives many the same score.
        text = f"shared text {number}" if number % 4 == 0 else f"{provider} text {number} \u200b <<<"
        score = chance.choice((0.2, 0.5, 0.5, 0.9)) * scale.max
        source = Provenance("file", f"file:///src/{number % 6}.py", "1-9")
        made.append(Frame(f"{provider}-{number}", f"title {number}", text, score, provenance=(source,)))
    made.append(Frame(f"{provider}-slip", "", "no title", 0.5))
    return made


async def answer(attached: Attached, items: Sequence[Frame], chance: random.Random, gate: asyncio.Event) -> None:
    """Answers in an order and in batches of chance's choice, at a moment of its choice."""
    while not isinstance(ask := await attached.hear(), Ask):
        # What was said of the slip in the round before.
        pass
    items = chance.sample(items, len(items))
    await gate.wait()
    while items:
        size = chance.randint(1, len(items))
        await attached.frames(ask.query_id, items[:size])
        items = items[size:]
        await asyncio.sleep(chance.choice((0.0, 0.0, 0.001)))
    await attached.say(LaneEnded(ask.query_id))


async def results(broker: Process, chance: random.Random, rounds: int) -> set[bytes]:
    """What is placed and why the rest is not, without ids and times, over some arrivals."""
    found = set()
    async with grpc.aio.insecure_channel(broker.address) as channel:
        peer = Peer(channel)
        names = chance.sample(sorted(SCALES), len(SCALES))
        attached = {name: await peer.attach(name, scale=SCALES[name]) for name in names}
        known: dict[str, ListedProvider] = await peer.providers()
        assert known.keys() == SCALES.keys()
        for _ in range(rounds):
            parts = []
            for strategy in STRATEGIES.values():
                gate = asyncio.Event()
                asking = await peer.composing(
                    strategy=strategy,
                    max_tokens=1200,
                    max_frames_per_provider=9,
                    floors=(Floor("tickets", "bm25", 30.0),),
                    collect_timeout=20.0,
                    include_local_scores=True,
                )
                answers = [answer(attached[name], lane(name), chance, gate) for name in chance.sample(names, 3)]
                working = asyncio.gather(*answers)
                gate.set()
                composition = (await asking.rest()).composition()
                await working
                assert {summary.end.value for summary in composition.summary.lanes} == {"COMPLETE"}
                assert len(composition.placed) > 3
                parts.append(repr(replace(composition, composition_id="", request_id="")))
                parts.append(composition.prompt)
            found.add("\n".join(parts).encode())
    return found


async def over_processes(folder: Path, seeds: range, rounds: int) -> set[bytes]:
    key = folder / "seal.key"
    key.write_text("0123456789abcdef0123456789abcdef")
    key.chmod(0o600)
    settings = f'log.level = "warning"\nrender.seal_key_file = "{key}"\n'
    found = set()
    for seed in seeds:
        async with broker_process(folder, settings=settings, env={"PYTHONHASHSEED": str(seed)}) as broker:
            found |= await results(broker, random.Random(seed), rounds)
    return found


async def test_arrival_batching_hash_seed_and_process_change_no_byte_and_the_secret_does(tmp_path: Path) -> None:
    found = await over_processes(tmp_path, range(2), 4)
    assert len(found) == 1
    # The comparison sees seals: what held none would be the same under any secret.
    async with broker_process(tmp_path, settings='log.level = "warning"\n') as broker:
        assert len(found | await results(broker, random.Random(0), 1)) == 2


@pytest.mark.soak
async def test_ten_hash_seeds_and_a_thousand_arrivals(tmp_path: Path, soak: Soak) -> None:
    rounds = soak.count(100)
    found = await over_processes(tmp_path, range(10), rounds)
    soak.record("P18", hash_seeds=10, processes=10, arrivals=10 * rounds * len(STRATEGIES), results=len(found))
    assert len(found) == 1
