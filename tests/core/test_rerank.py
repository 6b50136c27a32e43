"""A reranker's numbers order, cut and trim its own candidates alone; what they leave open, the order before settles."""

from __future__ import annotations

import hashlib
import math
import random

import pytest
from contextbroker.v1.composition_pb2 import Completed, Part
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from broker.core.audited import INCLUDED, Reason, RerankOutcome
from broker.core.compose import compose, finish
from broker.core.composition import Composition
from broker.core.entries import Entry
from broker.core.lanes import Candidate, LaneEnd
from broker.core.lexical import LexicalCandidate, lexical_rerank
from broker.core.plan import rank_lanes
from broker.core.request import CompositionRequest, Floor, Placement, Rerank
from broker.core.rerank import RerankCandidate, Reranked
from broker.core.scores import LocalScore
from broker.core.strategies import Precomputed
from tests.core.building import (
    AS_SENT,
    DISTANCE,
    EVERY,
    ORDINAL,
    POLICY,
    composed,
    excluded,
    frame,
    lane,
    placed,
    ranked,
    referents,
    row,
    without_floor_values,
)
from tests.core.offers import maps, offers, requests
from tests.core.test_gate import run as composed_offers
from tests.wire.test_compositions import streamed

LANE = lane("a", {"a1": 0.9, "a2": 0.8, "a3": 0.7, "a4": 0.6})


def reranked(*lanes, scores, rerank: Rerank | None = None, version: str = "1", message: str = "", **request):
    """Composes with a reranker that gives ``scores`` in the strategy's order."""
    asked = CompositionRequest(
        max_tokens=request.pop("max_tokens", 1_000_000), rerank=rerank or Rerank("scorer"), **request
    )
    given = None if scores is None else tuple(scores)
    return finish(rank_lanes(lanes, asked, POLICY), Reranked(given, version, message))


def by_length(candidates) -> tuple[float, ...]:
    """A scorer like any other: longer contents are better, and many are equal."""
    return tuple(float(len(candidate.content)) for candidate in candidates)


def by_words(candidates) -> tuple[float, ...]:
    return tuple(lexical_rerank("shared text why", [LexicalCandidate(c.title, c.content, c.votes) for c in candidates]))


def test_c6_a_minimum_holds_the_rerankers_score_and_a_floor_the_providers_own():
    composition = reranked(
        lane("a", {"f": 0.40, "g": 0.55}), scores=[0.84, 0.96], rerank=Rerank("scorer", min_score=0.60)
    )
    assert ranked(composition) == placed(composition) == ["f", "g"]
    assert excluded(composition) == {}
    floored = reranked(
        lane("a", {"f": 0.40, "g": 0.55}), scores=[0.84], floors=(Floor("a", "unit", 0.5),), rerank=Rerank("s", 50)
    )
    assert excluded(floored) == {"f": Reason.BELOW_FLOOR}


def test_c36_equal_scores_keep_the_order_before():
    lanes = [lane("a", {"a": 0.9, "b": 0.8, "c": 0.7})]
    assert ranked(reranked(*lanes, scores=[0.5, 0.5, 0.5])) == ["a", "b", "c"]
    assert ranked(reranked(*lanes, scores=[-0.0, 0.0, -0.0])) == ["a", "b", "c"]


def test_higher_scores_come_first_and_frames_without_one_behind_them_in_the_order_before():
    composition = reranked(LANE, scores=[math.nan, -3.0, None, 7.5])
    assert ranked(composition) == ["a4", "a2", "a1", "a3"]
    assert [row(composition, "a", f"a{n}").rerank_score for n in (1, 2, 3, 4)] == ["", "-3", "", "7.5"]
    assert [row(composition, "a", f"a{n}").prior_rank for n in (1, 2, 3, 4)] == [1, 2, 3, 4]
    record = composition.summary.rerank
    assert (record.name, record.version, record.outcome) == ("scorer", "1", RerankOutcome.APPLIED)
    assert (record.candidates, record.scored, record.unscored, record.message) == (50, 2, 2, "")


@pytest.mark.parametrize("infinite", [math.inf, -math.inf])
def test_an_infinity_is_no_score(infinite):
    assert ranked(reranked(LANE, scores=[1.0, infinite, 2.0, 0.0])) == ["a3", "a1", "a4", "a2"]


def test_a_score_is_shown_in_17_digits():
    composition = reranked(lane("a", {"x": 0.5}), scores=[0.1 + 0.2])
    assert row(composition, "a", "x").rerank_score == "0.30000000000000004"


def test_equal_to_the_minimum_is_kept_and_a_frame_without_a_score_is_never_below_it():
    composition = reranked(LANE, scores=[0.5, 0.49, None, 0.9], rerank=Rerank("scorer", min_score=0.5))
    assert placed(composition) == ["a4", "a3", "a1"]
    assert excluded(composition) == {"a2": Reason.BELOW_RERANK_SCORE}
    assert row(composition, "a", "a2").detail == "scorer gave 0.48999999999999999, and the least kept is 0.5"
    assert composition.summary.rerank.unscored == 1


def test_top_n_keeps_so_many_of_those_above_the_minimum_and_says_who_was_trimmed():
    composition = reranked(LANE, scores=[0.1, 0.7, 0.9, 0.8], rerank=Rerank("scorer", top_n=2, min_score=0.75))
    assert placed(composition) == ["a3", "a4"]
    assert excluded(composition) == {"a1": Reason.BELOW_RERANK_SCORE, "a2": Reason.BELOW_RERANK_SCORE}
    composition = reranked(LANE, scores=[0.1, 0.7, None, 0.8], rerank=Rerank("scorer", top_n=2))
    assert placed(composition) == ["a4", "a2"]
    assert row(composition, "a", "a1").detail == "scorer gave 0.10000000000000001, place 3 of 4, and top_n is 2"
    assert row(composition, "a", "a3").detail == "scorer gave no score, place 4 of 4, and top_n is 2"
    assert composition.summary.reasons == {INCLUDED: 2, Reason.RERANK_TRIMMED: 2}


def test_frames_beyond_the_candidates_follow_in_the_order_before_or_are_trimmed_where_a_count_was_asked():
    scores = [1.0, 2.0]
    assert ranked(reranked(LANE, scores=scores, rerank=Rerank("s", 2))) == ["a2", "a1", "a3", "a4"]
    assert ranked(reranked(LANE, scores=scores, rerank=Rerank("s", 2, min_score=1.5))) == ["a2", "a1", "a3", "a4"]
    kept = reranked(LANE, scores=scores, rerank=Rerank("s", 2, min_score=1.5))
    assert excluded(kept) == {"a1": Reason.BELOW_RERANK_SCORE}
    trimmed = reranked(LANE, scores=scores, rerank=Rerank("s", 2, top_n=2, min_score=1.5))
    assert placed(trimmed) == ["a2"]
    assert row(trimmed, "a", "a3").reason == Reason.RERANK_TRIMMED
    assert row(trimmed, "a", "a3").detail == "not among the 2 that s was given, and top_n is 2"


def test_placement_packing_and_local_ranks():
    scores, options = [1.0, 2.0, 3.0, 4.0], {"placement": Placement.FOLD, "max_frames": 3}
    composition = reranked(LANE, scores=scores, **options)
    assert placed(composition) == ["a4", "a2", "a3"]
    assert excluded(composition) == {"a1": Reason.FRAME_LIMIT}
    assert [row(composition, "a", f"a{n}").local_rank for n in (1, 2, 3, 4)] == [1, 2, 3, 4]
    assert {one.frame.id: (one.rank, one.local_rank) for one in composition.placed} == {
        "a4": (1, 4),
        "a3": (2, 3),
        "a2": (3, 2),
    }
    one_each = reranked(LANE, scores=scores, max_frames_per_provider=1)
    assert placed(one_each) == ["a1"]


def test_where_there_are_no_scores_the_order_before_stands_and_nothing_is_trimmed():
    rerank = Rerank("scorer", 2, top_n=1, min_score=100.0)
    composition = reranked(LANE, scores=None, rerank=rerank, version="", message="it did not answer")
    record = composition.summary.rerank
    assert (record.outcome, record.message) == (RerankOutcome.FALLBACK, "it did not answer")
    assert (record.scored, record.unscored, record.top_n, record.min_score) == (0, 2, 1, 100.0)
    assert replace(composition, summary=replace(composition.summary, rerank=None)) == composed(LANE)


def test_scores_of_which_none_is_a_number_are_no_scores():
    composition = reranked(LANE, scores=[None, math.nan, math.inf, None], rerank=Rerank("scorer", top_n=1))
    assert composition.summary.rerank.outcome is RerankOutcome.FALLBACK
    assert composition.summary.rerank.message == "no candidate was given a finite score"
    assert placed(composition) == placed(composed(LANE))


def test_nothing_to_rerank_is_no_failure():
    composition = reranked(lane("a", {}, end=LaneEnd.EMPTY), scores=[])
    assert composition.summary.rerank.outcome is RerankOutcome.APPLIED
    assert composition.placed == ()


def test_a_rerank_is_never_passed_over():
    request = CompositionRequest(max_tokens=1000, rerank=Rerank("scorer"))
    with pytest.raises(ValueError, match="rerank"):
        compose([LANE], request, POLICY)
    with pytest.raises(ValueError, match="rerank"):
        finish(rank_lanes([LANE], replace(request, rerank=None), POLICY), Reranked((1.0,)))
    with pytest.raises(ValueError, match="3 scores for 4 candidates"):
        finish(rank_lanes([LANE], request, POLICY), Reranked((1.0, 2.0, 3.0)))


def test_a_precomputed_order_can_still_be_read_from_the_audit():
    strategy = Precomputed((("a", "a3"), ("a", "a1")))
    composition = reranked(LANE, scores=[1.0, 2.0, 3.0, 4.0], strategy=strategy)
    rows = sorted(composition.audit, key=lambda one: one.prior_rank)
    assert [one.frame_id for one in rows[: composition.summary.strategy.params["named"]]] == ["a3", "a1"]


def test_candidates_are_the_first_of_the_order_with_their_words_and_names():
    request = CompositionRequest(max_tokens=10_000, rerank=Rerank("scorer", 3))
    shared = lane("b", [frame("same", 0.9, "text one"), frame("other", 0.8, "text two", title="Title")])
    plan = rank_lanes([lane("a", [frame("x", 0.5, "text one")]), shared, LANE_C], request, POLICY)
    assert [(c.title, c.content) for c in plan.candidates] == [("x", "text one"), ("Title", "text two"), ("c", "c")]
    assert [(c.handle.provider, c.handle.frame_id) for c in plan.candidates] == [("a", "x"), ("b", "other"), ("c", "c")]
    assert [len(c.votes) for c in plan.candidates] == [2, 1, 1]
    assert rank_lanes([LANE], replace(request, rerank=None), POLICY).candidates == ()


LANE_C = lane("c", {"c": 0.5})


@pytest.mark.parametrize("strategy", EVERY, ids=lambda one: type(one).__name__)
def test_no_score_is_in_a_candidates_reach(strategy):
    request = CompositionRequest(max_tokens=10_000, rerank=Rerank("scorer"), strategy=strategy)
    plan = rank_lanes([LANE, lane("b", {"b1": 0.123456789, "a1": 0.3})], request, POLICY)
    seen: set[int] = set()
    waiting: list[object] = list(plan.candidates)
    while waiting:
        thing = waiting.pop()
        if id(thing) in seen or isinstance(thing, type):
            continue
        seen.add(id(thing))
        assert not isinstance(thing, LocalScore | Entry | Candidate)
        assert thing != 0.123456789
        waiting += referents(thing)
    assert len(seen) > len(plan.candidates)


numbers = st.none() | st.floats() | st.sampled_from([0.0, -0.0, 1.0, 2.0])


@given(offers, maps, requests(), st.data())
def test_the_order_and_the_trims_are_those_of_a_plain_sort(offers, levels, request, data):
    before = composed_offers(offers, levels, request)
    prior = [(r.provider, r.frame_id, r.content_digest) for r in _by_rank(before)]
    rerank = data.draw(st.builds(Rerank, st.just("s"), st.integers(1, 12), st.none() | st.integers(1, 12), numbers))
    if rerank.min_score is not None and not math.isfinite(rerank.min_score):
        rerank = replace(rerank, min_score=None)
    pool = prior[: rerank.candidates]
    scores = data.draw(st.lists(numbers, min_size=len(pool), max_size=len(pool)))
    lanes = [offer.lane(levels[offer.provider]) for offer in offers]
    floors = tuple(floor for offer in offers for floor in offer.floors(levels[offer.provider]))
    plan = rank_lanes(lanes, replace(request, floors=floors, rerank=rerank), POLICY)
    after = finish(plan, Reranked(tuple(scores)))
    assert finish(plan, Reranked(tuple(scores))) == after

    finite = [score if score is not None and math.isfinite(score) else None for score in scores]
    if all(score is None for score in finite):
        expected, below, trimmed = prior, set(), set()
    else:
        places = sorted(range(len(pool)), key=lambda i: (1, 0.0, i) if finite[i] is None else (0, -finite[i], i))
        expected = [pool[i] for i in places] + prior[len(pool) :]
        least = -math.inf if rerank.min_score is None else rerank.min_score
        below = {i for i in range(len(pool)) if finite[i] is not None and finite[i] < least}
        standing = [i for i in places if i not in below]
        top = len(prior) if rerank.top_n is None else rerank.top_n
        trimmed = {pool[i] for i in standing[top:]} | (set(prior[len(pool) :]) if rerank.top_n is not None else set())
        below = {pool[i] for i in below}
    found = {(r.provider, r.frame_id, r.content_digest): r for r in _by_rank(after)}
    assert list(found) == expected
    assert {name for name, r in found.items() if r.reason == Reason.BELOW_RERANK_SCORE} == below
    assert {name for name, r in found.items() if r.reason == Reason.RERANK_TRIMMED} == trimmed
    assert [found[name].local_rank for name in prior] == [r.local_rank for r in _by_rank(before)]
    assert [r.frame_id for r in after.audit] == [r.frame_id for r in before.audit]
    assert all(r.included == (r.reason == "") == (r.position > 0) for r in after.audit)


def _by_rank(composition: Composition):
    return sorted((r for r in composition.audit if r.rank), key=lambda r: r.rank)


def reranked_offers(offers, levels, request, scorer, seed=None) -> Composition:
    shuffle = None if seed is None else random.Random(seed)
    lanes = [offer.lane(levels[offer.provider], shuffle) for offer in offers]
    floors = tuple(floor for offer in offers for floor in offer.floors(levels[offer.provider]))
    if shuffle is not None:
        shuffle.shuffle(lanes)
    plan = rank_lanes(lanes, replace(request, floors=floors), POLICY)
    return finish(plan, Reranked(scorer(plan.candidates)))


reranks = st.builds(Rerank, st.just("s"), st.integers(1, 20), st.none() | st.integers(1, 20), st.none() | st.just(41.0))
scorers = st.sampled_from([by_length, by_words])


@given(offers, maps, requests(pressure=False), reranks, scorers)
def test_t3_without_pressure_the_reranker_drops_under_its_own_names_and_only_where_asked(
    offers, levels, request, rerank, scorer
):
    composition = reranked_offers(offers, levels, replace(request, rerank=rerank), scorer)
    allowed = {INCLUDED, Reason.BELOW_FLOOR, Reason.DUPLICATE, Reason.INVALID}
    if rerank.top_n is not None:
        allowed.add(Reason.RERANK_TRIMMED)
    if rerank.min_score is not None:
        allowed.add(Reason.BELOW_RERANK_SCORE)
    assert set(composition.summary.reasons) <= allowed


@given(offers, maps, maps, requests(ORDINAL), reranks, scorers)
def test_t2_a_strictly_increasing_map_of_any_scores_changes_no_byte(offers, levels, mapped, request, rerank, scorer):
    asked = replace(request, rerank=rerank)
    before, after = (reranked_offers(offers, numbers, asked, scorer) for numbers in (levels, mapped))
    assert without_floor_values(after) == without_floor_values(before)


@given(offers, maps, requests(), reranks, scorers, st.integers())
def test_t4_no_order_of_arrival_changes_anything(offers, levels, request, rerank, scorer, seed):
    asked = replace(request, rerank=rerank)
    assert reranked_offers(offers, levels, asked, scorer, seed) == reranked_offers(offers, levels, asked, scorer)


GOLDEN = [
    "2c14de6a2b9a7252304e38ebd15283ff",
    "3a0b371d8f0160ae46dd4bbe2b8c3ddb",
    "aa1fd55bd9799be29f04533ba7a87954",
    "b6a6e5b2080fa2370baebf5714fe2c91",
    "090a499ddd30760b4782794aff149097",
    "bbff9032efc69ea122fac0e983e00788",
    "e8f018e10c91e2eb28bdb4b0453e20c3",
]
"""Digests of all that an answer says, item by item, made before reranking was built: one for each of ``EVERY``."""


@pytest.mark.parametrize("index", range(len(GOLDEN)))
def test_without_a_rerank_not_a_byte_is_other_than_before_there_were_any(index):
    lanes = [
        lane("a", [frame("x", 0.9), frame("y", 0.5, "shared"), frame("z", 0.1)]),
        lane("b", [frame("s", 0.2, "shared"), frame("t", 1.9, "far away")], DISTANCE),
        lane("c", [frame("u", None), frame("", None)], AS_SENT),
    ]
    composition = composed(
        *lanes,
        strategy=EVERY[index],
        max_tokens=250,
        floors=(Floor("a", "unit", 0.3),),
        question="why?",
        include_local_scores=True,
    )
    unversioned = replace(composition.summary.strategy, version="0")
    composition = replace(composition, summary=replace(composition.summary, strategy=unversioned))
    digest = hashlib.sha256()
    for message in streamed(composition):
        without_later_fields(message.part)
        for _, items in message.part.ListFields():
            for item in [items] if isinstance(items, Completed) else items:
                digest.update(item.SerializeToString(deterministic=True))
    assert digest.hexdigest()[:32] == GOLDEN[index]


def without_later_fields(part: Part) -> None:
    """Takes out what audits did not say yet when the digests were made."""
    for audit_row in part.audit:
        for name in ("role_tokens", "tokens", "admitted", "recorded_at"):
            audit_row.ClearField(name)
    if part.HasField("completed"):
        for name in ("placement_asked", "fold_min_tokens", "render", "limit_conflicts", "limits"):
            part.completed.summary.ClearField(name)
        for name in ("safety_factor", "usable_tokens", "split"):
            part.completed.summary.budget.ClearField(name)


def test_a_candidate_is_a_plain_value():
    request = CompositionRequest(max_tokens=10_000, rerank=Rerank("scorer"))
    once, again = (rank_lanes([LANE], request, POLICY).candidates for _ in range(2))
    assert once == again
    assert all(isinstance(one, RerankCandidate) for one in once)
