"""Replayed through a running daemon, real retrievers' scores give what independent figures say, and cross no lane."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path

import pytest

from broker.client import (
    ContextClient,
    PerProviderQuota,
    ReciprocalRankFusion,
    RoundRobin,
    ScoreDescending,
    TrustWeighted,
)
from tests.evidence.cranfield import PROVIDERS, Collection, load
from tests.evidence.measures import Difference, Item, mean, ndcg, packed, paired_bootstrap, recall, starved
from tests.evidence.replay import POLICIES, Outcome, Recording, compose, each, outcomes, replaying

BUDGET = 2048
FUSION = "reciprocal_rank_fusion(60)"


@pytest.fixture(scope="module")
def collection(shared_dir: Path) -> Collection:
    folder = shared_dir / "evidence" / "cranfield"
    if not folder.is_dir():
        pytest.skip("no 'evidence/cranfield' in the folder 'shared' beside this checkout: nothing to replay")
    return load(folder)


class Bench:
    """Asks questions of one run under policies by name, and averages what comes back."""

    def __init__(self, collection: Collection, questions: list[str]) -> None:
        self._collection = collection
        self._questions = questions
        self._outcomes: dict[str, list[Outcome]] = {}

    async def ask(self, client: ContextClient, policy: str, *budgets: int) -> None:
        self._outcomes[policy] = await outcomes(client, self._collection, self._questions, POLICIES[policy], budgets)

    def recalls(self, policy: str, budget: int = BUDGET) -> list[float]:
        return self._each(policy, lambda outcome, grades: recall(packed(outcome.ranking, budget), grades))

    def prompt_recalls(self, policy: str, budget: int = BUDGET) -> list[float]:
        return self._each(policy, lambda outcome, grades: recall(outcome.prompts[budget], grades))

    def ndcgs(self, policy: str) -> list[float]:
        return self._each(policy, lambda outcome, grades: ndcg(outcome.ranking, grades))

    def starvations(self, policy: str, budget: int = BUDGET) -> list[float]:
        return self._each(
            policy, lambda outcome, grades: starved(packed(outcome.ranking, budget), outcome.ranking, grades)
        )

    def _each(self, policy: str, measure: Callable[[Outcome, dict[str, int]], float]) -> list[float]:
        pairs = zip(self._outcomes[policy], self._questions, strict=True)
        return [float(measure(outcome, self._collection.grades[question])) for outcome, question in pairs]


def interleaved(collection: Collection, run: str) -> list[float]:
    """Recall of every lane's first frame, then every lane's second, repeats passed over; made without the broker."""
    recalls = []
    for question, lanes in collection.runs[run].items():
        dealt = [name for turn in zip_longest(*(lanes[lane] for lane in PROVIDERS)) for name, _ in filter(None, turn)]
        ranking = [Item(name, collection.documents[name].tokens, frozenset()) for name in dict.fromkeys(dealt)]
        recalls.append(recall(packed(ranking, BUDGET), collection.grades[question]))
    return recalls


async def test_the_same_corpus_gives_the_independent_figures(collection: Collection) -> None:
    """Charged for content: fusion .462 and round robin .434, raw score .098 below fusion.

    The independent round robin interleaves the lanes as they came and passes over repeats, so that a lane loses its
    turn to each; the daemon's deals the lane's next frame instead, which is .01 less here.
    """
    bench = Bench(collection, list(collection.questions))
    async with replaying(Recording(collection, "same")) as client:
        for policy in ("round_robin", FUSION, "score_descending"):
            await bench.ask(client, policy)
    assert mean(bench.recalls(FUSION)) == pytest.approx(0.462, abs=0.0006)
    assert mean(interleaved(collection, "same")) == pytest.approx(0.434, abs=0.0015)
    assert mean(bench.recalls("round_robin")) == pytest.approx(0.434 - 0.01, abs=0.0015)
    assert mean(bench.recalls(FUSION)) - mean(bench.recalls("score_descending")) == pytest.approx(0.098, abs=0.0011)
    assert mean(bench.starvations(FUSION)) == 0


async def test_shards_give_the_independent_figures(collection: Collection) -> None:
    """Charged for content: raw score .175 below fusion, and lanes that hold evidence silenced in most questions."""
    bench = Bench(collection, list(collection.questions))
    async with replaying(Recording(collection, "shard")) as client:
        for policy in (FUSION, "score_descending"):
            await bench.ask(client, policy)
    assert mean(bench.recalls(FUSION)) - mean(bench.recalls("score_descending")) == pytest.approx(0.175, abs=0.0011)
    assert mean(bench.starvations(FUSION)) == 0
    assert mean(bench.starvations("score_descending")) > 0.9


async def test_fences_and_headers_cost_recall_but_change_no_comparison(collection: Collection) -> None:
    bench = Bench(collection, list(collection.questions)[::9])
    async with replaying(Recording(collection, "same")) as client:
        for policy in (FUSION, "score_descending"):
            await bench.ask(client, policy, BUDGET)
    for policy in (FUSION, "score_descending"):
        assert 0 <= mean(bench.recalls(policy)) - mean(bench.prompt_recalls(policy)) < 0.06
    assert mean(bench.prompt_recalls(FUSION)) - mean(bench.prompt_recalls("score_descending")) > 0.05


async def against_the_best_order(collection: Collection, run: str) -> tuple[Difference, Difference]:
    """The lexical reranker less fusion with k = 10, which no other order beats: nDCG@10 and recall."""
    bench = Bench(collection, list(collection.questions)[::3])
    best = "reciprocal_rank_fusion(10)"
    async with replaying(Recording(collection, run)) as client:
        for policy in (best, "lexical"):
            await bench.ask(client, policy)
    gain = paired_bootstrap(bench.ndcgs("lexical"), bench.ndcgs(best))
    return gain, paired_bootstrap(bench.recalls("lexical"), bench.recalls(best))


async def test_the_lexical_reranker_gains_where_lanes_are_disjoint(collection: Collection) -> None:
    gain, recalled = await against_the_best_order(collection, "shard")
    assert gain.low > 0
    assert recalled.mean > 0


async def test_the_lexical_reranker_loses_nothing_where_lanes_see_the_same(collection: Collection) -> None:
    for difference in await against_the_best_order(collection, "same"):
        assert difference.mean > -0.005
        assert difference.high > 0


MAPS: dict[str, Callable[[float], float]] = {
    "a tenth": lambda score: score * 0.1,
    "a hundredfold": lambda score: score * 100,
    "cubed": lambda score: score**3,
}
ORDINAL = (RoundRobin(), PerProviderQuota(3), TrustWeighted({"bm25": 3.0, "title": 0.5}), ReciprocalRankFusion())


@pytest.mark.parametrize("run", ["same", "shard"])
async def test_a_distorted_scale_moves_nothing_but_raw_order(collection: Collection, run: str) -> None:
    """One provider's scores a tenth, a hundredfold, cubed: prompts and audits stay byte for byte.

    Under the policy that compares raw scores they move, and every provider can move them.
    """
    recording = Recording(collection, run)
    questions = list(collection.questions)[::113]
    async with replaying(recording, any_scale=True) as client:

        async def asked(strategy: object) -> list[tuple[object, ...]]:
            async def one(question: str) -> tuple[object, ...]:
                composition = await compose(client, collection.questions[question], BUDGET, strategy=strategy)
                return composition.prompt, composition.placed, composition.audit, composition.summary

            return await each(questions, one)

        true = {repr(strategy): await asked(strategy) for strategy in (*ORDINAL, ScoreDescending())}
        moved = set()
        for provider in PROVIDERS:
            for name, distorted in MAPS.items():
                recording.distort = {provider: distorted}
                for strategy in ORDINAL:
                    assert await asked(strategy) == true[repr(strategy)], (provider, name, strategy)
                if await asked(ScoreDescending()) != true[repr(ScoreDescending())]:
                    moved.add(provider)
    assert moved == set(PROVIDERS)


def test_measures_on_an_example_worked_by_hand() -> None:
    a, b, c = (
        Item(name, cost, frozenset(holders)) for name, cost, holders in (("a", 5, "xy"), ("b", 9, "z"), ("c", 4, "y"))
    )
    assert packed([a, b, c], 9) == [a, c]
    grades = {"a": 1, "b": 2, "z": 3}
    assert recall([a, c], grades) == pytest.approx(1 / 3)
    gained = 1 / math.log2(2) + 3 / math.log2(3)
    ideal = 7 / math.log2(2) + 3 / math.log2(3) + 1 / math.log2(4)
    assert ndcg([a, b, c], grades) == pytest.approx(gained / ideal)
    assert starved([a, c], [a, b, c], grades)
    assert not starved([a, b], [a, b, c], grades)


def test_the_bootstrap_sees_what_is_there_and_nothing_where_nothing_is() -> None:
    clear = paired_bootstrap([1.0, 0.9, 0.8, 1.0] * 20, [0.5] * 80)
    assert clear.low > 0.4
    assert clear.p == 0
    none = paired_bootstrap([0.0, 1.0] * 40, [1.0, 0.0] * 40)
    assert none.low < 0 < none.high
    assert none.p > 0.5
