"""Replays recorded retrievers as four providers of a running daemon, and asks it the collection's questions.

Each provider answers with its own native scores on an honest scale, and keeps to what it is granted. A policy says what
a question is asked with; a new policy, a reranker on the wire among them, is one more entry of :data:`POLICIES`.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from broker.client import (
    Composition,
    ContextClient,
    Direction,
    Frame,
    PerProviderQuota,
    Provider,
    Query,
    ReciprocalRankFusion,
    Rerank,
    RoundRobin,
    ScoreDescending,
    ScoreScale,
)
from broker.config import Config
from broker.core.audited import AuditRow
from broker.core.frames import FrameRef
from broker.rpc.server import Broker
from tests.evidence.cranfield import PROVIDERS, Collection
from tests.evidence.measures import BUDGETS, Item

T = TypeVar("T")

SCALES = {
    "bm25": ScoreScale("bm25", 0.0, math.inf),
    "ctfidf": ScoreScale("cosine", 0.0, 1.0),
    "dense": ScoreScale("cosine", -1.0, 1.0),
    "title": ScoreScale("fts5-turned", 0.0, math.inf),
}
ANY = ScoreScale("any", -math.inf, math.inf, Direction.HIGHER_IS_BETTER)
"""A scale that holds every number, for scores that are distorted."""

WIDE = 200_000
"""A budget that grants every lane all of its frames; the audit then holds the whole ranking."""
AT_ONCE = 4
COLLECT_SECONDS = 60.0
"""A safety net that no healthy replay comes near."""


@dataclass
class Recording:
    """What the four providers answer from. ``run`` and ``distort`` may change between questions.

    Attributes:
        run: Which of the collection's runs.
        distort: By provider: what its scores become. Changes must keep each lane's order.
    """

    collection: Collection
    run: str
    distort: dict[str, Callable[[float], float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._ids = {text: question for question, text in self.collection.questions.items()}

    async def answer(self, provider: str, query: Query) -> list[Frame]:
        """One provider's frames for a question: as many of its best as the grant holds."""
        distorted = self.distort.get(provider, float)
        frames: list[Frame] = []
        left = query.max_tokens
        for name, score in self.collection.runs[self.run][self._ids[query.text]][provider]:
            document = self.collection.documents[name]
            left -= document.tokens
            if left < 0 or len(frames) == query.max_frames:
                break
            frames.append(Frame(name, document.title, document.content, distorted(score), kind="doc"))
        return frames


@asynccontextmanager
async def replaying(recording: Recording, *, any_scale: bool = False) -> AsyncIterator[ContextClient]:
    """A daemon on a free port with the four providers attached, and a client of it."""
    broker = Broker(Config(server={"listen": "127.0.0.1:0"}))
    await broker.start()
    serving: list[tuple[Provider, asyncio.Task[None]]] = []
    try:
        for name in PROVIDERS:
            serving.append(await _attached(recording, name, ANY if any_scale else SCALES[name], broker.address))
        async with ContextClient(broker.address) as client:
            yield client
    finally:
        for provider, task in serving:
            await provider.stop(grace=0)
            await asyncio.wait_for(task, COLLECT_SECONDS)
        await broker.stop(grace=1.0)


async def _attached(
    recording: Recording, name: str, scale: ScoreScale, address: str
) -> tuple[Provider, asyncio.Task[None]]:
    attached = asyncio.Event()
    provider = Provider(name, lambda query: recording.answer(name, query), scale=scale, kinds=("doc",))
    task = asyncio.create_task(provider.serve(address, on_attached=lambda _: attached.set()))
    await asyncio.wait_for(attached.wait(), COLLECT_SECONDS)
    return provider, task


Policy = Mapping[str, Any]
"""What a question is asked with, besides its text and budget."""

POLICIES: dict[str, Policy] = {
    "round_robin": {"strategy": RoundRobin()},
    "per_provider_quota(3)": {"strategy": PerProviderQuota(3)},
    "reciprocal_rank_fusion(60)": {"strategy": ReciprocalRankFusion(60)},
    "reciprocal_rank_fusion(10)": {"strategy": ReciprocalRankFusion(10)},
    "score_descending": {"strategy": ScoreDescending()},
    # A pool that no question outgrows: the reranker orders everything.
    "lexical": {"strategy": ReciprocalRankFusion(), "rerank": Rerank("lexical", candidates=1000)},
}


@dataclass(frozen=True)
class Outcome:
    """One question under one policy.

    Attributes:
        ranking: All evidence, best first.
        prompts: By budget: what stood in the prompt when the budget was the broker's ``max_tokens``, which pays for
            whole rendered blocks and the prompt's own texts.
    """

    ranking: list[Item]
    prompts: dict[int, list[Item]]


async def outcome(
    client: ContextClient, collection: Collection, question: str, policy: Policy, budgets: Iterable[int] = BUDGETS
) -> Outcome:
    """Asks one question once for its ranking, and once at each budget."""
    text = collection.questions[question]
    ranking = [
        Item(rows[0].frame_id, collection.documents[rows[0].frame_id].tokens, frozenset(row.provider for row in rows))
        for rows in copies(await compose(client, text, WIDE, max_frames=1, **policy))
    ]
    prompts = {}
    for budget in budgets:
        placed = {one.frame.id for one in (await compose(client, text, budget, **policy)).placed}
        # Under a small budget lanes are cut to their grants; who holds a document is what the whole lanes say.
        prompts[budget] = [item for item in ranking if item.document in placed]
    return Outcome(ranking, prompts)


async def outcomes(
    client: ContextClient,
    collection: Collection,
    questions: Sequence[str],
    policy: Policy,
    budgets: Iterable[int] = BUDGETS,
) -> list[Outcome]:
    """Asks all questions, a few at a time; in the questions' order."""
    return await each(questions, lambda question: outcome(client, collection, question, policy, tuple(budgets)))


async def each(questions: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Runs a question's errand for all of them, a few at a time; in the questions' order."""
    free = asyncio.Semaphore(AT_ONCE)

    async def one(question: str) -> T:
        async with free:
            return await ask(question)

    return await asyncio.gather(*map(one, questions))


async def compose(client: ContextClient, question: str, max_tokens: int, **options: Any) -> Composition:
    """One composition, of four whole lanes."""
    composition = await client.compose(question, max_tokens=max_tokens, collect_timeout=COLLECT_SECONDS, **options)
    assert [lane.end.value for lane in composition.summary.lanes] == ["COMPLETE"] * len(PROVIDERS)
    return composition


def copies(composition: Composition) -> list[list[AuditRow]]:
    """The ranking as the audit tells it: the rows of each piece of evidence, the kept copy's first, best first."""
    of: defaultdict[FrameRef, list[AuditRow]] = defaultdict(list)
    for row in sorted(composition.audit, key=lambda row: not row.rank):
        of[row.duplicate_of or FrameRef(row.provider, row.frame_id)].append(row)
    return sorted(of.values(), key=lambda rows: rows[0].rank)
